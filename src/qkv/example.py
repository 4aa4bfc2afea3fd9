r"""The worked example: five words through one layer of two heads, whose numbers many pages show.

No two of its sizes are equal, so a shape says which size each axis is. There are n = 5 words and h
= 2 heads; d_model = 7, d_k = 3 and d_v = 4.

Its numbers are random: that one word looks at another means nothing.

The arrays are read-only. Plain NumPy draws the same ones, in the same order:

    rng = np.random.default_rng(21)
    X = rng.normal(size=(5, 7)).round(1)
    W_Q = rng.normal(scale=0.4, size=(2, 7, 3)).round(1)
    W_K = rng.normal(scale=0.4, size=(2, 7, 3)).round(1)
    W_V = rng.normal(scale=0.4, size=(2, 7, 4)).round(1)
    W_O = rng.normal(scale=0.4, size=(2, 4, 7)).round(1)

Examples:
    The first number of the first word's query, in the first head.

    >>> Q.shape, round(float(Q[0, 0, 0]), 2)
    ((2, 5, 3), -0.81)
"""

import numpy as np

from qkv.equation_1 import softmax
from qkv.multi_head import MultiHead

__all__ = ["A", "K", "Q", "S", "V", "X", "Y", "heads", "layer", "words"]

words = ("Jane", "visite", "l'Afrique", "en", "septembre")
"""The five words: the example sentence of Ng's course."""

_rng = np.random.default_rng(21)


def _draw(*shape: int, scale: float = 1) -> np.ndarray:
    return _rng.normal(scale=scale, size=shape).round(1) + 0.0  # and no minus zero


X = _draw(5, 7)
"""The source, a row for each word: (5, 7)."""

layer = MultiHead(
    W_Q=_draw(2, 7, 3, scale=0.4),
    W_K=_draw(2, 7, 3, scale=0.4),
    W_V=_draw(2, 7, 4, scale=0.4),
    W_O=_draw(2, 4, 7, scale=0.4),
)
"""The layer: `layer.W_Q[0]` is the first head's weight for queries, (7, 3)."""

Q = X @ layer.W_Q
"""Projected queries of each head: (2, 5, 3)."""

K = X @ layer.W_K
"""Projected keys of each head: (2, 5, 3)."""

V = X @ layer.W_V
"""Projected values of each head: (2, 5, 4)."""

S = Q @ K.swapaxes(-1, -2)
"""Scores of each head, before the division by the root of d_k: (2, 5, 5)."""

A = softmax(S / np.sqrt(3))
"""Weights of each head; each row sums to one: (2, 5, 5)."""

heads = A @ V
"""What each head returns: (2, 5, 4)."""

Y = (heads @ layer.W_O).sum(axis=0)
"""The output, which `layer(X)` gives too: (5, 7)."""

for _array in (X, Q, K, V, S, A, heads, Y):
    _array.setflags(write=False)
