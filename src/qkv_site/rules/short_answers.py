"""A short answer is short, so that whoever asks reads all of it."""

import re
from collections.abc import Iterator

from qkv_site.page import Page
from qkv_site.rules.short_sentences import plain, words

NAME = "short answer"
SENTENCES, WORDS = 3, 60
ANSWER = re.compile(r"^\*\*Short answer\.\*\*(?P<said>.*?)(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)
_END = re.compile(r"[.!?](?=\W*(?:\s|$))")


def faults(page: Page) -> Iterator[tuple[int, str]]:
    """A short answer of more sentences, or of more words, than are read at once."""
    if not (answer := ANSWER.search(page.body)):
        return
    sentences, length = len(_END.findall(plain(answer["said"]))), words(answer["said"])
    if sentences > SENTENCES or length > WORDS:
        yield (
            page.line_in(page.body, answer.start()),
            f"{sentences} sentences and {length} words, a formula counted as one: expected at most "
            f"{SENTENCES} and {WORDS}, for everybody who asks. Exceptions stand below",
        )
