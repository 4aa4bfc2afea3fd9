"""Every explanation is a notebook too: the page's text and blocks, and it runs on its own."""

import itertools
import re

import nbformat
import pytest
from nbclient import NotebookClient

from qkv_site.generated import notebooks
from qkv_site.markdown import blocks
from support import ROOT

NAMES = sorted(
    path.stem for path in (ROOT / "docs" / "explanation").glob("*.md") if path.stem != "index"
)
ADDRESS = "https://site.example/"
OUTSIDE = "https://other.example#out"
# A block that prints HTML becomes two cells: this and its code, and this.
CAPTURED = "%%capture drawn\n"
SHOWN = "from IPython.display import HTML\n\nHTML(drawn.stdout)"


def cells(text, kind="markdown"):
    """The sources of a page's cells, without the first, which is about the notebook."""
    made = notebooks.notebook(text, "About.", lambda target: ADDRESS + target)
    return [cell["source"] for cell in made["cells"][1:] if cell["cell_type"] == kind]


def read(site, name):
    return nbformat.read(site / "explanation" / f"{name}.ipynb", as_version=4)


def code(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def executed(name):
    """The code of a page's executed blocks."""
    page = (ROOT / "docs" / "explanation" / f"{name}.md").read_text()
    return [block.code.strip() for block in blocks.find(page) if block.executed]


def test_a_notebook_runs_in_a_fresh_kernel(site, tmp_path):
    """That of one page; the blocks of the others run in tests/pages."""
    [name, *_] = [name for name in NAMES if SHOWN in code(read(site, name))]
    notebook = read(site, name)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": tmp_path}}).execute()
    silent = [
        cell.source
        for cell in notebook.cells
        if cell.cell_type == "code" and not cell.outputs and not cell.source.startswith(CAPTURED)
    ]
    assert silent == []


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_has_the_pages_blocks(site, name):
    notebook = read(site, name)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    cells = code(notebook)
    assert [cell.removeprefix(CAPTURED) for cell in cells if cell != SHOWN] == executed(name)
    for cell, following in itertools.pairwise([*cells, ""]):
        assert cell.startswith(CAPTURED) == (following == SHOWN)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_has_the_pages_titles_and_headings(site, name):
    page = (ROOT / "docs" / "explanation" / f"{name}.md").read_text()
    notebook = read(site, name)
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    for block in blocks.find(page):
        if block.executed:
            assert block.options.get("title", "").partition("{{")[0] in text
    assert len(re.findall("^#+ ", text, re.MULTILINE)) == len(
        re.findall(r"^#+ ", re.sub(r"```.*?```", "", page, flags=re.DOTALL), re.MULTILINE)
    )
    assert "pip install" in notebook.cells[0].source


@pytest.mark.parametrize("name", NAMES)
def test_nothing_that_jupyter_does_not_know_is_left(site, name):
    text = "\n".join(c.source for c in read(site, name).cells if c.cell_type == "markdown")
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    unknown = r"\{\{|\{:? *[#.]|^ *(\?\?\?|!!!|===|:::)|\[\^|\.md\b|exec=|<\w"
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
    assert made["cells"][1]["source"] == "one `map[0]` $Q_i$"


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
    assert read(built.site, "one").cells[1].source == f"# One\n\n## Here\n\n{expected}"


def test_a_claim_says_what_it_shows_and_who_says_so():
    page = (
        '```python exec="on" claim="c" title="All of {{Q[i]}}." cite="Euclid"\nassert True\n```\n'
    )
    assert cells(page)[0] == "**Checked:** All of $Q_i$. (Euclid)"


def test_a_block_that_prints_html_shows_it():
    drawing = '```python exec="on" html="on"\nprint("<b>2</b>")\n```\n'
    assert cells(drawing, "code") == [f'{CAPTURED}print("<b>2</b>")', SHOWN]


def test_no_cell_is_empty():
    block = '```python exec="on"\nassert True\n```\n'
    assert cells(block + block) == []
    assert cells(block + block, "code") == ["assert True"] * 2


def test_a_fence_that_is_not_executed_stays_a_fence():
    assert cells("```toml\na = 1\n```\n") == ["```toml\na = 1\n```"]
