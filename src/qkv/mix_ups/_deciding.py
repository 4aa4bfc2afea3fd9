r"""What would tell mix-ups apart that give the same: other inputs are tried, and other weights."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from qkv.heads import MultiHead
from qkv.mix_ups import mix_ups
from qkv.mix_ups._layer import Given, Layer
from qkv.mix_ups._search import Problem, computed

_TOKENS, _MORE = 6, 9


def what_decides(problem: Problem, explanations: list[tuple[str, ...]]) -> tuple[str, bool]:
    """What to give next, in words, and whether it tells all of them apart.

    The first of the variations that tells most of them apart; nothing if none tells any apart.
    """
    best, most = "", 1
    for said, given in _variations(problem):
        outputs = [_output(given, names) for names in explanations]
        kinds = _count_kinds(outputs)
        if kinds > most:
            best, most = said, kinds
    return best, most == len(explanations)


def _output(given: Given, names: tuple[str, ...]) -> np.ndarray | None:
    return computed(Layer(given, tuple(mix_ups()[name].planted for name in names)))


def _count_kinds(outputs: list[np.ndarray | None]) -> int:
    kinds: list[np.ndarray | None] = []
    for output in outputs:
        if not any(_same(output, kind) for kind in kinds):
            kinds.append(output)
    return len(kinds)


def _same(one: np.ndarray | None, two: np.ndarray | None) -> bool:
    if one is None or two is None or one.shape != two.shape:
        return one is two
    if not (np.isfinite(one).any() and np.isfinite(two).any()):
        return True  # nothing to compare
    size = np.abs(one[np.isfinite(one)]).max(initial=0)
    return np.allclose(one, two, rtol=0, atol=1e-6 * size, equal_nan=True)


@dataclasses.dataclass(frozen=True)
class _Case:
    """A layer and the kind of its inputs; the numbers are drawn."""

    mh: MultiHead
    n_q: int
    n_k: int
    one_source: bool
    one_source_of_both: bool
    mask: str
    samples: int

    def given(self) -> Given:
        rng = np.random.default_rng(0)
        widths = (self.mh.W_Q.shape[1], self.mh.W_K.shape[1], self.mh.W_V.shape[1])
        lengths = (self.n_q, self.n_k, self.n_k)
        sources = [
            rng.normal(size=(self.samples, n, width))
            for n, width in zip(lengths, widths, strict=True)
        ]
        if self.one_source:
            sources[1] = sources[0]
        if self.one_source_of_both:
            sources[2] = sources[1]
        return Given.of(self.mh, sources, self._mask(rng), np.float64)

    def _mask(self, rng: np.random.Generator) -> np.ndarray | None:
        causal = np.tri(self.n_q, self.n_k, dtype=bool)
        if self.mask in ("none", "causal"):
            return causal if self.mask == "causal" else None
        shape = (self.samples, 1, self.n_q, self.n_k)
        return (rng.random(shape) < 0.6) | np.eye(self.n_q, self.n_k, dtype=bool)


def _variations(problem: Problem) -> Iterator[tuple[str, Given]]:
    """Inputs like those that were given, and then others, the nearest first."""
    mh, (X_Q, X_K, X_V) = problem.mh, problem.sources
    mask, n_k = problem.given.arrays["mask"], problem.sources[1].shape[-2]
    n_q = problem.sources[0].shape[-2]
    case = _Case(
        mh,
        _TOKENS,
        _TOKENS if n_q == n_k else _MORE,
        np.array_equal(X_Q, X_K),
        np.array_equal(X_K, X_V),
        "none"
        if mask.all()
        else "causal"
        if not (mask & ~np.tri(n_q, n_k, dtype=bool)).any()
        else "other",
        max(1, len(mask) > 1 and 2),
    )
    own = {"one_source": False}
    biases = {
        f"b_{letter}": np.random.default_rng(1).normal(size=shape)
        for letter, shape in (
            ("Q", (mh.h, mh.d_k)),
            ("K", (mh.h_kv, mh.d_k)),
            ("V", (mh.h_kv, mh.d_v)),
            ("O", (mh.W_O.shape[-1],)),
        )
    }
    groups = max(1, mh.h // mh.h_kv)
    more_heads = MultiHead.random(30, 5 * groups, h_kv=5, d_k=6, bias=True)
    other = MultiHead.random(12, 2 * groups, h_kv=2, d_k=5, d_v=7, bias=True)
    variations = {
        "random numbers as sources": {},
        "another sequence length": {"n_q": 11, "n_k": 11} if n_q == n_k else {"n_k": 11},
        "X_K that differs from X_Q": own,
        "X_V that differs from X_K": {"one_source_of_both": False},
        "n_q != n_k": own | {"n_k": _MORE},
        "no mask": {"mask": "none"},
        "a mask that is not causal": {"mask": "other"},
        "a causal mask": {"mask": "causal"},
        "a batch of two samples": {"samples": 2},
        "three sources that differ, of two lengths": own
        | {"one_source_of_both": False, "n_k": _MORE},
        "a layer with biases": {"mh": dataclasses.replace(mh, **biases)},
        "a layer with random weights and biases": {"mh": _random(mh)},
        "a layer with another number of heads": {"mh": more_heads},
        "a layer of another width, where d_v is not d_k": {"mh": other},
        "three sources that differ, and a mask that is not causal": own
        | {"one_source_of_both": False, "mask": "other"},
    }
    for said, change in variations.items():
        yield said, dataclasses.replace(case, **change).given()


def _random(mh: MultiHead) -> MultiHead:
    rng = np.random.default_rng(2)
    weights = {name: getattr(mh, name) for name in ("W_Q", "W_K", "W_V", "W_O")}
    return dataclasses.replace(
        mh,
        **{name: rng.normal(size=W.shape, scale=W.shape[1] ** -0.5) for name, W in weights.items()},
    )
