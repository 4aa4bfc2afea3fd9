"""`load(names=..., stored=...)`: a layer whose names no layout has."""

from dataclasses import replace

import numpy as np
import pytest

from qkv import MultiHead, dump, load
from qkv.between import Rotation
from support import refuses

pytestmark = pytest.mark.usefixtures("unchecked")

NAMES = {"W_Q": "q", "W_K": "k", "W_V": "v", "W_O": "o"}
BIASES = {"b_Q": "bq", "b_K": "bk", "b_V": "bv", "b_O": "bo"}
LAYER = MultiHead.random(12, 6, h_kv=2, d_k=5, d_v=4, bias=True)
# Sources of other widths than the model, and an output of another one.
CROSS = replace(LAYER, W_K=np.ones((2, 7, 5)), W_V=np.ones((2, 9, 4)))
PLAIN = MultiHead.random(6, 2)


def packed(mh, stored="(in, out)"):
    """The arrays of a layer, all heads side by side."""
    arrays = {
        "q": np.concatenate([*mh.W_Q], axis=1),
        "k": np.concatenate([*mh.W_K], axis=1),
        "v": np.concatenate([*mh.W_V], axis=1),
        "o": np.concatenate([*mh.W_O]),
    }
    arrays = {name: array.T if stored == "(out, in)" else array for name, array in arrays.items()}
    if mh.b_Q is not None:
        arrays |= {"bq": mh.b_Q.ravel(), "bk": mh.b_K.ravel(), "bv": mh.b_V.ravel(), "bo": mh.b_O}
    return arrays


def per_head(mh, stored="(in, out)"):
    """The same with an axis for the heads."""
    arrays = {"q": mh.W_Q, "k": mh.W_K, "v": mh.W_V, "o": mh.W_O}
    if stored == "(out, in)":
        arrays = {name: array.swapaxes(1, 2) for name, array in arrays.items()}
    return arrays | {"bq": mh.b_Q, "bk": mh.b_K, "bv": mh.b_V, "bo": mh.b_O}


@pytest.mark.parametrize("mh", [LAYER, CROSS], ids=["grouped", "of other sources"])
@pytest.mark.parametrize("stored", ["(out, in)", "(in, out)"])
@pytest.mark.parametrize("arrays", [packed, per_head])
def test_any_four_maps_by_name(arrays, stored, mh):
    weights = arrays(mh, stored) | {"norm": np.ones(12)}
    assert load(weights, h=6, h_kv=2, names=NAMES | BIASES, stored=stored) == mh


def test_biases_may_be_some_of_them_and_are_left_out_where_they_have_no_name():
    without = replace(LAYER, b_Q=None, b_K=None, b_V=None)
    some = NAMES | {"b_O": "bo"}
    assert load(packed(LAYER), h=6, h_kv=2, names=some, stored="(in, out)") == without


def test_one_array_may_be_two_maps():
    tied = replace(PLAIN, W_K=PLAIN.W_Q)
    assert load(packed(PLAIN), h=2, names=NAMES | {"W_K": "q"}, stored="(in, out)") == tied


def test_a_prefix_and_nested_parameters():
    weights = {"block": {"attn": packed(PLAIN)}, "head": {"q": np.ones((3, 3))}}
    loaded = load(weights, h=2, prefix="block/attn/", names=NAMES, stored="(in, out)")
    assert loaded == PLAIN


def test_what_stands_between_the_maps_is_said_beside_the_names():
    steps = (Rotation.of(1e4, 2),)
    loaded = load(packed(PLAIN), h=2, names=NAMES, stored="(in, out)", between=steps)
    assert loaded == replace(PLAIN, between=steps)
    assert load(dump(PLAIN, "pytorch"), "pytorch", h=2, between=steps) == loaded


def test_linear_maps_that_require_their_gradient():
    """As they stand in a model of PyTorch; the output is the model's own."""
    torch = pytest.importorskip("torch")
    maps = torch.nn.ModuleDict({name: torch.nn.Linear(6, 6).double() for name in "qkvo"})
    names = {f"W_{name.upper()}": f"{name}.weight" for name in "qkvo"}
    names |= {f"b_{name.upper()}": f"{name}.bias" for name in "qkvo"}
    mh = load(dict(maps.named_parameters()), h=2, names=names, stored="(out, in)")
    X = torch.randn(5, 6, dtype=torch.float64)
    q, k, v = (maps[name](X).unflatten(-1, (2, 3)).transpose(0, 1) for name in "qkv")
    heads = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    output = maps["o"](heads.transpose(0, 1).flatten(1))
    np.testing.assert_allclose(mh(X), output.detach(), rtol=1e-12)


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        ({"names": {"W_Q": "q", "W_O": "o"}}, ValueError, "but lacks 'W_K', 'W_V'."),
        ({"names": NAMES | {"W_X": "x"}}, ValueError, "a key of names must be … is 'W_X'"),
        ({"names": NAMES | {"W_O": "out"}}, ValueError, "no 'out' … for W_O; it has 'q', 'k'"),
        ({"prefix": "a."}, ValueError, "weights has no 'a.q', which names has for W_Q"),
        ({"stored": None}, ValueError, "stored must be one of '(out, in)', '(in, out)' … None"),
        (
            {"names": None, "layout": "bert"},
            ValueError,
            "Pass stored with names alone: layout 'bert'",
        ),
        ({"names": None}, ValueError, "Pass layout, one of layouts(), or names"),
        ({"layout": "bert"}, ValueError, "Pass layout or names, but both came: 'bert'"),
        ({"h": 4}, ValueError, "q must have shape (d_model, h·d_k) … h = 4 does not divide 6"),
        ({"weights": [np.ones(3)]}, TypeError, "weights must be a mapping … but is a list"),
        (
            {"weights": packed(PLAIN) | {"q": np.ones(6)}},
            ValueError,
            "q must have shape (h, d_model, d_k) … but has shape (6,)",
        ),
        (
            {"weights": packed(LAYER), "h": 6, "h_kv": 2, "stored": "(out, in)"},
            ValueError,
            "must have shape … Every matrix looks transposed: stored says (out, in).",
        ),
        (
            {"weights": packed(PLAIN) | {"v": np.ones((6, 6), np.int8)}},
            TypeError,
            "weights['v'] must hold floating-point numbers … int8 … quantised",
        ),
    ],
)
def test_what_does_not_fit(changed, error, said):
    given = {"weights": packed(PLAIN), "h": 2, "names": NAMES, "stored": "(in, out)"} | changed
    with refuses(said, error=error):
        load(given.pop("weights"), **given)


def test_fewer_heads_of_keys_are_not_called_transposed():
    shorter = packed(PLAIN) | {"k": np.ones((6, 3)), "v": np.ones((6, 3))}
    with pytest.raises(ValueError, match=r"\. The shapes fit h_kv = 1\.$"):
        load(shorter, h=2, names=NAMES, stored="(in, out)")
