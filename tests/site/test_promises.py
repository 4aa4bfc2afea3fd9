"""Words that promise: they stand where a check covers them, and a reader is led to it.

A statement, a short answer and an answer in the index of questions are what people take away. There
"all", "never" or "only" says more than a few runs can show. In a statement such a word wants to
know over what the check runs: `covers="..."` on the block, or a paragraph "Covers: ..." in a test's
docstring. In a short answer, and in the index of questions, it wants a link to the claim, or to the
heading where the claim stands. Better is a weaker word.
"""

import posixpath
import re

import pytest

from qkv_site.markdown import blocks, claims, current, sections

PROMISES = re.compile(
    r"\b(all|always|any|cannot|every|never|only|whatever)\b",
    re.IGNORECASE,
)

# These name a thing, and promise nothing of it: the paper's title; the heads of one layer, whose
# widths add up to a width with that name; a number or a set that the sentence itself gives.
NAMES = re.compile(
    r"Attention Is All You Need"
    r"|\ball (?:the |\d+ |query )?heads\b"
    r"|\ball (?:\d[\d,]*|three|four|of (?:it|them|these))\b"
    r"|\bnot only\b",
    re.IGNORECASE,
)
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)")


def promises(text: str) -> list[str]:
    """The words of a text that promise."""
    return PROMISES.findall(NAMES.sub("", " ".join(text.split())))


def leads_to_a_claim(page: str, path: str, anchor: str | None) -> bool:
    """Whether a link of a page leads to a claim, or to a heading below which one stands."""
    if "://" in path:
        return False
    target = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
    if target == "claims.md":
        return anchor in claims.kinds()
    text = (current.docs / target).read_text()
    if (anchor or "").startswith("claim-"):
        made = claims.of_page(target, text)
        return anchor.removeprefix("claim-") in {claim.id for claim in made if claim.block}
    below = sections.below(text, anchor or "")
    return "claims.md#" in below or any("claim" in block.options for block in blocks.find(below))


def covered(page: str, paragraph: str) -> bool:
    return any(leads_to_a_claim(page, *link) for link in LINK.findall(paragraph))


def test_a_statement_that_promises_says_over_what_its_check_runs():
    stated = [claim for _, found in claims.on_site() for claim in found]
    for claim in [*stated, *claims.traps()]:
        if not claim.covers:
            assert not promises(claim.statement), f"{claim.id}: {claim.statement}"


def test_a_short_answer_that_promises_leads_to_the_claim():
    answers = 0
    for path in sorted(current.docs.rglob("*.md")):
        page = path.relative_to(current.docs).as_posix()
        for answer in re.findall(
            r"\*\*Short answer\.\*\*(.*?)(?:\n\n|\Z)", path.read_text(), re.DOTALL
        ):
            answers += 1
            words = promises(answer)
            assert not words or covered(page, answer), f"{page} promises {words}: {answer}"
    assert answers > 40


def test_an_answer_in_the_index_of_questions_that_promises_leads_to_the_claim():
    text = (current.docs / "questions.md").read_text()
    entries = re.findall(r"^- \[.*?(?=^- |^#|\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(entries) > 50
    for entry in entries:
        words = promises(entry.partition("](")[2].partition(")")[2])
        assert not words or covered("questions.md", entry), f"{words}: {entry}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Every layer has one.", ["Every"]),
        ("It holds only for all\nlayers.", ["only", "all"]),
        ("It can never be, whatever you do, and cannot.", ["never", "whatever", "cannot"]),
        ("*Attention Is All You Need* names all 8 heads together.", []),
        ("A head reads all 512 numbers.", []),
        ("Small and manyfold.", []),
    ],
)
def test_words_that_promise_are_found(text, words):
    assert promises(text) == words


def test_a_link_is_followed_to_the_claim():
    assert covered("explanation/biases.md", "[so](#claim-key-bias-has-no-effect)")
    assert covered("questions.md", "[so](explanation/biases.md#check)")
    assert covered(
        "how-to/masks.md", "[so](../claims.md#test-keras-ignores-a-mask-in-fourth-place)"
    )
    assert not covered("explanation/biases.md", "[so](#claim-nothing-like-it)")
    assert not covered("explanation/biases.md", "[so](#formulas)")
    assert not covered("explanation/biases.md", "no link")
