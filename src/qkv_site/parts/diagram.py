"""Diagrams to scale: each matrix of a formula is a rectangle."""

from typing import ClassVar

from qkv_site.page import Fence


class Diagram(Fence):
    """Lines of the language `diagram`."""

    languages = ("diagram",)
    options: ClassVar = {
        "in": None,
        "sizes": None,
        "heads": frozenset({"apart"}),
        "kept": None,
        "words": frozenset({"numbered"}),
    }
    rule = "diagram"
