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
from support import ROOT, html_of, words_of

PAGES = ROOT / "docs" / "libraries"
SIZES = {
    "d_model": 19, "h": 12, "h_kv": 3, "d_k": 5, "d_v": 7,
    "d_source": 11, "d_source_k": 13, "d_source_v": 17, "d_out": 23,
}  # fmt: skip
WITH_PAGE = [name for name in layouts() if libraries.address(name) == f"{name}.md"]


def test_each_layout_has_a_row_and_each_page_a_layout():
    assert list(libraries.entries()) == list(layouts())
    of_no_layout = {"index", "models", "attention-functions"}
    assert {page.stem for page in PAGES.glob("*.md")} == {*WITH_PAGE} | of_no_layout
    faults = check.page(parse("libraries/rows.md", f"# Rows\n\n{libraries.rows()}"))
    elsewhere = "place", "link"  # the rows are a part of a page, which has the other ids
    assert [fault for fault in faults if fault.rule not in elsewhere] == []


@pytest.mark.parametrize("name", layouts())
def test_a_recipe_takes_out_what_load_takes_out(name):
    sizes = SIZES | {"i": 7, "j": 2}
    for stored in (stored for form in layouts()[name].forms for stored in form.stored):
        array = np.random.default_rng(0).normal(size=stored.shape_for(sizes))
        for part, unpacked in stored.unpack(array, sizes).items():
            head = {"h": sizes["i"], "h_kv": sizes["j"]}.get(stored.part_axes(part)[0], ...)
            taken = eval(f"array{libraries.recipe(stored, part)}", {"array": array} | sizes)
            np.testing.assert_array_equal(taken, unpacked[head], err_msg=stored.name)


@pytest.mark.parametrize("name", layouts())
def test_a_picture_fills_what_belongs_to_the_head(name):
    """An array in which one head's parts are 1 and the others 0 is 1 in the filled pieces."""
    layout = layouts()[name]
    sizes = slices.sizes_of(layout)
    for stored in layout.forms[0].without_biases:
        parts = {
            part: np.zeros([sizes[axis] for axis in stored.part_axes(part)])
            for part in stored.parts
        }
        for array in parts.values():
            array[slices.MARKED * len(array) // sizes["h"]] = 1
        view, packed = slices.View.of(stored, sizes), stored.pack(parts, sizes)
        assert view.shape == packed.shape
        along = packed.shape.index(8) if view.apart else 0 if view.stacked else 1
        pieces = np.split(packed, len(view.pieces), axis=along)
        filled = [filled for _, filled in view.pieces]
        assert [piece.all() for piece in pieces] == [piece.any() for piece in pieces] == filled
        assert view.rows * view.columns == packed.size


@pytest.mark.parametrize("name", layouts())
def test_a_page_or_a_row_says_all_that_the_data_say(site, name):
    layout, index = layouts()[name], html_of(site, "libraries/index.md")
    if name in WITH_PAGE:
        page = html_of(site, f"libraries/{name}.md")
    else:
        [page] = re.findall(rf'<h3 id="{name}">.*?(?=<h[23] )', index, re.DOTALL)
        [summary] = re.findall(r"<summary>(.*?)</summary>", page)
        asked = libraries.entries()[name].get("question", "What is stored, and what goes in?")
        assert words_of(summary) == asked
    shown = words_of(page)
    for form in layout.forms:
        for stored in form.stored:
            assert f"<code>{stored.name}</code>" in page
            for part in stored.parts:
                assert libraries.recipe(stored, part) in shown
        query = libraries.holding("W_Q", layout, form)
        taken = f"`{query.name}{libraries.recipe(query, 'W_Q')}`"
        assert taken in libraries.one_head(name)
        assert taken in libraries.rows()
    for known in (*layout.refused.items(), *layout.outside.items()):
        assert all(words in shown for words in known)
    for words in (layout.convention, layout.read_in, *layout.cannot):
        assert words in shown
    from_where = libraries.known_from(layout)
    assert re.fullmatch(
        r"run: [\w-]+ \d[\d.]+( with \w+ \d[\d.]+)?|run once: [\w-]+ \d.* on \d+ \w+ 20\d\d"
        r"|read: commit [0-9a-f]{7} of \d+ \w+ 20\d\d",
        from_where,
    )
    known, _, what = from_where.partition(": ")
    said = f"{known.capitalize()}{', not run' if known == 'read' else ''}"
    assert f"{said if name in WITH_PAGE else known}: {what}" in shown
    # The table of arguments has the library too.
    address = libraries.address(name).removeprefix("index.md").replace(".md", "/")
    rows = map(html.unescape, re.findall(r"<tr>.*?</tr>", index, re.DOTALL))
    [listed] = [row for row in rows if f'href="{address}"' in row]
    assert all(name in listed for name in layout.arguments)
    assert f'<h3 id="{name}">{libraries.entries()[name]["name"]}' in html.unescape(index)


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
    rows = re.findall(r"<tr>.*?</tr>", html_of(site, "libraries/models.md"), re.DOTALL)[1:]
    stated = models.models()
    assert len({model["name"] for model in stated}) == len(stated) == len(rows) >= 30
    for model, row in zip(stated, rows, strict=True):
        assert ("type" in model) != ("read" in model)
        unseen = [each["option"] for each in model.get("unseen", ())]
        for said in (model["name"], model["layer"], model.get("read", ""), *unseen):
            assert said in words_of(row)
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


def plain(words):
    return re.sub(r"\W|_", "", words).lower().replace("pytorch", "torch")


@pytest.fixture(scope="module")
def tested():
    """Of each trap's test, the code without what it says of itself: it names what it runs."""
    traps = claims.traps()
    functions = {
        (file, each.name): each
        for file in {trap.file for trap in traps}
        for each in ast.parse((ROOT / file).read_text()).body
        if isinstance(each, ast.FunctionDef)
    }
    for function in functions.values():
        function.body = function.body[1:] or function.body
    return {trap.id: plain(ast.unparse(functions[trap.file, trap.test])) for trap in traps}


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
    link = re.compile(r"\[((?:Run|Read)\b[^]]*)\]\(\.\./claims\.md#(.*?)\)")
    for trap in traps:
        said, anchor = link.search(trap).groups()
        said = " ".join(said.split())
        if said == "Read":
            assert anchor in read
        else:
            where = said.removeprefix("Run").removeprefix(" on ") or name
            assert all(plain(library) in tested[anchor] for library in where.split(" and "))


@pytest.mark.parametrize("name", claims.last_run()["layouts"])
def test_the_table_has_the_shapes_that_the_library_printed(name):
    recorded = claims.last_run()["printed"].items()
    printed = "".join(text for key, text in recorded if key.rpartition("-")[0] == name)
    layout = layouts()[name]
    for stored in layout.forms[0].without_biases:
        shape = stored.shape_for(slices.sizes_of(layout))
        assert re.search(rf"(^|/){re.escape(stored.name)} {re.escape(str(shape))}$", printed, re.M)
