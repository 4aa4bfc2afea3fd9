"""Where an element of a page's HTML ends, and a page without some of its elements."""

import re

VOID = {"area", "br", "col", "hr", "img", "input", "source", "wbr"}  # they hold nothing

# What a reader works with, and what only a script reads; the search's own reader of HTML takes the
# end of an element inside what is left out for the end of it all.
_NO_WORDS = re.compile(
    r"<(?:button|script|select|style|template)\b|<\w+\b[^>]*\sdata-search-exclude\b"
)


def end(page: str, start: int) -> int:
    """Where the element ends that begins here."""
    name = re.compile(r"<(\w+)").match(page, start)[1]
    depth = 0
    for tag in re.compile(rf"<(/?){name}\b[^>]*>").finditer(page, start):
        depth += -1 if tag[1] else 1
        if not depth:
            return tag.end()
    raise ValueError(f"The <{name}> does not end.")


def without_tools(page: str) -> str:
    """The HTML of a page without buttons, menus, data, and what the search is told to leave out."""
    kept, done = [], 0
    for found in _NO_WORDS.finditer(page):
        if found.start() >= done:
            kept.append(page[done : found.start()])
            done = end(page, found.start())
    return "".join([*kept, page[done:]])
