"""A comparison in a short answer, or in the answer of an exercise, is one that the build makes.

These are what readers take away, and "larger" for "smaller" is a wrong answer that no block sees.
"""

import re
from collections.abc import Iterator

from qkv_site.page import Container, Page, Prose
from qkv_site.rules import sides
from qkv_site.rules.short_answers import ANSWER
from qkv_site.run import COMPARED, blocks_of

NAME = "comparison"
_TYPED = re.compile(rf"\b(?:{'|'.join(COMPARED)})\b")
# Conditions: what a reader thought, and for which layers a sentence holds.
_IF = re.compile(r"\b(?:[Ii]f|where)\b[^.,:;]*")


def faults(page: Page) -> Iterator[tuple[int, str]]:
    """Comparisons that are typed."""
    if not page.name.startswith(("explanation/", "start/", "threads/")) or not blocks_of(page):
        return
    for line, said in _answers(page):
        for found in _TYPED.finditer(_IF.sub("", sides.typed(said))):
            yield (
                line,
                f"{found[0]!r} is typed, and nobody compares: expected what the build does, as in "
                f'{{{{= said("{found[0]}", pair.size, one.size) }}}}, by names of the page\'s '
                f"blocks, in: {' '.join(said.split())}",
            )


def _answers(page: Page) -> Iterator[tuple[int, str]]:
    """The short answer, the answers of exercises, and their lines."""
    if found := ANSWER.search(page.body):
        yield page.line_in(page.body, found.start()), found["said"]
    for part in page.walk():
        if isinstance(part, Container) and part.kind == "question":
            yield from ((each.line, each.text) for each in part.parts if isinstance(each, Prose))
