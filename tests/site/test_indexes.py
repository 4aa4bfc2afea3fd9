"""A folder's index leads to each of its pages, by hand or generated; the home page, to the path."""

import re

import pytest
import yaml

from qkv_site import menu
from qkv_site.page import Site
from support import ROOT

INDEXES = sorted((ROOT / "docs").rglob("*/index.md"))


def missing(index, article):
    """The pages beside an index that its article has no link to."""
    linked = set(re.findall(r'<a [^>]*?href="([\w-]+)/(?:#[^"]*)?"', article))
    return {page.stem for page in index.parent.glob("*.md")} - {index.stem} - linked


def article(html):
    """What stands on the page itself, without the menu, which lists each page."""
    return html.partition("<article")[2].partition("</article>")[0]


@pytest.mark.parametrize("index", INDEXES, ids=lambda index: index.parent.name)
def test_an_index_leads_to_each_page_of_its_folder(site, index):
    html = (site / index.parent.name / "index.html").read_text()
    assert missing(index, article(html)) == set()


def test_the_folders_with_an_index_are_those_with_pages():
    folders = {page.parent for page in (ROOT / "docs").rglob("*/*.md")}
    assert folders - {ROOT / "docs" / "start"} == {index.parent for index in INDEXES}
    assert len(INDEXES) >= 6


def test_the_home_page_lists_the_path_in_its_order_and_it_has_no_other_pages(site):
    path = menu.path(Site())
    assert path[-1] == "self-test.md"
    start = {page.name for page in (ROOT / "docs" / "start").glob("*.md")}
    assert {f"start/{name}" for name in start} == {*path[:-1]}
    listed = re.search(r'<ol class="wq-path".*?</ol>', (site / "index.html").read_text())[0]
    links = re.findall(r'href="([^"]+)/"', listed)
    assert [f"{link}.md" for link in links] == path


def test_a_page_of_the_path_says_its_number_and_leads_to_the_next(site):
    path = menu.path(Site())
    for number, name in enumerate(path, start=1):
        html = article((site / name.removesuffix(".md") / "index.html").read_text())
        (said,) = re.findall(r'<p class="wq-path".*?</p>', html)
        assert f"{number} of {len(path)}." in said
        following = [*path[number:], ""][0].removesuffix(".md").rpartition("/")[2]
        links = re.findall(r'href="[./a-z-]*?([a-z-]+)/"', said)
        assert links == [following] * bool(following)


def lists(menu):
    """The menu, and each list of it."""
    yield menu
    for entry in menu:
        below = entry if isinstance(entry, dict) else {}
        for page in below.values():
            if isinstance(page, list):
                yield from lists(page)


def test_the_menu_is_seen_at_a_glance():
    text = (ROOT / "mkdocs.yml").read_text()
    menu = yaml.safe_load(text[text.index("nav:") : text.index("hooks:")])["nav"]
    assert len(menu) <= 7
    assert {len(each): each for each in lists(menu) if len(each) > 12} == {}


def test_a_page_that_an_index_leaves_out_is_found(tmp_path):
    for name in ("index", "linked", "forgotten"):
        (tmp_path / f"{name}.md").touch()
    menu = '<a href="forgotten/">'
    page = f'{menu}<article class="a"><a class="b" href="linked/#part"></article>{menu}'
    assert missing(tmp_path / "index.md", article(page)) == {"forgotten"}
