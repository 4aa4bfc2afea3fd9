"""Formulas: lines of NumPy that hold together, shown in every source's notation."""

from typing import ClassVar

from qkv_site.page import Fence


class Formula(Fence):
    """Lines of the language `formula`."""

    languages = ("formula",)
    options: ClassVar = {"in": None}
    rule = "formula"
