"""The built site in a real browser: its faces, its column, with no scripts."""

import pytest

from support import thorough

# Of each paragraph without a formula: how many of its letters a whole line holds.
LETTERS = """[...document.querySelectorAll("article > p:not([class])")]
  .filter(p => !p.querySelector("math, code")).map(p => {
    const pen = document.createElement("canvas").getContext("2d")
    const style = getComputedStyle(p)
    pen.font = `${style.fontSize} ${style.fontFamily}`
    return p.clientWidth * p.innerText.length / pen.measureText(p.innerText).width
  })"""


def test_formulas_are_drawn_in_the_mathematical_font(page, origin):
    page.goto("/")
    page.evaluate("document.fonts.ready.then(() => true)")
    assert f"{origin}/assets/fonts/math.woff2" in page.requested
    assert page.evaluate("document.fonts.check('16px \"STIX Two Math\"', '\\u{1D444}\\u221A')")
    used = page.evaluate("getComputedStyle(document.querySelector('math mi')).fontFamily")
    assert used.startswith('"STIX Two Math"')


@pytest.mark.parametrize(
    "path", ["/start/which-q/", *thorough("/libraries/keras/", "/explanation/widths/")]
)
def test_code_stands_on_a_phones_column_of_text_and_output_is_whole(page, path):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(path)
    boxes = ".md-content__inner > :is(p, .highlight)"
    sides = "all => all.map(e => e.getBoundingClientRect()).map(box => `${box.left} ${box.right}`)"
    assert len({*page.locator(boxes).evaluate_all(sides)}) == 1
    output = page.locator(".language-text code:visible")
    assert output.count() > 0
    assert output.evaluate_all("all => all.every(e => e.scrollWidth <= e.clientWidth)")
    assert page.locator(".language-text button:visible").count() == 0


@pytest.mark.parametrize("width", [390, *thorough(1280)])
def test_a_side_of_an_equation_stands_in_one_line(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.goto("/start/how-many-matrices/")
    lines = "all => all.map(e => e.offsetTop + e.offsetHeight / 2)"
    for side in page.locator(".wq-side").all():
        middles = side.locator("> :not(.wq-note)").evaluate_all(lines)
        assert max(middles) - min(middles) < 12


@pytest.mark.parametrize(
    ("width", "least"), [(390, 40), *thorough((768, 60), (1280, 60), (1920, 60))]
)
def test_a_line_holds_as_many_letters_as_are_read_with_ease(page, width, least):
    page.set_viewport_size({"width": width, "height": 900})
    for address in ("/explanation/widths/", "/explanation/biases/", "/explore/", "/self-test/"):
        page.goto(address)
        letters = page.evaluate(LETTERS)
        assert letters
        assert least <= min(letters) <= max(letters) <= 75, address


def test_pages_can_be_read_without_scripts(chromium, origin):
    page = chromium.new_page(base_url=origin, java_script_enabled=False)
    page.goto("/")
    assert page.locator("article math").first.is_visible()
    assert page.get_by_role("heading", level=1).inner_text().startswith("One video says")
    page.close()
