"""What a block prints that is no text: pictures, and tables of numbers or of signs.

`print(figure)` in a block prints a mark, and the page keeps the figure itself. So each output
writes it in its own way, and none reads what another one has written.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

# The figures that blocks have printed so far; None where no page collects them.
_PRINTED: ContextVar[list["Figure"] | None] = ContextVar("printed", default=None)
_MARK = re.compile("\x0e(\\d+)\x0f")  # control characters, which no page has in its text

Letters = Callable[[str], str]


class Figure(ABC):
    """A picture or a table, which a block prints."""

    @abstractmethod
    def html(self) -> str:
        """What a page shows."""

    def words(self) -> str:
        """What it shows, as a screen reader says it, where its tables do not say that."""
        return ""

    def markdown(self, letters: Letters) -> str:
        """Its numbers or signs as tables; `letters` writes LaTeX as the reader of them needs it."""
        return ""

    def searched(self) -> str:
        """What of it the search reads, as Markdown."""
        return ""

    def __str__(self) -> str:
        """A mark in what a block prints, or HTML where nothing collects figures."""
        printed = _PRINTED.get()
        if printed is None:
            return self.html()
        printed.append(self)
        return f"\x0e{len(printed) - 1}\x0f"


@dataclass(frozen=True)
class Tool(Figure):
    """What a reader works with on the page: its scripts, and a copy has nothing of it.

    Attributes:
        drawn: What writes its HTML.
    """

    drawn: Callable[[], str]

    def html(self) -> str:
        """What its script begins with."""
        return self.drawn()


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        caption: What it is.
        rows: Its rows; the first one is its head.
    """

    caption: str
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """The table below its caption, with an empty line around it."""
        head, *body = (f"| {' | '.join(map(_cell, row))} |" for row in self.rows)
        rule = "|" + " --- |" * len(self.rows[0])
        caption = f"{self.caption}\n\n" if self.caption else ""
        return f"\n{caption}" + "\n".join([head, rule, *body]) + "\n\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


@dataclass(frozen=True)
class Printed:
    """What a block printed.

    Attributes:
        text: Text, with a mark in the place of each figure.
        figures: The figures of the page.
    """

    text: str
    figures: Sequence[Figure] = ()

    def __bool__(self) -> bool:
        return bool(self.text.strip())

    def written(self, write: Callable[[Figure], str]) -> str:
        """The text, with what `write` makes of each figure."""
        return _MARK.sub(lambda mark: write(self.figures[int(mark[1])]), self.text)

    def html(self) -> str:
        """The text with what a page shows of each figure."""
        return self.written(lambda figure: figure.html())


@contextmanager
def collected() -> Iterator[list[Figure]]:
    """Collect the figures that are printed meanwhile."""
    found: list[Figure] = []
    token = _PRINTED.set(found)
    try:
        yield found
    finally:
        _PRINTED.reset(token)
