"""A real browser and the built site, served."""

import shutil
from collections import defaultdict
from urllib.parse import urlsplit

import pytest

from browser.watching import watched_tab
from qkv import notation
from support import is_redirect, served

# Without windows a browser is three times as fast.
NAMES = "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
           "--disable-background-networking", "--disable-component-update",
           "--disable-sync"]  # fmt: skip
FORGET = "localStorage.clear(), sessionStorage.clear()"
# Takes back what was chosen, entered and scrolled on a page, and ends what still moves.
BEGIN_AGAIN = """() => {
  const choice = document.querySelector("[data-wq-notation]")
  choice.value = "site"
  choice.dispatchEvent(new Event("change"))
  for (const form of document.querySelectorAll("article form")) {
    form.reset()
    form.dispatchEvent(new Event("input", {bubbles: true}))
  }
  for (const moving of document.querySelector("article").getAnimations({subtree: true})) {
    moving.finish()
  }
  scrollTo({top: 0, behavior: "instant"})
}"""


@pytest.fixture(scope="session")
def origin(site):
    with served(site) as address:
        yield address


@pytest.fixture(scope="session")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def context(chromium, origin):
    """A browser that has kept the site's files: without them each page takes half as long again."""
    context = chromium.new_context(base_url=origin)
    yield context
    context.close()


@pytest.fixture(scope="session")
def tab(context):
    """A tab for all tests: a new one takes as long as a page."""
    tab = watched_tab(context)
    set_back(tab)
    return tab


@pytest.fixture
def page(tab):
    """A page that notes what it asks for and what goes wrong, for a reader who chose nothing."""
    tab.requested, tab.wrong = [], []
    yield tab
    if tab.url.startswith("http"):
        tab.evaluate(FORGET)
    tab.unroute_all()
    tab.goto("about:blank")
    set_back(tab)


def set_back(tab):
    """Bring pointer, screen and media back to the usual ones; nothing moves, nobody waits."""
    tab.mouse.move(0, 0)
    tab.set_viewport_size({"width": 1280, "height": 720})
    tab.emulate_media(media="null", color_scheme="light", reduced_motion="reduce")


@pytest.fixture(scope="module")
def tabs(context):
    """Tabs of the pages that tests of a file share, by the pages' addresses."""
    tabs = defaultdict(lambda: watched_tab(context))
    yield tabs
    for tab in tabs.values():
        tab.close()


@pytest.fixture
def shared(tabs):
    """Opens a page that is loaded once for a file: each test finds it with nothing entered."""

    def opened(address):
        tab = tabs[address]
        tab.requested, tab.wrong = [], []
        if urlsplit(tab.url).path != address:
            tab.goto(address)
        set_back(tab)
        tab.evaluate(BEGIN_AGAIN)
        return tab

    yield opened
    for tab in tabs.values():
        tab.evaluate(FORGET)


@pytest.fixture
def visit(chromium, origin):
    """Opens a page for a reader with settings of their own, who has none of the site's files."""
    pages = []

    def visited(address="/", **settings):
        pages.append(chromium.new_page(base_url=origin, **settings))
        pages[-1].goto(address)
        return pages[-1]

    yield visited
    for page in pages:
        page.close()


@pytest.fixture(scope="session")
def addresses(site):
    """Every page of the site, as the part of its address after the host."""
    return [f"/{path.parent.relative_to(site)}/".replace("/./", "/")
            for path in sorted(site.rglob("index.html")) if not is_redirect(path)]  # fmt: skip


@pytest.fixture(scope="session")
def sources():
    """The names of all notations."""
    return [source.id for source in notation.sources()]
