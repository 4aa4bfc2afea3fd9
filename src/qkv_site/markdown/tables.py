"""Tables with a name for each row and column, and tables that a phone shows as cards."""

import html
import re
from collections.abc import Sequence

from qkv_site.figures import Table
from qkv_site.markdown.mathml import as_words

_TABLE = re.compile(r"<table>(.*?)</table>", re.DOTALL)
_HEAD = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_ROW = re.compile(r"<tr>.*?</tr>", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_LETTER = re.compile(r'<math\b|class="wq-typed')


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


def labelled(page: str) -> str:
    """A page in whose tables of three to seven columns each value says its column's name.

    So a phone can show the values of a row below each other. A name is an attribute, which a
    stylesheet shows. It shows no letters as they are set, so a name with letters is an element.
    """
    return _TABLE.sub(_label, page)


def _label(table: re.Match) -> str:
    heads = _HEAD.findall(table[1])
    if not 3 <= len(heads) <= 7:
        return table[0]
    rows = _ROW.sub(lambda row: _label_row(row[0], heads), table[1])
    return f"<table data-cards>{rows}</table>"


def _words(head: str) -> str:
    return html.unescape(_TAG.sub("", as_words(head))).strip()


def _label_row(row: str, heads: list[str]) -> str:
    _, *cells = row.split("<td")
    if len(cells) != len(heads):
        return row
    return row.partition("<td")[0] + "".join(map(_label_cell, heads, cells))


def _label_cell(head: str, cell: str) -> str:
    """A cell, from what follows `<td`, with its column's name."""
    if not _LETTER.search(head):
        return f'<td data-label="{html.escape(_words(head))}"{cell}'
    attributes, _, value = cell.partition(">")
    return f'<td data-label=""{attributes}><span class="wq-column">{head.strip()}: </span>{value}'
