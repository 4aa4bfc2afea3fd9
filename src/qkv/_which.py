r"""What an array may be, told from its shape alone: the paper's name for it, and what to ask."""

from collections.abc import Mapping
from dataclasses import dataclass

from qkv._shapes import check_groups, check_sizes, head_width
from qkv.rules import Rule, evaluate, known_sizes, rules


@dataclass(frozen=True)
class Candidate:
    """One thing that an array of a given shape may be.

    Args:
        symbol: Its name in the paper's terms, as `qkv` writes them: `W_Q[i]` belongs to one head,
            `W_Q` to all of them.
        what: What it is.
        axes: The shape in the paper's symbols. A raised dot multiplies: heads of width d_k side by
            side are h·d_k wide.
        convention: How a weight is stored: "(in, out)" is applied as `X @ W`, "(out, in)" as
            `X @ W.T`. Empty for what is no matrix of weights.
        why: The shape, number by number.
        question: What to ask of the code. Yes means this candidate.
    """

    symbol: str
    what: str
    axes: str
    convention: str
    why: str
    question: str


def which(
    *shape: int | None,
    d_model: int,
    h: int,
    h_kv: int | None = None,
    d_k: int | None = None,
) -> tuple[Candidate, ...]:
    """Tell what a weight or an activation of this shape may be in attention.

    A shape seldom decides. Every candidate of `qkv.rules` that fits is returned, the most common
    first, and each brings the question that would decide. Lengths and batches are unknown, so an
    array of weights may always be an activation of as many tokens as it has rows or columns.

    Args:
        shape: The sizes of the axes, as in `which(*array.shape, ...)`. None is a number of tokens
            or samples that is not known yet, as in Keras' (None, 5, 512).
        d_model: Width of the sources and of the output.
        h: Number of heads, $h$.
        h_kv: Number of heads of keys and values, $h_{kv}$; `h` where None.
        d_k: Width of one head, of its values too; `d_model / h` where None.

    Returns:
        The candidates, at least one.

    Raises:
        ValueError: If a size is not a positive whole number, if `d_k` is None and `d_model` is
            not divisible by `h`, if `h` is not by `h_kv`, or if no rule has this shape at these
            sizes.

    Examples:
        The weight of nn.MultiheadAttention.

        >>> candidate, *others = which(1536, 512, d_model=512, h=8)
        >>> candidate.symbol, candidate.convention, candidate.why
        ('W_Q, W_K and W_V', '(out, in)', '1536 = (h+2·h_kv)·d_k, 512 = d_model')

        A square matrix may be almost anything, and its orientation cannot be seen.

        >>> for candidate in which(512, 512, d_model=512, h=8)[:5]:
        ...     print(candidate.symbol, candidate.convention)
        W_Q, W_K or W_V (out, in)
        W_Q, W_K or W_V (in, out)
        W_O (out, in)
        W_O (in, out)
        P_Q, P_K or P_V (in, out) or (out, in)
    """
    given = {f"axis {axis} of the shape": size for axis, size in enumerate(shape)}
    check_sizes(**{axis: size for axis, size in given.items() if size is not None})
    check_sizes(d_model=d_model, h=h)
    h_kv = h if h_kv is None else h_kv
    d_k = head_width(d_model, h) if d_k is None else d_k
    check_sizes(h_kv=h_kv, d_k=d_k)
    check_groups(h, h_kv)
    sizes = {"d_model": d_model, "h": h, "h_kv": h_kv, "d_k": d_k}
    known = {size: evaluate(terms, sizes) for size, terms in known_sizes().items()}
    candidates = tuple(
        _candidate(rule, shape, known)
        for rule in rules(grouped=h_kv < h)
        if _fits(rule, shape, known)
    )
    if not candidates:
        sizes_are = ", ".join(f"{name} = {size}" for name, size in known.items())
        raise ValueError(
            f"No array of attention that is known here has shape {shape} at these sizes: "
            f"{sizes_are}. "
            "Where a head is not d_model / h wide, pass d_k."
        )
    return candidates


def _fits(rule: Rule, shape: tuple[int | None, ...], known: Mapping[str, int]) -> bool:
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


def _candidate(rule: Rule, shape: tuple[int | None, ...], known: Mapping[str, int]) -> Candidate:
    axes = rule.axes.split()
    why = ", ".join(
        f"{size} = {axis}" if axis in known else f"{axis} = {size}"
        for axis, size in zip(axes, shape, strict=True)
        if not axis.isdigit()
    )
    spelled = f"({axes[0]},)" if len(axes) == 1 else f"({', '.join(axes)})"
    return Candidate(rule.symbol, rule.what, spelled, rule.convention, why, rule.question)
