"""Patterns, by which a browser finds what Python finds: letters and digits are those of ASCII."""

import re
import unicodedata
from collections.abc import Callable


def search(pattern: str, text: str, lines: bool = False, case: bool = True) -> re.Match | None:
    """The first place; in `lines`, a pattern may begin and end with one of them."""
    flags = re.ASCII | (re.MULTILINE if lines else 0) | (0 if case else re.IGNORECASE)
    return re.search(pattern, text, flags)


def fullmatch(pattern: str, text: str) -> re.Match | None:
    """Whether a pattern is all of a text."""
    return re.fullmatch(pattern, text, re.ASCII)


def findall(pattern: str, text: str) -> list:
    """All places; of a pattern with groups these."""
    return re.findall(pattern, text, re.ASCII)


def sub(pattern: str, by: str | Callable, text: str) -> str:
    """A text in which all places are replaced."""
    return re.sub(pattern, by, text, flags=re.ASCII)


def cut(pattern: str, text: str) -> list[str]:
    """The pieces between the places."""
    return re.split(pattern, text, flags=re.ASCII)


def normalize(text: str) -> str:
    """One spelling for letters that Unicode has several times."""
    return unicodedata.normalize("NFKC", text)
