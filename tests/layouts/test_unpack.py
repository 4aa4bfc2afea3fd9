"""One stored array alone: what is cut out of it, and what is refused."""

import dataclasses

import numpy as np
import pytest

from qkv import MultiHead, dump, unpack
from qkv.layouts import layouts
from support import refuses

pytestmark = pytest.mark.usefixtures("unchecked")

BIASED = MultiHead.random(12, 4, bias=True)
FUSED = [
    pytest.param(layout.name, form, stored, id=f"{layout.name}-{form.when}-{stored.name}")
    for layout in layouts().values()
    for form in layout.forms
    for stored in form.stored
]


@pytest.mark.parametrize(("layout", "form", "stored"), FUSED)
def test_each_stored_array_alone(layout, form, stored):
    of_layout = layouts()[layout]
    h_kv = 1 if of_layout.one_or_all else 2
    mh = MultiHead.random(12, 4, h_kv=h_kv if of_layout.grouped else 4, bias=True)
    held = {part for each in form.stored for part in each.parts}
    none = {f"b_{part}": None for part in "QKVO" if f"b_{part}" not in held}
    mh = dataclasses.replace(mh, **none, scale=of_layout.scale, between=of_layout.between)
    try:
        array = dump(mh, layout, form=form.when)[stored.name]
    except ValueError:  # a form without groups
        mh = dataclasses.replace(BIASED, **none, scale=of_layout.scale, between=of_layout.between)
        array = dump(mh, layout, form=form.when)[stored.name]
    parts = unpack(array, layout, h=4, h_kv=mh.h_kv, name=stored.name, form=form.when)
    assert tuple(parts) == stored.parts
    for part, cut in parts.items():
        np.testing.assert_array_equal(cut, getattr(mh, part), strict=True)


@pytest.mark.parametrize("layout", ["pytorch", "gpt2", "gpt-neox", "nanogpt", "vit-pytorch"])
def test_a_fused_matrix_needs_no_name(layout):
    of_layout = layouts()[layout]
    mh = MultiHead.random(12, 4, bias=of_layout.biases != "never")
    none = {"b_Q": None, "b_K": None, "b_V": None} if layout == "vit-pytorch" else {}
    mh = dataclasses.replace(mh, **none, between=of_layout.between)
    fused, *_ = dump(mh, layout).values()
    parts = unpack(fused, layout, h=4)
    assert [*parts] == ["W_Q", "W_K", "W_V"]
    for part, cut in parts.items():
        np.testing.assert_array_equal(cut, getattr(mh, part))


def test_what_numpy_can_convert():
    torch = pytest.importorskip("torch")
    packed = dump(BIASED, "pytorch")["in_proj_weight"]
    for given in (packed.tolist(), torch.nn.Parameter(torch.tensor(packed))):
        np.testing.assert_array_equal(unpack(given, "pytorch", h=4)["W_V"], BIASED.W_V)


@pytest.mark.parametrize(
    ("shape", "layout", "h", "name", "counts"),
    [
        ((6144, 4096), "phi3", 32, None, "8 or 16 or 32"),
        ((6144, 4096), "megatron", 32, None, "8 or 16 or 32"),
        ((36, 24), "megatron", 4, None, "1 or 4"),  # MQA, of heads 6 wide
        ((36,), "falcon", 4, None, "1 or 4"),
        ((6,), "llama", 2, "k_proj.bias", "1 or 2"),
        ((12, 24), "llama", 4, "v_proj.weight", "1 or 2 or 4"),
        # Qwen3-0.6B has 16 heads of queries and 8 of keys, 128 wide.
        ((1024, 1024), "llama", 16, "k_proj.weight", "1 or 2 or 4 or 8 or 16"),
        ((72, 24), "phi3", 8, None, "2 or 8"),
    ],
)
def test_heads_of_keys_are_not_guessed_where_the_shape_leaves_them_open(
    shape, layout, h, name, counts
):
    array = np.zeros(shape, np.float32)
    with refuses(f"shape {shape} does not say how many: pass h_kv", f"may be {counts}."):
        unpack(array, layout, h=h, name=name)
    for n in map(int, counts.split(" or ")):
        parts = unpack(array, layout, h=h, h_kv=n, name=name)
        assert all(len(parts[part]) == n for part in parts if part[-1] in "KV")


@pytest.mark.parametrize(
    ("shape", "layout", "name"),
    [
        ((20, 12), "llama", "q_proj.weight"),  # of the queries' heads nothing is guessed
        ((12, 4, 5), "flax", "key/kernel"),  # the heads have an axis of their own
        ((15, 12), "phi3", None),  # one head
    ],
)
def test_heads_of_keys_need_not_be_told_where_the_shape_shows_them(shape, layout, name):
    h = 1 if shape == (15, 12) else 4
    array = np.arange(float(np.prod(shape))).reshape(shape)
    told = unpack(array, layout, h=h, h_kv=h, name=name)
    for part, cut in unpack(array, layout, h=h, name=name).items():
        np.testing.assert_array_equal(cut, told[part])


def test_pytorchs_bias_is_the_same_in_both_cases():
    assert [*unpack(np.arange(24.0), "pytorch", h=4)] == ["b_Q", "b_K", "b_V"]


def test_gpt2_has_two_cases_for_a_bias():
    bias = np.arange(24.0)
    with refuses("shape (24,) in more than one case … 'self-attention', 'cross-attention'"):
        unpack(bias, "gpt2", h=4)
    assert [*unpack(bias, "gpt2", h=4, form="self-attention")] == ["b_Q", "b_K", "b_V"]
    assert [*unpack(bias, "gpt2", h=4, form="cross-attention")] == ["b_K", "b_V"]


@pytest.mark.parametrize(
    ("shape", "layout", "options", "parts"),
    [
        ((36, 12), "torch", {"h": 4}, "layout must be one of 'pytorch' … but is 'torch'"),
        ((36, 12), "pytorch", {"h": 0}, "h must be a positive whole number, but is 0"),
        ((36, 12), "pytorch", {"h": 4, "h_kv": 3}, "h_kv must divide h"),
        ((36, 12), "pytorch", {"h": 4, "h_kv": 2}, "has as many heads … h = 4 and h_kv = 2"),
        (
            (36, 12),
            "gpt-neox",
            {"h": 5},
            "query_key_value.weight (h·3·d_k, d_model) … h = 5 … has shape (36, 12).",
        ),
        (
            (24, 12),
            "gpt-bigcode",
            {"h": 4, "h_kv": 2},
            "has one head of keys and values, or as many as of queries … h = 4 and h_kv = 2",
        ),
        ((36, 12), "gpt2", {"h": 4}, "c_attn.weight (d_model, 3·h·d_k) … fits 'pytorch'"),
        ((12, 12), "bert", {"h": 4}, "apart: pass name, one of 'self.query.weight'"),
        ((12, 12), "bert", {"h": 4, "name": "q"}, "name must be one of … but is 'q'"),
        ((12, 12), "gpt2", {"h": 4, "form": "cross"}, "form must be one of … but is 'cross'"),
        (
            (6, 12),
            "llama",
            {"h": 4, "name": "k_proj.weight"},
            "(h_kv·d_k, d_model) … (6, 12) … The shape fits h_kv = 1 or 2.",
        ),
    ],
)
def test_what_is_refused(shape, layout, options, parts):
    with refuses(parts):
        unpack(np.ones(shape), layout, **options)


def test_only_floating_point_numbers():
    with refuses("array must hold floating-point numbers … int8", error=TypeError):
        unpack(np.ones((36, 12), np.int8), "pytorch", h=4)


@pytest.mark.parametrize(
    ("came", "said"),
    [
        (None, "is None"),
        ("x", "is a str"),
        ({"a": np.ones(3)}, "is a dict. Pass one of its arrays"),
    ],
)
def test_what_is_no_array(came, said):
    with refuses("array must be one stored array, but", said, error=TypeError):
        unpack(came, "pytorch", h=2)


def test_no_layout_is_advised_that_cannot_hold_fewer_heads_of_keys():
    with refuses("phi3 … The shape fits h_kv = 1.") as error:
        unpack(np.ones((36, 12)), "phi3", h=4, h_kv=2)
    assert "'pytorch'" not in str(error.value)
