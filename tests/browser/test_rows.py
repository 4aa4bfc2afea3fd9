"""The rows of the page of all layouts: an address unfolds the row that it leads to."""

import pytest

from browser.watching import until

OPEN = """[...document.querySelectorAll(".wq-layouts > details[open]")].map(fold => {
  while (fold.localName !== "h3") fold = fold.previousElementSibling
  return fold.id
})"""


@pytest.mark.parametrize("address", ["/libraries/#falcon", "/libraries/#falcon-traps"])
def test_an_address_unfolds_its_row_alone(page, address):
    page.goto(address)
    until(page, "document.querySelector('#falcon-traps').offsetHeight > 0")
    assert page.evaluate(OPEN) == ["falcon"]
    page.evaluate("location.hash = 'timm'")
    until(page, "document.querySelector('#timm-traps').offsetHeight > 0")
    assert page.wrong == []


def test_a_page_that_ended_leads_to_its_row(page):
    page.goto("/libraries/megatron/#traps")
    until(page, "location.hash === '#megatron-traps'")
    until(page, "document.querySelector('#megatron-traps').offsetHeight > 0")
    assert page.evaluate(OPEN) == ["megatron"]
    page.goto("/libraries/")
    assert page.evaluate(OPEN) == []
    assert page.wrong == []
