"""The key of colours: what the colours and edges of a page stand for, below its first figure."""

from qkv import notation
from qkv_site.page import Page

PLACE = "\x0ekey\x0f"  # where the key will stand; no page has control characters in its text
_KINDS = {
    "goes in": {"source": "source"},
    "learned": {"weight": "weight"},
    "projected": {"query": "queries", "key": "keys", "value": "values"},
    "then computed": {"score": "scores and attention weights", "output": "outputs"},
}
_HINT = (
    '<span class="wq-point">Point at</span><span class="wq-touch">Touch</span> a letter to see its '
    "name, its shape, and where else it is used."
)
_CHOSEN = ' class="wq-chosen"'  # seen where other letters are chosen


def key(page: Page) -> str:
    """The key of a page that has formulas or diagrams.

    It names what is drawn. A source without a letter for queries writes a product, with a weight:
    what is in its letters alone is named where a reader has chosen other letters.
    """
    here = {
        group
        for fence in page.drawn
        for source in fence.sources.split() or ["site"]
        for group in fence.groups(source)
    }
    elsewhere = {
        group
        for fence in page.drawn
        for source in notation.sources()
        if not fence.sources
        for group in fence.groups(source.id)
    }
    return _key(here, elsewhere - here)


def _key(here: set[str], elsewhere: set[str]) -> str:
    entries = "".join(_entry(kind, names, here, elsewhere) for kind, names in _KINDS.items())
    return entries and f'<p class="wq-colours">{entries}<span>{_HINT}</span></p>'


def _entry(kind: str, names: dict[str, str], here: set[str], elsewhere: set[str]) -> str:
    swatches = " ".join(
        f'<span{_CHOSEN * (group in elsewhere)}><i class="wq-swatch role-{group}"></i>{name}</span>'
        for group, name in names.items()
        if group in here | elsewhere
    )
    return swatches and f"<span{_CHOSEN * here.isdisjoint(names)}>{kind}: {swatches}</span>"
