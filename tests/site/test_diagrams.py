"""Diagrams: to scale, in the order and the letters of each source, and the same in words."""

import re
from dataclasses import replace
from html import unescape
from xml.etree import ElementTree

import numpy as np
import pytest

from notation.formulas import FORMULAS
from qkv import notation
from qkv.notation.tree import Product
from qkv_site.markdown import heat_maps
from qkv_site.markdown.heat_maps import heat_map
from qkv_site.markdown.masks import mask_grid, step_grid
from qkv_site.page import Page, writing
from qkv_site.parts import diagrams

SOURCES = {source.id: source for source in notation.sources()}
ALL_DIFFER = "n=2 n_q=3 n_k=5 d_model=7 d_k=11 d_v=13 h=4 d_c=17 d_r=19 d_cq=23"


def matrices(html):
    """Of each matrix in a drawing: its letter, its rows, its columns."""
    for matrix in ElementTree.fromstring(f"<div>{unescape(html)}</div>").iterfind(".//*[@class]"):
        if matrix.get("class").startswith("wq-matrix"):
            *_, blocks, letter = matrix
            sizes = dict(pair.split(":") for pair in blocks.get("style").split(";"))
            high, wide, down, across = map(int, sizes.values())
            assert [*sizes] == ["--rows", "--columns", "--down", "--across"]
            assert len(blocks) == down * across
            assert ("wq-stacked" in blocks.get("class")) == (down > 1)
            assert high % down == wide % across == 0
            yield "".join("".join(letter.itertext()).split()), high, wide


def draw(line, source="site", sizes="", **options):
    (drawing,) = diagrams.draw(line, source, sizes, **options)
    return drawing


@pytest.mark.parametrize(
    ("line", "source", "drawn"),
    [
        ("Q[i] = X_Q @ W_Q[i]", "site", "Qi 3 2, XQ 3 7, WiQ 7 2"),
        ("Q[i] = X_Q @ W_Q[i]", "paper-3-2-2", "QWiQ 3 2, Q 3 7, WiQ 7 2"),
        ("Q[i] = X_Q @ W_Q[i]", "ng-multi-head", "WiQq 2 3, WiQ 2 7, q 7 3"),
        ("S[i] = Q[i] @ K[i].T", "paper-eq1", "QK⊤ 3 11, Q 3 2, K⊤ 2 11"),
        ("concat(head[i] for i in heads) @ W_O", "site", "head1,...,headh 3 26, WO 26 7"),
        ("concat(head[i] for i in heads) @ W_O", "ng-multi-head", "Wo 7 26, head1,...,headh 26 3"),
        ("X_K @ W_K", "site", "XK 11 7, WK 7 4"),
        ("concat(K[i] for i in kv_heads)", "site", "K1,...,Khkv 11 2"),
        ("X_Q @ W_Q[i] + b_Q[i]", "site", "XQ 3 7, WiQ 7 2, biQ 1 2"),
    ],
)
def test_rectangles_are_as_large_as_the_sizes_say(line, source, drawn):
    found = matrices(draw(line, source, "n_q=3 n_k=11 d_model=7 d_k=2 d_v=13 h=2 h_kv=1").html)
    assert ", ".join(f"{letter} {high} {wide}" for letter, high, wide in found) == drawn


class Fitting(diagrams._Drawer):
    """Draws, and looks whether what is multiplied fits."""

    def draw(self, node):
        if isinstance(node, Product):
            first, second = super().draw(node.left), super().draw(node.right)
            assert first.columns.length == second.rows.length, node
        return super().draw(node)


@pytest.mark.parametrize("source", SOURCES)
def test_factors_fit_sides_are_equal_letters_have_one_length_and_words_name_each_size(source):
    drawer = Fitting.of(SOURCES[source], diagrams.read_sizes(ALL_DIFFER))
    for line in FORMULAS:
        (written,) = notation.Block((line,)).write(SOURCES[source])
        for way in (drawer, replace(drawer, apart=True)):
            sides = [way.draw(side) for side in written.sides]
            assert len({(side.rows.length, side.columns.length) for side in sides}) == 1, line
        drawing = draw(line, source)
        lengths = {}  # Weng's d_k is the width of one head in some lines and of all in others
        for axis in drawing.axes:
            assert lengths.setdefault(axis.latex, axis.length) == axis.length, axis
        for _, high, wide in matrices(drawing.html):
            assert f"{high} by {wide}" in drawing.words


@pytest.mark.parametrize(
    ("line", "source", "words"),
    [
        (
            "Q[i] = X_Q @ W_Q[i]",
            "ng-multi-head",
            "one head's weight for queries, 4 by 16, times source of the queries, 16 by 5, "
            "gives projected queries of one head, 4 by 5",
        ),
        (
            "softmax(Q[i] @ K[i].T / sqrt(d_k))",
            "site",
            "softmax of (in brackets: projected queries of one head, 5 by 4, times projected keys "
            "of one head, transposed, 4 by 7, divided by the root of the width of one head's "
            "queries and keys)",
        ),
        (
            "concat(K[i] for i in kv_heads) == X_K @ W_K",
            "ng-multi-head",
            "projected keys of one head, 4 by 7, of all heads, 8 by 7 in 2 blocks one below the "
            "other, equals packed weight for keys, 8 by 16 in 2 blocks one below the other, times "
            "source of the keys, 16 by 7",
        ),
    ],
)
def test_a_diagram_reads_as_a_sentence(line, source, words):
    assert draw(line, source).words == words


def test_a_side_has_a_line_of_its_own_and_a_note():
    drawn = draw("S[i] = Q[i] @ K[i].T  # of one head\n== X_Q @ W_Q[i] @ K[i].T  # longer")
    assert drawn.html.count("wq-side") == 2
    assert re.findall(r'wq-note">([^<]*)', drawn.html) == ["of one head", "longer"]
    assert "(of one head), equals " in drawn.words
    assert "(longer), gives scores" in drawn.words


def test_a_head_has_its_number_and_its_shade_or_a_rectangle_and_serves_others():
    line, sizes = "concat(K[i] for i in kv_heads) == X_K @ W_K", "h=4 h_kv=2"
    found = re.findall(
        r'wq-block" style="--shade:([\d.]+)"><b>([\d ]+)<', draw(line, sizes=sizes).html
    )
    assert found == 2 * [("0.17", "1 2"), ("0.83", "3 4")]  # of the keys, and of their weight
    apart = draw(line, sizes=sizes, heads="apart")
    assert apart.html.count("--served:2") == 1
    assert "for each of 2 heads, each of them for 2 heads of queries" in apart.words
    single = draw(line, sizes="h=4 h_kv=1", heads="apart")
    assert "7 by 4, for 4 heads of queries" in single.words


@pytest.mark.parametrize("source", SOURCES)
def test_heads_apart_are_as_many_rectangles_in_their_own_letters(source):
    joined = draw("concat(Q[i] for i in heads)", source, "h=4", heads="apart").html
    assert (joined.count("wq-slot"), len([*matrices(joined)])) == (4, 4)
    added = draw("sum(head[i] @ W_O[i] for i in heads)", source, "h=4", heads="apart").html
    letters = [letter for letter, *_ in matrices(added)]
    assert len(letters) == len(set(letters)) == 8


@pytest.mark.parametrize(("source", "how"), [("site", "wq-each wq-down"), ("d2l", "wq-each")])
def test_a_bias_is_added_for_each_token(source, how):
    drawn = draw("Q[i] = X_Q @ W_Q[i] + b_Q[i]", source, "n=5 n_q=5")
    assert f'<span class="{how}" style="--more:4;--one:4">' in drawn.html
    assert "1, for each token" in drawn.words or "1 by 4, for each token" in drawn.words


@pytest.mark.parametrize(("source", "turned"), [("site", False), ("ng-self-attention", True)])
def test_what_is_kept_is_said_and_numbered_words_have_a_block_each(source, turned):
    kept = draw("K[i] = X_K @ W_K[i]", source, kept="K[i]")
    assert kept.html.count("wq-kept") == 1 == kept.words.count("keys of one head, kept")
    for role, numbers, old in (
        ("S[i]", ["1", "2", "3"], []),  # of its keys
        ("K[i]", ["1", "2", "3"], ["1", "2"]),
        ("Q[i]", ["3"], []),
    ):
        sizes = "n_q=1 n_k=3 d_k=2"
        drawn = draw(f"{role} == {role}", source, sizes, kept="K[i]", words="numbered")
        assert re.findall("<b>(.)</b>", drawn.html) == numbers * 2
        assert re.findall(r'wq-block wq-kept"><b>(.)', drawn.html) == old * 2
        assert (
            drawn.words.count("words 1 to 3, kept 1 to 2") == drawn.words.count("kept") == len(old)
        )
        assert role != "K[i]" or ("wq-stacked" in drawn.html) != turned
    scores = draw("S[i] == S[i]", source, "n_q=2 n_k=3 d_k=2", words="numbered").words
    assert f"{'3 by 2' if turned else '2 by 3'} blocks" in scores


def test_the_same_formulas_are_drawn_with_several_sizes():
    sizes = "two heads: h=2 h_kv=2; one & all: h=2 h_kv=1"
    figure = diagrams.block("concat(K[i] for i in kv_heads)", "site", sizes)
    assert re.findall(r'wq-case"><p>([^<]*)', figure) == ["two heads", "one &amp; all"]
    assert figure.count("<figcaption") == 1


def heat(values, label="", **more):
    rows, columns = np.shape(values)
    names = {"rows": ["a", "<b>", "c"][:rows], "columns": list("defgh")[:columns]}
    return heat_map(np.array(values), **names, label=label, **more).html()


def cells(table):
    """The texts of the cells that have some, row by row."""
    return [
        [text for cell in row if (text := "".join(cell.itertext()))] for row in table.iter("tr")
    ]


def test_a_heat_map_is_a_table_of_the_numbers():
    drawn = heat([[0.5, -np.inf, 2], [-1.25, -0.001, 3]], "S & T")
    assert cells(ElementTree.fromstring(drawn)) == [
        ["query ↓key →", "d", "e", "f"],
        ["a", "0.50", "\u2212\u221e", "2.00"],
        ["<b>", "\u22121.25", "0.00", "3.00"],
    ]
    assert "<caption>S &amp; T</caption>" in drawn
    crossed = heat(np.ones((1, 2)), digits=0, wrong=np.array([[False, True]]))
    assert cells(ElementTree.fromstring(crossed))[1] == ["a", "1", "1 ✕"]
    assert crossed.count('role="img" aria-label="wrong"') == 1


def test_a_number_is_stronger_the_further_it_is_from_zero_and_striped_if_negative():
    values = np.random.default_rng(0).normal(size=(3, 5))
    drawn = heat(values)
    parts = [float(part) for part in re.findall(r"--part:([\d.]+)", drawn)]
    farthest = np.abs(values).max()
    assert np.allclose(parts, (np.abs(values) / farthest).ravel(), rtol=0, atol=0.0051)
    striped = ["wq-negative" in cell for cell in re.findall(r"<td[^>]+>", drawn)]
    assert striped == [*(values < 0).ravel()]
    assert any(striped)
    assert heat(np.zeros((2, 3))).count("--part:0.00") == 6


X, W = np.arange(10.0).reshape(2, 5), np.ones((5, 3))
TWO = {"words": ("<a>", "b"), "label": "Q & A."}


def orientations(*parts):
    """An equation, and the cells of its tables in the notation of each source."""
    with writing(Page()) as page:
        drawn = heat_maps.equation(*parts, **TWO).html()
    variants = [each.html for each in page.variants if "wq-drawn" in each.html]
    found = {}
    for variant in ElementTree.fromstring(f"<div>{''.join(variants)}</div>"):
        tables = [cells(table) for table in variant.iter("table")]
        found |= dict.fromkeys(variant.get("data-in").split(), tables)
    return drawn, found


def test_scores_that_keep_one_query_a_row_are_not_turned_although_words_are_columns():
    """Transformer Circuits writes q^T k, one query a row; the others with columns one key a row."""
    Q, K = np.array([[1.0, 2], [3, 4]]), np.array([[5.0, 6], [7, 8]])
    _, found = orientations(("Q[i]", Q), "×", ("K[i].T", K.T), "=", ("S[i]", Q @ K.T))
    queries, keys, scores = found["transformer-circuits"]
    assert queries == [["<a>", "1.0", "2.0"], ["b", "3.0", "4.0"]]
    assert keys == [["<a>", "b"], ["5.0", "7.0"], ["6.0", "8.0"]]
    assert scores[0][0] == "query ↓key →"
    assert scores[1:] == [["<a>", "17.0", "23.0"], ["b", "39.0", "53.0"]]
    assert found["udl"][2][1:] == [["<a>", "17.0", "39.0"], ["b", "23.0", "53.0"]]
    q, k = (notation.typeset(each, "transformer-circuits") for each in ("Q[i].T", "K[i]"))
    assert (q, k) == (r"q^\top", "k")  # the letters above the first two


def test_an_equation_follows_the_orientation_of_the_notation():
    drawn, found = orientations(("X", X), "×", ("W_Q[i]", W), "=", ("Q[i]", X @ W))
    assert found["site"] == [
        [["<a>", "0.0", "1.0", "2.0", "3.0", "4.0"], ["b", "5.0", "6.0", "7.0", "8.0", "9.0"]],
        [["1.0"] * 3] * 5,
        [["<a>", *["10.0"] * 3], ["b", *["35.0"] * 3]],
    ]
    assert found["ng-multi-head"] == [
        [["1.0"] * 5] * 3,
        [["<a>", "b"], *([f"{n}.0", f"{n + 5}.0"] for n in range(5))],
        [["<a>", "b"], *[["10.0", "35.0"]] * 3],
    ]
    assert "Q &amp; A. A stronger colour is further from zero." in drawn
    drawn, found = orientations(("S[i]", np.array([[1.0, -2], [3, 4]])))
    assert found["site"] == [
        [["query ↓key →", "<a>", "b"], ["<a>", "1.0", "\u22122.0"], ["b", "3.0", "4.0"]]
    ]
    assert found["ng-multi-head"] == [
        [["key ↓query →", "<a>", "b"], ["<a>", "1.0", "3.0"], ["b", "\u22122.0", "4.0"]]
    ]
    assert "A stronger colour is further from zero, and striped is negative." in drawn


def test_factors_change_places_and_what_an_arrow_leads_to_does_not():
    _, found = orientations(("X", X), "↓", ("Q[i]", X @ W), ("V[i]", -X @ W))
    numbers = [table[-1][-1] for table in found["ng-multi-head"]]
    assert numbers == ["9.0", "35.0", "\u221235.0"]


def test_an_equation_may_be_tied_to_a_source_and_have_notes(written):
    part = ("paper-3-2-2: X_Q", X, "what MultiHead <receives>")
    drawn = heat_maps.equation(part, tied="paper-3-2-2", **TWO).html()
    assert written.variants == {}
    assert "what MultiHead &lt;receives&gt;" in drawn
    assert "<mi>Q</mi>" in re.sub("<mi [^>]*>", "<mi>", drawn)


def test_a_product_by_hand():
    said = heat_maps.by_hand(np.array([1.5, -2.0]), np.array([-0.1, 0.25]))
    assert said == "1.5 · (\u22120.1) + (\u22122.0) · 0.25 = \u22120.65"


@pytest.mark.parametrize(
    ("draw", "names", "message"),
    [
        (heat_map, {"rows": "abc", "columns": "de"}, r"`rows` names 3 and `columns` names 2"),
        (mask_grid, {"queries": "abc", "keys": "de"}, r"`queries` names 3 and `keys` names 2"),
        (step_grid, {"layers": "abc", "steps": "def"}, r"`layers` names 3"),
        (
            heat_map,
            {"rows": "ab", "columns": "cde", "wrong": np.ones((1, 3), bool)},
            r"wrong has shape \(1, 3\), but `rows` names 2",
        ),
        (
            lambda values, label, words: heat_maps.equation(
                ("Q[i]", values), words=words, label=label
            ),
            {"words": "abc"},
            r"Q\[i\] has shape \(2, 3\), but there are 3 words",
        ),
    ],
)
def test_each_row_and_column_wants_a_name(draw, names, message):
    with pytest.raises(ValueError, match=message):
        draw(np.ones((2, 3), bool), label="", **names)


@pytest.mark.parametrize(
    ("grid", "down", "across", "read"),
    [
        (mask_grid, "queries", "keys", {"✓": "may attend", "✕": "may not"}),
        (step_grid, "layers", "steps", {"✓": "inside", "✕": "not inside"}),
    ],
)
def test_a_grid_is_a_table_with_a_sign_that_is_read_aloud(grid, down, across, read):
    names = {down: ["a", "<b>"], across: list("cde")}
    table = ElementTree.fromstring(grid(np.tri(2, 3, dtype=bool), label="S & T", **names).html())
    signs = [[cell.find("span") for cell in row.iter("td")] for row in table.findall("tbody/tr")]
    assert [[sign.text for sign in row] for row in signs] == [list("✓✕✕"), list("✓✓✕")]
    assert {sign.text: sign.get("aria-label") for row in signs for sign in row} == read
    assert [cell.text for cell in table.findall("tbody/tr/th")] == ["a", "<b>"]
    assert [cell.text for cell in table.findall("thead/tr/th/span")] == ["c", "d", "e"]
    assert table.findtext("caption") == "S & T"
