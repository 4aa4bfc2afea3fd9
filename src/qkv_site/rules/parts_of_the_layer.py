"""The small map beside a page: `map: W_Q[i] Q[i]` in its front matter names parts of the layer."""

from collections.abc import Iterator

from qkv_site.page import Page
from qkv_site.parts import map as layer_map

NAME = "map"


def faults(page: Page) -> Iterator[tuple[int, str]]:
    """Parts that the map does not have."""
    for message in layer_map.unknown(page.meta.get("map", "")):
        yield page.line_of("\nmap:") + 1, message
