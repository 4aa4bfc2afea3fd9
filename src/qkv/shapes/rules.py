"""What `qkv.which` goes by: the shapes that it knows, as data.

They are not all shapes that libraries store. In them, values are as wide as keys.

The rules are in `rules.toml`; the sizes in them are written as they are computed, "(h+2·h_kv)·d_k".
"""

import itertools
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_KNOWN = ("d_model", "h", "h_kv", "d_k")


class Rule(NamedTuple):
    """A shape and what it may mean.

    `axes` holds the sizes of the axes, with a space between; the rest is as in `Candidate`.
    """

    axes: str
    symbol: str
    what: str
    convention: str
    question: str


def rules(*, grouped: bool) -> tuple[Rule, ...]:
    """List the shapes that `qkv.which` knows, the most common first.

    Args:
        grouped: Whether keys and values have fewer heads than queries.

    Returns:
        The rules.

    Examples:
        >>> rules(grouped=True)[2][:2]
        ('h·d_k d_model', 'W_Q')
    """
    return tuple(
        each
        for rule in _written()
        if not (grouped and "3" in rule.axes.split())  # an axis of letters: all have the same heads
        for each in _per_letters(rule, grouped)
    )


def known_sizes() -> dict[str, list[list]]:
    """Tell how to compute the sizes in the rules from d_model, h, h_kv and d_k.

    Returns:
        Each size as a sum of products, `[coefficient, *names]`. What is not here is a number, or
        free: a number of tokens or samples, where "batch·h" is some multiple of h.

    Examples:
        >>> known_sizes()["(h+2·h_kv)·d_k"]
        [[1, 'h', 'd_k'], [2, 'h_kv', 'd_k']]
    """
    every = [rule.axes.split() for grouped in (False, True) for rule in rules(grouped=grouped)]
    sizes = dict.fromkeys([*_KNOWN, *itertools.chain(*every)])
    sums = {size: _multiply_out(size) for size in sizes if not size.isdigit()}
    return {
        size: sum_of
        for size, sum_of in sums.items()
        if all({*names} <= {*_KNOWN} for _, *names in sum_of)
    }


def evaluate(sum_of: list[list], sizes: Mapping[str, int]) -> int:
    """Compute a sum of products of sizes.

    Args:
        sum_of: The products, `[coefficient, *names]`.
        sizes: A size for each name.

    Returns:
        The sum.

    Examples:
        >>> evaluate([[1, "h", "d_k"], [2, "h_kv", "d_k"]], {"h": 8, "h_kv": 2, "d_k": 64})
        768
    """
    return sum(number * math.prod(sizes[name] for name in names) for number, *names in sum_of)


@cache
def _written() -> list[Rule]:
    """The rules as they stand in the file."""
    table = tomllib.loads((files("qkv.shapes") / "rules.toml").read_text("utf-8"))["rules"]
    columns = ("axes", "symbol", "convention", "what", "question")
    return [Rule(**dict(zip(columns, row, strict=True))) for row in table]


def _per_letters(rule: Rule, grouped: bool) -> Iterator[Rule]:
    """A rule for the letters that have as many heads: Q, K and V, or Q apart from K and V."""
    if "{}" not in rule.symbol:
        yield rule
        return
    for h, letters in [("h", "Q"), ("h_kv", "KV")] if grouped else [("h", "QKV")]:
        *first, last = (rule.symbol.format(letter) for letter in letters)
        symbol = f"{', '.join(first)} or {last}" if first else last
        yield rule._replace(axes=rule.axes.format(h=h), symbol=symbol)


def _multiply_out(size: str) -> list[list]:
    """Read a size such as "(h+2·h_kv)·d_k" as a sum of products."""
    factors = re.findall(r"\(.*?\)|[^·]+", size)
    sums = [[term.split("·") for term in factor.strip("()").split("+")] for factor in factors]
    products = [[*itertools.chain(*choice)] for choice in itertools.product(*sums)]
    return [
        [
            math.prod(int(n) for n in factors if n.isdigit()),
            *(n for n in factors if not n.isdigit()),
        ]
        for factors in products
    ]
