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
def which_q(shared):
    return shared("/start/which-q/")


def words(page):
    label = page.locator(LABEL)
    label.wait_for()
    return letters(label.text_content())


def test_a_label_says_role_and_shape_as_the_source_has_it_and_what_is_borrowed(page):
    page.goto("/start/which-q/?notation=ng-multi-head")
    page.locator('.wq-diagram [data-role="W_Q[i]"]:visible').first.hover()
    assert words(page) == "onehead'sweightforqueries,dk×dmodel"
    page.locator('[data-of="paper-3-2-2"] [data-role="W_Q[i]"]:visible').first.hover()
    assert words(page) == "onehead'sweightforqueries,dmodel×dk"
    page.locator("article .wq-borrowed:visible").first.hover()
    assert words(page).endswith("(thissite'sletter)")
    assert page.wrong == []


def test_a_letter_lights_up_wherever_it_stands(which_q):
    which_q.locator('.wq-formula math [data-role="W_Q[i]"]:visible').first.hover()
    alike = which_q.locator('[data-role="W_Q[i]"]')
    assert alike.count() > 3
    assert which_q.locator(".wq-same").count() == alike.count()


@pytest.mark.parametrize("width", [320, *thorough(1280)])
def test_a_label_covers_no_letter_and_stays_on_the_screen(which_q, width):
    which_q.set_viewport_size({"width": width, "height": 700})
    which_q.evaluate("document.fonts.ready.then(() => true)")
    seen, wrong = which_q.evaluate(COVERED)
    assert seen > 40
    assert wrong == []


def test_escape_hides_it_and_the_pointer_may_move_onto_it(which_q):
    label = which_q.locator(LABEL)
    which_q.locator(".wq-formula math [data-role]:visible").first.hover()
    label.wait_for()
    label.hover()
    assert label.is_visible()
    which_q.keyboard.press("Escape")
    assert not label.is_visible()
    assert which_q.locator(".wq-same").count() == 0


def test_a_tap_shows_it_and_another_hides_it(chromium, origin):
    phone = {"width": 390, "height": 844}
    page = chromium.new_page(base_url=origin, has_touch=True, viewport=phone)
    page.goto("/")
    page.locator(".wq-formula math [data-role]:visible").first.tap()
    page.locator(LABEL).wait_for()
    page.locator("h1").tap()
    assert not page.locator(LABEL).is_visible()
    page.close()


def test_a_tap_on_a_block_of_the_map_says_what_it_is_and_another_leads_to_its_page(
    chromium, origin
):
    phone = {"width": 390, "height": 844}
    page = chromium.new_page(base_url=origin, has_touch=True, viewport=phone)
    page.goto("/")
    block = page.locator(".wq-map-heard [data-role='W_Q[i]']").first
    block.tap()
    page.locator(LABEL).wait_for()
    assert page.url.rstrip("/") == origin.rstrip("/")
    said = letters(page.locator(LABEL).inner_text())  # as the video has it: a word is a column
    assert said.endswith("forqueries,dk×dmodel")
    block.tap()
    page.wait_for_url("**/start/how-many-matrices/")
    page.close()


def test_an_entry_of_a_legend_is_its_own_label_from_the_keyboard(which_q):
    entry = which_q.locator(".wq-where li:visible").first
    entry.focus()
    assert which_q.locator(".wq-same").count() > 1
    assert not which_q.locator(LABEL).is_visible()
    which_q.keyboard.press("Escape")
    assert which_q.locator(".wq-same").count() == 0


def key_of_colours(page):
    """The one key, which stands below the first figure."""
    key = page.locator(".wq-colours")
    assert key.count() == 1
    assert page.locator(":is(.wq-formula, .wq-diagrams) + .wq-colours").count() == 1
    assert page.locator(".wq-colours ~ :is(.wq-formula, .wq-diagrams)").count() > 0
    assert key.get_by_text("goes in: source").is_visible()
    edges = key.locator(".wq-swatch").evaluate_all(
        "all => all.map(e => getComputedStyle(e).outlineStyle)"
    )
    assert edges == ["dashed", "double", *["solid"] * 4]
    return key


def test_one_key_of_colours_stands_below_the_first_figure(which_q):
    assert key_of_colours(which_q).get_by_text("a letter to see its name").is_visible()


def test_without_scripts_the_key_does_not_ask_to_point_at_a_letter(chromium, origin):
    page = chromium.new_page(base_url=origin, java_script_enabled=False)
    page.goto("/start/which-q/")
    assert not key_of_colours(page).get_by_text("a letter to see its name").is_visible()
    page.close()


def test_the_key_names_what_is_drawn_and_in_other_letters_what_these_write(page):
    page.goto("/explanation/decoding-step/")
    key = page.locator(".wq-colours")
    assert key.get_by_text("projected: queries keys values").is_visible()
    assert key.get_by_text("then computed: scores and attention weights").is_visible()
    assert not key.get_by_text("learned: weight").is_visible()
    page.get_by_label("Letters").select_option("ng-multi-head")
    assert key.get_by_text("learned: weight").is_visible()


def test_a_product_of_letters_and_the_sizes_of_a_matrix_stay_on_one_line(page):
    page.goto("/explanation/values-and-output/")
    for width in (320, 390, 768):
        page.set_viewport_size({"width": width, "height": 800})
        lines = page.locator("article .wq-together:visible").evaluate_all(
            "all => all.map(e => new Set([...e.getClientRects()].map(line => line.top)).size)"
        )
        assert len(lines) > 5
        assert {*lines} == {1}, width


def test_a_letter_is_set_in_the_list_of_pages_too(which_q):
    name = which_q.locator('.md-nav a[href$="/square-in-code/"]').first
    assert name.locator(".wq-typed sup").text_content() == "Q"
    sizes = name.evaluate(
        """link => [link, link.querySelector(".wq-typed")].map(e => getComputedStyle(e))
          .map(({ fontSize, color }) => `${fontSize} ${color}`)"""
    )
    assert sizes[0] == sizes[1]


def test_no_gap_stands_between_a_root_and_what_follows_it(page):
    page.goto("/start/one-head/")
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


@pytest.mark.parametrize("scheme", ["light", *thorough("dark")])
@pytest.mark.parametrize("width", [390, *thorough(1280)])
@pytest.mark.parametrize("path", ["decoding-step", *thorough("rope-and-qk-norm")])
def test_the_label_of_a_word_is_as_easy_to_read_as_the_text_and_set_as_that_of_a_letter(
    page, scheme, width, path
):
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    page.goto(f"/explanation/{path}/")
    page.locator("article .wq-diagram [data-role]:visible").first.hover()
    page.locator(LABEL).wait_for()
    of_letter = page.locator(LABEL).evaluate(SET)
    word = page.locator("article abbr").first
    meaning = word.get_attribute("title")
    word.hover()
    page.locator(LABEL, has_text=meaning).wait_for()
    of_word = page.locator(LABEL).evaluate(SET)
    assert of_word == of_letter
    assert of_word.pop("size") >= 15
    assert of_word.pop("edge") >= 1
    assert of_word == READABLE
