r"""What a layer has on the way: where it first leaves the right one, and which mistake agrees."""

from collections.abc import Mapping

import numpy as np

from qkv._arrays import as_floats, check_one_of, detached, quote
from qkv.mistakes._layer import Layer
from qkv.mistakes._search import Found, Problem

# The steps that a reader may give, in their order, and what they are called in a sentence.
_NAMES = {
    "Q": "projected queries",
    "K": "projected keys",
    "V": "projected values",
    "scores": "scores",
    "weights": "weights",
    "heads": "attended values",
    "joined": "joined heads",
}


def as_intermediates(given: Mapping[str, object], problem: Problem) -> dict[str, np.ndarray]:
    """The arrays that were given, in the order of the steps, each with one batch axis."""
    if not isinstance(given, Mapping):
        raise TypeError(
            "intermediates must be a mapping from names to arrays, but is a "
            f"{type(given).__name__}; the names are {quote(_NAMES)}."
        )
    for name in given:
        check_one_of("A name in intermediates", name, _NAMES)
    return {
        name: _fitting(name, given[name], getattr(problem.right, name), problem)
        for name in _NAMES
        if name in given
    }


def _fitting(name: str, value: object, right: np.ndarray, problem: Problem) -> np.ndarray:
    batch = problem.sources[0].shape[:-2]
    shape = (*batch, *right.shape[1:])
    array = as_floats(f"intermediates[{name!r}]", detached(value), shape)
    repeated = (*batch, problem.mh.h, *right.shape[2:])
    if array.shape != shape and not (name in ("K", "V") and array.shape == repeated):
        raise ValueError(
            f"intermediates[{name!r}] must have shape {shape}, but has shape {array.shape}."
        )
    return array.reshape(len(right), *array.shape[len(batch) :])


# Keys and values that were given as repeated: nothing stands between the maps and the repetition.
_AT_ONCE = {"between": lambda s, step: (s.Q, s.K, s.V)}


def _of(layer: Layer, name: str, array: np.ndarray) -> np.ndarray:
    """What a layer has where this array was given."""
    if name in ("K", "V") and array.shape[1] != layer.h_kv:
        return getattr(Layer(layer.inputs, (*layer.mistakes, _AT_ONCE)), f"{name}_repeated")
    return getattr(layer, name)


def _agrees(name: str, array: np.ndarray, layer: Layer, problem: Problem) -> np.ndarray | None:
    """For each element, whether it is the layer's; None if the layer has another shape there."""
    try:
        computed = _of(layer, name, array)
    except (ValueError, IndexError):
        return None
    if computed.shape != array.shape:
        return None
    if name == "scores":
        array = np.where(layer.mask, array, computed)  # what is hidden may hold anything
    far = np.abs(array - computed)
    size = np.abs(array[np.isfinite(array)]).max(initial=0)
    return ~(far > problem.tolerances[-1] * size) & (np.isfinite(array) | ~np.isfinite(computed))


def first_difference(problem: Problem, given: Mapping[str, np.ndarray]) -> str:
    """A sentence about the first of the arrays that is not the right layer's."""
    for name, array in given.items():
        equal = _agrees(name, array, problem.right, problem)
        if not equal.all():
            return (
                f"The intermediates differ first in the {_NAMES[name]}{_where(name, equal)}."
                f"{_in_common(name, array, problem)}"
            )
    if not given:
        return ""
    names = ", ".join(_NAMES[name] for name in given)
    return (
        f"These are right: {names}. What comes after them differs."
        if (problem.difference > problem.tolerances[-1] * problem.size)
        else f"These are right too: {names}."
    )


def _where(name: str, equal: np.ndarray) -> str:
    """Which samples, heads and tokens differ, where it is not each one."""
    axes = ("sample", "token") if name == "joined" else ("sample", "head", "token")
    places = [" of each head"] * (name != "joined" and equal.shape[1] > 1)
    for axis, word in enumerate(axes):
        others = tuple(other for other in range(equal.ndim) if other != axis)
        wrong = np.flatnonzero(~equal.all(axis=others)).tolist()
        if len(wrong) < equal.shape[axis]:
            places = places if word != "head" else []  # some heads are named in place of each
            numbers = ", ".join(map(str, wrong[:8])) + ", ..." * (len(wrong) > 8)
            places.append(f" of {word}{'s' * (len(wrong) > 1)} {numbers} (counted from 0)")
    return "".join(places)


def _in_common(name: str, array: np.ndarray, problem: Problem) -> str:
    """Whether a factor, or another order of the heads, makes all of it the layer's."""
    right = _of(problem.right, name, array)
    if not (np.isfinite(array) & np.isfinite(right)).all():
        return ""
    near = problem.tolerances[-1] * np.abs(array).max(initial=0)
    factor = float(np.vdot(right, array) / np.vdot(right, right)) if right.any() else 0.0
    if factor and np.abs(array - factor * right).max() <= near:
        return f" They are {factor:.4g} times the layer's."
    if name == "joined":
        return ""
    # Each given head with each of the layer's.
    far = np.abs(array[:, :, None] - getattr(problem.right, name)[:, None]).max(axis=(0, 3, 4))
    order = far.argmin(axis=1).tolist()
    if far.min(axis=1).max() <= near:
        return f" They are the layer's heads in the order {', '.join(map(str, order))}."
    return ""


def agreeing(found: Found, problem: Problem, given: Mapping[str, np.ndarray]) -> Found:
    """The explanations that give the arrays on the way too; all of them, if none does."""

    def agrees(names: tuple[str, ...]) -> bool:
        layer = problem.layer(names)
        equal = (_agrees(name, array, layer, problem) for name, array in given.items())
        return all(each is not None and each.all() for each in equal)

    return [each for each in found if agrees(each[0])] or found


def dropout(problem: Problem, given: Mapping[str, np.ndarray]) -> Found:
    """Dropout in the weights or in the output: some numbers are zero, the rest are larger."""
    kept = problem.output.any(axis=-1, keepdims=True)  # a row that is zero was set to zero
    right = np.where(kept, problem.right.output, np.nan)
    tried = {"dropout-of-the-output": (problem.output, right)}
    if "weights" in given:
        tried["dropout-of-weights"] = (given["weights"], problem.right.weights)
    tolerance = max(1e-4, problem.tolerances[-1])
    return [
        ((name,), difference)
        for name, (array, right) in tried.items()
        if (difference := _after_dropout(array, right, tolerance)) < np.inf
    ]


def _after_dropout(array: np.ndarray, right: np.ndarray, tolerance: float) -> float:
    """By how much what dropout keeps differs from the right numbers, enlarged; infinity if more."""
    defined = np.isfinite(right)  # not where a query sees nothing
    sums = (np.where(defined, each, 0).sum(axis=-1) for each in (array, right))
    if not defined.any() or np.allclose(*sums):
        return np.inf  # weights that sum to what they should were hidden, and not dropped
    array, right = array[defined], right[defined]
    kept, there = array != 0, np.abs(right) > 1e-9 * np.abs(right).max()
    if not (kept & there).any() or (kept | ~there).all():
        return np.inf
    # What is kept is divided by 1 - p; a median, for a few quotients of tiny numbers are far off.
    factor = np.median((array / right)[kept & there])
    far = np.abs(array - factor * right)[kept].max()
    same = far <= tolerance * np.abs(array).max()
    # In float16 a weight may be 0 because it is small, and then rounding alone makes a factor.
    larger = factor > 1 + tolerance
    return float(far) if same and larger and kept.mean() > 0.05 else np.inf
