"""What the interactive pages get: each product's formula fits its shape, and a term is no guess."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv import notation
from qkv.costs import SCHEMES
from qkv.notation.tree import parse
from qkv_site.generated import exports

SIZES = {"n": 3, "h": 14, "h_kv": 14, "d_model": 11, "d_k": 5}
ALIASES = {"n_q": "n", "n_k": "n", "d_v": "d_k"}


def test_every_reading_has_a_name_and_formulas():
    assert set(exports.READINGS) == set(exports.FORMULAS) == {*SCHEMES, "grouped"}


@pytest.mark.parametrize("reading", exports.FORMULAS)
def test_each_product_has_its_formula(reading):
    _, products = exports.costs_of(reading, **SIZES)
    for line, product in zip(exports.FORMULAS[reading], products, strict=True):
        notation.check(line)
        formula = parse(line)
        if formula.defined is not None:
            shape = tuple(SIZES[ALIASES.get(size, size)] for size in formula.defined.role.shape)
            assert shape == (product.rows, product.columns), line
        if product.weight:
            weight = next(
                role for key, role in formula.roles.items() if key.startswith(product.weight)
            )
            sizes = SIZES | {name: SIZES[same] for name, same in ALIASES.items()}
            shape = tuple(notation.size_of(size, sizes) for size in weight.shape)
            assert shape == (product.inner, product.columns), line


@given(
    st.lists(
        st.tuples(st.integers(1, 1000), st.lists(st.sampled_from([*exports.LETTERS]), max_size=3)),
        max_size=4,
        unique_by=lambda term: tuple(sorted(term[1])),
    )
)
def test_terms_are_read_off(wanted):
    order = [*exports.LETTERS]
    wanted = [[coefficient, *sorted(names, key=order.index)] for coefficient, names in wanted]
    found = exports.terms(lambda sizes: exports.evaluate(wanted, sizes))
    assert sorted(found, key=str) == sorted(wanted, key=str)


@pytest.mark.parametrize(
    "count",
    [lambda s: s["d_model"] // 2, lambda s: min(s["n"], s["d_k"]), lambda s: s["d_k"] ** 4],
)
def test_what_is_no_sum_of_products_is_refused(count):
    with pytest.raises(ValueError, match="not a sum of products of sizes"):
        exports.terms(count)
