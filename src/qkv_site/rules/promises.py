"""Words that promise: they stand where a check covers them, and a reader is led to it.

A statement, a short answer and an answer in the index of questions are what people take away. There
"all", "never" or "only" says more than a few runs can show.
"""

import re
from collections.abc import Iterator

from qkv_site.markdown import claims, evidence
from qkv_site.page import Page
from qkv_site.parts import questions
from qkv_site.rules.short_answers import ANSWER

NAME = "promise"
PROMISES = re.compile(r"\b(all|always|any|cannot|every|never|only|whatever)\b", re.IGNORECASE)
# These name a thing, and promise nothing of it: the paper's title; the heads of one layer, whose
# widths add up to a width with that name; a number or a set that the sentence itself gives.
NAMES = re.compile(
    r"Attention Is All You Need"
    r"|\ball (?:the |\d+ |query )?heads\b"
    r"|\ball (?:\d[\d,]*|three|four|of (?:it|them|these))\b"
    r"|\bnot only\b",
    re.IGNORECASE,
)
_LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)")


def faults(page: Page) -> Iterator[tuple[int, str]]:
    """Promises that no check covers."""
    for claim in claims.of_page(page):
        if not claim.covers and (words := promises(claim.statement)):
            yield (
                page.line_of(claim.statement),
                f"the statement promises ({_listed(words)}), and nobody knows over what its check "
                'runs: expected covers="..." on its block, or a weaker word',
            )
    for line, answer, link in _answers(page):
        words = promises(answer)
        if words and not covered(page, link):
            yield (
                line,
                f"the answer promises ({_listed(words)}) and leads to no claim: expected a link "
                "to one, [so](#claim-name), or to a heading with one below it, or a weaker word",
            )


def promises(text: str) -> list[str]:
    """The words of a text that promise."""
    return PROMISES.findall(NAMES.sub("", " ".join(text.split())))


def covered(page: Page, paragraph: str) -> bool:
    """Whether a paragraph of a page has a link that leads to a claim."""
    return any(leads_to_a_claim(page, *link) for link in _LINK.findall(paragraph))


def leads_to_a_claim(page: Page, path: str, anchor: str) -> bool:
    """Whether a link of a page leads to a claim, or to a heading below which one stands."""
    name = page.linked(path)
    if name == claims.INDEX:
        return anchor in evidence.known(page.site).kinds
    target = page.site.pages.get(name)
    if target is None:  # another site's
        return False
    if anchor.startswith("claim-"):
        made = {claim.id for claim in claims.of_page(target) if claim.block}
        return anchor.removeprefix("claim-") in made
    return claims.first_below(target, anchor) is not None


def _answers(page: Page) -> Iterator[tuple[int, str, str]]:
    """The line of each answer in short, what it says, and the paragraph with its links."""
    for found in ANSWER.finditer(page.body):
        yield page.line_in(page.body, found.start()), found["said"], found["said"]
    if page.name == questions.INDEX:
        for found in questions.ENTRY.finditer(page.body):
            yield page.line_in(page.body, found.start()), found["answer"], found[0]


def _listed(words: list[str]) -> str:
    return ", ".join(map(repr, dict.fromkeys(words)))
