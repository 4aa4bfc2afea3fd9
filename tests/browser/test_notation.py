"""The choice of a notation: at once, everywhere, remembered, and never needed."""

import gzip
import re

import pytest

from browser.watching import WITHOUT_SCRIPTS, until
from forms import letters
from support import thorough

CHOICE = "[data-wq-notation]"
# What of the home page is not tied to one source.
FORMULA = "article [data-set]:not(.wq-told *):visible"


def formula(page):
    """What stands in the first formula, without spaces."""
    return letters(page.locator(FORMULA).first.text_content())


def test_a_choice_shows_at_once_and_holds_on_the_next_page_and_on_the_way_back(page):
    page.goto("/")
    in_the_sites_letters = formula(page)
    page.locator(CHOICE).select_option("ng-multi-head")
    in_his_letters = formula(page)
    assert in_his_letters != in_the_sites_letters
    page.locator(CHOICE).select_option("d2l")
    page.locator(".md-tabs").get_by_role("link", name="How-to").click()
    page.wait_for_url("**/how-to/")
    assert page.locator(CHOICE).input_value() == "d2l"
    page.locator(CHOICE).select_option("ng-multi-head")
    page.go_back()
    page.wait_for_url("**/")
    until(page, "document.documentElement.dataset.notation === 'ng-multi-head'")
    assert page.locator(CHOICE).input_value() == "ng-multi-head"
    assert formula(page) == in_his_letters
    assert page.wrong == []


def test_a_link_holds_for_the_visit_and_leaves_the_readers_choice(page, chromium):
    page.goto("/?notation=paper-3-2-2")
    page.locator(CHOICE).select_option("d2l")
    assert page.url.endswith("?notation=d2l")
    page.goto("/?notation=ng-multi-head#two-qs")
    page.goto("/reference/")
    assert page.locator(CHOICE).input_value() == "ng-multi-head"
    page.evaluate("sessionStorage.clear()")  # the next visit
    page.reload()
    assert page.locator(CHOICE).input_value() == "d2l"


TOLD = ".wq-told [role=status]"
# How many formulas, drawings and places in sentences differ, told from what is drawn.
CHANGED = """() => {
  const shown = () => [...document.querySelectorAll("article [data-set]")]
    .filter(e => !e.closest(".wq-told, .wq-map, .wq-mini")).map(e => e.innerHTML)
  const choice = document.querySelector("[data-wq-notation]"), chosen = shown()
  choice.value = "site"
  choice.dispatchEvent(new Event("change", {bubbles: true}))
  return new Promise(done => requestAnimationFrame(() =>
    done(shown().filter((html, place) => html !== chosen[place]).length)))
}"""


@pytest.mark.parametrize(
    "address", ["/start/how-many-matrices/", *thorough("/explanation/values-and-output/")]
)
def test_a_page_counts_what_the_choice_changed(page, address):
    page.goto(f"{address}?notation=paper-3-2-2")
    said = page.locator(TOLD).text_content()
    assert said.startswith("Shown in the letters of The paper, section 3.2.2 (words are rows).")
    counts = re.search(r"Changed(?:, or marked as this site's)?: (.*?)\.", said)[1]
    assert sum(map(int, re.findall(r"\d+", counts))) == page.evaluate(CHANGED) > 1
    assert page.locator(TOLD).text_content() == ""


def test_a_page_says_why_nothing_changed(page):
    page.goto("/explanation/rows-or-columns/?notation=ng-multi-head")
    assert "This page compares sources, so its formulas stay." in page.locator(TOLD).text_content()
    # The formulas of this page stay, but its picture changes.
    page.goto("/explanation/deeplearning-ai-course/?notation=ng-multi-head")
    assert "Changed: the picture of the layer." in page.locator(TOLD).text_content()


def test_the_line_speaks_of_letters_that_the_page_shows(page):
    page.goto("/explanation/word-order/?notation=d2l")  # whose X is this site's
    assert "one word's vector" not in page.locator(TOLD).text_content()
    page.goto("/explanation/widths/?notation=d2l")
    said = page.locator(TOLD).text_content()
    assert "is one word's vector" in said
    assert "d_model is the width of each source" in said
    page.goto("/explanation/dot-product-or-distance/?notation=3blue1brown")  # Q alone changes
    assert "is one word's vector" in page.locator(TOLD).text_content()
    page.goto("/start/heads-together/?notation=weng")  # whose d_k is that of all heads
    assert "unchanged" not in page.locator(TOLD).text_content()
    page.goto("/explanation/what-trains-w-q/?notation=uvadlc")  # whose Q, K and V are sources
    assert (
        "an unchanged QKᵀ or the like has projected Q, K and V" in page.locator(TOLD).text_content()
    )
    page.goto("/libraries/?notation=d2l")  # no formula of this page has it
    assert "d_model" not in page.locator(TOLD).text_content()
    page.goto("/how-to/fold-a-norm/?notation=d2l")  # whose small picture changes alone
    assert "Changed: the picture of the layer. No other" in page.locator(TOLD).text_content()
    page.goto("/explanation/values-and-output/?notation=3blue1brown")  # whose W_V is the product
    said = page.locator(TOLD).text_content()
    assert "an unchanged W^V and W_V are a head's value weight." in said


def test_a_letter_that_stays_is_told_where_the_chosen_text_has_it_for_something_else(page):
    page.goto("/symptoms/scale/?notation=weng")  # whose d_k is as wide as all heads
    said = page.locator(TOLD).text_content()
    assert "an unchanged d_k is one head's width." in said
    assert "8 places in the text." in said
    assert page.locator(f"{TOLD} details[open]").count() == 0
    page.get_by_text("What stays, and what letters mean here").click()
    assert page.locator(f"{TOLD} details[open]").count() == 1
    page.locator(CHOICE).select_option("raschka")
    assert "unchanged" not in page.locator(TOLD).text_content()
    page.goto("/explanation/biases/?notation=raschka")  # no output's width stands there
    assert "is the width of the output, too" not in page.locator(TOLD).text_content()
    page.goto("/explanation/values-and-output/?notation=raschka")  # whose output is d_out wide
    assert "is the width of the output, too" in page.locator(TOLD).text_content()
    page.goto("/start/one-head/?notation=deepseek-v2")  # which has d_h for two widths
    assert (
        "is 3 for the worked example's queries and keys, and 4" in page.locator(TOLD).text_content()
    )
    assert (
        "that of (7); in (18) the root is that of d_h + d_h^R" in page.locator(TOLD).text_content()
    )
    page.goto("/how-to/convert/?notation=uvadlc")  # in one drawing W_O is d_out wide, W_O[i] D
    said = page.locator(TOLD).text_content()
    assert "D is the width of the output, too (in this text dout)." in said
    page.goto("/explanation/grouped-and-latent-heads/?notation=weng")
    marked = "getComputedStyle(document.querySelector('div[data-of=site]'), '::before').content"
    assert page.evaluate(marked) == '"In this site\'s letters:"'
    page.locator(CHOICE).select_option("site")
    assert page.evaluate(marked) == "none"


def test_a_place_in_a_column_s_name_is_counted_once(page):
    page.goto("/explanation/why-not-one-matrix/?notation=d2l")
    changed = "span[data-set]:not([data-in~=site])"
    places = f".md-content :is(p, li, th, td) {changed}"
    once = page.locator(f"{places}:not(.wq-column {changed})").count()
    assert page.locator(f".wq-column {changed}").count()
    assert f"and {once} places in the text" in page.locator(TOLD).text_content()
    page.goto("/start/order-and-masks/?notation=bishop")  # in which letters change, and no side
    assert (
        "the picture of the layer and 2 pictures of numbers." in page.locator(TOLD).text_content()
    )
    page.goto("/explanation/widths/?notation=ng-self-attention")  # whose W^Q is one head's
    assert "is this site's, for another thing." in page.locator(TOLD).text_content()
    page.goto("/explanation/are-they-the-same/?notation=udl")  # letters in a picture are its own
    assert "1 picture of numbers and 3 places in the text" in page.locator(TOLD).text_content()


def test_the_way_back_and_a_link_stand_beside_it(page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/start/which-q/#why")
    back = page.get_by_role("button", name="Back to this site's letters")
    assert not back.is_visible()
    page.locator(CHOICE).select_option("d2l")
    page.get_by_role("button", name="Copy a link").click()
    page.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.endswith("/start/which-q/?notation=d2l#why")
    back.click()
    assert page.locator(CHOICE).input_value() == "site"
    page.reload()
    assert page.locator(CHOICE).input_value() == "site"
    assert not back.is_visible()


def test_on_a_phone_the_menu_is_labelled_and_works_by_key(page):
    page.set_viewport_size({"width": 320, "height": 844})
    page.goto("/")
    assert page.locator(".wq-notation__label").is_visible()
    choice = page.get_by_label("Letters")
    choice.press("ArrowDown")
    assert choice.input_value() != "site"
    assert page.evaluate("document.documentElement.dataset.notation") == choice.input_value()


@pytest.mark.parametrize("unknown", ['"]<script>', *thorough("nonsense", "")])
def test_an_unknown_notation_is_passed_over(page, unknown):
    page.goto("/robots.txt")
    page.evaluate("name => localStorage.setItem('notation', name)", unknown)
    page.goto(f"/?notation={unknown}")
    assert page.locator(CHOICE).input_value() == "site"
    assert page.locator(FORMULA).count() >= 1


def test_every_formula_follows_a_choice_and_a_picture_in_the_letters_of_one_source_stays(page):
    shown = "[...document.querySelectorAll('[data-in]')].map(e => e.dataset.in.split(' '))"
    stays = "The picture of The paper, section 3.2.2 stays (words are rows)."
    page.goto("/start/which-q/?notation=ng-multi-head")
    assert all("ng-multi-head" in ids for ids in page.evaluate(shown))
    assert len(page.evaluate(shown)) > 10
    assert stays in page.locator(TOLD).text_content()
    for other in ("deepseek-v2", "site", "paper-3-2-2"):
        page.locator(CHOICE).select_option(other)
        assert all(other in ids for ids in page.evaluate(shown)), other
    assert stays not in page.locator(TOLD).text_content()


def test_the_notation_is_there_before_the_first_frame(context):
    page = context.new_page()
    page.add_init_script(
        "new MutationObserver((_, observer) => { if (document.body) { observer.disconnect();"
        "window.early = document.documentElement.dataset.notation } })"
        ".observe(document, {childList: true, subtree: true})"
    )
    page.goto("/?notation=ng-multi-head")
    assert page.evaluate("window.early") == "ng-multi-head"
    page.close()


def test_without_scripts_the_sites_own_notation_stands_there(visit):
    page = visit("/?notation=ng-multi-head", **WITHOUT_SCRIPTS)
    assert page.locator(FORMULA).count() >= 1
    for shown in page.locator(FORMULA).all():
        assert "site" in shown.get_attribute("data-in").split()
    assert not page.locator(CHOICE).is_visible()


def test_the_home_page_is_light(visit):
    page = visit()
    page.wait_for_load_state("networkidle")
    asked = page.evaluate("performance.getEntries().map(each => each.name)")
    sent = {}
    for url in {page.url, *asked} - {page.url.rstrip("/")}:
        if url.startswith("http"):
            body = page.request.get(url).body()
            sent[url] = len(body if url.endswith(".woff2") else gzip.compress(body, 9))
    assert len(sent) > 5
    assert sum(sent.values()) < 150_000, sent
