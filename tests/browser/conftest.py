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


@pytest.fixture
def page(context, origin):
    """A page that notes what it asked for and what went wrong, for a reader who chose nothing."""
    page = context.new_page()
    page.requested, page.wrong = [], []
    watch(page, page.requested.append, page.wrong.append)
    yield page
    chosen = {"origin": origin, "storageTypes": "local_storage"}
    context.new_cdp_session(page).send("Storage.clearDataForOrigin", chosen)
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
