"""What is said of a source's letters is true in the letters that a reader chooses.

A symbol of a sentence follows the reader's choice, and what a source says does not. So a sentence
that reports it ties its symbols, {{paper-3-2-2: d_k}} or {{site: d_k}}, and so does a row or a
column of a table that has a source's name. The same holds beside a library's name for a size,
because some texts have one letter for two of them, and for an index, because some texts have none.

What is typed follows nobody. The paper has no X, no bias and no weight without the head's index.
"""

import re
from collections.abc import Iterator

from qkv_site.page import Page
from qkv_site.rules import sides

NAME = "letters"
_REPORTS = re.compile(
    r"\b[Ss]ections? \d|\b[Tt]he (?:paper|report|book|post|video|notebook)\b(?!['’])"
    r"|(?<!We )\b(?:calls|chooses|prints|defines)\b"
)
_CALLS_THIS = re.compile(r"(?<!We )\b(?:calls?|names?) (?:this|it|them)\b|['’] name is\b")
_LIBRARY = re.compile(r"\b(?:PyTorch|Keras|Flax|Haiku|Transformers)\b.*`|`.*\b(?:PyTorch|Keras)\b")
_ONE_OF_TWO = re.compile(r"\b[dn]_[kqv]\b")  # sizes for which some text has one letter
_INDEX = re.compile(r"\bindex\b|\bi is the\b|\bhead \$?i\b|\$i\$|\bg\(i\)")
_A_SOURCE = re.compile(r"\b(?:the|of the|in the) (?:paper|book|report|(?:blog )?post)\b(?!['’])")
_PAPER = re.compile(r"\bthe paper\b(?!['’])|\bsections? 3\.2")
_NOT_THE_PAPERS = r"(?<![\w\\])(?:(?:X(?:_[QKV])?|W[_^]\{?[QKV]|[bP]_\{?[QKVO])(?!\w)|\\?beta|β)"
_THE_PAPERS_OWN = re.compile(rf"\b[Tt]he paper['’]s \$?({_NOT_THE_PAPERS})")
_CELLS = re.compile(r"(?<!\\)\|")


def faults(page: Page) -> Iterator[tuple[int, str]]:
    """Symbols that follow the reader where a source's are meant, and letters that it has not."""
    for line, sentence in sides.sentences(page):
        symbols, text = _untied(sentence), " ".join(sentence.split())
        sizes = [each for each in symbols if _ONE_OF_TWO.search(each)]
        if symbols and _REPORTS.search(text):
            yield _follows(line, symbols[0], text)
        elif sizes and _LIBRARY.search(text):
            yield _follows(line, sizes[0], text)
        if found := _THE_PAPERS_OWN.search(text):
            yield _not_the_papers(line, found[1], text)
    for line, unit in sides.units(page.prose()):
        symbols, text = _untied(unit), " ".join(unit.split())
        of_heads = [each for each in symbols if "[i]" in each]
        if symbols and _CALLS_THIS.search(text):
            yield _follows(page.start + line, symbols[0], text)
        elif of_heads and _INDEX.search(sides.typed(unit)):
            yield _follows(page.start + line, of_heads[0], text)
    for line, named, cell in _of_sources(page):
        if symbols := _untied(cell):
            yield _follows(line, symbols[0], f"{named}: {cell}")
        if _PAPER.search(named) and (found := re.search(_NOT_THE_PAPERS, sides.typed(cell))):
            yield _not_the_papers(line, found[0], f"{named}: {cell}")


def _untied(text: str) -> list[str]:
    """The symbols of a text that follow the reader's choice; words of side do so rightly."""
    fixed = ('"', "shape(")
    return [
        what for source, what in sides.symbols(text) if not source and not what.startswith(fixed)
    ]


def _of_sources(page: Page) -> Iterator[tuple[int, str, str]]:
    """The cells of rows and columns that have a source's name, with that name."""
    head: list[str] = []
    for line, text in enumerate(page.prose().split("\n"), start=page.start):
        if not text.lstrip().startswith("|"):
            head = []
            continue
        cells = [cell.strip() for cell in _CELLS.split(text)[1:-1]]
        head = head or cells
        for name, cell in zip(head, cells, strict=False):
            for named in dict.fromkeys((name, cells[0])):
                if cell != named and (_A_SOURCE.search(named) or _PAPER.search(named)):
                    yield line, named, cell


def _follows(line: int, symbol: str, text: str) -> tuple[int, str]:
    return (
        line,
        f"{{{{{symbol}}}}} follows the reader's choice, and what a source says does not: expected "
        f"{{{{paper-3-2-2: {symbol}}}}}, if these are its letters, or {{{{site: {symbol}}}}}, in: "
        f"{text}",
    )


def _not_the_papers(line: int, letter: str, text: str) -> tuple[int, str]:
    return (
        line,
        f"the paper has no {letter}: expected a letter of section 3.2.1 or 3.2.2, such as W_i^Q, "
        f'"no letter", or words such as "with words as rows, in our letters", in: {text}',
    )
