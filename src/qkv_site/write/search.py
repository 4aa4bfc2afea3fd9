"""What the search reads: each section of each page, in words and with formulas as they are typed.

A section is what a heading leads to. It is found by its heading, its text and its code, by the
title, the description and the tags of its page, by the questions that lead to it from the index of
questions, and by what people type to get there, in the fences `asked` of its page.
"""

import html
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from markdown.extensions.toc import slugify

from qkv import notation
from qkv_site.figures import Figure, Printed
from qkv_site.markdown import claims
from qkv_site.page import Fault, Fence, Heading, Page, parse
from qkv_site.parts import asked, formulas, questions
from qkv_site.parts.path import Path
from qkv_site.parts.python import Python
from qkv_site.write import reference
from qkv_site.write.markdown import Writer, words

ADDRESS = "assets/search.json"
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
_ID = re.compile(r"\{[^{}\n]*#([\w.-]+)")
_EXAMPLE = re.compile(r"^ *>>> .*\n?(?: *\S.*\n?)*", re.MULTILINE)
_BEGINS = re.compile(r"(?:[-*:]|\d+\.) +")  # an item of a list, or a definition
_RULE = re.compile(r"[|:\- ]+")  # between the head of a table and its rows
_PIPE = re.compile(r"(?<!\\)\|")


@dataclass
class Section:
    """A heading of a page, and what stands below it, up to the next heading.

    Attributes:
        id: The heading's id; empty for the page's title.
        title: Its words.
        text: The paragraphs, items and rows below it, a line for each.
        code: The names in its blocks of code.
        asked: The lines that lead to it, a question or a few words each.
        ids: All that a link to this section may name.
    """

    id: str = ""
    title: str = ""
    text: list[str] = field(default_factory=list)
    code: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)


def sections(page: Page, addresses: Mapping[str, str]) -> list[Section]:
    """The sections of a page that has run.

    Args:
        page: The page.
        addresses: Of each file of the site, its address there.
    """
    writer = _Writer(page, addresses)
    for piece in writer.pieces(page.parts):
        writer.sections[-1].text += _lines(piece)
    return writer.sections


class _Writer(Writer):
    """Writes the words of a page, without what only says how they look."""

    def __init__(self, page: Page, addresses: Mapping[str, str]):
        super().__init__(page, addresses)
        self.sections = [Section()]

    def title(self, heading: Heading) -> Iterator[str]:
        """Begin a section, but for the title of the page."""
        title = self.plain(heading.title)
        if heading.level > 1:
            self.sections.append(Section(heading.id or slugify(title, "-")))
        self.sections[-1].title = " ".join(html.unescape(title).split())
        self.sections[-1].ids.add(self.sections[-1].id)
        yield ""

    def documented(self, named: reference.Documented) -> Iterator[str]:
        """A section for each name, and for each of its methods."""
        if not named.is_module:
            yield from self.title(Heading(0, 0, level=2, title=named.title, id=named.name))
        said, examples = _EXAMPLE.sub("", named.docstring), _EXAMPLE.findall(named.docstring)
        self._note("\n".join([named.signature, named.source, *examples]))
        yield self.plain(said)
        for method in named.methods:
            yield from self.documented(method)

    def executed(self, block: Python, printed: Printed) -> Iterator[str]:
        """What a block shows, its code, and what stands in what it printed.

        A number that a block prints is found on its page, and not through the search.
        """
        if "claim" in block.given:
            self.sections[-1].ids.add(f"claim-{block.given['claim']}")
            yield f"{self.statement(block)}\n\n"
        elif "title" in block.given:
            yield f"{self.plain(block.given['title'])}\n\n"
        if block.shown:
            self._note(block.code)
        if "result" not in block.given:
            said = printed.written(self.figure)
            yield from self.pieces(parse(self.page.name, said).parts)

    def _fence(self, fence: Fence) -> str:
        """Nothing of the path, which says how to go on, and not what is on the page."""
        return "" if isinstance(fence, Path) else super()._fence(fence)

    def listing(self, language: str, code: str) -> str:
        """Of code its names."""
        self._note(code)
        return ""

    def on_library(self, block: Python) -> str:
        """Of code its names; what it prints is no text either."""
        return self.listing("python", block.code)

    def _note(self, code: str) -> None:
        self.sections[-1].code |= {*_NAME.findall(code)}

    def formulas(self, lines: str, sources: str = "") -> str:
        """The formulas as the sources write them, or this site, each in a line."""
        named = sources.split() or ["site"]
        said: list[str] = []
        for source in named:
            said += [notation.source(source).short] * (len(named) > 1)
            said += map(words, formulas.as_block(lines).typeset(source))
        return "\n\n".join(said)

    def drawn(self, words: Callable[[], str], lines: str, sources: str = "") -> str:
        """Nothing: what is drawn stands in the text, too."""
        return ""

    def figure(self, figure: Figure) -> str:
        return f"\n\n{figure.searched()}\n\n"

    def claim(self, claim: claims.Claim) -> str:
        return claim.statement

    def latex(self, latex: str, *, display: bool = False) -> str:
        return words(latex.strip())

    def code(self, code: str) -> str:
        said = code.strip("`").strip()
        return html.escape(said, quote=False).replace("|", "&#124;")  # a cell does not end here

    def emphasis(self, stars: str, words: str) -> str:
        return words

    def link(self, said: str, target: str) -> str:
        return said

    def attributes(self, attributes: str) -> str:
        self.sections[-1].ids |= {*_ID.findall(attributes)}
        return ""


def _lines(text: str) -> list[str]:
    """Paragraphs, items and rows of Markdown, a line each."""
    lines, listed = [""], False
    for line in map(str.strip, text.splitlines()):
        begins = _BEGINS.match(line)
        if line.startswith("|"):
            cells = [] if _RULE.fullmatch(line) else _PIPE.split(line.strip("|"))
            lines += [" · ".join(filter(None, map(str.strip, cells))), ""]
        elif not line or line == ">":
            lines.append("")
            listed = False
        elif begins and (listed or not lines[-1]):  # in a paragraph it is a dash, or a number
            lines.append(line[begins.end() :])
            listed = True
        else:
            lines[-1] += f" {line.removeprefix('> ')}"
    parted = (part for line in lines for part in _in_html(line).split("\n"))
    said = (" ".join(html.unescape(part.replace("\\|", "|")).split()) for part in parted)
    return [line for line in (each.removeprefix("· ") for each in said) if line]


def _in_html(line: str) -> str:
    """A line of a cell and an item of a list, which are HTML in the row of a table, as text."""
    for tag in "<ul>", "<li>", "</li>", "</ul>":
        line = line.replace(tag, "\n")
    return line.replace("<br>", ", ")


class Index:
    """The sections of all pages, and the lines that lead to them."""

    def __init__(self):
        self._pages: list[dict] = []
        self._sections: dict[str, list[Section]] = {}  # of each page, by its address
        self._questions: list[tuple[str, str, str]] = []

    def add(self, page: Page, addresses: Mapping[str, str]) -> list[Fault]:
        """Read a page that has run; the faults are lines that lead to no heading of it."""
        is_index = page.name == questions.INDEX
        found = sections(page, addresses)
        if is_index or (page.meta.get("search") or {}).get("exclude"):
            found = [Section(title=found[0].title)]
        self._sections[addresses[page.name]] = found
        self._pages.append(
            {
                "url": addresses[page.name],
                "title": page.title,
                "about": page.meta.get("description", ""),
                "tags": ", ".join(map(str, page.meta.get("tags") or ())),
            }
        )
        if is_index:
            self._questions = [*_questions(page, addresses)]
        return [*_give(page, found)]

    def written(self) -> str:
        """All of it, as the search loads it."""
        for address, question, answer in self._questions:
            self._lead_to(address, question, f"{question} {answer}")
        sections = [
            [number, it.id, it.title, "\n".join(it.text), " ".join(sorted(it.code)), it.asked]
            for number, page in enumerate(self._pages)
            for it in self._sections[page["url"]]
        ]
        data = {"pages": self._pages, "sections": sections}
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"))

    def _lead_to(self, address: str, *said: str) -> None:
        url, _, anchor = address.partition("#")
        sections = self._sections.get(url, [])
        section = next((it for it in sections if anchor in it.ids), None)
        if section or sections:
            (section or sections[0]).asked += said


def _give(read: Page, sections: list[Section]) -> Iterator[Fault]:
    """Give the lines of a page to the sections that they lead to."""
    headings = {"": sections[0]} | {section.id: section for section in sections[1:]}
    for fence, anchor in asked.leading(read):
        if anchor in headings:
            headings[anchor].asked += fence.lines
        elif anchor:
            known = ", ".join(filter(None, headings))
            yield fence.fault(f"lines for {anchor!r}; the page's headings are {known}")


def _questions(page: Page, addresses: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Of each line of the index of questions, where it leads, its question and its answer."""
    writer = _Writer(page, addresses)
    for entry in questions.ENTRY.finditer(page.body):
        address = addresses.get(page.linked(entry["page"]))
        if address is not None:  # else MkDocs reports it
            question, answer = (
                " ".join(_lines(writer.plain(entry[name]))) for name in ("question", "answer")
            )
            yield f"{address}#{entry['id'] or ''}", question, answer
