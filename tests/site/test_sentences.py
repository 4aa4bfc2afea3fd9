"""What a sentence, a table and a formula of a page become: letters, numbers, terms, columns."""

import re
from xml.etree import ElementTree

import markdown
import pytest

from qkv import notation
from qkv_site.markdown import choice, letters, mathml, tables
from qkv_site.page import parse, writing
from qkv_site.parts import formulas
from qkv_site.run import said, say
from support import ROOT, words_of

TERMS = {"abbr": {"glossary": {"RoPE": "turns queries and keys", "rank": "independent directions"}}}


def html(text, *extensions, **configuration):
    extensions = [*extensions, "qkv_site.write.html", "tables"]
    return markdown.markdown(text, extensions=extensions, extension_configs=configuration)


def test_the_first_term_in_a_sentence_is_explained():
    text = "# RoPE\n\nSee [RoPE](a.md). With RoPE, and *RoPE*, the rank is RoPE's.\n\nRoPE."
    page = html(text, "abbr", **TERMS)
    assert page.count("<abbr") == 2
    assert page.count("RoPE") == 6
    assert 'With <abbr title="turns queries and keys">RoPE</abbr>, and <em>RoPE</em>, the' in page
    assert 'the <abbr title="independent directions">rank</abbr> is RoPE\'s.' in page


@pytest.mark.parametrize(
    ("typed", "parts"),
    [
        ("W^Q", ["W", "sup Q"]),
        ("W_i^K", ["W", "sub i", "sup K"]),
        ("W_1^O", ["W", "sub 1", "sup O"]),
        ("d_model", ["d", "sub model"]),
        ("h_kv", ["h", "sub kv"]),
        ("b_K", ["b", "sub K"]),
    ],
)
def test_a_letter_in_text_is_set_and_stays_the_text_that_was_typed(typed, parts):
    for place in ("{}.", "(√{}, say)", "[{}](page.md)", "# The {}", "**{}**"):
        found = html(place.format(typed))
        set_ = re.search(r'<span class="wq-typed[^"]*">(\w)(.*)</su[bp]></span>', found)
        scripts = re.findall(r"<(su[bp])[^>]*>(\w+)", set_[0])
        assert [set_[1], *(f"{tag} {said}" for tag, said in scripts)] == parts
        assert typed in words_of(found)


def test_code_and_other_names_stay_as_they_are():
    for typed in (
        *("`W^Q`", "W^QK", "W_Q[0]", "W_E", "d_Q", "mid_k", "d_keys", "x.d_k", "W^Q^2", "\\W^Q"),
    ):
        assert "wq-typed" not in html(f"So {typed} stays."), typed


@pytest.mark.parametrize(
    "together",
    ["W_O W_V", "W^Q W^K", "W_V W_O W_Q", "4 × 4", "1536 × 512", "10,240 × 64", "2 × 3 × 5"],
)
def test_a_product_of_letters_and_the_sizes_of_a_matrix_stay_together(together):
    found = html(f"# Is it {together} or d_k?")
    inside = re.search(r'<span class="wq-together">(.*)</span> or', found)[1]
    assert words_of(inside) == together
    assert found.count("wq-together") == 1
    assert "wq-together" not in html(f"`{together}`")


def test_a_letter_in_the_name_of_a_heading_is_set():
    assert letters.set_in("Is W_i^Q unique?") == (
        'Is <span class="wq-typed role-weight">W<span>_</span><sub>i</sub>'
        "<span>^</span><sup>Q</sup></span> unique?"
    )
    assert letters.set_in("What is past_key_values?") == "What is past_key_values?"


@pytest.mark.parametrize(
    ("below", "upright"), [("model", True), ("out", True), ("in", True), ("ij", False)]
)
def test_a_word_below_a_letter_is_upright(below, upright):
    arithmatex = {"pymdownx.arithmatex": {"generic": True}}
    found = html(f"$d_{{{below}}}$", "pymdownx.arithmatex", **arithmatex)
    assert (f"<mtext>{below}</mtext>" in found) == upright


def test_a_number_is_said_as_a_sentence_has_it():
    for value, shown in {
        786432: "786,432",
        -3: "-3",
        "75 %": "75 %",
        (1536, 512): "1536 × 512",
        (128, 12288): "128 × 12,288",
    }.items():
        assert say(value) == shown
    for value in (2.5, True, None, [3]):  # it has no number of digits
        with pytest.raises(TypeError, match="whole, or a text"):
            say(value)


FACTS = ({"query": True, "key": False},)


@pytest.mark.parametrize(
    ("word", "about"),
    [
        ("larger", (3, 5)),
        ("at least", (3, 5)),
        ("twice as many", (3, 6)),
        ("smallest", (3, 5)),
        ("key", FACTS),
        ("values", FACTS),
    ],
)
def test_a_word_that_is_not_true_is_not_said(word, about):
    with pytest.raises(ValueError, match=f"the sentence says '{word}': expected one of "):
        said(word, *about)
    with pytest.raises(TypeError, match="about two numbers, or about facts"):
        said(word, 1, 2, 3)


# In a row of a table Markdown splits at each "|", but not in code, in symbols or after a backslash.
_NO_END = re.compile(r"(`+).*?\1|\{\{.*?\}\}|\\\|")
_TABLE = re.compile(r"^ *(\|.+\|)\n *\|(?: *:?-+:? *\|)+\n((?: *\|.*(?:\n|$))+)", re.MULTILINE)


def cells(row):
    assert row.rstrip().endswith("|"), row
    return _NO_END.sub("", row.strip()[1:-1]).count("|") + 1


def test_a_row_written_by_hand_has_as_many_cells_as_the_head():
    """Markdown would drop the rest."""
    assert cells("| a | b |") == cells(r"| a \| b | `c | d` {{= e | f }} |") == 2
    assert cells("| a | use |. |") == 3
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for page in pages:
        for head, rows in _TABLE.findall(page.read_text()):
            assert {*map(cells, rows.splitlines())} == {cells(head)}, f"{page}: {head}"


@pytest.mark.parametrize("cell", ["use |", "a | b", r"a \| b", "`a | b` or c | d"])
def test_a_cell_with_a_pipe_is_one_cell(cell):
    rows = html(tables.table(("one", "two"), [(cell, "2")]))
    *_, first, second = re.findall(r"<td[^>]*>(.*?)</td>", rows)
    assert re.sub(r"</?code>", "", first) == cell.replace("`", "").replace("\\", "")
    assert second == "2"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("1",), r"a row has 1 cells \('1',\), expected 2"),
        (("1", "2\n3"), r"the cell '2\\n3' has a line break"),
    ],
)
def test_a_row_that_would_break_a_table_is_refused(row, said):
    with pytest.raises(ValueError, match=said):
        tables.table(("one", "two"), [row])


def test_a_value_has_its_columns_name_where_there_are_three_columns():
    head = "<thead><tr><th>a</th><th><em>b</em> &amp; c</th><th>{}</th></tr></thead>"
    row = "<tr><td>1</td><td>2</td><td>3</td></tr>"
    table = f"<table>{head}<tbody>{row}</tbody></table>"
    labelled = tables.finished(table.format("d"))
    assert '<td data-label="b &amp; c">2</td><td data-label="d">3</td>' in labelled
    letter = '<span class="wq-typed">W<span>^</span><sup>Q</sup></span>'
    labelled = tables.finished(table.format(letter))
    assert f'<td data-label=""><span class="wq-column">{letter}: </span>3</td>' in labelled
    two = "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"
    assert f'<table class="wq-table">{two.removeprefix("<table>")}' in tables.finished(two)


def test_a_formula_is_plain_text_to_the_search():
    def plain(formula, source="site"):
        shown = ElementTree.fromstring(f"<p>{formulas.inline(formula, source)}</p>")
        return mathml.plain(next(shown.iter("math")))

    assert "W_i^Q" in plain("W_Q[i]")
    assert plain("(S[i] + S[i]) / sqrt(d_k + d_r)") == "(S_i + S_i) / √(d_k + d_r)"
    assert plain("Q[i] @ K[i].T / sqrt(3 * d_k)") == "Q_i K_i^T / √(3 d_k)"
    assert plain("sqrt(d_model / h)") == "√(d_model / h)"
    assert "d_model × d_k" in plain("shape(W_Q[i])")
    assert "Q_i = X_Q W_i^Q" in plain("Q[i] = X_Q @ W_Q[i]")
    assert "softmax(S_i / √d_k)" in plain("softmax(S[i] / sqrt(d_k))")
    assert plain("W_Q[i]", "ng-multi-head").count("W") == 1


def test_equal_renderings_of_a_formula_are_stored_once(written):
    for _ in range(2):
        shown = formulas.block("head[i] = attention(Q[i], K[i], V[i])")
    assert shown.startswith('<div data-set="0" data-in="site')
    (stored,) = (variants.html for variants in written.variants)
    variants = re.findall(r'">(<div class="math-display">.*?</ul>)</div>', stored, re.DOTALL)
    assert len(set(variants)) == len(variants) == stored.count("data-in=") > 1


def test_a_symbol_carries_its_role_in_every_source():
    for source in notation.sources():
        borrowed = "" if source.names(notation.role("W_Q[i]")) else " wq-borrowed"
        shown = formulas.inline("W_Q[i]", source.id)
        assert f'class="role-weight{borrowed}" data-role="W_Q[i]"' in shown
        assert (formulas.BORROWED in shown) == bool(borrowed)


@pytest.mark.parametrize(
    ("content", "source", "shown"),
    [
        ("shape(W_Q[i], d_model=512, d_k=64)", "site", "512×64"),
        ("shape(W_Q[i], d_model=512, d_k=64)", "ng-multi-head", "64×512"),
        ('"rows"', "ng-multi-head", "columns"),
        ('"rows", A[i]', "transformer-circuits", "rows"),
    ],
)
def test_a_shape_and_a_side_follow_the_notation(content, source, shown):
    assert words_of(formulas.inline(content, source)) == shown


@pytest.mark.parametrize(
    ("one", "other", "sources"),
    [
        ("d_k", "d_v", {"vit", "transformer-circuits", "deepseek-v2"}),
        ("shape(K[i])", "shape(V[i])", {"vit", "transformer-circuits", "deepseek-v2"}),
        ("X_K", "X_K", set()),
        ("W_K[i]", "W_V[i]", set()),
    ],
)
def test_which_sources_write_two_symbols_alike(one, other, sources):
    assert {source.id for source in formulas.written_alike(one, other)} == sources


@pytest.mark.parametrize(
    ("body", "shows"),
    [
        ("```python\nprint(example.layer.W_Q[0])\n```", True),
        ("```python\nfrom qkv.example import A, V\n```", True),
        ('```live state="step=query"\n```', True),
        ("```python\nprint(example.words, example.A[0])\n```", False),
        ("In a sentence: example.layer.", False),
    ],
)
@pytest.mark.parametrize("folder", ["start", "explanation"])
def test_the_two_widths_of_the_example_are_told_where_it_is_shown(folder, body, shows):
    with writing(parse(f"{folder}/page.md", f"# A page\n\n{body}\n")) as page:
        choice.line(page, "")
    [told] = page.variants
    assert ("queries and keys, and 4 for its values." in told.html) == shows


def test_a_legend_goes_from_what_goes_in_to_sizes_queries_before_keys_before_values():
    shown = formulas.block("head[i] = attention(X_Q @ W_Q[i], K[i], V[i])", "site")
    legend = re.findall(r'<li tabindex="0" data-role="([^"]+)"', shown)
    assert legend == ["X_Q", "W_Q[i]", "K[i]", "V[i]", "head[i]"]


def test_a_source_of_single_vectors_says_so_below_its_own_formula():
    for source in ("ng-multi-head", "ng-self-attention"):
        shown = formulas.block("X @ P_Q @ W_Q[i]", source)
        note = words_of(shown.partition('<p class="wq-vectors">')[2])
        assert note.startswith("In this source x is one word's vector.")
        assert "In our formulas it has all words, one in each column." in note
    assert "wq-vectors" not in formulas.block("X @ P_Q @ W_Q[i]", "paper-3-2-2")


@pytest.mark.parametrize("path", [*(ROOT / "docs").rglob("*.css")], ids=lambda path: path.name)
def test_a_stylesheet_closes_what_it_opens_and_searches_no_whole_page(path):
    """A browser drops the rule after a brace too many, and says nothing.

    And while a long page loads, it would search it again for each part that comes.
    """
    css = re.sub(r"/\*.*?\*/|\"[^\"\n]*\"", "", path.read_text(), flags=re.DOTALL)
    opened = 0
    for brace in re.findall(r"[{}]", css):
        opened += 1 if brace == "{" else -1
        assert opened >= 0
    assert opened == 0
    assert re.findall(r"\b(?:html|body|main|article):has\([^>+~][^)]*\)", css) == []
