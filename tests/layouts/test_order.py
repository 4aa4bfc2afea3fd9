"""Where libraries keep each number of which no layer is recorded, written out index by index.

The layers of all others are computed from their recordings: tests/truth/test_recordings.py.
"""

import itertools

import numpy as np
import pytest

from qkv import load

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


def test_annotated_transformer():
    """Separate linear layers, stored (out, in)."""
    shapes, where = {}, {}
    for number, part in enumerate("QKVO"):
        shapes |= {f"linears.{number}.weight": (WIDTH, WIDTH), f"linears.{number}.bias": (WIDTH,)}
        where[f"W_{part}"] = (f"linears.{number}.weight", lambda i, a, b: (i * D_K + b, a))
        where[f"b_{part}"] = (f"linears.{number}.bias", lambda i, b: i * D_K + b)
    where["W_O"] = ("linears.3.weight", lambda i, b, a: (a, i * D_K + b))
    where["b_O"] = ("linears.3.bias", lambda a: a)
    weights = numbered(shapes)
    check(load(weights, "annotated-transformer", h=H), weights, where)


IN_OUT = {
    "bert-tf": (("self/query", "self/key", "self/value", "output/dense"), True),
    "tensor2tensor": (("q", "k", "v", "output_transform"), False),
}


@pytest.mark.parametrize("layout", IN_OUT)
def test_separate_linear_layers_stored_in_out(layout):
    modules, biased = IN_OUT[layout]
    shapes, where = {}, {}
    for part, module in zip("QKVO", modules, strict=True):
        shapes[f"{module}/kernel"] = (WIDTH, WIDTH)
        where[f"W_{part}"] = (f"{module}/kernel", lambda i, a, b: (a, i * D_K + b))
        if biased:
            shapes[f"{module}/bias"] = (WIDTH,)
            where[f"b_{part}"] = (f"{module}/bias", lambda i, b: i * D_K + b)
    where["W_O"] = (f"{modules[-1]}/kernel", lambda i, b, a: (i * D_K + b, a))
    if biased:
        where["b_O"] = (f"{modules[-1]}/bias", lambda a: a)
    weights = numbered(shapes)
    check(load(weights, layout, h=H), weights, where)


def test_nanogpt():
    """Queries, keys and values one below the other, stored (out, in)."""
    shapes = {"c_attn.weight": (3 * WIDTH, WIDTH), "c_attn.bias": (3 * WIDTH,)}
    shapes |= {"c_proj.weight": (WIDTH, WIDTH), "c_proj.bias": (WIDTH,)}
    where = {"W_O": ("c_proj.weight", lambda i, b, a: (a, i * D_K + b))}
    where["b_O"] = ("c_proj.bias", lambda a: a)
    for third, part in enumerate("QKV"):

        def row(i, b, third=third):
            return third * WIDTH + i * D_K + b

        where[f"W_{part}"] = ("c_attn.weight", lambda i, a, b, row=row: (row(i, b), a))
        where[f"b_{part}"] = ("c_attn.bias", row)
    weights = numbered(shapes)
    check(load(weights, "nanogpt", h=H), weights, where)


def test_megatron():
    """Two groups, each of two heads of queries, one of keys and one of values."""
    shapes = {"linear_qkv.weight": (8 * D_K, 4 * D_K), "linear_qkv.bias": (8 * D_K,)}
    shapes |= {"linear_proj.weight": (4 * D_K, 4 * D_K), "linear_proj.bias": (4 * D_K,)}
    where = {"W_O": ("linear_proj.weight", lambda i, b, a: (a, i * D_K + b))}
    for part in "QKV":

        def row(i, b, part=part):
            place = 4 * (i // 2) + i % 2 if part == "Q" else 4 * i + {"K": 2, "V": 3}[part]
            return place * D_K + b

        where[f"W_{part}"] = ("linear_qkv.weight", lambda i, a, b, row=row: (row(i, b), a))
        where[f"b_{part}"] = ("linear_qkv.bias", row)
    weights = numbered(shapes)
    mh = load(weights, "megatron", h=4, h_kv=2)
    assert (mh.h, mh.h_kv) == (4, 2)
    check(mh, weights, where)
