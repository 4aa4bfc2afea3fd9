"""The self-test in a browser: marked on the spot, by keyboard too, and without a trace."""

import pytest

from qkv_site.generated import self_test

QUESTIONS = self_test.questions()
FIRST = QUESTIONS[0]


@pytest.fixture
def test(page):
    """The page of the self-test."""
    page.goto("/self-test/")
    return page


def choose(page, question, choice):
    asked = page.locator(f"#{question.id}")
    asked.get_by_role("radio").nth(question.choices.index(choice)).check()
    asked.get_by_role("button", name="Check").click()
    return asked


def test_every_answer_is_marked(test):
    for question in QUESTIONS:
        for wrong in question.wrong:
            status = choose(test, question, wrong).get_by_role("status")
            assert status.inner_text().startswith("Not this one. Read again: ")
        asked = choose(test, question, question.answer)
        assert asked.get_by_role("status").inner_text() == "Right."
        assert asked.locator("details").get_attribute("open") is not None
    result = test.get_by_role("region", name="Result")
    assert result.locator("p").first.inner_text() == f"{len(QUESTIONS)} of {len(QUESTIONS)} right."
    pages = {question.page.partition("#")[0] for question in QUESTIONS}
    assert result.get_by_role("link").count() == len(pages)
    assert test.wrong == []


def test_a_wrong_answer_leads_to_the_page_to_read_again(test):
    asked = choose(test, FIRST, FIRST.wrong[0])
    assert asked.locator("details").get_attribute("open") is None
    link = asked.get_by_role("status").get_by_role("link")
    result = test.get_by_role("region", name="Result")
    assert result.inner_text().startswith(f"0 of {len(QUESTIONS)} right.")
    assert result.get_by_role("link").inner_text() == link.inner_text()
    link.click()
    page, _, heading = FIRST.page.partition("#")
    test.wait_for_url(f"**/{page.removesuffix('.md')}/#{heading}")
    assert test.locator(f"#{heading}").is_visible()


def test_another_choice_takes_the_mark_away(test):
    asked = choose(test, FIRST, FIRST.answer)
    asked.get_by_role("radio").nth(FIRST.choices.index(FIRST.wrong[0])).check()
    assert asked.get_by_role("status").inner_text() == ""
    assert test.get_by_role("region", name="Result").inner_text().startswith("0 of")


def test_no_choice_is_not_marked(test):
    asked = test.locator(f"#{FIRST.id}")
    asked.get_by_role("button", name="Check").click()
    assert asked.get_by_role("status").inner_text() == ""


def test_it_works_from_the_keyboard(test):
    asked = test.locator(f"#{FIRST.id}")
    asked.get_by_role("radio").first.focus()
    test.keyboard.press("Space")
    for _ in range(FIRST.choices.index(FIRST.answer)):
        test.keyboard.press("ArrowDown")
    assert asked.get_by_role("status").inner_text() == ""
    test.keyboard.press("Tab")
    test.keyboard.press("Enter")
    assert asked.get_by_role("status").inner_text() == "Right."


def test_each_question_names_its_group_of_answers(test):
    for number in range(len(QUESTIONS)):
        group = test.get_by_role("group").and_(test.locator("fieldset")).nth(number)
        names = [radio.evaluate("radio => radio.labels[0].innerText.trim()")
                 for radio in group.get_by_role("radio").all()]  # fmt: skip
        assert group.locator("legend").inner_text()
        assert len(set(names)) == len(names) == len(QUESTIONS[number].choices)


def test_nothing_is_sent_or_stored(test):
    test.wait_for_load_state("networkidle")
    asked, stored = len(test.requested), test.evaluate("Object.keys(localStorage)")
    for question in QUESTIONS:
        choose(test, question, question.answer)
    assert test.requested[asked:] == []
    assert test.evaluate("Object.keys(localStorage)") == stored
    assert test.context.cookies() == []


def test_it_works_after_instant_navigation(page):
    page.goto("/self-test/")
    page.locator(".md-footer__link--prev").click()
    page.wait_for_url(lambda url: "/self-test/" not in url)
    page.go_back()
    choose(page, FIRST, FIRST.answer)
    assert page.locator(f"#{FIRST.id}").get_by_role("status").inner_text() == "Right."
    assert page.locator(".wq-result").count() == 1


def test_without_scripts_each_answer_is_in_a_fold_out(chromium, origin):
    context = chromium.new_context(java_script_enabled=False, base_url=origin)
    page = context.new_page()
    page.goto("/self-test/")
    assert page.locator(".wq-question :is(input, button):visible").count() == 0
    for question in QUESTIONS:
        asked = page.locator(f"#{question.id}")
        assert asked.locator("li:visible").count() == len(question.choices)
        asked.locator("summary").click()
        assert asked.locator("details strong").first.is_visible()
    context.close()
