r"""One mistake, as data: in words, as a line of code, and planted in a plain layer."""

from collections.abc import Mapping
from dataclasses import dataclass

from qkv.mistakes._layer import Planted


@dataclass(frozen=True)
class MixUp:
    """One mistake that lets a layer run, and makes its numbers wrong.

    Args:
        name: What `diagnose` calls it.
        what: What is the case, to be read after "if".
        who: Who meets it.
        seen_as: Which of `symptoms()` it shows: the key.
        symptom: What one sees.
        cure: What to do.
        right: The line of code as it should be. All heads are computed at once: `Q` has the axes
            (batch, h, n_q, d_k), and weights are applied as `X @ W`.
        wrong: The same line with the mistake.
        planted: The steps of a plain layer that it changes, and how; none where nothing can be
            planted. A function gets the layer and the step as it was.
        mixes: What a number of the output then depends on besides its own: other "columns" of the
            output, other "queries", other "samples".
        rare: Whether it is so rare that `diagnose` does not try it with another rare one.
    """

    name: str
    what: str
    who: str
    seen_as: str
    symptom: str
    cure: str
    right: str
    wrong: str
    planted: Mapping[str, Planted]
    mixes: frozenset[str] = frozenset()
    rare: bool = False
