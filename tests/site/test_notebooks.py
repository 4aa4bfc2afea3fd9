"""Every explanation is a notebook too: the page's text and blocks, and it runs on its own."""

import os
import re
import subprocess
import sys
import zipfile
from urllib.parse import quote

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

from qkv_site.generated import notebooks, wheel
from qkv_site.markdown import blocks
from qkv_site.markdown.heat_maps import equation
from support import ROOT

NAMES = sorted(
    path.stem for path in (ROOT / "docs" / "explanation").glob("*.md") if path.stem != "index"
)
ADDRESS = "https://site.example/"
OUTSIDE = "https://other.example#out"


def cells(text, kind="markdown"):
    """The sources of a page's cells, without the first two: about the notebook, and its package."""
    made = notebooks.notebook(text, "About.", lambda target: ADDRESS + target)
    return [cell["source"] for cell in made["cells"][2:] if cell["cell_type"] == kind]


def read(site, name):
    return nbformat.read(site / "explanation" / f"{name}.ipynb", as_version=4)


def code(notebook):
    return [cell for cell in notebook.cells[2:] if cell.cell_type == "code"]


def executed(name):
    """A page's executed blocks."""
    page = (ROOT / "docs" / "explanation" / f"{name}.md").read_text()
    return [block for block in blocks.find(page) if block.executed]


def test_a_notebook_runs_in_a_fresh_kernel_and_prints_what_it_shows(site, tmp_path):
    """That of one page, with the package that its wheel holds; tests/pages runs all blocks."""
    [packed] = (site / "assets").glob("*.whl")
    zipfile.ZipFile(packed).extractall(tmp_path)
    shown = read(site, "worked-example")
    notebook = read(site, "worked-example")
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": tmp_path}})
    client.execute(env=os.environ | {"PYTHONPATH": ""})
    assert [c.outputs for c in code(notebook)] == [c.outputs for c in code(shown)]


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_has_the_pages_blocks_and_what_they_print(site, name):
    notebook = read(site, name)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    cells, blocks_of_page = code(notebook), executed(name)
    assert not [cell for cell in cells if "qkv_site" in cell.source]  # readers do not have it
    shown = [block for block in blocks_of_page if "html" not in block.options]
    assert [block.code.strip() for block in shown if "qkv_site" not in block.code] == [
        cell.source for cell in cells if cell.source in {block.code.strip() for block in shown}
    ]
    printing = [cell for cell in cells if re.search(r"^print\(", cell.source, re.MULTILINE)]
    assert not [cell.source for cell in printing if not cell.outputs]


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_has_the_pages_titles_and_headings(site, name):
    page = (ROOT / "docs" / "explanation" / f"{name}.md").read_text()
    notebook = read(site, name)
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    for block in blocks.find(page):
        if block.executed:
            assert block.options.get("title", "").partition("{{")[0] in text
    headings = (
        re.findall(r"^#+ ", blocks.FENCE.sub("", each), re.MULTILINE) for each in (text, page)
    )
    assert len(next(headings)) == len(next(headings))
    assert f'else "./{wheel.name()}"' in notebook.cells[1].source


@pytest.mark.parametrize("name", NAMES)
def test_nothing_that_jupyter_does_not_know_is_left(site, name):
    text = "\n".join(c.source for c in read(site, name).cells if c.cell_type == "markdown")
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    unknown = (
        r"\{\{|\{:? *[#.]|^ *(?:\?\?\?|!!!|===|:::)|\[\^|\.md\b|exec=|<(?!t|br>|caption>|/?sup>)\w"
    )
    assert re.findall(rf".*(?:{unknown}).*", prose, re.MULTILINE) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_page_leads_to_its_notebook(site, name):
    page = (site / "explanation" / name / "index.html").read_text()
    link = f'<a href="../{name}.ipynb" download>Download this page as a notebook</a>'
    assert page.count(link) == 1


def test_other_pages_have_no_notebook(site):
    assert "as a notebook" not in (site / "index.html").read_text()
    assert {path.stem for path in site.rglob("*.ipynb")} == set(NAMES)


def test_a_fold_out_stands_below_its_title():
    page = (
        '# Page { #page }\n\n??? question "How wide?"\n    Two.\n\n'
        '    ```python exec="on"\n    assert 1 + 1 == 2\n    ```\n\n    Indeed.\n\nAfter.\n'
    )
    assert cells(page) == ["# Page\n\n**How wide?**\n\nTwo.", "Indeed.\n\nAfter."]
    assert cells(page, "code") == ["assert 1 + 1 == 2"]


def test_formulas_are_latex():
    page = (
        "{{Q[i]}} and {{paper-3-2-2: Q[i]}} and `{{Q[i]}}`\n\n"
        '```formula in="paper-eq1 ng-multi-head"\nQ[i] = X_Q @ W_Q[i]\n```\n'
    )
    (text,) = cells(page)
    assert text.startswith(
        "$Q_i$ and $Q W_i^Q$ and `{{Q[i]}}`\n\n**The paper, equation (1)**\n\n$$\n"
    )
    assert "$$\nW_i^Q q\n$$" in text
    assert r"- $d_{\text{model}}" not in text
    assert "- $q$: source of the queries" in text


def test_a_faulty_formula_is_left_to_the_page_to_report():
    assert cells("{{Q[i] @}}\n\n```formula\nQ[i] @ Q[i]\n```\n") == [
        "`Q[i] @`\n\n```\nQ[i] @ Q[i]\n```"
    ]


def test_links_are_absolute_or_text():
    page = "[one `map[0]` {{Q[i]}}](one.md#check)"
    assert cells(page) == [f"[one `map[0]` $Q_i$]({ADDRESS}one.md#check)"]
    made = notebooks.notebook(page, "About.", lambda target: "")
    assert made["cells"][2]["source"] == "one `map[0]` $Q_i$"


@pytest.mark.parametrize(
    ("site_url", "expected"),
    [
        (ADDRESS, f"[up]({ADDRESS}#up) [here]({ADDRESS}explanation/one/#here) [out]({OUTSIDE})"),
        ("", f"up here [out]({OUTSIDE})"),
    ],
    ids=["of a published site", "of a site that has no address"],
)
def test_links_lead_to_the_published_page(build, monkeypatch, site_url, expected):
    monkeypatch.setenv("SITE_URL", site_url)
    page = f"# One\n\n## Here {{ #here }}\n\n[up](../index.md#up) [here](#here) [out]({OUTSIDE})\n"
    built = build({"index.md": "# Home\n\n## Up\n", "explanation/one.md": page})
    assert built.returncode == 0, built.stdout
    assert read(built.site, "one").cells[2].source == f"# One\n\n## Here\n\n{expected}"


def test_a_claim_says_what_it_shows_and_who_says_so():
    page = (
        '```python exec="on" claim="c" title="All of {{Q[i]}}." cite="Euclid"\nassert True\n```\n'
    )
    assert cells(page)[0] == "**Checked:** All of $Q_i$. (Euclid)"


def test_a_drawing_is_a_table_in_the_text_and_needs_nothing_of_the_site():
    drawing = (
        '```python exec="on" html="on"\nfrom qkv_site.markdown.heat_maps import heat_map\n\n'
        "A = 1 + 1\ndrawn = heat_map(A)\nprint(drawn)\n```\n"
    )
    table = (
        '<figure class="wq"><table class="t"><tr><td style="--part:1">2</td></tr></table></figure>'
    )
    made = notebooks.notebook(drawing, "About.", lambda target: "", [table])
    _, _, code, text = made["cells"]
    assert (code["source"], code["outputs"]) == ("A = 1 + 1", [])
    assert text["source"] == "<table><tr><td>2</td></tr></table>"


def test_a_matrix_in_a_drawing_has_its_whole_expression():
    drawing = '```python exec="on" html="on"\nprint(1)\n```\n'
    parts = ("softmax(S[i])", np.eye(2)), ("paper-eq1: Q[i]", np.eye(2))
    drawn = equation(*parts, words=("a", "b"), label="Two.")
    made = notebooks.notebook(drawing, "About.", lambda target: "", [drawn])
    captions = re.findall("<caption>(.*?)</caption>", made["cells"][-1]["source"])
    assert [caption.split(" 2 × 2")[0].strip() for caption in captions] == [
        r"$\operatorname{softmax}(S_i)$",
        "$Q$ , projected queries of one head,",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_speaks_of_no_shade_that_it_does_not_have(site, name):
    assert not [cell for cell in read(site, name).cells if "Darker" in cell.source]


def test_a_published_notebook_gets_the_package_from_the_site(monkeypatch):
    monkeypatch.setattr("qkv_site.markdown.current.address", ADDRESS)
    made = notebooks.notebook("# Page\n", "About.", lambda target: "")
    there = f"{ADDRESS}assets/{quote(wheel.name())}"
    assert f'else "{there}"\n    %pip install --quiet {{wheel}}' in made["cells"][1]["source"]


def test_the_wheel_installs_without_a_network_and_is_the_package(site, tmp_path):
    [packed] = (site / "assets").glob("*.whl")
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--target"]
    subprocess.run([*pip, tmp_path, packed], check=True, capture_output=True)
    ours = ROOT / "src" / "qkv"
    kept = {path.relative_to(ours) for path in ours.rglob("*") if path.suffix in (".py", ".toml")}
    assert kept
    for path in kept:
        assert (tmp_path / "qkv" / path).read_bytes() == (ours / path).read_bytes()


def test_no_cell_is_empty():
    block = '```python exec="on"\nassert True\n```\n'
    assert cells(block + block) == []
    assert cells(block + block, "code") == ["assert True"] * 2


def test_a_fence_that_is_not_executed_stays_a_fence():
    assert cells("```toml\na = 1\n```\n") == ["```toml\na = 1\n```"]
