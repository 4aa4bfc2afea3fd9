"""The self-test in a browser: each choice is answered, by keyboard too, and without a trace."""

import re

import pytest

from browser.watching import WITHOUT_SCRIPTS
from qkv_site.tables import self_test
from support import thorough

QUESTIONS = self_test.questions()
COUNT = sum(question.group == "path" for question in QUESTIONS)
OPEN = "document.querySelector('.wq-more').open = true"
FIRST, SECOND, THIRD = QUESTIONS[:3]


@pytest.fixture
def test(page):
    """The page of the self-test."""
    page.goto("/self-test/")
    page.locator(".wq-progress a[aria-label]").first.wait_for()
    return page


def choose(page, question, choice):
    asked = page.locator(f"#{question.id}")
    asked.get_by_role("radio").nth(question.choices.index(choice)).check()
    asked.get_by_role("button", name="Check").click()
    return asked


def sentence(page):
    return page.get_by_role("region", name="Progress").locator("p").inner_text()


def said_of(asked):
    return asked.locator("form").get_by_role("status").inner_text()


@pytest.mark.parametrize("every", [7, *thorough(1)])
def test_every_choice_is_answered(test, every):
    test.evaluate(OPEN)
    for question in QUESTIONS[::every]:
        group = test.locator(f"#{question.id} fieldset")
        names = group.get_by_role("radio").evaluate_all(
            "radios => radios.map(radio => radio.labels[0].innerText.trim())"
        )
        assert group.locator("legend").inner_text()
        assert len(set(names)) == len(names) == len(question.choices)
        for wrong in question.wrong:
            asked = choose(test, question, wrong)
            begins = re.split(r"[{`*]", wrong.why)[0]  # up to its first symbol, number or mark-up
            assert said_of(asked).startswith(f"No. {begins}")
            assert len(said_of(asked)) > len("No. ") + 10
            assert asked.locator("details").get_attribute("open") is None
        asked = choose(test, question, question.right)
        assert said_of(asked) == "Right."
        assert asked.locator("details").get_attribute("open") is not None
    if every == 1:
        assert sentence(test) == f"{COUNT} of {COUNT} answered, 0 right at the first try."
        pages = {each.page.partition("#")[0] for each in QUESTIONS if each.group == "path"}
        result = test.get_by_role("region", name="Result")
        assert result.get_by_role("link").count() == len(pages)
    assert test.wrong == []


def test_progress_counts_what_was_tried(test):
    assert sentence(test) == f"0 of {COUNT} answered."
    assert test.locator(".wq-progress li a:not(.wq-open), [data-marked]").count() == 0
    choose(test, FIRST, FIRST.right)
    choose(test, SECOND, SECOND.wrong[0])
    assert sentence(test) == f"2 of {COUNT} answered, 1 right at the first try."
    choose(test, SECOND, SECOND.right)
    choose(test, FIRST, FIRST.wrong[0])  # out of curiosity
    assert sentence(test) == f"2 of {COUNT} answered, 1 right at the first try."
    link = test.get_by_role("link", name="Question 2: right at a later try")
    assert link.get_attribute("href").endswith(f"#{SECOND.id}")
    missed = test.get_by_role("region", name="Result").get_by_role("link")
    page, _, heading = SECOND.page.partition("#")
    assert missed.count() == 1
    missed.click()
    test.wait_for_url(f"**/{page.removesuffix('.md')}/#{heading}")
    assert test.locator(f"#{heading}").is_visible()


def test_it_works_from_the_keyboard_and_another_choice_takes_the_mark_away(test):
    asked = test.locator(f"#{THIRD.id}")
    asked.get_by_role("radio").first.press("Space")
    for _ in range(THIRD.choices.index(THIRD.right)):
        test.keyboard.press("ArrowDown")
    assert said_of(asked) == ""
    test.keyboard.press("Tab")
    test.keyboard.press("Enter")
    assert said_of(asked) == "Right."
    asked.get_by_role("radio").nth(THIRD.choices.index(THIRD.wrong[0])).check()
    assert said_of(asked) == ""


def test_nothing_is_sent_or_stored_and_it_works_after_going_back(test):
    asked, stored = len(test.requested), test.evaluate("Object.keys(localStorage)")
    choose(test, SECOND, SECOND.right)
    choose(test, THIRD, THIRD.wrong[0])
    assert test.requested[asked:] == []
    assert test.evaluate("Object.keys(localStorage)") == stored
    assert test.context.cookies() == []
    test.locator(".md-footer__link--prev").click()
    test.wait_for_url(lambda url: "/self-test/" not in url)
    test.go_back()
    assert said_of(choose(test, FIRST, FIRST.right)) == "Right."
    assert test.locator(".wq-progress ol").count() == 1


def test_without_scripts_each_answer_is_in_a_fold_out(visit):
    page = visit("/self-test/", **WITHOUT_SCRIPTS)
    assert page.locator(".wq-question :is(input, button):visible").count() == 0
    assert page.locator(".wq-key").is_hidden()
    page.locator(".wq-more > summary").click()
    for question in QUESTIONS:
        asked = page.locator(f"#{question.id}")
        assert asked.locator("fieldset li:visible").count() == len(question.choices)
        asked.locator("summary").press("Enter")
        assert asked.locator("details strong").first.is_visible()
        assert asked.locator("details [data-choice]:visible").count() == len(question.wrong)


def test_on_paper_questions_come_first_and_answers_after_them(test):
    test.emulate_media(media="print")
    assert test.locator(".wq-question details:visible, .wq-progress:visible").count() == 0
    key = test.locator(".wq-key > ol > li")
    assert key.count() == len(QUESTIONS)
    last, first = test.locator(".wq-question").last.bounding_box(), key.first.bounding_box()
    assert first["y"] > last["y"] + last["height"]
    assert test.locator(".wq-key").evaluate("e => getComputedStyle(e).breakBefore") == "page"
