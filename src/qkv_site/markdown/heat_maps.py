"""Matrices with their numbers, in tables: the further from zero, the darker, in a role's colour.

A negative number has its sign, and its cell is striped, so that no reader needs to see colours. A
product stands as it does in formulas: where tokens are columns, its matrices are the transposes,
and in the other order.
"""

import html
import re
from functools import partial
from itertools import groupby

import numpy as np
from jaxtyping import Float

from qkv import notation
from qkv_site.markdown import formulas

_MINUS = "\u2212"
_TOKENS = {"n", "n_q", "n_k"}
# An expression, its values and, if need be, a note; or a sign.
Part = tuple[str, np.ndarray] | tuple[str, np.ndarray, str] | str


def heat_map(
    values: Float[np.ndarray, "n_q n_k"],
    *,
    rows: list[str],
    columns: list[str],
    label: str,
    digits: int = 2,
    role: str = "A[i]",
) -> str:
    """Draw a matrix as an HTML table; print it in a block with `html="on"`.

    Args:
        values: Its numbers. A score of minus infinity is one that a mask excludes.
        rows: What each row is called: the token that asks.
        columns: What each column is called: the token that is looked at.
        label: What the numbers are, and what a row and a column is.
        digits: How many digits stand after the point.
        role: Whose colour it has.

    Raises:
        ValueError: If there are not as many names as rows or columns.
    """
    if values.shape != (len(rows), len(columns)):
        raise ValueError(
            f"values has shape {values.shape}, but there are {len(rows)} names of rows and "
            f"{len(columns)} of columns."
        )
    return _scrolling(_table(values, rows, columns, html.escape(label), digits, role))


def equation(*parts: Part, words: tuple[str, ...], label: str, tied: str = "") -> str:
    """Draw matrices with their numbers, and signs between them; print it with `html="on"`.

    Args:
        *parts: An expression and its values, `("K[i].T", K.T)`, or a sign, in the order that
            formulas have where tokens are rows: X, "×", W, "=", Q. What follows "↓" begins a
            line. A third entry is a note that stands above the matrix. `"paper-eq1: Q[i]"` has
            the letter of that source.
        words: What the tokens are called.
        label: What the figure shows, in a sentence.
        tied: The source whose orientation it has; that of the reader's choice if empty.

    Raises:
        ValueError: If an axis of tokens is not as long as there are words.
    """
    drawn = formulas.in_notations(partial(_in_orientation, parts, words), tied)
    striped = any(np.any(part[1] < 0) for part in parts if not isinstance(part, str))
    how = "Darker is further from zero" + (", and striped is negative." if striped else ".")
    return (
        f'<figure class="wq-equation" data-search-exclude>{drawn}'
        f"<figcaption>{html.escape(label)} {how}</figcaption></figure>"
    )


def by_hand(left: Float[np.ndarray, " n"], right: Float[np.ndarray, " n"]) -> str:
    """Write a dot product as a reader would work it out.

    Examples:
        >>> by_hand(np.array([1.5, 2.0]), np.array([-0.1, 0.25]))
        '1.5 · (−0.1) + 2.0 · 0.25 = 0.35'
    """
    products = " + ".join(
        f"{first} · {f'({second})' if second.startswith(_MINUS) else second}"
        for first, second in zip(_numbers(left), _numbers(right), strict=True)
    )
    return f"{products} = {_number(left @ right, 2)}"


def _in_orientation(parts: tuple[Part, ...], words: tuple[str, ...], source: str) -> str:
    columns = notation.source(source).tokens == "columns"
    farthest = _farthest(parts)
    pieces, sign = "", ""
    for part in _turned(parts) if columns else parts:
        if part == "↓":
            pieces += '<div class="wq-sign wq-down">↓</div>'
        elif isinstance(part, str):
            sign = f'<span class="wq-sign">{html.escape(part)}</span>'
        else:
            most = farthest[_role(part[0]).group]
            table = _scrolling(_matrix(*part, words=words, turn=columns, most=most))
            pieces += f'<div class="wq-part">{sign}{table}</div>'
            sign = ""
    return f'<div class="wq-drawn">{pieces}</div>'


def _turned(parts: tuple[Part, ...]) -> list[Part]:
    """The same with the factors of each product in the other order, as its transpose has them."""
    sides = groupby(parts, key=lambda part: isinstance(part, str) and part in "=→↓")
    return [part for _, side in sides for part in _reversed_product([*side])]


def _reversed_product(side: list[Part]) -> list[Part]:
    return side[::-1] if "×" in side else side


def _farthest(parts: tuple[Part, ...]) -> dict[str, float]:
    """Of each colour, the largest distance from zero: its matrices are shaded alike."""
    farthest: dict[str, float] = {}
    for part in parts:
        if not isinstance(part, str):
            group = _role(part[0]).group
            farthest[group] = max(farthest.get(group, 0), np.abs(part[1]).max())
    return farthest


def _role(part: str) -> notation.Role:
    """The first role of an expression, `X` of `paper-eq1: X` and `head[i]` of `concat(...)`."""
    expression = part.rpartition(": ")[2]
    return notation.role(re.search(r"\w+\[i\]|\w+", re.sub(r"^\w+\(", "", expression))[0])


def _matrix(
    part: str,
    values: np.ndarray,
    note: str = "",
    *,
    words: tuple[str, ...],
    turn: bool,
    most: float,
) -> str:
    tied, _, expression = part.rpartition(": ")
    role = _role(part)
    names = [words if size in _TOKENS else () for size in role.shape]
    if expression.endswith(".T") != turn:
        names.reverse()
    if turn:
        values = values.T
    if any(each and len(each) != size for each, size in zip(names, values.shape, strict=True)):
        raise ValueError(
            f"{expression} has shape {values.shape}, but there are {len(words)} words."
        )
    shape = " × ".join(map(str, values.shape))
    note = note and f'<span class="wq-note">{html.escape(note)}</span> '
    letter = formulas.inline(expression, tied)
    meaning = _meaning(expression, role)
    label = f'{note}{letter}{meaning} <span class="wq-shape">{shape}</span>'
    return _table(values, *names, label, _digits(values), role.key, most)


def _meaning(expression: str, role: notation.Role) -> str:
    """What the letter stands for, for a screen reader; empty for a longer expression."""
    if expression.removesuffix(".T") != role.key:
        return ""
    turned = ", transposed" if expression.endswith(".T") else ""
    return f'<span class="wq-unseen">, {role.meaning.partition(":")[0]}{turned},</span>'


def _table(values, rows, columns, label: str, digits: int, role: str, most: float = 0) -> str:
    """A table, with names of its rows and columns where there are any."""
    size = np.where(np.isfinite(values), np.abs(values), 0)
    shares = size / (most or size.max(initial=0) or 1)
    head = "".join(f'<th scope="col"><span>{html.escape(name)}</span></th>' for name in columns)
    corner = "<td></td>" if len(rows) else ""
    head = f"<thead><tr>{corner}{head}</tr></thead>" if head else ""
    body = "".join(
        f"<tr>{name}{''.join(map(partial(_cell, digits=digits), numbers, parts))}</tr>"
        for name, numbers, parts in zip(_row_names(rows, len(values)), values, shares, strict=True)
    )
    group = notation.role(role).group
    return (
        f'<table class="wq-heat" data-role="{role}" style="--role:var(--role-{group})">'
        f"<caption>{label}</caption>{head}<tbody>{body}</tbody></table>"
    )


def _row_names(rows, count: int) -> list[str]:
    return [f'<th scope="row">{html.escape(name)}</th>' for name in rows] or [""] * count


def _cell(value: float, part: float, digits: int) -> str:
    number = _number(value, digits)
    finite = np.isfinite(value)
    negative = ' class="wq-negative"' if finite and number.startswith(_MINUS) else ""
    return f'<td{negative} style="--part:{part:.2f}">{number}</td>'


def _digits(values: np.ndarray) -> int:
    """One digit after the point where that is all there is, or two."""
    return 1 if np.allclose(values, values.round(1)) else 2


def _numbers(values: np.ndarray) -> list[str]:
    return [_number(value, _digits(value)) for value in values]


def _number(value: float, digits: int) -> str:
    rounded = round(float(value), digits) + 0.0  # and no minus zero
    return f"{rounded:.{digits}f}".replace("-", _MINUS).replace("inf", "\u221e")


def _scrolling(table: str) -> str:
    return f'<div class="md-typeset__scrollwrap"><div class="md-typeset__table">{table}</div></div>'
