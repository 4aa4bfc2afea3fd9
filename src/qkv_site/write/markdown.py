"""A page as Markdown that any reader of Markdown knows: the text of its copy and of its notebook.

Python-Markdown's own ways of writing are undone, formulas and links are written as their reader
needs them, and each block has its place. What a copy and a notebook do differently is in the
methods of their own writers.
"""

import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from xml.etree import ElementTree

from nbformat import NotebookNode

from qkv_site.figures import Figure, Printed
from qkv_site.markdown import claims, evidence, mathml
from qkv_site.page import Container, Fence, Heading, Page, Part, Prose
from qkv_site.parts import formulas, on_library
from qkv_site.parts.python import Python
from qkv_site.write import reference

# What Python-Markdown knows and others do not. Code comes first: nothing inside it is meant.
_SPAN = re.compile(
    r"(?P<code>(?P<ticks>`+).*?[^`](?P=ticks)(?!`))"
    r"|(?P<formula>\{\{(?:=\s*(?P<number>.+?)\s*|.+?)\}\})"
    r"|\$\$(?P<display>.+?)\$\$|\$(?=\S)(?P<latex>[^$\n]+?)(?<=\S)\$"
    r"|\[(?P<said>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^\s()]+)\)"
    r"|(?P<attributes>(?<![\^_]) *\{:? *[#.\w][^{}\n]*\})(?= *$|[ .,;:)\]])"
    r"|<(?P<power>su[bp])>(?P<script>.*?)</su[bp]>"
    r"|(?<!\\)(?P<stars>\*{1,3})(?=\S)(?P<stressed>(?:`[^`]*`|\*[^*\s][^*]*\*|[^*`])+?)(?<=\S)(?P=stars)"
    r"|(?P<tag></?(?:a|code|details|div|form|input|label|noscript|p|span|summary)\b[^<>]*>)",
    re.DOTALL | re.MULTILINE,
)
_EMPTY_LINES = re.compile(r"\n{3,}")

Piece = str | NotebookNode


class Writer(ABC):
    """Writes a page.

    Attributes:
        page: The page, which has run.
        addresses: Of each file of the site, its address there.
        heading: The id of the heading that stands above.
    """

    def __init__(self, page: Page, addresses: Mapping[str, str]):
        self.page, self.addresses = page, addresses
        self.heading = ""

    def pieces(self, parts: Iterable[Part]) -> Iterator[Piece]:
        """The text of some parts, and what is no text between it."""
        for part in parts:
            match part:
                case Heading():
                    self.heading = part.id or self.heading
                    yield from self.title(part)
                case Prose():
                    yield from self.prose(part)
                case Container():
                    yield f"{self.emphasis('**', self.plain(part.title))}\n\n"
                    yield from self.pieces(part.parts)
                case Fence(language="python") if part.executed:
                    yield from self.executed(part, part.printed or Printed(""))
                case Fence():
                    text = self._fence(part).strip("\n")
                    yield textwrap.indent(text, " " * part.indent) + "\n"

    def _fence(self, fence: Fence) -> str:
        if not isinstance(fence, Python) and any(fence.inside()):  # reported before pages run
            return fenced("", fence.code)
        return fence.as_text(self)

    def prose(self, part: Prose) -> Iterator[Piece]:
        """Lines of Markdown, and what the reference says in the place of a name."""
        for piece in reference.split(part.text):
            if isinstance(piece, str):
                yield self.plain(piece)
            else:
                yield from self.documented(piece)

    def documented(self, named: reference.Documented) -> Iterator[Piece]:
        """What the reference says of a name; a notebook needs no such page."""
        yield from ()

    def listing(self, language: str, code: str) -> str:
        """Code, or text as it is."""
        return fenced(language, code)

    def on_library(self, block: Python) -> str:
        """A block that needs its library, and what it printed there."""
        code, said = fenced("python", block.code), on_library.printed(block)
        ran = claims.ran_on(block.library)
        return f"{code}\nIt prints, with {ran}:\n\n{fenced('text', said)}" if said else code

    def statement(self, block: Python) -> str:
        """What an executed block shows, if it says so."""
        if not {"claim", "title"} <= block.given.keys():
            return ""
        return self.plain(self.claim(claims.of_options(block.given, self.page.name)))

    def plain(self, text: str) -> str:
        """Text between blocks, without what only this site's Markdown knows."""
        return _SPAN.sub(self._span, text)

    def _span(self, span: re.Match) -> str:
        if span["code"]:
            return self.code(span["code"])
        if span["formula"]:
            number = self.page.numbers.get(span["number"] or "")
            if number is not None:
                return self.plain(number)
            source, content = re.fullmatch(
                formulas.INLINE, " ".join(span["formula"].split())
            ).groups()
            return self.inline(source or "site", content)
        if latex := span["display"] or span["latex"]:
            return self.latex(latex, display=bool(span["display"]))
        if span["target"]:
            return self.link(self.plain(span["said"]), span["target"])
        if span["stars"]:
            return self.emphasis(span["stars"], self.plain(span["stressed"]))
        if span["attributes"]:
            return self.attributes(span["attributes"])
        return self.power(span["power"], span["script"]) if span["power"] else ""

    def address(self, target: str) -> str | None:
        """Where a link leads, below the site; None if there is no such page."""
        target = evidence.leads_to(target, self.page)
        path, mark, anchor = target.partition("#")
        found = self.addresses.get(self.page.linked(path))
        return None if found is None else f"{found}{mark}{anchor}"

    def code(self, code: str) -> str:
        """A span of code, with its backticks."""
        return code

    def attributes(self, attributes: str) -> str:
        """What only this site's Markdown says of an element, such as its id."""
        return ""

    def emphasis(self, stars: str, words: str) -> str:
        """Bold or italic words."""
        return f"{stars}{words}{stars}"

    def inline(self, source: str, content: str) -> str:
        """A formula in a sentence, `{{source: content}}`."""
        try:
            said = formulas.plain(content, source)
        except (SyntaxError, ValueError):  # reported when the page is rendered
            return f"`{content}`"
        return said if content.startswith('"') else self.latex(said.strip("$"))

    def power(self, which: str, script: str) -> str:
        """A script of a letter: `sup` or `sub`."""
        return ("^" if which == "sup" else "_") + script

    @abstractmethod
    def executed(self, block: Python, printed: Printed) -> Iterator[Piece]:
        """A block that ran, and what it printed."""

    @abstractmethod
    def formulas(self, lines: str, sources: str = "") -> str:
        """Formulas that hold together, in the letters of these sources."""

    @abstractmethod
    def drawn(self, words: Callable[[], str], lines: str, sources: str = "") -> str:
        """Formulas that the page draws, and what the drawing shows."""

    @abstractmethod
    def figure(self, figure: Figure) -> str:
        """A figure that a block printed."""

    @abstractmethod
    def claim(self, claim: claims.Claim) -> str:
        """What the block below shows, in this site's Markdown."""

    @abstractmethod
    def title(self, heading: Heading) -> Iterator[Piece]:
        """A heading."""

    @abstractmethod
    def latex(self, latex: str, *, display: bool = False) -> str:
        """LaTeX, which is no formula of the notation or has been one."""

    @abstractmethod
    def link(self, said: str, target: str) -> str:
        """A link."""


def fenced(language: str, code: str) -> str:
    """A fence with as many backticks as it needs."""
    ticks = "`" * max(3, *(len(found) + 1 for found in re.findall(r"`{3,}", code)), 3)
    return f"{ticks}{language}\n{code.rstrip()}\n{ticks}\n"


def joined(pieces: Sequence[str]) -> str:
    """Pieces of text, with one empty line where there are more."""
    return _EMPTY_LINES.sub("\n\n", "".join(pieces)).strip()


@cache
def words(latex: str) -> str:
    """LaTeX as plain text, `W_i^Q`."""
    return mathml.plain(ElementTree.fromstring(mathml.to_mathml(mathml.with_words(latex))))
