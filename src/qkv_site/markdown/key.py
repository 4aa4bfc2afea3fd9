"""The key of colours: what the colours and edges of a page stand for, below its first figure."""

from collections.abc import Callable
from functools import cache, partial

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
    shown = cache(partial(_shown, page))
    entries = "".join(variants(partial(_entry, kind, shown), "span") for kind in _KINDS)
    page.uncounted.append(entries)
    return entries and f'<p class="wq-colours">{entries}<span>{_HINT}</span></p>'


def _shown(page: Page, source: str) -> set[str]:
    return {
        group
        for fence in page.drawn
        for each in fence.sources.split() or [source]
        for group in fence.groups(each)
    }


def _entry(kind: str, shown: Callable[[str], set[str]], source: str) -> str:
    swatches = " ".join(
        f'<span><i class="wq-swatch role-{group}"></i>{name}</span>'
        for group, name in _KINDS[kind].items()
        if group in shown(source)
    )
    return swatches and f"<span>{kind}: {swatches}</span>"
