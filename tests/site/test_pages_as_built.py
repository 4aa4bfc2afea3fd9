"""The built pages: links, anchors, resources, ids, the policy, and what must not be left over."""

import base64
import hashlib
import json
import re
import shutil
import tomllib
from html import unescape
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from qkv_site import menu
from qkv_site.finish import policy
from qkv_site.page import Site
from qkv_site.run import NUMBER
from support import ADDRESS, ROOT, html_of, is_redirect, mkdocs_build, tabs_of

RESOURCES = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"),
             ("source", "src"), ("video", "src"), ("object", "data"), ("use", "href")}  # fmt: skip
NOT_FETCHED = {"canonical", "prev", "next", "alternate", "edit"}
UNREAD = "code", "pre", "script", "style"  # what is in these is no text
LEFT_OVER = re.compile(r'\\\(|\\\[|\\begin|\$\$|exec="|Traceback \(most recent|#!')
SAID = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
CANONICAL = re.compile(r'<link rel="canonical" href="([^"]*)">')


class Page(HTMLParser):
    """What one page links to, fetches, names and says."""

    def __init__(self, path):
        super().__init__()
        self.html = path.read_text()
        self.ids, self.links, self.resources, self.text = [], [], [], []
        self.slow = []  # what Material's script would change, so that all is laid out again
        self._code = 0
        self.feed(self.html)

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
def every_page(site):
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


@pytest.fixture(scope="module")
def pages(every_page):
    """Every page but redirects and that for an unknown address."""
    pages = {path: page for path, page in every_page.items() if path.name == "index.html"}
    pages = {path: page for path, page in pages.items() if not is_redirect(path)}
    assert len(pages) > 25
    return pages


def test_pages_fetch_nothing_from_others_have_unique_ids_and_nothing_left_over(every_page):
    for path, page in every_page.items():
        assert [url for url in page.resources if urlsplit(url).netloc] == [], path
        assert [each for each in {*page.ids} if page.ids.count(each) > 1] == [], path
        assert LEFT_OVER.search("".join(page.text)) is None, path
        assert NUMBER.search(page.html) is None, path
        # It took up to a second of a phone's time: see theme/partials/scheme.html and copy.js.
        assert page.slow == [], path


def test_links_lead_somewhere(site, every_page):
    def has(file, anchor):
        if anchor and file.suffix == ".txt":  # the code of tests: a browser looks for a text in it
            wanted = unquote(anchor).removeprefix(":~:text=")
            return wanted != anchor and wanted in file.read_text()
        return not anchor or anchor.startswith("__") or unquote(anchor) in every_page[file].ids

    broken = []
    for path, page in every_page.items():
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


def test_each_page_says_its_policy_once_before_its_scripts(every_page):
    for path, page in every_page.items():
        [said] = SAID.finditer(page.html)
        assert said.start() < page.html.index("<script"), path
        directives = dict(each.split(" ", 1) for each in said[1].split("; "))
        assert directives.keys() == policy.ALLOWED.keys()
        assert "unsafe" not in directives["script-src"]
    rows = re.findall(
        r"^\| `([a-z-]+)` \| `([^`|]+)`.* \| .+ \|$", (ROOT / "README.md").read_text(), re.M
    )
    assert dict(rows) == policy.ALLOWED


def test_the_policy_has_a_hash_of_each_script_as_it_stands_and_none_of_data():
    html = f"<head>{policy.EMPTY}<script>run(1)\n</script><script src=a.js></script></head>"
    [said] = SAID.findall(policy.put_into(html))
    digest = base64.b64encode(hashlib.sha256(b"run(1)\n").digest()).decode()
    assert f"script-src 'self' 'sha256-{digest}'; " in said
    assert said.count("sha256") == 1
    data, module = '<script type="application/json">{}</script>', '<script type="module">a</script>'
    assert "sha256" not in policy.policy_of(data)
    assert policy.policy_of(data + module).count("sha256") == 1
    assert policy.leave_out_of(f"<head>{policy.EMPTY}</head>") == "<head></head>"  # to serve it


@pytest.mark.parametrize(
    ("html", "said"),
    [
        ("<b onclick=x()>", "a handler"),
        ("<button onClick = 'x()'>", "a handler"),
        ("<STYLE>b {}</STYLE>", "an element <style>"),
        ("<a href = 'JavaScript:x()'>", "a link that runs a script"),
        ("<img src='https://a.b/c.png'>", "another host"),
        ('<img SRCSET="//a.b/c.png 2x">', "another host"),
        ("<object data=https://a.b/c.pdf>", "another host"),
        ("<img alt='a > b' src=//a.b/c.png>", "another host"),
        ("<b title='it is one = two'>", ""),
        ("<img src='c.png'><a href='https://a.b/'>on click=</a>", ""),
    ],
)
def test_what_the_policy_stops_is_found_in_a_page(html, said):
    found = policy.faults(html)
    assert len(found) == bool(said)
    assert said in " ".join(found)


def test_each_page_says_its_own_address_and_the_site_map_has_it(site, pages):
    addresses = []
    for path, page in pages.items():
        addresses.append(f"{ADDRESS}{path.parent.relative_to(site)}/".replace("/./", "/"))
        assert CANONICAL.findall(page.html) == addresses[-1:]
    listed = re.findall("<loc>(.*?)</loc>", (site / "sitemap.xml").read_text())
    assert sorted(listed) == sorted(addresses)


def test_a_redirect_leads_to_its_page_and_to_no_script_of_its_own(site):
    html = html_of(site, "faq.md")
    assert CANONICAL.findall(html) == [f"{ADDRESS}questions/"]
    assert 'content="0; url=../questions/"' in html
    assert 'href="../questions/"' in html
    assert policy.put_into(policy.EMPTY) in html


PUBLISHED = tomllib.loads((ROOT / "tests" / "site" / "published.toml").read_text())
LEADS = re.compile(r'<a href="([^"]+)" data-headings="([^"]*)">')


@pytest.mark.parametrize("address", PUBLISHED)
def test_what_was_published_leads_to_a_place_that_is_there(site, address):
    file = site / address / "index.html"
    assert file.exists(), f"/{address} is no page any more: expected a line in docs/redirects.toml"
    if not is_redirect(file):
        missing = {part for part in PUBLISHED[address] if f'id="{part}"' not in file.read_text()}
        assert not missing, f"/{address} has no headings {missing} any more"
        return
    target, headings = map(unescape, LEADS.search(file.read_text()).groups())
    headings = json.loads(headings)
    parts = {part for part in PUBLISHED[address] if not part.startswith(("claim-", "qkv"))}
    lost = parts - headings.keys()
    assert not lost, f"docs/redirects.toml, /{address}: expected headings = {{...}} for {lost}"
    for place in (target, *headings.values()):
        new, _, part = place.partition("#")
        reached = (file.parent / new / "index.html").resolve()
        assert not is_redirect(reached), f"/{address} leads to {place}, which leads on"
        assert not part or f'id="{part}"' in reached.read_text(), f"{place} is not there"


def article(html):
    """What stands on the page itself, without the menu, which lists each page."""
    return html.partition("<article")[2].partition("</article>")[0]


def test_an_index_leads_to_each_page_of_its_folder(site):
    """By hand, which a rule sees, or generated."""
    for index in (ROOT / "docs").rglob("*/index.md"):
        html = article(html_of(site, f"{index.parent.name}/index.md"))
        linked = {*re.findall(r'<a [^>]*?href="([\w-]+)/(?:#[^"]*)?"', html)}
        assert {page.stem for page in index.parent.glob("*.md")} - {"index"} <= linked, index


def test_the_path_is_listed_in_its_order_and_each_page_says_its_number_and_leads_to_the_next(site):
    path = menu.path(Site())
    assert path[-1] == "self-test.md"
    start = {page.name for page in (ROOT / "docs" / "start").glob("*.md")}
    assert {f"start/{name}" for name in start} == {*path[:-1]}
    listed = re.search(r'<ol class="wq-path".*?</ol>', html_of(site, "index.md"))[0]
    assert [f"{link}.md" for link in re.findall(r'href="([^"]+)/"', listed)] == path
    for number, name in enumerate(path, start=1):
        (said,) = re.findall(r'<p class="wq-path".*?</p>', article(html_of(site, name)))
        assert f"{number} of {len(path)}." in said
        following = [*path[number:], ""][0].removesuffix(".md").rpartition("/")[2]
        assert re.findall(r'href="[./a-z-]*?([a-z-]+)/"', said) == [following] * bool(following)


def test_the_menu_is_seen_at_a_glance():
    def lists(menu):
        """The menu, and each list of it."""
        yield menu
        for page in (page for entry in menu if isinstance(entry, dict) for page in entry.values()):
            if isinstance(page, list):
                yield from lists(page)

    text = (ROOT / "mkdocs.yml").read_text()
    sections = yaml.safe_load(text[text.index("nav:") : text.index("hooks:")])["nav"]
    assert len(sections) <= 7
    assert max(map(len, lists(sections))) <= 12


def test_each_tab_leads_to_its_section(site):
    sections = ("explanation", "how-to", "symptoms", "libraries", "threads", "questions")
    wanted = ["../..#path", *(f"../../{name}/" for name in sections)]
    wanted[4] = "../"  # the page's own
    assert tabs_of(html_of(site, "libraries/gpt2.md")) == wanted


def test_answers_of_exercises_are_folded_in(site):
    for name, page in Site().pages.items():
        if name.startswith("explanation/") and not name.endswith("/index.md"):
            _, _, exercises = html_of(site, name).partition('id="try-it"')
            questions = [part for part in page.parts if getattr(part, "kind", "") == "question"]
            assert exercises.count('<details class="question">') == len(questions) > 0, name
            assert "<details open" not in exercises, name


def test_the_foot_of_each_page_leads_to_corrections_each_with_a_date_and_a_way(pages):
    for path, page in pages.items():
        [foot] = re.findall(r'<div class="md-copyright">.*?</div>\s*</div>', page.html, re.DOTALL)
        assert re.search(r'<a href="([^"]*corrections|\.)/">Corrections</a>', foot), path
        assert "Something wrong" not in foot  # no form of an unknown host
    _, *days = re.split(r"^(?=## )", (ROOT / "docs/corrections.md").read_text(), flags=re.MULTILINE)
    for day in days:
        assert re.match(r"## \d+ [A-Z][a-z]+ 20\d\d \{ #20\d\d-\d\d-\d\d \}\n", day)
        for entry in re.split(r"^- ", day, flags=re.MULTILINE)[1:]:
            assert re.search(r"\]\((?!http)", entry), entry


@pytest.mark.thorough
def test_two_clean_builds_are_the_same_bytes(site, tmp_path):
    project, again = tmp_path / "elsewhere", tmp_path / "site"
    left = shutil.ignore_patterns(".*", "__pycache__", "site")
    shutil.copytree(ROOT, project, ignore=left)
    other = {"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "PYTHONPATH": str(project / "src")}
    built = mkdocs_build(project, again, SITE_URL=ADDRESS, **other)
    assert built.returncode == 0, built.stdout
    for one, other in ((site, again), (again, site)):
        files = [path.relative_to(one) for path in one.rglob("*") if path.is_file()]
        assert files
        for path in files:
            assert (one / path).read_bytes() == (other / path).read_bytes(), path
