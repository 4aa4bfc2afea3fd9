"""An address leads to its place: in a row, in a fold, in a tab, and from addresses of old."""

import pytest

from browser.watching import WITHOUT_SCRIPTS, until
from qkv_site.markdown import evidence
from qkv_site.page import Site
from support import thorough

TEST = "test-keras-takes-query-value-key-in-this-order"
STATEMENT = "the-two-qs-differ"
ROWS = """[...document.querySelectorAll(".wq-layouts > details[open]")].map(fold => {
  while (fold.localName !== "h3") fold = fold.previousElementSibling
  return fold.id
})"""
TABS = """[...document.querySelectorAll(".tabbed-set")].map(set =>
  set.querySelector(`label[for="${set.querySelector(":checked").id}"]`).innerText.trim())"""


def address(name):
    page, part = evidence.known(Site()).places[name]
    return f"/{page.removesuffix('.md').removesuffix('index').rstrip('/')}/#{part}"


@pytest.mark.parametrize("place", ["#falcon", "#falcon-traps"])
def test_an_address_unfolds_its_row_alone(page, place):
    page.goto(f"/libraries/{place}")
    until(page, "document.querySelector('#falcon-traps').offsetHeight > 0")
    assert page.evaluate(ROWS) == ["falcon"]
    page.evaluate("location.hash = 'timm'")
    until(page, "document.querySelector('#timm-traps').offsetHeight > 0")
    assert page.wrong == []


def test_a_page_that_ended_leads_to_its_row(page):
    page.goto("/libraries/megatron/#traps")
    until(page, "location.hash === '#megatron-traps'")
    until(page, "document.querySelector('#megatron-traps').offsetHeight > 0")
    assert page.evaluate(ROWS) == ["megatron"]
    page.goto("/libraries/")
    assert page.evaluate(ROWS) == []
    assert page.wrong == []


@pytest.mark.parametrize("settings", [{}, *thorough(WITHOUT_SCRIPTS)])
def test_a_link_to_a_test_opens_the_fold_that_it_stands_in(visit, settings):
    page = visit(address(TEST), **settings)
    entry = page.locator(f"#{TEST}")
    entry.wait_for(state="visible")
    until(page, "scrollY > 0")  # the browser scrolls
    header = page.locator(".md-header").bounding_box()
    top = entry.bounding_box()["y"]
    assert header["y"] + header["height"] <= top < page.viewport_size["height"]


def test_the_mark_of_a_statement_opens_how_it_is_known(page):
    page.goto(address(STATEMENT))
    page.locator(f"#claim-{STATEMENT} > p .wq-claim__mark").click()
    page.locator("#how-it-is-known summary").wait_for(state="visible")
    until(page, "document.querySelector('#how-it-is-known').open")


@pytest.mark.parametrize(
    ("old", "name", "query"),
    [
        (f"/claims/#{TEST}", TEST, ""),
        (f"/claims/#{STATEMENT}", STATEMENT, ""),
        (f"/claims/#claim-{STATEMENT}", STATEMENT, ""),
        (f"/letters/?notation=d2l#claim-{STATEMENT}", STATEMENT, "?notation=d2l"),
    ],
)
def test_an_address_of_when_all_stood_on_one_page_leads_to_its_place(page, old, name, query):
    page.goto(old)
    page.wait_for_url(f"**{address(name).replace('#', f'{query}#')}")


def choose(page, title):
    page.locator(".tabbed-labels label", has_text=title).first.click()


def test_who_chooses_a_framework_has_chosen_it_on_all_pages(page):
    page.goto("/how-to/masks/")
    assert page.evaluate(TABS) == ["NumPy"]
    choose(page, "PyTorch")
    assert page.evaluate(TABS) == ["PyTorch"]
    assert page.get_by_text("torch.allclose(before").first.is_visible()
    page.goto("/libraries/pytorch/")
    assert page.evaluate(TABS) == ["PyTorch"]
    page.goto("/libraries/flax/")
    choose(page, "Flax")
    page.goto("/start/which-q/")
    assert page.evaluate(TABS) == ["PyTorch"]  # there is no Flax: the choice before it
    page.goto("/libraries/flax/")
    assert page.evaluate(TABS) == ["Flax"]
    # An address in a tab opens the tab, and is no choice.
    page.goto("/how-to/masks/#claim-masked-keys-have-no-effect")
    until(page, "document.querySelector('#claim-masked-keys-have-no-effect').offsetHeight > 0")
    assert page.evaluate(TABS) == ["NumPy"]
    assert page.locator("#claim-masked-keys-have-no-effect").bounding_box()["y"] < 200
    page.goto("/libraries/flax/")
    assert page.evaluate(TABS) == ["Flax"]
    assert page.wrong == []


def test_a_tab_opens_without_scripts(visit):
    page = visit("/start/which-q/", viewport={"width": 390, "height": 800}, **WITHOUT_SCRIPTS)
    code = page.get_by_text("from keras import ops")
    assert not code.is_visible()
    choose(page, "Keras")
    assert code.is_visible()
