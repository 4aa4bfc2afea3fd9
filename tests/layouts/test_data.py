import dataclasses

import pytest

from qkv import MultiHead, dump
from qkv.layouts import layouts
from support import refuses

LAYOUTS = layouts()
STORED = [
    pytest.param(stored, id=f"{layout.name}-{stored.name}")
    for layout in LAYOUTS.values()
    for form in layout.forms
    for stored in form.stored
]


def test_layouts_hands_out_a_copy():
    layouts().clear()
    assert layouts() == LAYOUTS


@pytest.mark.parametrize("stored", STORED)
def test_a_matrix_of_the_paper_has_three_axes_and_a_bias_one_less(stored):
    assert len(stored.paper_axes) == (2 - ("b_O" in stored.parts) if stored.is_bias else 3)
    if len(stored.parts) > 1:
        assert len(stored.split.split("+")) in (1, len(stored.parts))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_every_form_holds_every_matrix_once(layout):
    for form in layout.forms:
        held = [part for stored in form.stored for part in stored.parts]
        assert len(held) == len(set(held))
        assert {"W_Q", "W_K", "W_V", "W_O"} <= set(held)


@pytest.mark.parametrize(
    ("layout", "sizes", "parts"),
    [
        ("gpt2", {"h_kv": 2}, "as many heads of keys and values … h = 4 and h_kv = 2"),
        ("pytorch", {"h_kv": 2}, "as many heads of keys and values"),
        ("gpt-bigcode", {"h_kv": 2}, "one head of keys and values, or as many as of queries"),
        ("llama", {"h_kv": 3}, "h_kv must divide h"),
        ("pytorch", {"d_v": 9}, "values as wide as keys … d_k = 6 and d_v = 9"),
        ("llama", {"d_v": 9}, "values as wide as keys"),
        ("pytorch", {"d_k": 5}, "d_model = h·d_k"),
        ("vit-pytorch", {"h": 1, "d_k": 24}, "other arrays … h = 1 and d_k = d_model = 24"),
        ("keras", {"d_k": 0}, "d_k must be a positive whole number"),
    ],
)
def test_no_shapes_are_told_of_a_layer_that_the_library_does_not_have(layout, sizes, parts):
    with refuses(parts):
        LAYOUTS[layout].shapes(**({"d_model": 24, "h": 4, "d_k": 6} | sizes))


def test_heads_that_do_not_fill_four_blocks_have_no_shapes():
    with refuses("4 must divide h, but h = 6."):
        LAYOUTS["codegen"].shapes(d_model=18, h=6, d_k=3)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("sizes", [{}, {"h_kv": 1}, {"h_kv": 2}, {"d_k": 5}, {"d_v": 7}, {"h": 1}])
def test_shapes_are_told_of_the_layers_that_can_be_dumped_and_of_no_others(layout, sizes):
    sizes = {"d_model": 24, "h": 4} | sizes
    if layout.name == "codegen" and sizes["h"] == 1:
        sizes["h"] = 8
    sizes.setdefault("d_k", 24 // sizes["h"])
    bias = layout.biases != "never"
    mh = MultiHead.random(**sizes, bias=bias)
    absent = {b: None for b in ("b_Q", "b_K", "b_V", "b_O") if b not in layout.bias_sets[0]}
    mh = dataclasses.replace(mh, **absent, scale=layout.scale, between=layout.between)
    try:
        dumped = {name: array.shape for name, array in dump(mh, layout.name).items()}
    except ValueError:
        with pytest.raises(ValueError, match=f"Layout {layout.name!r} has"):
            layout.shapes(**sizes, bias=bias)
    else:
        assert layout.shapes(**sizes, bias=bias).items() <= dumped.items()


def test_a_shape_is_written_in_the_papers_symbols():
    weight, bias, *_ = LAYOUTS["gpt-neox"].forms[0].stored
    assert weight.shape == "(h·3·d_k, d_model)"
    assert bias.shape == "(h·3·d_k,)"
