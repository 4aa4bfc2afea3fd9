r"""Which mistakes give an output: each is made alone, and then common ones two at a time.

What is made first is small: single precision, one sample, a few of its queries, or more where a
mistake lets queries or samples have a part in each other's outputs. What then looks like the output
is made again in double precision, on everything. So a screen that is too coarse costs time, and
never gives a wrong answer.
"""

import dataclasses
import itertools
import time
from collections.abc import Iterable, Iterator

import numpy as np

from qkv.mistakes._known import Mistake, known
from qkv.mistakes._layer import Inputs, Layer
from qkv.multi_head import MultiHead

# How far an output may be from what explains it, relative to its largest number: what rounding
# leaves as a rule; what it leaves where steps are in a lower precision, or where scores are large.
_TOLERANCES = {
    "float64": (1e-9, 1e-5),
    "float32": (5e-6, 1e-4),
    "float16": (2e-3, 5e-3),
    "bfloat16": (1e-2, 3e-2),
}
# Where a mask hides everything, nothing is compared; so little is left that explanations may
# fit by chance.
_COMPARED = 0.5
_AS_GOOD = 10  # times as far off as the best explanation
_SCREENED = 2e-3  # the mean difference, relative, that single precision may leave on the way
_NO_EFFECT = 1e-5
_QUERIES = 8  # how many are screened
_SECONDS = 4  # until the last pair is tried; width 768 and 256 tokens take 3 on one core
_KEPT = 2**20  # numbers in a source up to which a layer is kept, to lend its values to pairs
# Mistakes that give an output a part in other samples, and then those that give it one in other
# queries of its sample: these are made with all of them.
_MIXING = {
    "samples": {"batch-and-tokens-exchanged"},
    "queries": {
        "heads-attend-to-heads",
        "heads-joined-by-view",
        "softmax-over-queries",
        "weights-turned",
    },
}

Found = list[tuple[tuple[str, ...], float]]


class Problem:
    """A layer, what it was given (sources with the same leading axes), and the output that came."""

    def __init__(
        self,
        mh: MultiHead,
        sources: list[np.ndarray],
        mask: np.ndarray | None,
        output: np.ndarray,
        tolerance: float | None = None,
        positions: tuple | np.ndarray | None = None,
    ):
        self.mh, self.sources = mh, sources
        self.output = output.reshape(-1, *output.shape[-2:])
        self.size = float(np.abs(self.output[np.isfinite(self.output)]).max(initial=0))
        self.tolerances = (tolerance,) if tolerance else _TOLERANCES[_precision(output)]
        self.inputs = Inputs.of(mh, sources, mask, positions)
        self.right = Layer(self.inputs)
        self.difference = self.difference_of(())

    def layer(self, names: tuple[str, ...]) -> Layer:
        """The layer with these mistakes, in double precision."""
        return Layer(self.inputs, tuple(known()[name].steps for name in names), (self.right,))

    def difference_of(self, names: tuple[str, ...]) -> float:
        """By how much the output differs at most from the layer's with these mistakes."""
        output = computed(self.layer(names))
        if output is None or output.shape != self.output.shape:
            return np.inf
        compared = np.isfinite(output) | np.isnan(self.output)
        if len(names) == 1:  # what the right layer leaves open is not held against a mistake
            compared |= ~np.isfinite(self.right.output)
        if not names or compared.mean() >= _COMPARED:
            return self._farthest(output)
        if len(names) > 1:
            return np.inf
        # Code that leaves a number leaves zeros, or the mean of all values.
        tokens = self.sources[1].shape[-2]
        return min(self._farthest(self._filled(names[0], weight)) for weight in (0, 1 / tokens))

    def _filled(self, name: str, weight: float) -> np.ndarray:
        """The output with a mistake, where all weights of a query that sees nothing are this one.

        It is left undefined where the right layer leaves it open.
        """
        fill = {"weights": lambda s, step: np.nan_to_num(step(s), nan=weight)}
        output = Layer(self.inputs, (known()[name].steps, fill), (self.right,)).output
        return np.where(np.isfinite(self.right.output), output, np.nan)

    def _farthest(self, output: np.ndarray) -> float:
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
    # Numbers that a narrower dtype holds exactly were computed in it, whatever holds them now.
    single = numbers.astype(np.float32)
    if precision == "float64" and np.array_equal(numbers, single):
        precision = "float32"
    # A bfloat16 is the first half of a float32, so the last 16 bits are zero.
    if precision == "float32" and not (single.view(np.uint32) & 0xFFFF).any():
        return "bfloat16"
    if precision == "float32" and np.array_equal(single, single.astype(np.float16)):
        return "float16"
    return precision


class _Screen:
    """What is made first, in single precision: a few queries of one sample.

    `mixes` says what else has to be there: all "queries" of the sample, or all "samples".
    """

    def __init__(self, problem: Problem, mixes: str):
        arrays = {
            name: X.astype(np.float32) if X.dtype.kind == "f" else X
            for name, X in problem.inputs.arrays.items()
        }
        self.came, few = problem.output, {}
        if mixes != "samples":
            one = slice(sample := _sample(arrays["mask"]), sample + 1)
            arrays |= {name: arrays[name][one] for name in ("X_Q", "X_K", "X_V", "mask", "i", "j")}
            self.came = self.came[one]
            if self.came.shape[1] > 2 * _QUERIES:
                places = np.linspace(0, self.came.shape[1] - 1, _QUERIES).astype(int)
                self.came = self.came[:, places]
                few = {"shown" if mixes else "asked": places}
        self.inputs = dataclasses.replace(problem.inputs, arrays=arrays, **few)
        self.right = Layer(self.inputs)
        # Layers with one mistake lend their values to pairs; where all queries are there, or many
        # keys, they take too much memory to be kept.
        self._keep = not mixes and arrays["X_K"].size <= _KEPT
        self._layers: dict[str, Layer] = {}

    def layer(self, *mistakes: Mistake) -> Layer:
        """The layer with these mistakes, which takes what it can from simpler ones."""
        if len(mistakes) > 1:
            simpler = (self.right, *map(self.layer, mistakes))
            return Layer(self.inputs, tuple(each.steps for each in mistakes), simpler)
        (mistake,) = mistakes
        layer = self._layers.get(mistake.name)
        if layer is None:
            layer = Layer(self.inputs, (mistake.steps,), (self.right,))
            if self._keep:
                self._layers[mistake.name] = layer
        return layer


def _sample(mask: np.ndarray) -> int:
    """The sample that is screened: its queries all see a key, not all the same, and few others."""
    seeing, visible = mask.any(axis=-1).sum(axis=(1, 2)), mask.sum(axis=(1, 2, 3))
    alike = (mask == mask[..., :1, :]).all(axis=(1, 2, 3))
    return int(np.lexsort((visible, alike, -seeing))[0])


def _mixes(*mistakes: Mistake) -> str:
    """Which screen these mistakes need."""
    names = {each.name for each in mistakes}
    return next((mixes for mixes, which in _MIXING.items() if names & which), "")


class Search:
    """The mistakes that were tried on a problem: each alone, at once; pairs when asked for.

    Attributes:
        idle: The mistakes that change nothing here, judged by what is screened.
        untried: How many pairs were not tried, because time was up.
    """

    def __init__(self, problem: Problem):
        self.problem, self.untried = problem, 0
        self._deadline = time.monotonic() + _SECONDS
        self._screens = {mixes: _Screen(problem, mixes) for mixes in ("", *_MIXING)}
        self._alone: list[str] = []
        self.idle: list[str] = []
        self._common: list[Mistake] = []  # those that change something, and may be one of two
        for mistake in known().values():
            output = self._output(mistake)
            if output is None:
                if "mask" in mistake.steps:  # of all samples it may be made
                    self._alone.append(mistake.name)
                continue
            if self._survives(output, mistake):
                self._alone.append(mistake.name)
            if self._equal(output, self._screens[_mixes(mistake)].right.output):
                self.idle.append(mistake.name)
            elif not mistake.rare and _mixes(mistake) != "samples":
                self._common.append(mistake)

    def alone(self) -> Found:
        """The mistakes that give the output, each by itself."""
        return self._confirmed((name,) for name in self._alone)

    def in_pairs(self) -> Found:
        """The pairs that give the output, as far as time allows; the quick ones come first."""
        pairs = [
            (one, other)
            for one, other in itertools.combinations(self._common, 2)
            if one.steps.keys().isdisjoint(other.steps)  # else one would hide the other
        ]
        self.untried = len(pairs)
        found: Found = []
        for mixes in ("", "queries"):
            alike = [pair for pair in pairs if _mixes(*pair) == mixes]
            found += self._confirmed(self._surviving(alike))
            # A fit to rounding is the answer; a loose one may still be beaten by a slower pair.
            if any(far <= self.problem.tolerances[0] * self.problem.size for _, far in found):
                self.untried = 0  # the slower ones need not be tried
                break
        return found

    def _surviving(self, pairs: list[tuple[Mistake, Mistake]]) -> Iterator:
        for pair in pairs:
            if time.monotonic() > self._deadline:
                return
            self.untried -= 1
            output = self._output(*pair)
            if output is not None and self._survives(output, *pair):
                yield tuple(each.name for each in pair)

    def _output(self, *mistakes: Mistake) -> np.ndarray | None:
        """The output with these mistakes, of what is screened; None where they cannot be made."""
        if not all(each.steps for each in mistakes):
            return None
        screen = self._screens[_mixes(*mistakes)]
        output = computed(screen.layer(*mistakes))
        return output if output is not None and output.shape == screen.came.shape else None

    def _survives(self, output: np.ndarray, *mistakes: Mistake) -> bool:
        far = _difference(output, self._screens[_mixes(*mistakes)].came)
        few = max(_SCREENED, self.problem.tolerances[-1]) * self.problem.size
        # The mean and not the largest: single precision may be far off in one score, not in all.
        return not far.size or bool(far.mean() <= few)

    def _equal(self, one: np.ndarray, two: np.ndarray) -> bool:
        both = np.isfinite(one)
        return np.array_equal(both, np.isfinite(two)) and bool(
            np.abs(one - two)[both].max(initial=0) <= _NO_EFFECT * self.problem.size
        )

    def _confirmed(self, candidates: Iterable[tuple[str, ...]]) -> Found:
        """Those that fit, in double precision and everywhere, the best first."""
        tried = ((names, self.problem.difference_of(names)) for names in candidates)
        most = self.problem.tolerances[-1] * self.problem.size
        return sorted((each for each in tried if each[1] <= most), key=lambda each: each[1])


def explain(problem: Problem, search: Search, dropped: Found) -> Found:
    """What gives the output, best first: no mistake, one, or two; nothing if none of these does.

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
    """Those that are near enough and about as near as the best, the best first; or no mistake."""
    fitting = sorted(
        (each for each in found if each[1] <= tolerance * problem.size), key=lambda each: each[1]
    )
    if not fitting:
        return []
    # Ten times a difference of zero is zero, so what rounding leaves counts as good as it.
    as_good = max(_AS_GOOD * fitting[0][1], problem.tolerances[0] * problem.size / _AS_GOOD)
    kept = [each for each in fitting if each[1] <= as_good]
    return [each for each in kept if each[0] == ()] or kept
