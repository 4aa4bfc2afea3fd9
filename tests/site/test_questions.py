"""The index of questions: each line leads to a heading."""

from qkv_site.page import Site
from qkv_site.parts import questions


def test_the_index_has_questions():
    assert len(questions.ENTRY.findall(Site().pages[questions.INDEX].body)) > 80


def test_the_questions_are_on_the_page_each_with_its_link(site):
    page = (site / "questions" / "index.html").read_text()
    asked = len(questions.ENTRY.findall(Site().pages[questions.INDEX].body))
    assert page.count("<li><a href=") >= asked
