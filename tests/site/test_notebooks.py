"""Where a page shows code that ran it is a notebook too: its text, its blocks and its numbers."""

import re
import subprocess
import sys
from functools import cache
from urllib.parse import quote

import nbformat
import numpy as np
import pytest

from qkv_site.figures import Printed
from qkv_site.markdown.heat_maps import equation, heat_map
from qkv_site.page import Heading, Site, parse
from qkv_site.parts import diagrams
from qkv_site.parts import map as layer_map
from qkv_site.run import blocks_of
from qkv_site.tables import wheel
from qkv_site.write import notebooks
from support import ADDRESS as PUBLISHED
from support import ROOT, thorough

DOCS = ROOT / "docs"
READ = Site().pages
FOLDERS = "explanation", "how-to", "libraries", "symptoms", "threads"
NAMES = sorted(
    path.relative_to(DOCS).with_suffix("").as_posix()
    for folder in FOLDERS
    for path in (DOCS / folder).glob("*.md")
    if 'exec="on" source="above"' in path.read_text()
)
ADDRESS = "https://site.example/"
OUTSIDE = "https://other.example#out"
NAME = "threads/page.md"
ADDRESSES = {NAME: "threads/page/", "one.md": "one/"}
INDEX = {"threads/index.md": "# Threads\n\n[One](one.md)\n"}
BLOCK = '```python exec="on" source="above"\nassert True\n```\n'


def made(text, *figures, site=ADDRESS):
    """The cells of a page whose one block printed figures, without the first two."""
    page = parse(NAME, text)
    for block in blocks_of(page) if figures else ():
        marks = "\n".join(f"\x0e{number}\x0f" for number in range(len(figures)))
        block.printed = Printed(marks, figures)
    return notebooks.notebook(page, ADDRESSES, site).cells[2:]


def cells(text, kind="markdown"):
    """The sources of a page's cells, without the first two: about the notebook, and its package."""
    return [cell.source for cell in made(text) if cell.cell_type == kind]


@cache
def read(site, name):
    return nbformat.read(site / f"{name}.ipynb", as_version=4)


def code(notebook):
    return [cell for cell in notebook.cells[2:] if cell.cell_type == "code"]


def markdown(notebook):
    return "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def page_of(name):
    return READ[f"{name}.md"]


def executed(name):
    """A page's executed blocks."""
    return blocks_of(page_of(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_has_the_pages_blocks_and_what_they_print(site, name):
    notebook = read(site, name)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    cells = code(notebook)
    assert not [cell for cell in cells if "qkv_site" in cell.source]  # readers do not have it
    shown = [block.code.strip() for block in executed(name) if "source" in block.given]
    assert shown == [cell.source for cell in cells if cell.source in shown]
    printing = [cell for cell in cells if re.search(r"^print\(", cell.source, re.MULTILINE)]
    assert not [cell.source for cell in printing if not cell.outputs]


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_has_the_pages_titles_and_headings(site, name):
    page, notebook = page_of(name), read(site, name)
    text = markdown(notebook)
    for block in executed(name):
        assert block.given.get("title", "").partition("{{")[0] in text
    here, there = (
        sum(isinstance(part, Heading) for part in each.parts) for each in (parse(name, text), page)
    )
    assert here >= there if "qkv_site" in page.text else here == there  # it may print some


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
    page = f"[one `map[0]` {{{{Q[i]}}}}](../one.md#check) [here](#here) [out]({OUTSIDE})"
    one, here = f"[one `map[0]` $Q_i$]({ADDRESS}one/#check)", f"[here]({ADDRESS}threads/page/#here)"
    assert cells(page) == [f"{one} {here} [out]({OUTSIDE})"]
    assert made(page, site="")[0].source == f"one `map[0]` $Q_i$ here [out]({OUTSIDE})"


def test_a_claim_says_what_it_shows_and_who_says_so():
    page = (
        '```python exec="on" claim="c" title="All of {{Q[i]}}." cite="Euclid"\nassert True\n```\n'
    )
    assert cells(page)[0] == "**Checked:** All of $Q_i$. (Euclid)"


HEAT_MAP = heat_map(np.array([[2.0]]), rows=["a"], columns=["b"], label="Two.", digits=0)
DRAWING = (
    '## Why { #why }\n\n```python exec="on" html="on"\n'
    "from qkv_site.markdown.heat_maps import heat_map\n\n"
    "A = 1 + 1\ndrawn = heat_map(A)\nprint(drawn)\n```\n"
)


def test_in_the_place_of_a_drawing_stand_its_numbers_and_a_link_to_it():
    _, code, text = made(DRAWING, HEAT_MAP)
    assert (code.source, code.outputs) == ("A = 1 + 1", [])
    assert text.source == (
        "Two.\n\n| query ↓ key → | b |\n| --- | --- |\n| a | 2 |\n\n"
        f"[The drawing is on the page]({ADDRESS}threads/page/#why)."
    )


def test_without_an_address_of_the_site_a_drawing_is_said_to_be_on_the_page():
    assert made(DRAWING, HEAT_MAP, site="")[-1].source.endswith("\n\nThe drawing is on the page.")


def test_drawn_formulas_and_the_map_are_told_in_words():
    formula = "Q[i] = X_Q @ W_Q[i]"
    [text] = cells(f'```diagram\n{formula}\n```\n\n```map state="sound"\n```\n')
    assert text == (
        "Source of the queries, 5 by 16, times one head's weight for queries, 16 by 4, gives "
        "projected queries of one head, 5 by 4. "
        f"[The drawing is on the page]({ADDRESS}threads/page/).\n\n"
        f"{layer_map.words('sound')} [The drawing is on the page]({ADDRESS}threads/page/)."
    )
    two = diagrams.words(formula, "site udl")
    assert re.fullmatch(r"This site: Source .*\. Prince[^:]*: One head's weight .*\.", two)


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


def test_a_matrix_in_a_drawing_has_its_whole_expression():
    parts = ("softmax(S[i])", np.eye(2)), ("paper-eq1: Q[i]", np.eye(2))
    drawn = equation(*parts, words=("a", "b"), label="Both.")
    lines = made(DRAWING, drawn)[-1].source.splitlines()
    assert lines[0] == "Both."
    captions = [line for line in lines if "2 × 2" in line]
    assert captions == [r"$\operatorname{softmax}(S_i)$ 2 × 2", "$Q$ 2 × 2"]


@pytest.mark.parametrize("name", NAMES)
def test_text_speaks_of_no_shade_that_it_does_not_have(site, name):
    assert "stronger colour" not in markdown(read(site, name))


@pytest.mark.parametrize("name", NAMES)
def test_each_drawing_of_a_page_is_led_to(site, name):
    text = markdown(read(site, name))
    links = re.findall(r"\[The drawing is on the page\]\((.*?)(?:#([\w-]*))?\)", text)
    stored = name.startswith("libraries/") and "libraries.one_head(" in page_of(name).text
    drawn = [
        block
        for block in page_of(name).fences()
        if block.language in ("diagram", "map") or "html" in block.given
    ]
    assert len(links) == len(drawn) + stored
    page = (site / name.removesuffix("index") / "index.html").read_text()
    for address, anchor in links:
        assert address == f"{PUBLISHED}{name.removesuffix('index').rstrip('/')}/"
        assert not anchor or f'id="{anchor}"' in page


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
    pages = {"index.md": "# Home\n", f"{name}.md": f"# One\n\n{block}"}
    built = build(pages | {f"{name.partition('/')[0]}/index.md": "# All\n\n[One](one.md)\n"})
    assert built.returncode == 0, built.stdout
    assert not [*built.site.rglob("*.ipynb")]
    assert "as a notebook" not in (built.site / name / "index.html").read_text()


@pytest.mark.parametrize(
    ("address", "there"),
    [("", f"./{wheel.name()}"), (ADDRESS, f"{ADDRESS}assets/{quote(wheel.name())}")],
)
def test_a_notebook_gets_the_package_from_the_site_or_from_its_own_folder(written, address, there):
    written.site = Site(address=address)
    _, get, _ = notebooks.notebook(parse(NAME, "# Page\n"), ADDRESSES, address).cells
    assert f'else "{there}"\n    %pip install --quiet {{wheel}}' in get.source


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
