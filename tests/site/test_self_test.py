"""The self-test: its questions come from all over the site, and code finds what it can find."""

import itertools
import re

import pytest

from qkv_site.generated import self_test
from qkv_site.markdown import current

QUESTIONS = self_test.questions()
GOOD = {
    "id": "two",
    "ask": "How many?",
    "page": "page.md#two",
    "code": "print(1 + 1)",
    "wrong": ["1", "3"],
    "why": "Count.",
}

PAGE = """# Test

```python exec="on"
from qkv_site.generated import self_test

print(self_test.markdown())
```
"""
TOML = """[[question]]
id = "two"
ask = "How many are {{Q[i]}}?"
page = "page.md#two"
code = "print(1 + 1)"
wrong = ["1", "3"]
why = "Count."
"""


def test_the_questions_mix_the_pages():
    pages = {question.page.partition("#")[0] for question in QUESTIONS}
    assert len(QUESTIONS) >= 12
    assert len(pages) >= 10
    assert all(page.startswith("explanation/") for page in pages)
    assert len({question.id for question in QUESTIONS}) == len(QUESTIONS)


def test_neighbours_come_from_different_pages():
    pages = [question.page.partition("#")[0] for question in QUESTIONS]
    assert all(page != following for page, following in itertools.pairwise(pages))


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.id)
def test_shapes_and_numbers_are_computed_never_typed(question):
    looks_computed = re.fullmatch(r"[\d(), .]+", question.answer) is not None
    assert looks_computed == bool(question.code)
    assert all((re.fullmatch(r"[\d(), .]+", wrong) is not None) == looks_computed
               for wrong in question.wrong)  # fmt: skip


def test_the_place_of_an_answer_does_not_tell_that_it_is_right():
    places = [question.choices.index(question.answer) for question in QUESTIONS]
    assert max(map(places.count, places)) <= len(places) / 2
    assert set(places) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wrong": ["1", "2"]}, r"'two': '2' is right, and wrong is \['1', '2'\]"),
        ({"wrong": ["1", "1"]}, r"expected two or more that differ"),
        ({"wrong": ["1"]}, r"expected two or more"),
        ({"code": ""}, r"'two': expected either code or answer"),
        ({"answer": "2"}, r"'two': expected either code or answer"),
    ],
)
def test_a_question_needs_one_right_answer_and_two_wrong_ones(change, message):
    with pytest.raises(ValueError, match=message):
        self_test.Question(**GOOD | change)


@pytest.mark.parametrize(
    ("right", "wrong", "fault"),
    [
        ("1 + 1", "1 + 2", "'3' is right, and wrong is"),
        ("1 + 1", "1 / 0", "division by zero"),
        ("why", "reason", "unexpected keyword argument 'reason'"),
    ],
    ids=["wrong is right", "code that fails", "no such key"],
)
def test_a_faulty_question_in_the_file_is_refused(tmp_path, monkeypatch, right, wrong, fault):
    monkeypatch.setattr(current, "docs", tmp_path)
    (tmp_path / "self-test.toml").write_text(TOML)
    [question] = self_test.questions()
    assert question.answer == "2"
    (tmp_path / "self-test.toml").write_text(TOML.replace(right, wrong))
    with pytest.raises((ValueError, ArithmeticError, TypeError), match=fault):
        self_test.questions()


PAGES = {"index.md": PAGE, "claims.md": "# Claims\n", "page.md": "# A page\n\n## Two { #two }\n"}


def test_a_question_without_scripts_has_its_answer_in_a_fold_out(build):
    built = build(PAGES | {"self-test.toml": TOML})
    assert built.returncode == 0, built.stdout
    page = (built.site / "index.html").read_text()
    assert re.search(r"<legend>How many are <.*<math", page)
    assert re.search(
        r'<li class="wq-right"><label><input [^>]*>\s*<span><code>2</code></span>', page
    )
    assert page.count('class="wq-right"') == 1
    answer = page.partition('<details class="success">')[2].partition("</details>")[0]
    assert "<strong><code>2</code>.</strong> Count." in answer
    assert '<a class="wq-again" href="page/#two">A page</a>' in answer
