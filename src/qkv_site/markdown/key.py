"""The key of colours: what the colours and edges of a page stand for, below its first figure."""

from functools import partial

from qkv_site.page import Page
from qkv_site.parts.formulas import variants

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


def key(page: Page) -> str:
    """The key of a page that has formulas or diagrams: it names what is drawn in chosen letters.

    A source without a letter for queries writes a product, with a weight.
    """
    entries = "".join(variants(partial(_entry, page, kind), "span") for kind in _KINDS)
    page.uncounted.append(entries)
    return entries and f'<p class="wq-colours">{entries}<span>{_HINT}</span></p>'


def _entry(page: Page, kind: str, source: str) -> str:
    shown = {
        group
        for fence in page.drawn
        for each in fence.sources.split() or [source]
        for group in fence.groups(each)
    }
    swatches = " ".join(
        f'<span><i class="wq-swatch role-{group}"></i>{name}</span>'
        for group, name in _KINDS[kind].items()
        if group in shown
    )
    return swatches and f"<span>{kind}: {swatches}</span>"
