r"""Equation (1): scaled dot-product attention, with no weights in sight."""

import math
from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float

from qkv._checks import agree, as_floats, as_mask, check_finite

# Rows of the softmax are independent, so the scores are never all in memory at once: 4 MiB of
# them in float32, which a processor's cache can hold from their product to their use.
_SCORES_AT_ONCE = 2**20


def softmax(
    scores: Float[np.ndarray, "*shape"],
    *,
    axis: int = -1,
    mask: Bool[np.ndarray, "..."] | None = None,
) -> Float[np.ndarray, "*shape"]:
    r"""Turn scores into weights that sum to one along an axis.

    $$\operatorname{softmax}(s)_j = \frac{e^{s_j}}{\sum_l e^{s_l}}$$

    The largest score is subtracted first. It cancels in the fraction, and no exponential can
    overflow.

    Args:
        scores: Real numbers, at least one axis.
        axis: The axis that sums to one: the last (keys) where tokens are rows, the one before it
            where tokens are columns.
        mask: True where a score may take part; broadcast to the shape of `scores`. Where nothing
            may, all weights are zero.

    Returns:
        The weights, in the shape and dtype of `scores`.

    Raises:
        TypeError: If `scores` are not floating-point numbers or `mask` is not boolean.
        ValueError: If `scores` has no axis or is empty or holds NaN or infinity where it may take
            part (a score of minus infinity counts as masked), or `mask` does not broadcast to it.

    Examples:
        Scores 0 and ln 3 weigh 1 : 3.

        >>> softmax(np.array([0.0, np.log(3.0)])).tolist()
        [0.25, 0.75]

        Each row is a distribution of its own.

        >>> softmax(np.zeros((2, 5))).sum(axis=-1).tolist()
        [1.0, 1.0]

    Source:
        Vaswani et al., *Attention Is All You Need* (2017), section 3.2.1.
    """
    weights = as_floats("scores", scores, "(..., n_k)").copy()
    allowed = ~np.isneginf(weights)
    if mask is not None:
        allowed &= _broadcast_mask(mask, weights.shape)
    return _softmax_in_place(weights, allowed, axis)


def attention(
    Q: Float[np.ndarray, "*#batch n_q d_k"],
    K: Float[np.ndarray, "*#batch n_k d_k"],
    V: Float[np.ndarray, "*#batch n_k d_v"],
    *,
    mask: Bool[np.ndarray, "..."] | None = None,
    scale: float | None = None,
    return_weights: bool = False,
) -> (
    Float[np.ndarray, "*batch n_q d_v"]
    | tuple[Float[np.ndarray, "*batch n_q d_v"], Float[np.ndarray, "*batch n_q n_k"]]
):
    r"""Scaled dot-product attention: equation (1) of the paper.

    $$\operatorname{Attention}(Q, K, V) =
      \operatorname{softmax}\left(\frac{QK^\top}{\sqrt{d_k}}\right)V$$

    Here $Q$, $K$ and $V$ are what enters equation (1). In multi-head attention that is one
    head's *projected* queries, keys and values, not the source the layer receives.

    Args:
        Q: Queries, $Q \in \mathbb{R}^{n_q \times d_k}$, one row a token.
        K: Keys, $K \in \mathbb{R}^{n_k \times d_k}$.
        V: Values, $V \in \mathbb{R}^{n_k \times d_v}$.
        mask: True where a query may attend to a key; broadcast to (*batch, n_q, n_k). A query
            that may attend to nothing gets zeros, never NaN.
        scale: What the scores $QK^\top$ are multiplied by; $1/\sqrt{d_k}$ where None.
        return_weights: Whether to return the softmax's weights too.

    Returns:
        The attended values (*batch, n_q, d_v); with `return_weights` a pair of them and the
        weights (*batch, n_q, n_k). Leading axes are broadcast against each other.

    Raises:
        TypeError: If an array does not hold floating-point numbers, or the mask is not boolean.
        ValueError: If shapes do not fit; the message quotes them. If an array holds NaN or
            infinity, or the scores overflow.

    Examples:
        3 queries of width 2 attend to 5 keys; each value is 7 wide.

        >>> attention(np.ones((3, 2)), np.ones((5, 2)), np.ones((5, 7))).shape
        (3, 7)

        Equal scores weigh all keys alike: the answer is the mean of the values.

        >>> attention(np.zeros((1, 2)), np.ones((2, 2)), np.array([[1.0], [3.0]])).tolist()
        [[2.0]]

    Source:
        Vaswani et al., *Attention Is All You Need* (2017), section 3.2.1, equation (1).
    """
    Q = as_floats("Q", Q, "(..., n_q, d_k)")
    K = as_floats("K", K, "(..., n_k, d_k)")
    V = as_floats("V", V, "(..., n_k, d_v)")
    agree("d_k", ("Q", Q, -1), ("K", K, -1), _why_d_k_differs(Q, K))
    agree("n_k", ("K", K, -2), ("V", V, -2))
    for name, array in {"Q": Q, "K": K, "V": V}.items():
        check_finite(name, array)
    Q, K, V = _broadcast_batch(Q, K, V)
    batch, (n_q, d_k), (n_k, d_v) = Q.shape[:-2], Q.shape[-2:], V.shape[-2:]
    if mask is not None:
        mask = _broadcast_mask(mask, (*batch, n_q, n_k))
    scale = 1 / math.sqrt(d_k) if scale is None else float(scale)

    dtype = np.result_type(Q, K, V)
    heads = np.empty((*batch, n_q, d_v), dtype)
    weights = np.empty((*batch, n_q, n_k), dtype) if return_weights else None
    for b, rows in _blocks(batch, n_q, n_k):
        S = (Q[*b, ..., rows, :] * scale) @ K[*b].swapaxes(-1, -2)
        A = _softmax_in_place(S, mask if mask is None else mask[*b, ..., rows, :])
        heads[*b, ..., rows, :] = A @ V[*b]
        if weights is not None:
            weights[*b, ..., rows, :] = A
    return heads if weights is None else (heads, weights)


def _softmax_in_place(S: np.ndarray, mask: np.ndarray | None, axis: int = -1) -> np.ndarray:
    nothing_allowed = np.False_
    if mask is not None:
        np.copyto(S, -np.inf, where=~mask)
        nothing_allowed = ~mask.any(axis=axis, keepdims=True)
    largest = S.max(axis=axis, keepdims=True)
    if not (np.isfinite(largest) | nothing_allowed).all():
        raise ValueError(
            f"The scores must be finite, but hold NaN or infinity; their dtype is {S.dtype}. Where "
            "Q and K are finite their product has overflowed: scale it down or use a wider dtype."
        )
    S -= np.where(nothing_allowed, 0, largest)
    np.exp(S, out=S)
    S /= np.where(nothing_allowed, 1, S.sum(axis=axis, keepdims=True))
    return S


def _blocks(batch: tuple[int, ...], n_q: int, n_k: int) -> Iterator[tuple[tuple[int, ...], slice]]:
    """Indices of leading batch axes, and rows of queries, whose scores are few enough."""
    leading, together = 0, math.prod(batch)
    while leading < len(batch) and together * n_q * n_k > _SCORES_AT_ONCE:
        together //= batch[leading]
        leading += 1
    queries = max(1, _SCORES_AT_ONCE // (together * n_k))
    for b in np.ndindex(batch[:leading]):
        for start in range(0, n_q, queries):
            yield b, slice(start, start + queries)


def _why_d_k_differs(Q: np.ndarray, K: np.ndarray) -> str:
    if K.shape[-2] == Q.shape[-1]:
        return "K looks transposed: rows are tokens here, so K is (n_k, d_k)."
    return (
        "Equation (1) takes projected queries and keys: a source X_Q has to pass through W_Q[i] "
        "first, as MultiHead does."
    )


def _broadcast_batch(*arrays: np.ndarray) -> list[np.ndarray]:
    try:
        batch = np.broadcast_shapes(*(array.shape[:-2] for array in arrays))
    except ValueError:
        Q, K, V = (array.shape for array in arrays)
        raise ValueError(
            "The batch axes of Q, K and V (all but the last two) must broadcast against each "
            f"other, but their shapes are {Q}, {K} and {V}."
        ) from None
    return [np.broadcast_to(array, batch + array.shape[-2:]) for array in arrays]


def _broadcast_mask(mask: object, shape: tuple[int, ...]) -> np.ndarray:
    mask = as_mask(mask)
    try:
        return np.broadcast_to(mask, shape)
    except ValueError:
        raise ValueError(
            f"mask must broadcast to the scores' shape {shape}, but has shape {mask.shape}."
        ) from None
