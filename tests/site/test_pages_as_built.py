"""The built pages, read as HTML: links, anchors, resources, ids, and what must not be left over."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

RESOURCES = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"),
             ("source", "src"), ("video", "src"), ("object", "data"), ("use", "href")}  # fmt: skip
NOT_FETCHED = {"canonical", "prev", "next", "alternate", "edit"}
UNREAD = "code", "pre", "script", "style"  # what is in these is no text


class Page(HTMLParser):
    """What one page links to, fetches, names and says."""

    def __init__(self, path: Path):
        super().__init__()
        self.ids, self.links, self.resources, self.text = [], [], [], []
        self.slow = []  # what Material's script would change, so that all is laid out again
        self._code = 0
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        if tag == "table" and "class" not in attributes:
            self.slow.append("a table without a class")
        if attributes.get("data-md-component") == "palette":
            self.slow.append("Material's choice of colours")
        fetched = set((attributes.get("rel") or "").split()).isdisjoint(NOT_FETCHED)
        self.resources += [v for n, v in attributes.items() if (tag, n) in RESOURCES and fetched]
        self._code += tag in UNREAD

    def handle_endtag(self, tag):
        self._code -= tag in UNREAD

    def handle_data(self, data):
        if not self._code:
            self.text.append(data)


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def is_outside(url):
    return bool(urlsplit(url).netloc)


def test_no_page_fetches_from_another_host(pages):
    assert [(p.name, url) for p, page in pages.items() for url in page.resources
            if is_outside(url)] == []  # fmt: skip


def test_no_page_is_laid_out_again_by_materials_script(pages):
    """It took up to a second of a phone's time: see theme/partials/scheme.html and copy.js."""
    assert {path.parent.name: page.slow for path, page in pages.items() if page.slow} == {}


def test_ids_are_unique(pages):
    assert [(path, i) for path, page in pages.items() for i in set(page.ids)
            if page.ids.count(i) > 1] == []  # fmt: skip


def test_links_lead_somewhere(site, pages):
    def has(file, anchor):
        if anchor and file.suffix == ".txt":  # the code of tests: a browser looks for a text in it
            wanted = unquote(anchor).removeprefix(":~:text=")
            return wanted != anchor and wanted in file.read_text()
        return not anchor or anchor.startswith("__") or unquote(anchor) in pages[file].ids

    broken = []
    for path, page in pages.items():
        if path.name == "404.html":  # its links are absolute, from wherever the site is served
            continue
        for url in page.links + page.resources:
            target = urlsplit(url)
            if target.scheme or target.netloc:
                continue
            file = (path.parent / unquote(target.path)).resolve() if target.path else path
            file = file / "index.html" if file.is_dir() else file
            if not (file.is_relative_to(site) and file.exists() and has(file, target.fragment)):
                broken.append((path, url))
    assert broken == []


def test_nothing_is_left_over(pages):
    leftovers = re.compile(r'\\\(|\\\[|\\begin|\$\$|exec="|Traceback \(most recent|#!')
    assert [(path, found[0]) for path, page in pages.items()
            if (found := leftovers.search("".join(page.text)))] == []  # fmt: skip
