import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv import MultiHead, dump, load
from qkv.layouts import layouts

SIZE = st.sampled_from([1, 2, 3, 5, 7])
DTYPE = st.sampled_from([np.float16, np.float32, np.float64])


def layers(layout):
    """Any layer that a layout can express."""
    all_stored = [stored for form in layout.forms for stored in form.stored]
    symbols = {symbol for stored in all_stored for symbol in stored.symbols}
    held = {part for stored in all_stored for part in stored.parts}
    return drawn_layers(layout, symbols, held)


@st.composite
def drawn_layers(draw, layout, symbols, held):
    h_kv, d_model, d_k, d_v, d_source_k, d_source_v, d_out = (draw(SIZE) for _ in range(7))
    h_kv *= 4 if layout.name == "codegen" else 1  # it has four blocks
    between = "h_kv" in symbols and not (layout.one_or_all and h_kv > 1)
    h = h_kv * draw(SIZE) if between else h_kv
    if layout.square:
        d_model = h * d_k
    d_model += h == 1 and d_model == d_k and not layout.whole_head
    d_v = d_v if "d_v" in symbols else d_k
    d_out = d_out if "d_out" in symbols else d_model
    if "d_source" in symbols:
        d_source_v = d_source_k
    elif "d_source_k" not in symbols:
        d_source_k = d_source_v = d_model
    dtype, rng = draw(DTYPE), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shapes = {
        "W_Q": (h, d_model, d_k),
        "W_K": (h_kv, d_source_k, d_k),
        "W_V": (h_kv, d_source_v, d_v),
        "W_O": (h, d_v, d_out),
        "b_Q": (h, d_k),
        "b_K": (h_kv, d_k),
        "b_V": (h_kv, d_v),
        "b_O": (d_out,),
    }
    if layout.optional_biases and draw(st.booleans()):
        held = {part for part in held if part.startswith("W_")}
    parts = {part: rng.normal(size=shapes[part]).astype(dtype) for part in held}
    return MultiHead(**parts, scale=layout.scale, between=layout.between)


@pytest.mark.parametrize("layout", layouts().values(), ids=layouts())
@given(data=st.data())
@settings(max_examples=10)
def test_load_undoes_dump_and_dump_undoes_load(layout, data):
    mh = data.draw(layers(layout))
    prefix = data.draw(st.sampled_from(["", "layer.0."]))
    weights = dump(mh, layout.name, prefix=prefix)
    loaded = load(weights, layout.name, h=mh.h, h_kv=mh.h_kv, prefix=prefix)
    assert loaded == mh
    again = dump(loaded, layout.name, prefix=prefix)
    assert list(again) == list(weights)
    for name, array in weights.items():
        np.testing.assert_array_equal(again[name], array, strict=True)


def test_dumped_arrays_are_new_writable_and_contiguous():
    mh = MultiHead.random(5, 2, d_k=3, bias=True)
    for array in dump(mh, "transformerlens").values():
        assert array.flags.writeable
        assert array.flags.c_contiguous
        array[...] = 0
    assert mh == MultiHead.random(5, 2, d_k=3, bias=True)


def test_loading_leaves_the_weights_alone_and_copies_them():
    weights = dump(MultiHead.random(5, 2, d_k=3, bias=True), "transformerlens")
    before = {name: array.copy() for name, array in weights.items()}
    mh = load(weights, "transformerlens", h=2)
    for name, array in weights.items():
        np.testing.assert_array_equal(array, before[name])
        array[...] = 0
    assert mh.W_Q.any()


def test_parts_stored_apart_keep_their_own_dtypes():
    mh = MultiHead.random(6, 2)
    mixed = dataclasses.replace(mh, W_K=mh.W_K.astype(np.float32))
    assert load(dump(mixed, "keras"), "keras", h=2) == mixed


def test_pytorch_is_packed_where_widths_agree_and_separate_where_not():
    mh = MultiHead.random(6, 2)
    other = dataclasses.replace(mh, W_K=np.ones((2, 5, 3)), W_V=np.ones((2, 7, 3)))
    assert list(dump(mh, "pytorch")) == ["in_proj_weight", "out_proj.weight"]
    assert {name: array.shape for name, array in dump(other, "pytorch").items()} == {
        "q_proj_weight": (6, 6),
        "k_proj_weight": (6, 5),
        "v_proj_weight": (6, 7),
        "out_proj.weight": (6, 6),
    }


def test_each_form_that_can_hold_a_layer_can_be_written():
    mh = MultiHead.random(6, 2, bias=True)
    for layout in (layouts()["pytorch"], layouts()["gpt2"]):
        for form in layout.forms:
            weights = dump(mh, layout.name, form=form.when)
            assert list(weights) == [stored.name for stored in form.stored]
            assert load(weights, layout.name, h=2) == mh
