"""What the interactive pages compute with, as data: counts of `qkv.costs`, rules of `qkv.which`.

Every count is a sum of products of sizes. It is written as a list of its terms, each a coefficient
and then the sizes that it multiplies: `[[3, "d_model", "d_model"], [1, "h"]]`. The explorer's
script does no more than add and multiply; the box reads by the same data as `qkv.read`. Letters
and the sides on which something stands follow the notation that a reader chooses.
"""

import inspect
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files

from qkv import notation
from qkv.costs import Factors, counts, steps
from qkv.notation.latex import latex
from qkv.notation.tree import Expression, Glyph, Written, parse
from qkv.reading._data import DATA, MESSAGES
from qkv.reading._tables import tables
from qkv.shapes.rules import per_letters
from qkv_site.markdown.mathml import inside, mark, to_mathml
from qkv_site.parts import formulas
from qkv_site.tables import javascript

_TABLED = (  # `tables` has what they say
    *("role", "steps", "own", "packed", "held", "made", "title", "class", "part", "bias"),
    *("beside", "pages", "behind"),
)
READER, LETTERS = "assets/reader.js", "assets/letters/{}.json"
_READ_BY = ["tree", "letters", "reading", "fit", "formulas", "others", "shapes", "answer"]

# The sizes, in the order in which a product is written.
SIZES = ("n", "h", "h_kv", "d_model", "d_k")

_PER_HEAD = ("Q[i] = X @ W_Q[i]", "K[i] = X @ W_K[i]", "V[i] = X @ W_V[i]")
_SIDE_BY_SIDE = tuple(f"concat({c}[i] for i in heads) == X @ W_{c}" for c in "QKV")
# What comes between the two has no letter: X_Q is what enters a layer.
_BEFORE_HEADS = tuple(f"X @ P_{c}" for c in "QKV")
_AFTER_BOTH = tuple(f"{c}[i] = X @ P_{c} @ W_{c}[i]" for c in "QKV")
_MERGED = ("Q[i] = X @ M[i]", "K[i] = X @ M_K[i]", "V[i] = X @ M_V[i]")
_SCORES = "S[i] = Q[i] @ K[i].T"
_COMBINE = ("head[i] = A[i] @ V[i]", "Y = concat(head[i] for i in heads) @ W_O")
_GROUPED = tuple(re.sub(r"([KV])\[i\]", r"\1[g(i)]", it) for it in (*_PER_HEAD, _SCORES, *_COMBINE))

# Of each product of a version, its formula; self-attention, so that one X is the source of all.
FORMULAS = {
    "paper": (*_PER_HEAD, _SCORES, *_COMBINE),
    "packed": (*_SIDE_BY_SIDE, _SCORES, *_COMBINE),
    "two-step": (*_BEFORE_HEADS, *_AFTER_BOTH, _SCORES, *_COMBINE),
    "two-step-merged": (*_MERGED, _SCORES, *_COMBINE),
    "w_qk": ("X @ W_QK[i]", "S[i] = X @ W_QK[i] @ X.T", _PER_HEAD[-1], *_COMBINE),
    "grouped": _GROUPED,
}
NAMES = {
    "paper": "The paper: one matrix per head",
    "packed": "Packed: one matrix for all heads",
    "two-step": "Two steps: a matrix before the heads",
    "two-step-merged": "Two steps, multiplied once: one matrix per head",
    "w_qk": "Query and key weights as one matrix",
    "grouped": "Grouped: heads share keys and values",
}
# The versions that have the costs of another one: shared heads are the paper's, and so are two
# matrices once they are one.
_SCHEMES = {"grouped": "paper", "two-step-merged": "paper"}
COUNTS = {
    "parameters": "parameters",
    "multiply_adds": "multiply-adds",
    "cached_per_token": "numbers cached per token",
    "activations": "numbers in the products' results",
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
    """What the explorer shows: the sizes, and the products and counts of each version."""
    return {
        "sizes": {name: _follow(name) for name in SIZES},
        "counts": COUNTS,
        "versions": {
            version: {
                "name": name,
                "steps": list(_steps(version)),
                "counts": {name: _count(version, name) for name in COUNTS},
            }
            for version, name in NAMES.items()
        },
    }


def reading() -> dict:
    """What the box reads with: the data of `qkv.reading`."""
    return {  # what is alike stands near: so it packs best
        "messages": MESSAGES
        | {"name": {key: it for key, it in MESSAGES["name"].items() if key not in _TABLED}},
        "data": {name: it for name, it in DATA.items() if name not in _TABLED},
        "tables": tables(),
    }


def letters(source: notation.Source) -> dict[str, str]:
    """Of each role the letter that a text has for it, as a card shows it."""
    return {
        role.key: inside(source.letter(role)) for role in notation.roles() if source.names(role)
    }


def reader() -> str:
    """What reads in the box: the modules of `qkv.reading`, as JavaScript."""
    names = [f"_{name}.py" for name in _READ_BY]
    sources = {name: (files("qkv.reading") / name).read_text("utf-8") for name in names}
    first = {
        "per_letters": inspect.getsource(per_letters),
        "tables": "def tables():\n    return TABLES\n",
    }
    wanted = "DATA, RefusedError, answer, written"
    return javascript.translate(first | sources, "DATA, MESSAGES, TABLES", wanted)


def scheme_of(version: str) -> str:
    """The scheme of `qkv.costs` that counts a version."""
    return _SCHEMES.get(version, version)


def _follow(*terms: str) -> str:
    """HTML of a sum in the letters that a reader chooses; a line breaks between its terms."""

    def typeset(source: str) -> str:
        each = (_size(term, source) for term in terms)
        return " + ".join(map(to_mathml, each))

    return formulas.variants(typeset, "var")


def _count(version: str, name: str) -> dict:
    found = collect(counts(scheme_of(version))[name], grouped=version == "grouped")
    return {"terms": found, "formula": _follow(*map(_product, found))}


def _steps(version: str) -> Iterator[dict]:
    block = notation.Block(FORMULAS[version])
    made: dict[str, Terms] = {}  # how many there are of each result
    for number, step in enumerate(steps(scheme_of(version))):

        def written(factors: Factors | None) -> Terms:
            return collect([] if factors is None else [factors], grouped=version == "grouped")

        count, rows, inner, columns = map(written, step[2:])
        sides = block.formulas[number].sides
        result, product = sides[0], sides[-1]
        made[str(result)] = count
        shapes = [(product.left, rows, inner), (product.right, inner, columns)]
        shapes.append((result, rows, columns))
        yield {
            "formula": _formula(block, number),
            "turned": [
                each.id for each in notation.sources() if _write(block, each.id)[number].transposed
            ],
            "count": count,
            "parameters": written(step.parameters),
            "multiply_adds": written(step.multiply_adds),
            "matrices": [
                {
                    "letter": _letter(block, number, place),
                    "shape": _shape(block, number, *sizes),
                    "group": next(parse(str(expression)).symbols()).role.group,
                    "rows": sizes[0],
                    "columns": sizes[1],
                    "count": _how_many(expression, count, made),
                }
                for place, (expression, *sizes) in enumerate(shapes)
            ],
        }


def _how_many(expression: Expression, count: Terms, made: dict[str, Terms]) -> Terms:
    name = str(expression).removesuffix(".T")
    return made.get(name, count) if name.endswith(("[i]", "[g(i)]")) else [[1]]


@cache
def _size(line: str, source: str) -> str:
    return notation.typeset(line, source, mark=mark)


@cache
def _write(block: notation.Block, source: str) -> tuple[Written, ...]:
    return block.write(source)


@cache
def _typeset(block: notation.Block, source: str) -> tuple[str, ...]:
    return block.typeset(source, mark=mark)


def _formula(block: notation.Block, number: int) -> str:
    product = str(block.formulas[number].sides[-1])

    def typeset(source: str) -> str:
        made = _write(block, source)[number].sides[0]
        # A source without this letter would have W_i^Q q = W_i^Q x here, which says nothing.
        projected = isinstance(made, Glyph) and made.role.group in ("query", "key", "value")
        alone = projected and made.spelled
        return to_mathml(_size(product, source) if alone else _typeset(block, source)[number])

    return formulas.variants(typeset, "var")


def _letter(block: notation.Block, number: int, place: int) -> str:
    """A factor of a line, or its result."""

    def typeset(name: str) -> str:
        written = _write(block, name)[number]
        shown = [written.sides[-1].left, written.sides[-1].right, written.sides[0]]
        if written.transposed:
            shown[:2] = shown[1::-1]
        return to_mathml(latex(formulas.short(shown[place]), mark))

    return formulas.variants(typeset, "var")


def _shape(block: notation.Block, number: int, rows: Terms, columns: Terms) -> str:
    def typeset(name: str) -> str:
        sides = [_size(_product(side), name) for (side,) in (rows, columns)]
        turned = _write(block, name)[number].transposed
        return to_mathml(r" \times ".join(sides[:: -1 if turned else 1]))

    return formulas.variants(typeset, "var")


def _product(term: list) -> str:
    """A product of sizes, as a formula has it."""
    coefficient, *names = term
    factors = [f"{name}**{power}" if power > 1 else name for name, power in Counter(names).items()]
    return " * ".join([str(coefficient)] * (coefficient > 1 or not names) + factors)
