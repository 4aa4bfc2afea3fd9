r"""Why an output is not the layer's: what is asked, what was found, and how that is said."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Real

import numpy as np

from qkv._arrays import Bool, Float, as_floats, bind, check_finite, detached
from qkv.layouts import load
from qkv.mistakes._deciding import what_decides
from qkv.mistakes._intermediates import agreeing, as_intermediates, dropout, first_difference
from qkv.mistakes._known import known
from qkv.mistakes._search import Problem, Search, computed, explain
from qkv.multi_head import MultiHead


@dataclass(frozen=True)
class Explanation:
    """Mistakes that give the output.

    Args:
        mistakes: Their names; `qkv.mistakes.known()` says what each is.
        difference: By how much the output, or dropped weights, differ at most from those of a layer
            that has them.
    """

    mistakes: tuple[str, ...]
    difference: float

    def __str__(self):
        return ", and if ".join(known()[name].what for name in self.mistakes)


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found; it prints as sentences.

    Args:
        right: Whether the output is the layer's.
        difference: By how much it differs from the layer's at most.
        explanations: What gives the output, best first. Empty if the output is right, or if nothing
            that is known gives it.
        decide: What can tell several explanations apart; empty unless there are several.
        first_difference: What the intermediate arrays show, and whether the output is all zeros.
        unseen: Mistakes that, with these weights and inputs, change no output by more than 1e-5 of
            the largest, judged by some of the queries.
        untried: How many of the pairs that it makes were not tried, because time was up.
    """

    right: bool
    difference: float
    explanations: tuple[Explanation, ...] = ()
    decide: str = ""
    first_difference: str = ""
    unseen: tuple[str, ...] = ()
    untried: int = 0

    def __str__(self):
        return " ".join(filter(None, self._sentences()))

    def _sentences(self) -> Iterator[str]:
        if self.right:
            yield f"The output is right: it equals the layer's to {self.difference:.0e}."
            yield self.first_difference
            if "b_K-left-out" in self.unseen:
                yield "Whether b_K was added cannot be seen: the softmax cancels it."
        elif self.explanations:
            yield from self._explained()
        else:
            yield _NOT_FOUND
            yield f"It differs from the layer's by up to {self.difference:.2g}."
            yield self.first_difference or _WHAT_NEXT
        if self.untried:
            yield f"Time was up: {self.untried:,} pairs were not tried. Give fewer tokens."

    def _explained(self) -> Iterator[str]:
        for place, each in enumerate(self.explanations):
            also = "Also equal" if place else "Equal"
            if "dropout-of-weights" in each.mistakes:  # the output may have another mistake, too
                also = "The weights are equal"
            names = ", ".join(each.mistakes)
            yield f"{also} to {each.difference:.0e} if {each} ({names})."
        if len(self.explanations) == 1:
            names = self.explanations[0].mistakes
            yield from (known()[name].cure for name in names)
        else:
            yield f"What was given cannot tell them apart. {self.decide}"


_NOT_FOUND = "No known mistake explains the output, alone or in one of the pairs that are tried."
_WHAT_NEXT = (
    "Pass intermediates, such as the scores, to see where it first differs. If two calls give two "
    "outputs, dropout is on."
)


def diagnose(
    mh: MultiHead | Mapping | list,
    output: Float[np.ndarray, "*batch n_q d_out"],
    X_Q: Float[np.ndarray, "*#batch n_q d_model"],
    X_K: Float[np.ndarray, "*#batch n_k d_source_k"] | None = None,
    X_V: Float[np.ndarray, "*#batch n_k d_source_v"] | None = None,
    *,
    mask: Bool[np.ndarray, "..."] | None = None,
    positions: tuple | np.ndarray | None = None,
    intermediates: Mapping[str, np.ndarray] | None = None,
    layout: str | None = None,
    h: int | None = None,
    h_kv: int | None = None,
    prefix: str = "",
    tolerance: float | None = None,
) -> Diagnosis:
    r"""Tell which known mistake makes a layer give this output.

    Your layer runs, and its numbers are wrong. Give what it should have used, the weights, the
    sources and the mask, and what it returned. Each mistake of `qkv.mistakes` that fits is made in
    a plain layer, alone. If none of them gives your output within rounding, two are made at a
    time, in different steps, for some seconds. Both are not rare (`Mistake.rare`), change the
    output, and can be made in one sample: where the most queries see a key. If a batch is padded
    on the left, also give one padded sample alone. Dropout is looked for alone, in the numbers:
    dropout of weights, in `intermediates`. An explanation suffices; another mistake may have
    happened.

    Args:
        mh: The weights; or, with `layout`, what `load` takes.
        output: What your layer returned, `(*batch, n_q, d_out)`. Where a mask hides each key of a
            query, it may hold NaN.
        X_Q: Source of the queries.
        X_K: Source of the keys; `X_Q` where None.
        X_V: Source of the values; `X_K` where None.
        mask: True where a query may attend, as in `MultiHead`: what your layer should have used.
        positions: Those of queries and keys, as in `MultiHead.attend`.
        intermediates: What your layer had on the way, by name: any of "Q", "K", "V" (projected,
            per head), "scores" (scaled), "weights", "heads", each with the heads before
            the tokens, and "joined", the heads side by side. They tell where the numbers first
            differ, and may tell two explanations apart.
        layout: The layout of stored arrays, one of `qkv.layouts.layouts()`, if `mh` is not a
            `MultiHead`.
        h: The number of heads of stored arrays.
        h_kv: Their number of heads of keys and values; `h` where None.
        prefix: What the names of stored arrays begin with.
        tolerance: How far the output may be off, relative to its largest number; where None, what
            the precision of its numbers leaves. Give 0.03 for a layer that computed in half
            precision. It may be too little if scores reach tens (bfloat16) or hundreds (float16).

    Returns:
        What was found; `print` shows it as sentences.

    Raises:
        TypeError: As in `load` and a call of the layer, or if stored arrays come without `layout`
            or `h`, a `MultiHead` with what is for them, or `intermediates` as no mapping.
        ValueError: As there, or if the output holds NaN or infinity that nothing explains, the mask
            hides everything, an intermediate array does not fit or has another name, or
            `tolerance` is not between 0 and 1.

    Examples:
        A layer that forgets the scale, written by hand.

        >>> mh = MultiHead.random(6, 2)
        >>> X = np.random.default_rng(1).normal(size=(5, 6))
        >>> Q, K, V = mh.project(X)
        >>> S = np.exp(Q @ K.swapaxes(-1, -2))
        >>> A = S / S.sum(axis=-1, keepdims=True)
        >>> output = (A @ V @ mh.W_O).sum(axis=0)
        >>> found = diagnose(mh, output, X)
        >>> found.explanations[0].mistakes
        ('scale-missing',)
    """
    mh = _as_layer(mh, layout, h, h_kv, prefix)
    problem = _problem(mh, output, (X_Q, X_K, X_V), mask, positions, tolerance)
    given = as_intermediates({} if intermediates is None else intermediates, problem)
    with np.errstate(all="ignore"):
        search = Search(problem)
        empty = "" if problem.size or not problem.difference else "The output holds zeros only."
        found = [] if empty else explain(problem, search, dropout(problem, given))
        if all("dropout-of-weights" in names for names, _ in found):  # it explains no output
            # A query that sees nothing has no right output, so its numbers may be any.
            defined = np.isfinite(problem.right.output)
            numbers = np.where(defined, problem.output, 0).reshape(np.shape(output))
            check_finite("output", numbers)
        found = agreeing(found, problem, given)
        shown = {name for names, _ in found for name in names}
        # The softmax cancels the bias of the keys; the keys, the scores or a step may show it.
        if {"K", "scores"} & {*given} or (mh.between and _changes_output(problem, "b_K-left-out")):
            shown.add("b_K-left-out")
        unseen = tuple(name for name in search.idle if name not in shown)
        right = any(names == () for names, _ in found)
        return Diagnosis(
            right=right,
            difference=problem.difference,
            explanations=() if right else tuple(Explanation(*each) for each in found),
            decide=what_decides(problem, [names for names, _ in found]) if found[1:] else "",
            first_difference=" ".join(filter(None, (empty, first_difference(problem, given)))),
            unseen=unseen,
            untried=search.untried,
        )


def _changes_output(problem: Problem, name: str) -> bool:
    """Whether a mistake changes the output at all: screened are a few queries only."""
    right, other = problem.right.output, computed(problem.layer((name,)))
    atol = 1e-8 * problem.size
    return other is not None and not np.allclose(right, other, rtol=0, atol=atol, equal_nan=True)


def _as_layer(
    mh: object, layout: str | None, h: int | None, h_kv: int | None, prefix: str
) -> MultiHead:
    if not isinstance(mh, MultiHead):
        if layout is None or h is None:
            found = " Pass what its load() gives." * hasattr(mh, "load")
            raise TypeError(
                "mh must be a MultiHead, or stored arrays with layout and h, but is a "
                f"{type(mh).__name__} with layout = {layout!r} and h = {h!r}.{found}"
            )
        return load(mh, layout, h=h, h_kv=h_kv, prefix=prefix)
    if layout is not None or h is not None or h_kv is not None or prefix:
        raise TypeError("layout, h, h_kv and prefix are for stored arrays, but mh is a MultiHead.")
    return mh


def _problem(
    mh: MultiHead,
    output: object,
    sources: tuple[object, object, object],
    mask: object,
    positions: object,
    tolerance: float | None,
) -> Problem:
    """What was given, if its arrays fit each other."""
    if isinstance(output, tuple) and any(each is None or hasattr(each, "shape") for each in output):
        raise TypeError(
            f"output must be one array, but is a tuple of {len(output)}: nn.MultiheadAttention "
            "returns (output, weights), pass the first."
        )
    output, X_Q, X_K, X_V = map(detached, (output, *sources))
    mask = None if mask is None else np.asarray(mask)
    X_K = X_Q if X_K is None else X_K
    X_V = X_K if X_V is None else X_V
    right = mh(X_Q, X_K, X_V, mask=mask, positions=positions)  # refuses what does not fit
    if mask is not None and not np.any(mask):
        raise ValueError("mask hides all keys from all queries, so there is nothing to compare.")
    output = as_floats("output", output, right.shape)
    if output.shape != right.shape:
        raise ValueError(
            f"output must have shape {right.shape}, but has shape {output.shape}."
            f"{_which_shape(mh, output.shape, right.shape)}"
        )
    if tolerance is not None and not (isinstance(tolerance, Real) and 0 < tolerance < 1):
        raise ValueError(f"tolerance must be between 0 and 1, but is {tolerance!r}.")
    sources = bind(MultiHead.__call__, X_Q=X_Q, X_K=X_K, X_V=X_V)
    return Problem(mh, sources, mask, output, tolerance, positions)


def _which_shape(mh: MultiHead, shape: tuple[int, ...], right: tuple[int, ...]) -> str:
    """What an output of another shape may be."""
    *batch, n_q, _ = right
    known = {
        (*batch, mh.h, n_q, mh.d_v): "These are the heads, which are not joined yet.",
        (*batch, n_q, mh.h, mh.d_v): "These are the heads, which are not joined yet.",
        (*batch, n_q, mh.h * mh.d_v): "These are the joined heads: W_O is not applied yet.",
        (n_q, *batch, right[-1]): "The axes of the batch and of the tokens are exchanged.",
    }
    return f" {known[shape]}" if shape in known else ""
