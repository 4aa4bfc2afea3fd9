"""The ledger in a browser: filtered by kind, and opened at the test that a link names."""

import pytest

from browser.watching import until
from qkv_site.markdown import claims
from support import thorough

# Lists that leave a gap: they are shown, and nothing in them.
EMPTY = """[...document.querySelectorAll("article ul")].filter(
  list => list.checkVisibility() && ![...list.children].some(e => e.checkVisibility())).length"""


@pytest.fixture(params=[True, *thorough(False)], ids=["with scripts", "without scripts"])
def visitor(request, chromium, origin):
    """A reader's page."""
    page = chromium.new_page(base_url=origin, java_script_enabled=request.param)
    yield page
    page.close()


def shown(page, kind):
    return page.locator(f'[data-kind="{kind}"]:is(li, details):visible').count()


def test_the_ledger_shows_one_kind_of_evidence_or_all(visitor):
    visitor.goto("/claims/")
    numbers = {kind: shown(visitor, kind) for kind in claims.KINDS}
    assert min(numbers.values()) > 10
    for chosen in claims.KINDS:
        visitor.get_by_role("radio", name=chosen).check()
        for kind, number in numbers.items():
            assert shown(visitor, kind) == (number if kind == chosen else 0)
        assert visitor.evaluate(EMPTY) == 0
        entries = visitor.locator("[data-kind]:visible")
        assert visitor.locator("[data-kinds]:visible").filter(has_not=entries).count() == 0
        assert visitor.locator("#libraries").is_visible() == (chosen == "run")
    visitor.get_by_role("radio", name="all").check()
    assert {kind: shown(visitor, kind) for kind in claims.KINDS} == numbers


def test_it_counts_what_is_shown_and_no_link_leads_to_what_is_hidden(page):
    page.goto("/claims/?kind=read")
    assert page.get_by_role("radio", name="read").is_checked()
    status = page.locator(".wq-kinds [role=status]")
    everything = page.locator("[data-kind]:is(li, details)").count()
    assert status.inner_text() == f"{shown(page, 'read')} of {everything} entries"
    to_libraries = page.locator(".md-nav--secondary [href$='#libraries']")
    assert to_libraries.is_hidden()
    page.evaluate("location.hash = 'libraries'")  # the address names what this kind hides
    until(page, "document.querySelector('#libraries').checkVisibility()")
    assert status.inner_text() == f"{everything} entries"
    assert to_libraries.is_visible()
    assert page.url.endswith("/claims/#libraries")
    page.get_by_role("radio", name="run").check()
    assert "?kind=run" in page.url


def test_a_link_to_a_test_opens_its_code_below_its_statement(visitor):
    name = "test-keras-takes-query-value-key-in-this-order"
    visitor.goto(f"/claims/#{name}")
    code = visitor.locator(f"#{name}")
    code.wait_for(state="visible")
    statement = code.locator("xpath=ancestor::details/summary")
    until(visitor, "scrollY > 0")  # the browser scrolls
    header = visitor.locator(".md-header").bounding_box()
    top = statement.bounding_box()["y"]
    assert header["y"] + header["height"] <= top < visitor.viewport_size["height"]
