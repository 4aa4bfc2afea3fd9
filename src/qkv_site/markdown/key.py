"""The key of colours: what the colours and edges of a page stand for, below its first figure."""

import re
from collections.abc import Sequence

from qkv_site.markdown import elements

_FIGURE = re.compile(r'<div class="wq-(?:formula|diagrams)">')
_SET = re.compile(r'data-set="(\d+)"')
_KINDS = {
    "goes in": {"source": "source"},
    "learned": {"weight": "weight"},
    "projected": {"query": "queries", "key": "keys", "value": "values"},
    "then computed": {"score": "scores and attention weights", "output": "outputs"},
}
_HINT = (
    '<span class="wq-point">Point at</span><span class="wq-touch">Touch</span> a letter to see its '
    "name, its shape, and where else it stands."
)
_CHOSEN = ' class="wq-chosen"'  # seen where other letters are chosen


def with_key(page: str, variants: Sequence[str] = ()) -> str:
    """Put the key into the HTML of a page that has formulas or diagrams.

    The key names what is drawn. A source without a letter for queries writes a product, with a
    weight: what is in its letters alone is named where a reader has chosen other letters.
    """
    starts = [figure.start() for figure in _FIGURE.finditer(page)]
    if not starts:
        return page
    ends = [elements.end(page, start) for start in starts]
    drawn = "".join(page[start:end] for start, end in zip(starts, ends, strict=True))
    elsewhere = "".join(variants[int(number)] for number in {*_SET.findall(drawn)})
    key = _key(drawn, elsewhere)
    return page[: ends[0]] + key + page[ends[0] :]


def _key(drawn: str, elsewhere: str) -> str:
    entries = "".join(_entry(kind, names, drawn, elsewhere) for kind, names in _KINDS.items())
    return (
        entries and f'<p class="wq-colours" data-search-exclude>{entries}<span>{_HINT}</span></p>'
    )


def _entry(kind: str, names: dict[str, str], drawn: str, elsewhere: str) -> str:
    here = {group for group in names if _has(drawn, group)}
    there = {group for group in names if _has(elsewhere, group)} - here
    swatches = " ".join(
        f'<span{_CHOSEN * (group in there)}><i class="wq-swatch role-{group}"></i>{name}</span>'
        for group, name in names.items()
        if group in here | there
    )
    return swatches and f"<span{_CHOSEN * (not here)}>{kind}: {swatches}</span>"


def _has(figures: str, group: str) -> bool:
    return bool(re.search(rf'class="[^"]*\brole-{group}\b', figures))
