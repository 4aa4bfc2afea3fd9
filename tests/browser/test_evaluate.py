"""docs/assets/evaluate.js computes what Python does, and refuses what Python refuses."""

import random
from collections import Counter
from functools import partial

import numpy as np
import pytest

from notation.formulas import FORMULAS
from qkv import notation
from qkv.notation._check import World
from qkv.notation.tree import (
    Apply,
    Expression,
    Formula,
    OverHeads,
    OverRoot,
    Product,
    Setting,
    Sum,
    Symbol,
    Transpose,
    axes,
    parse,
    parse_size,
)
from qkv_site.markdown import trees
from support import thorough

AT_ONCE = 250
KNOWN = {"Symbol", "Product", "Sum", "OverRoot", "Transpose", "Apply", "OverHeads"}
SIZES = "n_q", "n_k", "d_model", "d_k", "d_v"
UNDER_A_ROOT = "d_k", "2 * d_k", "d_k + d_v**2", "h * d_v - 1 / 2", "sqrt(n_k)"
ROLES = {
    role.shape: [each for each in notation.roles() if each.shape == role.shape and each.key != "X"]
    for role in notation.roles()
    if {*role.shape} <= {*SIZES} and len(role.shape) == 2
}
COMPUTE = """async cases => {
  const { Misfit, nameOf, shapeOf, valueOf } = await import(`${location.origin}/assets/evaluate.js`)
  return cases.map(({ tree, head, ...world }) => {
    try {
      return { names: shapeOf(tree, world).map(nameOf), value: valueOf(tree, world, head) }
    } catch (fault) {
      if (!(fault instanceof Misfit)) return { fault: fault.message }
      return { misfit: fault.message, tree: fault.tree, sides: fault.sides.map(nameOf) }
    }
  })
}"""


class Writer:
    """Writes formulas of random form. Now and then two sizes differ that have to be equal."""

    def __init__(self, draw: random.Random):
        self.draw = draw

    def matrix(self, rows: str, columns: str, depth: int) -> Expression:
        """An expression with these sizes, or with others."""
        if self.draw.random() < 0.04:
            rows, columns = self.draw.choices(SIZES, k=2)
        if depth == 0:
            return self._symbol(rows, columns)
        kinds = self._product, self._product, self._sum, self._over_root, self._transpose
        kinds += self._apply, self._attention, self._over_heads, self._joined
        return self.draw.choice(kinds)(rows, columns, depth - 1)

    def _symbol(self, rows, columns):
        upright, turned = ROLES.get((rows, columns), []), ROLES.get((columns, rows), [])
        if not upright and not turned:  # the width of the model leads from any size to any other
            return Product(self._symbol(rows, "d_model"), self._symbol("d_model", columns))
        role = self.draw.choice(upright + turned)
        symbol = Symbol(role, "i" if role.per_head else "")
        return symbol if role in upright else Transpose(symbol)

    def _size(self):
        return self.draw.choice(SIZES)

    def _product(self, rows, columns, depth):
        inner = self._size()
        return Product(self.matrix(rows, inner, depth), self.matrix(inner, columns, depth))

    def _sum(self, rows, columns, depth):
        return Sum(self.matrix(rows, columns, depth), self.matrix(rows, columns, depth))

    def _over_root(self, rows, columns, depth):
        size = parse_size(self.draw.choice(UNDER_A_ROOT))
        return OverRoot(self.matrix(rows, columns, depth), size)

    def _transpose(self, rows, columns, depth):
        return Transpose(self.matrix(columns, rows, depth))

    def _apply(self, rows, columns, depth):
        return Apply("softmax", (self.matrix(rows, columns, depth),))

    def _attention(self, rows, columns, depth):
        width, keys = self._size(), self._size()
        sides = (rows, width), (keys, width), (keys, columns)
        return Apply("attention", tuple(self.matrix(*side, depth) for side in sides))

    def _over_heads(self, rows, columns, depth, how="sum"):
        return OverHeads(how, self.matrix(rows, columns, depth))

    def _joined(self, rows, columns, depth):
        """The heads side by side, and most often a weight for all of them."""
        if self.draw.random() < 0.3:
            return self._over_heads(rows, columns, depth, self.draw.choice(["concat", "stack"]))
        inner = self._size()
        left = self._over_heads(rows, inner, depth, "concat")
        return Product(left, self._over_heads(inner, columns, depth, "stack"))


def a_case(number: int) -> tuple[Expression, World, int]:
    """A formula, and the world and the head for which Python computes it."""
    draw = random.Random(number)
    expression = Writer(draw).matrix(*draw.choices(SIZES, k=2), draw.choice([1, 1, 2, 2, 3]))
    return expression, *world_of(expression, draw)


def world_of(expression: Expression, draw: random.Random) -> tuple[World, int]:
    formula = Formula(str(expression), (expression,), None)
    world = World(Setting.of([formula]))
    world.sizes |= {size: draw.randint(1, 4) for size in SIZES}
    return world, draw.choice(world.heads_of(formula))


def as_data(expression: Expression, world: World, head: int) -> dict:
    """What the script gets."""
    roles = {node.role.key: node.role for node in expression.walk() if isinstance(node, Symbol)}
    arrays = {key: role for key, role in roles.items() if role.group != "size"}
    return {
        "tree": trees.as_data(expression),
        "head": head,
        "sizes": world.sizes,
        "shapes": {
            key: [*map(trees.as_data, sizes_of(role, world))] for key, role in arrays.items()
        },
        "values": {key: values(role, world) for key, role in arrays.items()},
    }


def sizes_of(role, world):
    return map(parse_size, world.setting.define(role).shape)


def values(role, world):
    if not role.per_head:
        return world.value(Symbol(role), 0).tolist()
    return [world.value(Symbol(role, "i"), head).tolist() for head in range(world.sizes["h"])]


def assert_equal(found: dict, expression: Expression, world: World, head: int) -> str:
    """Compare what the script found with what Python finds; say which it is."""
    try:
        expected = world.value(expression, head)
    except ValueError as fault:
        assert_misfit(found, expression, world, str(fault))
        return "misfit"
    assert found.get("names") == [*map(str, axes(expression, world.setting))], (expression, found)
    value = np.array(found["value"], float)
    np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-9, strict=True)
    return "value"


def assert_misfit(found, expression, world, message):
    assert "misfit" in found, (expression, found, message)
    nodes = [node for node in expression.walk() if not node.is_size]
    (node, *_) = (node for node in nodes if trees.as_data(node) == found["tree"])
    assert message.startswith(f"In `{node}`"), (message, found)
    assert found["misfit"] == f"{' and '.join(found['sides'])} have to be equal"
    assert len(set(map(partial(notation.size_of, sizes=world.sizes), found["sides"]))) == 2
    if isinstance(node, Product):
        left, right = (axes(each, world.setting) for each in (node.left, node.right))
        assert found["sides"] == [str(left[1]), str(right[0])]


@pytest.fixture
def compute(page):
    page.goto("/assets/evaluate.js")  # lighter than a page
    return lambda cases: page.evaluate(COMPUTE, cases)


@pytest.mark.parametrize("count", [250, *thorough(2_500)])
def test_it_computes_what_python_does(compute, unchecked, count):
    seen, kinds = Counter(), Counter()
    for first in range(0, count, AT_ONCE):
        cases = [a_case(number) for number in range(first, first + AT_ONCE)]
        for found, case in zip(compute([as_data(*case) for case in cases]), cases, strict=True):
            seen[assert_equal(found, *case)] += 1
            kinds.update(type(node).__name__ for node in case[0].walk())
    assert seen.total() == count
    assert min(seen.values()) > count / 10, seen
    assert kinds.keys() >= KNOWN
    assert min(kinds[kind] for kind in KNOWN) > count / 5, kinds


def test_it_computes_the_formulas_of_the_site(compute):
    sides = [side for line in FORMULAS for side in parse(line).sides if known(side)]
    cases = [(side, *world_of(side, random.Random(0))) for side in sides]
    assert len(cases) > 50
    found = compute([as_data(*case) for case in cases])
    assert {assert_equal(*each) for each in zip(found, *zip(*cases, strict=True), strict=True)} == {
        "value"
    }


def known(expression):
    try:
        return bool(trees.as_data(expression))
    except ValueError:
        return False


def test_what_it_does_not_know_it_refuses(compute):
    world = {"sizes": {"d_k": 2}, "shapes": {}, "values": {}, "head": 0}
    size, symbol = ["Symbol", "d_k"], ["Symbol", "Q[i]"]
    matrix = {"shapes": {"Q[i]": [size, size]}, "values": {"Q[i]": [[[1, 2], [3, 4]]]}}
    messages = [
        each.get("fault")
        for each in compute([
            world | {"tree": symbol},
            world | matrix | {"tree": ["Apply", "rotate", symbol]},
            world | matrix | {"tree": ["Convolution", symbol]},
            world | matrix | {"tree": ["OverRoot", symbol, ["Symbol", "d_r"]]},
            world | matrix | {"tree": symbol, "head": 1},
        ])
    ]  # fmt: skip
    assert messages == [
        "No role is called Q[i]: known are .",
        "rotate is no part of a formula that is computed here.",
        "Convolution is no part of a formula that is computed here.",
        "No size is called d_r: known are d_k.",
        "No head of Q[i] is called 1: known are 0.",
    ]
