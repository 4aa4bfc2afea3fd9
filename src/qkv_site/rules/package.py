"""What a page says of the package to install is true of this build."""

from collections.abc import Iterator

from qkv_site.page import Fault, Page
from qkv_site.tables import wheel


def faults(page: Page) -> Iterator[Fault]:
    """A wheel that this build has not, or blocks that run another package."""
    runs = any("source" in fence.given for fence in page.fences())
    for line, message in wheel.faults(page.text, runs):
        yield Fault(line, "package", message)
