"""Sentences are short enough for readers whose first language is another one."""

import re
from collections.abc import Iterator

from qkv_site.page import Page
from qkv_site.rules import sides

NAME = "sentence"
MOST, MEAN, FEWEST = 35, 17, 11
_NO_SENTENCE = ("#", "|", "???", "!!!", "///", "<")
_ONE_WORD = re.compile(r"\{\{.*?\}\}|`[^`]+`|\$[^$]+\$", re.DOTALL)
_WORD = re.compile(r"\w[^\s]*")
_ADDRESS = re.compile(r"\]\([^)]*\)")


def faults(page: Page) -> Iterator[tuple[int, str]]:
    """Long sentences of an explanation, of the first pages; and an explanation of a few."""
    if not page.name.startswith(("explanation/", "start/")) and page.name != "index.md":
        return
    counted = [*lengths(page)]
    for line, words in counted:
        if words > MOST:
            yield (
                line,
                f"a sentence of {words} words, a formula counted as one: expected at most {MOST}. "
                "Two sentences say it, the second of them with a verb of its own",
            )
    if len(counted) < FEWEST and page.name != "index.md":
        yield 0, f"{len(counted)} sentences explain nothing: expected {FEWEST} or more"
    elif counted and (mean := sum(words for _, words in counted) / len(counted)) > MEAN:
        yield (
            0,
            f"a sentence has {mean:.1f} words on average: expected at most {MEAN}, for readers "
            "whose first language is another one",
        )


def lengths(page: Page) -> Iterator[tuple[int, int]]:
    """The line of each sentence, and how many words it has."""
    for line, sentence in sides.sentences(page):
        if sentence.startswith(_NO_SENTENCE) or set(sentence) <= set("|- :"):
            continue
        if counted := words(sentence):
            yield line, counted


def plain(text: str) -> str:
    """A text as it is read: a formula, a name of code or a number is one word."""
    return _ADDRESS.sub("]", _ONE_WORD.sub("x", text))


def words(text: str) -> int:
    """How many words a text has."""
    return len(_WORD.findall(plain(text)))
