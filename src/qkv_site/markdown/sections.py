"""The parts of a page: what stands below its headings, and in its fold-outs and tabs."""

import re
import textwrap
from dataclasses import dataclass

from qkv_site.markdown import blocks

_HEADING = re.compile(r"^(#{1,6}) (.*?)(?: *\{[^}\n]*#([\w-]+)[^}\n]*\})? *$", re.MULTILINE)
# An admonition, a fold-out or a tab: its title, and what stands indented below it.
_FOLDED = re.compile(
    r'^(?:(?:!!!|\?\?\?\+?) [\w-]+|===[+!]*) "(?P<title>[^"\n]*)" *\n'
    r"(?P<body>(?:(?: {4}.*)?\n)*)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Section:
    """A heading, and where what stands below it begins.

    Attributes:
        level: 1 for the title of the page.
        title: Its words, as Markdown.
        id: Its explicit id; or empty.
        start: Where the text below it begins.
        end: Where the next heading of its level, or of a higher one, begins.
    """

    level: int
    title: str
    id: str
    start: int
    end: int


def find(text: str) -> list[Section]:
    """The headings of a page, in order; a comment in a block of code is none."""
    prose = blocks.FENCE.sub(lambda fence: " " * len(fence[0]), text)
    headings = list(_HEADING.finditer(prose))
    found = []
    for number, heading in enumerate(headings):
        level = len(heading[1])
        ends = (after.start() for after in headings[number + 1 :] if len(after[1]) <= level)
        end = next(ends, len(text))
        found.append(Section(level, heading[2], heading[3] or "", heading.end(), end))
    return found


def below(text: str, anchor: str) -> str:
    """What stands below a heading, deeper headings included; the whole page without an anchor."""
    if not anchor:
        return text
    return next((text[it.start : it.end] for it in find(text) if it.id == anchor), "")


def unfolded(text: str) -> str:
    """The same with what stands in a fold-out or a tab below its title."""
    return _FOLDED.sub(
        lambda found: f"**{found['title']}**\n\n{unfolded(textwrap.dedent(found['body']))}", text
    )
