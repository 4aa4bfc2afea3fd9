"""What may come in. Every refusal quotes the name, what came and what was expected."""

from numbers import Integral

import numpy as np


def as_floats(name: str, value: object, shape: str) -> np.ndarray:
    """``value`` as a floating-point array with the axes that ``shape`` names.

    ``shape`` is written as in the documentation: "(..., n_q, d_k)" where leading batch axes may
    stand, "(h, d_model, d_k)" where none may.
    """
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} must be an array of shape {shape}: {error}") from error
    if array.dtype.kind in "iu":
        raise TypeError(
            f"{name} must hold floating-point numbers, but its dtype is {array.dtype}. "
            "Token ids have to be embedded first; turn whole-numbered vectors into floats with "
            ".astype(float)."
        )
    if array.dtype.kind != "f":
        raise TypeError(
            f"{name} must hold floating-point numbers (float16, float32 or float64), "
            f"but its dtype is {array.dtype}."
        )
    axes = shape.strip("(,)").split(", ")
    batched = axes[0] == "..."
    named = len(axes) - batched
    if array.ndim < named or (array.ndim > named and not batched):
        raise ValueError(f"{name} must have shape {shape}, but has shape {array.shape}.")
    if 0 in array.shape:
        raise ValueError(
            f"{name} must have shape {shape} with every size at least 1, "
            f"but has shape {array.shape}: an empty sequence or width."
        )
    return array


def as_mask(mask: object) -> np.ndarray:
    """``mask`` as a boolean array: True where a query may attend to a key."""
    array = np.asarray(mask)
    if array.dtype.kind in "iu":
        raise TypeError(
            f"mask must be boolean, True where a query may attend, but its dtype is {array.dtype}. "
            "If 1 means may attend, pass mask.astype(bool); if 1 means padding, pass mask == 0."
        )
    if array.dtype.kind == "f":
        raise TypeError(
            f"mask must be boolean, True where a query may attend, but its dtype is {array.dtype}. "
            "For an additive mask (0 where allowed, large and negative elsewhere) pass mask == 0."
        )
    if array.dtype.kind != "b":
        raise TypeError(f"mask must be boolean, but its dtype is {array.dtype}.")
    return array


def check_finite(name: str, array: np.ndarray) -> None:
    """Raise, naming the first place, if an array holds NaN or infinity."""
    finite = np.isfinite(array)
    if not finite.all():
        where = tuple(np.argwhere(~finite)[0].tolist())
        raise ValueError(
            f"{name} must be finite, but {name}{list(where)} is {array[where]} "
            f"({name} has shape {array.shape})."
        )


def agree(
    axis: str,
    first: tuple[str, np.ndarray, int],
    second: tuple[str, np.ndarray, int],
    hint: str = "",
) -> None:
    """Raise unless two arrays have the same size in an axis; each comes as (name, array, axis)."""
    (a_name, a, a_axis), (b_name, b, b_axis) = first, second
    if a.shape[a_axis] != b.shape[b_axis]:
        raise ValueError(
            f"{a_name} and {b_name} must agree in {axis}, but {a_name} has {a.shape[a_axis]} "
            f"(shape {a.shape}) and {b_name} has {b.shape[b_axis]} (shape {b.shape})."
            + (f" {hint}" if hint else "")
        )


def check_sizes(**sizes: object) -> None:
    """Raise unless every size is a positive whole number."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not (isinstance(size, Integral) and size >= 1):
            raise ValueError(f"{name} must be a positive whole number, but is {size!r}.")


def head_width(d_model: int, h: int) -> int:
    """The paper's d_k = d_model / h."""
    if d_model % h:
        raise ValueError(
            f"d_model = {d_model} is not divisible by h = {h}, so "
            "d_k = d_model / h is no whole number. Pass d_k, the width of one head."
        )
    return d_model // h


def check_groups(h: int, h_kv: int) -> None:
    """Raise unless every head of keys and values serves as many heads of queries."""
    if h % h_kv:
        raise ValueError(f"h_kv must divide h, but h_kv = {h_kv} and h = {h}.")
