r"""What an array may be, told from its shape alone: the paper's name for it, and what to ask."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from qkv._shapes import check_groups, check_sizes, head_width


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


class Rule(NamedTuple):
    """A shape and what it may mean.

    `axes` holds the symbols of the sizes, with a space between; the rest is as in `Candidate`.
    """

    axes: str
    symbol: str
    what: str
    convention: str
    question: str


_IN_OUT, _OUT_IN = "(in, out)", "(out, in)"

# The most common first. `{}` is a letter of Q, K and V, `{h}` the number of heads it has.
_RULES = (
    # Weights of all heads in one matrix.
    Rule(
        "(h+2·h_kv)·d_k d_model",
        "W_Q, W_K and W_V",
        "the projections of all heads, packed one below the other",
        _OUT_IN,
        "Does the code compute X @ W.T, as nn.Linear does, and cut the result into Q, K and V "
        "(first into three, or first into heads)?",
    ),
    Rule(
        "d_model (h+2·h_kv)·d_k",
        "W_Q, W_K and W_V",
        "the projections of all heads, packed side by side",
        _IN_OUT,
        "Does the code compute X @ W, as GPT-2's Conv1D does, and cut the result into Q, K and V?",
    ),
    Rule(
        "{h}·d_k d_model",
        "W_{}",
        "one projection for all heads, packed one below the other",
        _OUT_IN,
        "Does the code compute X @ W.T, as nn.Linear does, on a source and cut the result "
        "into heads?",
    ),
    Rule(
        "d_model {h}·d_k",
        "W_{}",
        "one projection for all heads, packed side by side",
        _IN_OUT,
        "Does the code compute X @ W on a source and cut the result into heads?",
    ),
    Rule(
        "d_model h·d_k",
        "W_O",
        "the map after the heads, packed",
        _OUT_IN,
        "Does the code put the heads side by side and then compute heads @ W.T, as nn.Linear does?",
    ),
    Rule(
        "h·d_k d_model",
        "W_O",
        "the map after the heads: the paper's W^O",
        _IN_OUT,
        "Does the code put the heads side by side and then compute heads @ W?",
    ),
    Rule(
        "2·h_kv·d_k d_model",
        "W_K and W_V",
        "the keys' and values' projections of all heads, packed one below the other",
        _OUT_IN,
        "Does the code compute X @ W.T and cut the result into K and V?",
    ),
    Rule(
        "d_model 2·h_kv·d_k",
        "W_K and W_V",
        "the keys' and values' projections of all heads, packed side by side",
        _IN_OUT,
        "Does the code compute X @ W and cut the result into K and V?",
    ),
    # Weights with an axis of heads, or of one head.
    Rule(
        "{h} d_model d_k",
        "W_{}",
        "one matrix per head, heads first",
        _IN_OUT,
        "Is X @ W[i] the projection of head i?",
    ),
    Rule(
        "d_model {h} d_k",
        "W_{}",
        "one matrix per head, heads in the middle",
        _IN_OUT,
        "Is X @ W[:, i] the projection of head i, as in Keras and Flax?",
    ),
    Rule(
        "h d_k d_model",
        "W_O",
        "the map after each head, one matrix per head",
        _IN_OUT,
        "Is it applied after the softmax, head i @ W[i], and summed over heads?",
    ),
    Rule(
        "{h} d_k d_model",
        "W_{}",
        "one matrix per head, each transposed",
        _OUT_IN,
        "Is X @ W[i].T the projection of head i?",
    ),
    Rule(
        "d_model d_k",
        "W_{}[i]",
        "the projection of one head, the paper's shape",
        _IN_OUT,
        "Does X @ W give one head's queries, keys or values, to be cut no further?",
    ),
    Rule(
        "d_k d_model",
        "W_{}[i]",
        "the projection of one head, transposed",
        _OUT_IN,
        "Does X @ W.T give one head's queries, keys or values, to be cut no further?",
    ),
    Rule(
        "d_k d_model",
        "W_O[i]",
        "the rows of the paper's W^O that one head meets",
        _IN_OUT,
        "Is it applied after the softmax, to one head?",
    ),
    Rule(
        "d_model d_k",
        "W_O[i]",
        "the rows of the paper's W^O that one head meets, transposed",
        _OUT_IN,
        "Is it applied after the softmax, to one head, as W.T?",
    ),
    # Square maps.
    Rule(
        "d_model d_model",
        "P_Q, P_K or P_V",
        "a map of the source before the heads' own",
        f"{_IN_OUT} or {_OUT_IN}",
        "Does a second matrix, with nothing in between, follow before the scores?",
    ),
    Rule(
        "d_model d_model",
        "W_QK[i] or W_VO[i]",
        "two maps of one head merged into one",
        _IN_OUT,
        "Is it the only matrix between the two sources of a score, or between a source and the "
        "output?",
    ),
    Rule(
        "h d_model d_model",
        "W_QK or W_VO",
        "two maps merged into one, for each head",
        _IN_OUT,
        "Is each the only matrix between the two sources of a score, or between a source and "
        "the output?",
    ),
    # Biases.
    Rule(
        "(h+2·h_kv)·d_k",
        "b_Q, b_K and b_V",
        "the biases of all heads, packed",
        "",
        "Is it added to what is cut into Q, K and V?",
    ),
    Rule(
        "{h}·d_k",
        "b_{}",
        "one projection's biases of all heads, packed",
        "",
        "Is it added to a projected source, before that is cut into heads?",
    ),
    Rule("d_model", "b_O", "the bias of the output", "", "Is it added after the heads are mapped?"),
    Rule(
        "2·h_kv·d_k",
        "b_K and b_V",
        "the biases of keys and values, packed",
        "",
        "Is it added to what is cut into K and V?",
    ),
    Rule("{h} d_k", "b_{}", "one bias per head", "", "Is row i added to a projection of head i?"),
    Rule(
        "d_k",
        "b_{}[i]",
        "the bias of one head",
        "",
        "Is it added to the queries, keys or values of one head?",
    ),
    # What flows through.
    Rule(
        "n d_model",
        "X_Q, X_K, X_V or the output",
        "one sequence, before the projections or after the layer",
        "",
        "Is it what the layer takes or returns, one row a token?",
    ),
    Rule(
        "batch n d_model",
        "X_Q, X_K, X_V or the output",
        "sequences, before the projections or after the layer",
        "",
        "Is it what the layer takes or returns (batch first, or tokens first)?",
    ),
    Rule(
        "n d_k",
        "{}[i]",
        "what enters equation (1) in one head",
        "",
        "Is it a projected source, cut into heads already?",
    ),
    Rule(
        "{h} n d_k",
        "{}",
        "what enters equation (1), heads first",
        "",
        "Is it a projected source, one head after the other?",
    ),
    Rule(
        "n {h} d_k",
        "{}",
        "what enters equation (1), tokens first",
        "",
        "Is it a projected source, cut into heads where it stands?",
    ),
    Rule(
        "batch {h} n d_k",
        "{}",
        "what enters equation (1), heads before tokens",
        "",
        "Is it a projected source with the axes of heads and tokens exchanged?",
    ),
    Rule(
        "batch n {h} d_k",
        "{}",
        "what enters equation (1), tokens before heads",
        "",
        "Is it a projected source, cut into heads where it stands?",
    ),
    Rule(
        "n {h}·d_k",
        "{}",
        "a projected source of one sequence, not cut into heads yet",
        "",
        "Does a reshape into heads follow?",
    ),
    Rule(
        "batch n {h}·d_k",
        "{}",
        "projected sources, not cut into heads yet",
        "",
        "Does a reshape into heads follow?",
    ),
    Rule(
        "n h·d_k",
        "Concat(head_1, ..., head_h)",
        "the heads of one sequence, side by side",
        "",
        "Does W_O follow?",
    ),
    Rule(
        "batch n h·d_k",
        "Concat(head_1, ..., head_h)",
        "the heads, side by side",
        "",
        "Does W_O follow?",
    ),
    Rule(
        "n (h+2·h_kv)·d_k",
        "Q, K and V",
        "a projected source of one sequence, packed",
        "",
        "Is it cut into Q, K and V next?",
    ),
    Rule(
        "batch n (h+2·h_kv)·d_k",
        "Q, K and V",
        "projected sources, packed",
        "",
        "Is it cut into Q, K and V next?",
    ),
    Rule(
        "batch h n_q n_k",
        "S or A",
        "the scores of all heads, or their softmax",
        "",
        "Does one row belong to a query and one column to a key?",
    ),
    Rule(
        "h n_q n_k",
        "S or A",
        "the scores of all heads for one sequence, or their softmax",
        "",
        "Does one row belong to a query and one column to a key?",
    ),
    Rule(
        "n_q n_k",
        "S[i], A[i] or a mask",
        "the scores of one head, their softmax, or what may attend to what",
        "",
        "Does one row belong to a query and one column to a key?",
    ),
)


def which(
    *shape: int,
    d_model: int,
    h: int,
    h_kv: int | None = None,
    d_k: int | None = None,
) -> tuple[Candidate, ...]:
    """Tell what a weight or an activation of this shape may be in attention.

    A shape seldom decides. All candidates that fit are returned, the most common first, and each
    brings the question that would decide. Lengths and batches are unknown, so an array of weights
    may always be an activation of as many tokens as it has rows.

    Args:
        shape: The sizes of the axes, as in `which(*array.shape, ...)`.
        d_model: Width of the sources and of the output.
        h: Number of heads, $h$.
        h_kv: Number of heads of keys and values, $h_{kv}$; `h` where None.
        d_k: Width of one head, of its values too; `d_model / h` where None.

    Returns:
        The candidates, at least one.

    Raises:
        ValueError: If a size is not a positive whole number, if `d_k` is None and `d_model` is
            not divisible by `h`, if `h` is not by `h_kv`, or if nothing
            in attention has this shape at these sizes.

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
    check_sizes(**{f"axis {axis} of the shape": size for axis, size in enumerate(shape)})
    check_sizes(d_model=d_model, h=h)
    h_kv = h if h_kv is None else h_kv
    d_k = head_width(d_model, h) if d_k is None else d_k
    check_sizes(h_kv=h_kv, d_k=d_k)
    check_groups(h, h_kv)
    sizes = known_sizes(d_model, h, h_kv, d_k)
    candidates = tuple(
        _candidate(rule, shape, sizes)
        for rule in rules(grouped=h_kv < h)
        if _fits(rule, shape, sizes)
    )
    if not candidates:
        known = ", ".join(f"{symbol} = {size}" for symbol, size in sizes.items())
        raise ValueError(
            f"Nothing in attention has shape {shape} at these sizes: {known}. Where a head is not "
            "d_model / h wide, pass d_k."
        )
    return candidates


def rules(*, grouped: bool) -> tuple[Rule, ...]:
    """List every shape that an array of attention may have, the most common first.

    Args:
        grouped: Whether keys and values have fewer heads than queries.

    Returns:
        The rules that `which` goes by.

    Examples:
        >>> rules(grouped=True)[2][:2]
        ('h·d_k d_model', 'W_Q')
    """
    return tuple(spelt for rule in _RULES for spelt in _spell(rule, grouped))


def known_sizes(d_model: int, h: int, h_kv: int, d_k: int) -> dict[str, int]:
    """Compute what the symbols in the axes of a rule stand for; all others are free.

    Args:
        d_model: Width of the sources and of the output.
        h: Number of heads, $h$.
        h_kv: Number of heads of keys and values, $h_{kv}$.
        d_k: Width of one head.

    Returns:
        A size for each symbol.

    Examples:
        >>> known_sizes(512, 8, 8, 64)["(h+2·h_kv)·d_k"]
        1536
    """
    return {
        "d_model": d_model,
        "h": h,
        "h_kv": h_kv,
        "d_k": d_k,
        "h·d_k": h * d_k,
        "h_kv·d_k": h_kv * d_k,
        "2·h_kv·d_k": 2 * h_kv * d_k,
        "(h+2·h_kv)·d_k": (h + 2 * h_kv) * d_k,
    }


def _spell(rule: Rule, grouped: bool) -> Iterator[Rule]:
    """The rule for the letters that have as many heads: Q, K and V, or Q apart from K and V."""
    if "{}" not in rule.symbol:
        yield rule
        return
    for h, letters in [("h", "Q"), ("h_kv", "KV")] if grouped else [("h", "QKV")]:
        *first, last = (rule.symbol.format(letter) for letter in letters)
        symbol = f"{', '.join(first)} or {last}" if first else last
        yield rule._replace(axes=rule.axes.format(h=h), symbol=symbol)


def _fits(rule: Rule, shape: tuple[int, ...], sizes: Mapping[str, int]) -> bool:
    """Whether each axis has the size that its symbol stands for; lengths and batches are free."""
    symbols = rule.axes.split()
    return len(symbols) == len(shape) and all(
        sizes.get(symbol, size) == size for symbol, size in zip(symbols, shape, strict=True)
    )


def _candidate(rule: Rule, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Candidate:
    symbols = rule.axes.split()
    why = ", ".join(
        f"{size} = {symbol}" if symbol in sizes else f"{symbol} = {size}"
        for symbol, size in zip(symbols, shape, strict=True)
    )
    axes = f"({symbols[0]},)" if len(symbols) == 1 else f"({', '.join(symbols)})"
    return Candidate(rule.symbol, rule.what, axes, rule.convention, why, rule.question)
