"""Pages where a check is there in several frameworks, each in a tab."""

import ast
import builtins
import re

import pytest

from qkv_site.markdown import claims
from qkv_site.page import Site
from qkv_site.parts import on_library
from qkv_site.parts.tabs import TABS, Tab
from qkv_site.run import blocks_of
from support import html_of, words_of

GOES_ON = "The blocks below the tabs use names of the tab NumPy: of the tabs, run that one last."
TABBED = {
    name: (page, tabs)
    for name, page in Site().pages.items()
    if (tabs := [part for part in page.walk() if isinstance(part, Tab)])
}


@pytest.mark.parametrize("name", TABBED)
def test_a_tab_has_a_label_and_shows_what_its_block_printed_and_on_which_version(site, name):
    html = html_of(site, name)
    labels = re.findall(r'<div class="tabbed-labels">(.*?)</div>', html, re.DOTALL)
    titles = [re.findall(r"<label[^>]*>(.*?)</label>", each) for each in labels]
    _, tabs = TABBED[name]
    assert [title for each in titles for title in each] == [tab.title for tab in tabs]
    assert {each[0] for each in titles} == {"NumPy"}  # which each block below may go on from
    assert "content.tabs.link" in html  # in the settings that Material's script reads
    for tab in tabs:
        for block in tab.blocks:
            assert block.library == TABS[tab.title]
            if block.library:
                assert f"Run: {claims.ran_on(block.library)}, on " in words_of(html)
                assert on_library.printed(block) in words_of(html)


def test_pages_that_many_land_on_have_tabs():
    assert {"start/which-q.md", "start/how-many-matrices.md", "how-to/masks.md"} <= TABBED.keys()


def names_of(code):
    """The names that a block binds, and those that it needs."""
    tree = ast.parse(code)
    names = [each for each in ast.walk(tree) if isinstance(each, ast.Name)]
    bound = {each.id for each in names if isinstance(each.ctx, ast.Store)}
    for each in ast.walk(tree):
        if isinstance(each, (ast.Import, ast.ImportFrom)):
            bound |= {(alias.asname or alias.name).partition(".")[0] for alias in each.names}
        elif isinstance(each, (ast.FunctionDef, ast.ClassDef)):
            bound.add(each.name)
    return bound, {each.id for each in names if isinstance(each.ctx, ast.Load)} - bound


@pytest.mark.parametrize("name", TABBED)
def test_a_page_says_where_a_block_below_its_tabs_needs_one_of_them(name):
    page, tabs = TABBED[name]
    tabbed = {block.code for tab in tabs for block in tab.blocks}
    of_tabs, of_page, needed = set(), {*dir(builtins)}, set()
    for block in blocks_of(page):
        bound, needs = names_of(block.code)
        if block.code in tabbed:
            of_tabs |= bound
            continue
        if block.shown:
            needed |= (needs - of_page) & of_tabs
        of_page |= bound
    assert (GOES_ON in page.text) == bool(needed), needed
