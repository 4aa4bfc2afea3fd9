"""Masks as grids: who may attend to whom, with a sign in each cell beside the shade.

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

_MAY, _MAY_NOT = (
    f'<td class="wq-{name}"><span role="img" aria-label="{words}">{sign}</span></td>'
    for name, words, sign in (("may", "may attend", "✓"), ("may-not", "may not", "✕"))
)
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
    cells = ["".join(_MAY if may else _MAY_NOT for may in row) for row in allowed]
    drawn = tables.named(cells, queries, keys, html.escape(label), _CORNER)
    return f'<table class="wq-mask">{drawn}</table>'
