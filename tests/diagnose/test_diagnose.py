"""Each mix-up, planted in code that readers write, is named, and nothing else is."""

import dataclasses
import itertools
import re
from functools import cached_property

import numpy as np
import pytest
from real_layers import keras_library

from qkv import MultiHead, diagnose, dump, load, softmax
from qkv.layouts import layouts
from qkv.mistakes import mix_ups
from qkv.mistakes._layer import Given, Layer
from support import refuses

torch = pytest.importorskip("torch")
wrong_layers = pytest.importorskip("wrong_layers")


@dataclasses.dataclass(frozen=True)
class Setting:
    mh: MultiHead
    sources: tuple
    mask: np.ndarray | None = None

    @cached_property
    def right(self):
        return self.mh(*self.sources, mask=self.mask)

    def wrong(self, name):
        """The wrong layer's output; None where it does not exist, or is right."""
        p = wrong_layers.Layer.of(self.mh)
        sources = [torch.from_numpy(X.copy()) for X in self.sources]
        mask = None if self.mask is None else torch.from_numpy(self.mask)
        try:
            output = wrong_layers.WRONG[name](p, sources, mask)
        except (ValueError, RuntimeError, TypeError, IndexError, AttributeError):
            return None
        output = output.detach().numpy()
        if output.shape != self.right.shape or np.allclose(output, self.right):
            return None
        return output

    def found(self, output, **options):
        return diagnose(self.mh, output, *self.sources, mask=self.mask, **options)


def normal(*shape, seed=1):
    return np.random.default_rng(seed).normal(size=shape)


X, Y = normal(2, 7, 24), normal(3, 7, 24, seed=2)
lengths = np.arange(7) < np.array([[7], [4], [5]])
padded = lengths[:, None, None, :] & np.tri(7, dtype=bool)
A, B, C = normal(5, 24), normal(9, 24, seed=3), normal(9, 24, seed=4)
SETTINGS = {
    "self": Setting(MultiHead.random(24, 4, bias=True), (X, X, X)),
    "self, causal": Setting(
        MultiHead.random(24, 4, bias=True, seed=1), (X, X, X), np.tri(7, dtype=bool)
    ),
    "not square": Setting(
        MultiHead.random(24, 4, d_k=10, d_v=5, bias=True, seed=2), (X[0], X[0], X[0])
    ),
    "cross": Setting(MultiHead.random(24, 4, seed=3), (A, B, B)),
    "cross, three sources": Setting(MultiHead.random(24, 3, d_k=6, bias=True, seed=4), (A, B, C)),
    "three sources": Setting(MultiHead.random(24, 4, bias=True, seed=5), (X, X[::-1], X[:, ::-1])),
    "cross, causal": Setting(
        MultiHead.random(24, 2, seed=6), (A, B, B), np.tri(5, 9, 4, dtype=bool)
    ),
    "grouped": Setting(MultiHead.random(24, 4, h_kv=2, bias=True, seed=7), (X, X, X)),
    "grouped, padded": Setting(
        MultiHead.random(24, 6, h_kv=2, seed=8, bias=True), (Y, Y, Y), padded
    ),
    "eight heads": Setting(MultiHead.random(24, 8, seed=10), (X, X, X)),
    "padded": Setting(MultiHead.random(24, 4, seed=9), (Y, Y, Y), padded),
}


# Mix-ups that one setting cannot tell apart, because there they compute the same.
TWINS = [
    # In self-attention, turned scores are those of exchanged weights.
    {"thirds-read-as-k-q-v", "scores-turned"},
    # With as many heads as parts, the second order undoes the first.
    {"thirds-read-head-by-head", "head-by-head-read-as-thirds"},
    {"halves-read-head-by-head", "head-by-head-read-as-halves"},
    # X_V is X_Q there.
    {"X_Q-used-for-X_K-and-X_V", "X_V-used-for-X_K"},
    # Numbers that are equal by chance: h = 3, d_k = 6, n_k = 9.
    {"twice-as-many-heads", "h-and-d_k-exchanged"},
    {"scale-by-h", "scale-by-root-of-n_k"},
    # Where the mask that came fits both alignments.
    {"causal-mask-at-the-upper-left", "causal-mask-added"},
    # The first sample has no padding; queries that may see nothing have no right output.
    {"padding-ignored", "first-mask-used-for-all", "padding-applied-to-queries"},
    {"outputs-of-padding-set-to-zero", "padding-applied-to-queries"},
    {"large-number-added-with-the-wrong-sign", "mask-reversed"},
]
PLANTED_ELSEWHERE = {
    "b_K-left-out",
    "dropout-of-weights",
    "rotation-missing",
    "scale-by-d_k-where-there-is-another",
}


def names_of(found):
    return {name for each in found.explanations for name in each.mix_ups}


def test_each_mix_up_is_planted():
    assert {*wrong_layers.WRONG} == {*mix_ups()} - PLANTED_ELSEWHERE


@pytest.mark.parametrize("name", wrong_layers.WRONG)
def test_a_mix_up_is_named_and_nothing_else(name):
    place = [*wrong_layers.WRONG].index(name) % len(SETTINGS)
    settings = [*SETTINGS][place:] + [*SETTINGS][:place]  # so that all have their turn
    outputs = ((title, SETTINGS[title].wrong(name)) for title in settings)
    there = ((title, output) for title, output in outputs if output is not None)
    planted = [*itertools.islice(there, 1 if mix_ups()[name].rare else 2)]
    assert planted
    for title, output in planted:
        found = SETTINGS[title].found(output)
        assert not found.right
        assert (name,) in [each.mix_ups for each in found.explanations], title
        for other in names_of(found) - {name}:
            assert any({name, other} <= twins for twins in TWINS), (title, other)
        assert found.explanations[0].difference < 1e-9
        assert name in str(found)
        if len(found.explanations) > 1:
            assert "cannot tell them apart" in str(found)
            assert "can: " in found.decide or "look at the code" in found.decide


@pytest.mark.parametrize("title", SETTINGS)
def test_a_right_layer_is_told_so(title):
    setting = SETTINGS[title]
    p = wrong_layers.Layer.of(setting.mh)
    sources = [torch.from_numpy(X.copy()) for X in setting.sources]
    mask = None if setting.mask is None else torch.from_numpy(setting.mask)
    output = wrong_layers.run(p, sources, mask).numpy()
    found = setting.found(output)
    assert found.right
    assert not found.explanations
    assert found.difference < 1e-12
    assert "is right" in str(found)
    in_single = wrong_layers.run(p, sources, mask).float().numpy()
    assert setting.found(in_single).right


@pytest.mark.parametrize("title", SETTINGS)
def test_the_plain_layer_is_multi_head(title):
    setting = SETTINGS[title]
    sources = [np.broadcast_to(X, X.shape) for X in setting.sources]
    plain = Layer(Given.of(setting.mh, sources, setting.mask, np.float64)).output
    np.testing.assert_allclose(plain.reshape(setting.right.shape), setting.right, atol=1e-12)


SMALL = Setting(MultiHead.random(12, 2, bias=True, seed=11), (normal(2, 5, 12),) * 3)
MASKED = dataclasses.replace(SMALL, mask=np.tri(5, dtype=bool))


def torch_parts(setting):
    p = wrong_layers.Layer.of(setting.mh)
    mask = None if setting.mask is None else torch.from_numpy(setting.mask)
    return p, [torch.from_numpy(X.copy()) for X in setting.sources], mask


def both(first, second):
    """Two of the wrong steps at once."""
    return lambda p, xs, mask: wrong_layers.run(p, xs, mask, **first, **second)


PAIRS = {
    ("heads-split-by-view-all", "heads-joined-by-view"): lambda p, xs, mask: p.linear(
        "O",
        torch.nn.functional.scaled_dot_product_attention(
            *(p.linear(x, X).view(2, 2, 5, 6) for x, X in zip("QKV", xs, strict=True)),
            attn_mask=mask,
        ).reshape(2, 5, 12),
    ),
    ("scale-missing", "mask-ignored"): both({"scale": lambda s, q: s}, {"allowed": lambda m: None}),
    ("W_Q-turned", "mask-reversed"): lambda p, xs, mask: wrong_layers.run(
        wrong_layers.turned("Q")(p), xs, ~mask
    ),
    ("layer-norm-on-the-sources", "residual-added"): lambda p, xs, mask: (
        xs[0] + wrong_layers.run(p, [torch.nn.functional.layer_norm(X, (12,)) for X in xs], mask)
    ),
    ("heads-attend-to-heads", "heads-joined-by-view"): None,
}


@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
def test_a_pair_is_named(pair):
    setting = MASKED if PAIRS[pair] else SMALL
    p, xs, mask = torch_parts(setting)
    if PAIRS[pair]:
        output = PAIRS[pair](p, xs, mask)
    else:
        q, k, v = (p.linear(x, X).view(2, 5, 2, 6) for x, X in zip("QKV", xs, strict=True))
        attended = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        output = p.linear("O", attended.transpose(1, 2).reshape(2, 5, 12))
    found = setting.found(output.numpy())
    (explanation,) = found.explanations
    assert {*explanation.mix_ups} == {*pair}
    assert all(mix_ups()[name].what in str(found) for name in pair)


def test_what_nothing_explains_is_not_named():
    found = MASKED.found(normal(2, 5, 12, seed=9))
    assert not found.right
    assert not found.explanations
    assert "No known mistake" in str(found)
    assert "one of the pairs that are tried" in str(found)
    assert "dropout" in str(found)


# Real layers


def test_the_real_layer_with_a_reversed_mask_gives_nan_and_is_explained():
    p, xs, mask = torch_parts(MASKED)
    layer = wrong_layers.torch_mha(p)
    output = layer(*xs, attn_mask=mask)[0].detach().numpy()  # True forbids there
    assert np.isnan(output).any()
    assert names_of(MASKED.found(output)) == {"mask-reversed"}
    right = layer(*xs, attn_mask=~mask)[0].detach().numpy()
    assert MASKED.found(right).right


def test_the_real_layer_adds_a_mask_of_floats():
    p, xs, mask = torch_parts(MASKED)
    output = wrong_layers.torch_mha(p)(*xs, attn_mask=mask.double())[0].detach().numpy()
    assert names_of(MASKED.found(output)) == {"mask-of-ones-added"}


def test_the_real_layer_without_batch_first():
    p, xs, _ = torch_parts(SMALL)
    output = wrong_layers.torch_mha(p, batch_first=False)(*xs)[0].detach().numpy()
    assert names_of(SMALL.found(output)) == {"batch-and-tokens-exchanged"}


def test_the_real_layer_projects_what_is_projected():
    p, xs, _ = torch_parts(SMALL)
    projected = [p.linear(x, X) for x, X in zip("QKV", xs, strict=True)]
    output = wrong_layers.torch_mha(p)(*projected)[0].detach().numpy()
    assert names_of(SMALL.found(output)) == {"queries-and-keys-and-values-projected-twice"}


def test_the_real_layer_of_keras_takes_the_value_before_the_key():
    keras = keras_library()
    mh = MultiHead.random(12, 2, bias=True, seed=11)
    X_Q, X_K, X_V = normal(2, 5, 12), normal(2, 7, 12, seed=2), normal(2, 7, 12, seed=3)
    layer = keras.layers.MultiHeadAttention(2, 6, dtype="float64")
    layer.build((2, 5, 12), (2, 7, 12), (2, 7, 12))
    layer.set_weights([*dump(mh, "keras").values()])
    output = keras.ops.convert_to_numpy(layer(X_Q, X_K, X_V))
    found = diagnose(mh, output, X_Q, X_K, X_V)
    assert names_of(found) == {"X_K-and-X_V-exchanged"}


# What cannot be seen, or not told apart


def test_a_key_bias_cannot_be_seen():
    p, xs, mask = torch_parts(MASKED)
    found = MASKED.found(wrong_layers.run(p.but(b={"K": None}), xs, mask).numpy())
    assert found.right
    assert "b_K-left-out" in found.unseen
    assert "b_Q-left-out" not in found.unseen
    assert "b_K" in str(found)


def test_what_would_decide_is_said_and_decides():
    p, xs, _ = torch_parts(SMALL)
    turned = wrong_layers.WRONG["scores-turned"](p, xs, None).numpy()
    found = SMALL.found(turned)
    assert names_of(found) == {"scores-turned", "thirds-read-as-k-q-v"}
    assert "X_K that differs from X_Q" in found.decide
    cross = dataclasses.replace(SMALL, sources=(xs[0].numpy(), normal(2, 5, 12, seed=5)) * 2)
    cross = dataclasses.replace(cross, sources=(*cross.sources[:2], cross.sources[1]))
    assert names_of(cross.found(cross.wrong("scores-turned"))) == {"scores-turned"}


def test_symmetric_inputs_are_not_a_proof():
    X = np.ones((5, 12))
    mh = MultiHead.random(12, 2, seed=11)
    setting = Setting(mh, (X, X, X))
    found = setting.found(setting.wrong("W_V-turned"))
    assert ("W_V-turned",) in [each.mix_ups for each in found.explanations]
    same = setting.found(setting.right)
    assert same.right
    assert {"scale-missing", "W_Q-turned", "W_K-turned"} <= {*same.unseen}


def test_intermediate_arrays_tell_apart():
    p, xs, _ = torch_parts(SMALL)
    output = wrong_layers.WRONG["scores-turned"](p, xs, None).numpy()
    Q, K, _ = SMALL.mh.project(*SMALL.sources)
    found = SMALL.found(output, intermediates={"Q": Q, "K": K})
    assert names_of(found) == {"scores-turned"}
    found = SMALL.found(output, intermediates={"Q": K, "K": Q})
    assert names_of(found) == {"thirds-read-as-k-q-v"}


# Where numbers first differ


def test_the_first_difference_names_the_array_and_the_head():
    mh, (X, *_) = MASKED.mh, MASKED.sources
    Q, K, V = mh.project(X)
    S = Q @ K.swapaxes(-1, -2) / np.sqrt(mh.d_k)
    S[:, 1] += normal(5, 5)
    A = softmax(S, mask=MASKED.mask)
    heads = A @ V
    output = (heads @ mh.W_O).sum(axis=1) + mh.b_O
    given = {"heads": heads, "scores": S, "Q": Q, "weights": A}
    found = MASKED.found(output, intermediates=given)
    assert not found.explanations
    assert "first in the scores of head 1 (heads counted from 0)" in str(found)
    missing = MASKED.wrong("scale-missing")
    said = MASKED.found(missing, intermediates={"Q": Q, "K": K}).first_difference
    assert said == (
        "These are right: projected queries, projected keys. What comes after them differs."
    )


def test_scores_may_hold_anything_where_they_are_hidden():
    mh, (X, *_) = MASKED.mh, MASKED.sources
    Q, K, _ = mh.project(X)
    S = np.where(MASKED.mask, Q @ K.swapaxes(-1, -2) / np.sqrt(mh.d_k), -1e9)
    found = MASKED.found(MASKED.right, intermediates={"scores": S})
    assert found.right
    assert found.first_difference == "These are right too: scores."


def test_grouped_keys_may_be_given_repeated_or_not():
    setting = SETTINGS["grouped"]
    _, K, V = setting.mh.project(*setting.sources)
    for intermediates in ({"K": K, "V": V}, {"K": np.repeat(K, 2, axis=1)}):
        found = setting.found(setting.right, intermediates=intermediates)
        assert "right too" in found.first_difference


# Precision


@pytest.mark.parametrize(
    ("dtype", "most"), [(torch.float32, 1e-5), (torch.float16, 3e-2), (torch.bfloat16, 1e-1)]
)
def test_lower_precision(dtype, most):
    p, xs, mask = torch_parts(MASKED)
    low = p.but(w={x: p.w[x].to(dtype) for x in "QKVO"}, b={x: p.b[x].to(dtype) for x in "QKVO"})
    xs = [X.to(dtype) for X in xs]
    for wide in (torch.float32, torch.float64):
        right = wrong_layers.run(low, xs, mask).to(wide).numpy()
        assert MASKED.found(right).right
        missing = wrong_layers.run(low, xs, mask, scale=lambda s, q: s).to(wide).numpy()
        found = MASKED.found(missing)
        assert "scale-missing" in names_of(found)
        assert found.explanations[0].difference < most


def test_large_scores_in_half_precision_need_a_tolerance():
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(64, 4, batch_first=True).half()
    X = (30 * torch.randn(2, 10, 64)).half()
    with torch.no_grad():
        output = layer(X, X, X, need_weights=False)[0].numpy()
    given = (layer.state_dict(), output, X.numpy())
    Q, K, _ = load(given[0], "pytorch", h=4).project(X.double().numpy())
    assert np.abs(Q @ K.swapaxes(-1, -2) / 4).max() > 1000
    assert not diagnose(*given, layout="pytorch", h=4).right
    assert diagnose(*given, layout="pytorch", h=4, tolerance=0.03).right


def test_a_softmax_in_single_precision_is_rounding():
    p, xs, mask = torch_parts(MASKED)

    def weights(s, m):
        return wrong_layers.hide(s, m).softmax(-1, dtype=torch.float32).double()

    found = MASKED.found(wrong_layers.run(p, xs, mask, weights=weights).numpy())
    assert found.right
    assert 1e-12 < found.difference < 1e-5


def test_large_inputs_are_cut_and_the_verdict_is_not():
    mh = MultiHead.random(32, 4, bias=True, seed=1)
    X, mask = normal(4, 40, 32), np.tri(40, dtype=bool)
    setting = Setting(mh, (X, X, X), mask)
    assert names_of(setting.found(setting.wrong("heads-joined-by-view"))) == {
        "heads-joined-by-view"
    }
    assert names_of(setting.found(setting.wrong("scale-missing"))) == {"scale-missing"}
    almost = setting.wrong("scale-missing")
    almost[2, 5, 3] += 1  # of a sample and a query that are not screened
    assert not setting.found(almost).explanations


def test_any_number_of_leading_axes():
    mh, X = SMALL.mh, normal(2, 3, 5, 12)
    mask = np.tri(5, dtype=bool)
    missing = dataclasses.replace(mh, scale=1.0)(X, mask=mask)
    assert names_of(diagnose(mh, missing, X, mask=mask)) == {"scale-missing"}
    assert diagnose(mh, mh(X, mask=mask), X, mask=mask).right
    one = diagnose(mh, missing[0, 0], X[0, 0], mask=mask)
    assert names_of(one) == {"scale-missing"}


# Dropout, rotation, other scales


def test_dropout_of_weights_shows_in_the_weights():
    p, xs, mask = torch_parts(MASKED)
    torch.manual_seed(0)
    kept = {}

    def weights(s, m):
        kept["A"] = torch.nn.functional.dropout(wrong_layers.hide(s, m).softmax(-1), 0.3)
        return kept["A"]

    output = wrong_layers.run(p, xs, mask, weights=weights).numpy()
    found = MASKED.found(output, intermediates={"weights": kept["A"].numpy()})
    assert names_of(found) == {"dropout-of-weights"}


def test_weights_that_need_a_rotation():
    rotary = dataclasses.replace(SMALL.mh, between=layouts()["llama"].between)
    X = SMALL.sources[0]
    without = diagnose(rotary, SMALL.right, X)
    assert [each.mix_ups for each in without.explanations] == [("rotation-missing",)]
    assert without.right is None  # a model that does not rotate has these names too
    assert "between=()" in str(without)
    for pairs in ("halves", "neighbours"):
        rotated = SMALL.wrong(f"rotated-by-{pairs}")
        found = diagnose(rotary, rotated, X)
        assert found.right is None  # which pairs the model has, weights do not say
        assert [each.mix_ups for each in found.explanations] == [(f"rotated-by-{pairs}",)]
        assert found.explanations[0].difference < 1e-9
        assert "is right" not in str(found)
        assert "compare its base, its pairs" in str(found)
        assert "b_K-left-out" not in found.unseen  # it counts where keys are rotated
        assert names_of(SMALL.found(rotated)) == {f"rotated-by-{pairs}"}


def test_what_is_unseen_is_unseen_in_the_rotated_layer():
    rotary = dataclasses.replace(SMALL.mh, between=layouts()["llama"].between)
    X = SMALL.sources[0]
    p, xs, _ = torch_parts(SMALL)
    right, without = (
        wrong_layers.WRONG["rotated-by-halves"](each, xs, None).numpy()
        for each in (p, p.but(b={"K": None}))
    )
    assert np.abs(right - without).max() > 1e-3
    assert "b_K-left-out" not in diagnose(rotary, right, X).unseen
    found = diagnose(rotary, without, X)
    assert ("rotated-by-halves", "b_K-left-out") in [
        tuple(sorted(each.mix_ups, reverse=True)) for each in found.explanations
    ]


def test_one_token_is_not_turned_against_itself():
    rotary = dataclasses.replace(SMALL.mh, between=layouts()["llama"].between)
    X = SMALL.sources[0][:, :1]
    assert diagnose(rotary, SMALL.mh(X), X).right


def test_another_rotation_is_not_called_wrong():
    rotary = dataclasses.replace(SMALL.mh, between=layouts()["llama"].between)
    found = diagnose(rotary, normal(2, 5, 12, seed=9), SMALL.sources[0])
    assert found.right is None
    assert not found.explanations
    assert "that of the layer without a rotation" in str(found)
    assert "another base, or turns a part of each head, is not recognised" in str(found)


def test_a_pair_is_told_in_the_order_that_fits():
    """Two mix-ups of one step may give two layers, in two orders."""
    mh, X = MultiHead.random(24, 4), normal(2, 7, 24)
    output = dataclasses.replace(mh, W_Q=mh.W_K, W_K=mh.W_V)(X)
    found = diagnose(mh, output, X)
    assert len(found.explanations) == 2
    for each in found.explanations:
        planted = [mix_ups()[name].planted for name in each.mix_ups]
        layer = Layer(Given.of(mh, [X, X, X], None, np.float64), planted)
        np.testing.assert_allclose(layer.output, output, atol=1e-9)
    assert found.decide.startswith("They give the same")
    Q, K, _ = dataclasses.replace(mh, W_Q=mh.W_K, W_K=mh.W_V).project(X)
    assert len(diagnose(mh, output, X, intermediates={"Q": Q, "K": K}).explanations) == 2


def test_advice_is_tried_where_the_mix_ups_exist():
    mh, X, causal = MultiHead.random(24, 4), normal(3, 7, 24), np.tri(7, dtype=bool)
    mask = (np.arange(7) < np.array([7, 5, 4])[:, None])[:, None, None, :] & causal
    output = mh(X, mask=causal)
    found = diagnose(mh, output, X, mask=mask)
    assert names_of(found) == {
        "padding-ignored", "padding-applied-to-queries", "first-mask-used-for-all"
    }  # fmt: skip
    assert "the first of two samples padded" in found.decide
    found = diagnose(mh, output, X, mask=mask[::-1])
    assert "first-mask-used-for-all" not in names_of(found)
    assert found.decide.startswith("They give the same")


def test_intermediates_show_the_bias_of_the_keys():
    p, xs, mask = torch_parts(MASKED)
    output = wrong_layers.run(p.but(b={"K": None}), xs, mask).numpy()
    _, K, _ = dataclasses.replace(MASKED.mh, b_K=None).project(*MASKED.sources)
    found = MASKED.found(output, intermediates={"K": K})
    assert found.right
    assert "b_K-left-out" not in found.unseen
    assert "cannot be seen" not in str(found)
    assert "intermediates differ first in the projected keys" in str(found)


def test_an_output_of_zeros():
    found = SMALL.found(0 * SMALL.right)
    assert not found.right
    assert not found.explanations
    assert "The output holds zeros only." in str(found)


def test_what_is_said_of_a_mix_up_is_so():
    mh, X = MultiHead.random(24, 4), normal(7, 24)
    added = wrong_layers.WRONG["positions-added"](
        wrong_layers.Layer.of(mh), [torch.from_numpy(X[None])] * 3, None
    )
    assert (np.abs(added.numpy()[0] - mh(X)).max(axis=-1) > 0.1).all()  # the first one too
    assert "No position is right" in mix_ups()["positions-added"].symptom
    first = mix_ups()["first-group-used-for-all"]
    assert first.symptom.endswith("right if h_kv is 1.")
    wrong = mix_ups()["sums-without-keepdims"].wrong
    S = normal(2, 4, 7, 7)
    names = {"S": S, "exp": np.exp}
    exec(wrong, names)
    assert names["A"].shape == S.shape
    assert "T5" in mix_ups()["scale-by-h"].cure


def test_a_zero_that_pytorch_adds():
    p, xs, _ = torch_parts(SMALL)
    layer = wrong_layers.torch_mha(p)
    layer.add_zero_attn = True
    found = SMALL.found(layer(*xs)[0].detach().numpy())
    assert names_of(found) == {"one-more-zero-in-the-softmax"}
    assert "add_zero_attn=False" in str(found)


def test_a_layer_with_another_scale():
    t5 = dataclasses.replace(SMALL.mh, scale=1.0)
    found = diagnose(t5, SMALL.right, SMALL.sources[0])
    assert names_of(found) == {"scale-by-d_k-where-there-is-another"}


# Stored arrays, tensors


def test_stored_arrays_and_tensors():
    mh = SMALL.mh
    X, output = SMALL.sources[0], SMALL.wrong("scale-missing")
    stored = dump(mh, "pytorch", prefix="layers.0.")
    found = diagnose(stored, output, X, layout="pytorch", h=2, prefix="layers.0.")
    assert names_of(found) == {"scale-missing"}
    in_order = [*dump(mh, "keras").values()]
    found = diagnose(in_order, output, X, layout="keras", h=2)
    assert names_of(found) == {"scale-missing"}


@pytest.mark.usefixtures("unchecked")
def test_tensors_that_require_a_gradient():
    output = torch.from_numpy(SMALL.right).requires_grad_()
    X = torch.from_numpy(SMALL.sources[0]).requires_grad_()
    assert diagnose(SMALL.mh, output, X).right


# Bad input


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("shape", "parts"),
    [
        ((5, 12), []),
        ((5, 2, 12), ["batch and of the tokens"]),
        ((2, 2, 5, 6), ["heads", "not joined"]),
        ((2, 5, 2, 6), ["heads", "not joined"]),
        ((2, 5, 13), []),
    ],
)
def test_an_output_of_another_shape(shape, parts):
    expected = ["output must have shape (2, 5, 12)", f"has shape {shape}", *parts]
    with refuses(*expected):
        diagnose(SMALL.mh, np.ones(shape), SMALL.sources[0])


@pytest.mark.usefixtures("unchecked")
def test_joined_heads_are_recognised_by_their_width():
    mh = MultiHead.random(12, 2, d_v=7)
    with refuses("(5, 12)", "(5, 14)", "W_O is not applied"):
        diagnose(mh, np.ones((5, 14)), normal(5, 12))


@pytest.mark.usefixtures("unchecked")
def test_bad_input_is_refused():
    mh, X, output = SMALL.mh, SMALL.sources[0], SMALL.right
    with refuses("output must hold floating-point numbers", "int64", error=TypeError):
        diagnose(mh, output.astype(int), X)
    with refuses("mh must be a MultiHead, or stored arrays", "dict", error=TypeError):
        diagnose(dump(mh, "pytorch"), output, X)
    with refuses("are for stored arrays, but mh is a MultiHead", error=TypeError):
        diagnose(mh, output, X, h=2)
    with refuses("name in intermediates", "'Q', 'K'", "'score'"):
        diagnose(mh, output, X, intermediates={"score": output})
    with refuses("intermediates['scores'] must have shape (2, 2, 5, 5)", "(2, 5, 5)"):
        diagnose(mh, output, X, intermediates={"scores": normal(2, 5, 5)})
    for tolerance in (-1, "a"):
        with refuses(f"tolerance must be between 0 and 1, but is {tolerance!r}"):
            diagnose(mh, output, X, tolerance=tolerance)
    with refuses("must be one array, but is a tuple of 2", "pass the first", error=TypeError):
        diagnose(mh, (output, None), X)
    with refuses("output must be an array of shape (2, 5, 12)", "call .float()", error=TypeError):
        diagnose(mh, torch.from_numpy(output).bfloat16(), X)
    with refuses("X_Q must be an array", "but is None", error=TypeError):
        diagnose(mh, output, None)
    with refuses("output must be an array", "but is 'x'", error=TypeError):
        diagnose(mh, "x", X)
    with refuses("intermediates must be a mapping", "a list", "'scores'", error=TypeError):
        diagnose(mh, output, X, intermediates=[X])
    with refuses("mask hides all keys from all queries"):
        diagnose(mh, output, X, mask=np.zeros((5, 5), bool))
    with refuses("X_Q must be finite"):
        diagnose(mh, output, np.full_like(X, np.nan))
    with refuses("X_Q must have shape"):
        diagnose(mh, output, X[..., :5])
    with refuses("mask must be boolean", error=TypeError):
        diagnose(mh, output, X, mask=np.ones((5, 5)))


def test_nan_that_no_mask_explains():
    output = SMALL.right.copy()
    output[1, 2, 3] = np.nan
    with refuses("output must be finite", "output[1, 2, 3] is nan"):
        SMALL.found(output)


def test_nan_where_a_query_may_see_nothing():
    mask = np.tri(5, dtype=bool)
    mask[2] = False
    setting = dataclasses.replace(SMALL, mask=mask)
    output = setting.right.copy()
    output[:, 2] = np.nan
    assert setting.found(output).right


# The data


@pytest.mark.parametrize(
    ("n_k", "widths"), [(7, {}), (5, {"h_kv": 2}), (5, {"d_v": 5})], ids=["n_k", "h_kv", "d_v"]
)
def test_a_mix_up_whose_shapes_are_said_to_fit_has_an_output_at_other_sizes_too(n_k, widths):
    """What fits in plain self-attention alone says when it fits."""
    rng = np.random.default_rng(0)

    def fits(planted, n_k=5, **widths):
        mh = MultiHead.random(24, h=4, bias=True, **widths)
        X, Y = (rng.normal(size=(2, n, 24)) for n in (5, n_k))
        try:
            output = Layer(Given.of(mh, [X, Y, Y], None, np.float64), (planted,)).output
        except (ValueError, IndexError):
            return False
        return output.shape == X.shape

    said = [each for each in mix_ups().values() if re.match(r"[\w ]+ fits?\.", each.symptom)]
    of_plain = [each for each in said if fits(each.planted)]
    assert of_plain
    assert [each.name for each in of_plain if not fits(each.planted, n_k, **widths)] == []


def test_each_mix_up_is_told_in_words():
    for name, known in mix_ups().items():
        assert known.name == name
        assert re.fullmatch(r"[\w-]+", name)
        for text in (known.what, known.who, known.symptom, known.cure, known.right, known.wrong):
            assert text == text.strip() != ""
        assert known.who.startswith("who ")
        assert known.right != known.wrong
        assert known.symptom.endswith(".")
        assert known.cure.endswith(".")
        assert not known.what.endswith(".")
