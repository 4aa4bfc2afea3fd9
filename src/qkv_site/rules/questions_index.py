"""The index of questions: each of its lines is one question, and leads to its answer."""

import re
from collections.abc import Iterator

from qkv_site.page import Fault, Page
from qkv_site.parts import questions

_LINE = re.compile(r"^- .*", re.MULTILINE)


def faults(page: Page) -> Iterator[Fault]:
    """Lines that are no question with an answer, and questions that stand there twice."""
    if page.name != questions.INDEX:
        return
    entries = {entry.start(): entry for entry in questions.ENTRY.finditer(page.body)}
    first: dict[str, int] = {}
    for found in _LINE.finditer(page.body):
        line = page.start + page.body.count("\n", 0, found.start())
        if found.start() not in entries:
            yield Fault(
                line, "question", f"{found[0]!r}: expected - [Question?](page.md#id) Answer."
            )
            continue
        asked = " ".join(entries[found.start()]["question"].split())
        if asked in first:
            yield Fault(line, "question", f"{asked!r} stands in line {first[asked]}, too")
        first.setdefault(asked, line)
