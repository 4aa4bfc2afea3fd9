r"""One boolean mask: True means that this query may attend to this key.

`padding` and `causal` each make one, and `&` joins two. `qkv.layouts.convert_mask` writes it as a
library takes it.
"""

import numpy as np

from qkv._arrays import Bool, Int, check_one_of, check_sizes


def padding(lengths: Int[np.ndarray, " batch"], n_k: int) -> Bool[np.ndarray, "batch 1 1 n_k"]:
    r"""Hide what stands after the end of each sequence of a batch.

    Where padding stands first, make the mask of the tokens: `(tokens != pad)[:, None, None, :]`.

    Args:
        lengths: How many tokens each sequence has, the first ones.
        n_k: How many keys there are, padding and all.

    Returns:
        The mask: (batch, 1, 1, n_k), with an axis for heads and one for queries.

    Raises:
        ValueError: If `n_k` is no positive whole number, or lengths are no whole numbers from 0 to
            it, one for each sequence.

    Examples:
        >>> padding(np.array([3, 1]), 3)[:, 0, 0].astype(int).tolist()
        [[1, 1, 1], [1, 0, 0]]
    """
    check_sizes(n_k=n_k)
    lengths = np.asarray(lengths)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu":
        raise ValueError(
            "lengths must be whole numbers, one for each sequence, but has shape "
            f"{lengths.shape} and dtype {lengths.dtype}. For an array of (batch, n_k) that is True "
            "for a token, the mask is array[:, None, None, :]."
        )
    if (wrong := lengths[(lengths < 0) | (lengths > n_k)]).size:
        raise ValueError(f"lengths must be from 0 to n_k = {n_k}, but one is {wrong[0]}.")
    return (np.arange(n_k) < lengths[:, None])[:, None, None, :]


def causal(
    n_q: int, n_k: int | None = None, *, aligned: str | None = None
) -> Bool[np.ndarray, "n_q n_k"]:
    r"""Hide later tokens: a look-ahead mask.

    Args:
        n_q: How many queries.
        n_k: How many keys; `n_q` where None.
        aligned: "start": query $i$ sees keys $0$ to $i$, as with `is_causal=True` of
            `torch.nn.functional.scaled_dot_product_attention`.
            "end": the last query sees all keys, as with a cache of earlier keys.

    Returns:
        The mask, (n_q, n_k).

    Raises:
        ValueError: If a size is no positive whole number, or `n_q` and `n_k` differ and `aligned`
            is not said, or it is another word.

    Examples:
        >>> causal(2, 3, aligned="start").astype(int).tolist()
        [[1, 0, 0], [1, 1, 0]]
        >>> causal(2, 3, aligned="end").astype(int).tolist()
        [[1, 1, 0], [1, 1, 1]]

    Source:
        Vaswani et al., *Attention Is All You Need* (2017), section 3.2.3.
    """
    n_k = n_q if n_k is None else n_k
    check_sizes(n_q=n_q, n_k=n_k)
    if aligned is None and n_q != n_k:
        raise ValueError(
            f"n_q = {n_q} and n_k = {n_k} differ: pass aligned='start' if the first query stands "
            "at the first key, aligned='end' if the last query stands at the last key."
        )
    if aligned is not None:
        check_one_of("aligned", aligned, ("start", "end"))
    # Of the diagonals the one through the first query and key, or through the last.
    return np.tri(n_q, n_k, k=n_k - n_q if aligned == "end" else 0, dtype=bool)
