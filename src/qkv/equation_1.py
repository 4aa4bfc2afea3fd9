r"""Equation (1): scaled dot-product attention, with no matrix to learn."""

import math
from collections.abc import Mapping

import numpy as np

from qkv._arrays import Bool, Float, as_mask, check_positive, in_tiles, shares_heads, takes_arrays


@takes_arrays()
def softmax(
    scores: Float[np.ndarray, "*rows n_k"],
    *,
    axis: int = -1,
    mask: Bool[np.ndarray, "..."] | None = None,
) -> Float[np.ndarray, "*rows n_k"]:
    r"""Turn scores into weights that sum to one along an axis.

    $$\operatorname{softmax}(s)_j = \frac{e^{s_j}}{\sum_l e^{s_l}}$$

    The largest score is subtracted first. It cancels in the fraction, and no exponential can
    overflow.

    Args:
        scores: Real numbers, at least one axis.
        axis: The axis that sums to one, that of the keys: -1 for `Q @ K.T`, -2 for `K @ Q.T`.
        mask: True where a score may take part, broadcast to the shape of `scores`; where None,
            all may but those of minus infinity. Where nothing may, all weights are zero.

    Returns:
        The weights, in the shape and dtype of `scores`.

    Raises:
        TypeError: If `scores` are not floating-point numbers or `mask` is not boolean.
        ValueError: If `scores` is empty or has no such axis, `mask` does not broadcast to it or
            allows only minus infinity, or a score that may take part is NaN or plus infinity.

    Examples:
        Scores 0 and ln 3 weigh 1 : 3.

        >>> softmax(np.array([0.0, np.log(3.0)])).round(15).tolist()
        [0.25, 0.75]

    Source:
        Vaswani et al., *Attention Is All You Need* (2017), section 3.2.1.
    """
    allowed = ~np.isneginf(scores) if mask is None else as_mask(mask, scores.shape)
    return _softmax_in_place(scores.copy(), allowed, axis)


def _softmax_in_place(S: np.ndarray, allowed: np.ndarray, axis: int = -1) -> np.ndarray:
    """Make weights of scores in their own memory: a tile of them just fits a processor's cache."""
    if not allowed.all():
        np.copyto(S, -np.inf, where=~allowed)
    nothing = ~allowed.any(axis=axis, keepdims=True)  # there 0/1 is the weight, and never 0/0
    largest = np.where(nothing, 0, S.max(axis=axis, keepdims=True))
    if not np.isfinite(largest).all():
        raise ValueError(
            f"The scores must be finite, but hold NaN or infinity; their dtype is {S.dtype}. Where "
            "Q and K are finite their product has overflowed: scale it down or use a wider dtype."
        )
    S -= largest  # it cancels in the fraction, and no exponential overflows
    np.exp(S, out=S)
    # In float16 a sum of many would be wrong, or infinite.
    S /= np.where(nothing, 1, S.sum(axis=axis, keepdims=True, dtype=np.result_type(S, np.float32)))
    return S


def _missing_projection(guess: str, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Name the mix-up where queries and keys differ in width: one of them is a source."""
    if guess or [*shapes] != ["Q", "K"]:
        return guess
    return (
        "Equation (1) takes projected queries and keys: a source X_Q has to pass through W_Q[i] "
        "first, as MultiHead does."
    )


@shares_heads
@takes_arrays(finite=True, hint=_missing_projection)
@in_tiles
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
        K: Keys, $K \in \mathbb{R}^{n_k \times d_k}$. Where heads stand on the axis before, keys
            and values may have fewer of them, each for several heads of queries.
        V: Values, $V \in \mathbb{R}^{n_k \times d_v}$.
        mask: True where a query may attend to a key; broadcast to `(*batch, n_q, n_k)`. A query
            that may attend to nothing gets zeros, never NaN.
        scale: What the scores $QK^\top$ are multiplied by; $1/\sqrt{d_k}$ where None.
        return_weights: Whether to return the softmax's weights too.

    Returns:
        The attended values, `(*batch, n_q, d_v)`; with `return_weights` a pair of them and the
        weights, `(*batch, n_q, n_k)`. Leading axes are broadcast against each other.

    Raises:
        TypeError: If an array does not hold floating-point numbers, or the mask is not boolean.
        ValueError: If shapes do not fit, an array holds NaN or infinity, the largest score that
            enters the softmax, or a query that sees a key, times `scale`, is not finite, or `scale`
            is not a positive number.

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
    scale = 1 / math.sqrt(Q.shape[-1]) if scale is None else scale
    check_positive(scale=scale)
    S = Q * float(scale) @ K.swapaxes(-1, -2)  # (*batch, n_q, n_k)
    A = _softmax_in_place(S, mask)  # (*batch, n_q, n_k)
    heads = A @ V  # (*batch, n_q, d_v)
    return (heads, A) if return_weights else heads
