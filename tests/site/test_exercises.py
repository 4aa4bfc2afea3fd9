"""The answers of exercises are folded in."""

import pytest

from qkv_site.page import Site

PAGES = {
    name: page
    for name, page in Site().pages.items()
    if name.startswith("explanation/") and not name.endswith("/index.md")
}


@pytest.mark.parametrize("name", PAGES)
def test_answers_are_folded_in(site, name):
    built = (site / name.removesuffix(".md") / "index.html").read_text()
    _, _, exercises = built.partition('id="try-it"')
    questions = [part for part in PAGES[name].parts if getattr(part, "kind", "") == "question"]
    assert exercises.count('<details class="question">') == len(questions) > 0
    assert "<details open" not in exercises
