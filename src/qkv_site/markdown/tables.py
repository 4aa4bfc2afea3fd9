"""Tables with a name for each row and column, and tables that a phone shows as cards."""

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
    tags = _Tags(inside).found
    heads = [*_inside("th", tags)]
    if not 3 <= len(heads) <= 7:
        return f'<table class="wq-table">{inside}</table>'
    rows, at = [], 0
    while at < len(tags):
        row = next(_inside("tr", tags[at:]), []) if tags[at].raw == "<tr>" else []
        rows += [tags[at], *_label_row(row, heads)]
        at += 1 + len(row)
    written = "".join(tag.raw for tag in rows)
    return f'<table class="wq-table" data-cards>{written}</table>'


def _label_row(row: list["_Tag"], heads: list[list["_Tag"]]) -> list["_Tag"]:
    """A row in which each cell has its column's name, if it has one for each column."""
    cells = [tag for tag in row if tag.name == "td"]
    if len(cells) != len(heads):
        return row
    names = dict(zip(map(id, cells), heads, strict=True))
    return [_label_cell(tag, names[id(tag)]) if tag.name == "td" else tag for tag in row]


def _label_cell(cell: "_Tag", head: list["_Tag"]) -> "_Tag":
    attributes = cell.raw[len("<td") : -1]
    if not any(tag.name == "math" or "wq-typed" in tag.classes for tag in head):
        name = html.escape(html.unescape("".join(tag.raw for tag in head if not tag.name)).strip())
        return _Tag("td", f'<td data-label="{name}"{attributes}>')
    name = "".join(tag.raw for tag in head).strip()
    return _Tag("td", f'<td data-label=""{attributes}><span class="wq-column">{name}: </span>')


@dataclass(frozen=True)
class _Tag:
    """A tag of HTML, or the text between two, which has no name."""

    name: str
    raw: str
    classes: str = ""


class _Tags(HTMLParser):
    """What a table is written with."""

    def __init__(self, table: str):
        super().__init__(convert_charrefs=False)
        self.found: list[_Tag] = []
        self.feed(table)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append(_Tag(tag, self.get_starttag_text(), dict(attrs).get("class") or ""))

    handle_startendtag = handle_starttag

    def handle_endtag(self, tag):
        self.found.append(_Tag(f"/{tag}", f"</{tag}>"))

    def handle_data(self, data):
        self.found.append(_Tag("", data))

    def handle_entityref(self, name):
        self.found.append(_Tag("", f"&{name};"))

    def handle_charref(self, name):
        self.found.append(_Tag("", f"&#{name};"))


def _inside(name: str, tags: list[_Tag]) -> Iterator[list[_Tag]]:
    """What stands in each element of this name."""
    inside: list[_Tag] | None = None
    for tag in tags:
        if tag.name == f"/{name}" and inside is not None:
            yield inside
            inside = None
        elif inside is not None:
            inside.append(tag)
        elif tag.name == name:
            inside = []
