r"""What stands around the formulas: shapes in signatures, their checks and messages, and tiles.

A shape is stated once, as the annotation of an argument, `Float[np.ndarray, "*#batch n_q d_k"]`,
and its check and its message are read off from there. Every refusal quotes the name, what came and
what was expected.
"""

import functools
import inspect
import math
import re
import sys
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral

import numpy as np

if typing.TYPE_CHECKING or "jaxtyping" in sys.modules:
    # Whoever has imported it may check shapes with it. It takes longer to import than NumPy.
    from jaxtyping import Bool, Float, Int
else:

    class _Annotation:
        """Reads `Float[np.ndarray, "n_q d_k"]`, and keeps the shape as jaxtyping does."""

        def __class_getitem__(cls, array_and_shape):
            array, shape = array_and_shape
            name = f'{cls.__name__}[{array.__name__}, "{shape.strip()}"]'
            # Of what is built in, `help` shows the name alone.
            return type(name, (cls,), {"dim_str": shape, "__module__": "builtins"})

    Bool, Float, Int = (type(name, (_Annotation,), {}) for name in ("Bool", "Float", "Int"))

_SPELLED = {"h": "h, the number of heads", "h_kv": "h_kv, the number of heads of keys and values"}
_Hint = Callable[[str, Mapping[str, tuple[int, ...]]], str]


@dataclass(frozen=True)
class Shape:
    """A shape in symbols, as an annotation states it.

    `batch` is the name of the leading axes, of which there may be any number; empty if there may
    be none.

    Examples:
        >>> print(Shape.parse("*#batch n_q d_k"))
        (..., n_q, d_k)
        >>> Shape.parse("*#batch n_q d_k").spell({"d_k": 64})
        '(..., n_q, 64)'
    """

    axes: tuple[str, ...]
    batch: str = ""

    @classmethod
    def parse(cls, text: str) -> "Shape":
        """Read the shape in an annotation."""
        leading, *axes = text.split()
        if leading.startswith("*"):
            return cls(tuple(axes), leading.lstrip("*#"))
        return cls((leading, *axes))

    def has_axes(self, number: int) -> bool:
        """Whether an array of this shape may have so many axes."""
        return number == len(self.axes) or (bool(self.batch) and number > len(self.axes))

    def __str__(self):
        return self.spell({})

    def spell(self, sizes: Mapping[str, int]) -> str:
        """Write the shape, with the sizes that are known filled in."""
        axes = ["..."] * bool(self.batch) + [str(sizes.get(axis, axis)) for axis in self.axes]
        return f"({axes[0]},)" if len(axes) == 1 else f"({', '.join(axes)})"


class Allowed(tuple[Shape | None, ...]):
    """The shapes that an array may have, and last None if it may be that."""

    def __str__(self):
        return " or ".join(str(shape) for shape in self if shape)


@functools.cache
def shapes_of(owner: Callable | type) -> dict[str, Allowed]:
    """What each array among the arguments of a function, or the fields of a class, may be."""
    found = {}
    fields = getattr(owner, "__dataclass_fields__", {}).values()  # a class has its bases' too
    annotations = {field.name: field.type for field in fields} or inspect.get_annotations(owner)
    for name, annotation in annotations.items():
        options = typing.get_args(annotation) or [annotation]
        texts = [option.dim_str for option in options if hasattr(option, "dim_str")]
        if texts and texts != ["..."] and name != "return":  # a mask's shape is that of the scores
            found[name] = Allowed([*map(Shape.parse, texts), *[None] * (type(None) in options)])
    return found


def takes_arrays(*, fitting: str = "", finite: bool = False, hint: _Hint | None = None) -> Callable:
    """Decorate a function of arrays: it is given what `bind` returns, and refuses what that does.

    `fitting` is the argument that is the layer; the rest is as in `bind`.
    """

    def decorate(function: Callable) -> Callable:
        names = [*inspect.signature(function).parameters]  # to bind it anew at each call is slow

        @functools.wraps(function)
        def with_arrays(*positional: object, **named: object) -> object:
            values = dict(zip(names, positional, strict=False)) | named
            given = {name: values[name] for name in shapes_of(function) if name in values}
            arrays = bind(function, **given, fitting=values.get(fitting), finite=finite, hint=hint)
            values |= zip(given, arrays, strict=True)
            bound = [values[name] for name in names[: len(positional)]]
            named = {name: values[name] for name in named}
            return function(*bound, *positional[len(names) :], **named)

        return with_arrays

    return decorate


def bind(
    owner: Callable | type,
    *,
    fitting: object = None,
    finite: bool = False,
    hint: _Hint | None = None,
    **values: object,
) -> list[np.ndarray | None]:
    """Turn arguments into arrays that have the shapes of their annotations.

    Args:
        owner: The function whose arguments, or the class whose fields, the values are.
        fitting: An instance whose fields are bound already; the sizes have to agree with theirs.
        finite: Whether to refuse NaN and infinity.
        hint: What to add about one array that has the wrong number of axes, or about two that
            disagree. It is called only then, with a guess which of the two is transposed (empty
            if neither seems to be) and their shapes by name.
        values: The arguments by name; one that is None stays None.

    Returns:
        The arrays in the order given. Leading axes of one name are broadcast against each other.
    """
    hint = hint or (lambda guess, shapes: guess)
    # For each symbol the first array that has it: the next one that disagrees is named beside it.
    first: dict[str, _Bound] = {}
    for name, allowed in shapes_of(type(fitting)).items() if fitting is not None else ():
        if (array := getattr(fitting, name)) is not None:
            weight = _Bound(name, array, allowed[0], accepted=True)
            first = {symbol: weight for symbol, _ in weight.sizes} | first
    bound = {}
    for name, value in values.items():
        allowed = shapes_of(owner)[name]
        if value is None and None in allowed:
            continue
        new = bound[name] = _bind_one(name, value, allowed, hint)
        # Sizes are compared one symbol after the other, so the message is about the first misfit.
        for symbol, size in new.sizes:
            other = first.setdefault(symbol, new)
            if other is not new and size != other.size(symbol):
                raise ValueError(_disagreement(symbol, other, new, first, hint))
        if finite:
            check_finite(name, new.array)
    arrays = _broadcast(bound)
    return [arrays.get(name) for name in values]


def bind_fields(instance: object, hint: _Hint | None = None) -> None:
    """Bind the fields of a frozen dataclass that are arrays: they become read-only copies."""
    fields = {name: getattr(instance, name) for name in shapes_of(type(instance))}
    for name, array in zip(fields, bind(type(instance), **fields, hint=hint), strict=True):
        if array is not None:
            array = array.copy()
            array.flags.writeable = False
            object.__setattr__(instance, name, array)  # the way around frozen=True


class _Bound:
    """An array that has the axes of a shape; `accepted` if it came with an instance."""

    def __init__(self, name: str, array: np.ndarray, shape: Shape, accepted: bool = False):
        self.name, self.array, self.shape, self.accepted = name, array, shape, accepted
        leading = array.ndim - len(shape.axes)
        self.batch, named = array.shape[:leading], array.shape[leading:]
        self.sizes = [*zip(shape.axes, named, strict=True)]

    def size(self, symbol: str) -> int:
        return dict(self.sizes)[symbol]

    def size_if_transposed(self, symbol: str) -> int | None:
        (row, rows), (column, columns) = self.sizes[-2:]
        return {row: columns, column: rows}.get(symbol)


def _bind_one(name: str, value: object, allowed: Allowed, hint: _Hint) -> _Bound:
    array = as_floats(name, value, allowed)
    fitting = [shape for shape in allowed if shape and shape.has_axes(array.ndim)]
    if fitting and 0 not in array.shape:
        return _Bound(name, array, fitting[0])
    why = ": an empty sequence or width." if fitting else f". {hint('', {name: array.shape})}"
    came = f"but has shape {array.shape}{why}".rstrip()
    raise ValueError(f"{name} must have shape {allowed}, {came}")


def _disagreement(
    symbol: str, a: _Bound, b: _Bound, first: Mapping[str, _Bound], hint: _Hint
) -> str:
    if a.accepted:
        sizes = {known: other.size(known) for known, other in first.items() if other.accepted}
        message = (
            f"{b.name} must have shape {b.shape.spell(sizes)}, because {a.name} has shape "
            f"{a.array.shape}, but has shape {b.array.shape}."
        )
    else:
        message = (
            f"{a.name} and {b.name} must agree in {_SPELLED.get(symbol, symbol)}, but "
            f"{a.name} has {a.size(symbol)} (shape {a.array.shape}) and "
            f"{b.name} has {b.size(symbol)} (shape {b.array.shape})."
        )
    guess = _guess_transposed(symbol, a, b)
    return f"{message} {hint(guess, {each.name: each.array.shape for each in (a, b)})}".rstrip()


def _guess_transposed(symbol: str, a: _Bound, b: _Bound) -> str:
    """Of two matrices, say which would fit if it were transposed; both may."""
    if min(len(a.sizes), len(b.sizes)) < 2:
        return ""
    pairs = ((a, b), (b, a))
    turned = [one for one, two in pairs if one.size_if_transposed(symbol) == two.size(symbol)]
    which = turned[0].name if len(turned) == 1 else "One of them"
    expected = " and ".join(f"{each.name} is {each.shape}" for each in turned)
    return f"{which} looks transposed: rows are tokens here, so {expected}." if turned else ""


def _broadcast(bound: Mapping[str, _Bound]) -> dict[str, np.ndarray]:
    arrays = {name: each.array for name, each in bound.items()}
    for batch in {each.shape.batch for each in bound.values()} - {""}:
        together = [each for each in bound.values() if each.shape.batch == batch]
        if len({each.batch for each in together}) == 1:
            continue  # the most common case: nothing to broadcast
        try:
            leading = np.broadcast_shapes(*(each.batch for each in together))
        except ValueError:
            found = ", ".join(f"{each.name} {each.array.shape}" for each in together)
            raise ValueError(
                f"The {batch} axes, which come first, must broadcast against each other, but the "
                f"shapes are {found}."
            ) from None
        for each in together:
            named = each.array.shape[len(each.batch) :]
            arrays[each.name] = np.broadcast_to(each.array, leading + named)
    return arrays


def from_bfloat16(value: object) -> object:
    """An array in bfloat16, which NumPy has not, in float32, which begins alike; others as is."""
    if "bfloat16" not in str(getattr(value, "dtype", "")):
        return value
    return value.detach().float() if hasattr(value, "detach") else np.asarray(value, np.float32)


def as_floats(name: str, value: object, expected: object) -> np.ndarray:
    """`value` as an array of floating-point numbers."""
    if value is None or isinstance(value, str | Mapping):
        came = f"a {type(value).__name__}" if isinstance(value, Mapping) else repr(value)
        raise TypeError(f"{name} must be an array of shape {expected}, but is {came}.")
    if hasattr(value, "state_dict"):
        raise TypeError(
            f"{name} must be an array of shape {expected}, but is a {type(value).__name__}. Pass "
            "its weight: where X @ W is meant, .weight.T of nn.Linear, which stores (out, in)."
        )
    problem, value = None, detached(value)
    try:
        array = np.asarray(value)
        if array.dtype.kind == "f":
            return array
    except (TypeError, ValueError, RuntimeError) as error:
        problem, array = error, None
    if problem:
        message = f"be an array of shape {expected}: {str(problem).rstrip('.')}"
    else:
        message = (
            "hold floating-point numbers (float16, float32 or float64), but its dtype is "
            f"{array.dtype}"
        )
    raise TypeError(f"{name} must {message}. {_advice(name, value, array)}".rstrip()) from problem


def _advice(name: str, value: object, array: np.ndarray | None) -> str:
    """What to do with numbers that are no floats of NumPy."""
    dtype = str(getattr(value, "dtype", ""))
    if re.search("bfloat16|float8", dtype):
        wide = "call .float() on such a tensor, or .astype(np.float32) on such an array"
        scales = "; undo a quantisation first, with its scales" * ("float8" in dtype)
        return f"NumPy has no bfloat16 or float8: {wide}{scales}."
    if getattr(getattr(value, "device", None), "type", "") == "meta":
        return "A tensor on the device meta has a shape and no numbers: load them first."
    if array is None or array.dtype.kind not in "iu":
        return ""
    if array.dtype.itemsize == 1:
        return "Such numbers are quantised: multiply them by their scales, as their library does."
    in_place = "turn whole numbers into floats with .astype(float)."
    if re.match("X_|[QKV]$", name):
        return f"Token ids have to be embedded first; {in_place}"
    return in_place.capitalize()


def detached(value: object) -> object:
    """A tensor that requires a gradient cannot become an array."""
    return value.detach() if hasattr(value, "detach") else value


def as_mask(mask: object, shape: tuple[int, ...]) -> np.ndarray:
    """`mask` as a boolean array of the scores' shape: True where a query may attend to a key."""
    array = np.asarray(mask)
    # 0 and 1 are refused: libraries disagree in which of them hides.
    if array.dtype.kind != "b":
        raise TypeError(
            "mask must be boolean, True where a query may attend, but its dtype is "
            f"{array.dtype}. If 1 means may attend, pass mask.astype(bool); if 1 means padding, or "
            "if it is an additive mask (0 where allowed), pass mask == 0."
        )
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(
            f"mask must broadcast to the scores' shape {shape}, but has shape {array.shape}."
            + _if_padding(array.shape, shape)
        ) from None


def _if_padding(mask: tuple[int, ...], scores: tuple[int, ...]) -> str:
    """What is meant by a mask (batch, n_k), which has no axis for queries."""
    # Axes broadcast from the right, so the samples of (batch, n_k) would be taken for queries.
    between = len(scores) - 2
    if between < 1 or mask != (scores[0], scores[-1]):
        return ""
    meant = ", ".join([":"] + ["None"] * between + [":"])
    return (
        f" (batch, n_k) = {mask} hides keys, padding for instance, from all queries alike: pass "
        f"mask[{meant}]."
    )


def as_positions(
    positions: object, n_q: int, n_k: int, between: tuple
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of queries and keys as columns; those of a batch have an axis for its heads."""
    if positions is None:
        if n_q != n_k and (needs := [step for step in between if step.by_position]):
            raise ValueError(
                f"{needs[0]} depends on positions, and {n_q} queries of {n_k} keys may stand "
                "anywhere: pass positions=(i, j), whole numbers of the queries and of the keys."
            )
        positions = np.arange(n_q), np.arange(n_k)
    pair = positions if isinstance(positions, tuple) else (positions, positions)
    columns = []
    for of, n, p in zip(("queries", "keys"), (n_q, n_k), map(np.asarray, pair), strict=True):
        if p.dtype.kind not in "iu":
            raise TypeError(f"positions must be whole numbers, but those of {of} are {p.dtype}.")
        if p.shape[-1:] != (n,):
            raise ValueError(f"There are {n} {of}, but their positions have shape {p.shape}.")
        p = p.astype(np.int64)  # of unsigned numbers a difference is not below 0
        columns.append(p[:, None] if p.ndim == 1 else p[..., None, :, None])
    return tuple(columns)


def check_finite(name: str, array: np.ndarray) -> None:
    """Refuse NaN and infinity, naming the first place."""
    if not (finite := np.isfinite(array)).all():
        place = tuple(np.argwhere(~finite)[0].tolist())
        raise ValueError(
            f"{name} must be finite, but {name}{list(place)} is {array[place]} "
            f"({name} has shape {array.shape})."
        )


def check_one_of(name: str, value: object, known: Collection[str]) -> None:
    """Refuse a name that is not among those known."""
    if value not in tuple(known):
        raise ValueError(f"{name} must be one of {quote(known)}, but is {value!r}.")


def quote(names: Collection[str], most: int | None = None) -> str:
    """Names as a list in a message; where it is cut off, how many more there are."""
    more = f" and {len(names) - most} more" if most and len(names) > most else ""
    return ", ".join(map(repr, [*names][:most])) + more


def check_sizes(**sizes: object) -> None:
    """Refuse a size that is no positive whole number."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not (isinstance(size, Integral) and size >= 1):
            raise ValueError(f"{name} must be a positive whole number, but is {size!r}.")


def head_width(d_model: int, h: int) -> int:
    """The paper's d_k = d_model / h."""
    if d_model % h:
        raise ValueError(
            f"d_model = {d_model} is not divisible by h = {h}, so d_k = d_model / h is no whole "
            "number. Pass d_k, the width of one head."
        )
    return d_model // h


def check_positive(**numbers: float) -> None:
    """Refuse a number that is not above 0 and finite."""
    for name, value in numbers.items():
        try:
            positive = math.isfinite(value) and value > 0
        except (TypeError, OverflowError):  # a string, None, or 10**400
            positive = False
        if not positive:
            raise ValueError(f"{name} must be a positive number, but is {value!r}.")


def check_groups(h: int, h_kv: int) -> None:
    """Refuse heads of keys and values that do not serve as many heads of queries each."""
    if h % h_kv:
        raise ValueError(f"h_kv must divide h, but h_kv = {h_kv} and h = {h}.")


def refuse_steps(mh: object, changing: str, between: str, consequence: str) -> None:
    """Refuse a layer in which a step changes one of these between two maps; say what follows."""
    if steps := [step for step in mh.between if {*changing} & {*step.changes}]:
        raise ValueError(f"{steps[0]} stands between {between} in this layer, {consequence}")


# In float32 2 MiB, which a processor's cache can hold from their product to their use.
SCORES_AT_ONCE = 2**19


def shares_heads(attention: Callable) -> Callable:
    """Decorate `attention`: a head of keys and values may serve several heads of queries."""

    @functools.wraps(attention)
    def repeated(Q, K, V, **options):
        K, V = (repeat_heads(each, getattr(Q, "shape", ())) for each in (K, V))
        return attention(Q, K, V, **options)

    return repeated


def repeat_heads(array: object, shape: tuple[int, ...]) -> object:
    """The array with as many heads as the shape has, if it has a part of them."""
    if min(len(getattr(array, "shape", ())), len(shape)) < 3:
        return array
    h_kv, h = array.shape[-3], shape[-3]
    if not (1 < h_kv < h and h % h_kv == 0):  # one head is broadcast, and no other number fits
        return array
    return np.repeat(np.asarray(detached(array)), h // h_kv, -3)


def in_tiles(attention: Callable) -> Callable:
    """Decorate `attention`: where scores are many, never are they all in memory at once.

    Rows of the softmax are independent. So a tile of them, some queries with all their keys, is
    what the function gives for these queries alone. The arrays it takes are bound already.
    """

    @functools.wraps(attention)
    def tiled(Q, K, V, *, mask=None, scale=None, return_weights=False):
        scores = (*Q.shape[:-1], K.shape[-2])
        # No mask is one that allows each key. An overflow to minus infinity is not hidden by it.
        mask = as_mask(np.ones((1, K.shape[-2]), bool) if mask is None else mask, scores)
        if math.prod(scores) <= SCORES_AT_ONCE:
            return attention(Q, K, V, mask=mask, scale=scale, return_weights=return_weights)
        heads = np.empty((*Q.shape[:-1], V.shape[-1]), np.result_type(Q, K, V))
        weights = np.empty(scores if return_weights else 0, np.result_type(Q, K))
        for tile, rows in _tiles(scores):
            arrays, options = (Q[rows], K[tile], V[tile]), {"mask": mask[rows], "scale": scale}
            if return_weights:
                heads[rows], weights[rows] = attention(*arrays, **options, return_weights=True)
            else:
                heads[rows] = attention(*arrays, **options)
        return (heads, weights) if return_weights else heads

    return tiled


def _tiles(scores: tuple[int, ...]) -> Iterator[tuple[tuple, tuple]]:
    """Indices of leading axes, and the same with a range of queries, whose scores are few."""
    *batch, n_q, n_k = scores
    leading = 0
    while leading < len(batch) and math.prod(scores[leading:]) > SCORES_AT_ONCE:
        leading += 1
    queries = max(1, SCORES_AT_ONCE // (math.prod(batch[leading:]) * n_k))
    for tile in np.ndindex(*batch[:leading]):
        for start in range(0, n_q, queries):
            yield tile, (*tile, ..., slice(start, start + queries), slice(None))
