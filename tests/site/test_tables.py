"""A row of a table is shown to its end: Markdown splits it at each "|", and drops the rest."""

import re

import markdown
import pytest

from qkv_site.markdown.tables import table
from support import ROOT

PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
_NO_END = re.compile(r"(`+).*?\1|\{\{.*?\}\}|\\\|")  # code, symbols, and a pipe after a backslash
_TABLE = re.compile(r"^ *(\|.+\|)\n *\|(?: *:?-+:? *\|)+\n((?: *\|.*(?:\n|$))+)", re.MULTILINE)


def cells(row):
    return _NO_END.sub("", row.strip()[1:-1]).count("|") + 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_row_written_by_hand_has_as_many_cells_as_the_head(page):
    for head, rows in _TABLE.findall(page.read_text()):
        for row in rows.splitlines():
            assert row.rstrip().endswith("|"), row
            assert cells(row) == cells(head), f"{page}: {row}"


def test_a_pipe_in_a_row_written_by_hand_is_noticed():
    assert cells("| a | b |") == cells(r"| a \| b | `c | d` {{= e | f }} |") == 2
    assert cells("| a | use |. |") == 3


@pytest.mark.parametrize("cell", ["use |", "a | b", r"a \| b", "`a | b` or c | d"])
def test_a_cell_with_a_pipe_is_one_cell(cell):
    rows = markdown.markdown(table(("one", "two"), [(cell, "2")]), extensions=["tables"])
    *_, first, second = re.findall(r"<td>(.*?)</td>", rows)
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
        table(("one", "two"), [row])
