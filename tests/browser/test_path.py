"""The path: a reader comes back to where they were, and needs no script to go on."""

from browser.watching import WITHOUT_SCRIPTS
from qkv_site import menu
from qkv_site.page import Site


def test_the_home_page_marks_the_page_that_was_opened_last(page):
    page.goto("/")
    assert page.locator(".wq-path-here").count() == 0
    for name in ("columns-or-rows", "one-head"):
        page.goto(f"/start/{name}/")
    page.goto("/explanation/")
    page.goto("/")
    here = page.locator(".wq-path li", has=page.locator(".wq-path-here"))
    assert here.get_by_role("link").get_attribute("href") == "start/one-head/"
    assert page.wrong == []


def test_without_scripts_each_page_can_be_read_and_leads_to_the_next(visit):
    page = visit("/", **WITHOUT_SCRIPTS)
    assert page.locator("article math").first.is_visible()
    assert page.get_by_role("heading", level=1).is_visible()
    page.locator("ol.wq-path a").first.click()
    seen = [page.url]
    while (following := page.locator("p.wq-path a")).count():
        following.click()
        page.wait_for_url(lambda url: url != seen[-1])
        seen.append(page.url)
    assert seen[-1].endswith("/self-test/")
    assert len(seen) == len(menu.path(Site()))
