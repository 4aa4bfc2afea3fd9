"""The self-test: its questions come from all over the site, and code finds what it can find."""

import itertools
import re
import tomllib

import pytest

from qkv_site import menu
from qkv_site.page import Site
from qkv_site.tables import self_test
from support import ROOT, question

FILE = tomllib.loads((ROOT / "docs" / "self-test.toml").read_text())
GOOD = tomllib.loads(question())["course"][0] | {"group": "course"}
NUMBER = r"[\d(), .]+"


@pytest.fixture(scope="module")
def questions():
    """The questions of this site."""
    return self_test.questions()


def test_the_questions_come_from_the_path_in_its_order_and_from_other_pages(questions):
    pages = [question.page.partition("#")[0] for question in questions]
    assert all(page.startswith(("start/", "explanation/")) for page in pages)
    assert all(page != following for page, following in itertools.pairwise(pages))
    assert len({question.id for question in questions}) == len(questions)
    groups = [group for group, _ in itertools.groupby(question.group for question in questions)]
    assert groups == [*FILE["groups"]] == ["path", "more"]
    of_the_path = [each.page.partition("#")[0] for each in questions if each.group == "path"]
    assert [*of_the_path, "self-test.md"] == menu.path(Site())


ENTRIES = [entry for group in FILE["groups"] for entry in FILE[group]]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["id"])
def test_shapes_and_numbers_are_computed_never_typed(entry):
    for answer, why in [(entry.get("answer", ""), entry["why"]), *entry["wrong"].items()]:
        assert not re.fullmatch(NUMBER, answer)
        said = re.sub(r"\{\{.*?\}\}|`.*?`", "", why)
        assert not re.search(r"\d{2,}|\d \N{MULTIPLICATION SIGN} \d|\(\d+, ", said)


def test_neither_its_look_nor_its_place_tells_that_an_answer_is_right(questions):
    for each in questions:
        numbers = [re.fullmatch(f"`{NUMBER}`", choice.answer) for choice in each.choices]
        assert all(numbers) or not any(numbers)
    places = [each.choices.index(each.right) for each in questions]
    assert max(map(places.count, places)) <= len(places) / 2
    assert set(places) == {0, 1, 2, 3}


ONE, TWO, THREE = ({f"`{number}`": "So."} for number in (1, 2, 3))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wrong": ONE | TWO}, r"'two': `2` is right, and wrong is \['`1`', '`2`'\]"),
        ({"wrong": THREE | {"{{= 3 }}": "So."}}, r"expected two or more that differ"),
        ({"wrong": ONE}, r"expected two or more"),
        (
            {
                "facts": "S = {'left': 1 > 2, 'right': 2 > 1}",
                "why": "On the {{= said('left', S) }}.",
            },
            r"'two': the sentence says 'left': expected one of \['right'\]",
        ),
        ({"code": ""}, r"'two': expected either an answer or code"),
        ({"answer": "2"}, r"'two': expected either an answer or code"),
        ({"answer": "2", "code": ""}, r"its answers are .*'2': True.* its code finds \{\}"),
        (
            {
                "answer": "2",
                "code": "holds = {'2': False, '`1`': True, '`3`': False}",
                "wrong": ONE | THREE,
            },
            r"its code finds \{'2': False, '`1`': True",
        ),
    ],
)
def test_a_question_needs_one_right_answer_and_two_wrong_ones(change, message):
    with pytest.raises(ValueError, match=message):
        self_test.Question.of(**GOOD | change)
