"""Blocks of Python: those that a page runs, and those that a test runs on a library."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import markdown_exec

from qkv_site.figures import Printed
from qkv_site.markdown import claims
from qkv_site.markdown.claims import Claim
from qkv_site.page import Fault, Fence, Page, parse
from qkv_site.parts import on_library

if TYPE_CHECKING:
    from qkv_site.write.markdown import Writer

_ON = frozenset({"on"})
_PRINTED_WITH = re.compile(r"\bprint\(.*\b(sep|file|flush)=")
_ASSERT = re.compile(r"^\s*assert\b", re.MULTILINE)
_CLAIM_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_OF_A_CLAIM = ("cite", "covers", "run", "read")


@dataclass
class Python(Fence):
    """A block of Python. It has to run: as mere text nobody would know whether it holds.

    Attributes:
        printed: What it printed; None if it has not run to its end.
        traceback: HTML of why not, if it began to run.
    """

    languages = ("python",)
    options: ClassVar = {
        "exec": _ON,
        "source": frozenset({"above"}),
        "result": frozenset({"text"}),
        "title": None,
        "html": _ON,
        "claim": None,
        "cite": None,
        "covers": None,
        "run": None,
        "read": None,
        "library": None,
    }
    rule = "python"

    printed: Printed | None = None
    traceback: str = ""

    @property
    def executed(self) -> bool:
        """Whether the page runs it."""
        return self.given.get("exec") == "on"

    @property
    def shown(self) -> bool:
        """Whether a page shows its code, and not only what it prints."""
        return not self.executed or "source" in self.given

    @property
    def library(self) -> str:
        """The layout whose library runs this block, where it is installed; or empty."""
        return self.given.get("library", "")

    def claim(self, page: str) -> Claim | None:
        """The statement of this page that it proves."""
        stated = {"claim", "title"} <= self.given.keys()
        return claims.of_options(self.given, page) if stated else None

    def faults(self, page: Page) -> Iterator[Fault]:
        """What is wrong with it, without running it."""
        yield from super().faults(page)
        if claim := self.claim(page.name):
            for message in claims.faults(claim):
                yield Fault(self.line, "claim", message)
        for message in self._of_its_claim():
            yield Fault(self.line, "claim", message)

    def inside(self) -> Iterable[tuple[int, str]]:
        """What would keep it from running, or show it as something else than it is."""
        if not self.executed and not self.library:
            yield -1, 'a block of Python that is not executed: expected exec="on"'
        if self.library and len(self.given) > 1:
            yield -1, f'library="{self.library}" takes no other option'
        if self.library and on_library.printed(self) is None:
            yield (
                -1,
                f'library="{self.library}": the block has not run as it stands, '
                "tests/truth/record.py runs it",
            )
        if self.executed and (unknown := _PRINTED_WITH.search(self.code)):
            yield (
                -1,
                f"{unknown[1]}= in print: markdown-exec's print knows end alone, and prints "
                "otherwise",
            )
        try:
            ast.parse(self.code)
        except SyntaxError as error:
            yield (error.lineno or 0) - 1, f"no Python: {error.msg}"

    def markdown(self, page: Page, stash: Callable[[str], str]) -> str | None:
        """A block that ran: its source, what it printed, and what it proves."""
        if self.library:
            return on_library.show(self)
        if not self.executed:
            return None
        given = self.given
        output = self.traceback if self.printed is None else self.printed.html()
        if "html" in given or self.printed is None:
            output = stash(output)
        elif "result" in given:
            # A number that a block prints is found on its page, and not through the search.
            output = on_library.shown(f"{output}\n")
        else:
            output = _with_blocks(output)
        if self.shown:
            titled = "title" in given and "claim" not in given
            output = markdown_exec.add_source(
                source=self.code,
                location="above",
                output=output,
                language="python",
                tabs=markdown_exec.default_tabs,
                **({"title": given["title"]} if titled else {}),
            )
        claim = self.claim(page.name)
        if not claim:
            return output
        return (
            f"/// html | div#claim-{claim.id}.wq-claim\n\n"
            f"{claim.statement} {claim.mark}\n\n{output}\n\n///"
        )

    def as_text(self, writer: "Writer") -> str:
        """A block that a test runs on a library, with what it printed there."""
        return writer.on_library(self) if self.library else super().as_text(writer)

    def _of_its_claim(self) -> Iterator[str]:
        name, title = self.given.get("claim"), self.given.get("title", "")
        if "{{=" in title:
            yield "a title stands at the foot of its page too, and computes nothing: {{= ...}}"
        if name is None:
            yield from (f"{each} without a claim" for each in _OF_A_CLAIM if each in self.given)
            return
        if not _CLAIM_ID.fullmatch(name):
            yield f'claim="{name}": expected words of a-z and 0-9, joined by -'
        if not title:
            yield "a claim without its statement: expected title"
        if not _ASSERT.search(self.code):
            yield "a claim without an assertion"


def _with_blocks(printed: str) -> str:
    """What a block printed, in which each block of a library stands with what that printed."""
    lines = printed.split("\n")
    for fence in reversed([*parse("printed", printed).fences()]):
        if isinstance(fence, Python) and fence.library:
            lines[fence.line - 1 : fence.end - 1] = on_library.show(fence).split("\n")
    return "\n".join(lines)
