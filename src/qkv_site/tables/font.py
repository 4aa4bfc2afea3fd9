"""STIX Two as it is installed, for what is drawn while the site is built."""

from importlib.metadata import distribution
from pathlib import Path

_PACKAGE, _FILE = "ziamath", "ziamath/fonts/STIXTwoMath-Regular.ttf"


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
