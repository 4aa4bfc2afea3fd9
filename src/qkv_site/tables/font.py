"""The faces of the site: STIX Two, out of an installed package, cut to the glyphs in use.

The mathematical alphabets of that one file, bold and italic, are the letters of the text's bold and
italic; the italic ones are spaced for formulas, and are spaced anew. Other signs are the upright
ones: taken from the formulas' face, they would move the text when it comes. The text's faces stand
in the style itself, so that no line is broken anew when a file comes; the formulas' face is a file.
"""

import base64
import hashlib
import html
import logging
import os
import re
from importlib.metadata import distribution
from pathlib import Path

from fontTools import subset, ttLib

_PACKAGE, _FILE = "ziamath", "ziamath/fonts/STIXTwoMath-Regular.ttf"
_FEATURES = ["ccmp", "dtls", "flac", "kern", "liga", "locl", "mark", "mkmk", "onum", "ssty"]

_PUNCTUATION = set(map(ord, " \u00a0\u2018\u2019\u201c\u201d\u2013\u2014\u2026\u00b7\u221a\u00d7"))
_ASCII = {*range(0x20, 0x7F)}
_MATH = re.compile(r"<math.*?</math>", re.DOTALL)
_SINGLE = re.compile(r"<mi\b[^>]*>(.)</mi>")
_TAG = re.compile(r"<[^>]+>")
_ALPHABETS = {"italic": (0x1D434, 0x1D44E, None), "bold": (0x1D400, 0x1D41A, 0x1D7CE)}
_TEXT = ("regular", *_ALPHABETS)
_SELDOM = set(map(ord, "#$%&*+<=>@[]^_{|}~;\\`"))  # not in the bold and italic faces: bytes

# Italic letters in words: how far each is moved, and its width.
_IN_WORDS = {
    "a": (-18, 534), "b": (-10, 495), "c": (4, 411), "d": (-4, 541), "e": (2, 416),
    "f": (-130, 296), "g": (-24, 453), "h": (-18, 549), "j": (-142, 274), "k": (-12, 504),
    "n": (0, 566), "p": (-70, 525), "r": (0, 385), "s": (-18, 370), "t": (-4, 304),
    "v": (-50, 434), "w": (-51, 690), "x": (-58, 457), "y": (-56, 450), "z": (-34, 432),
}  # fmt: skip


def characters(page: str) -> set[int]:
    """Code points that the formulas of a page's HTML are drawn with.

    A browser draws a letter that stands alone in an `<mi>` as mathematical italic. Other notations
    wait in attributes, escaped.
    """
    formulas = "".join(_MATH.findall(html.unescape(page)))
    text = html.unescape(_TAG.sub("", formulas))
    return set(map(ord, text)) | set(map(italic, _SINGLE.findall(formulas)))


def italic(letter: str) -> int:
    """The code point of a letter as mathematics slants it; of what is not slanted, its own."""
    for first, last, slanted in (
        ("a", "z", 0x1D44E),
        ("A", "Z", 0x1D434),
        ("\u03b1", "\u03c9", 0x1D6FC),
        ("\u0391", "\u03a9", 0x1D6E2),
    ):
        if first <= letter <= last:
            return 0x210E if letter == "h" else slanted + ord(letter) - ord(first)
    return ord(letter)


def source() -> Path:
    """The file that the faces are cut out of."""
    return Path(distribution(_PACKAGE).locate_file(_FILE))


def formulas(code_points: set[int], cache: Path) -> bytes:
    """The face of the formulas, and of what text has beside letters; `cache` is a folder."""
    return _kept("math", code_points | _ASCII, cache)


def put_into(style: str, cache: Path) -> str:
    """A style in which the text's faces stand themselves, in place of their addresses."""
    for name in _TEXT:
        wanted = (_ASCII | _PUNCTUATION) - _SELDOM if name in _ALPHABETS else _ASCII | _PUNCTUATION
        face = base64.b64encode(_kept(name, wanted, cache)).decode()
        style = style.replace(f"fonts/{name}.woff2", f"data:font/woff2;base64,{face}")
    return style


def _kept(name, code_points, cache):
    wanted = sorted(code_points)
    seen = f"{wanted} {Path(__file__).read_text()} {source().stat().st_size}"
    kept = cache / f"{name}-{hashlib.sha256(seen.encode()).hexdigest()[:16]}.woff2"
    if not kept.exists():
        cache.mkdir(exist_ok=True)
        unfinished = kept.with_suffix(f".{os.getpid()}")
        _cut(name, wanted, unfinished)
        unfinished.replace(kept)
    return kept.read_bytes()


def _cut(name, wanted, target):
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    options = subset.Options(flavor="woff2", hinting=False, notdef_outline=True)
    options.name_IDs = [0, 1, 2, 13, 14]  # the licence stays
    options.layout_features = _FEATURES if name == "math" else ["kern"]
    font = subset.load_font(str(source()), options)
    if name == "math":
        _leave_small_primes(font)
    else:
        del font["MATH"]
    if name in _ALPHABETS:
        _take_alphabet(font, name)
    if name == "italic":
        _space_as_words(font)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=wanted)
    subsetter.subset(font)
    subset.save_font(font, str(target), options)


def _leave_small_primes(font):
    """Of the letters made for indices, which are half of the file, keep the prime."""
    table, prime = font["GSUB"].table, font.getBestCmap()[ord("\u2032")]
    for feature in table.FeatureList.FeatureRecord:
        if feature.FeatureTag == "ssty":
            for index in feature.Feature.LookupListIndex:
                for part in table.LookupList.Lookup[index].SubTable:
                    made = getattr(part, "ExtSubTable", part).alternates
                    for glyph in made.keys() - {prime}:
                        del made[glyph]


def _take_alphabet(font: ttLib.TTFont, name: str) -> None:
    """Let the letters, and bold digits, be those of a mathematical alphabet."""
    capitals, letters, digits = _ALPHABETS[name]
    glyphs = font.getBestCmap()
    taken = {ord("A") + i: glyphs[capitals + i] for i in range(26)}
    taken |= {ord("a") + i: glyphs.get(letters + i, glyphs[0x210E]) for i in range(26)}
    if digits:
        taken |= {ord("0") + i: glyphs[digits + i] for i in range(10)}
    for table in font["cmap"].tables:
        table.cmap.update({at: glyph for at, glyph in taken.items() if at in table.cmap})


def _space_as_words(font):
    glyphs = font.getBestCmap()
    for letter, (moved, width) in _IN_WORDS.items():
        name = glyphs[ord(letter)]
        glyph = font["glyf"][name]
        glyph.coordinates.translate((moved, 0))
        glyph.recalcBounds(font["glyf"])
        font["hmtx"][name] = (width, glyph.xMin)
