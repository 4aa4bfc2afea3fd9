import pytest

from qkv.layouts import layouts

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
def test_patterns_name_the_same_axes_on_both_sides(stored):
    of_library, of_paper = (
        sorted(size for axis in axes for size in axis) for axes in (stored.axes, stored.paper_axes)
    )
    assert of_library == of_paper
    assert len(stored.paper_axes) == (2 - ("b_O" in stored.parts) if stored.is_bias else 3)
    if len(stored.parts) > 1:
        assert len(stored.split.split("+")) in (1, len(stored.parts))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_every_form_holds_every_matrix_once(layout):
    for form in layout.forms:
        held = [part for stored in form.stored for part in stored.parts]
        assert len(held) == len(set(held))
        assert {"W_Q", "W_K", "W_V", "W_O"} <= set(held)


def test_a_shape_is_written_in_the_papers_symbols():
    weight, bias, *_ = LAYOUTS["gpt-neox"].forms[0].stored
    assert weight.shape == "(h·3·d_k, d_model)"
    assert bias.shape == "(h·3·d_k,)"
