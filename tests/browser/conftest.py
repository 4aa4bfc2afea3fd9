"""A real browser and the built site, served."""

import functools
import shutil
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from qkv import notation

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
           "--disable-background-networking", "--disable-component-update",
           "--disable-sync"]  # fmt: skip


class Quiet(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # one connection for many files

    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def origin(site):
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="session")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium, origin):
    """A page that notes what it asked for and what went wrong."""
    page = chromium.new_page(base_url=origin)
    page.requested, page.wrong = [], []
    page.on("request", lambda request: page.requested.append(request.url))
    page.on("requestfailed", lambda request: page.wrong.append(f"failed: {request.url}"))
    page.on("response", lambda r: r.status >= 400 and page.wrong.append(f"{r.status}: {r.url}"))
    page.on("console", lambda m: m.type in ("error", "warning") and page.wrong.append(m.text))
    page.on("pageerror", lambda error: page.wrong.append(str(error)))
    yield page
    page.close()


@pytest.fixture(scope="session")
def addresses(site):
    """Every page of the site, as the part of its address after the host."""
    return [f"/{path.parent.relative_to(site)}/".replace("/./", "/")
            for path in sorted(site.rglob("index.html"))]  # fmt: skip


@pytest.fixture(scope="session")
def sources():
    """The names of all notations."""
    return [source.id for source in notation.sources()]
