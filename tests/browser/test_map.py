"""The map on the home page, as a reader meets it: read at once, without a script, by keyboard."""

import pytest

from browser.watching import WITHOUT_SCRIPTS
from support import thorough

EXAMPLE = "/start/one-head/"
SCREENS = {"phone": (390, 844), "desk": (1280, 800)}
SHOWN = """[...document.querySelectorAll(".wq-map-state")]
  .filter(state => state.checkVisibility()).map(state => state.dataset.state)"""
FRAMES = ", ".join(
    f".wq-map-{part}"
    for part in ("bar", "bars > span", "flag > span", "chip", "call", "slices > span", "misfit")
)
PARTS = ", ".join(
    f".wq-map-{part}"
    for part in ("bar", "bars", "flag > span", "others", "call", "note", "misfit", "slices")
)
# What sticks out of the figure or of its own frame, and which parts lie over each other.
CLASHES = """([frames, parts]) => {
  const map = document.querySelector(".wq-map"), found = []
  const box = e => (e ?? map).getBoundingClientRect()
  for (const e of map.querySelectorAll(`math, b, p, .wq-map-note, ${frames}`)) {
    const frame = box(e.parentElement.closest(frames))
    const out = box(e).left < frame.left - 1 || box(e).right > frame.right + 1
    if (out && e.checkVisibility() && !e.closest(".wq-unseen")) found.push(`${e.textContent} out`)
  }
  const shown = [...map.querySelectorAll(parts)].filter(e => e.checkVisibility())
  shown.forEach((a, i) => shown.slice(i + 1).forEach(b => {
    const wide = Math.min(box(a).right, box(b).right) - Math.max(box(a).left, box(b).left)
    const high = Math.min(box(a).bottom, box(b).bottom) - Math.max(box(a).top, box(b).top)
    if (wide > 2 && high > 3) found.push(`${a.textContent} lies over ${b.textContent}`)
  }))
  return found
}"""
SMALLEST = """Math.min(...[...document.querySelectorAll(".wq-map *, .wq-mini *")]
  .filter(e => e.checkVisibility() && [...e.childNodes].some(n => n.nodeType === Node.TEXT_NODE))
  .map(e => parseFloat(getComputedStyle(e).fontSize)))"""


@pytest.fixture
def home(shared):
    page = shared("/")
    page.evaluate("document.querySelector('.wq-map [value=paper]').checked = true")
    return page


@pytest.mark.parametrize("screen", SCREENS)
def test_the_home_page_answers_before_it_is_scrolled(home, screen):
    home.evaluate("document.querySelector('.wq-map [value=sound]').checked = true")
    width, height = SCREENS[screen]
    home.set_viewport_size({"width": width, "height": height})
    home.evaluate("document.fonts.ready.then(() => true)")
    for part in ("h1", "h1 + p", ".wq-map-state[data-state=sound]"):
        box = home.locator(part).first.bounding_box()
        assert box["y"] + box["height"] <= height, part


def test_a_state_is_chosen_without_a_script(visit):
    page = visit("/", **WITHOUT_SCRIPTS)
    assert page.locator('[data-state="sound"]').is_visible()
    page.get_by_role("radio", name="the two videos").focus()
    for state in ("paper", "code"):
        page.keyboard.press("ArrowRight")
        assert [
            found.get_attribute("data-state")
            for found in page.locator(".wq-map-state").all()
            if found.is_visible()
        ] == [state]


def test_what_does_not_fit_is_seen(home):
    home.get_by_text("the two videos").click()
    misfit = home.get_by_role("link", name="512, but gets 64")
    wanted, bar = misfit.bounding_box(), home.locator(".wq-map-heard .wq-map-bars").bounding_box()
    assert wanted["width"] == pytest.approx(8 * bar["width"], rel=0.02)
    assert misfit.evaluate("e => getComputedStyle(e).borderTopStyle") == "dashed"
    assert bar["y"] + bar["height"] < wanted["y"]  # a gap between the two


def test_keys_reach_each_part_and_show_where_they_are(home):
    home.locator(".wq-map input:checked").focus()
    links = home.locator('.wq-map-state[data-state="paper"] a')
    for link in links.all():
        home.keyboard.press("Tab")
        assert link.evaluate("e => e === document.activeElement")
        assert link.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"
    assert links.count() > 8


@pytest.mark.parametrize("width", [320, *thorough(390, 1280)])
def test_nothing_sticks_out_or_lies_over_another_part(home, width):
    home.set_viewport_size({"width": width, "height": 900})
    for notation in ("ng-multi-head", "weng", "d2l", "site"):
        home.locator("[data-wq-notation]").select_option(notation)
        for state in ("paper", "sound", "code"):
            home.locator(f'.wq-map [value="{state}"]').check(force=True)
            assert home.evaluate(SHOWN) == [state]
            assert home.evaluate(CLASHES, [FRAMES, PARTS]) == [], (notation, state)
            assert home.evaluate(SMALLEST) >= 11, (notation, state)


def test_on_paper_each_state_is_shown(home):
    home.emulate_media(media="print")
    assert home.evaluate(SHOWN) == ["sound", "paper", "code"]


def test_the_small_map_leads_to_the_whole(shared):
    page = shared(EXAMPLE)
    assert page.evaluate(SMALLEST) >= 11
    page.locator(".wq-mini").click()
    page.wait_for_url("**/#map")
    assert page.locator("figure#map [data-state=paper]").is_visible()
