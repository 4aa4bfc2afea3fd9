"""A printed page: its text with every fold-out open, nothing to click, nothing cut."""

import pytest

from support import thorough

# What is there to move about, and to press.
FURNITURE = [".md-header", ".md-sidebar", ".md-tabs", ".md-footer", ".md-top", ".md-code__nav",
             ".wq-box", ".headerlink", ".wq-notation", ".wq-notebook", "button"]  # fmt: skip
CHOICE = "[data-wq-notation]"
PAPER = {"width": 640, "height": 900}  # A4 at 96 dots an inch, without its margins

SCREENS = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "without scripts": {"java_script_enabled": False},
}


@pytest.fixture(
    scope="module",
    params=[
        ("biases", "light"),
        ("biases", "without scripts"),
        *thorough(*((("word-order", screen),) for screen in SCREENS)),
    ],
)
def printed(request, chromium, origin):
    """A page as it is printed, from any screen."""
    name, screen = request.param
    page = chromium.new_page(base_url=origin, viewport=PAPER, **SCREENS[screen])
    page.emulate_media(media="print")
    page.goto(f"/explanation/{name}/")
    yield page
    page.close()


def test_a_page_stands_alone_with_everything_folded_out(printed):
    assert [name for name in FURNITURE if printed.locator(f"{name}:visible").count()] == []
    folded = printed.locator("details:visible")
    assert folded.count() >= 2
    for fold in folded.all():
        assert fold.locator(":is(p, li, pre):visible").count()
        assert fold.evaluate("it => it.clientHeight > 2 * it.querySelector('summary').clientHeight")


def test_ink_is_dark_and_links_are_told_from_text(printed):
    style = "it => [getComputedStyle(it).color, getComputedStyle(it).textDecorationLine]"
    ink, _ = printed.locator("article p").first.evaluate(style)
    link, line = printed.locator("article p a").first.evaluate(style)
    assert max(map(int, ink.removeprefix("rgb(").removesuffix(")").split(","))) < 64
    assert link != ink
    assert line == "underline"


def test_formulas_are_printed_in_the_chosen_notation(page):
    page.goto("/explanation/scaling/")
    letters = set()
    for notation in ("site", "ng-multi-head"):
        page.emulate_media(media="screen")
        page.locator(CHOICE).select_option(notation)
        shown = page.locator(".wq-formula > [data-in]:visible").first
        on_the_screen = shown.text_content()
        page.emulate_media(media="print")
        assert not page.locator(CHOICE).is_visible()
        assert notation in shown.get_attribute("data-in").split()
        assert shown.text_content() == on_the_screen
        letters.add(shown.locator("math").first.text_content())
    assert len(letters) == 2


def test_no_page_ends_with_a_heading(printed):
    headings = printed.locator("article :is(h1, h2, h3, summary)")
    after = headings.evaluate_all("all => all.map(it => getComputedStyle(it).breakAfter)")
    assert {*after} == {"avoid"}
