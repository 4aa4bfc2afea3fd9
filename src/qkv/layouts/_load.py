r"""From a library's stored weights to the paper's matrices."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from qkv._arrays import as_floats, check_groups, check_sizes, from_bfloat16, quote
from qkv.between import Step
from qkv.layouts._files import stored_otherwise
from qkv.layouts._layout import Layout, Stored
from qkv.layouts._own import OWN, check_names, own_layout
from qkv.layouts._patterns import divisors
from qkv.layouts._registry import find_layout, layouts, succeeds
from qkv.multi_head import MultiHead

_Shapes = Mapping[str, tuple[int, ...]]
_Sizes = Mapping[str, int]


def load(
    weights: Mapping | list,
    layout: str | None = None,
    *,
    h: int,
    h_kv: int | None = None,
    prefix: str = "",
    names: Mapping[str, str] | None = None,
    stored: str | None = None,
    between: tuple[Step, ...] | None = None,
) -> MultiHead:
    r"""Read a library's stored weights as one matrix per head.

    A library packs the paper's $W_1^Q, \ldots, W_h^Q$ into one array. Nothing is computed here:
    numbers move, and keep their dtype. Only bfloat16, which NumPy does not have, becomes float32.

    With a layout, what takes part in the attention and is none of the maps or biases, such as a
    QK-norm, is refused; what `layouts()[layout].outside` names is passed over. With `names`,
    nothing else is read. The weights do not show the order within a packed axis: (3·h·d_k) and
    (h·3·d_k) are equally long, so `layout` has to be the right one.

    Args:
        weights: Names to arrays, or to what NumPy converts: a `state_dict` as it stands, what
            `safetensors.numpy.load_file` returns, nested parameters (their keys are joined by "/").
            For Keras also the list that `get_weights()` returns.
        layout: One of `layouts()`; left out where `names` are given.
        h: The number of heads, $h$; it cannot be told from packed weights.
        h_kv: The number of heads of keys and values; `h` where None.
        prefix: What the names of this layer begin with, such as "encoder.layers.0.self_attn.";
            names that begin otherwise belong to other layers and are left alone.
        names: Of a layer of your own, the names of its maps: "W_Q", "W_K", "W_V" and "W_O", and
            biases such as "b_Q", to names below the prefix. A matrix holds all heads in their
            order, an array of three axes one matrix for each head, heads first.
        stored: How `names` are stored: "(out, in)", as nn.Linear does, or "(in, out)".
        between: What stands between the maps; what the layout says where None.

    Returns:
        The layer, with `W_Q[0]` the paper's $W_1^Q$. A layout's own scale (T5's) is in `scale`.
        Where a layout's models rotate, as a rule, `between` says that this is not known, and the
        layer refuses to be called. What the library stores nothing of is not seen:
        `layouts()[layout].cannot` names it.

    Raises:
        TypeError: If the weights are no mapping or do not hold floating-point numbers.
        ValueError: If a name is missing, surplus or refused, a shape does not fit, or an argument
            is missing or unknown.

    Examples:
        PyTorch's packed weight, two heads of width 3: the first six rows are the queries.

        >>> packed = np.arange(108.0).reshape(18, 6)
        >>> weights = {"in_proj_weight": packed, "out_proj.weight": np.eye(6)}
        >>> mh = load(weights, "pytorch", h=2)
        >>> mh
        MultiHead(h=2, d_model=6, d_k=3, d_v=3)
        >>> np.array_equal(mh.W_Q[1], packed[3:6].T)
        True

    Source:
        Each layout's `read_in`: the library's own code.
    """
    sizes = head_counts(h, h_kv)
    if layout is None and names is None:
        raise ValueError("Pass layout, one of layouts(), or names and stored for your own.")
    if names is None:
        if stored is not None:
            raise ValueError(f"Pass stored with names alone: layout {layout!r} says how it stores.")
        stored_as = find_layout(layout)
        given = _below_prefix(prefix, _by_name(weights, stored_as), stored_as)
    else:
        if layout is not None:
            raise ValueError(f"Pass layout or names, but both came: {layout!r} and {names!r}.")
        check_names(names, stored)
        given = _named(weights, names, prefix)
        stored_as = own_layout(names, stored, given)
    shapes = {name: tuple(np.shape(value)) for name, value in given.items()}
    # Shapes are fitted before an array is converted: an error costs no memory, and says more.
    try:
        arrangement, sizes = fit(stored_as, shapes, sizes)
    except ValueError as error:
        hints = "".join(f" {hint}" for hint in _what_would_fit(stored_as, shapes, sizes, prefix))
        raise ValueError(f"{error}{hints}") from None
    parts = {}
    for stored in arrangement:
        array = as_stored(f"weights[{prefix + stored.name!r}]", given[stored.name], stored)
        parts |= stored.unpack(array, sizes)
    return MultiHead(
        **parts, scale=stored_as.scale, between=stored_as.between if between is None else between
    )


def _named(weights: Mapping, names: Mapping[str, str], prefix: str) -> dict[str, Any]:
    """The arrays with names of the reader's own, below the prefix."""
    if not isinstance(weights, Mapping):
        raise no_mapping(weights)
    arrays = dict(flatten(weights))
    for part, name in names.items():
        if prefix + name not in arrays:
            raise ValueError(
                f"weights has no {prefix + name!r}, which names has for {part}; it has "
                f"{quote(arrays, 16)}."
            )
    return {name: arrays[prefix + name] for name in names.values()}


def head_counts(h: int, h_kv: int | None) -> dict[str, int]:
    """How many heads there are; of keys and values as many as of queries, unless it is said."""
    h_kv = h if h_kv is None else h_kv
    check_sizes(h=h, h_kv=h_kv)
    check_groups(h, h_kv)
    return {"h": int(h), "h_kv": int(h_kv)}


def as_stored(name: str, value: Any, stored: Stored) -> np.ndarray:
    """A stored array as one of NumPy's."""
    return as_floats(name, from_bfloat16(value), stored.shape)


def _by_name(weights: Mapping | list, layout: Layout) -> dict[str, Any]:
    if isinstance(weights, Mapping):
        return dict(flatten(weights))
    # Keras' get_weights() gives a list; its length tells whether there are biases.
    if not (layout.in_order and isinstance(weights, list)):
        raise no_mapping(weights)
    names = [[stored.name for stored in arrangement] for arrangement in layout.arrangements()]
    for each in names:
        if len(each) == len(weights):
            return dict(zip(each, weights, strict=True))
    expected = " or ".join(f"{len(each)} ({', '.join(each)})" for each in names)
    more = "".join(
        f" A longer list may hold {name!r}: {why}."
        for name, why in layout.refused.items()
        if len(weights) > max(map(len, names))
    )
    raise ValueError(
        f"A list of weights must have {expected} arrays, but has {len(weights)}.{more}"
    )


def no_mapping(weights: object) -> TypeError:
    """What to say of weights that come without names."""
    has_names = hasattr(weights, "state_dict")
    way = "Pass its state_dict()." if has_names else "If it holds pairs, pass dict(weights)."
    what = type(weights).__name__
    return TypeError(f"weights must be a mapping from names to arrays, but is a {what}. {way}")


def flatten(weights: Mapping) -> Iterator[tuple[str, Any]]:
    """Names and arrays of nested parameters, their keys joined by "/"."""
    for key, value in weights.items():
        name = "/".join(map(str, key)) if isinstance(key, tuple) else str(key)
        if isinstance(value, Mapping):
            yield from ((f"{name}/{inner}", leaf) for inner, leaf in flatten(value))
        else:
            yield name, value


def _below_prefix(prefix: str, weights: Mapping[str, Any], layout: Layout) -> dict[str, Any]:
    under = {
        name.removeprefix(prefix): value
        for name, value in weights.items()
        if name.startswith(prefix)
    }
    own = {stored.name for each in layout.arrangements() for stored in each}
    # Where none of its names is there, all would be missing, and all surplus.
    if own.isdisjoint(under) and (
        hints := _prefix_hints(layout, under, prefix) or _prefix_hints(layout, weights)
    ):
        raise ValueError(f"{hints[0]} But prefix is {prefix!r}.")
    if not under:
        raise ValueError(
            f"weights has no name that begins with prefix = {prefix!r}; it has "
            f"{quote(weights, 16)}."
        )
    return under


def fit(layout: Layout, shapes: _Shapes, sizes: _Sizes) -> tuple[tuple[Stored, ...], _Sizes]:
    """The arrays that a layout stores under these names, and the sizes their shapes give."""
    layout.check_heads(sizes)
    arrangement = find_arrangement(layout, shapes)
    for stored in arrangement:
        sizes = stored.solve(shapes[stored.name], sizes)
    layout.check_layer(sizes)
    return arrangement, sizes


def find_arrangement(layout: Layout, names: Collection[str]) -> tuple[Stored, ...]:
    """The arrays of a layout that have these names; what is outside of the layer is passed over."""
    for name in names:
        if why := layout.why_refused(name):
            raise ValueError(
                f"weights holds {name!r}: {why}. To load the rest of the layer knowingly, leave "
                f"that name out{', and pass between' * ('qkv.between' in why)}."
            )
    came = frozenset(name for name in names if not layout.is_outside(name))
    arrangements = {
        frozenset(stored.name for stored in arrangement): arrangement
        for arrangement in layout.arrangements()
    }
    if came in arrangements:
        return arrangements[came]
    # Nothing fits, so the message is about the form that comes nearest.
    expected = min(arrangements, key=lambda names: len(names ^ came))
    missing, surplus = sorted(expected - came), sorted(came - expected)
    is_bias = {stored.name: stored.is_bias for stored in arrangements[expected]}
    raise ValueError(
        f"weights must have the names of layout {layout.name!r}"
        + f"; missing: {quote(missing, 16)}" * bool(missing)
        + f"; surplus: {quote(surplus, 16)}" * bool(surplus)
        + f". It has {quote(names, 16)}; expected: {quote(is_bias)}."
        + _of_missing_biases(layout) * (not surplus and all(is_bias[name] for name in missing))
        + f" {stored_otherwise(surplus)}".rstrip()
        + " A layer of your own loads with names and stored." * bool(surplus)
    )


def _of_missing_biases(layout: Layout) -> str:
    if layout.biases == "all or none":
        return (
            f" Layout {layout.name!r} stores all biases or none: what is missing was lost, and "
            "zeros in its place would be another layer."
        )
    return (
        " If the model has no such bias, add it: a bias of zeros changes nothing. If it was lost, "
        "zeros would be another layer."
    )


def _what_would_fit(layout: Layout, shapes: _Shapes, sizes: _Sizes, prefix: str) -> Iterator[str]:
    """What would make weights fit that do not."""
    if prefix:
        yield f"These are the names behind prefix = {prefix!r}."
    every = layouts().values()
    if fitting := [other.name for other in every if succeeds(fit, other, shapes, sizes)]:
        yield f"These names and shapes fit {quote(fitting)}."
    yield from _prefix_hints(layout, shapes, prefix)
    h = sizes["h"]
    counts = [{"h": h, "h_kv": n} for n in divisors(h)[:-1]]
    if groups := [str(n["h_kv"]) for n in counts if succeeds(fit, layout, shapes, n)]:
        yield f"The shapes fit h_kv = {' or '.join(groups)}."
    # A square matrix does not show it, but one that is not square does.
    transposed = {name: shape[::-1] if len(shape) == 2 else shape for name, shape in shapes.items()}
    if not fitting and succeeds(fit, layout, transposed, sizes):
        stores = "stored says" if layout.name == OWN else f"layout {layout.name!r} stores"
        shorter = _square_but_for_keys(layout, shapes)
        if not (groups and shorter):
            yield f"Every matrix looks transposed: {stores} {layout.convention}."
        if shorter and not layout.grouped:
            yield "Or keys and values have fewer heads than queries, which this layout cannot hold."
    if not fitting:
        yield from _other_names(shapes, sizes)


def _square_but_for_keys(layout: Layout, shapes: _Shapes) -> bool:
    """Whether all that may be transposed is of keys and values: these may be shorter instead."""
    matrices = [stored for stored in find_arrangement(layout, shapes) if not stored.is_bias]
    turned = [stored for stored in matrices if shapes[stored.name] != shapes[stored.name][::-1]]
    return all({*stored.parts} <= {"W_K", "W_V"} for stored in turned)


def _prefix_hints(layout: Layout, names: Collection[str], prefix: str = "") -> list[str]:
    every = (start for each in layout.arrangements() for start in prefixes(each, names))
    found = dict.fromkeys(prefix + start for start in every if start)
    return [f"Layout {layout.name!r} is there with prefix = {quote(found, 4)}."] * bool(found)


def prefixes(arrangement: tuple[Stored, ...], names: Collection[str]) -> Iterator[str]:
    """What names begin with where all arrays of an arrangement are there."""
    first, *others = arrangement
    for name in names:
        start = name.removesuffix(first.name)
        whole = start == "" or start.endswith((".", "/"))  # "wq.weight" is no "q.weight"
        if start != name and whole and all(start + stored.name in names for stored in others):
            yield start


def _other_names(shapes: _Shapes, sizes: _Sizes) -> Iterator[str]:
    for layout in layouts().values():
        known = {_kind(stored.name): stored.name for form in layout.forms for stored in form.stored}
        names = {name: known.get(_kind(name), name) for name in shapes}
        if succeeds(fit, layout, {known: shapes[name] for name, known in names.items()}, sizes):
            pairs = [f"{known!r} for {name!r}" for name, known in names.items() if name != known]
            yield f"The shapes fit {layout.name!r}, which has other names: {', '.join(pairs)}."


def _kind(name: str) -> tuple[str, str]:
    """The same of q_proj.weight and query.weight, and of out/bias and attention_output/bias."""
    return "o" if "out" in name else name[:1], re.split("[./]", name)[-1]
