"""Formulas run: on arrays whose widths and lengths are distinct primes."""

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from itertools import product
from numbers import Integral
from typing import NamedTuple

import numpy as np

from qkv.between import QKNorm, Rotation
from qkv.equation_1 import attention, softmax
from qkv.multi_head import MultiHead
from qkv.notation import tree
from qkv.notation._roles import Role, role
from qkv.notation.settings import Setting
from qkv.notation.tree import Expression, Formula, parse, parse_size

_PRIMES = {
    "h": 2,
    "h_kv": 2,
    "d_k": 3,
    "d_v": 5,
    "n_q": 7,
    "n_k": 11,
    "d_model": 13,
    "n": 17,
    "d_c": 19,
    "d_cq": 23,
    "d_r": 29,
    "d_out": 31,
    "d_source": 37,
    "d_source_k": 41,
    "d_source_v": 43,
}
_GROUPED = {"h": 4, "h_kv": 2}
_NAMES = {size: name for name, size in _PRIMES.items() if name != "h_kv"}
_OPERATIONS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
}
_HIGHEST = 100  # power of a size


class Fault(NamedTuple):
    """What is wrong with which of several lines, counted from 0."""

    line: int
    message: str


def check(*lines: str) -> None:
    r"""Run formulas that stand together, and compare the sides of each.

    Roles are arrays of random numbers, with distinct sizes for d_model, d_k, n_q and the like, or
    what their definitions make of such arrays. Which definition holds follows from all lines
    together: with `b_Q[i]` in one of them, queries have a bias in all. A line holds if all its
    sides have the same shape and the same values, for every head.

    Args:
        *lines: `Q[i] = X_Q @ W_Q[i]` states what a role is; `A == B` that two expressions are
            equal; an expression alone has only to run.

    Raises:
        ValueError: If a line is no formula or cannot run, shapes do not fit, or two sides differ.

    Examples:
        >>> check("Q[i] = X_Q @ W_Q[i]")
        >>> check("sum(head[i] @ W_O[i] for i in heads) == concat(head[i] for i in heads) @ W_O")
        >>> check("Q[i] = W_Q[i] @ X_Q")
        Traceback (most recent call last):
            ...
        ValueError: In `W_Q[i] @ X_Q`, W_Q[i] has shape (13, 3) = (d_model, d_k) and X_Q has shape
        (7, 13) = (n_q, d_model): d_k and n_q have to be equal. X_Q @ W_Q[i] would fit.
    """
    for fault in find_faults(*lines):
        raise ValueError(fault.message)


def find_faults(*lines: str) -> tuple[Fault, ...]:
    """What is wrong with formulas that stand together; nothing if all of them hold."""
    formulas: dict[int, Formula] = {}
    found = []
    for number, line in enumerate(lines):
        try:
            formulas[number] = parse(line)
        except ValueError as error:
            found.append(Fault(number, str(error)))
    # One world for all lines: whether a query has a bias is decided by all of them together.
    world = World(Setting.of(formulas.values()))
    for number, formula in formulas.items():
        if message := _disagreement(formula, world):
            others = (other for each, other in formulas.items() if each != number)
            found.append(Fault(number, message + _contradicted(formula, others)))
    return tuple(sorted(found))


def _disagreement(formula: Formula, world: "World") -> str:
    try:
        for head in world.heads_of(formula):
            _compare(formula, world, head)
    except ValueError as error:
        return str(error)
    return ""


def _contradicted(formula: Formula, others) -> str:
    """The line that a formula contradicts, if it holds without that line."""
    if _disagreement(formula, World(Setting.of([formula]))):
        return ""
    for other in others:
        if _disagreement(formula, World(Setting.of([formula, other]))):
            return (
                f" `{formula.text}` holds by itself, but not beside `{other.text}`: lines that "
                "stand together are about one layer."
            )
    return ""


def _compare(formula: Formula, world: "World", head: int) -> None:
    left, *others = formula.sides
    if left.is_size:
        _compare_sizes(formula)
        return
    expected = world.value(left, head)
    for other in others:
        value = world.value(other, head)
        pair = f"`{left}` has shape {world.shape(expected)}"
        if value.shape != expected.shape:
            raise ValueError(f"{pair}, but `{other}` has shape {world.shape(value)}.")
        if not np.allclose(value, expected):
            raise ValueError(
                f"{pair} and so has `{other}`, but their values differ, by up to "
                f"{np.abs(value - expected).max():.2g}."
            )


def _compare_sizes(formula: Formula) -> None:
    """Equal for all sizes: tried for more of them than a coincidence would survive."""
    left, *others = formula.sides
    size_of(left, _PRIMES)  # a size alone has only to run
    for other in others:
        if not other.is_size:
            raise ValueError(f"`{left}` is a size, but `{other}` is an array.")
    names = [symbol.role.key for symbol in formula.symbols()]
    for shift in range(3):
        sizes = {name: _PRIMES[name] + shift * (place + 5) for place, name in enumerate(names)}
        for other in others:
            a, b = size_of(left, sizes), size_of(other, sizes)
            if not math.isclose(a, b, rel_tol=1e-12):
                which = ", ".join(f"{name} = {size}" for name, size in sizes.items())
                raise ValueError(f"`{left}` is {a} and `{other}` is {b} for {which}.")


def size_of(size: Expression | str, sizes: dict[str, int]) -> int | float | Fraction:
    """The number that a size is.

    Args:
        size: An expression of sizes: `2 * d_model * d_k - d_k**2`.
        sizes: The number that each size in it stands for. Whether it is a number is not checked.

    Raises:
        ValueError: If it is no size, one of its sizes has no number, it divides by 0 or has a root
            of less than 0, or it or an exponent is too large.

    Examples:
        >>> size_of("h * d_k", {"h": 8, "d_k": 64})
        512
    """
    if isinstance(size, str):
        return size_of(parse_size(size), sizes)
    try:
        value = _number(size, sizes)
        float(value)  # of a root, and where two are compared
    except OverflowError:
        raise ValueError(f"`{size}` is too large a number.") from None
    return value


def _number(size: Expression, sizes: dict[str, int]) -> int | float | Fraction:
    match size:
        case tree.Number(value):
            return value
        case tree.Symbol(symbol) if symbol.key in sizes:
            return sizes[symbol.key]
        case tree.Root(of):
            below = _number(of, sizes)
            if below < 0:
                raise ValueError(f"`{size}` is the root of {below}, less than 0.")
            return math.sqrt(below)
        case tree.Arithmetic(sign, left, right):
            one, other = (_exact(_number(each, sizes)) for each in (left, right))
            if sign == "**" and abs(other) > _HIGHEST:
                raise ValueError(f"`{size}` has the exponent {other}: at most {_HIGHEST} is taken.")
            try:
                value = _OPERATIONS[sign](one, other)
            except ZeroDivisionError:
                raise ValueError(f"`{size}` divides by 0.") from None
            if isinstance(value, complex):
                raise ValueError(f"`{size}` is a root of {one}, less than 0.")
            return int(value) if value == int(value) else value
    raise ValueError(f"{size} has no number among {', '.join(sizes) or 'none'}.")


# Floats would turn (h / 3) * 3 into no whole number, and an array's axis needs one.
def _exact(size: int | float | Fraction) -> float | Fraction:
    return Fraction(int(size)) if isinstance(size, Integral) else size


class World:
    """The arrays that roles stand for in one setting; each is made when it is first asked for."""

    def __init__(self, setting: Setting):
        self.setting = setting
        self.sizes = _PRIMES | (_GROUPED if setting.grouped else {})
        self._rng = np.random.default_rng(0)
        self._values: dict[tuple[str, int], np.ndarray] = {}

    def heads_of(self, formula: Formula) -> range:
        """The heads for which a line has to hold."""
        of_heads = [symbol.role for symbol in formula.symbols() if symbol.index == "i"]
        shared = of_heads and all(each.per_kv_head for each in of_heads)
        return range(self.sizes["h_kv" if shared else "h"])

    def value(self, expression: Expression, head: int) -> np.ndarray:
        """The value of an expression, for one head."""
        match expression:
            case tree.Symbol():
                return self._symbol(expression, head)
            case tree.Product(left, right):
                return self._product(left, right, head)
            case tree.Sum(left, right):
                return self._sum(left, right, head)
            case tree.OverRoot(above, size):
                return self.value(above, head) / math.sqrt(size_of(size, self.sizes))
            case tree.Transpose(of):
                return self.value(of, head).T
            case tree.Apply(function, arguments):
                return self._apply(function, arguments, head)
            case tree.OverHeads(how, each, heads):
                count = self.sizes["h" if heads == "heads" else "h_kv"]
                values = [self.value(each, head) for head in range(count)]
                if how == "sum":
                    return np.sum(values, axis=0)
                return np.concatenate(values, axis=-1 if how == "concat" else 0)
        raise ValueError(f"`{expression}` is a size, where an array is expected.")

    def shape(self, value: np.ndarray) -> str:
        """A shape in numbers and in names."""
        return f"{value.shape} = ({', '.join(map(self.name, value.shape))})"

    def name(self, size: int) -> str:
        """The size that this number stands for."""
        # Sizes are distinct primes, so a number and a product of two each have one name.
        heads = ["h", "h_kv"] if self.setting.grouped else ["h"]
        products = {
            self.sizes[count] * self.sizes[each]: f"{count} * {each}"
            for count, each in product(heads, ("n", "n_q", "n_k", "d_model", "d_k", "d_v"))
        }
        return (_NAMES | products).get(size, str(size))

    @cached_property
    def layer(self) -> MultiHead:
        """The layer that the weights make, which shows that the definitions are the paper's."""
        if "Y" in self.setting.definitions:
            raise ValueError(
                "multihead is the paper's layer, without latents, which neither rotates nor norms."
            )

        def heads(key: str, count: str) -> np.ndarray:
            return np.stack([self._role(role(key), head) for head in range(self.sizes[count])])

        counts = {"Q": "h", "K": "h_kv", "V": "h_kv", "O": "h"}
        weights = {f"W_{name}": heads(f"W_{name}[i]", count) for name, count in counts.items()}
        if "b_Q[i]" not in self.setting.definitions.get("Q[i]", ""):
            return MultiHead(**weights)
        biases = {f"b_{name}": heads(f"b_{name}[i]", counts[name]) for name in "QKV"}
        return MultiHead(**weights, **biases, b_O=self._role(role("b_O"), 0))

    def _symbol(self, symbol: tree.Symbol, head: int) -> np.ndarray:
        if symbol.is_size:
            raise ValueError(f"`{symbol}` is a size, where an array is expected.")
        if symbol.index.isdigit():
            head = int(symbol.index) - 1
            if head >= self.sizes["h"]:
                raise ValueError(f"`{symbol}`: the layer has {self.sizes['h']} heads here.")
        if symbol.index == "g(i)":
            head //= self.sizes["h"] // self.sizes["h_kv"]  # heads of one group are neighbours
        elif symbol.role.per_kv_head and head >= self.sizes["h_kv"]:
            raise ValueError(
                f"Heads share {symbol} here, and head {head} has none of its own: write "
                f"{symbol.role.key[:-3]}[g(i)]."
            )
        return self._role(symbol.role, head)

    def _role(self, role: Role, head: int) -> np.ndarray:
        # Kept, so that two lines that name one weight are about the same numbers.
        key = (role.key, head if role.per_head else 0)
        if key not in self._values:
            self._values[key] = self._make(self.setting.define(role), head)
        return self._values[key]

    def _make(self, role: Role, head: int) -> np.ndarray:
        shape = tuple(int(size_of(size, self.sizes)) for size in role.shape)
        if role.definition is None:
            return self._rng.normal(size=shape)
        (definition,) = parse(role.definition).sides
        value = self.value(definition, head)
        if value.shape != shape:
            raise ValueError(
                f"{role.key} must have shape {shape} = ({', '.join(role.shape)}), but its "
                f"definition `{role.definition}` has shape {self.shape(value)}."
            )
        return value

    def _product(self, left: Expression, right: Expression, head: int) -> np.ndarray:
        a, b = self.value(left, head), self.value(right, head)
        where = f"In `{tree.Product(left, right)}`, {self._facts(left, a, right, b)}"
        if a.ndim != 2 or b.ndim != 2:
            raise ValueError(f"{where}: a product is one of two matrices.")
        if a.shape[1] != b.shape[0]:
            raise ValueError(
                f"{where}: {self.name(a.shape[1])} and {self.name(b.shape[0])} have to be equal."
                + _what_would_fit(left, a, right, b)
            )
        return a @ b

    def _sum(self, left: Expression, right: Expression, head: int) -> np.ndarray:
        a, b = self.value(left, head), self.value(right, head)
        # Broadcasting would also let a column, or one number, pass for a bias.
        if b.shape not in (a.shape, a.shape[-1:]):
            raise ValueError(
                f"In `{tree.Sum(left, right)}`, {self._facts(left, a, right, b)}: they have to be "
                "equal, or the second a bias, as wide as the first."
            )
        return a + b

    def _apply(self, name: str, arguments: tuple[Expression, ...], head: int) -> np.ndarray:
        values = [self.value(argument, head) for argument in arguments]
        functions: dict[str, Callable] = {
            "softmax": softmax,
            "attention": attention,
            "rotate": rotate,
            "norm": norm,
        }
        function = functions.get(name) or self.layer
        try:
            return function(*values)
        except ValueError as error:
            raise ValueError(f"In `{tree.Apply(name, arguments)}`: {error}") from error

    def _facts(self, left: Expression, a: np.ndarray, right: Expression, b: np.ndarray) -> str:
        return f"{left} has shape {self.shape(a)} and {right} has shape {self.shape(b)}"


def rotate(x: np.ndarray) -> np.ndarray:
    """Rotary embedding (RoPE) of rows, by their places.

    Widths are odd here, so the last coordinate has no partner, and stays as it is.
    """
    n, d = x.shape
    return Rotation.of(10000.0, d - d % 2).turn(x, np.arange(n)[:, None])


def norm(x: np.ndarray) -> np.ndarray:
    """RMS norm of each token, without gains: a token's numbers have mean square one."""
    return QKNorm(eps=0.0).vectors(x, x, x, None, None)[0]


def _what_would_fit(left: Expression, a: np.ndarray, right: Expression, b: np.ndarray) -> str:
    if b.shape[1] == a.shape[0]:
        return f" {tree.Product(right, left)} would fit."
    if b.shape[1] == a.shape[1]:
        return f" {tree.Product(left, tree.Transpose(right))} would fit."
    if b.shape[0] == a.shape[0]:
        return f" {tree.Product(tree.Transpose(left), right)} would fit."
    return ""
