"""The tables of attention functions: each function stands in each, and each cell has its check."""

import html
import re

from qkv_site.tables import functions

FILLED_WITHOUT_A_CHECK = {"—"}


def rows(page):
    """The rows of the tables with names of functions, as lists of cells."""
    for row in re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL):
        cells = re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)
        if cells and "<br" in cells[0]:
            yield cells


def test_each_cell_of_a_function_leads_to_its_check(site):
    page = (site / "libraries" / "attention-functions" / "index.html").read_text()
    found = {}
    for name, *cells in rows(page):
        found.setdefault(html.unescape(re.search(r"<code>(.*?)</code>", name)[1]), []).extend(cells)
    listed = {each["name"]: each for each in functions.functions()}
    assert found.keys() == listed.keys()
    for name, cells in found.items():
        assert len(cells) == 9 + 5  # and the letters, which were read
        for cell in set(cells[:9]) - FILLED_WITHOUT_A_CHECK:
            place = "#read-" if "read" in listed[name] else '[^"]*#test-'
            assert re.search(f'href="{place}', cell), (name, cell)


def test_what_was_read_says_where_and_what_was_run_needs_no_place():
    listed = functions.functions()
    for each in listed:
        assert ("package" in each) != ("read" in each), each["name"]
    said = functions.read_in()
    assert said.count("\n- ") + 1 == sum("read" in each for each in listed)
    for place in (r"commit \w{7}", r"xformers \d+\.\d+\.\d+"):
        assert re.search(place, said)
