r"""What would tell mistakes apart that give the same: other inputs are tried, and other weights."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from qkv.mistakes._known import known
from qkv.mistakes._layer import Inputs, Layer
from qkv.mistakes._search import Problem, computed
from qkv.multi_head import MultiHead

_TOKENS = 12  # at most, so that each try is quick


def what_decides(problem: Problem, explanations: list[tuple[str, ...]]) -> str:
    """A sentence about what to give next: what first tells most of the explanations apart."""
    best, most = "", 1
    for words, inputs in _variations(problem):
        steps = (tuple(known()[name].steps for name in names) for names in explanations)
        outputs = (computed(Layer(inputs, each)) for each in steps)
        kinds: list[np.ndarray] = []
        for output in outputs:  # None where a mistake cannot be made
            if output is not None and not any(_same(output, kind) for kind in kinds):
                kinds.append(output)
        if len(kinds) > most:
            best, most = words, len(kinds)
        if most == len(explanations):
            break
    if not best:
        return "They give the same on each input that was tried, so look at the code."
    return f"{'This' if most == len(explanations) else 'For some of them, this'} can: {best}."


def _same(one: np.ndarray, two: np.ndarray) -> bool:
    if one.shape != two.shape:
        return False
    defined = np.isfinite(one) & np.isfinite(two)  # a query that sees nothing may hold anything
    size = np.abs(one[defined]).max(initial=0)
    return np.allclose(one[defined], two[defined], rtol=0, atol=1e-6 * size)


def _variations(problem: Problem) -> Iterator[tuple[str, Inputs]]:
    """Inputs like those that were given, and then others, the nearest first: in words, and drawn.

    Three letters say which sources are equal: "QKK" is cross-attention with one memory.
    """
    mh, (X_Q, X_K, X_V) = problem.mh, problem.sources
    n_q, n_k = (min(X.shape[-2], _TOKENS) for X in (X_Q, X_K))
    k = "Q" if np.array_equal(X_Q, X_K) else "K"
    v = k if np.array_equal(X_K, X_V) else "V"
    memory = "QKK" if v == k else "QKV"
    mask = problem.inputs.arrays["mask"][-2:, :, :n_q, :n_k]
    shape = (2, 1, n_q, n_k)
    other = (np.random.default_rng(1).random(shape) < 0.6) | np.eye(n_q, n_k, dtype=bool)
    groups = mh.h // mh.h_kv
    sizes = {"h": mh.h, "h_kv": mh.h_kv, "d_k": mh.d_k, "d_v": mh.d_v}
    # Weights are drawn. The scale stays the layer's, and so do its steps where they fit.
    random = MultiHead.random(mh.d_model, bias=True, **sizes)
    random = replace(random, scale=mh.scale, between=mh.between)
    # No two of its sizes are equal, so a mistake that equal widths hide shows.
    wider = MultiHead.random(30, 5 * groups, h_kv=5, d_k=6, d_v=7, bias=True)
    wider = replace(wider, scale=mh.scale)

    yield "random numbers as sources", _drawn(mh, f"Q{k}{v}", n_q, n_k, mask)
    yield "X_K that differs from X_Q", _drawn(mh, memory, n_q, n_k, mask)
    yield "X_V that differs from X_K", _drawn(mh, f"Q{k}V", n_q, n_k, mask)
    yield (
        "more keys" if n_q != n_k else "n_q != n_k",
        _drawn(mh, memory, n_q, n_k + 3, np.array(True)),
    )
    yield "no mask", _drawn(mh, f"Q{k}{v}", n_q, n_k, np.array(True))
    yield "a causal mask", _drawn(mh, f"Q{k}{v}", n_q, n_k, np.tri(n_q, n_k, dtype=bool))
    yield "a mask that is not causal", _drawn(mh, f"Q{k}{v}", n_q, n_k, other)
    yield (
        "three sources that differ, and a mask that is not causal",
        _drawn(mh, "QKV", n_q, n_k, other),
    )
    yield "a layer with random weights and biases", _drawn(random, "QKV", n_q, n_k, mask)
    yield f"a layer of these sizes: {wider}", _drawn(wider, "QKV", n_q, n_k, other)


def _drawn(mh: MultiHead, letters: str, n_q: int, n_k: int, mask: np.ndarray) -> Inputs:
    """Random sources, two samples or as many as the mask has."""
    rng = np.random.default_rng(0)
    samples = mask.shape[0] if mask.ndim > 2 else 2
    sizes = {"Q": (n_q, mh.W_Q), "K": (n_k, mh.W_K), "V": (n_k, mh.W_V)}
    drawn = {x: rng.normal(size=(samples, n, W.shape[1])) for x, (n, W) in sizes.items()}
    positions = np.arange(n_q), np.arange(n_k)  # a rotation needs them where n_q != n_k
    return Inputs.of(mh, [drawn[letter] for letter in letters], mask, positions)
