"""A picture of what a library stores: each weight to scale, cut where a head's matrix ends.

The sizes are those of the paper's base model. An array whose heads have an axis of their own is
drawn as slices that stand apart; where heads share an axis, it is one rectangle with lines.
"""

import html
import re
from dataclasses import dataclass

import numpy as np

from qkv import notation
from qkv.layouts import Layout, Stored
from qkv_site.figures import Figure
from qkv_site.markdown import matrices
from qkv_site.markdown.mathml import mark, to_mathml
from qkv_site.parts.layer import BASE_MODEL

_AS_WIDE = ("d_out", "d_source", "d_source_k", "d_source_v")  # as the model
SIZES = BASE_MODEL | dict.fromkeys(_AS_WIDE, BASE_MODEL["d_model"])
# Heads of keys and values, as in the code that the page shows.
_GROUPED = {"gpt-bigcode": 1} | dict.fromkeys(("falcon", "llama", "megatron", "phi3"), 2)
MARKED = 1  # the head whose matrices are filled, counted from 0

_UNIT = 32  # numbers that a unit of the drawing stands for


def sizes_of(layout: Layout) -> dict[str, int]:
    """The sizes for which a layout's arrays are drawn and listed."""
    return SIZES | {"h_kv": _GROUPED.get(layout.name, SIZES["h_kv"])}


def axis_of_heads(stored: Stored) -> int:
    """The stored axis that is cut into heads."""
    return next(n for n, axis in enumerate(stored.axes) if re.search(r"\bh", " ".join(axis)))


def cut(stored: Stored, sizes: dict[str, int]) -> list[tuple[str, int]]:
    """What an array is cut into along the axis of its heads: of each piece the part and its head.

    Where a piece is, is read off an array that holds each number's place on that axis.
    """
    places = np.indices(stored.shape_for(sizes))[axis_of_heads(stored)]
    begins = {
        (part, head): matrix.min()
        for part, heads in stored.unpack(places, sizes).items()
        for head, matrix in enumerate(heads)
    }
    return sorted(begins, key=begins.get)


@dataclass(frozen=True)
class View:
    """A stored array as it is drawn.

    Attributes:
        name: The library's name for it.
        holds: The weights of one head that it holds, as MathML.
        shape: Its shape.
        rows: How long its vertical side is, in numbers.
        columns: How long its horizontal side is.
        pieces: What is written into each piece, and whether the piece is filled.
        stacked: Whether the pieces stand one below the other, and not side by side.
        apart: Whether they are slices, because the heads have an axis of their own.
    """

    name: str
    holds: str
    shape: tuple[int, ...]
    rows: int
    columns: int
    pieces: list[tuple[str, bool]]
    stacked: bool
    apart: bool

    @classmethod
    def of(cls, stored: Stored, sizes: dict[str, int]) -> "View":
        """See an array for these sizes; slices lie on each other where they are flat."""
        shape, axis, pieces = stored.shape_for(sizes), axis_of_heads(stored), cut(stored, sizes)
        rows, columns = (shape[n] for n in range(len(shape)) if len(shape) == 2 or n != axis)
        apart = len(shape) == 3
        stacked = rows < columns if apart else axis == 0
        if apart:
            rows, columns = (
                (rows * len(pieces), columns) if stacked else (rows, columns * len(pieces))
            )
        named = [_piece(stored, *piece, sizes) for piece in pieces]
        holds = to_mathml(
            r",\,".join(notation.typeset(f"{part}[i]", mark=mark) for part in stored.parts)
        )
        return cls(stored.name, holds, shape, rows, columns, named, stacked, apart)

    def html(self) -> str:
        """The drawing."""
        many = len(self.pieces)
        pieces = tuple(
            matrices.Block(named, shade=1 if filled else None) for named, filled in self.pieces
        )
        whole = (matrices.Block(),)
        down, across = (pieces, whole) if self.stacked else (whole, pieces)

        def side(name: str, length: int, blocks: tuple[matrices.Block, ...]) -> matrices.Side:
            cut = self.apart and len(blocks) > 1
            label = f"{many} × {length // many}" if cut else str(length)
            return matrices.Side(length // _UNIT, f'<span class="wq-{name}">{label}</span>', blocks)

        return matrices.matrix(
            side("rows", self.rows, down),
            side("columns", self.columns, across),
            f"<code>{html.escape(self.name)}</code><br>{self.holds}",
            classes="role-weight" + " wq-slices" * self.apart,
        )

    def words(self) -> str:
        """What is drawn, to be read aloud."""
        size = " by ".join(map(str, self.shape))
        where = "one below the other" if self.stacked else "side by side"
        filled = ", ".join(
            f"piece {number}" for number, (_, filled) in enumerate(self.pieces, 1) if filled
        )
        return f"{self.name}, {size}, in {len(self.pieces)} pieces {where}; filled: {filled}"


def figure(layout: Layout, **own: int) -> "Weights":
    """The weights that a library stores in the first of its forms.

    Args:
        layout: What the library stores.
        own: Sizes that are other ones than on the library's page.
    """
    return Weights(layout, sizes_of(layout) | own)


@dataclass(frozen=True)
class Weights(Figure):
    """The weights that a library stores in the first of its forms, drawn for some sizes."""

    layout: Layout
    sizes: dict[str, int]

    def html(self) -> str:
        """The drawing."""
        views = self._views()
        units = max(view.columns for view in views) // _UNIT
        drawn = "".join(view.html() for view in views)
        return (
            f'<figure class="wq-diagram wq-stored" style="--units:{units};'
            f'--ems:4"><div role="img" aria-label="{html.escape(self.words())}">'
            f'<div class="wq-drawn" aria-hidden="true">{drawn}</div></div>'
            f"<figcaption>{self._caption()}</figcaption></figure>"
        )

    def words(self) -> str:
        """What is drawn, to be read aloud."""
        return f"Stored: {'. '.join(view.words() for view in self._views())}."

    def _views(self) -> list[View]:
        return [View.of(stored, self.sizes) for stored in self.layout.forms[0].without_biases]

    def _caption(self) -> str:
        forms = self.layout.forms
        weights = forms[0].without_biases
        said = ["Drawn to scale. The number of a piece is its head, counted from 1."]
        if len({form.without_biases for form in forms}) > 1:
            said.append(f"The case drawn is: {html.escape(forms[0].when)}.")
        if any(len(stored.parts) > 1 for stored in weights):
            said.append(
                "Q, K and V: whose weight a piece is, the queries', the keys' or the values'."
            )
        if any(len(stored.axes) == 3 for stored in weights):
            said.append("Slices stand apart, because the heads have an axis of their own.")
        return " ".join(said)


def _piece(stored: Stored, part: str, head: int, sizes: dict[str, int]) -> tuple[str, bool]:
    """What is written into a piece, and whether it is filled: its heads, counted from 1."""
    served = sizes["h"] // sizes["h_kv"] if "h_kv" in stored.part_axes(part) else 1
    first = head * served + 1
    heads = str(first) if served == 1 else f"{first}–{first + served - 1}"
    named = f"{part[-1]} {heads}" if len(stored.parts) > 1 else heads
    return named, head == MARKED // served
