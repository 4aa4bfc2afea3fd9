"""Rows and pages of libraries say what the layouts' data say; each trap leads to its test."""

import ast
import html
import re

import numpy as np
import pytest

from qkv.layouts import layouts
from qkv_site import check
from qkv_site.markdown import claims
from qkv_site.page import parse
from qkv_site.tables import libraries, models, slices
from support import ROOT

PAGES = ROOT / "docs" / "libraries"
SIZES = {
    "d_model": 19, "h": 12, "h_kv": 3, "d_k": 5, "d_v": 7,
    "d_source": 11, "d_source_k": 13, "d_source_v": 17, "d_out": 23,
}  # fmt: skip
STORED = [
    pytest.param(stored, part, id=f"{name}-{stored.name}-{part}")
    for name, layout in layouts().items()
    for form in layout.forms
    for stored in form.stored
    for part in stored.parts
]


@pytest.mark.parametrize(("stored", "part"), STORED)
def test_a_recipe_takes_out_what_load_takes_out(stored, part):
    sizes = SIZES | {"i": 7, "j": 2}
    array = np.random.default_rng(0).normal(size=stored.shape_for(sizes))
    unpacked = stored.unpack(array, sizes)[part]
    head = {"h": sizes["i"], "h_kv": sizes["j"]}.get(stored.part_axes(part)[0], ...)
    taken = eval(f"array{libraries.recipe(stored, part)}", {"array": array} | sizes)
    np.testing.assert_array_equal(taken, unpacked[head])


WITH_PAGE = [name for name in layouts() if libraries.address(name) == f"{name}.md"]
IN_ROWS = [name for name in layouts() if name not in WITH_PAGE]


def test_each_layout_has_a_row_and_each_page_a_layout():
    assert list(libraries.entries()) == list(layouts())
    of_no_layout = {"index", "models", "attention-functions"}
    assert {page.stem for page in PAGES.glob("*.md")} == {*WITH_PAGE} | of_no_layout


def row(page, name):
    """HTML of a layout's row, with what it opens to."""
    [found] = re.findall(rf'<h3 id="{name}">.*?(?=<h[23] )', page, re.DOTALL)
    return found


@pytest.mark.parametrize("name", layouts())
def test_a_page_or_a_row_says_all_that_the_data_say(site, name):
    layout = layouts()[name]
    if name in WITH_PAGE:
        page = (site / "libraries" / name / "index.html").read_text()
    else:
        page = row((site / "libraries" / "index.html").read_text(), name)
    shown = html.unescape(re.sub(r"<[^>]+>", "", page))
    for form in layout.forms:
        for stored in form.stored:
            assert f"<code>{stored.name}</code>" in page
            for part in stored.parts:
                assert libraries.recipe(stored, part) in shown
    for known in (*layout.refused.items(), *layout.outside.items()):
        assert all(words in shown for words in known)
    for words in (layout.convention, layout.read_in, *layout.cannot):
        assert words in shown
    known, _, what = libraries.known_from(layout).partition(": ")
    if name in WITH_PAGE:
        assert f"{known.capitalize()}{', not run' if known == 'read' else ''}: {what}" in shown
    else:
        assert f"{known}: {what}" in shown


def test_what_rows_say_has_no_faults():
    text = f"# Rows\n\n{libraries.rows()}"
    faults = check.page(parse("libraries/rows.md", text))
    elsewhere = "place", "link"  # the rows are a part of a page, which has the other ids
    assert [fault for fault in faults if fault.rule not in elsewhere] == []


@pytest.mark.parametrize("name", WITH_PAGE)
def test_a_page_shows_its_own_layout(name):
    text = (PAGES / f"{name}.md").read_text()
    for call in (
        r"one_head\(\"(.*?)\"\)",
        r"facts\(\"(.*?)\"\)",
        r"dump\(given, \"(.*?)\"\)",
        r"load\(stored, \"(.*?)\",",
    ):
        assert re.findall(call, text) == [name]


def test_the_table_of_models_says_how_each_of_at_least_thirty_is_known(site):
    page = (site / "libraries" / "models" / "index.html").read_text()
    rows = re.findall(r"<tr>.*?</tr>", page, re.DOTALL)[1:]
    stated = models.models()
    assert len({model["name"] for model in stated}) == len(stated) == len(rows) >= 30
    for model, row in zip(stated, rows, strict=True):
        assert ("type" in model) != ("read" in model)
        shown = html.unescape(re.sub(r"<[^>]+>", "", row))
        assert model["name"] in shown
        assert model["layer"] in shown
        assert model.get("read", "") in shown
        assert all(each["option"] in shown for each in model.get("unseen", ()))
        if "layout" in model:
            page, _, part = libraries.address(model["layout"]).partition("#")
            page = "" if page == "index.md" else page.replace(".md", "/")
            assert f'href="../{page}{f"#{part}" if part else ""}"' in row


def biases_meant(said):
    """The sets of biases that a sentence of the pages tells."""
    most, *others = re.split(", or |, (?=all of them)", said.rstrip("."))
    most = {*re.findall("`(b_.)`", most)}
    yield most
    for other in others:
        named = {*re.findall("`(b_.)`", other)}
        yield most - named if other.startswith("all but") else named


@pytest.mark.parametrize("name", layouts())
def test_the_sentence_about_biases_tells_those_of_each_form(name):
    layout = layouts()[name]
    stored = {
        frozenset(part for array in arrays for part in array.parts if part.startswith("b_"))
        for arrays in layout.arrangements()
    }
    [said] = re.findall(r"^- \*\*Biases:\*\* (.*)$", libraries.facts(name), re.MULTILINE)
    assert {frozenset(biases) for biases in biases_meant(said)} == stored
    assert f"- {said} " in libraries.rows()
    assert ("`qkv.load` knows" in said) == bool(layout.unknown)


@pytest.mark.parametrize("name", layouts())
def test_a_page_and_the_table_tell_where_each_form_has_the_queries(name):
    layout = layouts()[name]
    for form in layout.forms:
        query = libraries.holding("W_Q", layout, form)
        taken = f"`{query.name}{libraries.recipe(query, 'W_Q')}`"
        assert taken in libraries.one_head(name)
        assert taken in libraries.rows()


def plain(words):
    return re.sub(r"\W|_", "", words).lower().replace("pytorch", "torch")


@pytest.fixture(scope="module")
def tested():
    """Of each trap's test, the code without what it says of itself: it names what it runs."""

    def named_in(test):
        found = ast.parse((ROOT / test.file).read_text()).body
        function = next(each for each in found if getattr(each, "name", "") == test.test)
        function.body = function.body[1:]
        return plain(ast.unparse(function))

    return {trap.id: named_in(trap) for trap in claims.traps()}


PARTS = {"bert-tf": "original", "nanogpt": "nanogpt", "gpt-bigcode": "bigcode"}


@pytest.mark.parametrize("name", layouts())
def test_each_trap_leads_to_its_test_or_says_that_it_was_only_read(name, tested):
    file, _, _ = libraries.address(name).partition("#")
    page = parse("page.md", (PAGES / file).read_text())
    text = libraries.rows() if file == "index.md" else page.text
    part = f"{name}-traps" if file == "index.md" else PARTS.get(name, "traps")
    _, _, below = text.partition(f"{{ #{part} }}\n\n")
    listed = re.search(r"^- .*?(?=\n\n)", below, re.MULTILINE | re.DOTALL)[0]
    traps = re.split(r"^- ", listed, flags=re.MULTILINE)[1:]
    read = {claim.id for claim in claims.of_page(page) if not claim.block}
    assert traps
    for trap in traps:
        said, anchor = re.search(
            r"\[((?:Run|Read)\b[^]]*)\]\(\.\./claims\.md#(.*?)\)", trap
        ).groups()
        said = " ".join(said.split())
        if said == "Read":
            assert anchor in read
        else:
            where = said.removeprefix("Run").removeprefix(" on ") or name
            assert all(plain(library) in tested[anchor] for library in where.split(" and "))


@pytest.mark.parametrize("name", layouts())
def test_a_layout_was_run_on_a_version_or_read_in_a_commit_with_its_date(name):
    known = libraries.known_from(layouts()[name])
    assert re.fullmatch(
        r"run: [\w-]+ \d[\d.]+( with \w+ \d[\d.]+)?|run once: [\w-]+ \d.* on \d+ \w+ 20\d\d"
        r"|read: commit [0-9a-f]{7} of \d+ \w+ 20\d\d",
        known,
    )


def test_the_table_of_arguments_names_every_library(site):
    page = (site / "libraries" / "index.html").read_text()
    rows = list(map(html.unescape, re.findall(r"<tr>.*?</tr>", page, re.DOTALL)))
    for name, layout in layouts().items():
        address = libraries.address(name).removeprefix("index.md").replace(".md", "/")
        [listed] = [row for row in rows if f'href="{address}"' in row]
        assert all(name in listed for name in layout.arguments)
        assert f'<h3 id="{name}">{libraries.entries()[name]["name"]}' in html.unescape(page)


def test_a_row_opens_to_what_was_the_question_of_a_page(site):
    page = (site / "libraries" / "index.html").read_text()
    for name in IN_ROWS:
        found = row(page, name)
        question = libraries.entries()[name].get("question", "What is stored, and what goes in?")
        shown = re.sub(r"<[^>]+>", "", re.search(r"<summary>(.*?)</summary>", found)[1])
        assert html.unescape(shown) == question


WEIGHTS = [
    pytest.param(layout, stored, id=f"{layout.name}-{stored.name}")
    for layout in layouts().values()
    for stored in layout.forms[0].without_biases
]


@pytest.mark.parametrize(("layout", "stored"), WEIGHTS)
def test_a_picture_fills_what_belongs_to_the_head(layout, stored):
    """An array in which one head's parts are 1 and the others 0 is 1 in the filled pieces."""
    sizes = slices.sizes_of(layout)
    parts = {
        part: np.zeros([sizes[axis] for axis in stored.part_axes(part)]) for part in stored.parts
    }
    for array in parts.values():
        array[slices.MARKED * len(array) // sizes["h"]] = 1
    view = slices.View.of(stored, sizes)
    packed = stored.pack(parts, sizes)
    assert view.shape == packed.shape
    along = packed.shape.index(8) if view.apart else 0 if view.stacked else 1
    pieces = np.split(packed, len(view.pieces), axis=along)
    assert [piece.all() for piece in pieces] == [filled for _, filled in view.pieces]
    assert [piece.any() for piece in pieces] == [filled for _, filled in view.pieces]
    assert view.rows * view.columns == packed.size


@pytest.mark.parametrize("name", claims.last_run()["layouts"])
def test_the_table_has_the_shapes_that_the_library_printed(name):
    recorded = claims.last_run()["printed"].items()
    printed = "".join(text for key, text in recorded if key.rpartition("-")[0] == name)
    layout = layouts()[name]
    for stored in layout.forms[0].without_biases:
        shape = stored.shape_for(slices.sizes_of(layout))
        assert re.search(rf"(^|/){re.escape(stored.name)} {re.escape(str(shape))}$", printed, re.M)
