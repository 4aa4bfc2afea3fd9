"""Equation (1) where the scores are many: a tile of them at a time, never all in memory at once.

Rows of the softmax are independent, so a tile is some queries with all their keys. Within it
arrays are overwritten, and the queries are scaled in place of the scores, which are more.
"""

import math
from collections.abc import Iterator

import numpy as np

from qkv._arrays import as_mask, check_scores

# In float32 2 MiB, which a processor's cache can hold from their product to their use.
SCORES_AT_ONCE = 2**19


def has_many_scores(Q: np.ndarray, K: np.ndarray) -> bool:
    """Whether the scores do not fit into one tile; leading axes are broadcast already."""
    return math.prod(Q.shape[:-1]) * K.shape[-2] > SCORES_AT_ONCE


def attention_in_tiles(
    Q: np.ndarray,
    K: np.ndarray,
    V: np.ndarray,
    mask: object,
    scale: float,
    return_weights: bool,
) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    """What `attention` computes, of arrays whose leading axes are broadcast already."""
    scores = Q.shape[:-1] + K.shape[-2:-1]
    mask = None if mask is None else as_mask(mask, scores)
    heads = np.empty(Q.shape[:-1] + V.shape[-1:], np.result_type(Q, K, V))
    weights = np.empty(scores, np.result_type(Q, K)) if return_weights else None
    for tile, rows in _tiles(scores):
        S = (Q[rows] * scale) @ K[tile].swapaxes(-1, -2)
        A = _softmax_in_place(S, None if mask is None else mask[rows])
        heads[rows] = A @ V[tile]
        if weights is not None:
            weights[rows] = A
    return heads if weights is None else (heads, weights)


def _tiles(scores: tuple[int, ...]) -> Iterator[tuple[tuple, tuple]]:
    """Indices of leading axes, and the same with a range of queries, whose scores are few."""
    *batch, n_q, n_k = scores
    leading = 0
    while leading < len(batch) and math.prod(scores[leading:]) > SCORES_AT_ONCE:
        leading += 1
    queries = max(1, SCORES_AT_ONCE // (math.prod(batch[leading:]) * n_k))
    for tile in np.ndindex(*batch[:leading]):
        for start in range(0, n_q, queries):
            yield tile, (*tile, ..., slice(start, start + queries), slice(None))


def _softmax_in_place(S: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    nothing = np.False_
    if mask is not None:
        np.copyto(S, -np.inf, where=~mask)
        nothing = ~mask.any(axis=-1, keepdims=True)
    largest = np.where(nothing, 0, S.max(axis=-1, keepdims=True))
    check_scores(largest)
    S -= largest
    np.exp(S, out=S)
    total = S @ np.ones((S.shape[-1], 1), S.dtype)  # a product adds up faster than a sum
    S /= np.where(nothing, 1, total)
    return S
