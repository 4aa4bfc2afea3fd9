"""What the search reads: each section of each page, in words and with formulas as they are typed.

A section is what a heading leads to. It is found by its heading, its text and its code, by the
title, the description and the tags of its page, and by the questions that lead to it from the index
of questions. Which other words mean the same, and which pages come later, is in `search.toml`.
"""

import json
import posixpath
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

from qkv_site.markdown import mathml, questions

ADDRESS = "assets/search.json"
_SETTINGS = Path(__file__).with_name("search.toml")
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_BLOCKS = {*_HEADINGS, "p", "li", "tr", "dt", "dd", "summary", "caption", "figcaption", "div"}
_SILENT = {"headerlink", "wq-claim__mark", "wq-aside"}  # links that say nothing of their own
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
        asked: The questions that lead to it, each with its answer in short.
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
        elif tag == "br":
            self._said += ", "
        if "id" in attributes:
            self.sections[-1].ids.add(attributes["id"])
        if self._silent or _SILENT & {*(attributes.get("class") or "").split()}:
            self._silent += tag not in ("br", "img", "input", "wbr")

    def handle_endtag(self, tag):
        self._silent -= bool(self._silent)
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


@cache
def settings() -> dict:
    """Words that mean the same, and how much the pages of a folder count."""
    return tomllib.loads(_SETTINGS.read_text())


class Index:
    """The sections of all pages, from their HTML."""

    def __init__(self):
        self._pages: list[dict] = []
        self._sections: dict[str, list[Section]] = {}  # of each page, by its address
        self._asked: list[tuple[str, str]] = []

    def add(self, page) -> None:
        """Read a page that is rendered."""
        own = page.meta.get("search") or {}
        whole = not own.get("exclude") and page.file.src_uri != questions.INDEX
        sections = _Reader(page.content).sections
        self._sections[page.url] = sections if whole else [Section(title=sections[0].title)]
        self._pages.append(
            {
                "url": page.url,
                "title": page.meta.get("title") or str(page.title),
                "weight": _weight(page.file.src_uri),
                "about": page.meta.get("description", ""),
                "tags": ", ".join(map(str, page.meta.get("tags") or ())),
            }
        )
        if page.file.src_uri == questions.INDEX:
            self._asked = [*_asked(page)]

    def written(self) -> str:
        """All of it, as the search loads it."""
        for address, said in self._asked:
            self._lead_to(address, said)
        sections = [
            [number, it.id, it.title, "\n".join(it.text), " ".join(sorted(it.code)), it.asked]
            for number, page in enumerate(self._pages)
            for it in self._sections[page["url"]]
        ]
        said = {name: settings()[name] for name in ("same", "later")}
        data = {"pages": self._pages, "sections": sections} | said
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"))

    def _lead_to(self, address: str, said: str) -> None:
        url, _, anchor = address.partition("#")
        sections = self._sections.get(url, [])
        section = next((it for it in sections if anchor in it.ids), None)
        if section or sections:
            (section or sections[0]).asked.append(said)


def _asked(page) -> Iterable[tuple[str, str]]:
    """Of each line of the index of questions, where it leads, and what it says."""
    for link, question, answer in _LINE.findall(mathml.as_words(page.content)):
        answer = re.sub(r'<a class="wq-aside".*?</a>', "", answer)
        url, _, anchor = link.partition("#")
        url = posixpath.normpath(posixpath.join(page.url, url)) + "/"
        yield f"{url}#{anchor}" if anchor else url, _words(f"{question} {answer}")


def _words(html: str) -> str:
    return " ".join(unescape(_TAG.sub("", html)).split())


def _weight(page: str) -> float:
    weights = settings()["weights"]
    fitting = [name for name in weights if page.startswith(name)]
    return weights[max(fitting, key=len)] if fitting else 1
