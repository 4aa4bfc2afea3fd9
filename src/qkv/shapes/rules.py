"""What `qkv.which` goes by: the shapes that it knows, as data.

They are not all shapes that libraries store. In them, values are as wide as keys.

The rules are in `rules.toml`; the sizes in them are written as they are computed, "(h+2·h_kv)·d_k".
"""

import itertools
import math
import re
import tomllib
from collections.abc import Mapping
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
        rule._replace(axes=axes, symbol=symbol)
        for rule in written()
        for axes, symbol in per_letters(rule.axes, rule.symbol, grouped)
    )


def known_sizes() -> dict[str, list[list]]:
    """Tell how to compute the sizes in the rules from d_model, h, h_kv and d_k.

    Returns:
        Each size as a sum of products, `[coefficient, *names]`. What is not here is a number, a
        multiple of h (`batch·h`), or free (a number of tokens).

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
def written() -> tuple[Rule, ...]:
    """Read the rules as they stand in the file.

    Returns:
        The rules, the most common first, with `{}` for a letter and `{h}` for its number of heads.

    Examples:
        >>> written()[2][:2]
        ('{h}·d_k d_model', 'W_{}')
    """
    table = tomllib.loads((files("qkv.shapes") / "rules.toml").read_text("utf-8"))["rules"]
    columns = ("axes", "symbol", "convention", "what", "question")
    return tuple(Rule(**dict(zip(columns, row, strict=True))) for row in table)


def per_letters(axes: str, symbol: str, grouped: bool) -> list[tuple[str, str]]:
    """Put letters that have as many heads into a rule: Q, K and V, or Q apart from K and V.

    Args:
        axes: The rule's axes as they are written.
        symbol: Its symbol as it is written.
        grouped: Whether keys and values have fewer heads than queries.

    Returns:
        The axes and the symbol of each rule that this one is; none where an axis of three holds
        queries, keys and values, and these have other numbers of heads.

    Examples:
        >>> per_letters("{h} d_model d_k", "W_{}", True)
        [('h d_model d_k', 'W_Q'), ('h_kv d_model d_k', 'W_K or W_V')]
    """
    if "{}" not in symbol:
        return [] if grouped and "3" in axes.split() else [(axes, symbol)]
    ways = [("h", "Q"), ("h_kv", "KV")] if grouped else [("h", "QKV")]
    named = [(h, [symbol.format(letter) for letter in letters]) for h, letters in ways]
    return [
        (axes.format(h=h), f"{', '.join(its[:-1])} or {its[-1]}" if its[1:] else its[0])
        for h, its in named
    ]


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
