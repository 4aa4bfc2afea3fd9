r"""A boolean mask, written as each library takes it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qkv._arrays import Bool, Float, as_mask, check_sizes


@dataclass(frozen=True)
class MaskForm:
    r"""How an argument of a library takes a mask.

    Args:
        argument: The argument, and of what.
        axes: Its axes.
        true_means: What True says of a key, "attend" or "hide"; empty where that depends on how the
            library computes.
        adds: Whether it may be a mask of floats, which is added to the scores.
        read_in: Where this was read.
    """

    argument: str
    axes: str
    true_means: str
    adds: bool
    read_in: str


_TORCH = "torch 2.13.0, torch/nn/"
MASK_FORMS: Mapping[str, MaskForm] = {
    "attn_mask": MaskForm(
        "attn_mask of torch.nn.MultiheadAttention",
        "(n_q, n_k) or (batch·h, n_q, n_k)",
        "hide",
        True,
        _TORCH + "modules/activation.py, line 1089",
    ),
    "key_padding_mask": MaskForm(
        "key_padding_mask of torch.nn.MultiheadAttention",
        "(batch, n_k)",
        "hide",
        True,
        _TORCH + "modules/activation.py, line 1089",
    ),
    "sdpa": MaskForm(
        "attn_mask of torch.nn.functional.scaled_dot_product_attention",
        "(batch, 1 or h, n_q or 1, n_k)",
        "attend",
        True,
        _TORCH + "functional.py, line 6341",
    ),
    "keras": MaskForm(
        "attention_mask of keras.layers.MultiHeadAttention",
        "(batch, n_q or 1, n_k)",
        "attend",
        False,
        "keras 3.15.1, keras/src/layers/attention/multi_head_attention.py, line 20",
    ),
    "flax": MaskForm(
        "mask of linen.MultiHeadDotProductAttention and nnx.MultiHeadAttention",
        "(batch, 1 or h, n_q or 1, n_k)",
        "attend",
        False,
        "flax 0.12.8, flax/linen/attention.py, line 298",
    ),
    "haiku": MaskForm(
        "mask of haiku.MultiHeadAttention",
        "(batch, 1 or h, n_q or 1, n_k)",
        "attend",
        False,
        "dm-haiku 0.0.17, haiku/_src/attention.py, line 37",
    ),
    "transformers": MaskForm(
        "attention_mask of a layer, not of a model, in Transformers",
        "(batch, 1 or h, n_q or 1, n_k)",
        "",
        True,
        "transformers 5.23.0, models/bert/modeling_bert.py, line 139",
    ),
}
"""What `convert_mask` knows: a name for each argument, to its form."""


def convert_mask(
    mask: Bool[np.ndarray, "..."],
    form: str,
    *,
    h: int | None = None,
    n_q: int | None = None,
    dtype: np.typing.DTypeLike | None = None,
) -> Bool[np.ndarray, "..."] | Float[np.ndarray, "..."]:
    r"""Write a mask as an argument of a library takes it.

    Args:
        mask: True where a query may attend: (n_q, n_k), with a row for each query, or with all axes
            of the scores, (batch, h, n_q, n_k), where any but n_k may be 1. nn.MultiheadAttention
            repeats no batch of 1, neither of "key_padding_mask" nor of an "attn_mask" with heads.
        form: One of `MASK_FORMS`.
        h: The number of heads, for "attn_mask" of a batch, which needs a mask for each head.
        n_q: The number of queries, for "attn_mask" of a mask that has 1 for them, as
            `qkv.masks.padding` gives.
        dtype: For a mask of floats, which a library adds to the scores: 0 where a query may attend,
            and elsewhere the least number of this dtype. Where a query may attend to nothing, minus
            infinity would give NaN in a plain softmax. If a library adds it in float16, a score of
            -16 or less overflows to minus infinity. For bfloat16, which NumPy has not, take
            float16: the least number of float32 is minus infinity there.

    Returns:
        The argument, as an array of its own; `MASK_FORMS[form].axes` says its axes.

    Raises:
        TypeError: If the mask is not boolean.
        ValueError: If there is no such form, it cannot hold the mask, or `dtype`, or an `h` or
            `n_q` that the form needs, is missing or does not fit.

    Examples:
        Two sentences, of 3 and of 1 words, and the heads of a layer of PyTorch.

        >>> from qkv.masks import causal, padding
        >>> mask = padding(np.array([3, 1]), 3) & causal(3)
        >>> convert_mask(mask, "attn_mask", h=8).shape
        (16, 3, 3)
        >>> convert_mask(causal(2), "transformers", dtype=np.float16).tolist()
        [[[[0.0, -65504.0], [0.0, 0.0]]]]

    Source:
        Each form's `read_in`: the library's own code.
    """
    if form not in MASK_FORMS:
        forms = ", ".join(f"{name!r} ({each.argument})" for name, each in MASK_FORMS.items())
        raise ValueError(f"form must be one of {forms}, but is {form!r}.")
    array = as_mask(mask, np.shape(mask))
    if array.ndim not in (2, 4) or not array.size:
        raise ValueError(
            "mask must have shape (n_q, n_k) or (batch, h, n_q, n_k), where any but n_k may be 1, "
            f"but has shape {array.shape}. For one mask a sample, shared by its heads, pass "
            "mask[:, None]."
        )
    if array.ndim == 2:  # it has all queries, so one row is one query
        n_q, array = array.shape[0] if n_q is None else n_q, array[None, None]
    match form:
        case "attn_mask":
            shaped = _one_for_each_head(_with_each_query(array, n_q), h)
        case "key_padding_mask":
            shaped = _one_for_all_queries(array)
        case "keras":
            shaped = _one_for_all_heads(array)
        case _:
            shaped = array
    true_means, adds = MASK_FORMS[form].true_means, MASK_FORMS[form].adds
    if dtype is None and true_means:
        return shaped.copy() if true_means == "attend" else ~shaped
    if dtype is None or not adds or not _is_float(dtype):
        raise ValueError(
            f"Form {form!r} "
            + ("adds a mask of floats: pass dtype, such as np.float32" if adds else "is boolean")
            + f", but dtype is {dtype}."
            + " NumPy has no bfloat16: take float16." * (adds and "bfloat16" in str(dtype))
        )
    # Not minus infinity: the softmax of a row of it is NaN.
    return np.where(shaped, 0, np.finfo(dtype).min).astype(dtype)


def _with_each_query(mask: np.ndarray, n_q: int | None) -> np.ndarray:
    """A mask with its queries in full, which nn.MultiheadAttention needs."""
    queries, keys = mask.shape[-2:]
    if n_q is None and queries == 1 < keys:
        raise ValueError(
            f"mask has shape {mask.shape}, with 1 for the queries, and nn.MultiheadAttention "
            "repeats no axis: pass n_q, the number of queries. For padding alone there is the form "
            "'key_padding_mask'."
        )
    n_q = queries if n_q is None else n_q
    check_sizes(n_q=n_q)
    if queries not in (1, n_q):
        raise ValueError(f"mask must have an axis of n_q = {n_q} or 1, but has {mask.shape}.")
    return np.broadcast_to(mask, (*mask.shape[:2], n_q, keys))


def _is_float(dtype: object) -> bool:
    try:
        return np.dtype(dtype).kind == "f"
    except TypeError:  # torch.float16, or a name that NumPy has not
        return False


def _one_for_each_head(mask: np.ndarray, h: int | None) -> np.ndarray:
    """One mask for all, or the masks of a batch's heads one after the other."""
    batch, heads, n_q, n_k = mask.shape
    if batch == heads == 1:
        return mask[0, 0]
    if h is None:
        raise ValueError(
            f"mask has shape {mask.shape}: nn.MultiheadAttention takes one mask for each sequence "
            "and head. Pass h, the number of heads."
        )
    check_sizes(h=h)
    if heads not in (1, h):
        raise ValueError(f"mask must have an axis of h = {h} heads or 1, but has {mask.shape}.")
    return np.broadcast_to(mask, (batch, h, n_q, n_k)).reshape(batch * h, n_q, n_k)


def _one_for_all_queries(mask: np.ndarray) -> np.ndarray:
    """What is hidden from each query in each head."""
    if (mask != mask[:, :1, :1]).any():
        raise ValueError(
            "key_padding_mask hides a key from all queries and heads, and this mask, of shape "
            f"{mask.shape}, does not: pass it as attn_mask, or pass its padding here alone."
        )
    return mask[:, 0, 0]


def _one_for_all_heads(mask: np.ndarray) -> np.ndarray:
    if mask.shape[1] > 1:
        raise ValueError(
            "Keras takes one mask for all heads, but mask has shape "
            f"{mask.shape}, with {mask.shape[1]} heads."
        )
    return mask[:, 0]
