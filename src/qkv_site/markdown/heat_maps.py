"""Matrices with their numbers, in tables: the further from zero, the darker, in a role's colour.

A negative number has its sign, and its cell is striped, so that no reader needs to see colours. An
equation stands as it does in formulas: where tokens are columns, its matrices are the transposes,
and the factors of a product change places.

A block with `html="on"` prints one:

    from qkv import example
    from qkv_site.markdown.heat_maps import equation

    parts = ("X", example.X), "×", ("W_Q[i]", example.layer.W_Q[0]), "=", ("Q[i]", example.Q[0])
    print(equation(*parts, words=example.words, label="Queries of head 1."))
"""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np
from jaxtyping import Bool, Float

from qkv import notation
from qkv_site.markdown import formulas, tables

_MINUS = "\u2212"
Part = tuple[str, np.ndarray] | tuple[str, np.ndarray, str] | str


def heat_map(
    values: Float[np.ndarray, "n_q n_k"],
    *,
    rows: list[str],
    columns: list[str],
    label: str,
    digits: int = 2,
    role: str = "A[i]",
    wrong: Bool[np.ndarray, "n_q n_k"] | None = None,
) -> str:
    """Draw one matrix as an HTML table; print it in a block with `html="on"`.

    Args:
        values: Its numbers. A score of minus infinity is one that a mask excludes.
        rows: What each row is called: the token that asks.
        columns: What each column is called: the token that is looked at.
        label: What the numbers are, and what a row and a column is.
        digits: How many digits stand after the point.
        role: Whose colour it has.
        wrong: Which numbers are marked with a cross, as they do not belong there.

    Raises:
        ValueError: If there are not as many names as rows or columns.
    """
    tables.check_names("values", values.shape, rows=rows, columns=columns)
    if wrong is not None:
        tables.check_names("wrong", wrong.shape, rows=rows, columns=columns)
    most = np.abs(values, where=np.isfinite(values), out=np.zeros(values.shape)).max(initial=0)
    cells, drawn = _cells(values, digits, most, wrong), notation.role(role)
    return _table(cells, rows, columns, html.escape(label), drawn, _corner(*_tokens(drawn.shape)))


def equation(*parts: Part, words: Sequence[str], label: str, tied: str = "") -> str:
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
    matrices = [part if isinstance(part, str) else _Matrix(*part) for part in parts]
    drawn = formulas.in_notations(partial(_in_orientation, matrices, words), tied)
    striped = any(np.any(each.values < 0) for each in matrices if isinstance(each, _Matrix))
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
    factors = (map(_factor, side) for side in (left, right))
    products = " + ".join(map(" · ".join, zip(*factors, strict=True)))
    return f"{products} = {_number(left @ right, 2)}"


def _factor(value: float) -> str:
    number = _number(value, _digits(value))
    return f"({number})" if number.startswith(_MINUS) else number


@dataclass(frozen=True)
class _Matrix:
    """A part of an equation: an expression, and its numbers as they are with tokens in rows."""

    part: str
    values: np.ndarray
    note: str = ""

    @property
    def expression(self) -> str:
        return self.part.rpartition(": ")[2]

    @property
    def tied(self) -> str:
        """The source whose letter it has; the reader chooses if empty."""
        return self.part.rpartition(": ")[0]

    @property
    def role(self) -> notation.Role:
        """The first role: `X` of `paper-eq1: X`, and `head[i]` of `concat(head[i] for ...)`."""
        inside = re.sub(r"^\w+\(", "", self.expression)
        return notation.role(re.search(r"\w+\[i\]|\w+", inside)[0])

    def draw(self, words: Sequence[str], most: float, columns: bool) -> str:
        """A table, or that of the transpose where tokens are columns."""
        values = self.values.T if columns else self.values
        turned = self.expression.endswith(".T") != columns
        axes = _tokens(self.role.shape[:: -1 if turned else 1])
        names = [words if axis else () for axis in axes]
        if any(each and len(each) != n for each, n in zip(names, values.shape, strict=True)):
            raise ValueError(
                f"{self.part} has shape {self.values.shape}, but there are {len(words)} words."
            )
        cells = _cells(values, _digits(values), most)
        letter = notation.typeset(self.expression, self.tied or "site")
        return _table(cells, *names, self._label(values.shape), self.role, _corner(*axes), letter)

    def _label(self, shape: tuple[int, ...]) -> str:
        note = self.note and f'<span class="wq-note">{html.escape(self.note)}</span> '
        letter = formulas.inline(self.expression, self.tied)
        size = f'<span class="wq-shape">{" × ".join(map(str, shape))}</span>'
        return f"{note}{letter}{self._meaning()} {size}"

    def _meaning(self) -> str:
        """What the letter stands for, for a screen reader; a longer expression says it itself."""
        if self.expression.removesuffix(".T") != self.role.key:
            return ""
        words = self.role.meaning.partition(":")[0]
        turned = ", transposed" if self.expression.endswith(".T") else ""
        return f'<span class="wq-unseen">, {words}{turned},</span>'


def _tokens(shape: tuple[str, ...]) -> list[str]:
    """What the tokens along each axis are, where there are any."""
    return [formulas.TOKENS.get(size, "") for size in shape]


def _corner(down: str, across: str) -> str:
    """What stands where the names of rows and columns meet, if both are those of tokens."""
    return f"{down} ↓<br/>{across} →" if down and across else ""


def _in_orientation(parts: list[_Matrix | str], words: Sequence[str], source: str) -> str:
    columns = notation.source(source).tokens == "columns"
    farthest = _farthest(parts)
    pieces, sign = "", ""
    for part in _turned(parts) if columns else parts:
        if isinstance(part, _Matrix):
            table = part.draw(words, farthest[part.role.group], columns)
            pieces += f'<div class="wq-part">{sign}{table}</div>'
            sign = ""
        elif part == "↓":
            pieces += '<div class="wq-sign wq-down">↓</div>'
        else:
            sign = f'<span class="wq-sign">{html.escape(part)}</span>'
    return f'<div class="wq-drawn">{pieces}</div>'


def _farthest(parts: list[_Matrix | str]) -> dict[str, float]:
    """Of each colour, the largest distance from zero: its matrices are shaded alike."""
    farthest: dict[str, float] = {}
    for part in parts:
        if isinstance(part, _Matrix):
            group = part.role.group
            farthest[group] = max(farthest.get(group, 0), np.abs(part.values).max())
    return farthest


def _turned(parts: list[_Matrix | str]) -> list[_Matrix | str]:
    """The same with the factors of each product in the other order, as its transpose has them."""
    sides = groupby(parts, key=lambda part: isinstance(part, str) and part in "=→↓")
    return [part for _, side in sides for part in _reversed_product([*side])]


def _reversed_product(side: list[_Matrix | str]) -> list[_Matrix | str]:
    return side[::-1] if "×" in side else side


def _table(
    cells: list[str],
    rows: Sequence[str],
    columns: Sequence[str],
    label: str,
    role: notation.Role,
    corner: str = "",
    letter: str = "",
) -> str:
    """A table that scrolls where it has to; its rows and columns have names if there are any.

    Its letter as LaTeX is for notebooks.
    """
    said = f' data-letter="{html.escape(letter)}"' if letter else ""
    return (
        '<div class="md-typeset__scrollwrap"><div class="md-typeset__table">'
        f'<table class="wq-heat" data-role="{role.key}" style="--role:var(--role-{role.group})"'
        f"{said}>{tables.named(cells, rows, columns, label, corner)}</table></div></div>"
    )


def _cells(
    values: np.ndarray, digits: int, most: float, wrong: np.ndarray | None = None
) -> list[str]:
    """The cells of each row; `most` is the distance from zero that is darkest."""
    crossed = np.zeros(values.shape, dtype=bool) if wrong is None else wrong
    return [
        "".join(_cell(*each, digits, most) for each in zip(row, crosses, strict=True))
        for row, crosses in zip(values, crossed, strict=True)
    ]


def _cell(value: float, wrong: bool, digits: int, most: float) -> str:
    number, finite = _number(value, digits), np.isfinite(value)
    part = abs(value) / most if finite and most else 0
    negative = ' class="wq-negative"' if finite and number.startswith(_MINUS) else ""
    cross = ' <span class="wq-cross" role="img" aria-label="wrong">✕</span>' if wrong else ""
    return f'<td{negative} style="--part:{part:.2f}">{number}{cross}</td>'


def _digits(values: np.ndarray) -> int:
    """One digit after the point where that is all there is, or two."""
    return 1 if np.allclose(values, np.round(values, 1)) else 2


def _number(value: float, digits: int) -> str:
    rounded = round(float(value), digits) + 0.0  # and no minus zero
    return f"{rounded:.{digits}f}".replace("-", _MINUS).replace("inf", "\u221e")
