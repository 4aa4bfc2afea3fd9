"""Diagrams as a reader meets them: in both schemes, and read aloud. test_every_page has more."""

import pytest

from browser.watching import until
from qkv import example


def test_a_rectangle_has_the_colour_of_its_role(shared):
    page = shared("/start/which-q/")
    seen = set()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        until(
            page, "d => (document.body.dataset.mdColorScheme === 'slate') === d", scheme == "dark"
        )
        block = page.locator('.wq-diagram:visible [data-role="X_Q"] .wq-block').first
        edge = block.evaluate("e => getComputedStyle(e).outlineColor")
        letter = page.locator(".wq-formula:visible .role-source").first
        assert edge == letter.evaluate("e => getComputedStyle(e).color")
        seen.add(edge)
    assert len(seen) == 2


def test_a_heat_map_is_a_table_with_a_name(page):
    page.goto("/explanation/rows-or-columns/")
    table = page.get_by_role("table", name="Over the keys: each row sums to one.")
    assert tuple(table.get_by_role("columnheader").all_inner_texts()) == example.words
    for row in table.locator("tbody").get_by_role("row").all():
        numbers = [float(text) for text in row.get_by_role("cell").all_inner_texts()]
        assert sum(numbers) == pytest.approx(1, abs=0.026)
