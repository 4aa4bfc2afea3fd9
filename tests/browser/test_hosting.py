"""The published site below a sub-path: its policy, the page for an unknown address, redirects."""

import re
from urllib.parse import urlsplit

import pytest

from browser.watching import WITHOUT_SCRIPTS, watched_tab
from support import ADDRESS, Quiet, served, thorough

BELOW = urlsplit(ADDRESS).path  # "/attention/"
# The home page, a live layer, what a script draws, and then one page of each kind.
PAGES = ["", "start/how-many-matrices/", "explore/"]
MORE = ["self-test/", "which-shape/", "explanation/", "start/one-head/",
        "how-to/masks/", "libraries/pytorch/", "questions/", "reference/equation_1/",
        "symptoms/nan/", "threads/", "notation/", "claims/"]  # fmt: skip
BLOCKED = "Content Security Policy"


class Host(Quiet):
    """A host of files below a path; for an unknown address it shows 404.html."""

    def translate_path(self, path):
        return super().translate_path(path.removeprefix(BELOW) if path.startswith(BELOW) else "?")

    def send_error(self, code, *_, **__):
        with open(f"{self.directory}/404.html", "rb") as file:
            shown = file.read()
        self.send_response(code)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(shown)))
        self.end_headers()
        self.wfile.write(shown)


@pytest.fixture(scope="module")
def origin(site):
    with served(site, Host) as address:
        yield address + BELOW


@pytest.fixture(scope="module")
def tab(chromium, origin):
    context = chromium.new_context(base_url=origin)
    yield watched_tab(context)
    context.close()


@pytest.mark.parametrize("address", [*PAGES, *thorough(*MORE)])
def test_below_a_sub_path_nothing_is_missing_or_blocked(page, origin, address):
    page.goto(address, wait_until="load")
    page.locator("[data-wq-notation]").select_option("ng-multi-head")
    page.keyboard.press("/")
    page.locator("[data-wq-box=header] textarea").fill("softmax")
    page.locator(".wq-found li").first.wait_for()
    page.keyboard.press("Escape")
    for layer in page.locator("[data-wq-live]").all():
        layer.scroll_into_view_if_needed()
        layer.locator("table").first.wait_for()
    assert page.wrong == []
    assert [url for url in page.requested if not url.startswith((origin, "data:"))] == []


def test_the_policy_stops_what_the_page_did_not_bring(page):
    page.goto("")
    page.evaluate("""() => {
      const script = document.createElement("script")
      script.textContent = "window.ran = true"
      const style = document.createElement("style")
      style.textContent = "body { display: none }"
      const link = document.createElement("a")
      link.setAttribute("onclick", "window.ran = true")
      document.body.append(script, style, link)
      link.click()
    }""")
    assert page.evaluate("window.ran") is None
    assert page.locator("body").is_visible()
    assert len([said for said in page.wrong if BLOCKED in said]) == len(page.wrong) == 3
    with pytest.raises(Exception, match="Failed to fetch"):
        page.evaluate("fetch('http://127.0.0.1:9/')")


def test_an_unknown_address_leads_to_pages_with_its_words_and_has_the_search(page, origin):
    assert page.goto("no/such/which-q.html").status == 404
    page.locator("[data-wq-near] li").first.wait_for()
    links = page.locator("[data-wq-near] a").evaluate_all("links => links.map(link => link.href)")
    assert any(link.startswith(f"{origin}start/which-q/") for link in links)
    page.goto("zzz/?q=key_dim")
    page.locator(".wq-found li").first.wait_for()
    links = page.locator(".wq-found li a").evaluate_all("links => links.map(link => link.href)")
    assert f"{origin}explanation/widths/#key-dim" in links
    page.locator("[data-wq-box=header] textarea").fill("key_dim")
    page.locator(".wq-found li a").first.click()
    page.wait_for_url(re.compile(f"{origin}.+"))
    page.locator("h1").wait_for()
    assert [said for said in page.wrong if "404" not in said] == []
    assert not page.locator("[data-wq-near]").count()


def test_a_redirect_keeps_the_letters_and_the_heading(page, origin):
    page.goto("explanation/which-q/?notation=d2l#own-keys")
    page.wait_for_url(f"{origin}explanation/are-they-the-same/?notation=d2l#own-keys")
    page.locator("h1").wait_for()
    assert page.evaluate("document.documentElement.dataset.notation") == "d2l"
    assert page.wrong == []


def test_a_redirect_needs_no_script(visit, origin):
    visit("faq/", **WITHOUT_SCRIPTS).wait_for_url(f"{origin}questions/")
