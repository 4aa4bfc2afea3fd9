"""Which site and which page are being rendered, so that a warning can name the page."""

import logging
from pathlib import Path

# A warning on a logger below this name makes `mkdocs build --strict` fail.
_log = logging.getLogger("mkdocs.plugins.qkv_site")

docs = Path(__file__).parents[3] / "docs"
address = ""  # of the published site, if it has one
repository = ""  # its address, if it is known
page = "a page"
others: dict[Path, str] = {}
text = ""
variants: dict[str, int] = {}  # of each formula, as every source writes it: its number
tied: set[str] = set()  # the sources in whose letters some formula stays
panel: dict = {}  # what the page's panel computes with, if it has one


def begin(name: str, its_text: str) -> None:
    """Note which page is being rendered, and the text of its file."""
    global page, others, text, variants, tied, panel
    page, others, text, variants, tied, panel = name, {}, its_text, {}, set(), {}


def add_variants(html: str) -> int:
    """Keep a formula in every source's letters; its number among those of the page."""
    return variants.setdefault(html, len(variants))


def read(path: Path) -> str:
    """Read another file that the page is made of, so that it is known to be."""
    others[path] = path.read_text()
    return others[path]


def line_of(part: str) -> int | None:
    """The line of the file, counted from 1, where a part of it first stands."""
    found = text.find(part)
    return None if found < 0 else text.count("\n", 0, found) + 1


def warn(message: str, *, line: int | None = None) -> None:
    """Report a fault of the current page; a strict build fails on it."""
    _log.warning("%s%s: %s", page, f":{line}" if line else "", message)
