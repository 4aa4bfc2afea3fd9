"""Mix-ups of equation (1): the product, the scale, the softmax, and the weighted sum."""

import numpy as np

from qkv.mistakes._layer import CannotApplyError, no_mask, softmax
from qkv.mistakes._mix_up import MixUp


def _reshaped_keys(s, step):
    K = s.K_repeated
    return s.asked(s.Q) @ K.reshape(*K.shape[:2], K.shape[3], K.shape[2])


def _products():
    yield MixUp(
        "keys-reshaped-to-fit",
        "keys are reshaped where they have to be transposed",
        who="who gets an error about shapes and repairs it with reshape or view",
        seen_as="square-weight",
        symptom="Shapes fit. A score mixes several keys.",
        cure="Transpose the last two axes.",
        right="S = Q @ K.swapaxes(-1, -2)",
        wrong="S = Q @ K.reshape(batch, h, d_k, n_k)",
        planted={"products": _reshaped_keys},
    )
    yield MixUp(
        "scores-turned",
        "queries and keys are exchanged in the product, so the scores are turned",
        who="who writes K @ Q.T, or exchanges two letters of an einsum",
        seen_as="square-weight",
        symptom="Shapes fit if there are as many queries as keys.",
        cure="A row of scores belongs to a query, a column to a key: bhqd,bhkd->bhqk.",
        right="S = Q @ K.swapaxes(-1, -2)",
        wrong="S = K @ Q.swapaxes(-1, -2)",
        planted={"products": lambda s, step: step(s).swapaxes(-1, -2)},
        mixes=frozenset({"queries"}),
    )
    yield MixUp(
        "product-by-component",
        "queries and keys are multiplied component by component, not as matrices",
        who="who writes Q * K for Q @ K.T",
        seen_as="idle",
        symptom="Weights have the shape of the values. A token does not see the others.",
        cure="Use the product of matrices.",
        right="A = softmax(Q @ K.swapaxes(-1, -2) * scale)\nheads = A @ V",
        wrong="A = softmax(Q * K * scale)\nheads = A * V",
        planted={
            "products": lambda s, step: s.Q * s.K_repeated,
            "mask": no_mask,
            "heads": lambda s, step: s.weights * s.V_repeated,
        },
        mixes=frozenset({"queries"}),
    )
    yield MixUp(
        "scores-added-over-heads",
        "the scores are added up over the heads, or the heads are not split and the scores are "
        "divided by √d_k, so all heads attend alike",
        who="who leaves the letter of the heads out of an einsum's result",
        seen_as="heads-mixed",
        symptom="All heads have the same weights.",
        cure="Keep the axis of the heads: bhqd,bhkd->bhqk.",
        right='S = np.einsum("bhqd,bhkd->bhqk", Q, K)',
        wrong='S = np.einsum("bhqd,bhkd->bqk", Q, K)[:, None]',
        planted={"products": lambda s, step: step(s).sum(axis=1, keepdims=True)},
    )


def _scaled(
    name,
    what,
    wrong,
    factor,
    cure="Multiply the scores by the layer's scale, once: by 1/√d_k, or in T5 by 1.",
    who=None,
    right="S = Q @ K.swapaxes(-1, -2) / sqrt(d_k)",
    rare=False,
):
    return MixUp(
        name,
        what,
        who=who or "who writes the scale by hand",
        seen_as="scale",
        symptom="Weights are too sharp or too even.",
        cure=cure,
        right=right,
        wrong=wrong,
        planted={"scale": lambda s, step: factor(s)},
        rare=rare,
    )


def _scale(s):
    return s.given_scale or s.d_k**-0.5


def _unless_the_same(size, *others):
    """A width, unless the layer has another one that is equal and is tried already."""

    def width(s):
        if size(s) in [other(s) for other in others]:
            raise CannotApplyError("this width is tried under another name")
        return size(s)

    return width


def _scales():
    product = "S = Q @ K.swapaxes(-1, -2)"

    def d_model(s):
        return s.X_Q.shape[-1]

    def all_heads(s):
        return s.h * s.d_k

    def d_k(s):
        return s.d_k

    def d_v(s):
        return s.d_v

    yield _scaled(
        "scale-missing",
        "the scores are not scaled",
        product,
        lambda s: 1.0,
    )
    yield _scaled(
        "scale-twice-or-by-d_k",
        "the scale is applied twice; for 1/√d_k this is a division by d_k",
        f"{product} / d_k",
        lambda s: _scale(s) ** 2,
        who="who scales by hand, and calls scaled_dot_product_attention, which scales",
    )
    yield _scaled(
        "scale-by-twice-d_k",
        "the scores are divided by 2·d_k, and not multiplied by the layer's scale",
        f"{product} * d_k ** -1 / 2",
        lambda s: 1 / (2 * s.d_k),
        who="who writes the power without parentheses: Python takes it before the quotient",
        right=f"{product} * d_k ** (-1 / 2)",
        rare=True,
    )
    yield _scaled(
        "scale-of-one-side",
        "the scores are multiplied by the root of the scale, as if only queries or only keys were "
        "scaled by it",
        f"{product} * sqrt(scale)",
        lambda s: _scale(s) ** 0.5,
        who="who scales queries and keys by the root each, and forgets one",
    )
    yield _scaled(
        "scale-multiplied",
        "the scores are divided by the scale, where they have to be multiplied by it",
        f"{product} / scale",
        lambda s: 1 / _scale(s),
        who="who writes * sqrt(d_k) for / sqrt(d_k)",
    )
    yield _scaled(
        "scale-by-d_k-where-there-is-another",
        "the scores are multiplied by 1/√d_k, and this layer has another scale",
        f"{product} / sqrt(d_k)",
        lambda s: s.d_k**-0.5,
        who="who loads T5, which does not scale",
        cure="Use the layer's own scale.",
        right=f"{product} * scale",
    )
    for name, said, size in (
        ("d_model", "d_model", d_model),
        ("all-heads", "h·d_k", _unless_the_same(all_heads, d_model)),
        ("d_v", "d_v", _unless_the_same(d_v, d_k)),
        ("h", "h", lambda s: s.h),
        ("n_k", "n_k", lambda s: s.X_K.shape[1]),
        ("n_q", "n_q", _unless_the_same(lambda s: s.X_Q.shape[1], lambda s: s.X_K.shape[1])),
    ):
        for root in (True, False):
            product_of_two = f"({said})" if "·" in said else said
            of = f"√{product_of_two}" if root else said
            written = f"sqrt({said})" if root else product_of_two
            yield _scaled(
                f"scale-by-{'root-of-' * root}{name}",
                f"the scores are divided by {of}, and not multiplied by the layer's scale",
                f"{product} / {written.replace('·', ' * ')}",
                lambda s, size=size, root=root: size(s) ** (-0.5 if root else -1),
                rare=name != "d_model",
            )
    yield MixUp(
        "scale-after-the-softmax",
        "the weights are scaled, and the scores are not",
        who="who applies the scale one line too late",
        seen_as="weights-wrong",
        symptom="Weights of a query do not sum to 1.",
        cure="Scale the scores before the softmax.",
        right="A = softmax(S * scale)",
        wrong="A = softmax(S) * scale",
        planted={
            "scores": lambda s, step: s.products,
            "weights": lambda s, step: step(s) * s.scale,
        },
    )


def _over(*axis):
    def weights(s, step):
        if 0 in axis and not s.given.has_batch and len(axis) < 4:
            raise CannotApplyError("there is no batch")
        return softmax(s.masked, axis)

    return weights


def _zero_where_hidden(s):
    return np.where(np.isneginf(s.masked), 0, s.masked)


def _log_softmax(s, step):
    largest = s.masked.max(axis=-1, keepdims=True)
    if not np.isfinite(s.masked).all():
        raise CannotApplyError("a hidden weight would be minus infinity")
    return s.masked - largest - np.log(np.exp(s.masked - largest).sum(axis=-1, keepdims=True))


def _with_a_zero(s, step):
    return softmax(np.pad(s.masked, ((0, 0), (0, 0), (0, 0), (0, 1))))[..., :-1]


def _largest(s, step):
    largest = s.masked.argmax(axis=-1)[..., None]
    return (np.arange(s.masked.shape[-1]) == largest).astype(s.masked.dtype)


def _sums_of_others(s, step):
    if s.masked.shape[-1] != s.masked.shape[-2]:
        raise CannotApplyError("there are not as many keys as queries")
    E = np.exp(s.masked)
    return E / E.sum(axis=-1)[..., None, :]


def _other_weights(name, what, wrong, symptom, weights, **other):
    usual = {
        "who": "who writes equation (1) by hand",
        "cure": "Take one softmax, over the keys.",
        "right": "A = softmax(S)",
        "seen_as": "weights-wrong",
        "rare": True,
    }
    return MixUp(
        name, what, symptom=symptom, wrong=wrong, planted={"weights": weights}, **usual | other
    )


def _softmaxes():
    axes = {
        "who": "who leaves out the axis of the softmax, or counts axes of another layout",
        "cure": "Take the softmax over the keys, the last axis of the scores.",
        "right": "A = softmax(S, axis=-1)",
    }
    for name, said, axis, mixes in (
        ("queries", "the queries", (-2,), frozenset({"queries"})),
        ("heads", "the heads", (1,), frozenset()),
        ("samples", "the samples of the batch", (0,), frozenset({"samples"})),
        ("queries-and-keys", "queries and keys together", (-2, -1), frozenset({"queries"})),
        ("everything", "all scores of all samples together", (0, 1, 2, 3), frozenset({"samples"})),
        ("samples-and-heads", "samples and heads together", (0, 1), frozenset({"samples"})),
    ):
        yield MixUp(
            f"softmax-over-{name}",
            f"the softmax is taken over {said}",
            **axes,
            seen_as="weights-wrong",
            symptom="The weights of a query do not sum to 1.",
            wrong=f"A = softmax(S, axis={axis[0] if len(axis) == 1 else axis})",
            planted={"weights": _over(*axis)},
            rare=len(axis) > 1,
            mixes=mixes,
        )
    yield _other_weights(
        "softmax-twice",
        "the softmax is taken twice",
        "A = softmax(softmax(S))",
        "Weights are almost equal, and hidden keys get some.",
        lambda s, step: softmax(step(s)),
        seen_as="flat-weights",
        rare=False,
    )
    yield _other_weights(
        "scores-negated",
        "the scores have the wrong sign",
        "A = softmax(-S)",
        "A query attends least to what is most like it.",
        lambda s, step: softmax(np.where(np.isneginf(s.masked), s.masked, -s.masked)),
    )
    yield _other_weights(
        "largest-score-only",
        "each query attends to the key with the largest score alone",
        "A = one_hot(S.argmax(axis=-1))",
        "Weights are 0 and 1.",
        _largest,
    )
    yield _other_weights(
        "softmax-missing",
        "there is no softmax",
        "A = where(mask, S, 0)",
        "Weights are negative, or do not sum to 1.",
        lambda s, step: _zero_where_hidden(s),
        rare=False,
    )
    yield _other_weights(
        "log-softmax",
        "the softmax is a log-softmax",
        "A = log_softmax(S)",
        "Weights are negative.",
        _log_softmax,
    )
    yield _other_weights(
        "sigmoid-for-softmax",
        "each score passes through a sigmoid, not through a softmax",
        "A = sigmoid(S)",
        "Weights of a query do not sum to 1.",
        lambda s, step: 1 / (1 + np.exp(-s.masked)),
    )
    yield _other_weights(
        "softmax-not-normalised",
        "the exponentials of the scores are not divided by their sum",
        "A = exp(S)",
        "Weights of a query do not sum to 1.",
        lambda s, step: np.exp(s.masked),
    )
    yield _other_weights(
        "relu-for-softmax",
        "negative scores become 0, and there is no softmax",
        "A = relu(S)",
        "Weights of a query do not sum to 1.",
        lambda s, step: np.maximum(s.masked, 0),
    )
    yield _other_weights(
        "divided-by-the-sum",
        "scores are divided by their sum, and there is no exponential",
        "A = S / S.sum(axis=-1, keepdims=True)",
        "Weights sum to 1, and may be negative, and very large.",
        lambda s, step: _zero_where_hidden(s) / _zero_where_hidden(s).sum(axis=-1, keepdims=True),
    )
    yield _other_weights(
        "sums-without-keepdims",
        "the exponentials are divided by the sum of another query, because the sum lost its axis",
        "A = exp(S) / exp(S).sum(axis=-1)[..., None, :]",
        "Weights of a query do not sum to 1.",
        _sums_of_others,
        who="who writes equation (1) by hand, for one head: there S has two axes, and the line "
        "runs without [..., None, :]",
        cure="Divide each row by its own sum: keepdims=True.",
        mixes=frozenset({"queries"}),
    )
    yield _other_weights(
        "one-more-zero-in-the-softmax",
        "a token whose score and value are zero takes part in the softmax",
        "A = exp(S) / (1 + exp(S).sum(axis=-1, keepdims=True))",
        "Weights of a query sum to less than 1.",
        _with_a_zero,
        who="who makes nn.MultiheadAttention with add_zero_attn=True, or adds 1 to the sum",
        cure="Set add_zero_attn=False, or add no 1; or do so on both sides.",
    )


def _softmax_last(s, step):
    return softmax(_zero_where_hidden(s) @ s.V_repeated)


def _own(s, step):
    if s.X_Q.shape[1] != s.X_K.shape[1]:
        raise CannotApplyError("there are not as many keys as queries")
    return s.asked(s.V_repeated)


def _everywhere(reduced):
    def same(s, step):
        V = s.V_repeated
        n_q = s.masked.shape[-2]
        return np.broadcast_to(reduced(V), (*V.shape[:2], n_q, V.shape[-1]))

    return same


def _keys(s, step):
    X_K, X_V = (s.given.arrays[name] for name in ("X_K", "X_V"))
    if np.array_equal(X_K, X_V):
        raise CannotApplyError("this is the weight of the keys, used for the values")
    return s.weights @ s.K_repeated


def _sums():
    about = {
        "who": "who writes the weighted sum as an einsum",
        "right": 'heads = np.einsum("bhqk,bhkd->bhqd", A, V)',
        "cure": "The keys are added up: their letter is in A and in V, and not in the result.",
    }
    yield MixUp(
        "weights-turned",
        "the weights are turned, so each value is given out by the wrong token",
        **about,
        seen_as="square-weight",
        symptom="Shapes fit if there are as many queries as keys.",
        wrong='heads = np.einsum("bhkq,bhkd->bhqd", A, V)',
        planted={"heads": lambda s, step: s.weights.swapaxes(-1, -2) @ s.V_repeated},
        mixes=frozenset({"queries"}),
    )
    yield MixUp(
        "own-value-only",
        "each token gets its own value, so the weights change nothing",
        **about,
        seen_as="idle",
        symptom="Tokens do not see each other, and scores change nothing.",
        wrong='heads = np.einsum("bhqk,bhqd->bhqd", A, V)',
        planted={"heads": _own},
    )
    yield MixUp(
        "values-summed-everywhere",
        "each token gets the sum of all values, so the weights change nothing",
        **about,
        seen_as="same-vector",
        symptom="Each query has the same output.",
        wrong='heads = np.einsum("bhqk,bhvd->bhqd", A, V)',
        planted={"heads": _everywhere(lambda V: V.sum(axis=-2, keepdims=True))},
    )
    yield MixUp(
        "softmax-after-the-values",
        "the softmax is taken of the weighted sum, and not of the scores",
        who="who sets a bracket in the wrong place",
        right="heads = softmax(S) @ V",
        cure="Take the softmax of the scores first.",
        seen_as="weights-wrong",
        symptom="Each head's numbers are positive and sum to 1.",
        wrong="heads = softmax(S @ V)",
        planted={"heads": _softmax_last},
        rare=True,
    )
    yield MixUp(
        "values-scaled-too",
        "the scale is applied to the scores and to the values",
        who="who scales queries, keys and values in one line",
        right="heads = A @ V",
        cure="Scale the scores only.",
        seen_as="scale",
        symptom="Without biases, outputs are the right ones, scaled.",
        wrong="heads = A @ (V * scale)",
        planted={"heads": lambda s, step: step(s) * s.scale},
        rare=True,
    )
    yield MixUp(
        "values-averaged",
        "each token gets the mean of all values, so the weights change nothing",
        **about,
        seen_as="same-vector",
        symptom="Each query has the same output.",
        wrong="heads = V.mean(axis=-2, keepdims=True)",
        planted={"heads": _everywhere(lambda V: V.mean(axis=-2, keepdims=True))},
    )
    yield MixUp(
        "keys-used-as-values",
        "the keys are added up, and not the values",
        **about | {"cure": "Multiply the weights by the values: A @ V."},
        seen_as="idle",
        symptom="The source and the weight of the values change nothing.",
        wrong="heads = A @ K",
        planted={"heads": _keys},
    )
    yield MixUp(
        "weights-averaged-over-heads",
        "the weights are averaged over the heads, so all heads attend alike",
        who="who takes the weights that nn.MultiheadAttention returns, which are averaged",
        seen_as="heads-mixed",
        symptom="All heads have the same weights.",
        cure="Keep the weights of each head: average_attn_weights=False.",
        right="heads = A @ V",
        wrong="heads = A.mean(axis=1, keepdims=True) @ V",
        planted={"weights": lambda s, step: step(s).mean(axis=1, keepdims=True)},
    )


MIX_UPS = (*_products(), *_scales(), *_softmaxes(), *_sums())
