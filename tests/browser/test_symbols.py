"""A letter that is pointed at: what lights up, and the label that says what it is."""

import pytest

from forms import letters
from support import thorough

LABEL = ".wq-label"
# Points at each letter in turn; where its label covers it or leaves the screen.
COVERED = """async () => {
  const wrong = [], label = document.querySelector(".wq-label")
  const symbols = [...document.querySelectorAll("article [data-role]")]
    .filter(e => e.checkVisibility() && !e.closest("li[data-role]"))
  for (const symbol of symbols.slice(0, 60)) {
    symbol.scrollIntoView({block: symbols.indexOf(symbol) % 2 ? "center" : "start"})
    await new Promise(requestAnimationFrame)
    symbol.dispatchEvent(new PointerEvent("pointerover", {bubbles: true}))
    while (label.hidden) await new Promise(done => setTimeout(done, 5))
    const it = symbol.getBoundingClientRect(), its = label.getBoundingClientRect()
    const apart = its.bottom <= it.top || its.top >= it.bottom
    if (!apart || its.left < 0 || its.right > document.documentElement.clientWidth)
      wrong.push([symbol.outerHTML, {...it}, {...its}])
    document.body.dispatchEvent(new PointerEvent("pointerover", {bubbles: true}))
  }
  return [symbols.length, wrong]
}"""
BUBBLE = ".md-tooltip2--active .md-tooltip2__inner"
# How a bubble is set: its letters, its edge, whether the text shines through, and where it ends.
SET = """bubble => {
  const set = getComputedStyle(bubble), { left, right } = bubble.getBoundingClientRect()
  const colours = [set.borderTopColor, set.backgroundColor]
  return {
    size: parseFloat(set.fontSize), weight: set.fontWeight, edge: parseFloat(set.borderTopWidth),
    apart: new Set([...colours, getComputedStyle(document.body).backgroundColor]).size,
    opaque: !colours.some(colour => colour.startsWith("rgba")),
    inside: left >= 0 && right <= document.documentElement.clientWidth,
  }
}"""
READABLE = {"weight": "400", "apart": 3, "opaque": True, "inside": True}


@pytest.fixture
def label(page):
    return page.locator(LABEL)


def words(label):
    label.wait_for()
    return letters(label.text_content())


def test_a_label_says_role_and_shape_as_the_source_has_it(page, label):
    page.goto("/explanation/which-q/?notation=ng-multi-head")
    page.locator('.wq-diagram [data-role="W_Q[i]"]:visible').first.hover()
    assert words(label) == "onehead'sweightforqueries,dk×dmodel"
    page.locator('[data-of="paper-3-2-2"] [data-role="W_Q[i]"]:visible').first.hover()
    assert words(label) == "onehead'sweightforqueries,dmodel×dk"
    assert page.wrong == []


def test_a_letter_lights_up_wherever_it_stands(page, label):
    page.goto("/explanation/which-q/")
    page.locator('.wq-formula math [data-role="W_Q[i]"]:visible').first.hover()
    alike = page.locator('[data-role="W_Q[i]"]')
    assert alike.count() > 3
    assert page.locator(".wq-same").count() == alike.count()


def test_a_borrowed_letter_is_said_to_be_this_sites(page, label):
    page.goto("/explanation/which-q/?notation=ng-multi-head")
    page.locator("article .wq-borrowed:visible").first.hover()
    assert words(label).endswith("(thissite'sletter)")


@pytest.mark.parametrize("width", [320, *thorough(1280)])
def test_a_label_covers_no_letter_and_stays_on_the_screen(page, width):
    page.set_viewport_size({"width": width, "height": 700})
    page.goto("/explanation/which-q/")
    page.evaluate("document.fonts.ready.then(() => true)")
    seen, wrong = page.evaluate(COVERED)
    assert seen > 40
    assert wrong == []


def test_escape_hides_it_and_the_pointer_may_move_onto_it(page, label):
    page.goto("/explanation/which-q/")
    page.locator(".wq-formula math [data-role]:visible").first.hover()
    label.wait_for()
    label.hover()
    assert label.is_visible()
    page.keyboard.press("Escape")
    assert not label.is_visible()
    assert page.locator(".wq-same").count() == 0


def test_a_tap_shows_it_and_another_hides_it(chromium, origin):
    phone = {"width": 390, "height": 844}
    page = chromium.new_page(base_url=origin, has_touch=True, viewport=phone)
    page.goto("/explanation/which-q/")
    page.locator(".wq-formula math [data-role]:visible").first.tap()
    page.locator(LABEL).wait_for()
    page.locator("h1").tap()
    assert not page.locator(LABEL).is_visible()
    page.close()


def test_an_entry_of_a_legend_is_its_own_label_from_the_keyboard(page, label):
    page.goto("/explanation/which-q/")
    entry = page.locator(".wq-where li:visible").first
    entry.focus()
    assert page.locator(".wq-same").count() > 1
    assert not label.is_visible()
    page.keyboard.press("Escape")
    assert page.locator(".wq-same").count() == 0


@pytest.mark.parametrize("scripts", [True, False])
def test_one_key_of_colours_stands_below_the_first_figure(chromium, origin, scripts):
    page = chromium.new_page(base_url=origin, java_script_enabled=scripts)
    page.goto("/explanation/which-q/")
    key = page.locator(".wq-colours")
    assert key.count() == 1
    assert page.locator(":is(.wq-formula, .wq-diagrams) + .wq-colours").count() == 1
    assert page.locator(".wq-colours ~ :is(.wq-formula, .wq-diagrams)").count() > 0
    assert key.get_by_text("goes in: source").is_visible()
    assert key.get_by_text("a letter to see its name").is_visible() == scripts
    edges = key.locator(".wq-swatch").evaluate_all(
        "all => all.map(e => getComputedStyle(e).outlineStyle)"
    )
    assert edges == ["dashed", *["solid"] * 5]
    page.close()


def test_the_key_names_what_is_drawn_and_in_other_letters_what_these_write(page):
    page.goto("/explanation/decoding-step/")
    key = page.locator(".wq-colours")
    assert key.get_by_text("projected: queries keys values").is_visible()
    assert key.get_by_text("then computed: scores and attention weights").is_visible()
    assert not key.get_by_text("learned: weight").is_visible()
    page.goto("/explanation/decoding-step/?notation=ng-multi-head")
    assert key.get_by_text("learned: weight").is_visible()


@pytest.mark.parametrize("width", [320, 390, 768])
def test_a_product_of_letters_and_the_sizes_of_a_matrix_stay_on_one_line(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.goto("/explanation/ov-circuit/")
    lines = page.locator("article .wq-together:visible").evaluate_all(
        "all => all.map(e => new Set([...e.getClientRects()].map(line => line.top)).size)"
    )
    assert len(lines) > 5
    assert {*lines} == {1}


def test_a_letter_is_set_in_the_list_of_pages_too(page):
    page.goto("/explanation/decoding-step/")
    name = page.locator('.md-nav a[href$="/what-trains-w-q/"]').first
    assert name.locator(".wq-typed sup").text_content() == "Q"
    sizes = name.evaluate(
        """link => [link, link.querySelector(".wq-typed")].map(e => getComputedStyle(e))
          .map(({ fontSize, color }) => `${fontSize} ${color}`)"""
    )
    assert sizes[0] == sizes[1]


def test_no_gap_stands_between_a_root_and_what_follows_it(page):
    page.goto("/explanation/worked-example/")
    root = page.locator("p:not(figure p) > span > math:has(> msqrt:only-child)").first
    gap = root.evaluate(
        """math => {
          const after = document.createRange()
          after.setStart(math.parentElement.nextSibling, 0)
          after.setEnd(math.parentElement.nextSibling, 1)
          const under = math.querySelector("msqrt > *").getBoundingClientRect()
          return after.getBoundingClientRect().left - under.right
        }"""
    )
    assert -1 < gap < 3


def bubble(page, word):
    """Point at a word until it answers: the script comes to it when it is on the screen."""
    for _ in range(20):
        page.mouse.move(0, 0)
        word.hover()
        page.wait_for_timeout(500)
        if page.locator(BUBBLE).count():
            return page.locator(BUBBLE)
    raise AssertionError(f"{page.url}: no bubble")


@pytest.mark.parametrize("scheme", ["light", *thorough("dark")])
@pytest.mark.parametrize("width", [390, *thorough(1280)])
@pytest.mark.parametrize("path", ["decoding-step", *thorough("rope-and-qk-norm")])
def test_the_bubble_of_a_word_is_as_easy_to_read_as_the_text(page, scheme, width, path):
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    page.goto(f"/explanation/{path}/")
    found = bubble(page, page.locator("article abbr").first).evaluate(SET)
    assert found.pop("size") >= 15
    assert found.pop("edge") >= 1
    assert found == READABLE


def test_a_letter_and_a_word_have_the_same_bubble(page, label):
    page.goto("/explanation/rope-and-qk-norm/")
    page.locator("article .wq-diagram [data-role]:visible").first.hover()
    label.wait_for()
    of_letter = label.evaluate(SET)
    assert bubble(page, page.locator("article abbr").first).evaluate(SET) == of_letter
