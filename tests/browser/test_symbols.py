"""A letter that is pointed at: what lights up, and the label that says what it is."""

import pytest

from browser.watching import PHONE, WITHOUT_SCRIPTS
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


def test_a_tap_shows_it_another_hides_it_and_a_second_one_follows_a_link(visit):
    page = visit("/", **PHONE)
    page.locator(".wq-formula math [data-role]:visible").first.tap()
    page.locator(LABEL).wait_for()
    page.locator("h1").tap()
    assert not page.locator(LABEL).is_visible()
    home, block = page.url, page.locator(".wq-map-heard [data-role='W_Q[i]']").first
    block.tap()
    said = words(page)  # as the video has it: a word is a column
    assert said.endswith("forqueries,dk×dmodel")
    assert page.url == home
    block.tap()
    page.wait_for_url("**/start/how-many-matrices/")


def test_a_word_says_what_it_means_where_it_is_pointed_at(page):
    page.goto("/explanation/decoding-step/")
    word = page.locator("article abbr").first
    meaning = word.get_attribute("title")
    word.hover()
    page.locator(LABEL, has_text=meaning).wait_for()


def test_an_entry_of_a_legend_is_its_own_label_from_the_keyboard(which_q):
    entry = which_q.locator(".wq-where li:visible").first
    entry.focus()
    assert which_q.locator(".wq-same").count() > 1
    assert not which_q.locator(LABEL).is_visible()
    which_q.keyboard.press("Escape")
    assert which_q.locator(".wq-same").count() == 0


def test_one_key_of_colours_stands_below_the_first_figure_and_asks_to_point_only_if_one_can(
    which_q, visit
):
    for page, can_point in ((which_q, True), (visit("/start/which-q/", **WITHOUT_SCRIPTS), False)):
        key = page.locator(".wq-colours")
        assert key.count() == 1
        assert page.locator(":is(.wq-formula, .wq-diagrams) + .wq-colours").count() == 1
        assert page.locator(".wq-colours ~ :is(.wq-formula, .wq-diagrams)").count() > 0
        assert key.get_by_text("goes in: source").is_visible()
        edges = key.locator(".wq-swatch").evaluate_all(
            "all => all.map(e => getComputedStyle(e).outlineStyle)"
        )
        assert edges == ["dashed", "double", *["solid"] * 4]
        assert key.get_by_text("a letter to see its name").is_visible() == can_point


def test_the_key_of_colours_names_what_is_drawn_in_the_chosen_letters(visit):
    for notation, sources in ("uvadlc", True), ("jurafsky-martin", False):  # head_i, spelled out
        page = visit(f"/how-to/remove-a-head/?notation={notation}")
        assert page.get_by_text("goes in: source").is_visible() == sources


def test_a_letter_is_set_in_the_list_of_pages_too(which_q):
    name = which_q.locator('.md-nav a[href$="/square-in-code/"]').first
    assert name.locator(".wq-typed sup").text_content() == "Q"
    sizes = name.evaluate(
        """link => [link, link.querySelector(".wq-typed")].map(e => getComputedStyle(e))
          .map(({ fontSize, color }) => `${fontSize} ${color}`)"""
    )
    assert sizes[0] == sizes[1]
