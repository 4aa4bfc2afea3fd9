"""A page as Markdown that any reader of Markdown knows: the text of its copy and of its notebook.

Python-Markdown's own ways of writing are undone, formulas and links are written as their reader
needs them, and each block has its place. What a copy and a notebook do differently is in the
methods of their own writers.
"""

import posixpath
import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

from mkdocs.structure.files import File, Files
from nbformat import NotebookNode

from qkv_site.figures import Figure, Printed
from qkv_site.markdown import blocks, claims, formulas, on_library, sections

# What Python-Markdown knows and others do not. Code comes first: nothing inside it is meant.
_SPAN = re.compile(
    r"(?P<code>(?P<ticks>`+).*?[^`](?P=ticks)(?!`))"
    r"|^(?P<marks>#+) (?P<title>[^\n]*?) *\{[^}\n]*#(?P<id>[\w.-]+)[^}\n]*\} *$"
    r"|(?P<formula>\{\{.+?\}\})"
    r"|\$\$(?P<display>.+?)\$\$|\$(?=\S)(?P<latex>[^$\n]+?)(?<=\S)\$"
    r"|\[(?P<said>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^\s()]+)\)"
    r"|(?P<attributes> *\{:? *[#.\w][^{}\n]*\})(?= *$|[ .,;:)\]])"
    r"|<(?P<power>su[bp])>(?P<script>.*?)</su[bp]>"
    r"|(?P<tag></?(?:a|div|form|input|label|p|span)\b[^<>]*>)",
    re.DOTALL | re.MULTILINE,
)
_EMPTY_LINES = re.compile(r"\n{3,}")

Piece = str | NotebookNode


class Writer(ABC):
    """Writes a page.

    Attributes:
        page: The page's file.
        files: Those of the site, to which its links lead.
        heading: The id of the heading that was written last.
    """

    def __init__(self, page: File, files: Files):
        self.page, self.files = page, files
        self.heading = ""

    def pieces(self, markdown: str, printed: Iterable[Printed]) -> Iterator[Piece]:
        """The page's text, and what is no text between it.

        Args:
            markdown: What its file says, without the front matter.
            printed: What its blocks printed, in their order.
        """
        markdown = sections.unfolded(markdown)
        done, printed = 0, iter(printed)
        for fence, block in zip(
            blocks.FENCE.finditer(markdown), blocks.find(markdown), strict=True
        ):
            yield self.plain(markdown[done : fence.start()])
            done = fence.end()
            if block.executed:
                yield from self.executed(block, next(printed, Printed("")))
            else:
                text = self.block(block).strip("\n")
                yield textwrap.indent(text, fence["indent"]) + "\n"
        yield self.plain(markdown[done:])

    def block(self, block: blocks.Block) -> str:
        """A block that is not executed."""
        match block.language:
            case "formula":
                return self.formulas(block)
            case "diagram" | "map" | "change-it":
                return self.drawing(block)
        if not block.library:
            return fenced(block.language, block.code)
        code, said = fenced("python", block.code), on_library.printed(block)
        ran = claims.ran_on(block.library)
        return f"{code}\nIt prints, with {ran}:\n\n{fenced('text', said)}" if said else code

    def statement(self, block: blocks.Block) -> str:
        """What an executed block shows, if it says so."""
        if not {"claim", "title"} <= block.options.keys():
            return ""
        return self.plain(self.claim(claims.of_options(block.options, self.page.src_uri)))

    def plain(self, text: str) -> str:
        """Text between blocks, without what only this site's Markdown knows."""
        return _SPAN.sub(self._span, text)

    def _span(self, span: re.Match) -> str:
        if span["code"]:
            return span["code"]
        if span["marks"]:
            self.heading = span["id"]
            return f"{span['marks']} {self.title(self.plain(span['title']), span['id'])}"
        if span["formula"]:
            source, content = re.fullmatch(
                formulas.INLINE, " ".join(span["formula"].split())
            ).groups()
            return self.inline(source or "site", content)
        if latex := span["display"] or span["latex"]:
            return self.latex(latex, display=bool(span["display"]))
        if span["target"]:
            return self.link(self.plain(span["said"]), span["target"])
        return self.power(span["power"], span["script"]) if span["power"] else ""

    def address(self, target: str) -> str | None:
        """Where a link leads, below the site; None if there is no such page."""
        path, mark, anchor = target.partition("#")
        uri = posixpath.join(posixpath.dirname(self.page.src_uri), path)
        file = self.files.get_file_from_path(posixpath.normpath(uri)) if path else self.page
        return file and f"{file.url.removeprefix('./').removeprefix('.')}{mark}{anchor}"

    @abstractmethod
    def executed(self, block: blocks.Block, printed: Printed) -> Iterator[Piece]:
        """A block that ran, and what it printed."""

    @abstractmethod
    def formulas(self, block: blocks.Block) -> str:
        """A block of formulas."""

    @abstractmethod
    def drawing(self, block: blocks.Block) -> str:
        """A block that is drawn, or that a reader can change."""

    @abstractmethod
    def figure(self, figure: Figure) -> str:
        """A figure that a block printed."""

    @abstractmethod
    def claim(self, claim: claims.Claim) -> str:
        """What the block below shows, in this site's Markdown."""

    @abstractmethod
    def title(self, title: str, anchor: str) -> str:
        """What a heading says."""

    @abstractmethod
    def inline(self, source: str, content: str) -> str:
        """A formula in a sentence, `{{source: content}}`."""

    @abstractmethod
    def latex(self, latex: str, *, display: bool) -> str:
        """LaTeX that is no formula of the notation."""

    @abstractmethod
    def power(self, which: str, script: str) -> str:
        """A script of a letter: `sup` or `sub`."""

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
