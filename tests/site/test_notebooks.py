"""Where a page shows code that ran it is a notebook too: its text, its blocks and its drawings."""

import ast
import base64
import html
import re
import subprocess
import sys
from functools import cache
from urllib.parse import quote
from xml.etree import ElementTree

import nbformat
import numpy as np
import pytest

from qkv_site.markdown import blocks
from qkv_site.markdown.heat_maps import equation, heat_map
from qkv_site.tables import notebooks, wheel
from support import ROOT, thorough

DOCS = ROOT / "docs"
FOLDERS = "explanation", "how-to", "libraries", "symptoms", "threads"
NAMES = sorted(
    path.relative_to(DOCS).with_suffix("").as_posix()
    for folder in FOLDERS
    for path in (DOCS / folder).glob("*.md")
    if 'exec="on" source="above"' in path.read_text()
)
ADDRESS = "https://site.example/"
SVG = "http://www.w3.org/2000/svg"
OUTSIDE = "https://other.example#out"
BLOCK = '```python exec="on" source="above"\nassert True\n```\n'


def cells(text, kind="markdown"):
    """The sources of a page's cells, without the first two: about the notebook, and its package."""
    made = notebooks.notebook(text, "About.", lambda target: ADDRESS + target)
    return [cell["source"] for cell in made["cells"][2:] if cell["cell_type"] == kind]


@cache
def read(site, name):
    return nbformat.read(site / f"{name}.ipynb", as_version=4)


def code(notebook):
    return [cell for cell in notebook.cells[2:] if cell.cell_type == "code"]


def markdown(notebook):
    return "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def page_of(name):
    return (DOCS / f"{name}.md").read_text()


def executed(name):
    """A page's executed blocks."""
    return [block for block in blocks.find(page_of(name)) if block.executed]


def draws(block):
    return block.language in ("diagram", "map") or block.options.get("html") == "on"


def shown_drawings(notebook):
    """The SVG that each cell with a drawing has in its code, and the one that it has shown."""
    cells = [cell for cell in code(notebook) if cell.source.startswith("# @title Drawing: ")]
    return [(_written(cell.source), _shown(cell.outputs)) for cell in cells]


def _written(source):
    values = (node.value for node in ast.parse(source).body if isinstance(node, ast.Assign))
    return next(values).value


def _shown(outputs):
    [output] = outputs
    [data] = re.findall(
        r'^<img alt="[^"]+" src="data:image/svg\+xml;base64,(\S+)">$', output.data["text/html"]
    )
    return base64.b64decode(data).decode()


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_has_the_pages_blocks_and_what_they_print(site, name):
    notebook = read(site, name)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    cells = code(notebook)
    assert not [cell for cell in cells if "qkv_site" in cell.source]  # readers do not have it
    shown = [block.code.strip() for block in executed(name) if "source" in block.options]
    assert shown == [cell.source for cell in cells if cell.source in shown]
    printing = [cell for cell in cells if re.search(r"^print\(", cell.source, re.MULTILINE)]
    assert not [cell.source for cell in printing if not cell.outputs]


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_has_the_pages_titles_and_headings(site, name):
    page, notebook = page_of(name), read(site, name)
    text = markdown(notebook)
    for block in blocks.find(page):
        if block.executed:
            assert block.options.get("title", "").partition("{{")[0] in text
    here, there = (
        len(re.findall(r"^#+ ", blocks.FENCE.sub("", each), re.MULTILINE)) for each in (text, page)
    )
    assert here >= there if "qkv_site" in page else here == there  # it may print some


def test_nothing_that_jupyter_does_not_know_is_left(site):
    known = r"t|br>|caption>|details>|li>|summary>|sup>|ul>"
    unknown = rf"\{{\{{|\{{:? *[#.]|^ *(?:\?\?\?|!!!|===|:::)|\[\^|\.md\b|exec=|<(?!{known})\w"
    left = {}
    for name in NAMES:
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", markdown(read(site, name)), flags=re.DOTALL)
        if found := re.search(rf"(?:{unknown}).*", prose, re.MULTILINE):
            left[name] = found[0]
    assert left == {}


def test_each_page_leads_to_its_notebook(site):
    for name in NAMES:
        folder, _, stem = name.partition("/")
        is_index = stem == "index"
        page = (site / folder / ("" if is_index else stem) / "index.html").read_text()
        where = f"{'' if is_index else '../'}{stem}.ipynb"
        link = f'<a href="{where}" download>Download this page as a notebook</a>'
        assert page.count(link) == 1, name


def test_other_pages_have_no_notebook(site):
    assert "as a notebook" not in (site / "index.html").read_text()
    found = {path.relative_to(site).with_suffix("").as_posix() for path in site.rglob("*.ipynb")}
    assert found == set(NAMES)


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
    links = f"[up](../index.md#up) [here](#here) [out]({OUTSIDE})"
    page = f"# One\n\n## Here {{ #here }}\n\n{links}\n\n{BLOCK}"
    built = build({"index.md": "# Home\n\n## Up\n", "explanation/one.md": page})
    assert built.returncode == 0, built.stdout
    assert read(built.site, "explanation/one").cells[2].source == f"# One\n\n## Here\n\n{expected}"


def test_a_claim_says_what_it_shows_and_who_says_so():
    page = (
        '```python exec="on" claim="c" title="All of {{Q[i]}}." cite="Euclid"\nassert True\n```\n'
    )
    assert cells(page)[0] == "**Checked:** All of $Q_i$. (Euclid)"


def test_a_drawing_is_a_cell_and_its_numbers_are_text_and_needs_nothing_of_the_site():
    drawing = (
        '```python exec="on" html="on"\nfrom qkv_site.markdown.heat_maps import heat_map\n\n'
        "A = 1 + 1\ndrawn = heat_map(A)\nprint(drawn)\n```\n"
    )
    table = heat_map(np.array([[2.0]]), rows=["a"], columns=["b"], label="Two.", digits=0)
    made = notebooks.notebook(drawing, "About.", lambda target: "", [table])
    _, _, code, drawn, text = made["cells"]
    assert (code["source"], code["outputs"]) == ("A = 1 + 1", [])
    assert drawn["source"].startswith("# @title Drawing: Two.\n")
    assert "qkv_site" not in drawn["source"]
    assert (
        "<summary>The drawing as text</summary>\n\n<table><caption>Two.</caption>" in text["source"]
    )
    assert "<td>2</td>" in text["source"]


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("import qkv_site.markdown.heat_maps as drawn", "drawn"),
        ("import qkv_site.markdown.heat_maps", "qkv_site.markdown.heat_maps"),
        ("from qkv_site.markdown import heat_maps as drawn", "drawn"),
    ],
)
def test_a_cell_imports_nothing_of_the_site_however_its_block_does(line, call):
    block = f'```python exec="on"\nimport qkv\n{line}\n\nA = 1\nprint({call}.heat_map(A))\n```\n'
    assert cells(block, "code") == ["import qkv\n\nA = 1"]


def test_a_page_whose_block_imports_from_its_own_package_has_no_notebook():
    assert [*notebooks._imported("from . import near")] == [""]


@pytest.mark.parametrize("label", ["a \\x b", 'say """ now', "{a} of {{b}}", "it's", "a \\"])
def test_a_caption_is_text_whatever_stands_in_it(label):
    drawing = '```python exec="on" html="on"\nprint(1)\n```\n'
    table = heat_map(np.array([[2.0]]), rows=["a"], columns=["b"], label=label, digits=0)
    made = notebooks.notebook(drawing, "About.", lambda target: "", [table])
    [cell] = [cell for cell in made["cells"] if cell["source"].startswith("# @title")]
    svg = _written(cell["source"])
    assert ElementTree.fromstring(svg).findtext(f"{{{SVG}}}title") == label
    names = {"svg": svg, "b64encode": base64.b64encode, "HTML": str}
    shown = eval(cell["source"].splitlines()[-1], names)  # what Jupyter shows
    assert shown == cell["outputs"][0]["data"]["text/html"]
    assert html.unescape(re.search('alt="([^"]*)"', shown)[1]).startswith(f"{label} ")


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
def test_text_speaks_of_no_shade_that_it_does_not_have(site, name):
    assert "Darker" not in markdown(read(site, name))


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_has_the_pages_drawings_and_they_need_nothing_else(site, name):
    drawn = shown_drawings(read(site, name))
    figures = {"libraries": 1}.get(name.partition("/")[0], 0)  # of what is stored, beside its code
    least = sum(map(draws, blocks.find(page_of(name))))
    assert least <= len(drawn) <= least + figures
    for written, shown in drawn:
        assert written == shown
        root = ElementTree.fromstring(shown)
        for said in ("title", "desc"):
            assert root.findtext(f"{{{SVG}}}{said}").strip()
        text = shown.replace(f'xmlns="{SVG}"', "")
        assert "://" not in html.unescape(text)
        assert not re.search(r"<(?:script|style|foreignObject|image)\b|\son\w+=", text)
        assert set(re.findall(r"url\((.*?)\)|href=", text)) <= {"#hatched", "#striped"}


def test_what_cannot_be_drawn_is_named_with_its_page(build):
    block = '```python exec="on" html="on"\nprint("<figure><svg></svg></figure>")\n```\n'
    built = build({"index.md": "# Home\n", "threads/one.md": f"# One\n\n{BLOCK}\n{block}"})
    assert built.returncode == 1, built.stdout
    said = "threads/one.md: its notebook lacks a drawing: <figure class=''> cannot be drawn"
    assert said in built.stdout


def test_a_formula_in_a_table_that_has_no_latex_is_named_with_its_page(build):
    table = '<table class="wq-mask"><caption><math><mi>x</mi></math></caption></table>'
    block = f'```python exec="on" html="on"\nprint(\'{table}\')\n```\n'
    built = build({"index.md": "# Home\n", "threads/one.md": f"# One\n\n{BLOCK}\n{block}"})
    assert built.returncode == 1, built.stdout
    assert "threads/one.md: its notebook lacks numbers: a formula of a table" in built.stdout


def test_a_block_that_draws_nothing_is_named_with_its_page(build):
    block = '```python exec="on" html="on"\nprint("<p>Words.</p>")\n```\n'
    built = build({"index.md": "# Home\n", "threads/one.md": f"# One\n\n{BLOCK}\n{block}"})
    assert built.returncode == 1, built.stdout
    assert "threads/one.md: its notebook lacks a drawing: '<p>Words.</p>" in built.stdout


@pytest.mark.parametrize(
    ("name", "block"),
    [
        ("threads/one", '```python exec="on"\nassert True\n```\n'),  # shows no code
        *thorough(
            ("threads/one", BLOCK.replace("assert True", "import markdown_exec")),
            ("notes/one", BLOCK),
        ),
    ],
)
def test_a_page_has_a_notebook_where_it_shows_code_that_numpy_is_enough_for(build, name, block):
    built = build({"index.md": "# Home\n", f"{name}.md": f"# One\n\n{block}"})
    assert built.returncode == 0, built.stdout
    assert not [*built.site.rglob("*.ipynb")]
    assert "as a notebook" not in (built.site / name / "index.html").read_text()


@pytest.mark.parametrize(
    ("address", "there"),
    [("", f"./{wheel.name()}"), (ADDRESS, f"{ADDRESS}assets/{quote(wheel.name())}")],
)
def test_a_notebook_gets_the_package_from_the_site_or_from_its_own_folder(
    monkeypatch, address, there
):
    monkeypatch.setattr("qkv_site.markdown.current.address", address)
    made = notebooks.notebook("# Page\n", "About.", lambda target: "")
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
