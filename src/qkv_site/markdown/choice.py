"""The line that says what a reader's choice of letters changed on a page, or why nothing did.

It is written for every source as a formula is, so it changes with them, before anything is drawn.
"""

import html
import re
from collections import Counter
from functools import partial

from qkv import notation
from qkv_site.page import PAGE
from qkv_site.parts import formulas

# What follows a choice, one and many.
_KINDS = {
    "formula": ("formula", "formulas"),
    "drawing": ("drawing", "drawings"),
    "place": ("place in sentences", "places in sentences"),
}
_TOP = re.compile(r"</h1>(\s*<p>.*?</p>)?", re.DOTALL)
_MAP = re.compile(r'<figure class="wq-map".*?</figure>', re.DOTALL)
_TIED = re.compile(r'<figure class="wq-equation"[^>]*><div data-of="([^"]*)"')
_BUTTONS = (
    '<button type="button" data-wq-back>Back to this site\'s letters</button> '
    '<button type="button" data-wq-copy>Copy a link<span> in these letters</span></button>'
)


def told(page: str) -> str:
    """Put the line into the HTML of a page, below its first paragraph."""
    seen = re.sub(r"<template.*?</template>", "", _MAP.sub("", page), flags=re.DOTALL)
    render = partial(_said, Counter(formulas.shown(seen)), page)
    line = (
        f'<div class="wq-told" data-search-exclude><div role="status">'
        f"{formulas.variants(render, 'span')}</div>{_BUTTONS}</div>"
    )
    return _TOP.sub(lambda top: top[0] + line, page, count=1)


def _said(shown: Counter[str], page: str, source: str) -> str:
    if source == "site":
        return ""
    chosen = notation.source(source)
    changed = Counter()
    for variants, times in shown.items():
        if not _as_on_this_site(variants, source):
            changed[_kind(variants)] += times
    said = (
        f"Shown in the letters of <strong>{html.escape(chosen.short)}</strong> "
        f"(words are {chosen.tokens}). "
    )
    if not changed:
        return said + _why_nothing_changed(shown, page)
    stay = ["Formulas under a source's name stay."] if "wq-in" in page else []
    stay += [_stays(tied) for tied in dict.fromkeys(_TIED.findall(page)) if tied != source]
    counts = f"Changed on this page: {_listed(changed, with_map=bool(_MAP.search(page)))}."
    vectors = []
    if chosen.one_token:
        vectors.append(formulas.one_token(notation.legend("X_Q", chosen)[0], chosen))
    return said + " ".join([counts, *stay, *vectors])


def _stays(tied: str) -> str:
    """What is said of pictures that keep one source's letters, and its rows or columns."""
    source = notation.source(tied)
    return (
        f"The picture in the letters of <strong>{html.escape(source.short)}</strong> stays "
        f"(words are {source.tokens})."
    )


def _as_on_this_site(variants: str, source: str) -> bool:
    """Whether a source shares the first variant, which is this site's."""
    return source in re.search(r'data-in="([^"]*)"', variants)[1].split()


def _kind(variants: str) -> str:
    if variants.startswith("<span"):
        return "place"
    return "drawing" if 'role="img"' in variants else "formula"


def _listed(changed: Counter[str], *, with_map: bool) -> str:
    parts = ["the picture of the layer"] if with_map else []
    parts += [
        f"{changed[kind]} {names[changed[kind] > 1]}"
        for kind, names in _KINDS.items()
        if changed[kind]
    ]
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def _why_nothing_changed(shown: Counter[str], page: str) -> str:
    if shown:
        return "Its formulas are the same in these letters."
    if len(PAGE.get().tied) > 1:
        return "This page compares sources, so its formulas stay."
    return "The formulas of this page stay." if "<math" in page else "This page has no formulas."
