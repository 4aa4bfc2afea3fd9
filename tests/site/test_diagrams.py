"""Diagrams: to scale, in the order and the letters of each source, and the same in words."""

import re
from dataclasses import replace
from html import unescape
from itertools import chain
from xml.etree import ElementTree

import numpy as np
import pytest

from notation.formulas import FORMULAS
from qkv import notation
from qkv.notation.tree import Product
from qkv_site.markdown import heat_maps, mathml
from qkv_site.markdown.heat_maps import heat_map
from qkv_site.markdown.masks import mask_grid, step_grid
from qkv_site.page import Page, Site, writing
from qkv_site.parts import diagrams, formulas

SOURCES = [source.id for source in notation.sources()]
# Where each picture stands that a page cannot do without.
NEEDED = {
    "equation (1)": "head[i] = softmax(Q[i] @ K[i].T / sqrt(d_k)) @ V[i]",
    "one head of section 3.2.2": "Q[i] = X_Q @ W_Q[i]",
    "all heads packed": "X_Q @ W_Q == concat(Q[i] for i in heads)",
    "all heads, cut and added": "Y = sum(head[i] @ W_O[i] for i in heads)",
    "two maps in a row": "X @ P_Q @ W_Q[i] == X @ (P_Q @ W_Q[i]) == X @ M[i]",
    "queries' and keys' weights as one": "X_Q @ W_Q[i] @ W_K[i].T @ X_K.T == X_Q @ W_QK[i] @ X_K.T",
}


def matrices(html):
    """Of each matrix in a drawing: its letter, its rows, its columns."""
    html = unescape(html)
    for matrix in ElementTree.fromstring(f"<div>{html}</div>").iterfind(".//*[@class]"):
        if matrix.get("class").startswith("wq-matrix"):
            *_, blocks, letter = matrix
            sizes = dict(pair.split(":") for pair in blocks.get("style").split(";"))
            high, wide, down, across = map(int, sizes.values())
            assert [*sizes] == ["--rows", "--columns", "--down", "--across"]
            assert len(blocks) == down * across
            assert ("wq-stacked" in blocks.get("class")) == (down > 1)
            assert high % down == wide % across == 0
            yield "".join("".join(letter.itertext()).split()), high, wide


def draw(line, source, sizes=""):
    (drawing,) = diagrams.draw(line, source, sizes)
    return drawing


@pytest.mark.parametrize(
    ("line", "source", "drawn"),
    [
        ("Q[i] = X_Q @ W_Q[i]", "site", [("Qi", 3, 2), ("XQ", 3, 7), ("WiQ", 7, 2)]),
        ("Q[i] = X_Q @ W_Q[i]", "paper-3-2-2", [("QWiQ", 3, 2), ("Q", 3, 7), ("WiQ", 7, 2)]),
        ("Q[i] = X_Q @ W_Q[i]", "ng-multi-head", [("WiQq", 2, 3), ("WiQ", 2, 7), ("q", 7, 3)]),
        (
            "S[i] = Q[i] @ K[i].T",
            "paper-eq1",
            [("QK\u22a4", 3, 11), ("Q", 3, 2), ("K\u22a4", 2, 11)],
        ),
        (
            "concat(head[i] for i in heads) @ W_O",
            "site",
            [("head1,...,headh", 3, 26), ("WO", 26, 7)],
        ),
        (
            "concat(head[i] for i in heads) @ W_O",
            "ng-multi-head",
            [("Wo", 7, 26), ("head1,...,headh", 26, 3)],
        ),
        ("X_K @ W_K", "site", [("XK", 11, 7), ("WK", 7, 4)]),
        ("concat(K[i] for i in kv_heads)", "site", [("K1,...,Khkv", 11, 2)]),
        ("X_Q @ W_Q[i] + b_Q[i]", "site", [("XQ", 3, 7), ("WiQ", 7, 2), ("biQ", 1, 2)]),
    ],
)
def test_rectangles_are_as_large_as_the_sizes_say(line, source, drawn):
    sizes = "n_q=3 n_k=11 d_model=7 d_k=2 d_v=13 h=2 h_kv=1"
    assert list(matrices(draw(line, source, sizes).html)) == drawn


class Fitting(diagrams._Drawer):
    """Draws, and looks whether what is multiplied fits."""

    def draw(self, node):
        if isinstance(node, Product):
            first, second = super().draw(node.left), super().draw(node.right)
            assert first.columns.length == second.rows.length, node
        return super().draw(node)


def test_factors_fit_and_sides_are_as_large_as_each_other():
    sizes = diagrams.read_sizes("n=2 n_q=3 n_k=5 d_model=7 d_k=11 d_v=13 h=4 d_c=17 d_r=19 d_cq=23")
    for line in FORMULAS:
        for source in notation.sources():
            (written,) = notation.Block((line,)).write(source)
            sides = [Fitting.of(source, sizes).draw(side) for side in written.sides]
            assert len({(side.rows.length, side.columns.length) for side in sides}) == 1, line


@pytest.mark.parametrize("source", SOURCES)
def test_a_letter_stands_for_one_length(source):
    for line in FORMULAS:
        lengths = {}  # Weng's d_k is the width of one head in some lines and of all in others
        for axis in draw(line, source).axes:
            assert lengths.setdefault(axis.latex, axis.length) == axis.length, axis


@pytest.mark.parametrize("source", SOURCES)
def test_each_source_has_its_letters(source):
    line = "Q[i] = X_Q @ W_Q[i]"
    drawn = draw(line, source).html
    for key in ("Q[i]", "X_Q", "W_Q[i]"):
        assert mathml.to_mathml(notation.typeset(key, source, mark=mathml.mark)) in drawn


def test_every_source_is_drawn_once(written):
    diagrams.block("Q[i] = X_Q @ W_Q[i]")
    (drawn,) = (variants.html for variants in written.variants)
    variants = re.findall(r'<div data-in="([^"]+)"', drawn)
    assert sorted(" ".join(variants).split()) == sorted(SOURCES)
    assert len(variants) == drawn.count("<figure") > 1


@pytest.mark.parametrize(
    ("line", "source", "words"),
    [
        (
            "Q[i] = X_Q @ W_Q[i]",
            "site",
            "source of the queries, 5 by 16, times one head's weight for queries, 16 by 4, "
            "gives projected queries of one head, 5 by 4",
        ),
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


def test_a_sentence_names_each_rectangle_with_its_size():
    for line in FORMULAS:
        for source in SOURCES:
            drawing = draw(line, source)
            for _, high, wide in matrices(drawing.html):
                assert f"{high} by {wide}" in drawing.words


def diagrams_of_pages():
    for name, page in Site().pages.items():
        for block in page.fences():
            if block.language == "diagram":
                yield name, block


@pytest.mark.parametrize("picture", NEEDED)
def test_what_pages_need_is_drawn(picture):
    read = chain.from_iterable(formulas.read(block.code) for _, block in diagrams_of_pages())
    assert NEEDED[picture] in [line.formula for line in read]


def test_grouped_heads_are_drawn():
    assert any("for i in kv_heads" in block.code for _, block in diagrams_of_pages())


def test_rows_and_columns_stand_side_by_side():
    found = [block.given.get("in", "").split() for _, block in diagrams_of_pages()]
    assert any(
        {notation.source(name).tokens for name in names} == {"rows", "columns"} for names in found
    )


def cells(html):
    table = ElementTree.fromstring(html).find(".//table")
    return [["".join(cell.itertext()) or None for cell in row] for row in table.iter("tr")]


def test_a_heat_map_is_a_table_of_the_numbers():
    scores = np.array([[0.5, -np.inf, 2], [-1.25, 0, 3]])
    drawn = heat_map(scores, rows=["a", "<b>"], columns=["c", "d", "e"], label="S & T").html()
    assert cells(drawn) == [
        ["query ↓key →", "c", "d", "e"],
        ["a", "0.50", "\u2212\u221e", "2.00"],
        ["<b>", "\u22121.25", "0.00", "3.00"],
    ]
    assert "<caption>S &amp; T</caption>" in drawn


def test_a_number_that_does_not_belong_there_has_a_cross_that_is_read_aloud():
    wrong = np.array([[False, True]])
    drawn = heat_map(
        np.ones((1, 2)), rows=["a"], columns=["c", "d"], label="", digits=0, wrong=wrong
    ).html()
    assert cells(drawn)[1] == ["a", "1", "1 ✕"]
    assert drawn.count('role="img" aria-label="wrong"') == 1


def test_a_number_is_stronger_the_further_it_is_from_zero_and_striped_if_negative():
    values = np.random.default_rng(0).normal(size=(3, 5))
    drawn = heat_map(values, rows=list("abc"), columns=list("defgh"), label="").html()
    parts = [float(part) for part in re.findall(r"--part:([\d.]+)", drawn)]
    farthest = np.abs(values).max()
    assert np.allclose(parts, (np.abs(values) / farthest).ravel(), rtol=0, atol=0.0051)
    striped = ["wq-negative" in cell for cell in re.findall(r"<td[^>]+>", drawn)]
    assert striped == [*(values < 0).ravel()]
    assert any(striped)


def test_what_rounds_to_zero_has_no_sign():
    drawn = heat_map(np.array([[-0.001, -0.1]]), rows=["a"], columns=["b", "c"], label="").html()
    assert cells(drawn)[1] == ["a", "0.00", "\u22120.10"]
    assert drawn.count("wq-negative") == 1


X, W = np.arange(10.0).reshape(2, 5), np.ones((5, 3))
TWO = {"words": ("<a>", "b"), "label": "Q & A."}


def orientations(*parts):
    """An equation, and the cells of its tables in the notation of each source."""
    with writing(Page()) as page:
        drawn = heat_maps.equation(*parts, **TWO).html()
    variants = [each.html for each in page.variants if "wq-drawn" in each.html]
    found = {}
    for variant in ElementTree.fromstring(f"<div>{''.join(variants)}</div>"):
        tables = [list(map(texts, table.iter("tr"))) for table in variant.iter("table")]
        found |= dict.fromkeys(variant.get("data-in").split(), tables)
    return drawn, found


def texts(row):
    return [text for cell in row if (text := "".join(cell.itertext()))]


def test_an_equation_follows_the_orientation_of_the_notation():
    drawn, found = orientations(("X", X), "×", ("W_Q[i]", W), "=", ("Q[i]", X @ W))
    first, second = found["site"], found["ng-multi-head"]
    assert first == [
        [["<a>", "0.0", "1.0", "2.0", "3.0", "4.0"], ["b", "5.0", "6.0", "7.0", "8.0", "9.0"]],
        [["1.0"] * 3] * 5,
        [["<a>", *["10.0"] * 3], ["b", *["35.0"] * 3]],
    ]
    assert second == [
        [["1.0"] * 5] * 3,
        [["<a>", "b"], *([f"{n}.0", f"{n + 5}.0"] for n in range(5))],
        [["<a>", "b"], *[["10.0", "35.0"]] * 3],
    ]  # fmt: skip
    assert "Q &amp; A. A stronger colour is further from zero." in drawn
    assert "striped" not in drawn


def test_an_equation_has_words_on_both_sides_of_scores():
    _, found = orientations(("S[i]", np.array([[1.0, -2], [3, 4]])))
    assert found["site"] == [
        [["query ↓key →", "<a>", "b"], ["<a>", "1.0", "\u22122.0"], ["b", "3.0", "4.0"]]
    ]
    assert found["ng-multi-head"] == [
        [["key ↓query →", "<a>", "b"], ["<a>", "1.0", "3.0"], ["b", "\u22122.0", "4.0"]]
    ]


def test_an_equation_says_what_stripes_are_where_there_are_any():
    drawn, _ = orientations(("X", -X))
    assert "A stronger colour is further from zero, and striped is negative." in drawn


def test_an_equation_may_be_tied_to_a_source_and_have_notes(written):
    part = ("paper-3-2-2: X_Q", X, "what MultiHead <receives>")
    drawn = heat_maps.equation(part, tied="paper-3-2-2", **TWO).html()
    assert written.variants == {}
    assert "what MultiHead &lt;receives&gt;" in drawn
    assert "<mi>Q</mi>" in re.sub("<mi [^>]*>", "<mi>", drawn)


def test_factors_change_places_and_what_an_arrow_leads_to_does_not():
    parts = (("X", X), "↓", ("Q[i]", X @ W), ("V[i]", -X @ W))
    _, found = orientations(*parts)
    numbers = [table[-1][-1] for table in found["ng-multi-head"]]
    assert numbers == ["9.0", "35.0", "\u221235.0"]


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


def test_matrices_of_one_colour_are_shaded_alike():
    drawn, _ = orientations(("S[i]", np.eye(2)), ("softmax(S[i])", np.eye(2) / 4), ("X", X))
    parts = re.findall(r"--part:([\d.]+)", drawn)
    assert parts[:8] == ["1.00", "0.00", "0.00", "1.00", "0.25", "0.00", "0.00", "0.25"]
    assert parts[-1] == "1.00"


def test_an_equation_wants_a_word_for_each_token():
    with pytest.raises(ValueError, match=r"Q\[i\] has shape \(3, 4\), but there are 2 words"):
        heat_maps.equation(("Q[i]", np.ones((3, 4))), **TWO)


def test_a_product_by_hand():
    said = heat_maps.by_hand(np.array([1.5, -2.0]), np.array([-0.1, 0.25]))
    assert said == "1.5 · (\u22120.1) + (\u22122.0) · 0.25 = \u22120.65"


def test_equal_numbers_are_drawn():
    drawn = heat_map(np.zeros((2, 3)), rows=list("ab"), columns=list("cde"), label="").html()
    assert drawn.count("--part:0.00") == 6


def test_a_heat_map_wants_a_name_for_each_row_and_column():
    with pytest.raises(ValueError, match=r"shape \(2, 3\).* `rows` names 3 and `columns` names 2"):
        heat_map(np.zeros((2, 3)), rows=list("abc"), columns=list("de"), label="")
    with pytest.raises(ValueError, match=r"wrong has shape \(1, 2\), but `rows` names 2"):
        heat_map(
            np.ones((2, 2)), rows=list("ab"), columns=list("cd"), label="", wrong=np.ones((1, 2))
        )


def test_a_side_has_a_line_of_its_own_and_a_note():
    sides = "X @ P_Q @ W_Q[i]  # two in a row\n== X @ (P_Q @ W_Q[i])\n== X @ M[i]  # one"
    (drawing,) = diagrams.draw(sides, "site")
    assert drawing.html.count("wq-side") == 3
    assert re.findall(r'wq-note">([^<]*)', drawing.html) == ["two in a row", "one"]
    assert re.search(r"\(two in a row\), equals .*, equals .*\(one\)$", drawing.words)


def test_what_a_role_equals_may_go_on_in_the_next_line():
    lines = "S[i] = Q[i] @ K[i].T  # of one head\n== X_Q @ W_Q[i] @ W_K[i].T @ X_K.T  # longer"
    (drawing,) = diagrams.draw(lines, "site")
    assert drawing.html.count("wq-side") == 2
    assert "(of one head), equals " in drawing.words
    assert "(longer), gives scores" in drawing.words


def test_a_chain_that_does_not_hold_is_named_by_its_first_line():
    (fault,) = diagrams.faults("Q[i] = X_Q @ W_Q[i]\n\nX_Q @ W_Q[i]\n== X_Q @ W_K[i]", {})
    assert fault[0] == 2


def test_a_mask_is_a_table_with_a_sign_that_is_read_aloud():
    causal = np.tri(2, 3, dtype=bool)
    drawn = mask_grid(causal, queries=["a", "<b>"], keys=list("cde"), label="S & T").html()
    table = ElementTree.fromstring(drawn)
    signs = [[cell.find("span") for cell in row.iter("td")] for row in table.findall("tbody/tr")]
    assert [[sign.text for sign in row] for row in signs] == [list("✓✕✕"), list("✓✓✕")]
    read = {sign.text: sign.get("aria-label") for row in signs for sign in row}
    assert read == {"✓": "may attend", "✕": "may not"}
    assert [cell.text for cell in table.findall("tbody/tr/th")] == ["a", "<b>"]
    assert [cell.text for cell in table.findall("thead/tr/th/span")] == ["c", "d", "e"]
    assert table.findtext("caption") == "S & T"


def test_a_mask_wants_a_word_for_each_query_and_key():
    with pytest.raises(
        ValueError, match=r"shape \(2, 3\), but `queries` names 3 and `keys` names 2"
    ):
        mask_grid(np.ones((2, 3), bool), queries=list("abc"), keys=list("de"), label="")


def test_steps_inside_layers_are_a_grid_whose_signs_are_read_aloud():
    inside = np.array([[True, False]])
    drawn = step_grid(inside, layers=["a"], steps=["norm", "+ input"], label="Inside").html()
    table = ElementTree.fromstring(drawn)
    read = [each.get("aria-label") for each in table.iter("span") if each.get("role") == "img"]
    assert read == ["inside", "not inside"]
    assert [cell.text for cell in table.findall("thead/tr/th/span")] == ["norm", "+ input"]
    with pytest.raises(ValueError, match=r"shape \(1, 2\), but `layers` names 2"):
        step_grid(inside, layers=["a", "b"], steps=["c", "d"], label="")


def test_a_head_has_its_number_and_its_shade():
    drawn = draw("concat(K[i] for i in kv_heads) == X_K @ W_K", "site", "h=4 h_kv=2").html
    found = re.findall(r'wq-block" style="--shade:([\d.]+)"><b>([\d ]+)<', drawn)
    assert found == 2 * [("0.17", "1 2"), ("0.83", "3 4")]  # of the keys, and of their weight


@pytest.mark.parametrize("source", SOURCES)
def test_heads_apart_are_as_many_rectangles_in_their_own_letters(source):
    lines = "concat(Q[i] for i in heads)", "sum(head[i] @ W_O[i] for i in heads)"
    (joined,), (added,) = (diagrams.draw(line, source, "h=4", heads="apart") for line in lines)
    assert (joined.html.count("wq-slot"), len(list(matrices(joined.html)))) == (4, 4)
    letters = [letter for letter, *_ in matrices(added.html)]
    assert len(letters) == len(set(letters)) == 8


def test_heads_apart_fit_what_they_are_multiplied_by():
    for source in notation.sources():
        drawer = replace(Fitting.of(source, diagrams.read_sizes("h=4")), apart=True)
        (written,) = notation.Block(("Y == concat(head[i] for i in heads) @ W_O",)).write(source)
        assert len(list(map(drawer.draw, written.sides))) == 2


def test_a_key_head_has_the_room_of_the_heads_that_it_serves():
    line = "concat(K[i] for i in kv_heads) == X_K @ W_K"
    (drawn,) = diagrams.draw(line, "site", "h=4 h_kv=2", heads="apart")
    assert drawn.html.count("--served:2") == 1
    assert "for each of 2 heads, each of them for 2 heads of queries" in drawn.words
    (single,) = diagrams.draw(line, "site", "h=4 h_kv=1", heads="apart")
    assert "7 by 4, for 4 heads of queries" in single.words


@pytest.mark.parametrize(("source", "how"), [("site", "wq-each wq-down"), ("d2l", "wq-each")])
def test_a_bias_is_added_for_each_token(source, how):
    drawn = draw("Q[i] = X_Q @ W_Q[i] + b_Q[i]", source, "n=5 n_q=5")
    assert f'<span class="{how}" style="--more:4;--one:4">' in drawn.html
    assert "1, for each token" in drawn.words or "1 by 4, for each token" in drawn.words


def test_what_is_kept_has_a_thick_edge_and_is_said():
    (drawn,) = diagrams.draw("K[i] = X_K @ W_K[i]", "site", kept="K[i]")
    assert drawn.html.count("wq-kept") == 1 == drawn.words.count("keys of one head, kept")


SIZES = "n_q=1 n_k=3 d_k=2"


@pytest.mark.parametrize(("source", "turned"), [("site", False), ("ng-self-attention", True)])
def test_numbered_words_have_a_block_each_and_a_score_that_of_its_key(source, turned):
    options = {"kept": "K[i]", "words": "numbered"}
    scores, keys, query = (
        diagrams.draw(f"{role} == {role}", source, SIZES, **options)[0]
        for role in ("S[i]", "K[i]", "Q[i]")
    )
    for drawn, numbers, old in (
        (scores, ["1", "2", "3"], []),
        (keys, ["1", "2", "3"], ["1", "2"]),
        (query, ["3"], []),
    ):
        assert re.findall("<b>(.)</b>", drawn.html) == numbers * 2
        assert re.findall(r'wq-block wq-kept"><b>(.)', drawn.html) == old * 2
    assert ("wq-stacked" in keys.html) != turned
    assert keys.words.count("words 1 to 3, kept 1 to 2") == 2
    assert ", kept" not in scores.words + query.words


def test_each_score_of_several_numbered_words_has_a_block():
    options = {"kept": "S[i] K[i]", "words": "numbered"}
    (scores,) = diagrams.draw("S[i] == S[i]", "site", "n_q=2 n_k=2", **options)
    assert re.findall("<b>(.)</b>", scores.html) == ["1", "2"] * 4
    assert "wq-cells" in scores.html
    assert "wq-kept" not in scores.html


def test_the_same_formulas_are_drawn_with_several_sizes():
    sizes = "two heads: h=2 h_kv=2; one & all: h=2 h_kv=1"
    figure = diagrams.block("concat(K[i] for i in kv_heads)", "site", sizes)
    assert re.findall(r'wq-case"><p>([^<]*)', figure) == ["two heads", "one &amp; all"]
    assert figure.count("<figcaption") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sizes": "good: h=4; bad: h=4 h_kv=3"}, "cannot share"),
        ({"sizes": "titled: width=4"}, "expected name=number"),
        ({"kept": "K"}, r"write K\[i\]"),
        (
            {"words": "numbered", "sizes": "n_q=3 n_k=2"},
            "n_q=3 queries cannot be those of the last",
        ),
    ],
)
def test_an_option_of_a_diagram_that_says_nothing_is_named(options, message):
    ((line, fault),) = diagrams.faults("K[i] = X_K @ W_K[i]", options)
    assert line == -1
    assert re.search(message, fault)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sizes": "d_k=3 d_v=4"}, "D_h of ViT paper would be d_k=3 and d_v=4 in one caption"),
        ({"sizes": "n_k=5 d_k=3 d_v=3"}, ""),
        ({"sizes": "d_k=3 d_v=4", "in": "site weng"}, "L of Weng, The Transformer Family"),
        ({"sizes": "d_k=3 d_v=4", "in": "site udl"}, ""),
        ({"sizes": "n_q=1 n_k=4 d_k=3 d_v=3", "words": "numbered"}, ""),  # nobody counts words
        ({}, "L of Weng, The Transformer Family would be n_q=5 and n_k=7"),
    ],
)
def test_a_letter_has_one_value_in_a_caption(options, message):
    found = diagrams.faults("S[i] = Q[i] @ K[i].T\nhead[i] = A[i] @ V[i]", options)
    assert len(found) == bool(message)
    assert all(fault.startswith(message) for _, fault in found)
