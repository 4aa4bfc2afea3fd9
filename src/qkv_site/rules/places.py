"""A page is found: its folder's index leads to it, and so does the menu."""

import posixpath
import re
from collections.abc import Iterator

from qkv_site import menu
from qkv_site.page import Page
from qkv_site.parts.path import Path
from qkv_site.parts.python import Python

NAME = "place"


def faults(page: Page) -> Iterator[tuple[int, str]]:
    """The lists that leave a page out."""
    folder, name = posixpath.split(page.name)
    if folder and name != "index.md":
        listing = menu.index(page.site, page.name)
        index = page.site.pages.get(listing)
        if index is None:
            yield 0, f"its folder has no index: expected a page {listing}"
        elif not _leads_to(index, page.name):
            yield (
                0,
                f"{index.name} does not lead to it: expected a line there such as "
                f"- [{page.title}]({index.link_to(page.name)}) Its short answer.",
            )
    known = menu.pages(page.site)
    if known and page.name not in known:
        yield (
            0,
            "it has no place in the menu, and so in llms.txt: expected a line below nav in "
            f"mkdocs.yml such as - A few words: {page.name}",
        )


def _leads_to(index: Page, name: str) -> bool:
    """Whether an index has a link to a page; what it prints from data lists what the data have."""
    if re.search(rf"\]\({re.escape(index.link_to(name))}[)#]", index.body):
        return True
    return any(
        (isinstance(part, Path) and name in menu.path(index.site))
        or (isinstance(part, Python) and "qkv_site" in part.code)
        for part in index.fences()
    )
