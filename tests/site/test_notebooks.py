"""Where a page shows code that ran it is a notebook too: its text, its blocks and its numbers."""

import contextlib
import io
import re
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
from support import html_of

READ = Site().pages
NAMES = [name for name, page in READ.items() if notebooks.has_one(page)]
ADDRESS = "https://site.example/"
OUTSIDE = "https://other.example#out"
NAME = "threads/page.md"
ADDRESSES = {NAME: "threads/page/", "one.md": "one/"}
BLOCK = '```python exec="on" source="above"\nassert True\n```\n'


def made(text, *figures, site=ADDRESS):
    """The cells of a page whose one block printed figures, without the first two."""
    page = parse(NAME, text)
    for block in blocks_of(page) if figures else ():
        marks = "\n".join(f"\x0e{number}\x0f" for number in range(len(figures)))
        block.printed = Printed(marks, figures)
    return notebooks.notebook(page, ADDRESSES, site).cells[2:]


def sources(cells, kind):
    return [cell.source for cell in cells if cell.cell_type == kind]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_its_page(site, name):
    page, html = READ[name], html_of(site, name)
    notebook = nbformat.read(site / notebooks.address(name), as_version=4)
    nbformat.validate(notebook)
    codes = [cell for cell in notebook.cells[2:] if cell.cell_type == "code"]
    assert not [cell for cell in codes if "qkv_site" in cell.source]  # readers do not have it
    shown = [block.code.strip() for block in blocks_of(page) if block.shown]
    assert shown == [cell.source for cell in codes if cell.source in shown]
    with contextlib.redirect_stdout(io.StringIO()):
        exec("\n".join(cell.source for cell in codes), {"__name__": name})
    printing = [cell for cell in codes if re.search(r"^print\(", cell.source, re.MULTILINE)]
    assert not [cell.source for cell in printing if not cell.outputs]

    text = "\n".join(sources(notebook.cells, "markdown"))
    for block in blocks_of(page):
        assert block.given.get("title", "").partition("{{")[0] in text
    here, there = (
        sum(isinstance(part, Heading) for part in each.parts) for each in (parse(name, text), page)
    )
    assert here >= there if "qkv_site" in page.text else here == there  # it may print some
    assert "stronger colour" not in text
    # Nothing that Jupyter does not know is left.
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    known = r"t|br>|caption>|details>|li>|summary>|sup>|ul>"
    unknown = rf"\{{\{{|\{{:? *[#.]|^ *(?:\?\?\?|!!!|===|:::)|\[\^|\.md\b|exec=|<(?!{known})\w"
    assert re.search(rf"(?:{unknown}).*", prose, re.MULTILINE) is None

    links = re.findall(r"\[The drawing is on the page\]\((.*?)(?:#([\w-]*))?\)", text)
    drawn = [
        block
        for block in page.fences()
        if block.language in ("diagram", "map") or "html" in block.given
    ]
    stored = name.startswith("libraries/") and "libraries.one_head(" in page.text
    assert len(links) == len(drawn) + stored
    for address, anchor in links:
        assert (
            address == f"{PUBLISHED}{name.removesuffix('.md').removesuffix('index').rstrip('/')}/"
        )
        assert not anchor or f'id="{anchor}"' in html

    stem = name.removesuffix(".md").rpartition("/")[2]
    where = f"{'' if stem == 'index' else '../'}{stem}.ipynb"
    assert html.count(f'<a href="{where}" download>Download this page as a notebook</a>') == 1
    assert "Colab" not in html  # nobody said where it would find the notebook


def test_pages_that_show_code_which_numpy_is_enough_for_have_notebooks_and_no_others(site):
    assert len(NAMES) > 40
    found = {str(path.relative_to(site)) for path in site.rglob("*.ipynb")}
    assert found == {*map(notebooks.address, NAMES)}
    folders = "explanation", "how-to", "libraries", "symptoms", "threads", "start"
    for name, block, has_one in [
        *((f"{folder}/one.md", BLOCK, folder != "start") for folder in folders),
        ("threads/one.md", BLOCK.replace(' source="above"', ""), False),
        ("threads/one.md", BLOCK.replace("assert True", "import markdown_exec"), False),
        ("threads/one.md", BLOCK.replace("assert True", "from . import near"), False),
    ]:
        assert notebooks.has_one(parse(name, block)) == has_one


HERE = f"{ADDRESS}threads/page/"
DRAW = '```python exec="on"\nimport qkv\n{}\n\nA = 1\nprint({}.heat_map(A))\n```\n'


@pytest.mark.parametrize(
    ("text", "markdown", "code"),
    [
        (
            '# Page { #page }\n\n??? question "How wide?"\n    Two.\n\n'
            '    ```python exec="on"\n    assert 1 + 1 == 2\n    ```\n\n    Indeed.\n\nAfter.\n',
            ["# Page\n\n**How wide?**\n\nTwo.", "Indeed.\n\nAfter."],
            ["assert 1 + 1 == 2"],
        ),
        (  # The page reports them.
            "{{Q[i] @}}\n\n```formula\nQ[i] @ Q[i]\n```\n",
            ["`Q[i] @`\n\n```\nQ[i] @ Q[i]\n```"],
            [],
        ),
        (
            f"[one `map[0]` {{{{Q[i]}}}}](../one.md#check) [here](#here) [out]({OUTSIDE})",
            [f"[one `map[0]` $Q_i$]({ADDRESS}one/#check) [here]({HERE}#here) [out]({OUTSIDE})"],
            [],
        ),
        (
            BLOCK.replace(' source="above"', ' claim="c" title="All of {{Q[i]}}." cite="Euclid"'),
            ["**Checked:** All of $Q_i$. (Euclid)"],
            ["assert True"],
        ),
        ("```toml\na = 1\n```\n", ["```toml\na = 1\n```"], []),
        (BLOCK + BLOCK, [], ["assert True"] * 2),
        *(
            (DRAW.format(line, call), [], ["import qkv\n\nA = 1"])
            for line, call in {
                "import qkv_site.markdown.heat_maps as drawn": "drawn",
                "import qkv_site.markdown.heat_maps": "qkv_site.markdown.heat_maps",
                "from qkv_site.markdown import heat_maps as drawn": "drawn",
            }.items()
        ),
    ],
)
def test_a_page_is_written_as_cells(text, markdown, code):
    cells = made(text)
    assert sources(cells, "markdown") == markdown
    assert sources(cells, "code") == code


def test_formulas_are_latex():
    [cell] = made(
        "{{Q[i]}} and {{paper-3-2-2: Q[i]}} and `{{Q[i]}}`\n\n"
        '```formula in="paper-eq1 ng-multi-head"\nQ[i] = X_Q @ W_Q[i]\n```\n'
    )
    assert cell.source.startswith(
        "$Q_i$ and $Q W_i^Q$ and `{{Q[i]}}`\n\n**The paper, equation (1)**\n\n$$\n"
    )
    assert "$$\nW_i^Q q\n$$" in cell.source
    assert r"- $d_{\text{model}}" not in cell.source
    assert "- $q$: source of the queries" in cell.source


HEAT_MAP = heat_map(np.array([[2.0]]), rows=["a"], columns=["b"], label="Two.", digits=0)
DRAWING = (
    '## Why { #why }\n\n```python exec="on" html="on"\n'
    "from qkv_site.markdown.heat_maps import heat_map\n\n"
    "A = 1 + 1\ndrawn = heat_map(A)\nprint(drawn)\n```\n"
)


def test_in_the_place_of_a_drawing_stand_its_numbers_and_a_link_to_it():
    _, code, text = made(DRAWING, HEAT_MAP)
    assert (code.source, code.outputs) == ("A = 1 + 1", [])
    numbers = "Two.\n\n| query ↓ key → | b |\n| --- | --- |\n| a | 2 |\n\n"
    assert text.source == f"{numbers}[The drawing is on the page]({HERE}#why)."
    # Without an address of the site, links are text.
    assert made(DRAWING, HEAT_MAP, site="")[-1].source == f"{numbers}The drawing is on the page."
    [text] = made("[one](../one.md#check) [here](#here)", site="")
    assert text.source == "one here"


def test_a_matrix_in_a_drawing_has_its_whole_expression():
    parts = ("softmax(S[i])", np.eye(2)), ("paper-eq1: Q[i]", np.eye(2))
    drawn = equation(*parts, words=("a", "b"), label="Both.")
    lines = made(DRAWING, drawn)[-1].source.splitlines()
    assert lines[0] == "Both."
    captions = [line for line in lines if "2 × 2" in line]
    assert captions == [r"$\operatorname{softmax}(S_i)$ 2 × 2", "$Q$ 2 × 2"]


def test_drawn_formulas_and_the_map_are_told_in_words():
    formula = "Q[i] = X_Q @ W_Q[i]"
    [cell] = made(f'```diagram\n{formula}\n```\n\n```map state="sound"\n```\n')
    link = f"[The drawing is on the page]({HERE})."
    said = diagrams.words(formula)
    assert said.endswith(" gives projected queries of one head, 5 by 4.")
    assert cell.source == f"{said} {link}\n\n{layer_map.words('sound')} {link}"
    two = diagrams.words(formula, "site udl")
    assert re.fullmatch(r"This site: Source .*\. Prince[^:]*: One head's weight .*\.", two)


@pytest.mark.parametrize(
    ("address", "there"),
    [("", f"./{wheel.name()}"), (ADDRESS, f"{ADDRESS}assets/{quote(wheel.name())}")],
)
def test_a_notebook_gets_the_package_from_the_site_or_from_its_own_folder(written, address, there):
    written.site = Site(address=address)
    _, get, _ = notebooks.notebook(parse(NAME, "# Page\n"), ADDRESSES, address).cells
    assert f'else "{there}"\n    %pip install --quiet {{wheel}}' in get.source


FOLDER = "https://github.com/owner/name/blob/built"


@pytest.mark.parametrize(
    ("folder", "site", "said"),
    [
        *(
            (folder, ADDRESS, f"notebooks is {folder!r}: expected https://github.com/")
            for folder in ("https://gitlab.com/o/n/blob/b", "https://github.com/o/n", "o/n")
        ),
        *(
            (FOLDER, site, f"but the site's address is {site!r}: expected a public one")
            for site in (
                "",
                "http://127.0.0.1:8000/",
                "http://[::1]:8000/",
                "http://LOCALHOST/q/",
                "http://docs.local:8000/",
                "http://169.254.1.1/",
                "http://172.16.0.5/",
                "http://192.168.0.7/",
            )
        ),
        ("", ADDRESS, ""),
        # Names that begin like an address at home.
        (FOLDER, "https://localhost-docs.example/", ""),
        (FOLDER, "https://10.example.com/q/", ""),
    ],
)
def test_colab_reads_github_and_gets_the_package_from_a_public_address(folder, site, said, caplog):
    opened = notebooks.colab(folder, site)
    assert opened.endswith("/github/owner/name/blob/built" if folder and not said else "")
    assert bool(opened) == bool(folder and not said)
    assert said in caplog.text
    assert bool(caplog.text) == bool(said)
