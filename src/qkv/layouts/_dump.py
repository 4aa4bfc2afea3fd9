r"""From the paper's matrices to what a library stores."""

from collections.abc import Mapping

import numpy as np

from qkv._arrays import check_one_of, quote
from qkv.between import Rotation, Unknown
from qkv.layouts._layout import BIASES, Layout, Stored
from qkv.layouts._registry import find_layout, layouts, succeeds
from qkv.multi_head import MultiHead

_Sizes = Mapping[str, int]


def dump(
    mh: MultiHead, layout: str, *, form: str | None = None, prefix: str = ""
) -> dict[str, np.ndarray]:
    r"""Write a layer's weights as a library stores them.

    The inverse of `load`: `load(dump(mh, layout), layout, h=mh.h, h_kv=mh.h_kv)` has the same
    arrays, bit for bit in the machine's byte order. A rotation is not stored.

    Args:
        mh: The layer.
        layout: One of `layouts()`.
        form: Where the library distinguishes cases, the one to write, as
            `layouts()[layout].forms` calls it: GPT-2's "cross-attention". The first that can hold
            the layer where None.
        prefix: Put before every name.

    Returns:
        Names to new arrays. Names with "/" are paths in nested parameters.

    Raises:
        TypeError: If parts that the layout stores in one array differ in dtype.
        ValueError: If there is no such layout or form, or it cannot hold the layer as it is.

    Examples:
        >>> weights = dump(MultiHead.random(6, 2), "pytorch")
        >>> {name: array.shape for name, array in weights.items()}
        {'in_proj_weight': (18, 6), 'out_proj.weight': (6, 6)}

    Source:
        Each layout's `read_in`: the library's own code.
    """
    stored_as = find_layout(layout)
    if form is not None:
        check_one_of("form", form, [each.when for each in stored_as.forms])
    try:
        arrangement, sizes = _find_arrangement(stored_as, mh, form)
    except (TypeError, ValueError) as error:
        every = layouts().values()
        fitting = quote([each.name for each in every if succeeds(_find_arrangement, each, mh)])
        hint = f" Layouts that can hold this layer as it is: {fitting}." if fitting else ""
        raise type(error)(f"{error}{hint}") from None
    return {prefix + stored.name: stored.pack(vars(mh), sizes) for stored in arrangement}


def _find_arrangement(
    layout: Layout, mh: MultiHead, form: str | None = None
) -> tuple[tuple[Stored, ...], _Sizes]:
    """The arrays in which a layout can hold a layer, and the layer's sizes."""
    _check_scores(layout, mh)
    _check_heads(layout, mh)
    biased = any(getattr(mh, bias) is not None for bias in BIASES)
    for each in layout.forms:
        if form not in (None, each.when):
            continue
        arrangement = each.without_biases if layout.optional_biases and not biased else each.stored
        try:
            return arrangement, _solve(layout, arrangement, mh)
        except ValueError as error:
            misfit = error
    raise misfit


def _solve(layout: Layout, arrangement: tuple[Stored, ...], mh: MultiHead) -> _Sizes:
    """The sizes of the symbols in an arrangement's patterns."""
    _check_biases(layout, [part for stored in arrangement for part in stored.parts], mh)
    sizes = {}
    for stored in arrangement:
        parts = {part: getattr(mh, part) for part in stored.parts}
        for part, array in parts.items():
            sizes = stored.part_shape(part).solve(
                f"For layout {layout.name!r} {part}", array.shape, sizes
            )
        stored.shape_for(sizes)  # it refuses heads that do not come out even in a block
        dtypes = sorted({str(array.dtype) for array in parts.values()})
        if len(dtypes) > 1:
            raise TypeError(
                f"Layout {layout.name!r} stores {stored.holds} in one array, but they have dtypes "
                f"{' and '.join(dtypes)}."
            )
    layout.check_layer(sizes)
    return sizes


def _check_heads(layout: Layout, mh: MultiHead) -> None:
    try:
        layout.check_heads({"h": mh.h, "h_kv": mh.h_kv})
    except ValueError as error:
        names = [name for name in ("W_K", "W_V", "b_K", "b_V") if getattr(mh, name) is not None]
        repeat = ", ".join(f"{name}=mh.{name}.repeat({mh.h // mh.h_kv}, axis=0)" for name in names)
        raise ValueError(
            f"{error} With its heads of keys and values repeated the layer is the same: "
            f"dataclasses.replace(mh, {repeat})."
        ) from None


def _check_scores(layout: Layout, mh: MultiHead) -> None:
    others = [step for step in mh.between if not isinstance(step, Rotation | Unknown)]
    if others or bool(mh.between) != layout.rotary:
        rotates = "rotates" if layout.rotary else "does not rotate"
        raise ValueError(
            f"Layout {layout.name!r} belongs to a model that {rotates} queries and keys (RoPE) and "
            f"does nothing else between its maps, but the layer has between = {mh.between!r}. To "
            "dump the weights all the same, for a layer that computes something else: "
            f"dataclasses.replace(mh, between=layouts()[{layout.name!r}].between)."
        )
    if mh.scale != layout.scale:
        paper = mh.d_k**-0.5
        raise ValueError(
            f"Layout {layout.name!r} has scale = {layout.scale}, but the layer has scale = "
            f"{mh.scale} (None is 1/sqrt(d_k)). The factor can move into the queries: multiply W_Q "
            f"(and b_Q, if there is one) by {(mh.scale or paper) / (layout.scale or paper)}, and "
            f"set scale={layout.scale}."
        )


def _check_biases(layout: Layout, stored: list[str], mh: MultiHead) -> None:
    for name in BIASES:
        bias, W = getattr(mh, name), getattr(mh, name.replace("b_", "W_"))
        if name in stored and bias is None:
            shape = W.shape[2:] if name == "b_O" else W.shape[::2]
            raise ValueError(
                f"Layout {layout.name!r} stores {', '.join(b for b in BIASES if b in stored)} "
                f"({layout.biases}), but {name} is None. A bias of zeros changes nothing: "
                f"dataclasses.replace(mh, {name}=np.zeros({shape}, np.{W.dtype}))."
            )
        if name not in stored and bias is not None:
            no_effect = (
                " A bias of the keys adds the same number to all scores of a query, so softmax "
                "removes it: dataclasses.replace(mh, b_K=None) is the same layer."
            ) * (name == "b_K" and not mh.between)
            raise ValueError(f"Layout {layout.name!r} has no place for {name}.{no_effect}")
