"""Tables whose rows a phone shows below each other: each value has its column's name."""

import html
import re

from qkv_site.markdown.mathml import as_words

_TABLE = re.compile(r"<table>(.*?)</table>", re.DOTALL)
_HEAD = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_ROW = re.compile(r"<tr>.*?</tr>", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")


def labelled(page: str) -> str:
    """A page in whose tables of three to six columns each value says its column's name."""
    return _TABLE.sub(_label, page)


def _label(table: re.Match) -> str:
    heads = [_words(head) for head in _HEAD.findall(table[1])]
    if not 3 <= len(heads) <= 6:
        return table[0]
    rows = _ROW.sub(lambda row: _label_row(row[0], heads), table[1])
    return f"<table data-cards>{rows}</table>"


def _words(head: str) -> str:
    return html.unescape(_TAG.sub("", as_words(head))).strip()


def _label_row(row: str, heads: list[str]) -> str:
    _, *cells = row.split("<td")
    if len(cells) != len(heads):
        return row
    named = zip(heads, cells, strict=True)
    said = "".join(f'<td data-label="{html.escape(head)}"{cell}' for head, cell in named)
    return row.partition("<td")[0] + said
