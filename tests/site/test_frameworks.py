"""Pages where a check is there in several frameworks, each in a tab."""

import ast
import builtins
import re
from html import unescape

import pytest

from qkv_site.markdown import claims
from qkv_site.page import Site, parse
from qkv_site.parts import on_library
from qkv_site.parts.tabs import TABS, Tab
from qkv_site.run import blocks_of

GOES_ON = "The blocks below use names of the tab NumPy."
ALL = ["NumPy", "PyTorch", "Keras", "Flax"]
# The tabs of each page that a beginner, or an engineer between two code bases, lands on. A page has
# fewer where it is about one library, and where a test runs the others.
PAGES = {
    "start/how-many-matrices.md": [ALL[:3]],
    "start/which-q.md": [ALL[:3]],
    "explanation/deeplearning-ai-course.md": [["NumPy", "Keras"]],  # its assignment is in Keras
    "explanation/widths.md": [ALL],
    "how-to/masks.md": [ALL],
    "how-to/weights-out-of-a-checkpoint.md": [ALL],
    # Its page leads to test_weights_move_between_torch_keras_flax_and_haiku, which runs the others.
    "how-to/convert.md": [ALL[:2]],
    "how-to/remove-a-double-projection.md": [ALL[:3], ALL[:3]],
    "libraries/pytorch.md": [["NumPy", "PyTorch"]],
    "libraries/keras.md": [["NumPy", "Keras"]],
    "libraries/flax.md": [["NumPy", "Flax"]],
}


PAGE = Site().pages


def tabs_of(page):
    return [part for part in page.walk() if isinstance(part, Tab)]


def built(site, page):
    folder = page.removesuffix("index.md").removesuffix(".md")
    return (site / folder / "index.html").read_text()


@pytest.mark.parametrize("page", PAGES)
def test_a_check_is_there_in_each_framework(site, page):
    html = built(site, page)
    labels = re.findall(r'<div class="tabbed-labels">(.*?)</div>', html, re.DOTALL)
    assert [re.findall(r"<label[^>]*>(.*?)</label>", each) for each in labels] == PAGES[page]
    assert "content.tabs.link" in html  # in the settings that Material's script reads


@pytest.mark.parametrize("page", PAGES)
def test_a_tab_shows_what_its_block_printed_and_on_which_version(site, page):
    shown = unescape(re.sub(r"<[^>]+>", "", built(site, page)))
    seen = 0
    for tab in tabs_of(PAGE[page]):
        for block in tab.blocks:
            assert block.library == TABS[tab.title]
            if block.library:
                seen += 1
                assert f"Run: {claims.ran_on(block.library)}, on " in shown
                assert on_library.printed(block) in shown
    assert seen == sum(len(titles) - 1 for titles in PAGES[page])


def test_a_tab_ends_where_its_indentation_ends():
    text = '=== "Keras"\n\n    ```python library="keras"\n    one\n    ```\n\n=== "Torch"\n\nNo.\n'
    found = [(tab.line, tab.title, len(tab.blocks)) for tab in tabs_of(parse("page.md", text))]
    assert found == [(1, "Keras", 1), (7, "Torch", 0)]


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


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_where_a_block_below_its_tabs_needs_one_of_them(page):
    tabbed = {block.code for tab in tabs_of(PAGE[page]) for block in tab.blocks}
    of_tabs, of_page, needed = set(), {*dir(builtins)}, set()
    for block in blocks_of(PAGE[page]):
        bound, needs = names_of(block.code)
        if block.code in tabbed:
            of_tabs |= bound
            continue
        if "source" in block.given:
            needed |= (needs - of_page) & of_tabs
        of_page |= bound
    assert (GOES_ON in PAGE[page].text) == bool(needed), needed
