r"""From the paper's matrices to what a library stores."""

from collections.abc import Mapping

import numpy as np

from qkv.heads import MultiHead
from qkv.layouts._layout import Layout, Stored
from qkv.layouts._registry import find_layout, layouts, quoted

_BIASES = ("b_Q", "b_K", "b_V", "b_O")
_Sizes = Mapping[str, int]


def dump(mh: MultiHead, layout: str, *, prefix: str = "") -> dict[str, np.ndarray]:
    r"""Write a layer's weights as a library stores them.

    The inverse of `load`: `load(dump(mh, layout), layout, h=mh.h,
    h_kv=mh.h_kv) == mh`, bit for bit. Where the library distinguishes cases, the first
    that can hold the layer is written (PyTorch's packed form where the widths agree).

    Args:
        mh: The layer.
        layout: One of `layouts()`.
        prefix: Put before every name.

    Returns:
        Names to new arrays. Names with "/" are paths in nested parameters.

    Raises:
        TypeError: If parts that the layout stores in one array differ in dtype.
        ValueError: If the layout cannot hold the layer as it is: another scale, a rotation,
            grouped heads, widths, biases. Nothing is dropped, and no zeros are invented.

    Examples:
        >>> weights = dump(MultiHead.random(6, 2), "pytorch")
        >>> {name: array.shape for name, array in weights.items()}
        {'in_proj_weight': (18, 6), 'out_proj.weight': (6, 6)}

    Source:
        Each layout's `read_in`: the library's own code.
    """
    stored_as = find_layout(layout)
    try:
        arrangement, sizes = _find_arrangement(stored_as, mh)
    except (TypeError, ValueError) as error:
        others = [other.name for other in layouts().values() if _can_hold(other, mh)]
        hint = f" Layouts that can hold this layer as it is: {quoted(others)}." if others else ""
        raise type(error)(f"{error}{hint}") from None
    return {prefix + stored.name: stored.pack(vars(mh), sizes) for stored in arrangement}


def _find_arrangement(layout: Layout, mh: MultiHead) -> tuple[tuple[Stored, ...], _Sizes]:
    """The arrays in which a layout can hold a layer, and the layer's sizes."""
    _check_scores(layout, mh)
    biased = any(getattr(mh, bias) is not None for bias in _BIASES)
    for form in layout.forms:
        arrangement = tuple(
            stored
            for stored in form.stored
            if biased or not (layout.optional_biases and stored.is_bias)
        )
        try:
            _check_biases(layout, arrangement, mh)
            return arrangement, _sizes(layout, arrangement, mh)
        except ValueError as error:
            misfit = error
    raise misfit


def _check_scores(layout: Layout, mh: MultiHead) -> None:
    if mh.rotary != layout.rotary:
        raise ValueError(
            f"Layout {layout.name!r} belongs to a model that "
            f"{'rotates' if layout.rotary else 'does not rotate'} queries and keys (RoPE), but the "
            f"layer has rotary = {mh.rotary}. To dump the weights all the same: "
            f"dataclasses.replace(mh, rotary={layout.rotary})."
        )
    if mh.scale != layout.scale:
        paper = mh.d_k**-0.5
        factor = (mh.scale or paper) / (layout.scale or paper)
        raise ValueError(
            f"Layout {layout.name!r} has scale = {layout.scale}, but the layer has "
            f"scale = {mh.scale} (None is 1/sqrt(d_k)). The factor can move into the queries: "
            f"multiply W_Q (and b_Q, if there is one) by {factor}, and set scale={layout.scale}."
        )


def _check_biases(layout: Layout, arrangement: tuple[Stored, ...], mh: MultiHead) -> None:
    parts = {part for stored in arrangement for part in stored.parts}
    has_place = [bias for bias in _BIASES if bias in parts]
    for name in _BIASES:
        bias, W = getattr(mh, name), getattr(mh, name.replace("b_", "W_"))
        if bias is None and name in has_place:
            shape = W.shape[2:] if name == "b_O" else W.shape[::2]
            raise ValueError(
                f"Layout {layout.name!r} stores {', '.join(has_place)} ({layout.biases}), but "
                f"{name} is None. A bias of zeros changes nothing: "
                f"dataclasses.replace(mh, {name}=np.zeros({shape}, np.{W.dtype}))."
            )
        if bias is not None and name not in has_place:
            no_effect = (
                " A bias of the keys adds the same number to all scores of a query, so softmax "
                "removes it: dataclasses.replace(mh, b_K=None) is the same layer."
            )
            raise ValueError(
                f"Layout {layout.name!r} has no place for {name}."
                f"{no_effect if name == 'b_K' else ''}"
            )


def _sizes(layout: Layout, arrangement: tuple[Stored, ...], mh: MultiHead) -> _Sizes:
    sizes = {}
    for stored in arrangement:
        for part in stored.parts:
            shape = getattr(mh, part).shape
            for symbol, size in zip(stored.part_axes, shape, strict=True):
                if sizes.setdefault(symbol, size) != size:
                    axes = ", ".join(stored.part_axes)
                    raise ValueError(
                        f"Layout {layout.name!r} stores {part} as ({axes}) with "
                        f"{symbol} = {sizes[symbol]}, but {part} has shape {shape}."
                    )
        dtypes = {str(getattr(mh, part).dtype) for part in stored.parts}
        if len(dtypes) > 1:
            raise TypeError(
                f"Layout {layout.name!r} stores {stored.holds} in one array, but they have dtypes "
                f"{' and '.join(sorted(dtypes))}."
            )
    layout.check_square(sizes)
    return sizes


def _can_hold(layout: Layout, mh: MultiHead) -> bool:
    try:
        _find_arrangement(layout, mh)
    except (TypeError, ValueError):
        return False
    return True
