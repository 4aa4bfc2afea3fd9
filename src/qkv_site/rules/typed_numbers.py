"""Numbers in sentences are computed by the page, each by one block."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

from qkv_site.page import Page
from qkv_site.parts.python import Python
from qkv_site.run import NUMBER

NAME = "number"
# Numbers of these forms follow from others: a shape, a count, a product, a ratio.
TYPED = re.compile(
    r"\d+ × \d+|\(\d+(?:, \d+)+\)|(?<!\d)\d{1,3}(?:,\d{3})+|[·/+] \d+\)? = \d+"
    r"|\d+(?:\.\d+)? times\b|\d+ ?%"
)
# Not sentences: headings, what an exercise or a link asks, code, mathematics.
_ASKED = re.compile(
    r"^#.*?$|^\?\?\? .*?$|`[^`\n]*`|!?\[[^\]]*\]\([^)]*\)|\{\{.*?\}\}", re.DOTALL | re.MULTILINE
)
# Markdown takes a whole number and a full stop at the start of a line for an item of a list.
_ITEM = re.compile(r"^ *(\{\{=(?:(?!\}\}).)+\}\})\. ", re.MULTILINE)
# Typed as their source gives them, which the sentence names.
GIVEN = {
    "explanation/square-or-rectangular.md": ["(512, 8, 64)", "(8, 64, 512)"],
    "explanation/values-and-output.md": ["768 × 768"],
    "threads/why-both-matrices.md": ["768 × 768"],
}
_QUOTES = "corrections.md"  # what was wrong


def faults(page: Page) -> Iterator[tuple[int, str]]:
    """Numbers that are typed, and numbers of which nobody could say which block they are from."""
    prose = page.prose()
    for line, number in typed(prose) if page.name != _QUOTES else ():
        if number not in GIVEN.get(page.name, ()):
            yield (
                page.start + line,
                f"{number!r} is typed, and follows from others: expected what the page computes, "
                "{{= 3 * P_Q.size }}, by names of its blocks. A number that a source gives stands "
                "in GIVEN of qkv_site/rules/typed_numbers.py",
            )
    for item in _ITEM.finditer(prose):
        yield (
            page.line_in(prose, item.start()),
            f"a line begins with '{item[1]}.', which may begin a list: expected a word before it",
        )
    times = Counter(name for part in page.fences() for name in _bound(part))
    for number in NUMBER.finditer(prose):
        for name in _names(number[1]):
            if times[name] > 1:
                yield (
                    page.line_in(prose, number.start()),
                    f"{number[0]} is computed after the last block, and {times[name]} blocks make "
                    f"{name!r}: expected a name that one of them makes",
                )


def typed(prose: str) -> Iterator[tuple[int, str]]:
    """The numbers that sentences type, and their lines, counted from 0."""
    text = _ASKED.sub(lambda found: re.sub(r"[^\n]", "\x00", found[0]), prose)
    for found in TYPED.finditer(text):
        yield text.count("\n", 0, found.start()), found[0]


def _bound(part: object) -> set[str]:
    """The names that a block makes for the blocks after it."""
    if not (isinstance(part, Python) and part.executed):
        return set()
    return {
        name.id
        for statement in _parsed(part.code)
        if not isinstance(statement, (ast.FunctionDef, ast.ClassDef))
        for name in ast.walk(statement)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }


def _parsed(code: str) -> list[ast.stmt]:
    try:
        return ast.parse(code).body
    except SyntaxError:  # reported where the block stands
        return []


def _names(expression: str) -> set[str]:
    return {
        each.id
        for node in _parsed(expression)
        for each in ast.walk(node)
        if isinstance(each, ast.Name)
    }
