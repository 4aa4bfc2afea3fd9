"""Where each library keeps each number, written out index by index."""

import itertools

import numpy as np
import pytest

from qkv import load
from qkv.between import Unknown

H, D_K = 2, 3
WIDTH = H * D_K  # d_model where a library fixes it


def numbered(shapes):
    """Arrays of these shapes in which no number occurs twice."""
    start, weights = 0, {}
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        weights[name] = np.arange(start, start + size, dtype=float).reshape(shape)
        start += size
    return weights


def check(mh, weights, where):
    for part, (name, index) in where.items():
        array = getattr(mh, part)
        for at in itertools.product(*map(range, array.shape)):
            assert array[at] == weights[name][index(*at)], (part, at)


OUT_IN = {
    "bert": ("self.query.{}", "self.key.{}", "self.value.{}", "output.dense.{}"),
    "annotated-transformer": tuple(f"linears.{i}.{{}}" for i in range(4)),
    "llama": ("q_proj.{}", "k_proj.{}", "v_proj.{}", "o_proj.{}"),
    "diffusers": ("to_q.{}", "to_k.{}", "to_v.{}", "to_out.0.{}"),
    "clip": ("q_proj.{}", "k_proj.{}", "v_proj.{}", "out_proj.{}"),
}


@pytest.mark.parametrize("layout", OUT_IN)
def test_separate_linear_layers_stored_out_in(layout):
    shapes, where = {}, {}
    for part, name in zip("QKVO", OUT_IN[layout], strict=True):
        shapes[name.format("weight")] = (WIDTH, WIDTH)
        shapes[name.format("bias")] = (WIDTH,)
        where[f"W_{part}"] = (name.format("weight"), lambda i, a, b: (i * D_K + b, a))
        where[f"b_{part}"] = (name.format("bias"), lambda i, b: i * D_K + b)
    where["W_O"] = (where["W_O"][0], lambda i, b, a: (a, i * D_K + b))
    where["b_O"] = (where["b_O"][0], lambda a: a)
    weights = numbered(shapes)
    check(load(weights, layout, h=H), weights, where)


def test_t5_has_no_biases_and_any_width():
    weights = numbered(
        {"q.weight": (6, 5), "k.weight": (6, 5), "v.weight": (6, 5), "o.weight": (5, 6)}
    )
    mh = load(weights, "t5", h=H)
    where = {
        f"W_{part}": (f"{part.lower()}.weight", lambda i, a, b: (i * D_K + b, a)) for part in "QKV"
    }
    check(mh, weights, where | {"W_O": ("o.weight", lambda i, b, a: (a, i * D_K + b))})
    assert mh.scale == 1.0
    assert mh.b_Q is mh.b_K is mh.b_V is mh.b_O is None


def test_gptj_has_no_biases_and_a_rotation():
    names = ("k_proj", "v_proj", "q_proj", "out_proj")
    weights = numbered({f"{name}.weight": (WIDTH, WIDTH) for name in names})
    mh = load(weights, "gptj", h=H)
    where = {
        f"W_{part}": (f"{part.lower()}_proj.weight", lambda i, a, b: (i * D_K + b, a))
        for part in "QKV"
    }
    check(mh, weights, where | {"W_O": ("out_proj.weight", lambda i, b, a: (a, i * D_K + b))})
    assert [type(step) for step in mh.between] == [Unknown]
    assert mh.b_Q is mh.b_K is mh.b_V is mh.b_O is None


def test_codegen_has_four_blocks_and_values_before_keys():
    """Eight heads: a block has two, and of each part two times D_K rows."""
    weights = numbered({"qkv_proj.weight": (24 * D_K, 24), "out_proj.weight": (24, 24)})
    where = {"W_O": ("out_proj.weight", lambda i, b, a: (a, i * D_K + b))}
    for third, part in enumerate("QVK"):

        def row(i, a, b, third=third):
            return ((i // 2 * 3 + third) * 2 + i % 2) * D_K + b, a

        where[f"W_{part}"] = ("qkv_proj.weight", row)
    check(load(weights, "codegen", h=8), weights, where)


@pytest.mark.parametrize(
    ("layout", "names"),
    [
        ("whisper", ("q_proj", "k_proj", "v_proj", "out_proj")),
        ("openai-whisper", ("query", "key", "value", "out")),
    ],
)
def test_whisper_has_no_key_bias(layout, names):
    q, k, v, out = names
    weights = numbered(
        {f"{name}.weight": (6, 6) for name in names}
        | {f"{name}.bias": (6,) for name in (q, v, out)}
    )
    mh = load(weights, layout, h=H)
    where = {
        f"W_{part}": (f"{name}.weight", lambda i, a, b: (i * D_K + b, a))
        for part, name in zip("QKV", (q, k, v), strict=True)
    }
    for part, name in (("Q", q), ("V", v)):
        where[f"b_{part}"] = (f"{name}.bias", lambda i, b: i * D_K + b)
    where["W_O"] = (f"{out}.weight", lambda i, b, a: (a, i * D_K + b))
    where["b_O"] = (f"{out}.bias", lambda a: a)
    check(mh, weights, where)
    assert mh.b_K is None


def test_llama_has_grouped_heads_and_a_rotation():
    weights = numbered(
        {
            "q_proj.weight": (4 * 3, 7),
            "k_proj.weight": (2 * 3, 7),
            "v_proj.weight": (2 * 3, 7),
            "o_proj.weight": (7, 4 * 3),
        }
    )
    mh = load(weights, "llama", h=4, h_kv=2)
    assert [type(step) for step in mh.between] == [Unknown]
    assert (mh.h, mh.h_kv, mh.d_model, mh.d_k) == (4, 2, 7, 3)
    check(
        mh,
        weights,
        {
            f"W_{part}": (f"{part.lower()}_proj.weight", lambda i, a, b: (i * D_K + b, a))
            for part in "QKV"
        }
        | {"W_O": ("o_proj.weight", lambda i, b, a: (a, i * D_K + b))},
    )


IN_OUT = {
    "bert-tf": (("self/query", "self/key", "self/value", "output/dense"), "kernel", "bias"),
    "haiku": (("query", "key", "value", "linear"), "w", "b"),
    "tensor2tensor": (("q", "k", "v", "output_transform"), "kernel", None),
}


@pytest.mark.parametrize("layout", IN_OUT)
def test_separate_linear_layers_stored_in_out(layout):
    modules, kernel, bias = IN_OUT[layout]
    shapes, where = {}, {}
    for part, module in zip("QKVO", modules, strict=True):
        shapes[f"{module}/{kernel}"] = (WIDTH, WIDTH)
        where[f"W_{part}"] = (f"{module}/{kernel}", lambda i, a, b: (a, i * D_K + b))
        if bias:
            shapes[f"{module}/{bias}"] = (WIDTH,)
            where[f"b_{part}"] = (f"{module}/{bias}", lambda i, b: i * D_K + b)
    where["W_O"] = (where["W_O"][0], lambda i, b, a: (i * D_K + b, a))
    if bias:
        where["b_O"] = (where["b_O"][0], lambda a: a)
    weights = numbered(shapes)
    check(load(weights, layout, h=H), weights, where)


HEAD_AXIS = {"keras": "attention_output", "flax": "out"}


@pytest.mark.parametrize("layout", HEAD_AXIS)
def test_kernels_with_a_head_axis(layout):
    out = HEAD_AXIS[layout]
    weights = numbered(
        {f"{module}/kernel": (5, H, D_K) for module in ("query", "key", "value")}
        | {f"{module}/bias": (H, D_K) for module in ("query", "key", "value")}
        | {f"{out}/kernel": (H, D_K, 7), f"{out}/bias": (7,)}
    )
    where = {}
    for part, module in zip("QKV", ("query", "key", "value"), strict=True):
        where[f"W_{part}"] = (f"{module}/kernel", lambda i, a, b: (a, i, b))
        where[f"b_{part}"] = (f"{module}/bias", lambda i, b: (i, b))
    where["W_O"] = (f"{out}/kernel", lambda i, b, a: (i, b, a))
    where["b_O"] = (f"{out}/bias", lambda a: a)
    check(load(weights, layout, h=H), weights, where)


def test_transformerlens_stores_the_papers_matrices():
    weights = numbered(
        {f"W_{part}": (H, 5, D_K) for part in "QKV"}
        | {f"b_{part}": (H, D_K) for part in "QKV"}
        | {"W_O": (H, D_K, 5), "b_O": (5,)}
    )
    mh = load(weights, "transformerlens", h=H)
    for name, stored in weights.items():
        np.testing.assert_array_equal(getattr(mh, name), stored)


def test_transformerlens_marks_grouped_keys_and_values_with_an_underscore():
    weights = numbered(
        {"W_Q": (4, 5, 3), "b_Q": (4, 3), "W_O": (4, 3, 5), "b_O": (5,)}
        | {f"_W_{part}": (2, 5, 3) for part in "KV"}
        | {f"_b_{part}": (2, 3) for part in "KV"}
    )
    mh = load(weights, "transformerlens", h=4, h_kv=2)
    for name, stored in weights.items():
        np.testing.assert_array_equal(getattr(mh, name.removeprefix("_")), stored)


PACKED = {
    "pytorch": ("in_proj_weight", "in_proj_bias", "out_proj"),
    "nanogpt": ("c_attn.weight", "c_attn.bias", "c_proj"),
    "vit-pytorch": ("to_qkv.weight", None, "to_out.0"),
    "timm": ("qkv.weight", "qkv.bias", "proj"),
    "gpt2": ("c_attn.weight", "c_attn.bias", "c_proj"),
    "gpt-neox": ("query_key_value.weight", "query_key_value.bias", "dense"),
    "bloom": ("query_key_value.weight", "query_key_value.bias", "dense"),
}


@pytest.mark.parametrize("layout", PACKED)
def test_packed_queries_keys_and_values(layout):
    weight, bias, out = PACKED[layout]

    def row(third, i, b):
        if layout in ("gpt-neox", "bloom"):
            return i * 3 * D_K + third * D_K + b
        return third * WIDTH + i * D_K + b

    transposed = layout == "gpt2"
    shapes = {weight: (WIDTH, 3 * WIDTH) if transposed else (3 * WIDTH, WIDTH)}
    shapes |= {f"{out}.weight": (WIDTH, WIDTH), f"{out}.bias": (WIDTH,)}
    where = {"b_O": (f"{out}.bias", lambda a: a)}
    for third, part in enumerate("QKV"):

        def matrix(i, a, b, third=third):
            return (a, row(third, i, b)) if transposed else (row(third, i, b), a)

        where[f"W_{part}"] = (weight, matrix)
        if bias:
            shapes[bias] = (3 * WIDTH,)
            where[f"b_{part}"] = (bias, lambda i, b, third=third: row(third, i, b))
    where["W_O"] = (
        f"{out}.weight",
        lambda i, b, a: (i * D_K + b, a) if transposed else (a, i * D_K + b),
    )
    weights = numbered(shapes)
    check(load(weights, layout, h=H), weights, where)


def queries_first(part, i):
    """Four heads of queries, two of keys, two of values."""
    return i + {"Q": 0, "K": 4, "V": 6}[part]


def in_groups(part, i):
    """Two groups, each of two heads of queries, one of keys and one of values."""
    return 4 * (i // 2) + i % 2 if part == "Q" else 4 * i + {"K": 2, "V": 3}[part]


GROUPED = {
    "phi3": ("qkv_proj", "o_proj", queries_first),
    "falcon": ("query_key_value", "dense", in_groups),
    "megatron": ("linear_qkv", "linear_proj", in_groups),
}


@pytest.mark.parametrize("layout", GROUPED)
def test_packed_heads_of_which_keys_and_values_have_fewer(layout):
    packed, out, place = GROUPED[layout]
    biased = layout != "phi3"
    shapes = {f"{packed}.weight": (8 * D_K, 4 * D_K), f"{out}.weight": (4 * D_K, 4 * D_K)}
    shapes |= {f"{packed}.bias": (8 * D_K,), f"{out}.bias": (4 * D_K,)} if biased else {}
    where = {"W_O": (f"{out}.weight", lambda i, b, a: (a, i * D_K + b))}
    for part in "QKV":

        def row(i, b, part=part):
            return place(part, i) * D_K + b

        where[f"W_{part}"] = (f"{packed}.weight", lambda i, a, b, row=row: (row(i, b), a))
        if biased:
            where[f"b_{part}"] = (f"{packed}.bias", row)
    weights = numbered(shapes)
    mh = load(weights, layout, h=4, h_kv=2)
    assert (mh.h, mh.h_kv) == (4, 2)
    check(mh, weights, where)


def test_gpt_bigcode_packs_one_key_and_one_value_below_the_queries():
    shapes = {"c_attn.weight": (6 * D_K, 4 * D_K), "c_attn.bias": (6 * D_K,)}
    shapes |= {"c_proj.weight": (4 * D_K, 4 * D_K), "c_proj.bias": (4 * D_K,)}
    where = {"W_O": ("c_proj.weight", lambda i, b, a: (a, i * D_K + b))}
    for part, first in {"Q": 0, "K": 4, "V": 5}.items():

        def row(i, b, first=first):
            return (first + i) * D_K + b

        where[f"W_{part}"] = ("c_attn.weight", lambda i, a, b, row=row: (row(i, b), a))
        where[f"b_{part}"] = ("c_attn.bias", row)
    weights = numbered(shapes)
    check(load(weights, "gpt-bigcode", h=4, h_kv=1), weights, where)


def test_gpt2_packs_only_keys_and_values_where_it_attends_across():
    weights = numbered(
        {
            "c_attn.weight": (6, 12),
            "c_attn.bias": (12,),
            "q_attn.weight": (6, 6),
            "q_attn.bias": (6,),
            "c_proj.weight": (6, 6),
            "c_proj.bias": (6,),
        }
    )
    check(
        load(weights, "gpt2", h=H),
        weights,
        {
            "W_Q": ("q_attn.weight", lambda i, a, b: (a, i * D_K + b)),
            "W_K": ("c_attn.weight", lambda i, a, b: (a, i * D_K + b)),
            "W_V": ("c_attn.weight", lambda i, a, b: (a, 6 + i * D_K + b)),
            "W_O": ("c_proj.weight", lambda i, b, a: (i * D_K + b, a)),
            "b_Q": ("q_attn.bias", lambda i, b: i * D_K + b),
            "b_K": ("c_attn.bias", lambda i, b: i * D_K + b),
            "b_V": ("c_attn.bias", lambda i, b: 6 + i * D_K + b),
        },
    )


def test_pytorch_keeps_other_widths_apart_but_packs_their_biases():
    weights = numbered(
        {
            "q_proj_weight": (6, 6),
            "k_proj_weight": (6, 5),
            "v_proj_weight": (6, 7),
            "in_proj_bias": (18,),
            "out_proj.weight": (6, 6),
            "out_proj.bias": (6,),
        }
    )
    where = {
        f"W_{part}": (f"{part.lower()}_proj_weight", lambda i, a, b: (i * D_K + b, a))
        for part in "QKV"
    }
    where |= {
        f"b_{part}": ("in_proj_bias", lambda i, b, third=third: third * 6 + i * D_K + b)
        for third, part in enumerate("QKV")
    }
    check(load(weights, "pytorch", h=H), weights, where)
