"""The index of questions: each of its lines is one question, and leads to its answer.

The answer in a few words says which answer it is; what it needs to be true stands where it leads.
"""

import re
from collections.abc import Iterator

from qkv_site.page import Page
from qkv_site.parts import questions
from qkv_site.rules import short_sentences

NAME = "question"
MOST = 12  # words of an answer, with its conditions on the page
_LINE = re.compile(r"^- .*", re.MULTILINE)


def faults(page: Page) -> Iterator[tuple[int, str]]:
    """Lines that are no question with a short answer, and questions that stand there twice."""
    if page.name != questions.INDEX:
        return
    entries = {entry.start(): entry for entry in questions.ENTRY.finditer(page.body)}
    first: dict[str, int] = {}
    for found in _LINE.finditer(page.body):
        line = page.line_in(page.body, found.start())
        if found.start() not in entries:
            yield line, f"{found[0]!r}: expected - [Question?](page.md#id) Answer."
            continue
        answer = entries[found.start()]["answer"]
        if "](" in answer or (words := len(short_sentences.plain(answer).split())) > MOST:
            said = "a second link" if "](" in answer else f"an answer of {words} words"
            yield line, f"{said}: expected one link, and {MOST} words at most"
        asked = " ".join(entries[found.start()]["question"].split())
        if asked in first:
            yield line, f"{asked!r} stands in line {first[asked]}, too"
        first.setdefault(asked, line)
