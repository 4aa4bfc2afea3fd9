"""Mix-ups of what goes in: the wrong source, no projection or two, a norm or positions added."""

import numpy as np

from qkv.mistakes._layer import ROLES, CannotApplyError, given, no_mask
from qkv.mistakes._mix_up import MixUp

_SOURCES = ("X_Q", "X_K", "X_V")


def _mask_that_fits(s, step):
    """A mask that hides nothing fits any number of keys."""
    mask = step(s)
    return np.ones((1, 1, s.X_Q.shape[1], s.X_K.shape[1]), bool) if mask.all() else mask


# What is said of a projection that gets the source of another, where lengths are no obstacle.
_AS_MANY_AS_KEYS = "Without a mask no error: there is one output for each token of X_K."
_NO_ERROR = {
    ("K", "Q"): _AS_MANY_AS_KEYS,
    ("Q", "KV"): "Without a mask no error, for other lengths too.",
    ("K", "V"): "No error, because keys and values are equally many.",
    ("V", "K"): "No error, because keys and values are equally many.",
}


def _wrong_source():
    about = {
        "seen_as": "only-cross-attention",
        "cure": "Pass the sources by name.",
    }
    yield MixUp(
        "X_K-and-X_V-exchanged",
        "the sources of keys and values are exchanged",
        **about,
        symptom="No error, because keys and values are equally many. Where they have one source, "
        "the output is right.",
        who="who calls cross-attention by position: Keras takes the value before the key",
        right="layer(query=X_Q, key=X_K, value=X_V)",
        wrong="layer(X_Q, X_K, X_V)  # Keras; the same in PyTorch is layer(X_Q, X_V, X_K)",
        planted={"X_K": given("X_V"), "X_V": given("X_K")},
    )
    yield MixUp(
        "X_Q-and-X_K-exchanged",
        "the sources of queries and keys are exchanged",
        **about,
        symptom="No error in self-attention, or where the lengths are equal.",
        who="who passes the sources by position, in another order than the layer's",
        right="layer(query=X_Q, key=X_K, value=X_V)",
        wrong="layer(query=X_K, key=X_Q, value=X_V)",
        planted={"X_Q": given("X_K"), "X_K": given("X_Q")},
    )
    yield MixUp(
        "X_Q-and-the-others-exchanged",
        "queries are made from the source of the keys and values, and these from X_Q",
        **about,
        symptom=_AS_MANY_AS_KEYS,
        who="who takes the encoder's output for the source of the queries",
        right="layer(query=X_Q, key=X_K, value=X_K)",
        wrong="layer(query=X_K, key=X_Q, value=X_Q)",
        planted={
            "X_Q": given("X_K"),
            "X_K": given("X_Q"),
            "X_V": given("X_Q"),
            "mask": _mask_that_fits,
        },
    )
    for taken, letters in [
        ("Q", "K"), ("Q", "V"), ("Q", "KV"), ("K", "Q"), ("K", "V"), ("V", "K"),
    ]:  # fmt: skip
        whose = " and ".join(ROLES[letter] for letter in letters)
        names = "-and-".join(f"X_{letter}" for letter in letters)
        yield MixUp(
            f"X_{taken}-used-for-{names}",
            f"the {whose} are made from X_{taken}, the source of the {ROLES[taken]}",
            who="who writes cross-attention and gives one projection the wrong source",
            seen_as="only-cross-attention",
            symptom=_NO_ERROR.get(
                (taken, letters), "No error in self-attention, or where the lengths are equal."
            ),
            cure="Keys come from X_K, values from X_V: pass each to its own projection."
            if taken != "Q" and "Q" not in letters
            else "In cross-attention, queries come from one source, keys and values from the "
            "other.",
            right=f"{letters[0]} = X_{letters[0]} @ W_{letters[0]}",
            wrong=f"{letters[0]} = X_{taken} @ W_{letters[0]}",
            planted={
                **{f"X_{letter}": given(f"X_{taken}") for letter in letters},
                "mask": _mask_that_fits,
            },
        )


def _not_projected(letter):
    def unprojected(s, step):
        X = getattr(s, f"X_{letter}")
        if X.shape[-1] != step(s).shape[-1]:
            raise CannotApplyError("the source is not as wide as its projection")
        return X

    return unprojected


def _twice(letter):
    def projected_twice(s, step):
        W, b = getattr(s, f"W_{letter}"), getattr(s, f"b_{letter}")
        if W.shape[0] != W.shape[1]:
            raise CannotApplyError("the projection is not as wide as the source")
        return step(s) @ W + b

    return projected_twice


def _projections():
    for letters in ("Q", "K", "V", "QK", "QKV"):
        whose = ", ".join(ROLES[letter] for letter in letters[:-1])
        whose = f"{whose} and {ROLES[letters[-1]]}" if whose else ROLES[letters]
        name = "-and-".join(ROLES[letter] for letter in letters)
        first = letters[0]
        yield MixUp(
            f"{name}-not-projected",
            f"the {whose} are not projected",
            who="who takes the Q of MultiHead for the Q of equation (1)",
            seen_as="steps",
            symptom="Shapes fit where heads together are as wide as the source.",
            cure="Multiply the source by its weight first.",
            right=f"{first} = X_{first} @ W_{first}",
            wrong=f"{first} = X_{first}",
            planted={f"{letter}_packed": _not_projected(letter) for letter in letters},
        )
        yield MixUp(
            f"{name}-projected-twice",
            f"the {whose} are projected twice by the same weight",
            who="who projects, and passes the result to a layer that projects",
            seen_as="steps",
            symptom="Shapes fit where heads together are as wide as the source.",
            cure="Pass the source: nn.MultiheadAttention projects it.",
            right=f"{first} = X_{first} @ W_{first}",
            wrong=f"{first} = (X_{first} @ W_{first}) @ W_{first}",
            planted={f"{letter}_packed": _twice(letter) for letter in letters},
        )
    yield MixUp(
        "relu-after-the-projections",
        "queries, keys and values pass through a ReLU",
        who="who makes the projections of Dense layers with an activation",
        seen_as="steps",
        symptom="All scores are positive, or zero.",
        cure="Use linear maps without an activation.",
        right="Q = X_Q @ W_Q + b_Q",
        wrong="Q = relu(X_Q @ W_Q + b_Q)",
        planted=dict.fromkeys(
            ("Q_packed", "K_packed", "V_packed"), lambda s, step: np.maximum(step(s), 0)
        ),
        rare=True,
    )


def layer_norm(X):
    """Mean 0 and variance 1 for each token, with PyTorch's eps and without learned parameters."""
    centred = X - X.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)


def rms_norm(X):
    """Mean square 1 for each token."""
    return X / np.sqrt((X**2).mean(axis=-1, keepdims=True) + 1e-6)


NORMS = (
    ("layer-norm", "a LayerNorm", "mean 0 and variance 1", layer_norm),
    ("rms-norm", "an RMSNorm", "mean square 1", rms_norm),
)


def _norms():
    for name, title, _, norm in NORMS:
        for places, said in (
            (_SOURCES, "the sources pass"),
            (("X_Q",), "the source of the queries passes"),
        ):
            whose = "the-sources" if len(places) == 3 else "X_Q"
            yield MixUp(
                f"{name}-on-{whose}",
                f"{said} through {title} without learned parameters first",
                who="who compares a whole block (pre-norm) with its attention layer",
                seen_as="steps",
                symptom="Numbers agree if the source is normed already.",
                cure="Give both sides the same source: normed, or not.",
                right="layer(X)",
                wrong="layer(norm(X))",
                planted=dict.fromkeys(places, lambda s, step, norm=norm: norm(step(s))),
                rare=name == "rms-norm" or len(places) == 1,
            )
        yield MixUp(
            f"{name}-on-queries-and-keys",
            f"queries and keys of each head pass through {title} without learned parameters",
            who="who loads weights into a model with QK-norm, or out of one",
            seen_as="steps",
            symptom="Scores are bounded by d_k, before the scale.",
            cure="Use the norm on both sides, or on none.",
            right="S = Q @ K.T",
            wrong="S = norm(Q) @ norm(K).T",
            planted=dict.fromkeys(("Q", "K"), lambda s, step, norm=norm: norm(step(s))),
            rare=True,
        )
    yield MixUp(
        "queries-and-keys-of-length-1",
        "queries and keys of each head are divided by their length",
        who="who takes the cosine for the dot product",
        seen_as="flat-weights",
        symptom="Weights are almost equal.",
        cure="Use the dot product, scaled by 1/√d_k.",
        right="S = Q @ K.T",
        wrong="S = cosine(Q, K)",
        planted=dict.fromkeys(
            ("Q", "K"),
            lambda s, step: step(s) / np.linalg.norm(step(s), axis=-1, keepdims=True),
        ),
        rare=True,
    )


def _angles(n, width):
    frequencies = 10000.0 ** (-2 * np.arange((width + 1) // 2) / width)
    return np.arange(n)[:, None] * frequencies


def _add_positions(s, step):
    X = step(s)
    angles = _angles(*X.shape[-2:])
    waves = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(angles), -1)
    return X + waves[:, : X.shape[-1]].astype(X.dtype)


def _rotate(pairs):
    def rotated(s, step):
        X = step(s)
        d = X.shape[-1]
        if d % 2:
            raise CannotApplyError("a head of odd width is not rotated")
        angles = _angles(X.shape[-2], d).astype(X.dtype)
        first, second = pairs(d)
        turned = X.copy()
        turned[..., first] = X[..., first] * np.cos(angles) - X[..., second] * np.sin(angles)
        turned[..., second] = X[..., second] * np.cos(angles) + X[..., first] * np.sin(angles)
        return turned

    return rotated


def _evens_first(s, step):
    X = step(s)
    if X.shape[-1] % 2:
        raise CannotApplyError("a head of odd width is not rotated")
    return np.concatenate([X[..., 0::2], X[..., 1::2]], axis=-1)


def _halves(d):
    return slice(0, d // 2), slice(d // 2, None)


def _neighbours(d):
    return slice(0, None, 2), slice(1, None, 2)


def _reshape_batch(s, step):
    if not s.given.has_batch:
        raise CannotApplyError("there is no batch")
    X = step(s)
    return X.reshape(X.shape[1], X.shape[0], X.shape[2]).swapaxes(0, 1)


def _reshape_back(s, step):
    output = step(s)
    return output.swapaxes(0, 1).reshape(output.shape)


def _in_one_sequence(s, step):
    X = step(s)
    if len(X) == 1:
        raise CannotApplyError("there is one sample")
    return X.reshape(1, -1, X.shape[-1])


def _apart_again(s, step):
    output = step(s)
    return output.reshape(len(s.given.arrays["X_Q"]), -1, output.shape[-1])


def _first_sample(s, step):
    X = step(s)
    if len(X) == 1:
        raise CannotApplyError("there is one sample")
    return np.broadcast_to(X[:1], X.shape)


def _positions():
    yield MixUp(
        "sources-times-root-of-d_model",
        "the sources are multiplied by √d_model",
        who="who compares a model, which scales its embeddings, with its attention layer",
        seen_as="scale",
        symptom="Weights are too sharp, and outputs too large.",
        cure="Give both sides the same source.",
        right="layer(X)",
        wrong="layer(X * sqrt(d_model))",
        planted=dict.fromkeys(_SOURCES, lambda s, step: step(s) * step(s).shape[-1] ** 0.5),
        rare=True,
    )
    yield MixUp(
        "positions-added",
        "the paper's sines and cosines of the position are added to the sources",
        who="who compares a model with its attention layer",
        seen_as="steps",
        symptom="No position is right, and neither is the first: its cosines are 1.",
        cure="Give both sides the same source: with positions, or without.",
        right="layer(X)",
        wrong="layer(X + positions)",
        planted=dict.fromkeys(_SOURCES, _add_positions),
        rare=True,
    )
    yield MixUp(
        "rotation-missing",
        "queries and keys are not rotated by their position (RoPE)",
        who="who writes a rotary model's layer by hand, as equation (1) says",
        seen_as="rotation",
        symptom="A single token is right, and longer sequences are not.",
        cure="Rotate queries and keys by their positions before the product.",
        right="S = rope(Q) @ rope(K).T",
        wrong="S = Q @ K.T",
        planted={},  # MultiHead does not rotate
    )
    for name, pairs, said in (
        ("halves", _halves, "the two halves of a head"),
        ("neighbours", _neighbours, "neighbouring components"),
    ):
        yield MixUp(
            f"rotated-by-{name}",
            f"queries and keys are rotated by their position (RoPE, base 10000, pairs of {said})",
            who="who moves weights between a rotary model and one without rotation",
            seen_as="rotation",
            symptom="A single token is right, and longer sequences are not.",
            cure="Rotate on both sides, or on none.",
            right="S = Q @ K.T",
            wrong="S = rope(Q) @ rope(K).T",
            planted=dict.fromkeys(("Q", "K"), _rotate(pairs)),
            rare=True,
        )
    for letter, whose, others in (("Q", "queries", "keys"), ("K", "keys", "queries")):
        yield MixUp(
            f"{whose}-ordered-for-another-rotation",
            f"each head of the {whose} has its even components first, and the {others} have not, "
            f"or the {others} are in the reverse order of that",
            who="who converts weights from one way of RoPE to the other, and one matrix alone",
            seen_as="rotation",
            symptom="Shapes fit. Components that do not belong together are multiplied.",
            cure="Reorder queries and keys alike, or neither.",
            right="S = Q @ K.T",
            wrong=f"{letter} = np.concatenate([{letter}[..., 0::2], {letter}[..., 1::2]], axis=-1)",
            planted={letter: _evens_first},
            rare=True,
        )


def _swap_batch(s, step):
    if not s.given.has_batch:
        raise CannotApplyError("there is no batch")
    return step(s).swapaxes(0, 1)


def _batch():
    yield MixUp(
        "batch-and-tokens-exchanged",
        "the axes of the batch and of the tokens are exchanged, so that samples attend to each "
        "other",
        who="who passes (batch, n, d_model) to nn.MultiheadAttention without batch_first=True",
        seen_as="only-batches",
        symptom="Shapes fit if there are as many queries as keys. An output changes if another "
        "sample changes.",
        cure="Write batch_first=True, or pass (n, batch, d_model).",
        right="nn.MultiheadAttention(d_model, h, batch_first=True)",
        wrong="nn.MultiheadAttention(d_model, h)",
        planted={
            **dict.fromkeys((*_SOURCES, "output"), _swap_batch),
            "mask": no_mask,
        },
        mixes=frozenset({"samples"}),
    )
    yield MixUp(
        "samples-in-one-sequence",
        "the samples are put one after the other, so that their tokens attend to each other",
        who="who flattens the batch before the attention",
        seen_as="only-batches",
        symptom="An output changes if another sample changes.",
        cure="Keep the axis of the batch.",
        right="layer(X)",
        wrong="layer(X.reshape(1, batch * n, d_model)).reshape(batch, n, d_model)",
        planted={
            **dict.fromkeys(_SOURCES, _in_one_sequence),
            "mask": no_mask,
            "output": _apart_again,
        },
        mixes=frozenset({"samples"}),
        rare=True,
    )
    yield MixUp(
        "first-sample-used-for-all",
        "the keys and values of the first sample are used for all",
        who="who indexes a source by 0 to get rid of an axis",
        seen_as="only-batches",
        symptom="The first sample is right.",
        cure="Keep the axis of the batch.",
        right="K = X_K @ W_K",
        wrong="K = X_K[0] @ W_K",
        planted=dict.fromkeys(("K_packed", "V_packed"), _first_sample),
        mixes=frozenset({"samples"}),
        rare=True,
    )
    yield MixUp(
        "batch-and-tokens-exchanged-by-view",
        "the sources are reshaped from (batch, n, d_model) to (n, batch, d_model), and the output "
        "is reshaped back",
        who="who exchanges the batch and the tokens with view or reshape",
        seen_as="only-batches",
        symptom="Shapes fit. Tokens of different samples are mixed.",
        cure="Write transpose(0, 1), or batch_first=True.",
        right="X.transpose(0, 1)",
        wrong="X.reshape(n, batch, d_model)",
        planted={
            **dict.fromkeys(_SOURCES, _reshape_batch),
            "mask": no_mask,
            "output": _reshape_back,
        },
        mixes=frozenset({"samples"}),
        rare=True,
    )


MIX_UPS = (*_wrong_source(), *_projections(), *_norms(), *_positions(), *_batch())
