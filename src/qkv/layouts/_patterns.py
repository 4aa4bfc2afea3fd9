r"""The pattern language of layouts: which sizes share each stored axis, as "(h 3 d_k) d_model"."""

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

_ATOM = r"(?:[a-z]\w*|\d+)"
_TERM = rf"{_ATOM}(?:/{_ATOM})?"
_SIZE = re.compile(rf"{_TERM}(?:\+{_TERM})*")


@dataclass(frozen=True)
class Pattern:
    """One side of a pattern: a shape in symbols, of which several may share an axis.

    Args:
        axes: For each axis the sizes whose product it is: symbols, numbers, or a sum of symbols,
            numbers and quotients, such as h+h_kv+h_kv.

    Examples:
        >>> print(Pattern.parse("(h 3 d_k) d_model"))
        (h·3·d_k, d_model)
    """

    axes: tuple[tuple[str, ...], ...]

    @classmethod
    @cache
    def parse(cls, text: str) -> "Pattern":
        """Read one side of a pattern: sizes, and brackets around those that share an axis."""
        axes: list[tuple[str, ...]] = []
        group: list[str] | None = None  # the sizes since an open bracket
        for token in re.findall(r"[()]|[^\s()]+", text):
            if token == "(":
                if group is not None:
                    raise _fault(text, "has a bracket within brackets: sizes share one axis or not")
                group = []
            elif token == ")":
                if group is None:
                    raise _fault(text, "closes a bracket that is not open")
                if not group:
                    raise _fault(text, "has a pair of brackets without a size")
                axes.append(tuple(group))
                group = None
            elif not _SIZE.fullmatch(token):
                raise _fault(
                    text,
                    f"has {token!r}, which is no size: a name, a number, or a sum of such and of "
                    "quotients, h+h/h_kv",
                )
            elif group is None:
                axes.append((token,))
            else:
                group.append(token)
        if group is not None:
            raise _fault(text, "has a bracket that is not closed")
        if not axes:
            raise _fault(text, "names no axis")
        return cls(tuple(axes))

    def __str__(self):
        return self.spell()

    def spell(self, sizes: Mapping[str, int] | None = None) -> str:
        """Write the shape, with given sizes filled in and multiplied: "(24·d_k, 512)"."""
        axes = [_spell_product(axis, sizes) for axis in self.axes]
        return f"({axes[0]},)" if len(axes) == 1 else f"({', '.join(axes)})"

    def solve(self, name: str, shape: tuple[int, ...], sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes known so far and those that an array of this shape adds to them."""
        if len(shape) != len(self.axes):
            raise _misfit(name, self, shape, sizes)
        solved = dict(sizes)
        for axis, size in zip(self.axes, shape, strict=True):
            known, unknown = _known_and_unknown(axis, solved)
            # Numbers of heads are given, so of an axis only a width is unknown: what remains.
            if unknown and size and size % known == 0:
                solved[unknown[0]] = size // known
            elif unknown or size != known:
                why = _what_does_not_divide(axis, size, sizes)
                raise _misfit(name, self, shape, sizes, why)
        return solved


def _misfit(
    name: str, pattern: Pattern, shape: tuple[int, ...], sizes: Mapping[str, int], why: str = ""
) -> ValueError:
    """An array that does not have its shape at these sizes; `untold` leaves the sizes out."""
    came = f"but has shape {tuple(shape)}."
    error = ValueError(f"{name} must have shape {pattern} = {pattern.spell(sizes)}, {came}{why}")
    error.untold = f"{name} must have shape {pattern}, {came}"
    return error


def _fault(pattern: str, what: str) -> ValueError:
    return ValueError(f"Pattern {pattern!r} {what}.")


def _known_and_unknown(axis: tuple[str, ...], sizes: Mapping[str, int]) -> tuple[int, list[str]]:
    """The product of the sizes that are known, and the symbols of the others."""
    known = math.prod(size_of(symbol, sizes) or 1 for symbol in axis)
    return known, [symbol for symbol in axis if size_of(symbol, sizes) is None]


def _spell_product(axis: tuple[str, ...], sizes: Mapping[str, int] | None) -> str:
    known, unknown = _known_and_unknown(axis, sizes) if sizes is not None else (1, axis)
    spelled = [_spell_sum(size, alone=len(axis) == 1) for size in unknown]
    return "·".join([str(known)] * (len(unknown) < len(axis)) + spelled)


def _spell_sum(size: str, alone: bool) -> str:
    """Write a size, with equal terms of a sum counted: h+h_kv+h_kv is h+2·h_kv."""
    terms = Counter(size.split("+"))
    ones = [str(terms.pop("1"))] if "1" in terms and len(terms) > 1 else []
    counted = [term if times == 1 else f"{times}·{term}" for term, times in terms.items()]
    spelled = "+".join(counted + ones)
    return spelled if alone or not {"+", "/"} & {*spelled} else f"({spelled})"


def _what_does_not_divide(axis: tuple[str, ...], size: int, sizes: Mapping[str, int]) -> str:
    others = math.prod(int(symbol) for symbol in axis if symbol.isdigit())
    for symbol in axis:
        if {*names_in(symbol)} & {"h", "h_kv"} and size // others % (size_of(symbol, sizes) or 1):
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


@cache
def divisors(n: int) -> tuple[int, ...]:
    """The numbers that divide n, in order."""
    small = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return tuple(sorted({*small, *(n // d for d in small)}))
