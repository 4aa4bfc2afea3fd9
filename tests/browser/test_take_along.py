"""The line that installs the package names the place that the page is read at."""

import shutil

import pytest

from browser.watching import WITHOUT_SCRIPTS
from qkv_site.tables import wheel
from support import ADDRESS, served, thorough

PAGE, REFERENCE = "how-to/attention-maps/", "reference/"
NAME = wheel.name().replace("+", "%2B")


@pytest.fixture(scope="module")
def copy(site, tmp_path_factory):
    """A copy of what two pages need, in a folder whose name a shell would not leave whole."""
    copy = tmp_path_factory.mktemp("copy") / "a stick (mine) & 'more'"
    for name in (PAGE, REFERENCE):
        shutil.copytree(site / name, copy / name)
    shutil.copytree(site / "assets", copy / "assets")
    return copy


def lines(page):
    return page.locator(".wq-install pre code").all_inner_texts()


@pytest.mark.parametrize("name", [PAGE, *thorough(REFERENCE)])
def test_below_a_sub_path_and_from_a_copy_on_a_disk(copy, visit, name):
    below = "a%20stick%20%28mine%29%20%26%20%27more%27"
    with served(copy.parent) as address:
        page = visit(f"{address}/{copy.name}/{name}")
        assert lines(page) == [f"pip install {address}/{below}/assets/{NAME}"]
    page = visit((copy / name / "index.html").as_uri())
    assert lines(page) == [f"pip install {copy.parent.as_uri()}/{below}/assets/{NAME}"]


def test_without_a_script_it_names_the_published_address(visit):
    page = visit(f"/{PAGE}", **WITHOUT_SCRIPTS)
    assert lines(page) == [f"pip install {ADDRESS}assets/{NAME}"]
    download = page.get_by_role("link", name="Download qkv")
    assert download.get_attribute("href").endswith(f"assets/{NAME}")
