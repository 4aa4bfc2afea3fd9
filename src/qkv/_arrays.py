r"""What may come in: a shape is stated once, and its check and its message are read off from there.

The statement is the annotation of an argument, `Float[np.ndarray, "*#batch n_q d_k"]`, or a
layout's pattern, `"(3 h d_k) d_model"`. Every refusal quotes the name, what came and what was
expected.
"""

import inspect
import math
import re
import typing
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from numbers import Integral

import numpy as np

_NO_FLOATS = (
    "Token ids have to be embedded first; turn whole-numbered vectors into floats with "
    ".astype(float)."
)
NARROW = (
    "NumPy has no bfloat16 or float8: call .float() on such a tensor, or .astype(np.float32) on "
    "such an array; on a tensor of an accelerator call .cpu(); undo a quantisation first."
)
_SPELLED = {"h": "h, the number of heads", "h_kv": "h_kv, the number of heads of keys and values"}
_Hint = Callable[[str, Mapping[str, tuple[int, ...]]], str]


@dataclass(frozen=True)
class Shape:
    """A shape in symbols.

    Args:
        axes: For each axis the sizes whose product it is: symbols, numbers, or a sum of symbols,
            numbers and quotients, such as h+h_kv+h_kv.
        batch: The name of the leading axes, of which there may be any number; empty if there may
            be none.

    Examples:
        >>> print(Shape.parse("*#batch n_q d_k"), Shape.parse("(h 3 d_k) d_model"))
        (..., n_q, d_k) (h·3·d_k, d_model)
    """

    axes: tuple[tuple[str, ...], ...]
    batch: str = ""

    @classmethod
    @cache
    def parse(cls, text: str) -> "Shape":
        """Read the shape in an annotation, or one side of a pattern."""
        axes = re.findall(r"\([^)]*\)|\S+", text)
        batch = axes.pop(0).lstrip("*#") if axes[0][0] in "*." else ""
        return cls(tuple(tuple(axis.strip("()").split()) for axis in axes), batch)

    def has_axes(self, number: int) -> bool:
        """Whether an array of this shape may have so many axes."""
        return number == len(self.axes) or (bool(self.batch) and number > len(self.axes))

    def __str__(self):
        return self.spell()

    def spell(self, sizes: Mapping[str, int] | None = None) -> str:
        """Write the shape, with given sizes filled in and multiplied: "(24·d_k, 512)"."""
        axes = ["..."] * bool(self.batch) + [_spell_product(axis, sizes) for axis in self.axes]
        return f"({axes[0]},)" if len(axes) == 1 else f"({', '.join(axes)})"

    def solve(self, name: str, shape: tuple[int, ...], sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes known so far and those that an array of this shape adds to them."""
        misfit = (
            f"{name} must have shape {self} = {self.spell(sizes)}, but has shape {tuple(shape)}."
        )
        if not self.has_axes(len(shape)):
            raise ValueError(misfit)
        solved = dict(sizes)
        for axis, size in zip(self.axes, shape, strict=True):
            known, unknown = _split(axis, solved)
            if unknown and size and size % known == 0:
                solved[unknown[0]] = size // known
            elif unknown or size != known:
                raise ValueError(misfit + _if_not_divided(axis, size, sizes))
        return solved


def _split(axis: tuple[str, ...], sizes: Mapping[str, int]) -> tuple[int, list[str]]:
    """The product of the sizes that are known, and the symbols of the others."""
    known = math.prod(size_of(symbol, sizes) or 1 for symbol in axis)
    return known, [symbol for symbol in axis if size_of(symbol, sizes) is None]


def _spell_product(axis: tuple[str, ...], sizes: Mapping[str, int] | None) -> str:
    known, unknown = _split(axis, sizes) if sizes is not None else (1, axis)
    spelled = [_spell_sum(size, alone=len(axis) == 1) for size in unknown]
    return "·".join([str(known)] * (len(unknown) < len(axis)) + spelled)


def _spell_sum(size: str, alone: bool) -> str:
    """Write a size, with equal terms of a sum counted: h+h_kv+h_kv is h+2·h_kv."""
    terms = Counter(size.split("+"))
    ones = [str(terms.pop("1"))] if "1" in terms and len(terms) > 1 else []
    counted = [term if times == 1 else f"{times}·{term}" for term, times in terms.items()]
    spelled = "+".join(counted + ones)
    return spelled if alone or not {"+", "/"} & {*spelled} else f"({spelled})"


def _if_not_divided(axis: tuple[str, ...], size: int, sizes: Mapping[str, int]) -> str:
    others = math.prod(int(symbol) for symbol in axis if symbol.isdigit())
    for symbol in axis:
        if {*names_in(symbol)} & {*_SPELLED} and size // others % (size_of(symbol, sizes) or 1):
            spelled = _spell_sum(symbol, alone=True)
            return f" {spelled} = {size_of(symbol, sizes)} does not divide {size // others}."
    return ""


def names_in(size: str) -> list[str]:
    """The symbols in a size."""
    return re.findall(r"[a-z]\w*", size)


def size_of(size: str, sizes: Mapping[str, int]) -> int | None:
    """What a symbol, a number, or a sum of such and of quotients is; None if that is not known."""
    terms = [_quotient(*term.split("/"), sizes=sizes) for term in size.split("+")]
    return None if None in terms else sum(terms)


def _quotient(of: str, by: str = "1", *, sizes: Mapping[str, int]) -> int | None:
    size, divisor = (int(each) if each.isdigit() else sizes.get(each) for each in (of, by))
    if size is None or divisor is None:
        return None
    if size % divisor:
        by_size = by if by.isdigit() else f"{by} = {divisor}"
        raise ValueError(f"{by_size} must divide {of}, but {of} = {size}.")
    return size // divisor


@dataclass(frozen=True)
class Allowed:
    """The shapes that an argument may have, and whether it may be None."""

    shapes: tuple[Shape, ...]
    none: bool

    def __str__(self):
        return " or ".join(map(str, self.shapes))


@cache
def shapes_of(owner: Callable | type) -> dict[str, Allowed]:
    """What each array among the arguments of a function, or the fields of a class, may be."""
    found = {}
    for name, annotation in inspect.get_annotations(owner).items():
        options = typing.get_args(annotation) or [annotation]
        shapes = [Shape.parse(option.dim_str) for option in options if hasattr(option, "dim_str")]
        if shapes:
            found[name] = Allowed(tuple(shapes), none=type(None) in options)
    return found


def bind(
    owner: Callable | type,
    *,
    fitting: object = None,
    finite: bool = False,
    hint: _Hint = lambda guess, shapes: guess,
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
    first: dict[str, _Bound] = {}  # for each symbol, the first array that has it
    for name, allowed in shapes_of(type(fitting)).items() if fitting is not None else ():
        if (array := getattr(fitting, name)) is not None:
            weight = _Bound(name, array, allowed.shapes[0], accepted=True)
            first = {symbol: weight for symbol, _ in weight.sizes} | first
    bound = {}
    for name, value in values.items():
        allowed = shapes_of(owner)[name]
        if value is None and allowed.none:
            continue
        new = bound[name] = _bind_one(name, value, allowed, hint)
        for symbol, size in new.sizes:
            other = first.setdefault(symbol, new)
            if other is not new and size != other.size(symbol):
                raise ValueError(_disagreement(symbol, other, new, first, hint))
        if finite:
            check_finite(name, new.array)
    arrays = _broadcast(bound)
    return [arrays.get(name) for name in values]


class _Bound:
    """An array that has the axes of a shape; `accepted` if it came with an instance."""

    def __init__(self, name: str, array: np.ndarray, shape: Shape, accepted: bool = False):
        self.name, self.array, self.shape, self.accepted = name, array, shape, accepted
        leading = array.ndim - len(shape.axes)
        self.batch, named = array.shape[:leading], array.shape[leading:]
        self.sizes = [(axis[0], size) for axis, size in zip(shape.axes, named, strict=True)]

    def size(self, symbol: str) -> int:
        return dict(self.sizes)[symbol]

    def size_if_transposed(self, symbol: str) -> int | None:
        (row, rows), (column, columns) = self.sizes[-2:]
        return {row: columns, column: rows}.get(symbol)


def _bind_one(name: str, value: object, allowed: Allowed, hint: _Hint) -> _Bound:
    array = as_floats(name, value, allowed)
    fitting = [shape for shape in allowed.shapes if shape.has_axes(array.ndim)]
    if fitting and 0 not in array.shape:
        return _Bound(name, array, fitting[0])
    why = ": an empty sequence or width." if fitting else f". {hint('', {name: array.shape})}"
    raise ValueError(f"{name} must have shape {allowed}, but has shape {array.shape}{why}".rstrip())


def _disagreement(
    symbol: str, a: _Bound, b: _Bound, first: Mapping[str, _Bound], hint: _Hint
) -> str:
    if a.accepted:
        sizes = {known: other.size(known) for known, other in first.items() if other.accepted}
        said = (
            f"{b.name} must have shape {b.shape.spell(sizes)}, because {a.name} has shape "
            f"{a.array.shape}, but has shape {b.array.shape}."
        )
    else:
        said = (
            f"{a.name} and {b.name} must agree in {_SPELLED.get(symbol, symbol)}, but "
            f"{a.name} has {a.size(symbol)} (shape {a.array.shape}) and "
            f"{b.name} has {b.size(symbol)} (shape {b.array.shape})."
        )
    guess = _guess_transposed(symbol, a, b)
    return f"{said} {hint(guess, {each.name: each.array.shape for each in (a, b)})}".rstrip()


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
            continue
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


def as_floats(name: str, value: object, expected: object, advice: str = _NO_FLOATS) -> np.ndarray:
    """`value` as an array of floating-point numbers."""
    if value is None or isinstance(value, str | Mapping):
        came = f"a {type(value).__name__}" if isinstance(value, Mapping) else repr(value)
        raise TypeError(f"{name} must be an array of shape {expected}, but is {came}.")
    if re.search("bfloat16|float8", str(getattr(value, "dtype", ""))):
        advice = NARROW
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"{name} must be an array of shape {expected}: {error}. {advice}"
        ) from error
    if array.dtype.kind != "f":
        raise TypeError(
            f"{name} must hold floating-point numbers (float16, float32 or float64), but its "
            f"dtype is {array.dtype}. {advice}"
        )
    return array


def detached(value: object) -> object:
    """A tensor that requires a gradient cannot become an array."""
    return value.detach() if hasattr(value, "detach") else value


def as_mask(mask: object, shape: tuple[int, ...]) -> np.ndarray:
    """`mask` as a boolean array of the scores' shape: True where a query may attend to a key."""
    array = np.asarray(mask)
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
    between = len(scores) - 2
    if between < 1 or mask != (scores[0], scores[-1]):
        return ""
    meant = ", ".join([":"] + ["None"] * between + [":"])
    return (
        f" (batch, n_k) = {mask} hides keys, padding for instance, from all queries alike: pass "
        f"mask[{meant}]."
    )


def check_finite(name: str, array: np.ndarray) -> None:
    """Refuse NaN and infinity, naming the first place."""
    if not (finite := np.isfinite(array)).all():
        place = tuple(np.argwhere(~finite)[0].tolist())
        raise ValueError(
            f"{name} must be finite, but {name}{list(place)} is {array[place]} "
            f"({name} has shape {array.shape})."
        )


def check_scores(largest: np.ndarray) -> None:
    """Refuse scores of which the largest of a row is NaN or infinite."""
    if not np.isfinite(largest).all():
        raise ValueError(
            "The scores must be finite, but hold NaN or infinity; their dtype is "
            f"{largest.dtype}. Where Q and K are finite their product has overflowed: scale it "
            "down or use a wider dtype."
        )


def check_one_of(name: str, value: object, known: Collection[str]) -> None:
    """Refuse a name that is not among those known."""
    if value not in known:
        raise ValueError(f"{name} must be one of {quote(known)}, but is {value!r}.")


def quote(names: Collection[str], most: int | None = None) -> str:
    """Names as a list in a message; where it is cut off, how many more there are."""
    more = f" and {len(names) - most} more" if most and len(names) > most else ""
    return ", ".join(map(repr, [*names][:most])) + more


def succeeds(attempt: Callable[..., object], *arguments: object) -> bool:
    """Whether a call refuses nothing."""
    with suppress(TypeError, ValueError):
        attempt(*arguments)
        return True
    return False


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


@cache
def divisors(n: int) -> tuple[int, ...]:
    """The numbers that divide n, in order."""
    small = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return tuple(sorted({*small, *(n // d for d in small)}))


def head_counts(h: int, h_kv: int | None) -> dict[str, int]:
    """How many heads there are; of keys and values as many as of queries, unless it is said."""
    h_kv = h if h_kv is None else h_kv
    check_sizes(h=h, h_kv=h_kv)
    check_groups(h, h_kv)
    return {"h": int(h), "h_kv": int(h_kv)}


def check_groups(h: int, h_kv: int) -> None:
    """Refuse heads of keys and values that do not serve as many heads of queries each."""
    if h % h_kv:
        raise ValueError(f"h_kv must divide h, but h_kv = {h_kv} and h = {h}.")
