"""Matrices with their numbers, in tables: the further from zero, the stronger, in a role's colour.

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
from itertools import groupby

import numpy as np
from jaxtyping import Bool, Float

from qkv import notation
from qkv_site.figures import Figure, Letters, Table
from qkv_site.markdown import tables
from qkv_site.page import PAGE
from qkv_site.parts import formulas

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
) -> "HeatMap":
    """Draw one matrix as a table; print it in a block with `html="on"`.

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
    drawn = notation.role(role)
    corner = _tokens(drawn.shape)
    return HeatMap(_Numbers(values, rows, columns, digits, most, drawn, corner, wrong), label)


def equation(*parts: Part, words: Sequence[str], label: str, tied: str = "") -> "Equation":
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
    matrices = tuple(part if isinstance(part, str) else _Matrix(*part) for part in parts)
    for matrix in matrices:
        if isinstance(matrix, _Matrix):
            matrix.numbers(words, 1, columns=False)  # refuses names that do not fit
    return Equation(matrices, tuple(words), label, tied)


@dataclass(frozen=True)
class HeatMap(Figure):
    """One matrix with its numbers, and what they are."""

    numbers: "_Numbers"
    label: str

    def html(self) -> str:
        """A table whose cells are shaded."""
        return self.numbers.html(html.escape(self.label))

    def searched(self) -> str:
        """What they are."""
        return self.label

    def markdown(self, letters: Letters) -> str:
        """The numbers, below what they are."""
        return self.numbers.table(self.label).markdown()


@dataclass(frozen=True)
class Equation(Figure):
    """Matrices with their numbers, and signs between them."""

    parts: tuple["_Matrix | str", ...]
    tokens: tuple[str, ...]
    label: str
    tied: str = ""

    def html(self) -> str:
        """The tables in the letters and the orientation of every source, and what they show."""
        drawn = formulas.in_notations(self._in_orientation, self.tied, "picture")
        if self.tied:
            PAGE.get().pictures.append(self.tied)
        striped = any(np.any(each.values < 0) for each in self._matrices(self.parts))
        how = "A stronger colour is further from zero"
        how += ", and striped is negative." if striped else "."
        return (
            f'<figure class="wq-equation">{drawn}'
            f"<figcaption>{html.escape(self.label)} {how}</figcaption></figure>"
        )

    def words(self) -> str:
        """What the figure shows."""
        return self.label

    def markdown(self, letters: Letters) -> str:
        """The numbers of each matrix, below its letter."""
        columns = notation.source(self.tied or "site").tokens == "columns"
        parts = _turned(self.parts) if columns else self.parts
        return "\n".join(
            each.table(self.tokens, letters, columns).markdown() for each in self._matrices(parts)
        )

    @staticmethod
    def _matrices(parts: Sequence["_Matrix | str"]) -> list["_Matrix"]:
        return [part for part in parts if isinstance(part, _Matrix)]

    def _in_orientation(self, name: str) -> str:
        source = notation.source(name)
        farthest = _farthest(self._matrices(self.parts))
        pieces, sign = "", ""
        for part in _as_in(source, self.parts):
            if isinstance(part, _Matrix):
                columns = source.transposes(part.role)
                table = part.html(self.tokens, farthest[part.role.group], columns)
                pieces += f'<div class="wq-part">{sign}{table}</div>'
                sign = ""
            elif part == "↓":
                pieces += '<div class="wq-sign wq-down">↓</div>'
            else:
                sign = f'<span class="wq-sign">{html.escape(part)}</span>'
        return f'<div class="wq-drawn">{pieces}</div>'


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

    @property
    def T(self) -> "_Matrix":
        """Its transpose."""
        bare = self.part.removesuffix(".T")
        return _Matrix(f"{bare}.T" if bare == self.part else bare, self.values.T, self.note)

    def numbers(self, words: Sequence[str], most: float, columns: bool) -> "_Numbers":
        """Its numbers with their names, or those of the transpose where tokens are columns."""
        values = self.values.T if columns else self.values
        turned = self.expression.endswith(".T") != columns
        axes = _tokens(self.role.shape[:: -1 if turned else 1])
        names = [words if axis else () for axis in axes]
        if any(each and len(each) != n for each, n in zip(names, values.shape, strict=True)):
            raise ValueError(
                f"{self.part} has shape {self.values.shape}, but there are {len(words)} words."
            )
        return _Numbers(values, *names, _digits(values), most, self.role, axes)

    def html(self, words: Sequence[str], most: float, columns: bool) -> str:
        """A table below its letter and its shape."""
        numbers = self.numbers(words, most, columns)
        return numbers.html(self._label(numbers.values.shape))

    def table(self, words: Sequence[str], letters: Letters, columns: bool) -> Table:
        """The same as text."""
        numbers = self.numbers(words, 1, columns)
        letter = letters(notation.typeset(self.expression, self.tied or "site"))
        size = _size(numbers.values.shape)
        return numbers.table(" ".join(filter(None, (self.note, letter, size))))

    def _label(self, shape: tuple[int, ...]) -> str:
        note = self.note and f'<span class="wq-note">{html.escape(self.note)}</span> '
        letter = formulas.inline(self.expression, self.tied)
        size = f'<span class="wq-shape">{_size(shape)}</span>'
        return f"{note}{letter}{self._meaning()} {size}"

    def _meaning(self) -> str:
        """What the letter stands for, for a screen reader; a longer expression says it itself."""
        if self.expression.removesuffix(".T") != self.role.key:
            return ""
        words = self.role.meaning.partition(":")[0]
        turned = ", transposed" if self.expression.endswith(".T") else ""
        return f'<span class="wq-unseen">, {words}{turned},</span>'


def _size(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))


def _tokens(shape: tuple[str, ...]) -> list[str]:
    """What the tokens along each axis are, where there are any."""
    return [formulas.TOKENS.get(size, "") for size in shape]


def _farthest(matrices: Sequence[_Matrix]) -> dict[str, float]:
    """Of each colour, the largest distance from zero: its matrices are shaded alike."""
    farthest: dict[str, float] = {}
    for each in matrices:
        group = each.role.group
        farthest[group] = max(farthest.get(group, 0), np.abs(each.values).max())
    return farthest


def _as_in(source: notation.Source, parts: Sequence[_Matrix | str]) -> list[_Matrix | str]:
    """The same as a source writes it: a product that it does not turn has transposed factors."""
    if all(isinstance(part, str) or source.transposes(part.role) for part in parts):
        return _turned(parts)
    return [
        part.T if isinstance(part, _Matrix) and source.transposes(part.role) else part
        for part in parts
    ]


def _turned(parts: Sequence[_Matrix | str]) -> list[_Matrix | str]:
    """The same with the factors of each product in the other order, as its transpose has them."""
    sides = groupby(parts, key=lambda part: isinstance(part, str) and part in "=→↓")
    return [part for _, side in sides for part in _reversed_product([*side])]


def _reversed_product(side: list[_Matrix | str]) -> list[_Matrix | str]:
    return side[::-1] if "×" in side else side


@dataclass(frozen=True)
class _Numbers:
    """Numbers in rows and columns.

    Attributes:
        values: The numbers.
        rows: What the rows are called, if they have names.
        columns: What the columns are called, if they have names.
        digits: How many digits stand after the point.
        most: The distance from zero that is darkest.
        role: Whose colour they have.
        corner: What the tokens down and across are, where there are any.
        wrong: Which numbers are marked with a cross.
    """

    values: np.ndarray
    rows: Sequence[str]
    columns: Sequence[str]
    digits: int
    most: float
    role: notation.Role
    corner: Sequence[str]
    wrong: np.ndarray | None = None

    def html(self, caption: str) -> str:
        """A table that scrolls where it has to."""
        rows = ["".join(map(self._shaded, *each)) for each in self._rows()]
        corner = "<br/>".join(self._corner())
        drawn = tables.named(rows, self.rows, self.columns, caption, corner)
        return tables.scrolling(
            f'<table class="wq-heat" data-role="{self.role.key}" '
            f'style="--role:var(--role-{self.role.group})">{drawn}</table>'
        )

    def table(self, caption: str) -> Table:
        """The same as text."""
        rows = [[*map(self._as_words, *each)] for each in self._rows()]
        return tables.with_names(rows, self.rows, self.columns, caption, " ".join(self._corner()))

    def _rows(self) -> zip:
        """The numbers of each row, and which of them are wrong."""
        crossed = np.zeros(self.values.shape, dtype=bool) if self.wrong is None else self.wrong
        return zip(self.values, crossed, strict=True)

    def _corner(self) -> list[str]:
        """What stands where the names of rows and columns meet, if both are those of tokens."""
        down, across = self.corner
        return [f"{down} ↓", f"{across} →"] if down and across else []

    def _as_words(self, value: float, wrong: bool) -> str:
        return _number(value, self.digits) + " ✕" * bool(wrong)

    def _shaded(self, value: float, wrong: bool) -> str:
        number, finite = _number(value, self.digits), np.isfinite(value)
        part = abs(value) / self.most if finite and self.most else 0
        negative = ' class="wq-negative"' if finite and number.startswith(_MINUS) else ""
        cross = ' <span class="wq-cross" role="img" aria-label="wrong">✕</span>' if wrong else ""
        return f'<td{negative} style="--part:{part:.2f}">{number}{cross}</td>'


def _digits(values: np.ndarray) -> int:
    """One digit after the point where that is all there is, or two."""
    return 1 if np.allclose(values, np.round(values, 1)) else 2


def _number(value: float, digits: int) -> str:
    rounded = round(float(value), digits) + 0.0  # and no minus zero
    return f"{rounded:.{digits}f}".replace("-", _MINUS).replace("inf", "\u221e")
