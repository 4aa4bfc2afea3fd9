"""Wrong layers, as readers write them, are named; what is said of an output is so."""

import dataclasses
import re
from functools import cached_property

import numpy as np
import pytest
from real_layers import keras_library

from qkv import MultiHead, diagnose, dump, find_layers, load, softmax
from qkv.between import ALiBi, QKNorm, Rotation, Sinks, SoftCap
from qkv.layouts import layouts
from qkv.masks import causal
from qkv.mistakes import _search, known, parts, symptoms
from qkv.mistakes._layer import Inputs, Layer
from support import refuses

torch = pytest.importorskip("torch")
wrong_layers = pytest.importorskip("wrong_layers")


def names_of(found):
    return {name for each in found.explanations for name in each.mistakes}


# Wrong layers that were written without a look at what is known


@pytest.mark.parametrize("name", wrong_layers.WRONG)
def test_a_wrong_layer_is_named(name):
    given, mask, named = wrong_layers.tried(name)
    found = diagnose(*given, mask=mask)
    assert not found.right
    if named == ("dropout",):
        assert "If two calls give two outputs, dropout is on." in str(found)
        return
    best = found.explanations[0]
    assert {*named} in [{*each.mistakes} for each in found.explanations]
    assert best.difference < 1e-9
    assert all(known()[each].what in str(found) for each in named)
    # What else is said gives the same numbers, and so needs other inputs to be told apart.
    if len(found.explanations) > 1:
        assert "cannot tell them apart" in str(found)
        assert "can: " in found.decide or "look at the code" in found.decide


# Each mistake that is known


@dataclasses.dataclass(frozen=True)
class Setting:
    mh: MultiHead
    sources: tuple
    mask: np.ndarray | None = None

    @cached_property
    def right(self):
        return self.mh(*self.sources, mask=self.mask)

    def wrong(self, *names):
        """The output of a plain layer with these mistakes."""
        inputs = Inputs.of(self.mh, [*self.sources], self.mask)
        with np.errstate(invalid="ignore"):
            output = Layer(inputs, tuple(known()[name].steps for name in names)).output
        return output.reshape(self.right.shape)

    def found(self, output, **options):
        return diagnose(self.mh, output, *self.sources, mask=self.mask, **options)


def normal(*shape, seed=1):
    return np.random.default_rng(seed).normal(size=shape)


X, Y = normal(2, 7, 24), normal(3, 7, 24, seed=2)
lengths = np.arange(7) < np.array([[7], [4], [5]])
padded = lengths[:, None, None, :] & np.tri(7, dtype=bool)
A, B, C = normal(5, 24), normal(9, 24, seed=3), normal(9, 24, seed=4)
SETTINGS = {
    "three sources": Setting(MultiHead.random(24, 4, bias=True, seed=5), (X, X[::-1], X[:, ::-1])),
    "self, causal": Setting(
        MultiHead.random(24, 4, bias=True, seed=1), (X, X, X), np.tri(7, dtype=bool)
    ),
    "not square": Setting(
        MultiHead.random(24, 4, d_k=10, d_v=5, bias=True, seed=2), (X[0], X[0], X[0])
    ),
    "cross": Setting(MultiHead.random(24, 4, seed=3), (A, B, B)),
    "cross, causal": Setting(
        MultiHead.random(24, 2, seed=6), (A, B, B), np.tri(5, 9, 4, dtype=bool)
    ),
    "grouped, padded": Setting(
        MultiHead.random(24, 6, h_kv=2, seed=8, bias=True), (Y, Y, Y), padded
    ),
    "another scale": Setting(
        dataclasses.replace(MultiHead.random(24, 4, seed=9), scale=1.0), (X, X, X)
    ),
    "normed and rotated": Setting(
        dataclasses.replace(
            MultiHead.random(24, 4, bias=True, seed=10),
            between=(QKNorm(normal(6), normal(6, seed=2)), Rotation.of(5e5, 4)),
        ),
        (X, X, X),
        np.tri(7, dtype=bool),
    ),
    "steps on scores": Setting(
        dataclasses.replace(
            MultiHead.random(24, 4, bias=True, seed=11),
            between=(ALiBi.of(4), SoftCap(0.5), Sinks(normal(4))),
        ),
        (X, X, X),
    ),
}
NOTHING_TO_SEE = {"b_K-left-out", "dropout-of-weights", "dropout-of-the-output"}


@pytest.mark.parametrize("name", [name for name in known() if name not in NOTHING_TO_SEE])
def test_each_known_mistake_is_found_where_it_exists(name):
    for setting in SETTINGS.values():
        try:
            output = setting.wrong(name)
        except (ValueError, IndexError):
            continue
        if not np.allclose(output, setting.right, equal_nan=True):
            break
    found = setting.found(output)
    assert (name,) in [each.mistakes for each in found.explanations]
    assert name in str(found)


def test_a_value_that_is_lent_is_the_same():
    """A pair takes values from simpler layers; it gives what it would give without them."""
    compared = 0
    for setting in SETTINGS.values():
        screen = _search._Screen(
            _search.Problem(setting.mh, [*setting.sources], setting.mask, setting.right), ""
        )
        both = [each for each in known().values() if each.steps]
        for one, other in zip(both, both[7:] + both[:7], strict=True):
            lent = _search.computed(screen.layer(one, other))
            alone = _search.computed(Layer(screen.inputs, (one.steps, other.steps)))
            assert (lent is None) == (alone is None)
            if lent is not None:
                np.testing.assert_array_equal(lent, alone, err_msg=f"{one.name}, {other.name}")
                compared += 1
    assert compared > 100


def test_each_mistake_is_told_in_words():
    assert [name for part in parts().values() for name in (each.name for each in part)] == [
        *known()
    ]
    assert {each.seen_as for each in known().values()} == {*symptoms()}
    for name, mistake in known().items():
        assert re.fullmatch(r"[\w-]+", name)
        for text in (mistake.what, mistake.symptom, mistake.cure):
            assert text == text.strip() != ""
        assert mistake.symptom.endswith(".")
        assert mistake.cure.endswith(".")
        assert not mistake.what.endswith(".")


@pytest.mark.parametrize("title", SETTINGS)
def test_a_right_layer_is_told_so(title):
    setting = SETTINGS[title]
    found = setting.found(setting.right)
    assert found.right
    assert not found.explanations
    assert found.difference < 1e-12
    assert "is right" in str(found)
    assert setting.found(setting.right.astype(np.float32)).right


SMALL = Setting(MultiHead.random(12, 2, bias=True, seed=11), (normal(2, 5, 12),) * 3)
MASKED = dataclasses.replace(SMALL, mask=np.tri(5, dtype=bool))


def test_what_nothing_explains_is_not_named():
    found = MASKED.found(normal(2, 5, 12, seed=9))
    assert not found.right
    assert not found.explanations
    assert "No known mistake" in str(found)
    assert "one of the pairs that are tried" in str(found)
    assert "dropout" in str(found)
    assert not found.untried


def test_when_time_is_up_it_is_said(monkeypatch):
    monkeypatch.setattr(_search, "_SECONDS", -1)
    found = SMALL.found(SMALL.wrong("scale-missing", "W_O-turned"))
    assert not found.explanations
    assert found.untried > 100
    assert f"Time was up: {found.untried} pairs were not tried." in str(found)
    assert names_of(SMALL.found(SMALL.wrong("scale-missing"))) == {"scale-missing"}


# Real layers


def torch_mha(mh, **options):
    """PyTorch's layer with these weights."""
    layer = torch.nn.MultiheadAttention(mh.d_model, mh.h, **{"batch_first": True} | options)
    layer = layer.double().eval()
    layer.load_state_dict({name: torch.tensor(W) for name, W in dump(mh, "pytorch").items()})
    return layer


def called(layer, *sources, **options):
    return layer(*map(torch.tensor, sources), **options)[0].detach().numpy()


def test_the_real_layer_with_a_reversed_mask_gives_nan_and_is_explained():
    layer, mask = torch_mha(MASKED.mh), torch.tensor(MASKED.mask)
    output = called(layer, *MASKED.sources, attn_mask=mask)  # True forbids there
    assert np.isnan(output).any()
    assert names_of(MASKED.found(output)) == {"mask-reversed"}
    assert MASKED.found(called(layer, *MASKED.sources, attn_mask=~mask)).right


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


def test_a_key_bias_cannot_be_seen_beside_a_bias_by_position():
    mh = dataclasses.replace(SMALL.mh, between=(ALiBi.of(2),))
    X = SMALL.sources[0]
    found = diagnose(mh, dataclasses.replace(mh, b_K=None)(X), X)
    assert found.right
    assert "b_K-left-out" in found.unseen


def test_a_key_bias_cannot_be_seen():
    found = MASKED.found(MASKED.wrong("b_K-left-out"))
    assert found.right
    assert "b_K-left-out" in found.unseen
    assert "b_Q-left-out" not in found.unseen
    assert "b_K" in str(found)


def test_what_would_decide_is_said_and_decides():
    found = SMALL.found(SMALL.wrong("scores-turned"))
    assert names_of(found) == {"scores-turned", "thirds-read-as-k-q-v"}
    assert "X_K that differs from X_Q" in found.decide
    memory = normal(2, 5, 12, seed=5)
    cross = dataclasses.replace(SMALL, sources=(SMALL.sources[0], memory, memory))
    assert names_of(cross.found(cross.wrong("scores-turned"))) == {"scores-turned"}


def test_what_would_decide_is_looked_for_where_a_layer_rotates():
    between = (Rotation.of(1e4, 4),)
    X = normal(2, 6, 12, seed=6)
    turned = Setting(dataclasses.replace(MultiHead.random(12, 3), between=between), (X, X, X))
    found = turned.found(turned.wrong("thirds-read-head-by-head"))
    # With three heads each of the two undoes itself, so they are one.
    assert names_of(found) == {"thirds-read-head-by-head", "head-by-head-read-as-thirds"}
    assert "look at the code" in found.decide


def test_sizes_that_would_decide_are_said_and_decide():
    """Where d_model = d_k², another d_v does not: the two are one there too."""
    X = normal(5, 64)
    setting = Setting(MultiHead.random(64, 8), (X, X, X))
    both = {"scale-by-root-of-d_model", "scale-twice-or-by-d_k"}
    found = setting.found(setting.wrong("scale-by-root-of-d_model"))
    assert names_of(found) == both
    assert "This can: a layer of these sizes: MultiHead(h=5, d_model=30, d_k=6, d_v=7)." in str(
        found
    )
    X = normal(5, 30)
    other = Setting(MultiHead.random(30, 5, d_k=6, d_v=7), (X, X, X))
    for name in both:
        assert names_of(other.found(other.wrong(name))) == {name}


def test_what_would_decide_keeps_the_scale_of_the_layer():
    """With the scale 1/√d_model its square is 1/d_model, whatever the weights are."""
    X = normal(5, 24)
    mh = dataclasses.replace(MultiHead.random(24, 4), scale=24**-0.5)
    setting = Setting(mh, (X, X, X))
    found = setting.found(setting.wrong("scale-by-d_model"))
    assert names_of(found) == {"scale-by-d_model", "scale-twice-or-by-d_k"}
    assert "random weights" not in found.decide
    assert "a layer of these sizes" in found.decide


def test_symmetric_inputs_are_not_a_proof():
    X = np.ones((5, 12))
    setting = Setting(MultiHead.random(12, 2, seed=11), (X, X, X))
    found = setting.found(setting.wrong("W_V-turned"))
    assert ("W_V-turned",) in [each.mistakes for each in found.explanations]
    same = setting.found(setting.right)
    assert same.right
    assert {"scale-missing", "W_Q-turned", "W_K-turned"} <= {*same.unseen}


def test_intermediate_arrays_tell_apart():
    output = SMALL.wrong("scores-turned")
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
    assert "first in the scores of head 1 (counted from 0)" in str(found)
    missing = MASKED.wrong("scale-missing")
    said = MASKED.found(missing, intermediates={"Q": Q, "K": K}).first_difference
    assert said == (
        "These are right: projected queries, projected keys. What comes after them differs."
    )


@pytest.mark.parametrize("hidden", [-1e9, -np.inf])
def test_scores_may_hold_anything_where_they_are_hidden(hidden):
    mh, (X, *_) = MASKED.mh, MASKED.sources
    Q, K, _ = mh.project(X)
    S = np.where(MASKED.mask, Q @ K.swapaxes(-1, -2) / np.sqrt(mh.d_k), hidden)
    found = MASKED.found(MASKED.right, intermediates={"scores": S})
    assert found.right
    assert found.first_difference == "These are right too: scores."
    wrong = MASKED.found(MASKED.wrong("scale-missing"), intermediates={"scores": S + 1})
    assert "differ first in the scores" in wrong.first_difference


def test_grouped_keys_may_be_given_repeated_or_not():
    setting = SETTINGS["grouped, padded"]
    _, K, V = setting.mh.project(*setting.sources)
    for intermediates in ({"K": K, "V": V}, {"K": np.repeat(K, 3, axis=1)}):
        found = setting.found(setting.right, intermediates=intermediates)
        assert "right too" in found.first_difference
    tiled = setting.found(setting.right + 1, intermediates={"K": np.tile(K, (1, 3, 1, 1))})
    assert tiled.first_difference == (
        "The intermediates differ first in the projected keys of heads 1, 4 (counted from 0). "
        "They are the layer's heads in the order 0, 1, 0, 1, 0, 1."
    )


def test_repeated_keys_tell_mistakes_apart():
    """Where heads 1 and 3 are not read, head 2 has the first keys in both."""
    mh = MultiHead.random(24, 4, h_kv=2)
    mh = dataclasses.replace(mh, W_O=mh.W_O * np.array([1, 0, 1, 0])[:, None, None])
    X = normal(7, 24)
    setting = Setting(mh, (X, X, X))
    output, (_, K, _) = setting.wrong("groups-tiled"), mh.project(X)
    orders = {"groups-tiled": [0, 1, 0, 1], "first-group-used-for-all": [0, 0, 0, 0]}
    assert names_of(setting.found(output)) == {*orders}
    for name, order in orders.items():
        assert names_of(setting.found(output, intermediates={"K": K[order]})) == {name}


# Precision


@pytest.mark.parametrize(
    ("dtype", "most"), [(torch.float32, 1e-5), (torch.float16, 3e-2), (torch.bfloat16, 1e-1)]
)
def test_lower_precision(dtype, most):
    layer = torch_mha(MASKED.mh).to(dtype)
    X, hidden = torch.tensor(MASKED.sources[0]).to(dtype), ~torch.tensor(MASKED.mask)
    right = layer(X, X, X, attn_mask=hidden)[0].detach()
    with torch.no_grad():
        layer.in_proj_weight[:12] *= 6**0.5  # undoes the scale, with the bias
        layer.in_proj_bias[:12] *= 6**0.5
    missing = layer(X, X, X, attn_mask=hidden)[0].detach()
    for wide in (torch.float32, torch.float64):
        assert MASKED.found(right.to(wide).numpy()).right
        found = MASKED.found(missing.to(wide).numpy())
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
    Q, K, V = MASKED.mh.project(MASKED.sources[0])
    S = Q @ K.swapaxes(-1, -2) / np.sqrt(6)
    A = softmax(S.astype(np.float32), mask=MASKED.mask).astype(np.float64)
    found = MASKED.found((A @ V @ MASKED.mh.W_O).sum(axis=1) + MASKED.mh.b_O)
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
    almost = setting.wrong("scale-missing").copy()
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
    mh, rng = MASKED.mh, np.random.default_rng(0)
    Q, K, V = mh.project(MASKED.sources[0])
    A = softmax(Q @ K.swapaxes(-1, -2) / np.sqrt(6), mask=MASKED.mask)
    A = A * (rng.random(A.shape) > 0.3) / 0.7
    output = (A @ V @ mh.W_O).sum(axis=1) + mh.b_O
    assert names_of(MASKED.found(output, intermediates={"weights": A})) == {"dropout-of-weights"}
    more = MASKED.found(output + MASKED.sources[0], intermediates={"weights": A})
    assert str(more).startswith("The weights are equal to "), "no word on the output, which is not"
    output[0, 3] = np.nan
    with pytest.raises(ValueError, match=r"is nan"):
        MASKED.found(output, intermediates={"weights": A})
    dropped = MASKED.right * (rng.random(MASKED.right.shape) > 0.25) / 0.75
    assert names_of(MASKED.found(dropped)) == {"dropout-of-the-output"}


ROTATED = SETTINGS["normed and rotated"]


def test_a_layer_is_judged_with_what_stands_between_its_maps():
    """Any base is the layer's own, and no other one is; a decoding step has its positions."""
    assert ROTATED.found(ROTATED.right).right
    bare = dataclasses.replace(ROTATED.mh, between=ROTATED.mh.between[:1])
    other = dataclasses.replace(bare, between=(*bare.between, Rotation.of(1e4, 4)))
    X = ROTATED.sources[0]
    found = ROTATED.found(other(X, mask=ROTATED.mask))
    assert not found.right
    assert not found.explanations
    last = {"positions": (np.array([6]), np.arange(7)), "mask": ROTATED.mask[6:]}
    step = ROTATED.mh(X[:, 6:], X, **last)
    assert diagnose(ROTATED.mh, step, X[:, 6:], X, **last).right
    assert "b_K-left-out" not in ROTATED.found(ROTATED.right).unseen  # rotated keys show it
    turned = (Rotation.of(1e4, 6),)
    mh = dataclasses.replace(MultiHead.random(24, 4, bias=True, seed=1), between=turned)
    mask = np.eye(40, dtype=bool)
    mask[1] = True  # one query alone shows it
    setting = Setting(mh, (np.random.default_rng(2).normal(size=(40, 24)),) * 3, mask)
    assert "b_K-left-out" not in setting.found(setting.right).unseen


BETWEEN = {
    "nothing": lambda h_kv: (),
    "rotation": lambda h_kv: (Rotation.of(1e4, 4),),
    "norm, rotation": lambda h_kv: (QKNorm(None, normal(h_kv, 4)), Rotation.of(1e4, 4)),
    "cap": lambda h_kv: (SoftCap(0.5),),
}


def output_of(mh, X, heads):
    """A layer that makes its heads so, after its norm and its rotation."""
    Q, K, V = mh.project(X)
    t = np.arange(len(X))[:, None]

    def weights(S):
        for step in mh.between:
            S = step.scores(S, t, t)
        return softmax(S)

    for step in mh.between:
        Q, K, V = step.vectors(Q, K, V, t, t)
    return mh.join(heads(Q, K, V, weights))


def tiled(Q, K, V, weights):
    K, V = (np.tile(x, (len(Q) // len(K), 1, 1)) for x in (K, V))
    return weights(Q @ K.swapaxes(-1, -2) / 2) @ V


def first(Q, K, V, weights):
    return weights(Q @ K[0].T / 2) @ V[0]


def by_token(Q, K, V, weights):
    Q, K, V = (x.swapaxes(0, 1) for x in (Q, K, V))
    return (weights(Q @ K.swapaxes(-1, -2) / 2) @ V).swapaxes(0, 1)


def scaled_late(Q, K, V, weights):
    return weights(Q @ K.swapaxes(-1, -2)) / 2 @ V


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize(
    ("name", "heads", "h", "h_kv"),
    [
        *(("groups-tiled", tiled, *n) for n in [(4, 2), (6, 3), (6, 2), (8, 2), (8, 4), (9, 3)]),
        ("first-group-used-for-all", first, 4, 2),
        ("heads-attend-to-heads", by_token, 4, 4),
        ("scale-after-the-softmax", scaled_late, 4, 4),
    ],
)
def test_a_mistake_is_found_whatever_stands_between_the_maps(name, heads, h, h_kv, between):
    mh = MultiHead.random(24, h, h_kv=h_kv, d_k=4)
    mh = dataclasses.replace(mh, between=BETWEEN[between](h_kv))
    X = normal(7, 24)
    assert names_of(diagnose(mh, output_of(mh, X, heads), X)) == {name}


def test_unsplit_heads_are_rotated_and_normed():
    mh = MultiHead.random(24, 4, d_k=4)
    mh = dataclasses.replace(mh, between=(QKNorm(), Rotation.of(1e4, 4)))
    wide = MultiHead(
        *(np.hstack(W)[None] for W in (mh.W_Q, mh.W_K, mh.W_V)), np.vstack(mh.W_O)[None]
    )
    X = normal(7, 24)
    output = dataclasses.replace(wide, between=mh.between)(X)
    assert names_of(diagnose(mh, output, X)) == {"heads-not-split"}


def test_where_no_heads_share_keys_no_groups_are_blamed():
    """The keys are not rotated here."""
    mh = dataclasses.replace(MultiHead.random(24, 6, d_k=4), between=(Rotation.of(1e4, 4),))
    X, t = normal(7, 24), np.arange(7)[:, None]
    Q, K, V = mh.project(X)
    output = mh.join(softmax(mh.between[0].turn(Q, t) @ K.swapaxes(-1, -2) / 2) @ V)
    assert not names_of(diagnose(mh, output, X))


def test_a_layer_of_which_a_step_is_not_known_is_not_judged():
    unknown = dataclasses.replace(SMALL.mh, between=layouts()["llama"].between)
    with refuses("rotate queries and keys (RoPE) … find_layers … between=()"):
        diagnose(unknown, SMALL.right, SMALL.sources[0])


def test_intermediates_show_the_bias_of_the_keys():
    output = MASKED.wrong("b_K-left-out")
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


@pytest.mark.usefixtures("unchecked")
def test_a_mask_may_be_a_tensor():
    mask = torch.from_numpy(MASKED.mask)
    assert diagnose(MASKED.mh, MASKED.right, MASKED.sources[0], mask=mask).right


def test_no_mask_that_was_given_is_spoken_of_where_none_was():
    found = SMALL.found(MASKED.right)
    assert "the layer is causal, and no causal mask was given (causal-mask-added)" in str(found)


@pytest.mark.parametrize("aligned", ["start", "end"])
def test_a_causal_mask_is_off_from_where_it_is_aligned(aligned):
    mh, (n_q, n_k) = SMALL.mh, (3, 7)
    X_Q, X_K = np.random.default_rng(2).normal(size=(2, 2, n_k, mh.d_model))
    X_Q, right = X_Q[:, :n_q], causal(n_q, n_k, aligned=aligned)
    diagonal = n_k - n_q if aligned == "end" else 0
    named = {1: "causal-mask-sees-one-token-ahead", -1: "causal-mask-hides-its-own-token"}
    for offset, name in named.items():
        mask = np.tri(n_q, n_k, diagonal + offset, dtype=bool)
        assert name in names_of(diagnose(mh, mh(X_Q, X_K, mask=mask), X_Q, X_K, mask=right))
        mask = np.tri(n_q, n_k, n_k - n_q - diagonal + offset, dtype=bool)
        assert name not in names_of(diagnose(mh, mh(X_Q, X_K, mask=mask), X_Q, X_K, mask=right))


def test_the_causal_part_of_a_mask_is_where_the_mask_has_it():
    mh, (n_q, n_k) = SMALL.mh, (3, 7)
    X_Q, X_K = np.random.default_rng(2).normal(size=(2, 2, n_k, mh.d_model))
    X_Q, padding = X_Q[:, :n_q], np.ones((2, 1, 1, n_k), bool)
    padding[1, ..., :2] = False
    start, end = (causal(n_q, n_k, aligned=it) for it in ("start", "end"))
    for applied, is_named in ((end, True), (start, False)):
        found = diagnose(mh, mh(X_Q, X_K, mask=applied), X_Q, X_K, mask=padding & end)
        assert ("padding-ignored" in names_of(found)) == is_named
    found = diagnose(mh, mh(X_Q, X_K, mask=start), X_Q, X_K, mask=end)
    assert names_of(found) == {"causal-mask-at-the-upper-left"}  # one was given


def test_no_causal_mask_is_spoken_of_where_another_mask_was_given():
    mh, n = SMALL.mh, 6
    X = np.random.default_rng(3).normal(size=(n, mh.d_model))
    tri, first = np.tri(n, dtype=bool), np.arange(n) < 3
    window, prefix = tri & ~np.tri(n, n, -3, dtype=bool), tri | first
    one_more = np.tri(n, n, 1, dtype=bool)
    for right, applied in (
        (window, one_more),  # the window is lost, too
        (prefix, prefix & one_more),
        (None, one_more),
        (window & (np.arange(n) < 5), tri),
    ):
        assert not names_of(diagnose(mh, mh(X, mask=applied), X, mask=right))
    seen = window | (one_more & ~tri)
    found = diagnose(mh, mh(X, mask=seen), X, mask=window)
    assert names_of(found) == {"causal-mask-sees-one-token-ahead"}
    padding = np.broadcast_to(np.arange(n) < 5, (3, n))
    found = diagnose(mh, mh(X[:3], X, mask=tri[:3] & padding), X[:3], X, mask=padding)
    assert names_of(found) == {"causal-mask-added"}


def test_a_right_output_is_right_however_few_queries_see_a_key():
    mh, n = SMALL.mh, 8
    X = np.random.default_rng(7).normal(size=(n, mh.d_model))
    mask = np.tri(n, dtype=bool) & (np.arange(n) >= 5)
    found = diagnose(mh, mh(X, mask=mask), X, mask=mask)
    assert found.right
    assert str(
        diagnose(
            mh, 2 * mh(X, mask=mask), X, mask=mask, intermediates={"weights": np.zeros((2, n, n))}
        )
    )


def test_mistakes_with_the_mask_are_found_in_a_padded_batch():
    mh, n = SMALL.mh, 5
    X, tri = np.random.default_rng(8).normal(size=(3, n, mh.d_model)), np.tri(n, dtype=bool)
    padding = (np.arange(n) < np.array([[5], [3], [1]]))[:, None, None]
    for applied, name in (
        (padding & np.tri(n, n, 1, dtype=bool), "causal-mask-sees-one-token-ahead"),
        (tri, "padding-ignored"),
        (padding, "causal-part-ignored"),
    ):
        assert name in names_of(diagnose(mh, mh(X, mask=applied), X, mask=padding & tri))
    padding = (np.arange(n) < np.array([[5], [5], [3]]))[:, None, None]
    Q, K, V = mh.project(X)
    S = np.where(~padding, Q @ K.swapaxes(-1, -2) * mh.d_k**-0.5, -1e9)
    output = (softmax(S) @ V @ mh.W_O).sum(axis=1) + mh.b_O
    assert names_of(diagnose(mh, output, X, mask=padding)) == {"mask-reversed"}


def test_weights_where_a_query_sees_nothing_may_be_anything():
    mh, n = SMALL.mh, 5
    X = np.random.default_rng(9).normal(size=(n, mh.d_model))
    mask = np.tri(n, dtype=bool) & (np.arange(n) >= 2)
    weights = np.zeros((mh.h, n, n))
    weights[:, :2] = np.nan
    found = diagnose(mh, mh(X, mask=mask), X, mask=mask, intermediates={"weights": weights})
    assert found.right


def test_an_output_is_not_explained_by_a_few_of_its_rows():
    mh = SMALL.mh
    X, k = np.random.default_rng(4).normal(size=(2, 6, mh.d_model))
    output = mh(X, k[:1])
    output[:5] = 7
    assert not names_of(diagnose(mh, output, X, k[:1]))


def test_rows_that_are_zero_or_sum_to_one_were_not_dropped():
    mh = MultiHead.random(12, 1)
    X = np.random.default_rng(5).normal(size=(5, 12))
    mask = np.broadcast_to(np.arange(5) < 4, (5, 5))
    output = 2 * mh(X, mask=mask)
    output[4:] = 0
    assert "dropout-of-the-output" not in names_of(diagnose(mh, output, X, mask=mask))
    right = mh(X, mask=mask)
    Q, K, _ = mh.project(X)
    weights = softmax(Q @ K.swapaxes(-1, -2) * mh.d_k**-0.5, mask=mask & (np.arange(5) != 2))
    found = diagnose(mh, right, X, mask=mask, intermediates={"weights": weights})
    assert "dropout-of-weights" not in names_of(found)


def test_biases_that_a_layer_lacks_are_not_said_to_be_left_out():
    whisper = dataclasses.replace(SMALL.mh, b_K=None)
    X = np.random.default_rng(6).normal(size=(5, whisper.d_model))
    bare = dataclasses.replace(whisper, b_Q=None, b_V=None)
    said = str(diagnose(whisper, bare(X), X))
    assert "those of the biases b_Q, b_K and b_V that the layer has are left out" in said


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
    with refuses("(5, 12) … (5, 14) … W_O is not applied"):
        diagnose(mh, np.ones((5, 14)), normal(5, 12))


@pytest.mark.usefixtures("unchecked")
def test_bad_input_is_refused():
    mh, X, output = SMALL.mh, SMALL.sources[0], SMALL.right
    with refuses("output must hold floating-point numbers … int64", error=TypeError):
        diagnose(mh, output.astype(int), X)
    with refuses("mh must be a MultiHead, or stored arrays … dict", error=TypeError):
        diagnose(dump(mh, "pytorch"), output, X)
    [layer] = find_layers(dump(mh, "pytorch"), h=2)
    with refuses("is a FoundLayer with … Pass what its load() gives.", error=TypeError):
        diagnose(layer, output, X)
    with refuses("are for stored arrays, but mh is a MultiHead", error=TypeError):
        diagnose(mh, output, X, h=2)
    with refuses("name in intermediates … 'Q', 'K' … 'score'"):
        diagnose(mh, output, X, intermediates={"score": output})
    with refuses("intermediates['scores'] must have shape (2, 2, 5, 5) … (2, 5, 5)"):
        diagnose(mh, output, X, intermediates={"scores": normal(2, 5, 5)})
    for tolerance in (-1, "a"):
        with refuses(f"tolerance must be between 0 and 1, but is {tolerance!r}"):
            diagnose(mh, output, X, tolerance=tolerance)
    with refuses("must be one array, but is a tuple of 2 … pass the first", error=TypeError):
        diagnose(mh, (output, None), X)
    with refuses("output must be an array of shape (2, 5, 12) … call .float()", error=TypeError):
        diagnose(mh, torch.from_numpy(output).bfloat16(), X)
    with refuses("X_Q must be an array … but is None", error=TypeError):
        diagnose(mh, output, None)
    with refuses("output must be an array … but is 'x'", error=TypeError):
        diagnose(mh, "x", X)
    with refuses("intermediates must be a mapping … a list … 'scores'", error=TypeError):
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
    with refuses("output must be finite … output[1, 2, 3] is nan"):
        SMALL.found(output)
    with refuses("output must be finite … output[2, 3] is nan (output has shape (5, 12))"):
        diagnose(SMALL.mh, output[1], SMALL.sources[0][1])


def test_nan_where_a_query_may_see_nothing():
    mask = np.tri(5, dtype=bool)
    mask[2] = False
    setting = dataclasses.replace(SMALL, mask=mask)
    output = setting.right.copy()
    output[:, 2] = np.nan
    assert setting.found(output).right
    found = setting.found(output + np.arange(output.size).reshape(output.shape) % 7)
    assert (found.right, found.explanations) == (False, ()), "NaN is refused where keys are seen"


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_dropout_of_the_output_where_a_query_may_see_nothing_and_in_each_precision(dtype):
    mask = np.tri(5, dtype=bool)
    mask[2] = False
    setting = dataclasses.replace(MASKED, mask=mask)
    kept = np.random.default_rng(0).random(setting.right.shape) > 0.3
    dropped = (setting.right * kept / 0.7).astype(dtype)
    assert names_of(setting.found(dropped)) == {"dropout-of-the-output"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda S: 0.9 * S, "in the scores of each head. They are 0.9 times the layer's."),
        (lambda S: S[:, [1, 0, 2, 3]], "They are the layer's heads in the order 1, 0, 2, 3."),
        (
            lambda S: S + np.eye(7)[:, 2:3],
            "in the scores of each head of token 2 (counted from 0).",
        ),
        (
            lambda S: S + np.eye(2)[0][:, None, None, None],
            "in the scores of each head of sample 0 (counted from 0).",
        ),
        (lambda S: S + np.eye(4)[3][:, None, None], "in the scores of head 3 (counted from 0)."),
    ],
)
def test_intermediates_tell_where_they_differ_and_what_they_share(change, said):
    setting = SETTINGS["steps on scores"]
    inputs = Inputs.of(setting.mh, [*setting.sources], None)
    scores = change(Layer(inputs).scores)
    output = setting.right + normal(*setting.right.shape, seed=9)
    assert said in str(setting.found(output, intermediates={"scores": scores}))
