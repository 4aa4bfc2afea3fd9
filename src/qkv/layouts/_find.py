r"""The attention layers of a whole model, found by the names and shapes of its arrays."""

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from qkv._arrays import check_sizes, quote
from qkv.layouts._between import STEPS, crosses
from qkv.layouts._config import Known, as_mapping, no_number_of_heads, read_config, renamed
from qkv.layouts._files import read_shapes, stored_otherwise
from qkv.layouts._found import FoundLayer, Heads
from qkv.layouts._layout import BIASES, SIZES
from qkv.layouts._load import find_arrangement, fit, flatten, no_mapping, prefixes
from qkv.layouts._patterns import divisors
from qkv.layouts._registry import layouts, succeeds
from qkv.layouts._table import table

_LIKE_ATTENTION = re.compile(r"attn|attention|qkv|[qkv]_proj|to_[qkv]\b|w[qkv]\b|query|key")
_Shapes = tuple[tuple[str, tuple[int, ...]], ...]
_Sizes = Mapping[str, int]


class FoundLayers(tuple[FoundLayer, ...]):
    """The attention layers of a model, in its order; they print as a table."""

    others: tuple[str, ...] = ()  # matrices that look like attention and belong to no layer

    def __repr__(self):
        return table(self, self.others)


def find_layers(
    weights: Mapping | str | os.PathLike,
    *,
    h: int | None = None,
    h_kv: int | None = None,
    config: Mapping | None = None,
) -> FoundLayers:
    r"""Find the attention layers in the weights of a whole model.

    A layer is found where all matrices of a layout stand behind one prefix, which is empty or ends
    in a dot or a slash. Packed heads do not show their number, and some layouts differ in the order
    of numbers alone. What stores nothing, such as a rotation, ALiBi, a cap of the scores or another
    scale, is not seen: the configuration says it. Without one, a layer that stores what `load`
    refuses, such as a QK-norm, is listed as refused.

    Args:
        weights: What `load` takes, but for lists: a model's `state_dict()`, nested parameters; or
            the path of a safetensors file, or of a folder with such files, of which only the
            shapes are read until numbers are asked for.
        h: The number of heads of all layers, where it is known.
        h_kv: The number of heads of keys and values, where it is known.
        config: The model's configuration, as its config.json holds it, or an object with
            `to_dict()`. Read are the numbers of heads and their width, the scale, the mask, and
            what stands between the maps of the types of model in `layouts()[...].types`; a layer
            whose part of `config` names another type is refused.

    Returns:
        The layers, stack by stack as the names first come, and in a stack by number, layers.2
        before layers.10. They print as a table, and `layer.load(h=...)` loads one.

    Raises:
        TypeError: If the weights are no mapping and no path, or the configuration is no mapping
            and has no `to_dict()`.
        FileNotFoundError: If a path that ends in `.safetensors` does not exist.
        OSError: If a file cannot be opened.
        ValueError: If there is no such folder, it has no such file, or a file is no whole one; if
            no attention layer is found, a number of heads is not a positive whole number, or
            `config` says nothing of heads and no number is passed. A layer that cannot have these
            heads is listed, with why it is refused.

    Examples:
        >>> from qkv import MultiHead, dump
        >>> mh = MultiHead.random(512, 8, bias=True)
        >>> weights = {}
        >>> for i in range(6):
        ...     weights |= dump(mh, "pytorch", prefix=f"layers.{i}.self_attn.")
        >>> found = find_layers(weights)
        >>> print(found)
        prefix                 layout   biases           sizes
        layers.0-5.self_attn.  pytorch  b_Q b_K b_V b_O  d_model=512, h·d_k=512
        6 attention layers.
        Packed heads do not show their number: pass h, or config. If d_k is 64, h is 8. ...
        >>> found[3].load(h=8) == mh
        True

    Source:
        Each layout's `read_in`: the library's own code.
    """
    given = {name: n for name, n in {"h": h, "h_kv": h_kv}.items() if n is not None}
    check_sizes(**given)
    config = None if config is None else as_mapping(config)
    if isinstance(weights, str | os.PathLike):
        weights = read_shapes(weights)
    if not isinstance(weights, Mapping):
        raise no_mapping(weights)
    arrays = _in_order(dict(flatten(weights)))
    if config is not None:
        arrays = dict(zip(renamed(arrays, config), arrays.values(), strict=True))
    places = _places(arrays)
    if config is None:
        known = dict.fromkeys(places, Known(given))
    else:
        known = {prefix: read_config(config, prefix, given) for prefix in places}
        if known and not any(each.sizes for each in known.values()):
            raise no_number_of_heads(config, next(iter(known)))
    found = FoundLayers(
        _examine(prefix, names, arrays, known[prefix]) for prefix, names in places.items()
    )
    found.others = tuple(_unread(arrays, found))
    if not found:
        raise ValueError(_names_looked_for(arrays, found.others))
    return found


def _places(arrays: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Prefixes behind which all matrices of a layout stand, in order, and those layouts' names."""
    order = {name: place for place, name in enumerate(arrays)}
    names, first = {}, {}
    for layout in layouts().values():
        for form in layout.forms:
            # Biases may be left out, so the matrices alone tell where a layer is.
            for prefix in prefixes(form.without_biases, arrays):
                names.setdefault(prefix, {})[layout.name] = None
                first[prefix] = min(order[prefix + stored.name] for stored in form.without_biases)
    return {prefix: tuple(names[prefix]) for prefix in sorted(names, key=first.get)}


def _in_order(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays as they come, but by the numbers in their names: a file has layers.10 before 2."""
    began: dict[tuple[str, ...], int] = {}  # of what stands between numbers, which came first

    def key(name: str) -> list[int]:
        parts = re.split(r"(\d+)", name)
        texts = (tuple(parts[: at + 1 : 2]) for at in range(0, len(parts), 2))
        parts[::2] = (began.setdefault(each, len(began)) for each in texts)
        return [int(part) for part in parts]

    return {name: arrays[name] for name in sorted(arrays, key=key)}


def _steps(
    prefix: str, own: Mapping[str, Any], everything: Mapping[str, Any], known: Known
) -> dict[str, Any]:
    """Of a layer's own arrays those of what stands between its maps, by names below its prefix."""
    if known.kind is None:
        return {}
    found = {name: array for name, array in own.items() if STEPS.fullmatch(name)}
    name = "relative_attention_bias.weight"
    first = re.sub(r"\d+", "0", prefix, count=1) + name
    # T5's first layer has the bias for all of its stack; layers that look at an encoder have none.
    if known.kind.first_bias and not crosses(prefix) and first in everything:
        found[name] = everything[first]
    return found


def _examine(
    prefix: str, names: tuple[str, ...], everything: Mapping[str, Any], known: Known
) -> FoundLayer:
    """What the arrays behind a prefix may be, of the layouts of these names."""
    own = {
        name.removeprefix(prefix): array
        for name, array in everything.items()
        if name.startswith(prefix)
    }
    steps = _steps(prefix, own, everything, known)
    arrays = {name: array for name, array in own.items() if name not in steps}
    shapes = tuple((name, np.shape(array)) for name, array in arrays.items())
    fitting, refused = {}, ""
    for name in names:
        try:
            fitting[name] = [sizes for sizes in _solutions(name, shapes) if known.allows(sizes)]
        except ValueError as error:
            refused = refused or str(error)
    allowed = {name: solutions for name, solutions in fitting.items() if solutions}
    # Where names and shapes leave several layouts, the configuration's model type decides.
    if known.layout in allowed:
        allowed = {known.layout: allowed[known.layout]}
    if allowed:
        refused = _unknown_type(known)
    elif fitting:
        refused = f"{known} does not fit the shapes of the layer with prefix {prefix!r}."
    solutions = [sizes for each in allowed.values() for sizes in each]
    heads = {Heads(sizes["h"], sizes["h_kv"], sizes["d_k"]) for sizes in solutions}
    return FoundLayer(
        prefix,
        tuple(allowed),
        _in_common(solutions),
        tuple(sorted(heads)),
        _biases(next(iter(allowed)), shapes) if allowed else (),
        refused,
        {prefix + name: array for name, array in arrays.items()},
        known,
        steps,
    )


def _unknown_type(known: Known) -> str:
    """Why a layer that fits is refused: its config names a type that no layout knows."""
    if known.kind is not None or not known.model_type:
        return ""
    return (
        f"No layout knows the config's model_type, {known.model_type!r}: what its layers do "
        "between their maps is not known. To load the maps alone, leave config out and pass h."
    )


@cache  # the layers of a model have the same shapes, most of them
def _solutions(name: str, shapes: _Shapes) -> tuple[_Sizes, ...]:
    """The sizes with which shapes fit a layout, for each number of heads that is possible."""
    layout, by_name = layouts()[name], dict(shapes)
    arrangement = find_arrangement(layout, by_name)
    [out] = (stored for stored in arrangement if "W_O" in stored.parts)
    # One axis of W_O has the heads, or is h·d_v long. So h divides a width, and trying the divisors
    # finds each number of heads that the shapes allow.
    widths = by_name[out.name]
    grouped = any("h_kv" in stored.symbols for stored in arrangement)
    if not widths:
        raise ValueError(f"{out.name} must have shape {out.shape}, but has shape ().")
    solutions, misfit = [], ""
    for h in sorted({n for width in widths for n in divisors(width)}):
        for h_kv in divisors(h) if grouped else [h]:
            try:
                _, sizes = fit(layout, by_name, {"h": h, "h_kv": h_kv})
            except ValueError as error:  # of sizes that were tried, and that nobody has passed
                misfit = getattr(error, "untold", "") or misfit
            else:
                solutions.append(sizes)
    if solutions:
        return tuple(solutions)
    misfit = misfit or f"No number of heads gives these shapes in layout {layout.name!r}."
    if succeeds(_solutions, name, tuple((each, shape[1:]) for each, shape in shapes)):
        misfit += " Its layers seem to be stacked on the first axis: pass the arrays of one."
    raise ValueError(misfit)


def _in_common(solutions: list[_Sizes]) -> dict[str, int]:
    """The sizes that all solutions agree in, and where they do not, those of all heads together."""
    sizes = {}
    for name in SIZES:
        values = {solution.get(name) for solution in solutions}
        heads = {"d_k": ("h", "h_kv"), "d_v": ("h",)}.get(name, ())
        if len(values) == 1 and values != {None}:
            sizes[name] = values.pop()
        elif values != {None}:
            for each in heads:
                products = {solution[each] * solution[name] for solution in solutions}
                sizes |= {f"{each}·{name}": products.pop()} if len(products) == 1 else {}
    return sizes


def _biases(name: str, shapes: _Shapes) -> tuple[str, ...]:
    """The biases among the arrays, as a layout reads them."""
    stored = find_arrangement(layouts()[name], dict(shapes))
    held = {part for each in stored for part in each.parts}
    return tuple(bias for bias in BIASES if bias in held)


def _unread(arrays: Mapping[str, Any], found: FoundLayers) -> Iterator[str]:
    """Matrices that have names as of attention and belong to no layer that was found."""
    read = tuple(layer.prefix for layer in found)
    for name, array in arrays.items():
        is_matrix = len(getattr(array, "shape", ())) > 1
        if is_matrix and _LIKE_ATTENTION.search(name) and not (read and name.startswith(read)):
            yield name


def _renamed(arrays: Mapping[str, Any]) -> Iterator[str]:
    """Types of model that are known to have such names where a layout has others."""
    for layout in layouts().values():
        for model_type, kind in layout.types.items():
            if kind.rename and all(any(own in name for name in arrays) for own in kind.rename):
                yield model_type


def _names_looked_for(arrays: Mapping[str, Any], others: tuple[str, ...]) -> str:
    names = {
        layout.name: " or ".join(
            dict.fromkeys(
                ", ".join(stored.name for stored in form.without_biases) for form in layout.forms
            )
        )
        for layout in layouts().values()
    }
    has = f"It has {quote(arrays, 16)}" if arrays else "It is empty"
    if known := {*_renamed(arrays)}:
        return (
            f"weights has no attention layer under a layout's names. The names are those of a "
            f"model of type {quote(sorted(known))}: pass its config, and they are changed. {has}."
        )
    if otherwise := stored_otherwise(arrays):
        return f"weights has no attention layer that can be read. {otherwise} {has}."
    if others:
        has = f"It has {quote(others, 16)}, named like attention"
    return (
        f"weights has no attention layer that a layout describes. {has}. "
        "Behind one prefix these names were looked for: "
        + "; ".join(f"{layout}: {each}" for layout, each in names.items())
        + "."
    )
