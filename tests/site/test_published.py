"""The site as it is published below an address: what search engines are told, and redirects."""

import json
import os
import re
import shutil
import tomllib
from html import unescape

import pytest

from qkv_site.finish import policy
from support import ADDRESS, ROOT, is_redirect, mkdocs_build

CANONICAL = re.compile(r'<link rel="canonical" href="([^"]*)">')


@pytest.fixture(scope="module")
def pages(site):
    """Every page but redirects: its address and its HTML."""
    files = [path for path in site.rglob("index.html") if not is_redirect(path)]
    assert len(files) > 25
    return {
        f"{ADDRESS}{path.parent.relative_to(site)}/".replace("/./", "/"): path.read_text()
        for path in files
    }


def test_each_page_says_its_own_address(pages):
    assert {at: CANONICAL.findall(html) for at, html in pages.items()} == {at: [at] for at in pages}


def test_the_site_map_has_each_page_and_no_redirect(pages, site):
    found = re.findall("<loc>(.*?)</loc>", (site / "sitemap.xml").read_text())
    assert sorted(found) == sorted(pages)


def test_without_an_address_nothing_is_told(build):
    html = (build({"index.md": "# Home\n"}).site / "index.html").read_text()
    assert CANONICAL.findall(html) == []


def test_a_redirect_leads_to_its_page_and_to_no_script_of_its_own(site):
    html = (site / "faq" / "index.html").read_text()
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
    lost = {
        part for part in PUBLISHED[address] if not part.startswith(("claim-", "qkv"))
    } - headings.keys()
    assert not lost, f"docs/redirects.toml, /{address}: expected headings = {{...}} for {lost}"
    for place in (target, *headings.values()):
        new, _, part = place.partition("#")
        reached = (file.parent / new / "index.html").resolve()
        assert not is_redirect(reached), f"/{address} leads to {place}, which leads on"
        assert not part or f'id="{part}"' in reached.read_text(), f"{place} is not there"


@pytest.mark.thorough
def test_two_clean_builds_are_the_same_bytes(site, tmp_path):
    project, again = tmp_path / "elsewhere", tmp_path / "site"
    left = shutil.ignore_patterns(".*", "__pycache__", "site")
    shutil.copytree(ROOT, project, ignore=left)
    other = {"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "PYTHONPATH": str(project / "src")}
    built = mkdocs_build(project, again, SITE_URL=ADDRESS, **other)
    assert built.returncode == 0, built.stdout
    assert _bytes(site) == _bytes(again)


def _bytes(site):
    return {
        os.path.relpath(path, site): hash(path.read_bytes())
        for path in site.rglob("*")
        if path.is_file()
    }
