"""Python-Markdown extension: a question of the index leads to the check of its answer, too.

A line of the index is a question that links to its answer, and the answer in short. The build adds
small links behind it: to the short answer above the heading, to the first check below it, and to
who writes it how, where that page has such a heading. So a new line needs no more than its question
and its answer.
"""

import re

from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor

from qkv_site.markdown import blocks, current, sections

INDEX = "questions.md"
ENTRY = re.compile(
    r"^- \[(?P<question>[^\n]*(?:\n  [^\n]*)*?)\]\((?P<page>[\w/.-]+\.md)(?:#(?P<id>[\w-]+))?\)"
    r"(?P<answer>[^\n]*(?:\n  [^\n]*)*)",
    re.MULTILINE,
)
_TO_LEDGER = re.compile(r"\]\((?:[./]*)claims\.md#([\w-]+)\)")
_WHO = "who"  # the id of the heading under which a page says who writes it how


def with_links(text: str) -> str:
    """The index of questions, each with the way to its check and to who writes it how."""
    return ENTRY.sub(lambda entry: " ".join(entry[0].split()) + _links(entry), text)


def _links(entry: re.Match) -> str:
    page, anchor = entry["page"], entry["id"] or ""
    path = current.docs / page
    if not path.is_file():  # MkDocs reports it
        return ""
    text = current.read(path)
    above = anchor and "**Short answer.**" in text
    links = {"short answer": page if above else "", "check": _check(page, text, anchor)}
    if anchor != _WHO and any(section.id == _WHO for section in sections.find(text)):
        links["who writes it how"] = f"{page}#{_WHO}"
    return "".join(
        f" [{words}]({link}){{ .wq-aside }}"
        for words, link in links.items()
        if link and f"({link})" not in entry[0]
    )


def _check(page: str, text: str, anchor: str) -> str:
    """Where the first check below a heading stands: a block, or a line of the ledger."""
    below = sections.below(text, anchor)
    for block in blocks.find(below):
        if "claim" in block.options:
            return f"{page}#claim-{block.options['claim']}"
    ledger = _TO_LEDGER.search(below)
    return f"claims.md#{ledger[1]}" if ledger else ""


class _Links(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        return with_links("\n".join(lines)).split("\n") if current.page == INDEX else lines


class Questions(Extension):
    """Lead from each question of the index to the check of its answer."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register before `qkv_site.markdown.run`, at 27."""
        md.preprocessors.register(_Links(md), "wq-questions", 28)


def makeExtension(**settings) -> Questions:
    """Entry point of Python-Markdown."""
    return Questions(**settings)
