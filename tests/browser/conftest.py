"""A real browser and the built site, served."""

import shutil

import pytest

from browser.watching import watch
from qkv import notation
from support import is_redirect, served

# Without windows a browser is three times as fast.
NAMES = "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
           "--disable-background-networking", "--disable-component-update",
           "--disable-sync"]  # fmt: skip


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


@pytest.fixture(scope="module")
def context(chromium, origin):
    """A browser that has kept the site's files: without them each page takes half as long again."""
    context = chromium.new_context(base_url=origin)
    yield context
    context.close()


@pytest.fixture(scope="module")
def tab(context):
    """A tab for the tests of a file: a new one takes as long as a page."""
    tab = context.new_page()
    watch(tab, lambda address: tab.requested.append(address), lambda fault: tab.wrong.append(fault))
    return tab


@pytest.fixture
def page(tab):
    """A page that notes what it asks for and what goes wrong, for a reader who chose nothing."""
    tab.requested, tab.wrong = [], []
    yield tab
    if tab.url.startswith("http"):
        tab.evaluate("localStorage.clear(), sessionStorage.clear()")
    tab.unroute_all()
    tab.goto("about:blank")
    tab.mouse.move(0, 0)
    tab.set_viewport_size({"width": 1280, "height": 720})
    tab.emulate_media(media="null", color_scheme="light", reduced_motion="null")


@pytest.fixture(scope="session")
def addresses(site):
    """Every page of the site, as the part of its address after the host."""
    return [f"/{path.parent.relative_to(site)}/".replace("/./", "/")
            for path in sorted(site.rglob("index.html")) if not is_redirect(path)]  # fmt: skip


@pytest.fixture(scope="session")
def sources():
    """The names of all notations."""
    return [source.id for source in notation.sources()]
