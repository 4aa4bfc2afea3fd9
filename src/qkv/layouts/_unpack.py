r"""One stored array alone, without the others of its layer."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from qkv._arrays import check_one_of, quote
from qkv.layouts._layout import Layout, Stored
from qkv.layouts._load import as_stored, head_counts
from qkv.layouts._patterns import divisors
from qkv.layouts._registry import find_layout, layouts, succeeds

_Sizes = Mapping[str, int]


def unpack(
    array: Any,
    layout: str,
    *,
    h: int,
    h_kv: int | None = None,
    name: str | None = None,
    form: str | None = None,
) -> dict[str, np.ndarray]:
    r"""Cut one stored array into the paper's matrices, one per head, or into their biases.

    The array is read as one that the layout packs queries, keys or values into, such as PyTorch's
    `in_proj_weight`; `name` reads it as another one. Numbers keep their dtype, as in `load`.

    Args:
        array: The stored array, or what NumPy can convert to one.
        layout: One of `layouts()`.
        h: The number of heads, $h$.
        h_kv: The number of heads of keys and values; `h` where None. It is needed where it is not
            `h`, and where several fit the shape.
        name: What the layout calls the array, without a prefix. Where None, the fused array whose
            shape fits.
        form: Where the library distinguishes cases, the one it is, as in `dump`.

    Returns:
        Parts of `MultiHead` by name: `W_Q (h, d_model, d_k)` and so on.

    Raises:
        TypeError: If the array is None, text or a mapping, or does not hold floating-point numbers.
        ValueError: If an argument is missing or unknown, or the shape does not fit, or fits several
            arrays or numbers of heads.

    Examples:
        The first third of PyTorch's rows holds the queries, and the first half of these the first
        head.

        >>> packed = np.arange(108.0).reshape(18, 6)
        >>> parts = unpack(packed, "pytorch", h=2)
        >>> {part: matrices.shape for part, matrices in parts.items()}
        {'W_Q': (2, 6, 3), 'W_K': (2, 6, 3), 'W_V': (2, 6, 3)}
        >>> np.array_equal(parts["W_K"][0], packed[6:9].T)
        True

    Source:
        Each layout's `read_in`: the library's own code.
    """
    stored_as = find_layout(layout)
    sizes = head_counts(h, h_kv)
    if form is not None:
        check_one_of("form", form, [each.when for each in stored_as.forms])
    if array is None or isinstance(array, str | Mapping):
        came = "None" if array is None else f"a {type(array).__name__}"
        of = " Pass one of its arrays." if isinstance(array, Mapping) else ""
        raise TypeError(f"array must be one stored array, but is {came}.{of}")
    shape = tuple(np.shape(array))
    try:
        stored = _which_array(stored_as, shape, sizes, name, form)
    except ValueError as error:
        hints = "".join(f" {hint}" for hint in _what_would_fit(stored_as, shape, sizes, name))
        raise ValueError(f"{error}{hints}") from None
    solved = stored.solve(shape, sizes)
    if h_kv is None and "h_kv" in stored.symbols:
        counts = _fitting_groups(stored_as, shape, solved["h"], stored.name, form)
        if len(counts) > 1:  # that keys have as many heads as queries would be a guess
            raise ValueError(
                f"{stored.name} {stored.shape} of layout {layout!r} may have fewer heads of keys "
                f"and values than of queries, and shape {shape} does not say how many: pass h_kv, "
                f"which may be {' or '.join(map(str, counts))}."
            )
    return stored.unpack(as_stored("array", array, stored), solved)


def _which_array(
    layout: Layout, shape: tuple[int, ...], sizes: _Sizes, name: str | None, form: str | None
) -> Stored:
    """The one of a layout's arrays that an array of this shape is."""
    layout.check_heads(sizes)
    stored = _arrays(layout, name, form)
    fitting = [each for each in stored if succeeds(_check_fit, layout, each, shape, sizes)]
    if len(fitting) > 1:
        raise ValueError(
            f"Layout {layout.name!r} stores arrays of shape {shape} in more than one case: pass "
            f"form, one of {quote([stored[each] for each in fitting])}."
        )
    if not fitting:
        known = " or ".join(f"{each.name} {each.shape}" for each in stored)
        raise ValueError(
            f"array must have the shape of {known} of layout "
            f"{layout.name!r}, with {', '.join(f'{size} = {n}' for size, n in sizes.items())}, "
            f"but has shape {shape}."
        )
    return fitting[0]


def _fitting_groups(
    layout: Layout, shape: tuple[int, ...], h: int, name: str | None, form: str | None
) -> list[int]:
    """The numbers of heads of keys and values with which a shape fits."""
    return [
        h_kv
        for h_kv in divisors(h)
        if succeeds(_which_array, layout, shape, {"h": h, "h_kv": h_kv}, name, form)
    ]


def _arrays(layout: Layout, name: str | None, form: str | None) -> dict[Stored, str]:
    """The arrays of this name, or those that are fused, and the case that each is stored in."""
    every = {
        stored: each.when
        for each in layout.forms
        if form in (None, each.when)
        for stored in each.stored
    }
    names = dict.fromkeys(stored.name for stored in every)
    if name is not None:
        check_one_of("name", name, names)
        return {stored: when for stored, when in every.items() if stored.name == name}
    if fused := {stored: when for stored, when in every.items() if len(stored.parts) > 1}:
        return fused
    raise ValueError(
        f"Layout {layout.name!r} stores queries, keys and values apart: pass name, one of "
        f"{quote(names)}."
    )


def _check_fit(layout: Layout, stored: Stored, shape: tuple[int, ...], sizes: _Sizes) -> None:
    solved = stored.solve(shape, sizes)
    if "d_model" in solved and "d_k" in solved:
        layout.check_square(solved)


def _what_would_fit(
    layout: Layout, shape: tuple[int, ...], sizes: _Sizes, name: str | None
) -> Iterator[str]:
    every = layouts().values()
    if fitting := [
        other.name for other in every if succeeds(_which_array, other, shape, sizes, name, None)
    ]:
        yield f"The shape fits {quote(fitting)}."
    h = sizes["h"]
    if groups := [str(n) for n in _fitting_groups(layout, shape, h, name, None) if n < h]:
        yield f"The shape fits h_kv = {' or '.join(groups)}."
