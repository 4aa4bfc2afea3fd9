r"""Linear maps of attention: two in a row are one, and one is two in many ways."""

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral

import numpy as np

from qkv._arrays import Float, refuse_steps, takes_arrays
from qkv.multi_head import MultiHead


def _linear_transposes(guess: str, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Say where a transposed matrix may come from, or what a gain is as a matrix."""
    for name, shape in shapes.items():
        if (guess and shape[1:] == (1,)) or (len(shapes) == 1 and len(shape) == 1):
            return f"If it is a gain, one factor for each number, pass {name}=np.diag(gain)."
    return guess and f"{guess} nn.Linear stores the transpose."


@takes_arrays(hint=_linear_transposes)
def merge(
    first: Float[np.ndarray, "*#head d_in d_mid"],
    second: Float[np.ndarray, "*#head d_mid d_out"],
    *,
    b_first: Float[np.ndarray, "*#head d_mid"] | None = None,
    b_second: Float[np.ndarray, "*#head d_out"] | None = None,
) -> tuple[Float[np.ndarray, "... d_in d_out"], Float[np.ndarray, "... d_out"] | None]:
    r"""Turn two linear (or affine) maps in a row into one.

    $$(X F + b_F)\,S + b_S = X\,(FS) + (b_F S + b_S)$$

    This is why $W^Q$ followed by $W_i^Q$, as two lectures read together suggest, is one matrix:
    `merge(P_Q, mh.W_Q)` gives all heads' merged maps at once. It is exact up to rounding, and
    only where nothing (a norm, dropout in training, a nonlinearity) stands between the two.

    Args:
        first: Applied first, as `X @ first`; $F \in \mathbb{R}^{d_{in} \times d_{mid}}$.
        second: Applied to the result; $S \in \mathbb{R}^{d_{mid} \times d_{out}}$. Either may
            have a leading head axis.
        b_first: Added after `first`.
        b_second: Added after `second`.

    Returns:
        `(W, b)` with `X @ W + b[..., None, :]` equal to the two steps; `b` is None where both
            biases are.

    Raises:
        TypeError: If an array does not hold floating-point numbers.
        ValueError: If shapes do not fit.

    Examples:
        Doubling, then adding 1 and tripling, is one map: multiply by 6 and add 3.

        >>> W, b = merge(np.array([[2.0]]), np.array([[3.0]]), b_first=np.array([1.0]))
        >>> W.item(), b.item()
        (6.0, 3.0)

        One pre-map before 8 heads: d_model 512, d_k 64.

        >>> W, b = merge(np.ones((512, 512)), np.ones((8, 512, 64)))
        >>> W.shape, b
        ((8, 512, 64), None)

    Source:
        The reading of Ng, *Sequence Models* (2021), week 4, that this removes: the video
        "Self-Attention" at 5:27 and the video "Multi-Head Attention" at 0:36 to 1:41.
    """
    W = first @ second
    if b_first is None and b_second is None:
        return W, None
    # As a matrix of one row: with heads, `b_first @ second` would take each bias to each head.
    b = 0 if b_first is None else (b_first[..., None, :] @ second)[..., 0, :]
    return W, b + (0 if b_second is None else b_second)


@takes_arrays(fitting="mh", hint=_linear_transposes)
def fold(
    mh: MultiHead,
    *,
    P_Q: Float[np.ndarray, "d_in d_model"] | None = None,
    P_K: Float[np.ndarray, "d_in_k d_source_k"] | None = None,
    P_V: Float[np.ndarray, "d_in_v d_source_v"] | None = None,
    c_Q: Float[np.ndarray, " d_model"] | None = None,
    c_K: Float[np.ndarray, " d_source_k"] | None = None,
    c_V: Float[np.ndarray, " d_source_v"] | None = None,
) -> MultiHead:
    r"""Fold a projection of the sources into the layer's weights.

    $$X_Q P_Q W_i^Q = X_Q\,(P_Q W_i^Q)$$

    `fold(mh, P_Q=P_Q, P_K=P_K, P_V=P_V)(X)` equals `mh(X @ P_Q, X @ P_K, X @ P_V)` up to rounding.
    As with `merge`, nothing may stand between the two. A norm's gain is `P_Q=np.diag(g)`, its shift
    `c_Q=b`: the site's page how-to/fold-a-norm.

    Args:
        mh: The layer of the second projection.
        P_Q: Applied to the source of the queries first,
            $P_Q \in \mathbb{R}^{d_{in} \times d_{model}}$; the identity where None.
        P_K: The same for the keys, (d_in_k, d_source_k).
        P_V: The same for the values, (d_in_v, d_source_v).
        c_Q: Added after `P_Q`, (d_model,).
        c_K: Added after `P_K`, (d_source_k,).
        c_V: Added after `P_V`, (d_source_v,).

    Returns:
        The layer that takes the sources as they are.

    Raises:
        TypeError: If an array does not hold floating-point numbers.
        ValueError: If a projection, or what is added, does not fit the weight after it.

    Examples:
        >>> mh, P = MultiHead.random(6, 2), np.full((6, 6), 0.5)
        >>> X = np.eye(5, 6)
        >>> np.allclose(fold(mh, P_Q=P, P_K=P, P_V=P)(X), mh(X @ P))
        True

    Source:
        The double projection of the TransformerLayer of YOLOv5 (models/common.py), whose
        linear maps feed a torch.nn.MultiheadAttention with its own.
    """
    folded = {}
    for x, P, c in ("Q", P_Q, c_Q), ("K", P_K, c_K), ("V", P_V, c_V):
        W, b = getattr(mh, f"W_{x}"), getattr(mh, f"b_{x}")
        if P is None and c is not None:  # X + c is X I + c
            P = np.eye(W.shape[-2], dtype=W.dtype)
        if P is not None:
            folded[f"W_{x}"], folded[f"b_{x}"] = merge(P, W, b_first=c, b_second=b)
    return replace(mh, **folded)


def w_qk(mh: MultiHead, *, constant: bool = False) -> Float[np.ndarray, "h d_query d_key"]:
    r"""The bilinear form of each head's scores: two weights that act as one.

    $$W_i^{QK} = W_i^Q {W_i^K}^\top \qquad Q_i K_i^\top = X_Q W_i^{QK} X_K^\top$$

    The scores are not scaled yet, and a matrix is at most of rank d_k. With biases they are
    bilinear in sources with a constant 1: $Q_i K_i^\top = [X_Q\ 1]\,W_i^{QK}\,[X_K\ 1]^\top$.

    Args:
        mh: The layer. With grouped heads each query head gets the form with its own group's key.
        constant: Whether the sources are extended by a constant 1, as a layer with `b_Q` or `b_K`
            needs.

    Returns:
        One matrix per query head, (h, d_model, d_model) where both sources are that wide; with
        `constant` each side is one wider.

    Raises:
        ValueError: If the layer has a bias of queries or keys and `constant` is False, or if a
            step of `between` changes queries or keys.

    Examples:
        >>> mh, X = MultiHead.random(6, 2), np.eye(5, 6)
        >>> Q, K, V = mh.project(X)
        >>> np.allclose(X @ w_qk(mh) @ X.T, Q @ K.swapaxes(-1, -2))
        True

    Source:
        Elhage et al., *A Mathematical Framework for Transformer Circuits* (2021): with columns,
        $W_Q^\top W_K$.
    """
    refuse_steps(mh, "QK", "W_Q and W_K", "so its scores are those of no single matrix.")
    W_Q, W_K = _linear(mh, "Q", constant), _linear(mh, "K", constant)
    return W_Q @ _per_query_head(mh, W_K).swapaxes(-1, -2)


def w_vo(mh: MultiHead, *, constant: bool = False) -> Float[np.ndarray, "h d_value d_out"]:
    r"""What each head adds to the output: two more weights that act as one.

    $$W_i^{VO} = W_i^V W_i^O \qquad
      \operatorname{MultiHead}(X_Q, X_K, X_V) = \sum_{i=1}^{h} A_i X_V W_i^{VO} + b^O$$

    Here $A_i \in \mathbb{R}^{n_q \times n_k}$ are the head's attention weights. A matrix is at most
    of rank d_v, and `b_O` stays outside.

    Args:
        mh: The layer. With grouped heads each query head gets its own group's value.
        constant: Whether the source is extended by a constant 1, as a layer with `b_V` needs.

    Returns:
        One matrix per query head, (h, d_model, d_model) where source and output are that wide;
        with `constant` (h, d_model + 1, d_model).

    Raises:
        ValueError: If the layer has a bias of values and `constant` is False, or if a step of
            `between` changes values.

    Examples:
        >>> mh, X = MultiHead.random(6, 2), np.eye(5, 6)
        >>> Q, K, V = mh.project(X)
        >>> np.allclose(X @ w_vo(mh), V @ mh.W_O)
        True

    Source:
        Elhage et al., *A Mathematical Framework for Transformer Circuits* (2021): with columns,
        $W_O W_V$.
    """
    refuse_steps(mh, "V", "W_V and W_O", "so what a head adds is the product of no single matrix.")
    return _per_query_head(mh, _linear(mh, "V", constant)) @ mh.W_O


@takes_arrays(finite=True)
def factor(
    W: Float[np.ndarray, "*heads d_in d_out"], rank: int
) -> tuple[Float[np.ndarray, "*heads d_in rank"], Float[np.ndarray, "*heads rank d_out"]]:
    r"""Split one map into two, the reverse of `merge`.

    $$W = U \Sigma V^\top \approx FS \qquad F = U_r \Sigma_r^{1/2} \qquad
      S = \Sigma_r^{1/2} V_r^\top$$

    The r = `rank` largest singular values are kept. No map of at most that rank is nearer to $W$ in
    the Frobenius norm than $FS$.

    Args:
        W: The map, $W \in \mathbb{R}^{d_{in} \times d_{out}}$; it may have leading head axes.
        rank: The width between the two, at most the smaller of $d_{in}$ and $d_{out}$.

    Returns:
        `(first, second)`, to be applied as `X @ first @ second`. For one head's $W_i^{QK}$ they
        are a $W_i^Q$ and the transpose of a $W_i^K$.

    Raises:
        TypeError: If `W` does not hold float32 or float64.
        ValueError: If `W` is no matrix or not finite, or `rank` is not a whole number from 1 to the
            smaller width.

    Examples:
        >>> first, second = factor(np.diag([9.0, 4.0, 0.0]), rank=2)
        >>> first.shape, second.shape
        ((3, 2), (2, 3))
        >>> np.allclose(first @ second, np.diag([9.0, 4.0, 0.0]))
        True

    Source:
        Eckart and Young, *The approximation of one matrix by another of lower rank* (1936).
    """
    if isinstance(rank, bool) or not (
        isinstance(rank, Integral) and 1 <= rank <= min(W.shape[-2:])
    ):
        raise ValueError(
            f"rank must be a whole number from 1 to {min(W.shape[-2:])}, because W has shape "
            f"{W.shape}, but is {rank!r}."
        )
    U, sigma, V_T = np.linalg.svd(W, full_matrices=False)
    root = np.sqrt(sigma[..., :rank])  # half of each singular value for either map
    return U[..., :rank] * root[..., None, :], root[..., :, None] * V_T[..., :rank, :]


@takes_arrays(fitting="mh")
def gauge(
    mh: MultiHead,
    A: Float[np.ndarray, "h_kv d_k d_k"] | Float[np.ndarray, "d_k d_k"] | None = None,
    B: Float[np.ndarray, "h_kv d_v d_v"] | Float[np.ndarray, "d_v d_v"] | None = None,
) -> MultiHead:
    r"""Change a layer's weights and not what it computes.

    $$(W_i^Q A_i)\,(W_i^K A_i^{-\top})^\top = W_i^Q {W_i^K}^\top \qquad
      (W_i^V B_i)\,(B_i^{-1} W_i^O) = W_i^V W_i^O$$

    So where nothing stands between the maps, a single number of a query, key or value means
    nothing on its own.

    Args:
        mh: The layer.
        A: Invertible matrices for queries and keys, (h_kv, d_k, d_k), or one (d_k, d_k) for all.
            Heads that share a key share its matrix.
        B: The same for values and outputs, (h_kv, d_v, d_v) or (d_v, d_v).

    Returns:
        A layer with the same outputs, up to rounding.

    Raises:
        TypeError: If a matrix does not hold float32 or float64.
        ValueError: If a matrix has another shape or is not invertible within rounding, or a step of
            `between` changes queries or keys (for `A`) or values (for `B`).

    Examples:
        >>> mh, X = MultiHead.random(6, 2), np.eye(5, 6)
        >>> other = gauge(mh, A=np.diag([2.0, 3.0, 5.0]))
        >>> np.allclose(other.W_Q, mh.W_Q), np.allclose(other(X), mh(X))
        (False, True)
    """
    if A is not None:
        refuse_steps(mh, "QK", "W_Q and W_K", "and A cancels only if it commutes with that.")
        A, A_inverse = _invert("A", A, mh.h_kv)
        W_Q, b_Q = merge(mh.W_Q, _per_query_head(mh, A), b_first=mh.b_Q)
        W_K, b_K = merge(mh.W_K, A_inverse.swapaxes(-1, -2), b_first=mh.b_K)
        mh = replace(mh, W_Q=W_Q, W_K=W_K, b_Q=b_Q, b_K=b_K)
    if B is not None:
        refuse_steps(mh, "V", "W_V and W_O", "and B cancels only if it commutes with that.")
        B, B_inverse = _invert("B", B, mh.h_kv)
        W_V, b_V = merge(mh.W_V, B, b_first=mh.b_V)
        mh = replace(mh, W_V=W_V, b_V=b_V, W_O=_per_query_head(mh, B_inverse) @ mh.W_O)
    return mh


def _per_query_head(mh: MultiHead, per_kv_head: np.ndarray) -> np.ndarray:
    return np.repeat(per_kv_head, mh.h // mh.h_kv, axis=0)


def _linear(mh: MultiHead, of: str, constant: bool) -> np.ndarray:
    """The map of X, or that of [X 1], a source with a constant coordinate, which has the bias."""
    W, b = getattr(mh, f"W_{of}"), getattr(mh, f"b_{of}")
    if constant:
        return np.concatenate([W, (np.zeros_like(W[:, 0]) if b is None else b)[:, None]], axis=1)
    if b is not None:
        raise ValueError(
            f"This layer adds b_{of} after W_{of}, which no matrix of the source alone can do. "
            "Pass constant=True for a matrix of the source with a constant 1 appended."
        )
    return W


def _invert(name: str, M: np.ndarray, h_kv: int) -> tuple[np.ndarray, np.ndarray]:
    # np.linalg.inv raises for an exact zero only, and inverts what is singular up to rounding.
    if (np.linalg.matrix_rank(M) < M.shape[-1]).any():
        raise ValueError(f"{name} must be invertible, but does not have full rank in every head.")
    per_head = np.broadcast_to(M, (h_kv, *M.shape[-2:]))
    return per_head, np.linalg.inv(per_head)
