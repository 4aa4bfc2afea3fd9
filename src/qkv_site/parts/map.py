"""The map of the layer."""

from typing import ClassVar

from qkv_site.page import Fence


class Map(Fence):
    """A fence of the language `map`, without lines."""

    languages = ("map",)
    options: ClassVar = {"state": None, "lit": None}
    rule = "map"
