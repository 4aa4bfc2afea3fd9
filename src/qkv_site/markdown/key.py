"""The key of colours: what the colours and edges of a page stand for, below its first figure."""

import re

from qkv_site.markdown import elements
from qkv_site.parts import formulas

_FIGURE = re.compile(r'<div class="wq-(?:formula|diagrams)">')
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


def with_key(page: str) -> str:
    """Put the key into the HTML of a page that has formulas or diagrams.

    The key names what is drawn. A source without a letter for queries writes a product, with a
    weight: what is in its letters alone is named where a reader has chosen other letters.
    """
    starts = [figure.start() for figure in _FIGURE.finditer(page)]
    if not starts:
        return page
    ends = [elements.end(page, start) for start in starts]
    drawn = "".join(page[start:end] for start, end in zip(starts, ends, strict=True))
    here = _groups(drawn)
    elsewhere = _groups("".join({*formulas.shown(drawn)})) - here
    return page[: ends[0]] + _key(here, elsewhere) + page[ends[0] :]


def _groups(figures: str) -> set[str]:
    """The colours of what is drawn."""
    classes = " ".join(re.findall(r'class="([^"]*)"', figures)).split()
    return {name.removeprefix("role-") for name in classes if name.startswith("role-")}


def _key(here: set[str], elsewhere: set[str]) -> str:
    entries = "".join(_entry(kind, names, here, elsewhere) for kind, names in _KINDS.items())
    return (
        entries and f'<p class="wq-colours" data-search-exclude>{entries}<span>{_HINT}</span></p>'
    )


def _entry(kind: str, names: dict[str, str], here: set[str], elsewhere: set[str]) -> str:
    swatches = " ".join(
        f'<span{_CHOSEN * (group in elsewhere)}><i class="wq-swatch role-{group}"></i>{name}</span>'
        for group, name in names.items()
        if group in here | elsewhere
    )
    return swatches and f"<span{_CHOSEN * here.isdisjoint(names)}>{kind}: {swatches}</span>"
