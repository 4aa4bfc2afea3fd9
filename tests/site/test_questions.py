"""The index of questions: each line leads to a heading, and the build adds the way to its check."""

import re

from qkv_site.markdown import current, questions, sections

INDEX = (current.docs / questions.INDEX).read_text()


def test_each_line_is_a_question_that_leads_to_a_page():
    lines = re.findall(r"^- .*", INDEX.partition("\n# ")[2], re.MULTILINE)
    assert len(lines) == len(questions.ENTRY.findall(INDEX)) > 80


def test_no_question_stands_twice():
    asked = [" ".join(entry["question"].split()) for entry in questions.ENTRY.finditer(INDEX)]
    assert len(asked) == len(set(asked))


def test_a_line_gets_the_first_check_below_its_heading_and_who_writes_it_how():
    line = "- [Does a head see\n  a slice?](explanation/biases.md#terms) No.\n"
    short = "[short answer](explanation/biases.md){ .wq-aside }"
    check = "[check](explanation/biases.md#claim-two-of-four-terms-survive){ .wq-aside }"
    who = "[who writes it how](explanation/biases.md#who){ .wq-aside }"
    shown = f"- [Does a head see a slice?](explanation/biases.md#terms) No. {short} {check} {who}\n"
    assert questions.with_links(line) == shown


def test_a_line_without_a_check_below_its_heading_gets_none():
    line = "- [Why?](cite.md) So.\n"
    assert questions.with_links(line) == line


def test_a_heading_in_a_block_of_code_is_none():
    text = "# A { #a }\n\n```python\n# B { #b }\n```\n\n## C { #c .x }\n\nsaid\n\n# D\n"
    assert [(it.level, it.id) for it in sections.find(text)] == [(1, "a"), (2, "c"), (1, "")]
    assert sections.below(text, "c").strip() == "said"
    assert "said" in sections.below(text, "a")
    assert "# D" not in sections.below(text, "a")


def test_the_links_are_on_the_page(site):
    page = (site / "questions" / "index.html").read_text()
    assert page.count(">check</a>") > 60
    assert page.count(">who writes it how</a>") > 60


def test_a_fold_out_and_a_tab_stand_below_their_titles_at_each_depth():
    text = '??? note "A"\n    a\n\n    === "B"\n        b\n!!! wq-own "C"\n    c\nd\n'
    assert sections.unfolded(text).split() == ["**A**", "a", "**B**", "b", "**C**", "c", "d"]
