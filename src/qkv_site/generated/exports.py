"""What the interactive pages compute with, as data: counts of `qkv.costs`, rules of `qkv.which`.

Every count is a sum of products of sizes. It is written as a list of its terms, each a coefficient
and then the sizes that it multiplies: `[[3, "d_model", "d_model"], [1, "h"]]`. The scripts
of the pages do no more than add and multiply, so what they show is what Python computes.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

import numpy as np

from qkv import notation
from qkv._which import known_sizes, rules
from qkv.costs import Cost, Product, Sizes, cost, products
from qkv.notation.tree import Expression, parse
from qkv_site.markdown.mathml import mark, to_mathml

# The sizes, by the names that `qkv` gives them, in the order in which a product is written.
LETTERS = {
    "n": "n",
    "h": "h",
    "h_kv": r"h_{\text{kv}}",
    "d_model": r"d_{\text{model}}",
    "d_k": "d_k",
}

_PER_HEAD = ("Q[i] = X @ W_Q[i]", "K[i] = X @ W_K[i]", "V[i] = X @ W_V[i]")
_SIDE_BY_SIDE = tuple(f"concat({c}[i] for i in heads) == X @ W_{c}" for c in "QKV")
_BEFORE_HEADS = tuple(f"X_{c} = X @ P_{c}" for c in "QKV")
_AFTER_BOTH = tuple(f"{c}[i] = X_{c} @ W_{c}[i]" for c in "QKV")
_SCORES = "S[i] = Q[i] @ K[i].T"
_COMBINE = ("head[i] = A[i] @ V[i]", "Y = concat(head[i] for i in heads) @ W_O")

# Of each product of a reading, its formula; self-attention, so that one X is the source of all.
FORMULAS = {
    "paper": (*_PER_HEAD, _SCORES, *_COMBINE),
    "packed": (*_SIDE_BY_SIDE, _SCORES, *_COMBINE),
    "two-step": (*_BEFORE_HEADS, *_AFTER_BOTH, _SCORES, *_COMBINE),
    "merged": ("X @ W_QK[i]", "S[i] = X @ W_QK[i] @ X.T", _PER_HEAD[-1], *_COMBINE),
    "grouped": (*_PER_HEAD, _SCORES, *_COMBINE),
}
READINGS = {
    "paper": "The paper: one map per head",
    "packed": "Packed: the heads' maps side by side",
    "two-step": "Two steps: a map, then the heads' maps",
    "merged": "Merged: one map for two in each score",
    "grouped": "Grouped: heads share keys and values",
}
COUNTS = {
    "parameters": "parameters",
    "multiply_adds": "multiply-adds",
    "cached_per_token": "numbers cached per token",
    "activations": "numbers in the results",
    "products": "matrix products",
}

# At these sizes, every product of sizes with powers up to 3 is a power of the base of its own.
_BASE, _DEGREES = 2**16, 4
_WEIGHTS = {name: _DEGREES**place for place, name in enumerate(reversed(LETTERS))}
_POWERS = {name: _BASE**weight for name, weight in _WEIGHTS.items()}
_PROBE = {"n": 3, "h": 14, "h_kv": 2, "d_model": 11, "d_k": 5}

Terms = list[list]


def terms(count: Callable[[dict[str, int]], int]) -> Terms:
    """Read off the terms of a sum of products of sizes.

    The sizes are set to powers of 2**16 so far apart that the coefficients are the digits of the
    value (Kronecker's substitution); other sizes then confirm what was read.

    Args:
        count: A function of sizes. Its coefficients are whole numbers from 0 to 65,535, and no
            size has a power above 3.

    Raises:
        ValueError: If it is no such function.

    Examples:
        >>> terms(lambda sizes: 3 * sizes["d_model"] ** 2 + sizes["n"])
        [[1, 'n'], [3, 'd_model', 'd_model']]
    """
    value = count(_POWERS)
    digits = np.frombuffer(value.to_bytes(2 * _DEGREES ** len(LETTERS), "little"), "<u2")
    found = [[digits[place].item(), *_factors(place)] for place in np.flatnonzero(digits)[::-1]]
    if evaluate(found, _PROBE) != count(_PROBE):
        raise ValueError(f"not a sum of products of sizes: it seemed to be {found}")
    return found


def evaluate(found: Terms, sizes: dict[str, int]) -> int:
    """Compute a sum of products from its terms, as the scripts do.

    Examples:
        >>> evaluate([[3, "d_model", "d_model"], [1, "h"]], {"d_model": 5, "h": 7})
        82
    """
    return sum(
        coefficient * math.prod(sizes[name] for name in names) for coefficient, *names in found
    )


def write(folder: Path) -> list[str]:
    """Write the data into a folder, and return what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, data in ("explorer", explorer()), ("which-shape", shapes()):
        written.append(json.dumps(data, ensure_ascii=False, separators=(",", ":")))
        (folder / f"{name}.json").write_text(written[-1], encoding="utf-8")
    return written


def explorer() -> dict:
    """What the explorer shows: the sizes, and the products and counts of each reading."""
    return {
        "sizes": {name: to_mathml(letter) for name, letter in LETTERS.items()},
        "counts": COUNTS,
        "readings": {
            reading: {
                "name": name,
                "steps": list(_steps(reading)),
                "counts": {name: _count(reading, name) for name in COUNTS},
            }
            for reading, name in READINGS.items()
        },
    }


def shapes() -> dict:
    """What the form goes by: the rules, and what the symbols in them stand for."""

    def known(sizes: dict[str, int]) -> dict[str, int]:
        return known_sizes(**{name: size for name, size in sizes.items() if name != "n"})

    return {
        "rules": {
            name: [rule._asdict() for rule in rules(grouped=name == "grouped")]
            for name in ("grouped", "ungrouped")
        },
        "sizes": {
            symbol: terms(lambda sizes, symbol=symbol: known(sizes)[symbol])
            for symbol in known(_PROBE)
        },
    }


@cache
def costs_of(reading: str, *, n: int, h_kv: int, **sizes: int) -> tuple[Cost, tuple[Product, ...]]:
    """Count what a reading costs in self-attention; only grouped heads share keys and values."""
    grouped = reading == "grouped"
    layer = Sizes(n_q=n, h_kv=h_kv if grouped else None, **sizes)
    name = "paper" if grouped else reading
    return cost(name, layer), products(name, layer)


def _count(reading: str, name: str) -> dict:
    found = terms(lambda sizes: getattr(costs_of(reading, **sizes)[0], name))
    return {"terms": found, "formula": " + ".join(to_mathml(_latex(term)) for term in found)}


def _steps(reading: str) -> Iterator[dict]:
    made: dict[str, Terms] = {}  # how many there are of each result
    for number, line in enumerate(FORMULAS[reading]):
        notation.check(line)
        part = partial(_part, reading, number)
        count, rows, inner, columns = map(part, ("count", "rows", "inner", "columns"))
        sides = parse(line).sides
        result, product = sides[0], sides[-1]
        made[str(result)] = count
        yield {
            "formula": _math(line),
            "count": count,
            "parameters": part("parameters"),
            "multiply_adds": part("multiply_adds"),
            "matrices": [
                _matrix(product.left, rows, inner, count, made),
                _matrix(product.right, inner, columns, count, made),
                _matrix(result, rows, columns, count, made),
            ],
        }


def _part(reading: str, number: int, name: str) -> Terms:
    return terms(lambda sizes: getattr(costs_of(reading, **sizes)[1][number], name))


def _matrix(
    expression: Expression, rows: Terms, columns: Terms, count: Terms, made: dict[str, Terms]
) -> dict:
    text = str(expression)
    name = text.removesuffix(".T")
    return {
        "symbol": _math(text),
        "group": next(parse(text).symbols()).role.group,
        "shape": to_mathml(rf"{_latex(*rows)} \times {_latex(*columns)}"),
        "rows": rows,
        "columns": columns,
        "count": made.get(name, count) if name.endswith("[i]") else [[1]],
    }


def _math(line: str) -> str:
    return to_mathml(notation.typeset(line, "site", mark=mark))


def _latex(term: list) -> str:
    coefficient, *names = term
    factors = [
        LETTERS[name] + (f"^{power}" if power > 1 else "") for name, power in Counter(names).items()
    ]
    return " ".join([str(coefficient)] * (coefficient > 1 or not names) + factors)


def _factors(place: int) -> Iterator[str]:
    """The sizes whose product is this power of the base."""
    for name in LETTERS:
        times, place = divmod(int(place), _WEIGHTS[name])
        yield from [name] * times
