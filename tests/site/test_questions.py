"""The index of questions: each line leads to a heading, and the build adds the way to its check."""

from qkv_site.page import Site
from qkv_site.parts import questions


def test_the_index_has_questions():
    assert len(questions.ENTRY.findall(Site().pages[questions.INDEX].body)) > 80


def test_a_line_gets_the_first_check_below_its_heading_and_who_writes_it_how():
    line = "- [Does a head see\n  a slice?](explanation/biases.md#terms) No.\n"
    short = "[short answer](explanation/biases.md){ .wq-aside }"
    check = "[check](explanation/biases.md#claim-two-of-four-terms-survive){ .wq-aside }"
    who = "[who writes it how](explanation/biases.md#who){ .wq-aside }"
    shown = f"- [Does a head see a slice?](explanation/biases.md#terms) No. {short} {check} {who}\n"
    assert questions.with_links(line) == shown


def test_a_line_without_a_check_below_its_heading_gets_none():
    line = "- [Why?](claims.md) So.\n"
    assert questions.with_links(line) == line


def test_the_links_are_on_the_page(site):
    page = (site / "questions" / "index.html").read_text()
    assert page.count(">check</a>") > 60
    assert page.count(">who writes it how</a>") > 60
