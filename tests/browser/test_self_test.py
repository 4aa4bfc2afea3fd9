"""The self-test in a browser: each choice is answered, by keyboard too, and without a trace."""

import re

import pytest

from browser.watching import WITHOUT_SCRIPTS
from qkv_site.tables import self_test

QUESTIONS = self_test.questions()
COUNTED = [question for question in QUESTIONS if question.group == "path"]
OPEN = "document.querySelector('.wq-more').open = true"
FIRST, SECOND, THIRD, FOURTH = QUESTIONS[:4]


@pytest.fixture
def test(page):
    """The page of the self-test."""
    page.goto("/self-test/")
    page.locator(".wq-progress a[aria-label]").first.wait_for()
    return page


@pytest.fixture
def answered(shared):
    """The same, for tests that each answer questions of their own."""
    return shared("/self-test/")


def choose(page, question, choice):
    asked = page.locator(f"#{question.id}")
    asked.get_by_role("radio").nth(question.choices.index(choice)).check()
    asked.get_by_role("button", name="Check").click()
    return asked


def sentence(page):
    return page.get_by_role("region", name="Progress").locator("p").inner_text()


def begins(why):
    """What a reason begins with, up to its first symbol, number or mark-up."""
    return re.split(r"[{`*]", why)[0]


@pytest.mark.thorough
def test_every_choice_is_answered(test):
    test.evaluate(OPEN)
    for question in QUESTIONS:
        for wrong in question.wrong:
            asked = choose(test, question, wrong)
            said = asked.locator("form").get_by_role("status").inner_text()
            assert said.startswith(f"No. {begins(wrong.why)}")
            assert len(said) > len("No. ") + 10
            assert asked.locator("details").get_attribute("open") is None
        asked = choose(test, question, question.right)
        assert asked.locator("form").get_by_role("status").inner_text() == "Right."
        assert asked.locator("details").get_attribute("open") is not None
    count = len(COUNTED)
    assert sentence(test) == f"{count} of {count} answered, 0 right at the first try."
    pages = {question.page.partition("#")[0] for question in COUNTED}
    assert test.get_by_role("region", name="Result").get_by_role("link").count() == len(pages)
    assert test.wrong == []


def test_progress_counts_what_was_tried(test):
    count = len(COUNTED)
    assert sentence(test) == f"0 of {count} answered."
    assert test.locator(".wq-progress li a:not(.wq-open), [data-marked]").count() == 0
    choose(test, FIRST, FIRST.right)
    choose(test, SECOND, SECOND.wrong[0])
    assert sentence(test) == f"2 of {count} answered, 1 right at the first try."
    choose(test, SECOND, SECOND.right)
    choose(test, FIRST, FIRST.wrong[0])  # out of curiosity
    assert sentence(test) == f"2 of {count} answered, 1 right at the first try."
    link = test.get_by_role("link", name="Question 2: right at a later try")
    assert link.get_attribute("href").endswith(f"#{SECOND.id}")
    missed = test.get_by_role("region", name="Result").get_by_role("link")
    page, _, heading = SECOND.page.partition("#")
    assert missed.count() == 1
    missed.click()
    test.wait_for_url(f"**/{page.removesuffix('.md')}/#{heading}")
    assert test.locator(f"#{heading}").is_visible()


def test_another_choice_takes_the_mark_away(answered):
    asked = choose(answered, FIRST, FIRST.right)
    asked.get_by_role("radio").nth(FIRST.choices.index(FIRST.wrong[0])).check()
    assert asked.locator("form").get_by_role("status").inner_text() == ""


def test_it_works_from_the_keyboard(answered):
    asked = answered.locator(f"#{THIRD.id}")
    asked.get_by_role("radio").first.focus()
    answered.keyboard.press("Space")
    for _ in range(THIRD.choices.index(THIRD.right)):
        answered.keyboard.press("ArrowDown")
    assert asked.locator("form").get_by_role("status").inner_text() == ""
    answered.keyboard.press("Tab")
    answered.keyboard.press("Enter")
    assert asked.locator("form").get_by_role("status").inner_text() == "Right."


def test_each_question_names_its_group_of_answers(answered):
    answered.evaluate(OPEN)
    for number, question in enumerate(QUESTIONS):
        group = answered.get_by_role("group").and_(answered.locator("fieldset")).nth(number)
        names = group.get_by_role("radio").evaluate_all(
            "radios => radios.map(radio => radio.labels[0].innerText.trim())"
        )
        assert group.locator("legend").inner_text()
        assert len(set(names)) == len(names) == len(question.choices)


def test_nothing_is_sent_or_stored(answered):
    asked, stored = len(answered.requested), answered.evaluate("Object.keys(localStorage)")
    choose(answered, SECOND, SECOND.right)
    choose(answered, FOURTH, FOURTH.wrong[0])
    assert answered.requested[asked:] == []
    assert answered.evaluate("Object.keys(localStorage)") == stored
    assert answered.context.cookies() == []


def test_it_works_after_going_back(answered):
    answered.locator(".md-footer__link--prev").click()
    answered.wait_for_url(lambda url: "/self-test/" not in url)
    answered.go_back()
    choose(answered, FIRST, FIRST.right)
    assert answered.locator(f"#{FIRST.id} form").get_by_role("status").inner_text() == "Right."
    assert answered.locator(".wq-progress ol").count() == 1


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


def test_on_paper_questions_come_first_and_answers_after_them(answered):
    answered.emulate_media(media="print")
    assert answered.locator(".wq-question details:visible, .wq-progress:visible").count() == 0
    key = answered.locator(".wq-key > ol > li")
    assert key.count() == len(QUESTIONS)
    last, first = answered.locator(".wq-question").last.bounding_box(), key.first.bounding_box()
    assert first["y"] > last["y"] + last["height"]
    assert answered.locator(".wq-key").evaluate("e => getComputedStyle(e).breakBefore") == "page"
