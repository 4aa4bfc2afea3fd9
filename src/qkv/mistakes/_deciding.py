r"""What would tell mix-ups apart that give the same: other inputs are tried, and other weights."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from qkv.mistakes._layer import Given, Layer
from qkv.mistakes._registry import mix_ups
from qkv.mistakes._search import Problem, computed
from qkv.multi_head import MultiHead

_TOKENS, _MORE, _SHORT = 6, 9, 3
_LARGE = 2**20  # scores, above which only layers of few tokens are tried


def what_decides(problem: Problem, explanations: list[tuple[str, ...]]) -> tuple[str, bool]:
    """What to give next, in words, and whether it tells all of them apart.

    The first of the variations that tells most of them apart; nothing if none tells any apart.
    """
    best, most = "", 1
    for said, given in _variations(problem):
        outputs = [_output(given, names) for names in explanations]
        kinds = _count_kinds([output for output in outputs if output is not None])
        if kinds > most:
            best, most = said, kinds
        if most == len(explanations):
            break
    return best, most == len(explanations)


def _output(given: Given, names: tuple[str, ...]) -> np.ndarray | None:
    return computed(Layer(given, tuple(mix_ups()[name].planted for name in names)))


def _count_kinds(outputs: list[np.ndarray]) -> int:
    """How many there are that differ; where a mix-up does not exist, there is none of it."""
    kinds: list[np.ndarray] = []
    for output in outputs:
        if not any(_same(output, kind) for kind in kinds):
            kinds.append(output)
    return len(kinds)


def _same(one: np.ndarray, two: np.ndarray) -> bool:
    if one.shape != two.shape:
        return False
    defined = np.isfinite(one) & np.isfinite(two)  # a query that sees nothing may hold anything
    size = np.abs(one[defined]).max(initial=0)
    return np.allclose(one[defined], two[defined], rtol=0, atol=1e-6 * size)


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
        if self.mask == "none":
            return None
        causal = np.tri(self.n_q, self.n_k, dtype=bool)
        if self.mask == "other":
            shape = (self.samples, 1, self.n_q, self.n_k)
            return (rng.random(shape) < 0.6) | np.eye(self.n_q, self.n_k, dtype=bool)
        lengths = np.full((self.samples, 1, 1, 1), self.n_k)
        if self.mask != "causal":
            lengths[0 if "first" in self.mask else -1] = _SHORT
        padding = np.arange(self.n_k) < lengths
        return padding & causal if "causal" in self.mask else padding


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
        _kind(mask),
        min(2, len(mask)),
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
        "another sequence length": {"n_q": 11, "n_k": 11} if n_q == n_k else {"n_k": 11},
        "X_K that differs from X_Q": own,
        "X_V that differs from X_K": {"one_source_of_both": False},
        "n_q != n_k": own | {"n_k": _MORE},
        "no mask": {"mask": "none"},
        "a mask that is not causal": {"mask": "other"},
        "a causal mask": {"mask": "causal"},
        "a batch of two samples": {"samples": 2},
        "a causal mask with padding, and the last of two samples padded": {
            "samples": 2,
            "mask": "causal with padding",
        },
        "a causal mask with padding, and the first of two samples padded": {
            "samples": 2,
            "mask": "causal with padding of the first",
        },
        "three sources that differ, of two lengths": own
        | {"one_source_of_both": False, "n_k": _MORE},
        "a layer with biases": {"mh": dataclasses.replace(mh, **biases)},
        "a layer with random weights and biases": {"mh": _random(mh)},
        "a layer with another number of heads": {"mh": more_heads},
        "a layer of another width, where d_v is not d_k": {"mh": other},
        "three sources that differ, and a mask that is not causal": own
        | {"one_source_of_both": False, "mask": "other"},
    }
    if problem.right.products.size <= _LARGE:
        yield "random numbers as sources", _redrawn(problem)
    for said, change in variations.items():
        yield said, dataclasses.replace(case, **change).given()


def _redrawn(problem: Problem) -> Given:
    """What was given, with other sources of the same shapes; those that are equal stay so."""
    rng, drawn = np.random.default_rng(0), {}
    for name in ("X_Q", "X_K", "X_V"):
        X = problem.given.arrays[name]
        equal = (known for known in drawn if np.array_equal(problem.given.arrays[known], X))
        same = next(equal, None)
        drawn[name] = rng.normal(size=X.shape) if same is None else drawn[same]
    return dataclasses.replace(problem.given, arrays={**problem.given.arrays, **drawn})


def _kind(mask: np.ndarray) -> str:
    """Which of the masks of a case one is like."""
    if mask.all():
        return "none"
    seen = mask.any(axis=-2, keepdims=True)
    padding = np.broadcast_to(seen, mask.shape)
    causal = np.tri(*mask.shape[-2:], dtype=bool)
    of_the_first = " of the first" * (not seen[0].all() and len(mask) > 1)
    if np.array_equal(mask, padding):
        return f"padding{of_the_first}"
    if np.array_equal(mask, padding & causal):
        return "causal" if seen.all() else f"causal with padding{of_the_first}"
    return "other"


def _random(mh: MultiHead) -> MultiHead:
    rng = np.random.default_rng(2)
    weights = {name: getattr(mh, name) for name in ("W_Q", "W_K", "W_V", "W_O")}
    return dataclasses.replace(
        mh,
        **{name: rng.normal(size=W.shape, scale=W.shape[1] ** -0.5) for name, W in weights.items()},
    )
