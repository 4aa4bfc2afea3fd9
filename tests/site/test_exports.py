"""What the interactive pages get: each product's formula fits its shape, its sums are the costs."""

import pytest

from qkv import notation
from qkv.costs import SCHEMES, Sizes, products
from qkv.notation.tree import parse
from qkv_site.tables import exports

SIZES = {"n": 3, "h": 14, "h_kv": 14, "d_model": 11, "d_k": 5}
ALIASES = {"n_q": "n", "n_k": "n", "d_v": "d_k"}


def test_every_version_has_a_name_and_formulas():
    names = {*SCHEMES, "grouped", "two-step-merged"}
    assert set(exports.NAMES) == set(exports.FORMULAS) == names


@pytest.mark.parametrize("version", exports.FORMULAS)
def test_the_products_of_a_version_are_of_one_layer(version):
    assert notation.Block(exports.FORMULAS[version]).faults() == ()


@pytest.mark.parametrize("version", exports.FORMULAS)
def test_each_product_has_its_formula(version):
    layer = Sizes(n_q=3, d_model=11, h=14, d_k=5)
    found = products(exports.scheme_of(version), layer)
    for line, product in zip(exports.FORMULAS[version], found, strict=True):
        notation.check(line)
        formula = parse(line)
        if formula.defined is not None:
            shape = tuple(SIZES[ALIASES.get(size, size)] for size in formula.defined.role.shape)
            assert shape == (product.rows, product.columns), line
        if product.weight:
            *_, weight = (role for role in formula.roles.values() if role.group == "weight")
            assert version == "two-step-merged" or weight.key.startswith(product.weight)
            sizes = SIZES | {name: SIZES[same] for name, same in ALIASES.items()}
            shape = tuple(notation.size_of(size, sizes) for size in weight.shape)
            assert shape == (product.inner, product.columns), line


def test_heads_that_share_keys_and_values_have_those_of_their_group():
    _, keys, values, scores, heads, _ = exports.FORMULAS["grouped"]
    assert "K[g(i)]" in keys
    assert "V[g(i)]" in values
    assert "K[g(i)].T" in scores
    assert heads.endswith("V[g(i)]")
    drawn = exports.explorer()["versions"]["grouped"]["steps"][3]["matrices"]
    assert [each["count"] for each in drawn] == [[[1, "h"]], [[1, "h_kv"]], [[1, "h"]]]
