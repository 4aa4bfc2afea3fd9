"""The panel's data: the formulas with each map follow from a page's trees, in each source."""

import json
from itertools import chain

import pytest

from qkv import notation
from qkv.notation.tree import Symbol, parse
from qkv_site.page import Site
from qkv_site.parts import change_it, trees

CODES = {
    name: part.code
    for name, page in Site().pages.items()
    for part in page.fences()
    if isinstance(part, change_it.Panel)
}
PAGES = [*CODES]
LINES = (
    "K[i] = X @ W_K[i]",
    "Q[i] = X @ W_Q[i]",
    "head[i] = attention(Q[i], K[i], X)",
    "S[i] = Q[i] @ K[i].T / sqrt(d_k) + Q[i] @ K[i].T",
)
BEFORE, AFTER = LINES[0], LINES[2:]


def test_the_pages_that_explain_the_maps_have_a_panel():
    explained = {"start/which-q.md", "start/how-many-matrices.md"}
    assert {*PAGES} == explained | {"explore.md"}


def test_the_formulas_with_another_map_follow_from_the_trees():
    lines = {name: block.lines for name, block in change_it.versions(LINES).items()}
    assert lines == {
        "one": LINES,
        "none": (
            BEFORE,
            "head[i] = attention(X, K[i], X)",
            "S[i] = X @ K[i].T / sqrt(d_k) + X @ K[i].T",
        ),
        "two": (BEFORE, "Q[i] = X @ P_Q @ W_Q[i]", *AFTER),
        "merged": (BEFORE, "M[i] = P_Q @ W_Q[i]", "Q[i] = X @ M[i]", *AFTER),
    }
    assert {*lines} == {*change_it.MAPS}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_its_file_with_the_lines_of_each_map(page, site):
    address = change_it.address(page)
    data = json.loads((site / "assets" / address).read_text())
    assert {*data["maps"]} == {*change_it.MAPS}
    assert all(kind["lines"] for kind in data["maps"].values())
    folder = site / page.removesuffix(".md").removesuffix("index")
    assert f'data-wq-change="{address}"' in (folder / "index.html").read_text()


@pytest.mark.parametrize("page", PAGES)
def test_each_source_finds_each_formula_once(page):
    data = change_it.data(CODES[page])
    wanted = sorted(source.id for source in notation.sources())
    assert len(data["said"]) > 20
    for said in data["said"]:
        assert sorted(chain(*(sources.split() for _, sources in said))) == wanted


@pytest.mark.parametrize("function", ["multihead(X, X, X)", "rotate(X)", "norm(X)"])
def test_a_node_that_the_script_does_not_compute_is_named(function):
    with pytest.raises(ValueError, match=r"is a node Apply that .*evaluate\.js does not compute"):
        trees.as_data(parse(f"X.T @ {function}").sides[0])


def test_the_panel_knows_the_sizes_of_the_example():
    sizes = change_it.SIZES | change_it.FIXED
    for key, array in change_it.GIVEN.items():
        shape = [notation.size_of(size, sizes) for size in notation.role(key).shape]
        assert array.shape[-2:] == tuple(shape), key
        assert Symbol(notation.role(key), "i" if array.ndim == 3 else "").role.per_head == (
            array.ndim == 3
        )
