"""What the interactive pages compute with, as data: counts of `qkv.costs`, rules of `qkv.which`.

Every count is a sum of products of sizes. It is written as a list of its terms, each a coefficient
and then the sizes that it multiplies: `[[3, "d_model", "d_model"], [1, "h"]]`. The scripts
of the pages do no more than add and multiply, so what they show is what Python computes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from qkv import notation
from qkv.costs import Factors, counts, steps
from qkv.notation.tree import Expression, parse
from qkv.rules import known_sizes, rules
from qkv_site.markdown.mathml import mark, to_mathml

# The sizes, in the order in which a product is written.
SIZES = ("n", "h", "h_kv", "d_model", "d_k")

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
    "w_qk": ("X @ W_QK[i]", "S[i] = X @ W_QK[i] @ X.T", _PER_HEAD[-1], *_COMBINE),
    "grouped": (*_PER_HEAD, _SCORES, *_COMBINE),
}
READINGS = {
    "paper": "The paper: one map per head",
    "packed": "Packed: the heads' maps side by side",
    "two-step": "Two steps: a map, then the heads' maps",
    "w_qk": "Query and key weights as one matrix",
    "grouped": "Grouped: heads share keys and values",
}
COUNTS = {
    "parameters": "parameters",
    "multiply_adds": "multiply-adds",
    "cached_per_token": "numbers cached per token",
    "activations": "numbers in the results",
    "products": "matrix products",
}

# In self-attention, with values as wide as keys.
_SAME = {"n_q": "n", "n_k": "n", "d_v": "d_k"}

Terms = list[list]


def collect(sum_of: Iterable[Factors], *, grouped: bool = True) -> Terms:
    """Write a sum of products of sizes with each product once, as `[coefficient, *sizes]`.

    Examples:
        >>> collect([("n_q", "d_model"), ("d_model", "n_k"), ("h", "d_v")])
        [[2, 'n', 'd_model'], [1, 'h', 'd_k']]
    """
    same = _SAME if grouped else _SAME | {"h_kv": "h"}
    products = Counter(
        tuple(sorted((same.get(name, name) for name in factors), key=SIZES.index))
        for factors in sum_of
    )
    return [[coefficient, *names] for names, coefficient in products.items()]


def explorer() -> dict:
    """What the explorer shows: the sizes, and the products and counts of each reading."""
    return {
        "sizes": {name: to_mathml(notation.typeset(name)) for name in SIZES},
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
    return {
        "rules": {
            name: [rule._asdict() for rule in rules(grouped=name == "grouped")]
            for name in ("grouped", "ungrouped")
        },
        "sizes": known_sizes(),
    }


def scheme_of(reading: str) -> str:
    """The scheme of a reading: grouped heads are the paper's, some of them shared."""
    return "paper" if reading == "grouped" else reading


def _count(reading: str, name: str) -> dict:
    found = collect(counts(scheme_of(reading))[name], grouped=reading == "grouped")
    return {"terms": found, "formula": " + ".join(to_mathml(_latex(term)) for term in found)}


def _steps(reading: str) -> Iterator[dict]:
    made: dict[str, Terms] = {}  # how many there are of each result
    for line, step in zip(FORMULAS[reading], steps(scheme_of(reading)), strict=True):
        notation.check(line)

        def written(factors: Factors | None) -> Terms:
            return collect([] if factors is None else [factors], grouped=reading == "grouped")

        count, rows, inner, columns = map(written, step[2:])
        sides = parse(line).sides
        result, product = sides[0], sides[-1]
        made[str(result)] = count
        yield {
            "formula": _math(line),
            "count": count,
            "parameters": written(step.parameters),
            "multiply_adds": written(step.multiply_adds),
            "matrices": [
                _matrix(product.left, rows, inner, count, made),
                _matrix(product.right, inner, columns, count, made),
                _matrix(result, rows, columns, count, made),
            ],
        }


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
    factors = [f"{name}**{power}" if power > 1 else name for name, power in Counter(names).items()]
    number = [str(coefficient)] * (coefficient > 1 or not names)
    return notation.typeset(" * ".join(number + factors))
