"""Blocks that are shown as they are: what is typed into a terminal, and text."""

from typing import ClassVar

from qkv_site.page import Fence


class Plain(Fence):
    """A block that nothing runs."""

    languages = ("console", "text", "toml")
    options: ClassVar = {"title": None}
