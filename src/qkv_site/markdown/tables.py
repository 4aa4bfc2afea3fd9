"""Tables with a name for each row and column, and tables that a phone shows as cards."""

import html
import re
from collections.abc import Iterable, Iterator, Sequence

from qkv_site.figures import Table

_TABLE = re.compile(r"<table>(.*?)</table>", re.DOTALL)
_ROW = re.compile(r"<tr>.*?</tr>", re.DOTALL)
_HEAD = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_CELL = re.compile(r"<td\b([^>]*)>")
_TAG = re.compile(r"<[^>]*>")


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cells(cells, len(head)))} |" for cells in lines)


# Markdown splits a row at each "|" but in code, or after a backslash.
_PIPE = re.compile(r"(?P<code>`+).*?(?P=code)|\\.|\|")


def _cells(row: Iterable[str], columns: int) -> list[str]:
    """A row's cells, each on one line and with no "|" that would end it."""
    cells = tuple(row)
    if len(cells) != columns:
        raise ValueError(f"a row has {len(cells)} cells {cells}, expected {columns} as in the head")
    for cell in cells:
        if "\n" in cell:
            raise ValueError(f"the cell {cell!r} has a line break, which ends a row: use <br>")
    return [_PIPE.sub(lambda pipe: r"\|" if pipe[0] == "|" else pipe[0], cell) for cell in cells]


def fitting(*head_and_rows) -> str:
    """A table that fits a phone: docs/assets/libraries.css."""
    return f'<div class="wq-fits" markdown="1">\n\n{table(*head_and_rows)}\n\n</div>'


def check_names(array: str, shape: tuple[int, ...], **names: Sequence[str]) -> None:
    """Raise `ValueError` unless each axis of an array has as many names as it is long."""
    if shape != tuple(map(len, names.values())):
        counts = " and ".join(f"`{axis}` names {len(each)}" for axis, each in names.items())
        raise ValueError(f"{array} has shape {shape}, but {counts}.")


def named(
    cells: Sequence[str], rows: Sequence[str], columns: Sequence[str], caption: str, corner: str
) -> str:
    """What stands in a table, from the cells of each row; rows and columns may have no names."""
    head = "".join(f'<th scope="col"><span>{html.escape(name)}</span></th>' for name in columns)
    corner = f"<td>{corner}</td>" if rows else ""
    head = f"<thead><tr>{corner}{head}</tr></thead>" if head else ""
    names = [f'<th scope="row">{html.escape(name)}</th>' for name in rows] or [""] * len(cells)
    body = "".join(f"<tr>{name}{row}</tr>" for name, row in zip(names, cells, strict=True))
    return f"<caption>{caption}</caption>{head}<tbody>{body}</tbody>"


def with_names(
    cells: Sequence[Sequence[str]],
    rows: Sequence[str],
    columns: Sequence[str],
    caption: str,
    corner: str,
) -> Table:
    """The same as text."""
    head = [[*([corner] if len(rows) else []), *columns]] if len(columns) else []
    names = [[name] for name in rows] or [[]] * len(cells)
    body = [[*name, *row] for name, row in zip(names, cells, strict=True)]
    return Table(caption, head + body)


def finished(page: str) -> str:
    """A page whose tables stand in boxes that scroll, and say in each value its column's name.

    Most of them are written by Python-Markdown and by mkdocstrings. Material's script would put
    each into its box when the page is there, and a browser would lay all tables out again.

    Where there are three to seven columns, a phone shows the values of a row below each other. A
    name is an attribute, which a stylesheet shows. It shows no letters as they are set, so a name
    with letters is an element.
    """
    return _TABLE.sub(lambda table: scrolling(_label(table[1])), page)


def scrolling(table: str) -> str:
    """A table in a box that scrolls sideways."""
    return f'<div class="md-typeset__scrollwrap"><div class="md-typeset__table">{table}</div></div>'


def _label(inside: str) -> str:
    heads = _HEAD.findall(inside)
    if not 3 <= len(heads) <= 7:
        return f'<table class="wq-table">{inside}</table>'
    labelled = _ROW.sub(lambda row: _label_row(row[0], heads), inside)
    return f'<table class="wq-table" data-cards>{labelled}</table>'


def _label_row(row: str, heads: list[str]) -> str:
    """A row in which each cell has its column's name, if it has one for each column."""
    if len(_CELL.findall(row)) != len(heads):
        return row
    names = iter(heads)
    return _CELL.sub(lambda cell: _label_cell(cell[1], next(names).strip()), row)


def _label_cell(attributes: str, name: str) -> str:
    """The beginning of a cell, with the name of its column."""
    if "<math" in name or "wq-typed" in name:
        return f'<td data-label=""{attributes}><span class="wq-column">{name}: </span>'
    words = html.escape(html.unescape(_TAG.sub("", name)))
    return f'<td data-label="{words}"{attributes}>'
