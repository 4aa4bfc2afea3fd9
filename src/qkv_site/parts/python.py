"""Blocks of Python: those that a page runs, and those that a test runs on a library."""

from dataclasses import dataclass
from typing import ClassVar

from qkv_site.page import Fence

_ON, _ABOVE, _TEXT = frozenset({"on"}), frozenset({"above"}), frozenset({"text"})


@dataclass
class Python(Fence):
    """A block of Python.

    Attributes:
        printed: What it printed; None if it has not run to its end.
    """

    languages = ("python",)
    options: ClassVar = {
        "exec": _ON,
        "source": _ABOVE,
        "result": _TEXT,
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

    printed: str | None = None

    @property
    def executed(self) -> bool:
        """Whether markdown-exec runs this block."""
        return self.given.get("exec") == "on"

    @property
    def library(self) -> str:
        """The layout whose library runs this block, where it is installed; or empty."""
        return self.given.get("library", "")
