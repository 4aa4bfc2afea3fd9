"""Drawings without the stylesheet: what a page's HTML says, to scale and in its colours."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from qkv_site.markdown import diagrams
from qkv_site.markdown import map as layer_map
from qkv_site.markdown.heat_maps import equation, heat_map
from qkv_site.markdown.masks import mask_grid
from qkv_site.tables import drawings, preview, svg
from qkv_site.tables.drawings import drawing, mix
from support import ROOT

STYLE = {
    name: (ROOT / "docs" / "assets" / f"{name}.css").read_text()
    for name in ("theme", "map", "formulas")
}
COLOURS = preview.light(STYLE["theme"]) | preview.light(STYLE["map"])


def elements(page, name):
    """The elements of a drawing that have this name, but for its ground."""
    root = ElementTree.fromstring(drawing(page, COLOURS).svg)
    return list(root.iter(f"{{http://www.w3.org/2000/svg}}{name}"))[name == "rect" :]


def sides(rectangle):
    return float(rectangle.get("width")), float(rectangle.get("height"))


def written(page):
    return " ".join(each.text for each in elements(page, "text"))


def diagram(formula, sizes="", **options):
    return diagrams.block(formula, "site", sizes, **options)


def test_a_matrix_is_as_wide_and_as_tall_as_its_sizes():
    page = diagram("Q[i] = X_Q @ W_Q[i]", "n_q=5 d_model=7 d_k=3")
    plain = [each for each in elements(page, "rect") if not each.get("fill").startswith("url")]
    units = [tuple(side / 8 for side in sides(each)) for each in plain]
    assert units == [(3, 5), (7, 5), (3, 7)]
    edges = [each.get("stroke") for each in plain]
    assert edges == [COLOURS[f"role-{role}"] for role in ("query", "source", "weight")]


def test_numbered_words_have_a_block_each_in_rows_and_a_thick_edge_if_kept():
    page = diagram("S[i] == K[i]", "n_q=1 n_k=2 d_k=2", words="numbered", kept="K[i]")
    edges = [float(each.get("stroke-width")) for each in elements(page, "rect")]
    assert edges == [1.5, 1.5, 3.5, 1.5]
    whole = diagram("S[i] == S[i]", "n_q=2 n_k=2", words="numbered")
    corners = {(each.get("x"), each.get("y")) for each in elements(whole, "rect")}
    assert len(corners) == 8


def test_what_goes_in_is_dashed_and_what_is_learned_is_hatched_as_in_the_stylesheet():
    page = diagram("Q[i] = X_Q @ W_Q[i]")
    query, source, weight, hatching = elements(page, "rect")
    assert [bool(each.get("stroke-dasharray")) for each in (query, source, weight)] == [0, 1, 0]
    assert hatching.get("fill") == "url(#hatched)"
    assert sides(hatching) == sides(weight)
    assert ".role-source { --edge: dashed; --hatch: none; }" in STYLE["formulas"]
    assert re.search(r"\.role-weight { --edge: solid; --hatch: repeating", STYLE["formulas"])


def test_letters_are_text_in_the_sites_notation_and_in_the_roles_colours():
    page = diagram("Q[i] = X_Q @ W_Q[i]")
    assert written(page).startswith("d k Q i n q = d model X Q n q × d k W i Q d model Drawn to")
    letters = {each.text: each for each in elements(page, "text")}
    assert letters["W"].get("fill") == COLOURS["role-weight"]
    assert letters["W"].get("font-style") == "italic"


def test_blocks_have_the_numbers_and_shades_of_their_heads():
    page = diagram(
        "W_Q = concat(W_Q[i] for i in heads)", "h=2 h_kv=2 d_model=6 d_k=3", heads="apart"
    )
    plain = [each for each in elements(page, "rect") if each.get("stroke")]
    assert [sides(each) for each in plain] == [(24, 48)] * 4
    weight, paper = COLOURS["role-weight"], COLOURS["paper"]
    light, dark = mix(weight, 0.08, paper), mix(weight, 0.48, paper)
    assert [each.get("fill") for each in plain] == [light, dark, light, dark]


def test_lines_separate_tokens():
    [lines] = (
        each.get("d")
        for each in elements(diagram("X_Q @ W_Q[i]", "n_q=5"), "path")
        if each.get("stroke-opacity") == "0.45" and each.get("stroke") == COLOURS["role-source"]
    )
    assert len(re.findall("M", lines)) == 4


def test_a_number_is_as_dark_as_it_is_far_from_zero_and_striped_if_it_is_negative():
    values = np.array([[0.5, -1.0]])
    page = heat_map(values, rows=["a"], columns=["b", "c"], label="Two", role="V[i]")
    half, whole, stripes = (each.get("fill") for each in elements(page, "rect"))
    value, shade = COLOURS["role-value"], COLOURS["shade"]
    assert (half, whole) == (mix(value, 0.2, shade), mix(value, 0.4, shade))
    assert stripes == "url(#striped)"
    assert written(page) == "Two b c a 0.50 \N{MINUS SIGN}1.00"
    assert drawing(page, COLOURS).words == "b c. a 0.50 \N{MINUS SIGN}1.00."


def test_an_equation_has_its_matrices_and_signs_in_their_order():
    page = equation(("X", np.eye(2)), "=", ("Y", np.eye(2)), words=("a", "b"), label="Same.")
    assert re.sub(r"\d\.\d ?|[ab] ", "", written(page)).startswith("X 2 × 2 = Y 2 × 2 Same.")
    assert drawing(page, COLOURS).title.startswith("Same.")


def test_a_mask_has_a_cell_for_each_pair_and_says_which_may():
    page = mask_grid(np.tri(2, dtype=bool), queries=["q", "r"], keys=["k", "l"], label="Causal")
    cells = [each.get("fill") for each in elements(page, "rect")]
    may, may_not = cells[0], cells[1]
    assert cells == [may, may_not, may, may]
    assert may_not == COLOURS["shade"]
    said = drawing(page, COLOURS)
    assert said.title == "Causal"
    assert said.words.endswith("q may attend may not. r may attend may attend.")


def test_the_map_has_bars_as_wide_as_there_are_numbers():
    page = layer_map.figure("sound")
    bars = [sides(each)[0] for each in elements(page, "rect") if each.get("stroke-width") == "1.5"]
    assert bars == [300, 37.5, 300, 37.5]  # 512 and 64 numbers
    assert "64 is not 512" in written(page)
    assert "That does not fit." in drawing(page, COLOURS).words


TABLE = heat_map(np.array([[2.0]]), rows=["a"], columns=["b"], label="Two.", digits=0)


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ("<p>Words.</p>", "'<p>Words.</p>' holds no drawing"),
        ("<figure><svg></svg></figure>", "<figure class=''> cannot be drawn"),
        ('<figure class="wq-diagram" style="--units:1;--ems:1"><div><div><b>x</b></div></div>'
         "<figcaption>x</figcaption></figure>", "<b class=''> cannot be drawn"),
        ('Words. <table class="wq-mask"><caption>x</caption></table>',
         "'Words.' stands outside a drawing"),
        ('<figure class="wq-diagram"></figure>', "></figure>' cannot be drawn: "),
        (TABLE.replace("--role-", "--roll-"), "<table class='wq-heat'> has no role"),
        (TABLE.replace("--part:", "--path:"), "cannot be drawn: KeyError('--part')"),
        (diagram("Q[i] = X_Q @ W_Q[i]").replace("role-query", "", 1), "has no role"),
        (diagram("Q[i] = X_Q @ W_Q[i]").replace("role-query", "role-nope"), "'role-nope' is no"),
        (layer_map.figure("code"), "the state 'code' of the map cannot be drawn"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_not_drawn(page, fault):
    with pytest.raises(ValueError, match=re.escape(fault)):
        drawing(page, COLOURS)


@pytest.mark.parametrize("tag", ['<img src="x">', '<img src="x"/>', "<hr>", "<input checked/>"])
def test_what_follows_an_element_without_an_end_does_not_stand_in_it(tag):
    read = drawings._read(f"<figure>{tag}<figcaption>c</figcaption></figure><p>d</p>")
    [figure, after] = read
    assert [each.tag for each in figure[1:]] == ["figcaption"]
    assert (len(figure[0]), after.text) == (0, "d")
    ElementTree.tostring(read)


def test_an_element_of_a_formula_that_is_not_known_is_not_written():
    node = ElementTree.fromstring("<math><mphantom><mi>x</mi></mphantom></math>")
    with pytest.raises(ValueError, match="<mphantom> of a formula"):
        svg.formula(node, svg.Pen(16), COLOURS)


def test_a_word_has_the_room_that_it_has_in_the_sites_face():
    assert svg.measure("mm") == pytest.approx(2 * svg.measure("m"))
    assert 0.4 < svg.measure("0") < 0.6
    drawn = svg.words("word", svg.Pen(16))
    assert f'textLength="{svg.number(drawn.width)}"' in str(drawn.marks[0])


def test_boxes_beside_and_below_each_other_take_the_room_of_both():
    first, second = svg.Box(width=3, up=1, down=4), svg.Box(width=5, up=2, down=1)
    row = svg.beside([first, second], 1)
    assert (row.width, row.up, row.down) == (9, 2, 4)
    column = svg.below([first, second], 1)
    assert (column.width, column.height) == (5, 9)
    assert svg.wrapped([first, second], 1, widest=8).height == 8


def test_no_boxes_take_no_room_and_a_box_without_width_has_its_gap():
    nothing = svg.below([], 3)
    assert (nothing.width, nothing.up, nothing.down) == (0, 0, 0)
    assert svg.beside([svg.Box(), svg.Box(width=3)], 5).width == 8


def test_boxes_on_a_ground_stand_in_its_middle_and_take_no_more_room():
    ground = svg.area(6, 4)
    drawn = svg.on(ground, svg.area(2, 3), svg.area(8, 1).raised(9))
    assert (drawn.width, drawn.up, drawn.down) == (6, 2, 2)
    assert [(mark.x, mark.y) for mark in drawn.marks] == [(0, -2), (2, -1.5), (-1, -0.5)]
