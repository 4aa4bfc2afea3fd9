import pytest

from qkv.layouts import layouts

LAYOUTS = layouts()
STORED = [
    pytest.param(stored, id=f"{layout.name}-{stored.name}")
    for layout in LAYOUTS.values()
    for form in layout.forms
    for stored in form.stored
]


def test_layouts_are_the_sixteen():
    assert " ".join(LAYOUTS) == (
        "pytorch keras flax haiku bert bert-tf gpt2 gpt-neox llama t5 whisper "
        "annotated-transformer nanogpt vit-pytorch tensor2tensor transformerlens"
    )
    assert all(name == layout.name for name, layout in LAYOUTS.items())


def test_layouts_hands_out_a_copy():
    layouts().clear()
    assert layouts() == LAYOUTS


def test_conventions_are_the_libraries():
    in_out = {name for name, layout in LAYOUTS.items() if layout.convention == "(in, out)"}
    assert in_out == {
        "bert-tf", "flax", "gpt2", "haiku", "keras", "tensor2tensor", "transformerlens"
    }  # fmt: skip


def test_biases_are_the_libraries():
    by_biases = {
        biases: {name for name, layout in LAYOUTS.items() if layout.biases == biases}
        for biases in ("never", "always", "all or none")
    }
    assert by_biases == {
        "never": {"t5", "tensor2tensor"},
        "always": {
            "bert", "bert-tf", "gpt2", "whisper", "annotated-transformer", "vit-pytorch",
            "transformerlens",
        },
        "all or none": {"pytorch", "keras", "flax", "haiku", "gpt-neox", "llama", "nanogpt"},
    }  # fmt: skip


def test_grouped_scaled_and_rotary_are_the_libraries():
    assert {name for name, layout in LAYOUTS.items() if layout.grouped} == {
        "flax",
        "llama",
        "transformerlens",
    }
    assert {name for name, layout in LAYOUTS.items() if layout.rotary} == {"gpt-neox", "llama"}
    assert {name: layout.scale for name, layout in LAYOUTS.items() if layout.scale} == {"t5": 1.0}


@pytest.mark.parametrize("stored", STORED)
def test_patterns_name_the_same_axes_on_both_sides(stored):
    _, paper = stored.pattern.split(" -> ")
    assert sorted(symbol for axis in stored.axes for symbol in axis) == sorted(paper.split())
    if len(stored.parts) > 1:
        assert paper.split()[0] == str(len(stored.parts))


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
