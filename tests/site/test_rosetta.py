"""The tables of letters say what the sources' files say."""

import re

import pytest

from qkv import notation
from qkv_site.parts import formulas
from qkv_site.tables import rosetta
from support import html_of, words_of

TEXTS = [source for source in notation.sources() if source.id != "site"]


@pytest.fixture(scope="module")
def page(site):
    return html_of(site, "notation.md")


def rows(table):
    return [
        re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        for row in re.findall(r"<tr>.*?</tr>", table, re.DOTALL)
    ]


@pytest.mark.parametrize(
    ("latex", "letter"),
    [
        ("Q", "Q"),
        (r"\vec{\mathbf{Q}}", "Q"),
        (r"\mathbf{q}_{t,{i}}", "q"),
        ("Q^{c}", "Q"),
        ("W^{Q{c}}", "W"),
        (r"{\downarrow}W_V", "W"),
        (r"\mathrm{head}_{i}", "head"),
    ],
)
def test_a_letter_is_known_in_every_dress(latex, letter):
    assert rosetta.plain(latex) == letter


def test_q_is_the_source_in_one_section_of_the_paper_and_projected_in_the_other(page):
    table = page[page.index('id="q"') : page.index('id="k-and-v"')]
    said = {words_of(row[0]): words_of(row[2].partition("<br")[0]) for row in rows(table)[1:]}
    assert said["The paper, section 3.2.2section 3.2.2"] == "source of the queries"
    assert said["The paper, equation (1)section 3.2.1, equation (1)"] == (
        "projected queries of one head"
    )


def test_every_letter_of_a_text_stands_in_a_table_and_what_has_none_says_so(page):
    tables = page[page.index('id="all-sources"') : page.index('id="next"')]
    found = rows(tables)
    heads, columns = [], {}  # of each role, the cells of its column
    for first, *cells in found:
        if words_of(first) == "in":
            heads = [re.findall("<code>(.*?)</code>", cell)[-1] for cell in cells]
            columns |= {head: {} for head in heads}
        elif words_of(first) and "<code>" not in first:
            columns |= {
                key: columns[key] | {words_of(first): cell}
                for key, cell in zip(heads, cells, strict=True)
            }
    few = {
        re.findall("<code>(.*?)</code>", first)[-1]: row for first, *row in found if "<br" in first
    }
    assert len(columns) > 12 < len(few)
    for role in notation.roles():
        for source in TEXTS:
            cell = columns.get(role.key, {}).get(source.short + " †" * (not source.checked), "")
            cell = cell or (few[role.key][1] if source.names(role) else "none")
            if source.names(role):
                letter = source.letters[role.key]
                assert formulas.inline(role.key, source.id) in cell
                assert words_of(letter.where) in words_of(cell)
                assert letter.checked or "†" in cell
            else:
                assert cell.startswith("none")


@pytest.mark.parametrize("source", TEXTS, ids=lambda source: source.id)
def test_a_text_is_described_with_what_does_not_fit_in_it(page, source):
    [_, after] = page.split(f'<h3 id="{source.id}">')
    description = words_of(after.partition("<h3")[0])
    for words in (source.title, source.author, source.where, source.read, source.finding):
        assert " ".join(words.split()) in " ".join(description.split())
    for unnamed in source.unnamed:
        assert unnamed.why in description
