"""Tables with a name for each row and column, and tables that a phone shows as cards."""

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from html.parser import HTMLParser

from qkv_site.figures import Table

_TABLE = re.compile(r"<table>(.*?)</table>", re.DOTALL)


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
    cards = _Cards(inside)
    if not 3 <= len(cards.heads) <= 7:
        return f'<table class="wq-table">{inside}</table>'
    return f'<table class="wq-table" data-cards>{"".join(cards.written)}</table>'


class _Cards(HTMLParser):
    """A table, written again with its column's name in each cell of a row that has all columns.

    Attributes:
        written: Its tags, and the text between them.
        heads: Of each column, the text of its name, and its HTML if an attribute cannot hold it.
    """

    def __init__(self, table: str):
        super().__init__(convert_charrefs=False)
        self.written: list[str] = []
        self.heads: list[tuple[str, str]] = []
        self._begin, self._text, self._set = 0, "", False  # of the head that is read
        self._cells: list[int] = []  # of the row that is read
        self.feed(table)
        self.close()

    def handle_starttag(self, tag, attrs):
        self._set |= tag == "math" or "wq-typed" in (dict(attrs).get("class") or "")
        if tag == "td":
            self._cells.append(len(self.written))
        self.written.append(self.get_starttag_text())
        if tag == "th":
            self._begin, self._text, self._set = len(self.written), "", False

    handle_startendtag = handle_starttag

    def handle_endtag(self, tag):
        if tag == "th":
            whole = "".join(self.written[self._begin :]).strip() if self._set else ""
            self.heads.append((html.unescape(self._text).strip(), whole))
        if tag == "tr":
            if len(self._cells) == len(self.heads):
                for cell, head in zip(self._cells, self.heads, strict=True):
                    self.written[cell] = _label_cell(self.written[cell], *head)
            self._cells = []
        self.written.append(f"</{tag}>")

    def handle_data(self, data):
        self._text += data
        self.written.append(data)

    def handle_entityref(self, name):
        self.handle_data(f"&{name};")

    def handle_charref(self, name):
        self.handle_data(f"&#{name};")


def _label_cell(cell: str, name: str, whole: str) -> str:
    """The beginning of a cell, with the name of its column."""
    attributes = cell[len("<td") : -1]
    if whole:
        return f'<td data-label=""{attributes}><span class="wq-column">{whole}: </span>'
    return f'<td data-label="{html.escape(name)}"{attributes}>'
