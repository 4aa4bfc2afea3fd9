"""The mathematical font: STIX Two Math, out of an installed package, cut to the glyphs in use."""

import hashlib
import html
import logging
import re
from importlib.metadata import distribution
from pathlib import Path

from fontTools import subset

_PACKAGE, _FILE = "ziamath", "ziamath/fonts/STIXTwoMath-Regular.ttf"
_FEATURES = ["ccmp", "dtls", "flac", "kern", "liga", "locl", "mark", "mkmk", "onum", "ssty"]

# Headings are set in the same face; the radical sign is drawn although it is in no text.
_ALWAYS = {*range(0x20, 0x7F), *map(ord, "\u2018\u2019\u201c\u201d\u2013\u2014\u2026\u221a\u00d7")}
_MATH = re.compile(r"<math.*?</math>", re.DOTALL)
_SINGLE = re.compile(r"<mi\b[^>]*>(.)</mi>")
_TAG = re.compile(r"<[^>]+>")


def characters(page: str) -> set[int]:
    """Code points that the formulas of a page's HTML are drawn with.

    A browser draws a letter that stands alone in an `<mi>` as mathematical italic. Other notations
    wait in attributes, escaped.
    """
    formulas = "".join(_MATH.findall(html.unescape(page)))
    text = html.unescape(_TAG.sub("", formulas))
    return set(map(ord, text)) | {_italic(letter) for letter in _SINGLE.findall(formulas)}


def _italic(letter: str) -> int:
    for first, last, italic in (
        ("a", "z", 0x1D44E),
        ("A", "Z", 0x1D434),
        ("\u03b1", "\u03c9", 0x1D6FC),
        ("\u0391", "\u03a9", 0x1D6E2),
    ):
        if first <= letter <= last:
            return 0x210E if letter == "h" else italic + ord(letter) - ord(first)
    return ord(letter)


def cut(code_points: set[int], cache: Path) -> bytes:
    """Cut the font to these code points, as WOFF2; `cache` is a folder that keeps the result."""
    wanted = sorted(code_points | _ALWAYS)
    source = Path(distribution(_PACKAGE).locate_file(_FILE))
    digest = hashlib.sha256(f"{wanted} {_FEATURES} {source.stat().st_size}".encode()).hexdigest()
    kept = cache / f"math-{digest[:16]}.woff2"
    if not kept.exists():
        cache.mkdir(exist_ok=True)
        logging.getLogger("fontTools").setLevel(logging.ERROR)
        options = subset.Options(
            flavor="woff2", layout_features=_FEATURES, hinting=False, notdef_outline=True
        )
        font = subset.load_font(str(source), options)
        subsetter = subset.Subsetter(options)
        subsetter.populate(unicodes=wanted)
        subsetter.subset(font)
        subset.save_font(font, str(kept), options)
    return kept.read_bytes()
