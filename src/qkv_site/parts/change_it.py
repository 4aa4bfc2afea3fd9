"""A panel in which a reader changes a layer."""

from qkv_site.page import Fence


class Panel(Fence):
    """Lines of the language `change-it`."""

    languages = ("change-it",)
    rule = "panel"
