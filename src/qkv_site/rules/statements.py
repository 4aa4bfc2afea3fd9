"""Each statement has a name of its own, and evidence of its kind."""

from collections.abc import Iterator
from functools import lru_cache

from qkv_site.markdown import claims
from qkv_site.page import Page, Site

NAME = "claim"


def faults(page: Page) -> Iterator[tuple[int, str]]:
    """Statements of the front matter without evidence, and names that another page has."""
    for claim in claims.of_page(page):
        line = page.line_of(claim.statement)
        if not claim.block:
            yield from ((line, message) for message in claims.faults(claim))
        first = _first(page.site).get(claim.id, page.name)
        if first != page.name:
            yield line, f"claim {claim.id!r} is made in {first}"


@lru_cache(maxsize=1)  # a site is another one each time that it is built
def _first(site: Site) -> dict[str, str]:
    """Of each name of a statement, the first page that has it."""
    pages: dict[str, str] = {}
    for page in site.pages.values():
        for claim in claims.of_page(page):
            pages.setdefault(claim.id, page.name)
    return pages
