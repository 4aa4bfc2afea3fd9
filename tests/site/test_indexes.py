"""A folder's index leads to each of its pages, whether it is written by hand or generated."""

import re

import pytest

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
    assert folders == {index.parent for index in INDEXES}
    assert len(INDEXES) >= 6


def test_a_page_that_an_index_leaves_out_is_found(tmp_path):
    for name in ("index", "linked", "forgotten"):
        (tmp_path / f"{name}.md").touch()
    menu = '<a href="forgotten/">'
    page = f'{menu}<article class="a"><a class="b" href="linked/#part"></article>{menu}'
    assert missing(tmp_path / "index.md", article(page)) == {"forgotten"}
