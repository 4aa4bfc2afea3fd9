"""Tabs: a check that is there in several frameworks has one for each, `=== "Keras"`.

Tabs of the same title are linked: who chooses one has chosen it on all pages.
"""

from collections.abc import Iterator

from qkv_site.page import Container, Fault, Page
from qkv_site.parts.python import Python

# What may stand above a tab, in this order, and the layout whose library runs its blocks.
TABS = {"NumPy": "", "PyTorch": "pytorch", "Keras": "keras", "Flax": "flax"}


class Tab(Container):
    """A tab. It shows what its title promises, and nothing else."""

    marks = ("===", "===+", "===!")

    @property
    def blocks(self) -> list[Python]:
        """Its blocks of Python."""
        return [part for part in self.walk() if isinstance(part, Python)]

    def faults(self, page: Page) -> Iterator[Fault]:
        """What its title does not allow."""
        if self.title not in TABS:
            expected = ", ".join(map(repr, TABS))
            yield Fault(self.line, "tab", f"a tab {self.title!r}: expected one of {expected}")
        elif not self.blocks:
            yield Fault(self.line, "tab", f"the tab {self.title!r} has no block that ran")
        elif strange := {block.library for block in self.blocks} - {TABS[self.title]}:
            ran = " and ".join(each or "this site's NumPy" for each in sorted(strange))
            yield Fault(self.line, "tab", f"the tab {self.title!r} has a block of {ran}")
