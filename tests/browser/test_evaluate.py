"""docs/assets/evaluate.js computes what Python does, and refuses what Python refuses."""

import random
from functools import partial

import numpy as np
import pytest

from notation.formulas import FORMULAS
from qkv import notation
from qkv.notation._check import World
from qkv.notation.tree import Expression, Formula, Product, Setting, Symbol, axes, parse, parse_size
from qkv_site.parts import trees

SIZES = "n_q", "n_k", "d_model", "d_k", "d_v"
MISFITS = "X_Q @ Q[i]", "Q[i] + X_Q", "X_Q @ W_Q[i] @ V[i].T", "softmax(X_K @ W_V[i].T)"
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


def compared(compute, sides):
    """Whether each side has a value or a misfit, in Python and in the script."""
    cases = [(side, *world_of(side, random.Random(0))) for side in sides]
    found = compute([as_data(*case) for case in cases])
    return [assert_equal(*each) for each in zip(found, *zip(*cases, strict=True), strict=True)]


def test_it_computes_the_formulas_of_the_site(compute):
    sides = [side for line in FORMULAS for side in parse(line).sides if known(side)]
    assert compared(compute, sides) == ["value"] * len(sides)
    assert len(sides) > 50


def test_it_says_which_sizes_do_not_fit(compute, unchecked):
    sides = [parse(line).sides[0] for line in MISFITS]
    assert compared(compute, sides) == ["misfit"] * len(sides)


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
