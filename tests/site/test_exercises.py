"""Each explanation ends in exercises, and one of them at least is seen to run."""

import re

import pytest

from qkv_site.markdown import blocks
from support import ROOT

PAGES = sorted(
    path for path in (ROOT / "docs" / "explanation").glob("*.md") if path.stem != "index"
)
QUESTION = re.compile(r'^\?\?\? question "(.+)"\n((?:(?: {4}.*)?\n)+)', re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_ends_in_two_or_three_exercises(page):
    _, _, exercises = page.read_text().partition("\n## Try it { #try-it }\n")
    assert QUESTION.sub("", exercises).strip() == ""
    found = QUESTION.findall(exercises)
    assert 2 <= len(found) <= 3
    shown = [answer for _, answer in found if any(map(asserts, blocks.find(answer)))]
    assert shown, "no answer is seen to run"


def asserts(block):
    return block.executed and "assert " in block.code and "print(" in block.code


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_answers_are_folded_in(site, page):
    built = (site / "explanation" / page.stem / "index.html").read_text()
    _, _, exercises = built.partition('id="try-it"')
    assert exercises.count('<details class="question">') == len(QUESTION.findall(page.read_text()))
    assert "<details open" not in exercises
