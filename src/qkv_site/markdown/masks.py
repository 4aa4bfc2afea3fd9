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

import numpy as np
from jaxtyping import Bool

from qkv_site.markdown import tables

_CORNER = 'query <span aria-hidden="true">↓</span><br/>key <span aria-hidden="true">→</span>'


def mask_grid(
    allowed: Bool[np.ndarray, "n_q n_k"],
    *,
    queries: Sequence[str],
    keys: Sequence[str],
    label: str,
) -> str:
    """Draw a mask as an HTML table; print it in a block with `html="on"`.

    Args:
        allowed: True where a query may attend to a key.
        queries: The words that ask, one a row.
        keys: The words that are looked at, one a column.
        label: Which mask this is. It stands above the grid.

    Raises:
        ValueError: If there are not as many words as queries or keys.
    """
    tables.check_names("allowed", allowed.shape, queries=queries, keys=keys)
    cells = _signs(allowed, "may attend", "may not")
    drawn = tables.named(cells, queries, keys, html.escape(label), _CORNER)
    return f'<table class="wq-mask">{drawn}</table>'


def step_grid(
    inside: Bool[np.ndarray, "layers steps"],
    *,
    layers: Sequence[str],
    steps: Sequence[str],
    label: str,
) -> str:
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
    drawn = tables.named(
        _signs(inside, "inside", "not inside"), layers, steps, html.escape(label), ""
    )
    return f'<table class="wq-mask wq-steps-inside">{drawn}</table>'


def _signs(holds: np.ndarray, yes: str, no: str) -> list[str]:
    """The cells of each row: a sign, and what it is read as."""
    said = {
        True: f'<td class="wq-may"><span role="img" aria-label="{yes}">✓</span></td>',
        False: f'<td class="wq-may-not"><span role="img" aria-label="{no}">✕</span></td>',
    }
    return ["".join(said[bool(each)] for each in row) for row in holds]
