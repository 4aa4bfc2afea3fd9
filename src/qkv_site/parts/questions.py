"""A question of the index leads to the check of its answer, too.

A line of the index is a question that links to its answer, and the answer in short. The build adds
small links behind it: to the short answer above the heading, to the first check below it, and to
who writes it how, where that page has such a heading. So a new line needs no more than its question
and its answer.
"""

import re

from qkv_site.markdown import claims
from qkv_site.page import PAGE

INDEX = "questions.md"
ENTRY = re.compile(
    r"^- \[(?P<question>[^\n]*(?:\n  [^\n]*)*?)\]\((?P<page>[\w/.-]+\.md)(?:#(?P<id>[\w-]+))?\)"
    r"(?P<answer>[^\n]*(?:\n  [^\n]*)*)",
    re.MULTILINE,
)
_WHO = "who"  # the id of the heading under which a page says who writes it how


def with_links(text: str) -> str:
    """The index of questions, each with the way to its check and to who writes it how."""
    return ENTRY.sub(lambda entry: " ".join(entry[0].split()) + _links(entry), text)


def _links(entry: re.Match) -> str:
    page, anchor = entry["page"], entry["id"] or ""
    other = PAGE.get().site.pages.get(page)
    if other is None:  # MkDocs reports it
        return ""
    above = anchor and "**Short answer.**" in other.text
    links = {
        "short answer": page if above else "",
        "check": claims.first_below(other, anchor),
    }
    if anchor != _WHO and other.below(_WHO):
        links["who writes it how"] = f"{page}#{_WHO}"
    return "".join(
        f" [{words}]({link}){{ .wq-aside }}"
        for words, link in links.items()
        if link and f"({link})" not in entry[0]
    )
