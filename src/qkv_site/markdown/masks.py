"""Grids with a sign in each cell beside the shade: masks, and which layer has which step.

A block with `html="on"` prints as many grids as it wants; they stand side by side where there is
room for them, and one below the other on a phone:

    from qkv.example import words
    from qkv_site.markdown.masks import mask_grid

    causal = np.tri(5, dtype=bool)
    print(mask_grid(causal, queries=words, keys=words, label="Look-ahead mask"))

The array is drawn in the sense of this site, in which True means that the query may attend to the
key. Draw `~mask` where True, or 1, hides.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from qkv_site.figures import Figure, Letters
from qkv_site.markdown import tables


def mask_grid(
    allowed: Bool[np.ndarray, "n_q n_k"], *, queries: Sequence[str], keys: Sequence[str], label: str
) -> "SignGrid":
    """Draw a mask as a table; print it in a block with `html="on"`.

    Args:
        allowed: True where a query may attend to a key.
        queries: The words that ask, one a row.
        keys: The words that are looked at, one a column.
        label: Which mask this is. It stands above the grid.

    Raises:
        ValueError: If there are not as many words as queries or keys.
    """
    tables.check_names("allowed", allowed.shape, queries=queries, keys=keys)
    return SignGrid(allowed, queries, keys, label, "may attend", "may not", ("query", "key"))


def step_grid(
    inside: Bool[np.ndarray, "layers steps"],
    *,
    layers: Sequence[str],
    steps: Sequence[str],
    label: str,
) -> "SignGrid":
    """Draw which steps are inside which layers; print it in a block with `html="on"`.

    Args:
        inside: True where a layer has a step.
        layers: What the layers are called, one a row.
        steps: The steps in the order in which they run, one a column.
        label: What the grid shows. It stands above it.

    Raises:
        ValueError: If there are not as many names as layers or steps.
    """
    tables.check_names("inside", inside.shape, layers=layers, steps=steps)
    return SignGrid(inside, layers, steps, label, "inside", "not inside")


@dataclass(frozen=True)
class SignGrid(Figure):
    """A sign in each cell.

    Attributes:
        holds: Where it says yes.
        rows: What the rows are called.
        columns: What the columns are called.
        label: What it shows.
        yes: What a sign is read as, where it says yes.
        no: The other one.
        corner: What the names down and across are; of no role if empty.
    """

    holds: np.ndarray
    rows: Sequence[str]
    columns: Sequence[str]
    label: str
    yes: str
    no: str
    corner: Sequence[str] = ()

    def html(self) -> str:
        """A table of signs."""
        cells = ["".join(map(self._cell, row)) for row in self.holds]
        arrows = zip(self.corner, "↓→", strict=False)
        corner = "<br/>".join(f'{of} <span aria-hidden="true">{way}</span>' for of, way in arrows)
        drawn = tables.named(cells, self.rows, self.columns, html.escape(self.label), corner)
        plain = "" if self.corner else " wq-steps-inside"
        return f'<table class="wq-mask{plain}">{drawn}</table>'

    def searched(self) -> str:
        """What they are."""
        return self.label

    def markdown(self, letters: Letters) -> str:
        """The signs, below what they show."""
        cells = [["✓" if each else "✕" for each in row] for row in self.holds]
        corner = " ".join(map(" ".join, zip(self.corner, "↓→", strict=False)))
        return tables.with_names(cells, self.rows, self.columns, self.label, corner).markdown()

    def _cell(self, holds: bool) -> str:
        name, said, sign = ("may", self.yes, "✓") if holds else ("may-not", self.no, "✕")
        return f'<td class="wq-{name}"><span role="img" aria-label="{said}">{sign}</span></td>'
