"""How a statement is known, in a browser: at the foot of its page, and from addresses of old."""

import pytest

from browser.watching import until
from qkv_site.markdown import evidence
from qkv_site.page import Site
from support import thorough

TEST = "test-keras-takes-query-value-key-in-this-order"
STATEMENT = "the-two-qs-differ"


@pytest.fixture(params=[True, *thorough(False)], ids=["with scripts", "without scripts"])
def visitor(request, chromium, origin):
    """A reader's page."""
    page = chromium.new_page(base_url=origin, java_script_enabled=request.param)
    yield page
    page.close()


def address(place):
    page = place[0].removesuffix(".md").removesuffix("index").rstrip("/")
    return f"/{page}/#{place[1]}"


def test_a_link_to_a_test_opens_the_fold_that_it_stands_in(visitor):
    visitor.goto(address(evidence.known(Site()).places[TEST]))
    entry = visitor.locator(f"#{TEST}")
    entry.wait_for(state="visible")
    until(visitor, "scrollY > 0")  # the browser scrolls
    header = visitor.locator(".md-header").bounding_box()
    top = entry.bounding_box()["y"]
    assert header["y"] + header["height"] <= top < visitor.viewport_size["height"]


def test_the_mark_of_a_statement_opens_how_it_is_known(page):
    page.goto(address(evidence.known(Site()).places[STATEMENT]))
    page.locator(f"#claim-{STATEMENT} > p .wq-claim__mark").click()
    page.locator("#how-it-is-known summary").wait_for(state="visible")
    until(page, "document.querySelector('#how-it-is-known').open")


@pytest.mark.parametrize("old", [TEST, STATEMENT, f"claim-{STATEMENT}"])
def test_an_address_of_the_time_when_all_stood_on_one_page_leads_to_its_place(page, old):
    page.goto(f"/claims/#{old}")
    place = evidence.known(Site()).places[old.removeprefix("claim-")]
    page.wait_for_url(f"**{address(place)}")


def test_a_statement_of_a_page_that_ended_is_found(page):
    page.goto(f"/letters/?notation=d2l#claim-{STATEMENT}")
    place = address(evidence.known(Site()).places[STATEMENT]).replace("#", "?notation=d2l#")
    page.wait_for_url(f"**{place}")
