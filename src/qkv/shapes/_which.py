r"""What an array may be, told from its shape alone: the paper's name for it, and what to ask."""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache

from qkv._arrays import check_groups, check_sizes, head_width
from qkv.layouts import layouts
from qkv.layouts._patterns import divisors
from qkv.shapes._candidates import Candidate, Candidates, Chain, KnownShape
from qkv.shapes._chain import in_a_row
from qkv.shapes.rules import Rule, evaluate, known_sizes, rules

# Sizes that tell the shapes of stored arrays apart.
_PROBE = (
    {"d_model": 11, "h": 20, "h_kv": 5, "d_k": 13}
    | dict.fromkeys(("d_source", "d_source_k", "d_source_v", "d_out"), 11)
    | {"d_v": 13}
)


def which(
    *shape: int | tuple[int | None, ...] | None,
    d_model: int,
    h: int,
    h_kv: int | None = None,
    d_k: int | None = None,
) -> Candidates | Chain:
    """Tell what a weight or an activation of this shape may be in attention.

    A shape seldom decides. Every candidate of `qkv.shapes.rules` that fits is returned, the most
    common first, and each brings the question that would decide. A matrix of weights may always be
    an activation, of as many tokens as it has rows or columns.

    Several shapes may stand in a row, as in "x is (10, 512), then 512x512, then 512x64". Then each
    is what the one before it can be multiplied by, so a reading of one shape that fits no reading
    of the next is left out. All weights of a row are stored alike. An array with one column a token
    is read at the start of a row only, so `Q[i] @ K[i].T` is no row here.

    Args:
        shape: The sizes of the axes, as in `which(*array.shape, ...)`; or several shapes, each a
            tuple. None is a number of tokens or samples that is not known yet, as in Keras'
            (None, 5, 512).
        d_model: Width of the sources and of the output.
        h: Number of heads, $h$.
        h_kv: Number of heads of keys and values, $h_{kv}$; `h` where None.
        d_k: Width of one head, of its values too; `d_model / h` where None.

    Returns:
        The candidates, at least one: a tuple that prints as a text. Of several shapes, a tuple of
        such tuples.

    Raises:
        ValueError: If a size is not a positive whole number, if `h` does not divide `d_model` where
            `d_k` is None, or `h_kv` not `h`. Also if no rule has this shape at these sizes, or if
            shapes in a row do not follow each other.

    Examples:
        The weight of nn.MultiheadAttention.

        >>> candidate, *others = which(1536, 512, d_model=512, h=8)
        >>> candidate.symbol, candidate.convention, candidate.why
        ('W_Q, W_K and W_V', '(out, in)', '1536 = (h+2·h_kv)·d_k, 512 = d_model')

        What comes before and after a square matrix can tell: here it is a second map, before the
        heads' own.

        >>> for candidates in which((10, 512), (512, 512), (512, 64), d_model=512, h=8):
        ...     print(candidates.shape, [candidate.symbol for candidate in candidates])
        (10, 512) ['X_Q, X_K, X_V or the output']
        (512, 512) ['P_Q, P_K or P_V']
        (512, 64) ['W_Q[i], W_K[i] or W_V[i]']
    """
    check_sizes(d_model=d_model, h=h)
    sizes = {"d_model": d_model, "h": h, "h_kv": h if h_kv is None else h_kv}
    sizes["d_k"] = head_width(d_model, h) if d_k is None else d_k
    check_sizes(**sizes)
    check_groups(h, sizes["h_kv"])
    free = {name for name, size in {"h_kv": h_kv, "d_k": d_k}.items() if size is None}
    # A whole number of NumPy has a shape too, (), and is a size.
    if not any(isinstance(each, tuple | list) or getattr(each, "shape", ()) for each in shape):
        return _which_one(shape, sizes, free)
    for each in shape:
        if getattr(each, "shape", ()):
            raise ValueError(
                f"which takes sizes, but came with an array of shape {tuple(each.shape)}: pass "
                "which(*array.shape, ...)."
            )
        if len(shape) == 1 or not isinstance(each, tuple | list):
            raise ValueError(
                f"axis {shape.index(each)} of the shape must be a positive whole number, but is "
                f"{each!r}. Of one array pass which(*shape, ...), of several in a row their shapes."
            )
    return in_a_row([_which_one(tuple(each), sizes, free) for each in shape])


def _which_one(shape: KnownShape, sizes: Mapping[str, int], free: Collection[str]) -> Candidates:
    """The candidates for one shape; sizes that are free were not given."""
    given = {f"axis {axis} of the shape": size for axis, size in enumerate(shape)}
    check_sizes(**{axis: size for axis, size in given.items() if size is not None})
    shape = tuple(size if size is None else int(size) for size in shape)
    known = _known(sizes)
    grouped = sizes["h_kv"] < sizes["h"]
    candidates = Candidates(
        _candidate(rule, shape, known, grouped)
        for rule in rules(grouped=grouped)
        if _fits(rule, shape, known)
    )
    candidates.shape, candidates.at_other_sizes = shape, _at_other_sizes(shape, sizes, free)
    if not candidates:
        sizes_are = ", ".join(f"{name} = {size}" for name, size in known.items())
        raise ValueError(
            f"No array of attention that is known here has shape {shape} at these sizes: "
            f"{sizes_are}. Where a head is not d_model / h wide, pass d_k."
            + "".join(
                f" If {changed}, it may be {'; '.join(more)}."
                for changed, more in candidates.at_other_sizes.items()
            )
        )
    return candidates


_sums = cache(known_sizes)


def _known(sizes: Mapping[str, int]) -> dict[str, int]:
    return {size: evaluate(terms, sizes) for size, terms in _sums().items()}


def _fits(rule: Rule, shape: KnownShape, known: Mapping[str, int]) -> bool:
    axes = rule.axes.split()
    return len(axes) == len(shape) and all(
        _may_be(axis, size, known) for axis, size in zip(axes, shape, strict=True)
    )


def _may_be(axis: str, size: int | None, known: Mapping[str, int]) -> bool:
    """Whether an axis may have this size; numbers of tokens and samples are free."""
    if size is None:
        return axis not in known and not axis.isdigit()
    if axis == "batch·h":
        return size % known["h"] == 0
    return size == (int(axis) if axis.isdigit() else known.get(axis, size))


def _candidate(rule: Rule, shape: KnownShape, known: Mapping[str, int], grouped: bool) -> Candidate:
    axes = rule.axes.split()
    why = ", ".join(
        f"{size} = {axis}" if axis in known else f"{axis} = {size}"
        for axis, size in zip(axes, shape, strict=True)
        if not axis.isdigit()
    )
    spelled = f"({axes[0]},)" if len(axes) == 1 else f"({', '.join(axes)})"
    texts = rule.symbol, rule.what, spelled, rule.convention, why, rule.question
    return Candidate(*texts, _stored_by(rule, grouped))


@cache
def _stored_by(rule: Rule, grouped: bool) -> tuple[str, ...]:
    """The layouts that store what a rule is about, in its shape."""
    letters = re.findall(r"[Wb]_[QKVO]\b(?!\[)", rule.symbol)
    fused = " and " in rule.symbol
    sizes = _PROBE | ({} if grouped else {"h_kv": _PROBE["h"]})
    known = _known(sizes)
    names = {}
    for layout in layouts().values():
        for stored in (stored for form in layout.forms for stored in form.stored):
            fits = {*letters} == {*stored.parts} if fused else {*stored.parts} <= {*letters}
            shape = tuple(known.get(axis) for axis in rule.axes.split())
            if fits and (layout.grouped or not grouped) and stored.shape_for(sizes) == shape:
                names.setdefault(layout.name, {})[stored.name] = None
    return tuple(f"{layout}: {', '.join(stored)}" for layout, stored in names.items())


def _at_other_sizes(
    shape: KnownShape, sizes: Mapping[str, int], free: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """What weights or biases a shape may be, if sizes that were not given are other ones."""
    more: dict[str, dict[str, None]] = {}
    listed = set()
    for count, changed, reading in sorted(_readings(shape, sizes, free), key=lambda each: each[0]):
        # What one other size explains need not be explained by two.
        if count == 1 or (count == 2 and reading not in listed):
            more.setdefault(changed, {})[reading] = None
        listed.add(reading)
    return {changed: tuple(readings) for changed, readings in more.items()}


def _readings(
    shape: KnownShape, sizes: Mapping[str, int], free: Collection[str]
) -> Iterator[tuple[int, str, str]]:
    """How many sizes have to be other ones, which, and what the shape may be then."""
    every = (False, True) if "h_kv" in free else (sizes["h_kv"] < sizes["h"],)
    for grouped in every:
        for rule in rules(grouped=grouped):
            if len(every) == 2 and grouped and "h_kv" not in rule.axes:
                continue  # the same as without groups
            if others := [*_other_sizes(rule, shape, sizes, free, grouped)]:
                changed = _changed_sizes(others, rule, shape, sizes)
                yield *changed, f"{rule.symbol} {rule.convention}".rstrip()


def _other_sizes(
    rule: Rule, shape: KnownShape, sizes: Mapping[str, int], free: Collection[str], grouped: bool
) -> Iterator[dict[str, int]]:
    """The sizes with which a rule fits a shape, if those that are free may be other ones."""
    axes = rule.axes.split()
    if len(axes) != len(shape) or None in shape or not {*axes} <= {*_sums()}:
        return  # a number of tokens fits anyway
    h = sizes["h"]
    for h_kv in divisors(h)[:-1] if grouped and "h_kv" in free else [h]:
        counts = {**sizes, "h_kv": h_kv} if "h_kv" in free else {**sizes}
        widths = {sizes["d_k"]}
        if "d_k" in free:
            of_one = _known({**counts, "d_k": 1})
            # An axis with d_k in it is a multiple of d_k: the width that fills it.
            pairs = zip(axes, shape, strict=True)
            widths |= {size // of_one[axis] for axis, size in pairs if "d_k" in axis}
        for d_k in sorted(widths):
            # Nobody has heads of one number, or heads that are wider than the model.
            usual = d_k == sizes["d_k"] or 1 < d_k <= sizes["d_model"]
            if usual and _fits(rule, shape, _known({**counts, "d_k": d_k})):
                yield {**counts, "d_k": d_k}


def _changed_sizes(
    others: list[dict[str, int]], rule: Rule, shape: KnownShape, sizes: Mapping[str, int]
) -> tuple[int, str]:
    """How many sizes have to be other ones, and which; of many pairs what they have in common."""
    changed = [[name for name in ("h_kv", "d_k") if each[name] != sizes[name]] for each in others]
    fewest = min(changed, key=len)
    if len(fewest) == 2 and len(others) > 1:
        axes = zip(rule.axes.split(), shape, strict=True)
        sizes_are = [f"{axis} = {size}" for axis, size in axes if axis not in sizes]
    else:
        solution = others[changed.index(fewest)]
        sizes_are = [f"{name} = {solution[name]}" for name in fewest]
    return len(fewest), " and ".join(sizes_are)
