"""What the build adds to a page: words for the search, names of columns, a picture for links."""

import re
from itertools import accumulate
from xml.etree import ElementTree

import pytest

from qkv_site.markdown import mathml, tables
from qkv_site.parts import formulas
from support import ROOT

STYLES = pytest.mark.parametrize(
    "path", [*(ROOT / "docs").rglob("*.css")], ids=lambda path: path.name
)
_COMMENTS_AND_STRINGS = re.compile(r"/\*.*?\*/|\"[^\"\n]*\"", re.DOTALL)


def depths(css):
    """How many braces are open after each brace of a stylesheet, comments and strings left out."""
    braces = re.findall(r"[{}]", _COMMENTS_AND_STRINGS.sub("", css))
    return [*accumulate(1 if brace == "{" else -1 for brace in braces)]


@STYLES
def test_a_stylesheet_closes_what_it_opens(path):
    """A browser drops the rule after a brace too many, and says nothing."""
    found = depths(path.read_text())
    assert found[-1] == 0
    assert min(found) == 0


def test_a_brace_too_many_is_found():
    assert depths('a { } /* } */ b { content: "}" }') == [1, 0, 1, 0]
    assert min(depths("@media x { a { } } } b { }")) == -1


@STYLES
def test_no_style_searches_the_whole_page(path):
    """While a long page loads, a browser would search it again for each part that comes."""
    assert re.findall(r"\b(?:html|body|main|article):has\([^>+~][^)]*\)", path.read_text()) == []


def test_a_formula_is_plain_text_to_the_search():
    def said(formula, source="site"):
        shown = ElementTree.fromstring(f"<p>{formulas.inline(formula, source)}</p>")
        return mathml.plain(next(shown.iter("math")))

    assert "W_i^Q" in said("W_Q[i]")
    assert "d_model × d_k" in said("shape(W_Q[i])")
    assert "Q_i = X_Q W_i^Q" in said("Q[i] = X_Q @ W_Q[i]")
    assert "softmax(S_i / √d_k)" in said("softmax(S[i] / sqrt(d_k))")
    assert said("W_Q[i]", "ng-multi-head").count("W") == 1


def test_a_value_has_its_columns_name_where_there_are_three_columns():
    head = "<thead><tr><th>a</th><th><em>b</em> &amp; c</th><th>d</th></tr></thead>"
    row = "<tr><td>1</td><td>2</td><td>3</td></tr>"
    labelled = tables.finished(f"<table>{head}<tbody>{row}</tbody></table>")
    assert '<td data-label="b &amp; c">2</td><td data-label="d">3</td>' in labelled
    letter = '<span class="wq-typed">W<span>^</span><sup>Q</sup></span>'
    labelled = tables.finished(
        f"<table>{head.replace('d<', f'{letter}<')}<tbody>{row}</tbody></table>"
    )
    assert f'<td data-label=""><span class="wq-column">{letter}: </span>3</td>' in labelled
    two = "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"
    assert f'<table class="wq-table">{two.removeprefix("<table>")}' in tables.finished(two)
