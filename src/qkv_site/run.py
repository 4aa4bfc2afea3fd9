"""The blocks of a page are run once, in order and in one namespace.

markdown-exec executes them. What a block printed is kept on its part of the page, and what stands
in its place, its source and what it printed, is Markdown like the rest of the page, so that its
links and headings are the page's own.

In a sentence, `{{= 3 * P_Q.size }}` is what the page's own names give after its last block, and
`{{= said("smaller", pair.size, one.size) }}` a word that stands there only if it is true.
"""

import operator
import re
from collections.abc import Mapping
from numbers import Integral
from uuid import uuid4

import markdown_exec
from markdown import Markdown
from markdown_exec._internal.formatters import python as markdown_exec_python

from qkv_site.figures import Figure, Printed, collected
from qkv_site.page import Page
from qkv_site.parts.python import Python

_END = "\x04"  # printed after all else by a block that runs to its end
_BETWEEN = "\x1f"  # printed between two numbers
COMPARED = {
    **dict.fromkeys(("smaller", "narrower", "fewer"), operator.lt),
    **dict.fromkeys(("larger", "wider", "higher"), operator.gt),
    "at most": operator.le,
    "half as many": lambda one, other: 2 * one == other,
    "twice as many": lambda one, other: one == 2 * other,
}
NUMBER = re.compile(r"\{\{=\s*(.+?)\s*\}\}")


def say(value: object) -> str:
    """A number or a shape as a sentence has it; a text as it is.

    Raises:
        TypeError: If it is neither a whole number, nor a shape, nor a text: how many digits a
            sentence gives is for the sentence to say.

    Examples:
        >>> say(786432), say((1536, 512)), say(f"{2 / 3:.0%}")
        ('786,432', '1536 × 512', '67%')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return " × ".join(f"{n:,}" if n >= 10_000 else str(n) for n in value)
    if isinstance(value, Integral) and not isinstance(value, bool):
        return f"{value:,}"
    raise TypeError(
        f"a number in a sentence is whole, or a text such as f'{{x:.2f}}', but this is {value!r}"
    )


def said(word: str, *about: object) -> str:
    """A word of a sentence, if it is true.

    Args:
        word: A comparison of `COMPARED`; or any word, whose truth a block has found.
        *about: The two numbers that are compared; or for each word that could stand there, whether
            it is true.

    Raises:
        ValueError: If it is not true.

    Examples:
        >>> said("smaller", 2 * 64, 512), said("query", {"query": True, "key": False})
        ('smaller', 'query')
    """
    match about:
        case (Mapping() as facts,):
            right = [each for each, is_true in facts.items() if is_true]
        case (one, other):
            right = [each for each, holds in COMPARED.items() if holds(one, other)]
        case _:
            raise TypeError(f"{word!r} is said about two numbers, or about facts, not {about!r}")
    if word not in right:
        raise ValueError(f"the sentence says {word!r}: expected one of {right}, of {about}")
    return word


def run(page: Page, md: Markdown) -> None:
    """Run the blocks of a page, and note what each of them printed, and the numbers in sentences.

    Args:
        page: The page, of which this is the only run.
        md: What turns the traceback of a block that fails into HTML.
    """
    blocks = blocks_of(page)
    numbers = list(dict.fromkeys(NUMBER.findall(page.prose())))
    if numbers:
        blocks.append(_in_sentences(numbers))
    session = f"{page.name} {uuid4()}"
    try:
        with collected() as figures:
            for block in blocks:
                _execute(page, block, session, md, figures)
            if numbers and blocks[-1].printed is None:
                for number in numbers:  # each alone, to say in which line the wrong one stands
                    _execute(page, alone := _in_sentences([number]), session, md, figures)
                    if alone.printed is None:
                        page.report("sentence", f"{number} fails", line=page.line_of(number))
    finally:
        # markdown-exec keeps the names of each session, arrays and all, as long as the process
        # lives: a gigabyte for this site. It has no public way to end a session; once it has
        # one, that takes this line's place.
        markdown_exec_python._sessions_globals.pop(session, None)
    if numbers and (printed := blocks[-1].printed) is not None:
        page.numbers = dict(zip(numbers, printed.text.split(_BETWEEN), strict=True))


def _in_sentences(numbers: list[str]) -> Python:
    """A block that prints the numbers in sentences, which runs after all others."""
    says = ", ".join(f"say({number})" for number in numbers)
    joined = f"{_BETWEEN!r}.join([{says}])"  # markdown-exec's print knows no sep
    code = f"from qkv_site.run import said, say\nprint({joined}, end='')\n"
    return Python(0, 0, code=code)


def _execute(page: Page, block: Python, session: str, md: Markdown, figures: list[Figure]) -> None:
    place = f"{page.name}:{block.line}" if block.line else page.name
    options = {"id": place, "html": True, "session": session, "extra": {}}
    code = f"{block.code}print(end={_END!r})"
    try:
        said = str(markdown_exec.formatter(code, "python", "", options, md))
    except SystemExit as stop:  # would end the whole build, as a success if its code is 0
        page.report("python", f"the block called sys.exit({stop.code!r})", line=block.line)
        said = ""
    if said.endswith(_END):
        block.printed = Printed(said.removesuffix(_END), figures)
    else:  # markdown-exec has reported it
        block.traceback = said


def blocks_of(page: Page) -> list[Python]:
    """The blocks that a page runs, in order."""
    return [part for part in page.fences() if isinstance(part, Python) and part.executed]


def printed(page: Page) -> list[Printed]:
    """What each block of a page printed; nothing if it did not run to its end."""
    return [block.printed or Printed("") for block in blocks_of(page)]


def fill_in(page: Page, text: str) -> str:
    """Put the numbers of a page, which has run, into its text."""
    return NUMBER.sub(lambda found: page.numbers.get(found[1], found[0]), text)
