"""What people type to get to a heading: lines below it that the search alone reads.

They lead to the heading above them, to the page itself below its title, or to what has the id of
the option `id`, where a block or a docstring writes the heading.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar

from qkv_site.page import Fault, Fence, Heading, Page

if TYPE_CHECKING:
    from qkv_site.write.markdown import Writer

_LENGTH = 90


class Asked(Fence):
    """Lines of the language `asked`, a few words each."""

    languages = ("asked",)
    options: ClassVar = {"id": None}
    rule = "asked"

    @property
    def lines(self) -> list[str]:
        """What is typed."""
        return [line.strip() for line in self.code.splitlines() if line.strip()]

    def faults(self, page: Page) -> Iterator[Fault]:
        """That it has no line or leads nowhere, or that a line is too long or not the first."""
        yield from super().faults(page)
        if not self.lines:
            yield self.fault("no line: expected what people type, a line each")
        said: set[str] = set()
        for fence, anchor in leading(page):
            if fence is not self:
                said |= {*fence.lines}
                continue
            if anchor is None:
                yield self.fault(
                    "the heading above has no id: give it one, as in { #id }, or name the place "
                    'that this leads to, as in id="id"'
                )
            yield from self._faults_of_lines(said)
            return

    def _faults_of_lines(self, before: set[str]) -> Iterator[Fault]:
        for number, code in enumerate(self.code.splitlines(), start=1):
            line = code.strip()
            if len(line) >= _LENGTH:
                yield self.fault(
                    f"{line!r} has {len(line)} signs: expected fewer than {_LENGTH}", below=number
                )
            if line in before:
                yield self.fault(f"{line!r} stands on this page twice", below=number)
            before |= {line} - {""}

    def as_text(self, writer: "Writer") -> str:
        """Nothing: they are no words of the page."""
        return ""

    def markdown(self, page: Page, stash: Callable[[str], str]) -> str:
        """Nothing: no reader sees them."""
        return ""


def leading(page: Page) -> Iterator[tuple[Asked, str | None]]:
    """The fences of this kind, and the id that each leads to.

    It is empty for the page itself, and None below a heading without an id.
    """
    above: str | None = ""
    for part in page.walk():
        if isinstance(part, Heading):
            above = "" if part.level == 1 else part.id or None
        elif isinstance(part, Asked):
            yield part, part.given.get("id", above)
