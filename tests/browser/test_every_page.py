"""Each page of the built site, loaded once: what it asks for, how it looks, what axe finds.

One page of each kind is quick; all of them are thorough.
"""

import re
from dataclasses import dataclass, field
from itertools import chain, groupby
from time import sleep

import pytest

from browser.watching import NOTE_SHIFTS, until, violations, watch
from support import thorough

SMALL_PHONE, PHONE, TABLET, DESK = 320, 390, 768, 1280
PAPER = {"width": 640, "height": 900}  # A4 at 96 dots an inch, without its margins
LEAST = 3.9  # pixels of a unit of a drawing: 0.2rem, but for what a browser rounds
# Of each colour scheme: the screen that axe sees it on, and which rules it tries, if not all.
SCHEMES = {"slate": (DESK, {"runOnly": ["color-contrast"]}), "default": (PHONE, {})}
COLUMNS = "ng-multi-head"  # a notation with tokens in columns; this site has them in rows
# Pages and folders without a part that others do not have: they are seen if every page is.
PLAIN = {"corrections", "glossary", "how-to", "symptoms",
         "threads"}  # fmt: skip
# What a page that a script fills shows when it is filled.
FILLED = {"/start/watch-one-word/": ".wq-stage table"}

# Nothing moves or fades from one width or scheme to the next.
AT_ONCE = "*, ::before, ::after { transition: none !important; animation: none !important }"
# As a script of the page may; its policy lets no <style> in.
ADOPT = """style => {
  const sheet = new CSSStyleSheet()
  sheet.replaceSync(style)
  document.adoptedStyleSheets.push(sheet)
}"""
# axe would take minutes for the symbols, whose colours test_colours measures, and for long pages,
# lists and tables, whose fifth part is like the four before it.
SHORTEN = """most => {
  for (const math of [...document.querySelectorAll("math")]) math.replaceWith(math.textContent)
  const many = `article > :nth-of-type(n + ${most}), :is(article > *, nav) :nth-of-type(n + 5)`
  for (const part of [...document.querySelectorAll(many)]) part.remove()
}"""
WIDTH = "document.documentElement.scrollWidth"
# A page preloads what it may not use; left earlier, it would be a request that failed.
PRELOADED = """[...document.querySelectorAll("link[rel=preload]")]
  .every(({href}) => performance.getEntriesByName(href).length)"""
NEXT_FRAME = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
# Of each formula in several notations: those of each variant that waits in the page's template.
SETS = """[...document.querySelectorAll("[data-set]")].map(shown => {
  const sets = document.querySelector("template[data-sets]").content.children
  return [...sets[shown.dataset.set].children].map(variant => variant.dataset.in.split(" "))
})"""
CUT = """[...document.querySelectorAll(".highlight code")]
  .filter(it => it.scrollWidth > it.clientWidth).map(it => it.innerText)"""
# Of tables with few columns, folded ones too: those that are wider than their box.
WIDE = """(() => {
  const folds = [...document.querySelectorAll("article details:not([open])")]
  for (const fold of folds) fold.open = true
  const wide = [...document.querySelectorAll(".md-typeset__scrollwrap")].filter(box =>
    box.scrollWidth > box.clientWidth && !box.querySelector("tr > :nth-child(5)"))
  for (const fold of folds) fold.open = false
  return wide.map(box => box.innerText)
})()"""
# Of each diagram that is shown: its unit in pixels, by each side of each rectangle.
UNITS = """[...document.querySelectorAll(".wq-diagram")].filter(e => e.checkVisibility()).map(
  diagram => [...diagram.querySelectorAll(".wq-blocks")].flatMap(blocks => {
    const box = blocks.getBoundingClientRect()
    const length = name => Number(blocks.style.getPropertyValue(name))
    return [box.width / length("--columns"), box.height / length("--rows")]
  }))"""
# Of each diagram that is shown: what sticks out of it.
OUTSIDE = """[...document.querySelectorAll(".wq-diagram")].filter(e => e.checkVisibility()).flatMap(
  diagram => {
    const {left, right} = diagram.getBoundingClientRect()
    return [...diagram.querySelectorAll(".wq-matrix, .wq-sign, math")].filter(e => {
      const box = e.getBoundingClientRect()
      const blocks = e.querySelector(".wq-blocks"), rows = e.querySelector(".wq-rows")
      const apart = blocks && rows?.textContent && rows.checkVisibility()
        ? blocks.getBoundingClientRect().left - rows.getBoundingClientRect().right : 0
      return box.left < left - 1 || box.right > right + 1 || apart > 100
    }).map(e => e.outerHTML)
  })"""


@dataclass
class Facts:
    """What was seen on a page."""

    requested: list = field(default_factory=list)  # the addresses it asked for
    wrong: list = field(default_factory=list)  # failed requests, errors, warnings
    shift: float = 0  # how far its content moved while it was loaded; the least of three times
    widths: dict = field(default_factory=dict)  # on a screen of each width, how wide it is
    wide: list = field(default_factory=list)  # tables with few columns that are cut
    cut: list = field(default_factory=list)  # code that is cut when it is printed
    sets: list = field(default_factory=list)  # the notations of each variant of each formula
    drawn: dict = field(default_factory=dict)  # units of diagrams, and what sticks out of them
    snapshots: list = field(default_factory=list)  # what a screen reader is told of each diagram
    violations: dict = field(default_factory=dict)  # what axe finds serious, by colour scheme


def one_of_each_kind(addresses):
    """The pages at the top, and of each folder one page, which is not its index."""
    folders = groupby(addresses, key=lambda address: address.split("/")[1])
    return [[*sorted(pages, key=len)[:2]][-1] for _, pages in folders]


@pytest.fixture(scope="module", params=["one of each kind", *thorough("every page")])
def facts(request, context, addresses):
    """Pages, loaded once."""
    axed = one_of_each_kind(addresses)
    schemes = [*SCHEMES]
    if request.param == "one of each kind":
        addresses = [address for address in axed if address.split("/")[1] not in PLAIN]
        schemes = ["default"]
    page = context.new_page()
    page.add_init_script(NOTE_SHIFTS)
    seen = {address: Facts() for address in addresses}
    now = seen[addresses[0]]
    watch(page, lambda url: now.requested.append(url), lambda fault: now.wrong.append(fault))
    for address, now in seen.items():  # what listens to the page writes to `now`
        look(page, address, now, schemes if address in axed else [])
    page.close()
    return seen


def look(page, address, now, schemes):
    """Note all that is to be known of a page, which is laid out as seldom as possible."""
    show(page, PHONE)
    if address in FILLED:  # with data that come late, as on a phone
        page.route("**/assets/*.json", lambda route: sleep(0.3) or route.continue_())
    now.shift = 1
    for _ in range(3):  # on a busy machine a page may be painted before its style has come
        page.goto(address, wait_until="load")
        if address in FILLED:
            page.locator(FILLED[address]).first.wait_for()
        until(page, PRELOADED)
        page.evaluate(f"document.fonts.ready.then(() => {NEXT_FRAME})")
        now.shift = min(now.shift, page.evaluate("window.shifted"))
        if now.shift < 0.01:
            break
    page.unroute_all()  # while anything is routed, a browser caches nothing
    now.sets = page.evaluate(SETS)
    page.evaluate(ADOPT, AT_ONCE)
    measure(page, now, "site", PHONE)
    if now.sets:
        page.locator("[data-wq-notation]").select_option(COLUMNS)
        measure(page, now, COLUMNS, PHONE)
    show(page, SMALL_PHONE)
    now.widths[SMALL_PHONE] = page.evaluate(WIDTH)
    show(page, TABLET)
    measure(page, now, COLUMNS, TABLET)
    now.wide += page.evaluate(WIDE)
    show(page, DESK)
    if now.sets:
        measure(page, now, COLUMNS, DESK)
        page.locator("[data-wq-notation]").select_option("site")
    measure(page, now, "site", DESK)
    now.wide += page.evaluate(WIDE)
    for diagram in page.locator(".wq-diagram:visible").all():
        now.snapshots.append((diagram.aria_snapshot(), diagram.get_by_role("img").count()))
    page.emulate_media(media="print")
    page.set_viewport_size(PAPER)
    now.cut = page.evaluate(CUT)
    if schemes:
        page.evaluate(SHORTEN, 9 * len(schemes))
    page.emulate_media(media="screen")
    for scheme in schemes:
        width, options = SCHEMES[scheme]
        show(page, width)
        page.evaluate(f"document.body.dataset.mdColorScheme = '{scheme}'")
        page.evaluate(NEXT_FRAME)  # the theme has seen which code can be scrolled now
        # What stands around the text is the same on each page.
        now.violations[scheme] = violations(page, None if address == "/" else "main", **options)


def show(page, width):
    page.set_viewport_size({"width": width, "height": 844})


def measure(page, now, notation, width):
    """How wide the page is now, and how its diagrams are drawn."""
    now.widths[width] = max(now.widths.get(width, 0), page.evaluate(WIDTH))
    if page.locator(".wq-diagram").count():
        now.drawn[notation, width] = page.evaluate(UNITS), page.evaluate(OUTSIDE)


def misses(facts, found):
    """The pages where something is found that must not be there."""
    return {address: it for address, now in facts.items() if (it := found(now))}


def test_every_page_was_seen(facts):
    assert len(facts) >= 10
    for address, now in facts.items():
        assert any(url.endswith(address) for url in now.requested), address


def test_no_other_host_is_asked(facts, origin):
    assert misses(facts, lambda now: [
        url for url in now.requested if not url.startswith((f"{origin}/", "data:"))
    ]) == {}  # fmt: skip


def test_nothing_goes_wrong(facts):
    assert misses(facts, lambda now: now.wrong) == {}


def test_no_page_is_wider_than_the_screen(facts):
    assert misses(facts, lambda now: {
        screen: width for screen, width in now.widths.items() if width > screen
    }) == {}  # fmt: skip


def test_no_table_of_few_columns_is_cut(facts):
    assert misses(facts, lambda now: now.wide) == {}


def test_printed_code_is_wrapped_and_not_cut(facts):
    assert misses(facts, lambda now: now.cut) == {}


def test_every_source_shows_every_formula_once(facts, sources):
    assert sum(len(now.sets) for now in facts.values()) > 100
    assert misses(facts, lambda now: [
        ids for ids in now.sets if sorted(chain(*ids)) != sorted(sources) or "site" not in ids[0]
    ]) == {}  # fmt: skip


def test_nothing_that_axe_finds_is_serious(facts):
    assert sum(len(now.violations) > 0 for now in facts.values()) > 5
    assert misses(facts, lambda now: {
        where: found for where, found in now.violations.items() if found
    }) == {}  # fmt: skip


def test_a_diagram_has_one_unit_and_no_part_of_it_sticks_out(facts):
    drawings = [drawn for now in facts.values() for drawn in now.drawn.values()]
    assert len(drawings) >= 2 * 2 * 2
    for all_units, outside in drawings:
        assert all_units
        assert outside == []
        for units in all_units:
            assert max(units) - min(units) < 0.02 * min(units)
            assert min(units) >= LEAST


def test_every_diagram_is_one_picture_to_a_screen_reader(facts):
    shown = [snapshot for now in facts.values() for snapshot in now.snapshots]
    assert shown
    for snapshot, images in shown:
        pictures = re.findall("^ *- '?img.*", snapshot, re.MULTILINE)
        assert len(pictures) == images > 0
        for picture in pictures:
            assert re.fullmatch(r""" *- '?img "[A-Z][^"]* by \d[^"]*\."'?""", picture)


def test_pages_do_not_move_while_they_load(facts):
    assert misses(facts, lambda now: now.shift if now.shift > 0.02 else 0) == {}
