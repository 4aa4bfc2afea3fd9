"""A link to a part of a page leads to a part that is there."""

import re
from collections.abc import Iterator

from qkv_site.markdown import claims, evidence
from qkv_site.page import Page
from qkv_site.parts.python import Python

NAME = "link"
_LINK = re.compile(r"\]\((?P<page>[\w./-]*\.md)?#(?P<part>[\w.-]+)\)")


def faults(page: Page) -> Iterator[tuple[int, str]]:
    """Links to an id that no page, no statement and no test has."""
    for link in _LINK.finditer(page.text):
        path, part = link["page"] or "", link["part"]
        name = page.linked(path)
        target = page.site.pages.get(name)
        if name == claims.INDEX:
            there = part.removeprefix("claim-") in evidence.known(page.site).places
            there = there or has(page.site.pages[name], part)
        else:
            # What mkdocstrings writes, and a page that is not there, are MkDocs' to find.
            there = target is None or part.startswith("qkv.") or has(target, part)
        if not there:
            line = page.text.count("\n", 0, link.start()) + 1
            yield line, f"{link[0][2:-1]!r}: nothing there has the id {part!r}"


def has(page: Page, part: str) -> bool:
    """Whether an id is on a page: it is written there, or in what the page prints of its tables."""
    if re.search(rf"[#\"]{re.escape(part.removeprefix('claim-'))}[\" }}]", page.text):
        return True
    return any(isinstance(each, Python) and "qkv_site" in each.code for each in page.fences())
