"""Formulas run: on arrays whose sizes are distinct primes, so that no two can be confused."""

import ast
import math

import numpy as np

from qkv._attention import attention, softmax
from qkv.heads import MultiHead
from qkv.notation._grammar import Formula, Grammar, Reading, parse
from qkv.notation._roles import Role, role

_SIZES = {"h": 2, "d_k": 3, "d_v": 5, "n_q": 7, "n_k": 11, "d_model": 13, "n": 17}
_NAMES = {size: name for name, size in _SIZES.items()} | {
    _SIZES["h"] * _SIZES[each]: f"h*{each}" for each in ("n_q", "n_k", "d_model", "d_k", "d_v")
}


def check(line: str) -> None:
    r"""Run a formula and compare its sides.

    Each role is an array of random numbers whose sizes are distinct primes, or what its
    definition makes of such arrays. A line holds if all its sides have the same shape and the
    same values, for every head.

    Args:
        line: `Q[i] = X_Q @ W_Q[i]` states what a role is; `A == B` that two expressions are
            equal; an expression alone has only to run.

    Raises:
        ValueError: If the line is no formula, if shapes do not fit, or if two sides differ. The
            message names the two shapes, the role or the construct at fault.

    Examples:
        >>> check("Q[i] = X_Q @ W_Q[i]")
        >>> check("head[i] = softmax(Q[i] @ K[i].T / sqrt(d_k)) @ V[i]")
        >>> check("sum(head[i] @ W_O[i] for i in heads) == concat(head[i] for i in heads) @ W_O")
        >>> check("Q[i] = W_Q[i] @ X_Q")
        Traceback (most recent call last):
            ...
        ValueError: In `W_Q[i] @ X_Q`, W_Q[i] has shape (13, 3) = (d_model, d_k) and X_Q has shape
        (7, 13) = (n_q, d_model): d_k and n_q have to be equal. X_Q @ W_Q[i] would fit.
    """
    formula = parse(line)
    world = _World(Reading.of(formula))
    for head in range(_SIZES["h"]):
        _check_head(formula, _Run(world, head))


def _check_head(formula: Formula, run: "_Run") -> None:
    left, *others = formula.sides
    expected = run.visit(left)
    for other in others:
        value = run.visit(other)
        pair = f"`{ast.unparse(left)}` has shape {_shape(expected)}"
        if value.shape != expected.shape:
            raise ValueError(f"{pair}, but `{ast.unparse(other)}` has shape {_shape(value)}.")
        if not np.allclose(value, expected):
            raise ValueError(
                f"{pair} and so has `{ast.unparse(other)}`, but their values differ, by up to "
                f"{np.abs(value - expected).max():.2g}."
            )


class _World:
    """The arrays that roles stand for in one reading; each is made when it is first asked for."""

    def __init__(self, reading: Reading):
        self.reading = reading
        self._rng = np.random.default_rng(0)
        self._values: dict[tuple[str, int], np.ndarray] = {}

    def value(self, role: Role, head: int) -> np.ndarray:
        key = (role.key, head if role.per_head else 0)
        if key not in self._values:
            self._values[key] = self._make(self.reading.define(role), head)
        return self._values[key]

    def _make(self, role: Role, head: int) -> np.ndarray:
        shape = _sizes(role)
        if role.definition is None:
            return self._rng.normal(size=shape)
        (definition,) = parse(role.definition).sides
        value = _Run(self, head).visit(definition)
        if value.shape != shape:
            raise ValueError(
                f"{role.key} is to have shape {_named(shape)}, but its definition "
                f"`{role.definition}` has shape {_shape(value)}."
            )
        return value

    def layer(self) -> MultiHead:
        def heads(key: str) -> np.ndarray:
            return np.stack([self.value(role(key), head) for head in range(_SIZES["h"])])

        biased = "b_Q[i]" in self.reading.definitions.get("Q[i]", "")
        names = "QKV" if biased else ""
        return MultiHead(
            **{f"W_{name}": heads(f"W_{name}[i]") for name in "QKVO"},
            **{f"b_{name}": heads(f"b_{name}[i]") for name in names},
            b_O=self.value(role("b_O"), 0) if biased else None,
        )


class _Run(Grammar[np.ndarray]):
    """The value of an expression, for one head."""

    def __init__(self, world: _World, head: int):
        self.world = world
        self.head = head

    def role(self, role: Role) -> np.ndarray:
        if not role.shape:
            raise ValueError(f"{role.key} is a size; a size stands only in sqrt({role.key}).")
        return self.world.value(role, self.head)

    def product(self, left: ast.expr, right: ast.expr) -> np.ndarray:
        a, b = self.visit(left), self.visit(right)
        where = f"In `{ast.unparse(left)} @ {ast.unparse(right)}`, {_facts(left, a, right, b)}"
        if a.ndim != 2 or b.ndim != 2:
            raise ValueError(f"{where}: a product is one of two matrices.")
        if a.shape[1] != b.shape[0]:
            raise ValueError(
                f"{where}: {_name(a.shape[1])} and {_name(b.shape[0])} have to be equal."
                + _what_would_fit(left, a, right, b)
            )
        return a @ b

    def plus(self, left: ast.expr, right: ast.expr) -> np.ndarray:
        a, b = self.visit(left), self.visit(right)
        if b.shape not in (a.shape, a.shape[-1:]):
            raise ValueError(
                f"In `{ast.unparse(left)} + {ast.unparse(right)}`, {_facts(left, a, right, b)}: "
                "they have to be equal, or the second a bias, as wide as the first."
            )
        return a + b

    def over_root(self, above: ast.expr, size: Role) -> np.ndarray:
        if size.shape:
            raise ValueError(f"sqrt takes a size such as d_k, but {size.key} is an array.")
        return self.visit(above) / math.sqrt(_SIZES[size.key])

    def transpose(self, value: ast.expr) -> np.ndarray:
        return self.visit(value).T

    def softmax(self, scores: ast.expr) -> np.ndarray:
        return softmax(self.visit(scores))

    def call(self, name: str, arguments: list[ast.expr]) -> np.ndarray:
        function = attention if name == "attention" else self.world.layer()
        try:
            return function(*map(self.visit, arguments))
        except ValueError as error:
            text = ", ".join(map(ast.unparse, arguments))
            raise ValueError(f"In `{name}({text})`: {error}") from error

    def over_heads(self, name: str, each: ast.expr) -> np.ndarray:
        values = [_Run(self.world, head).visit(each) for head in range(_SIZES["h"])]
        if name == "sum":
            return np.sum(values, axis=0)
        return np.concatenate(values, axis=-1 if name == "concat" else 0)


def _sizes(role: Role) -> tuple[int, ...]:
    return tuple(math.prod(_SIZES[factor] for factor in size.split("*")) for size in role.shape)


def _named(shape: tuple[int, ...]) -> str:
    return f"{shape} = ({', '.join(map(_name, shape))})"


def _name(size: int) -> str:
    return _NAMES.get(size, str(size))


def _shape(value: np.ndarray) -> str:
    return _named(value.shape)


def _facts(left: ast.expr, a: np.ndarray, right: ast.expr, b: np.ndarray) -> str:
    return (
        f"{ast.unparse(left)} has shape {_shape(a)} and {ast.unparse(right)} has shape {_shape(b)}"
    )


def _what_would_fit(left: ast.expr, a: np.ndarray, right: ast.expr, b: np.ndarray) -> str:
    first, second = ast.unparse(left), ast.unparse(right)
    if b.shape[1] == a.shape[0]:
        return f" {second} @ {first} would fit."
    if b.shape[1] == a.shape[1]:
        return f" {first} @ {second}.T would fit."
    if b.shape[0] == a.shape[0]:
        return f" {first}.T @ {second} would fit."
    return ""
