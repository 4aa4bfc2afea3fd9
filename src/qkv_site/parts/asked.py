"""What people type to get to a heading: lines below it that the search alone reads."""

from qkv_site.page import Fence


class Asked(Fence):
    """Lines of the language `asked`, a few words each."""

    languages = ("asked",)
    rule = "asked"

    @property
    def lines(self) -> list[str]:
        """What is typed."""
        return [line.strip() for line in self.code.splitlines() if line.strip()]

    def html(self) -> str:
        """Nothing: no reader sees them."""
        return ""
