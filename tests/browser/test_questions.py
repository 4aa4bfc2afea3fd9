"""The index of questions is filtered by what is typed."""

import pytest


@pytest.fixture
def index(shared):
    """The index, where nothing is typed yet."""
    page = shared("/questions/")
    yield page
    page.get_by_role("searchbox").fill("")


def shown(index):
    return index.locator("article > ul > li:visible").count()


def test_typed_words_filter_the_questions_and_their_headings(index):
    field = index.get_by_role("searchbox", name="Show the questions")
    everything = index.locator("article > ul > li").count()
    assert shown(index) == everything
    field.fill("key_dim keras")
    assert 0 < shown(index) < 5
    status = index.locator(".wq-filter [role=status]")
    assert "these words" in status.inner_text()
    headings = index.locator("article > :is(h2, h3):visible").all_inner_texts()
    assert 0 < len(headings) <= 2 * shown(index)
    field.fill("")
    assert shown(index) == everything
    assert status.inner_text() == ""


@pytest.mark.parametrize("typed", ["W_1^Q", "W1Q", "w_1^q course"])
def test_a_formula_is_found_as_it_is_typed(index, typed):
    index.get_by_role("searchbox").fill(typed)
    assert "One lecture has" in index.locator("article > ul > li:visible").first.inner_text()


def test_a_part_of_a_name_is_found(index):
    index.get_by_role("searchbox").fill("proj weight")
    found = index.locator("article > ul > li:visible").all_inner_texts()
    assert any("in_proj_weight" in each for each in found)


def test_if_no_question_has_all_words_those_with_most_are_shown(index):
    index.get_by_role("searchbox").fill("RoPE zeppelin")
    assert 0 < shown(index) < 20
    said = index.locator(".wq-filter [role=status]")
    assert said.inner_text().startswith("No question has all of these words")
    assert said.get_by_role("link").count() == 1


def test_nothing_found_says_so_and_leads_to_the_search(index):
    index.get_by_role("searchbox").fill("zeppelin")
    assert shown(index) == 0
    assert index.locator("article > :is(h2, h3):visible").count() == 0
    said = index.locator(".wq-filter [role=status]")
    assert said.inner_text().startswith("No question has these words.")
    assert said.get_by_role("link").get_attribute("href") == "?q=zeppelin"


def test_without_a_script_the_list_stands_whole(chromium, origin):
    page = chromium.new_page(base_url=origin, java_script_enabled=False)
    page.goto("/questions/")
    assert shown(page) > 80
    assert not page.locator(".wq-filter").is_visible()
    page.close()
