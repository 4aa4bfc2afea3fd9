"""Generated tables of conversions and of fused weights say what is so for pairs that are known."""

import pytest

from qkv import MultiHead
from qkv.layouts import layouts
from qkv_site.tables import conversions, fused


@pytest.mark.parametrize(
    ("source", "target", "signs"),
    [
        ("pytorch", "keras", "="),
        ("pytorch", "whisper", "k"),
        ("whisper", "pytorch", "0"),
        ("t5", "pytorch", "s"),
        ("pytorch", "t5", "sb"),
        ("bert", "llama", "r"),
        ("llama", "phi3", "b"),
        ("llama", "whisper", "rb"),  # its key bias was rotated, so it counts
        ("bert", "vit-pytorch", "b"),
    ],
)
def test_what_a_pair_needs(source, target, signs):
    assert conversions.signs(source, target) == signs


def test_each_layout_has_its_place_in_the_matrix():
    assert sorted(name for group in conversions.groups() for name in group) == sorted(layouts())
    rows = conversions.matrix().count("| **")
    assert rows == len(conversions.groups())


def test_the_row_of_gptj_tells_which_layouts_want_biases():
    assert f"**{conversions.letter('gptj')}** gptj" in conversions.matrix()
    assert [*map(set, layouts()["gptj"].bias_sets)] == [set()]
    for name, layout in layouts().items():
        wants = set() not in map(set, layout.bias_sets)
        assert ("0" in conversions.signs("gptj", name)) == wants, name


def test_sizes_that_a_layout_can_store():
    grouped = [name for name, layout in layouts().items() if layout.grouped]
    assert conversions.holding(h_kv=1) == grouped
    assert conversions.holding(h_kv=2) == [name for name in grouped if name != "gpt-bigcode"]
    assert "pytorch" not in conversions.holding(d_k=5)
    assert "keras" in conversions.holding(d_v=5)
    assert MultiHead.random(24, 4, d_v=5).d_v == 5


def test_each_fused_weight_has_its_order():
    shown = {layout.name for order in fused.orders() for layout, *_ in order.arrays}
    every = {
        layout.name
        for layout in layouts().values()
        if any(len(stored.parts) > 1 for form in layout.forms for stored in form.without_biases)
    }
    assert shown == every
    (codegen,) = (order for order in fused.orders() if order.arrays[0][0].name == "codegen")
    assert codegen.cut == "q, v, k = W.view(4, 3, h // 4, d_k, E).unbind(1)"
    assert [order.in_words for order in fused.orders()] == [
        "all queries, then all keys, then all values",
        "group after group: queries, key, value",
        "head after head: query, key, value",
        "all keys, then all values",
        codegen.in_words,
        "all queries, then all keys, then all values",
    ]
    assert codegen.in_words == "block after block: queries, values, keys"
    assert fused.strips().count("<figure") == len(fused.orders())
