r"""Which mix-ups give an output: each is planted alone, and then two at a time.

A layer is tried in single precision, and on a part of what was given: a few queries of two samples,
or more where a mix-up lets queries or samples have a part in each other's outputs. What survives is
computed in double precision, on everything.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np

from qkv.mistakes._layer import Given, Layer
from qkv.mistakes._mix_up import MixUp
from qkv.mistakes._registry import mix_ups
from qkv.multi_head import MultiHead

# How far an output may be from what explains it, relative to its largest number: what rounding
# leaves as a rule; what it leaves where steps are in a lower precision, or where scores are large.
_TOLERANCES = {
    "float64": (1e-9, 1e-5),
    "float32": (5e-6, 1e-4),
    "float16": (2e-3, 5e-3),
    "bfloat16": (1e-2, 3e-2),
}
# Where a mask hides everything, nothing is compared; so little is left that two mix-ups may fit by
# chance.
_COMPARED = 0.5
_AS_GOOD = 10  # times as far off as the best explanation
_SCREENED = 2e-3  # the mean difference, relative, that single precision may leave on the way
_NO_EFFECT = 1e-5
_QUERIES, _COLUMNS = 8, 16  # how many are screened, of two samples
_KEPT = 2**20  # numbers in a source, or scores, up to which layers are kept to be used again

Found = list[tuple[tuple[str, ...], float]]


class Problem:
    """A layer, what it was given, and the output that came.

    Args:
        mh: The weights.
        sources: X_Q, X_K and X_V, with the same leading axes.
        mask: True where a query may attend, in any of the shapes that `MultiHead` takes.
        output: What came, in the shape of the right output.
        tolerance: How far the output may be off, relative to its largest number.
    """

    def __init__(
        self,
        mh: MultiHead,
        sources: list[np.ndarray],
        mask: np.ndarray | None,
        output: np.ndarray,
        tolerance: float | None = None,
    ):
        self.mh, self.sources, self.mask = mh, sources, mask
        self.output = output.reshape(-1, *output.shape[-2:])
        self.size = float(np.abs(self.output[np.isfinite(self.output)]).max(initial=0))
        self.tolerances = (tolerance,) if tolerance else _TOLERANCES[_precision(output)]
        self.given = Given.of(mh, sources, mask, np.float64)
        self.right = Layer(self.given)
        self.difference = self.difference_of(())

    @cached_property
    def in_single(self) -> dict[str, np.ndarray]:
        """The arrays that were given, in single precision."""
        arrays = self.given.arrays.items()
        return {name: X if X.dtype == bool else X.astype(np.float32) for name, X in arrays}

    def layer(self, names: tuple[str, ...]) -> Layer:
        """The layer with these mix-ups, in double precision."""
        if not names:
            return self.right
        planted = tuple(mix_ups()[name].planted for name in names)
        return Layer(self.given, planted, ((self.right, frozenset().union(*planted)),))

    def difference_of(self, names: tuple[str, ...]) -> float:
        """By how much the output differs at most from the layer's with these mix-ups."""
        output = computed(self.layer(names))
        if output is None or output.shape != self.output.shape:
            return np.inf
        compared = np.isfinite(output) | np.isnan(self.output)
        if len(names) > 1 and compared.mean() < _COMPARED:
            return np.inf
        far = _difference(output, self.output)
        return float(far.max()) if far.size >= self.output.shape[-1] else np.inf


def _difference(output: np.ndarray, came: np.ndarray) -> np.ndarray:
    """The absolute differences where an output is defined, and infinity where NaN came."""
    defined = np.isfinite(output)
    return np.nan_to_num(np.abs(output - came)[defined], nan=np.inf, posinf=np.inf)


def computed(layer: Layer) -> np.ndarray | None:
    """A layer's output; None if it would stop with an error."""
    try:
        with np.errstate(all="ignore"):
            return layer.output
    except (ValueError, IndexError):
        return None


def _precision(output: np.ndarray) -> str:
    """The precision of the numbers, which a wider dtype may hold."""
    precision = output.dtype.name if output.dtype.name in _TOLERANCES else "float64"
    numbers = output[np.isfinite(output)]
    if len(np.unique(numbers)) < 64:  # so few may be round by chance
        return precision
    single = numbers.astype(np.float32)
    if precision == "float64" and np.array_equal(numbers, single):
        precision = "float32"
    if precision == "float32" and not (single.view(np.uint32) & 0xFFFF).any():
        return "bfloat16"
    if precision == "float32" and np.array_equal(single, single.astype(np.float16)):
        return "float16"
    return precision


class _Part:
    """Some samples, some of their queries and some columns of the output, in single precision.

    Args:
        problem: What was given.
        mixes: Of what all have to be there.
    """

    def __init__(self, problem: Problem, mixes: frozenset[str]):
        batch, n_q, d_out = problem.output.shape
        everything = "samples" in mixes
        samples = np.arange(batch) if everything else _samples(problem)
        queries = None if everything or "queries" in mixes else _some(n_q, _QUERIES)
        columns = None if "columns" in mixes or d_out <= _COLUMNS else slice(_COLUMNS)
        arrays = dict(problem.in_single)
        for name in ("X_Q", "X_K", "X_V", "mask"):
            arrays[name] = arrays[name][samples]
        self.given = dataclasses.replace(
            problem.given, arrays=arrays, queries=queries, columns=columns
        )
        self.samples = samples
        self.came = self.cut(problem.output[samples])
        self.right = Layer(self.given)
        computed(self.right)

    def cut(self, output: np.ndarray) -> np.ndarray:
        """Of an output of the same samples, what this part has."""
        if self.given.queries is not None and output.shape[1] != len(self.given.queries):
            output = output[:, self.given.queries]
        if self.given.columns is not None and output.shape[2] > _COLUMNS:
            output = output[:, :, self.given.columns]
        return output


class Search:
    """The layers that were tried on a problem.

    Args:
        problem: What was given.
        beside: Mix-ups that may be what is right: one that changes nothing alone is tried if it
            does so beside one of these.
    """

    def __init__(self, problem: Problem, beside: Iterable[str] = ()):
        self.problem, self._beside = problem, tuple(beside)
        self._few = max(_SCREENED, problem.tolerances[-1]) * problem.size
        self._parts: dict[frozenset[str], _Part] = {}
        self._least = self._part(frozenset())
        self._kept: dict[str, Layer] = {}
        self._outputs: dict[str, np.ndarray] = {}
        self._alone: list[str] = []
        for name, mix_up in mix_ups().items():
            if mix_up.planted:
                self._try(name, mix_up)

    def alone(self) -> Found:
        """The mix-ups that give the output, each by itself."""
        return self._confirmed((name,) for name in self._alone)

    def in_pairs(self) -> Found:
        """The pairs of mix-ups that give the output; those that need all queries come last."""
        pairs = itertools.combinations((mix_ups()[name] for name in self._classes), 2)
        found: Found = []
        for _, alike in itertools.groupby(sorted(pairs, key=_cost), key=_cost):
            found += self._confirmed(self._survivors(alike))
            if any(far <= self.problem.tolerances[0] * self.problem.size for _, far in found):
                break
        return found

    @cached_property
    def without_effect(self) -> tuple[str, ...]:
        """The mix-ups that change nothing here, judged by the part that is screened."""
        return tuple(name for name in self._idle if not self._changes_beside(name))

    @cached_property
    def _idle(self) -> tuple[str, ...]:
        """The mix-ups that change nothing here alone."""
        right = self._least.right.output
        return tuple(name for name, output in self._outputs.items() if self._equal(output, right))

    def _changes_beside(self, name: str) -> bool:
        for other in self._beside:
            part = self._part(mix_ups()[name].mixes | mix_ups()[other].mixes)
            mixed = mix_ups()[other], mix_ups()[name]
            one, both = computed(self._layer(part, mixed[:1])), computed(self._layer(part, mixed))
            if one is not None and (both is None or not self._equal(both, one)):
                return True
        return False

    def _part(self, mixes: frozenset[str]) -> _Part:
        if mixes not in self._parts:
            self._parts[mixes] = _Part(self.problem, mixes)
        return self._parts[mixes]

    def _try(self, name: str, mix_up: MixUp) -> None:
        part = self._part(mix_up.mixes)
        layer = self._layer(part, (mix_up,))
        output = computed(layer)
        if output is None or output.shape != part.came.shape:
            return
        if self._survives(output, part):
            self._alone.append(name)
        if len(part.samples) != len(self._least.samples):
            output = output[self._least.samples]
        self._outputs[name] = self._least.cut(output)
        largest = max(part.given.arrays["X_K"].size, layer.products.size)
        if "samples" not in mix_up.mixes and largest <= _KEPT:
            self._kept[name] = layer

    def _layer(self, part: _Part, mixed: tuple[MixUp, ...]) -> Layer:
        """The layer with these mix-ups, which takes what it can from layers that were tried."""
        known = [(part.right, _steps(mixed))]
        if len(part.samples) == len(self._least.samples):
            kept = ((self._kept.get(each.name), each) for each in mixed)
            known += [
                (layer, _steps(other for other in mixed if other is not each)
                 | _parts_differ(layer.given, part.given))
                for layer, each in kept if layer is not None
            ]  # fmt: skip
        return Layer(part.given, (each.planted for each in mixed), known)

    def _survives(self, output: np.ndarray, part: _Part) -> bool:
        if output.shape != part.came.shape:
            return False
        mean = np.abs(output - part.came).mean()
        if np.isfinite(mean):
            return bool(mean <= self._few)
        far = _difference(output, part.came)
        return not far.size or bool(far.mean() <= self._few)

    def _equal(self, one: np.ndarray, two: np.ndarray) -> bool:
        largest = np.abs(one - two).max()
        if np.isfinite(largest):
            return bool(largest <= _NO_EFFECT * self.problem.size)
        both = np.isfinite(one)
        return np.array_equal(both, np.isfinite(two)) and bool(
            np.abs(one - two)[both].max(initial=0) <= _NO_EFFECT * self.problem.size
        )

    @cached_property
    def _classes(self) -> dict[str, list[str]]:
        """Mix-ups that give the same here: the first of them, and all of them."""
        found: dict[str, list[str]] = {}
        for name, output in self._outputs.items():
            if name in self._idle and name not in self.without_effect:
                found[name] = [name]  # what it does beside another one is its own
            elif name not in self._idle:
                same = (one for one in found if self._equal(self._outputs[one], output))
                found.setdefault(next(same, name), []).append(name)
        return found

    def _survivors(self, pairs: Iterable[tuple[MixUp, MixUp]]) -> Iterator[tuple[str, ...]]:
        for pair in pairs:
            if pair[0].rare and pair[1].rare:
                continue
            part = self._part(pair[0].mixes | pair[1].mixes)
            for ordered in _orders(pair):
                output = computed(self._layer(part, ordered))
                if output is not None and self._survives(output, part):
                    yield from itertools.product(*(self._classes[each.name] for each in ordered))

    def _confirmed(self, candidates: Iterable[tuple[str, ...]]) -> Found:
        """Those that fit; of a pair that fits in both orders, the better one, or the first."""
        found: dict[frozenset[str], tuple[tuple[str, ...], float]] = {}
        for names in candidates:
            difference = self.problem.difference_of(names)
            known = found.get(frozenset(names))
            if difference <= self.problem.tolerances[-1] * self.problem.size and (
                known is None or difference * _AS_GOOD < known[1]
            ):
                found[frozenset(names)] = names, difference
        return sorted(found.values(), key=lambda each: each[1])


def _steps(mixed: Iterable[MixUp]) -> frozenset[str]:
    return frozenset().union(*(each.planted for each in mixed))


def _parts_differ(one: Given, two: Given) -> frozenset[str]:
    """In which of the cuts two parts differ, named as `Layer` names them."""
    cuts = ("queries", "columns")
    return frozenset(
        cut for cut in cuts if (getattr(one, cut) is None) != (getattr(two, cut) is None)
    )


def _cost(pair: tuple[MixUp, MixUp]) -> int:
    """Whether to try a pair early: on a few queries, on all of them, or on all samples."""
    mixes = pair[0].mixes | pair[1].mixes
    return 2 if "samples" in mixes else 1 if "queries" in mixes else 0


def _orders(pair: tuple[MixUp, MixUp]) -> Iterator[tuple[MixUp, MixUp]]:
    """Two mix-ups of one step may be planted in either order."""
    yield pair
    if {*pair[0].planted} & {*pair[1].planted}:
        yield pair[::-1]


def _some(count: int, few: int) -> np.ndarray | None:
    """Places spread over an axis; None where they would be most of it."""
    return np.linspace(0, count - 1, few).astype(int) if count > 2 * few else None


def _samples(problem: Problem) -> np.ndarray:
    """The samples that are screened: the first, and one in which the mask hides most."""
    hidden = (~problem.given.arrays["mask"]).sum(axis=(1, 2, 3))
    return np.unique([0, len(hidden) - 1 - int(np.argmax(hidden[::-1]))])


def explain(problem: Problem, search: Search, dropped: Found) -> Found:
    """What gives the output, best first: no mix-up, one, or two; nothing if none of these does.

    `dropped` is what dropout explains, which differs from call to call.
    """
    few = [((), problem.difference), *search.alone()]
    if best := _best(few, problem, problem.tolerances[0]):
        return best
    if dropped:
        return dropped
    pairs = search.in_pairs()
    last = problem.tolerances[-1]
    tried = ((pairs, problem.tolerances[0]), (few, last), (pairs, last))
    return next(filter(None, (_best(found, problem, within) for found, within in tried)), [])


def _best(found: Found, problem: Problem, tolerance: float) -> Found:
    """Those that are near enough and about as near as the best, the best first; or no mix-up."""
    fitting = sorted(
        (each for each in found if each[1] <= tolerance * problem.size), key=lambda each: each[1]
    )
    if not fitting:
        return []
    as_good = max(_AS_GOOD * fitting[0][1], problem.tolerances[0] * problem.size / _AS_GOOD)
    kept = [each for each in fitting if each[1] <= as_good]
    return [each for each in kept if each[0] == ()] or kept
