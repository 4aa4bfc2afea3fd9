"""What a page says of the package to install, and what its blocks run, is this build's."""

import re
from collections.abc import Iterator
from pathlib import Path

import qkv
from qkv_site.page import Page
from qkv_site.tables import wheel

NAME = "package"
_PACKAGE = Path(__file__).parents[2] / "qkv"
_WHEEL = re.compile(r"which_q-[\w.+%]+-py3-none-any\.whl")


def faults(page: Page) -> Iterator[tuple[int, str]]:
    """A wheel that this build has not, or blocks that run another package."""
    runs = any("source" in fence.given for fence in page.fences())
    if runs and Path(qkv.__file__).resolve().parent != _PACKAGE.resolve():
        yield 1, f"its blocks run {qkv.__file__}, which is another package than {_PACKAGE}"
    for found in _WHEEL.finditer(page.text):
        if found[0] != wheel.name():
            line = page.text.count("\n", 0, found.start()) + 1
            yield line, f"this build has no wheel {found[0]}, its wheel is {wheel.name()}"
