"""Diagrams as a reader meets them: in both schemes, and read aloud. test_every_page has more."""

import pytest

from qkv import example
from qkv_site.parts import diagrams
from support import ROOT, thorough

WHICH = "/start/which-q/"


def test_a_rectangle_has_the_colour_of_its_role(shared, chromium, origin):
    dark = chromium.new_page(base_url=origin, color_scheme="dark")
    dark.goto(WHICH)
    seen = set()
    for page in (shared(WHICH), dark):
        box = '.wq-diagram:visible [data-role="X_Q"]'
        block = page.locator(f"{box} .wq-block").first
        edge = block.evaluate("e => getComputedStyle(e).outlineColor")
        letter = page.locator(".wq-formula:visible .role-source").first
        assert edge == letter.evaluate("e => getComputedStyle(e).color")
        seen.add(edge)
    assert len(seen) == 2
    dark.close()


def test_a_heat_map_is_a_table_with_a_name(page):
    page.goto("/explanation/rows-or-columns/")
    table = page.get_by_role("table", name="Over the keys: each row sums to one.")
    assert tuple(table.get_by_role("columnheader").all_inner_texts()) == example.words
    for row in table.locator("tbody").get_by_role("row").all():
        numbers = [float(text) for text in row.get_by_role("cell").all_inner_texts()]
        assert sum(numbers) == pytest.approx(1, abs=0.026)


@pytest.mark.parametrize(
    ("formula", "seen"),
    [
        ("(X_Q @ W_Q[i]).T  # turned", ["visible"]),
        (
            "Q[i].T == W_Q[i].T @ X_Q.T\n== (X_Q @ W_Q[i]).T  # turned",
            ["hidden", "visible", "visible"],
        ),
    ],
)
def test_the_sign_before_the_first_side_is_hidden_and_no_other(chromium, formula, seen):
    page = chromium.new_page()
    page.set_content(diagrams.block(formula, "site"))
    page.add_style_tag(path=ROOT / "docs" / "assets" / "formulas.css")
    signs = page.locator(".wq-side > .wq-sign")
    how = signs.evaluate_all("all => all.map(sign => getComputedStyle(sign).visibility)")
    assert how == seen
    page.close()


@pytest.mark.parametrize("width", [768, 1280])
@pytest.mark.parametrize(
    "address", ["explanation/decoding-step", *thorough("start/how-many-matrices", "start/which-q")]
)
def test_a_drawing_begins_where_the_text_does(page, address, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"/{address}/")
    lefts = page.evaluate(
        """() => [".md-content__inner > p", ".wq-drawn", ".wq-diagram > figcaption"].map(
          each => Math.round(document.querySelector(each).getBoundingClientRect().left))"""
    )
    assert max(lefts) - min(lefts) <= 1, lefts
