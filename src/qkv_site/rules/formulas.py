"""A formula in a sentence holds, and two symbols that stand together differ in each notation."""

import re
from collections.abc import Iterator
from contextlib import suppress

from qkv_site.page import Page
from qkv_site.parts import formulas
from qkv_site.rules import sides

NAME = "formula"
_FORMULA = re.compile(formulas.INLINE)
_CODE = re.compile(r"(?P<ticks>`+).*?[^`](?P=ticks)(?!`)")


def faults(page: Page) -> Iterator[tuple[int, str]]:
    """Formulas that do not hold, or that some source cannot tell from their neighbours."""
    for line, text in _units(page):
        plain = _CODE.sub(lambda code: " " * len(code[0]), text)
        found = [each for each in _FORMULA.finditer(plain) if not each[2].startswith("=")]
        for number, formula in enumerate(found):
            at = line + plain.count("\n", 0, formula.start())
            source, content = formula[1] or "", formula[2]
            try:
                formulas.check(content, source)
            except (SyntaxError, ValueError) as error:
                yield at, f"formula `{content}`: {error}"
                continue
            if not source:
                others = {other[2] for other in found[number + 1 :] if not other[1]}
                with suppress(SyntaxError, ValueError):  # of another one, which is reported there
                    for message in formulas.not_told_apart(content, others):
                        yield at, message


def _units(page: Page) -> Iterator[tuple[int, str]]:
    """The paragraphs, items and cells of a page, and its statements, with their lines."""
    yield from ((page.start + line, text) for line, text in sides.units(page.prose()))
    for fence in page.fences():
        yield fence.line, fence.given.get("title", "")
