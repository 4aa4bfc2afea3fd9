"""What the search reads: each section of each page, in words and with formulas as they are typed.

A section is what a heading leads to. It is found by its heading, its text and its code, by the
title, the description and the tags of its page, by the questions that lead to it from the index of
questions, and by what people type to get there, in the fences `asked` of its page.
"""

import json
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser

from qkv_site.markdown import elements, mathml
from qkv_site.page import Fault, Page
from qkv_site.parts import asked, questions

ADDRESS = "assets/search.json"
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_BLOCKS = {*_HEADINGS, "p", "li", "tr", "dt", "dd", "summary", "caption", "figcaption", "div"}
# Links that say nothing of their own, what the reference calls a name, "cached property", and the
# name of a column that a value repeats.
_SILENT = {"headerlink", "wq-claim__mark", "wq-aside", "doc-labels", "wq-column"}
_WORD = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
_LINE = re.compile(r'<li>\s*(?:<p>)?<a href="([^"]*)">(.*?)</a>(.*?)</li>', re.DOTALL)
_TAG = re.compile(r"<[^>]+>")


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


class _Reader(HTMLParser):
    def __init__(self, page: str):
        super().__init__()
        self.sections = [Section()]
        self._into, self._said = "text", ""
        self._silent = 0
        self.feed(mathml.as_words(page))
        self._end_block()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag in _BLOCKS or tag == "pre":
            self._end_block()
        if tag in _HEADINGS:
            if tag != "h1":
                self.sections.append(Section(attributes.get("id", "")))
            self._into = "title"
        elif tag == "pre":
            self._into = "code"
        elif tag in ("td", "th") and self._said.strip():
            self._said += " · "
        elif tag == "br" and not self._silent:
            self._said += ", "
        if "id" in attributes:
            self.sections[-1].ids.add(attributes["id"])
        if self._silent or _SILENT & {*(attributes.get("class") or "").split()}:
            self._silent += tag not in elements.VOID

    def handle_endtag(self, tag):
        self._silent -= bool(self._silent) and tag not in elements.VOID
        if tag in _BLOCKS or tag == "pre":
            self._end_block()

    def handle_data(self, data):
        if not self._silent:
            self._said += data

    def _end_block(self):
        section, said = self.sections[-1], " ".join(self._said.split())
        if self._into == "title":
            section.title = said
        elif self._into == "code":
            section.code |= {*_WORD.findall(said)}
        elif said:
            section.text.append(said)
        self._into, self._said = "text", ""


class Index:
    """The sections of all pages, from their HTML, and the lines that lead to them."""

    def __init__(self):
        self._pages: list[dict] = []
        self._sections: dict[str, list[Section]] = {}  # of each page, by its address
        self._questions: list[tuple[str, str, str]] = []

    def add(self, page, read: Page) -> list[Fault]:
        """Read a page that is rendered; the faults are lines that lead to no heading of it."""
        own = page.meta.get("search") or {}
        whole = not own.get("exclude") and page.file.src_uri != questions.INDEX
        sections = _Reader(page.content).sections
        sections = sections if whole else [Section(title=sections[0].title)]
        self._sections[page.url] = sections
        self._pages.append(
            {
                "url": page.url,
                "title": page.meta.get("title") or str(page.title),
                "about": page.meta.get("description", ""),
                "tags": ", ".join(map(str, page.meta.get("tags") or ())),
            }
        )
        if page.file.src_uri == questions.INDEX:
            self._questions = [*_questions(page)]
        return [*_give(read, sections)]

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


def _questions(page) -> Iterable[tuple[str, str, str]]:
    """Of each line of the index of questions, where it leads, its question and its answer."""
    for link, question, answer in _LINE.findall(mathml.as_words(page.content)):
        answer = re.sub(r'<a class="wq-aside".*?</a>', "", answer)
        url, _, anchor = link.partition("#")
        url = posixpath.normpath(posixpath.join(page.url, url)) + "/"
        yield f"{url}#{anchor}" if anchor else url, _words(question), _words(answer)


def _words(html: str) -> str:
    return " ".join(unescape(_TAG.sub("", html)).split())
