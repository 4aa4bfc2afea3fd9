"""The key of colours: what the colours and edges of a page stand for, below its first figure."""

import re

from qkv_site.markdown import elements

_FIGURE = re.compile(r'<div class="wq-(?:formula|diagrams)">')
_KINDS = {
    "goes in": {"source": "source"},
    "learned": {"weight": "weight"},
    "projected": {"query": "queries", "key": "keys", "value": "values"},
}
_HINT = (
    '<span class="wq-point">Point at</span><span class="wq-touch">Touch</span> a letter to see its '
    "name, its shape, and where else it stands."
)


def with_key(page: str) -> str:
    """Put the key into the HTML of a page that has formulas or diagrams."""
    figure = _FIGURE.search(page)
    kinds = {
        kind: {group: name for group, name in names.items() if f"role-{group}" in page}
        for kind, names in _KINDS.items()
    }
    if not figure or not any(kinds.values()):
        return page
    end = elements.end(page, figure.start())
    return page[:end] + _key(kinds) + page[end:]


def _key(kinds: dict[str, dict[str, str]]) -> str:
    entries = "".join(
        f"<span>{kind}: {_named(names)}</span>" for kind, names in kinds.items() if names
    )
    return f'<p class="wq-colours" data-search-exclude>{entries}<span>{_HINT}</span></p>'


def _named(groups: dict[str, str]) -> str:
    return " ".join(
        f'<i class="wq-swatch role-{group}"></i>{name}' for group, name in groups.items()
    )
