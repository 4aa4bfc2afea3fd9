"""Zensical builds the same site as MkDocs, and stops at the same faults.

These tests are for an environment that has Zensical: `.ci/zensical`.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from qkv_site.engine import zensical
from qkv_site.finish import policy
from qkv_site.page import Site
from support import ADDRESS, ENVIRONMENT, ROOT, make_project, tabs_of

LINK = re.compile(r'<\w+\b[^<>]* (?:href|src)="([^"#:?]+)[#"]')


def build(project: Path, **environment: str) -> subprocess.CompletedProcess:
    """Build with Zensical as a user would, with this project's code."""
    return subprocess.run(
        [sys.executable, "-m", "qkv_site", "zensical", "site"],
        cwd=project,
        env=os.environ | ENVIRONMENT | {"PYTHONPATH": str(ROOT / "src")} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The whole site."""
    project = tmp_path_factory.mktemp("zensical")
    for name in ("docs", "src", "tests/truth"):
        shutil.copytree(ROOT / name, project / name)
    shutil.copy(ROOT / "mkdocs.yml", project)
    built = build(project, SITE_URL=ADDRESS)
    assert built.returncode == 0, built.stdout
    assert not (project / zensical.NAME).exists()
    return project / "site"


def test_each_page_is_there_with_its_policy_and_its_copy(whole):
    for name in Site().names():
        page = whole / name.removesuffix("index.md").removesuffix(".md")
        html = (page / "index.html").read_text()
        assert policy.put_into(policy.EMPTY).split(";")[0] in html, name
        assert (page / "index.md").exists(), name


@pytest.mark.parametrize(
    "name", ["llms.txt", "llms-full.txt", "robots.txt", "404.html", "sitemap.xml", "objects.inv"]
)
def test_what_hosts_and_assistants_ask_for_is_there(whole, name):
    assert (whole / name).stat().st_size


def test_what_pages_ask_for_is_there(whole):
    data = json.loads((whole / "assets" / "search.json").read_text())
    assert len(data["pages"]) == len(Site().names())
    assert len([*(whole / "assets").glob("*.whl")]) == 1
    assert (whole / "how-to" / "masks.ipynb").exists()
    assert (whole / "faq" / "index.html").exists()


def test_each_tab_leads_to_its_section(whole):
    tabs = tabs_of((whole / "libraries/gpt2/index.html").read_text())
    assert tabs[0] == "../..#path"
    assert len({*tabs}) == len(tabs) == 7


def test_each_link_inside_the_site_leads_to_a_file(whole):
    missing = set()
    for page in whole.rglob("index.html"):
        for link in LINK.findall(page.read_text()):
            target = page.parent / unquote(link)
            if not (target / "index.html").exists() and not target.is_file():
                missing.add((str(page.relative_to(whole)), link))
    assert missing == set()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```pyhton\n1\n```", "index.md:3: a block of 'pyhton'"),
        ("{{X_Q @ W_O[i]}}", "index.md:3: formula `X_Q @ W_O[i]`"),
        ('```python exec="on"\n1 / 0\n```', "ZeroDivisionError"),
        ("[a](b.md)", "page does not exist"),
        ("[a](#b)", "nothing there has the id 'b'"),
        ('<a href="javascript:x">a</a>', "Content-Security-Policy"),
    ],
)
def test_a_fault_stops_the_build(tmp_path, text, said):
    make_project(tmp_path, {"index.md": f"# Home\n\n{text}\n"})
    (tmp_path / ".cache").unlink()  # Zensical wants a folder of its own
    built = build(tmp_path)
    assert built.returncode == 1
    assert said in built.stdout


def test_a_page_without_a_fault_is_built(tmp_path):
    make_project(tmp_path, {"index.md": "# Home\n\nThis is {{X_Q}}.\n"})
    (tmp_path / ".cache").unlink()
    built = build(tmp_path)
    assert built.returncode == 0, built.stdout
    assert "data-sets" in (tmp_path / "site" / "index.html").read_text()
