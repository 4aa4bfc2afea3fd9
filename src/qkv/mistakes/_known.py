r"""The known mistakes: their words from `known.toml`, their steps from a file for each part."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from qkv.mistakes import heads, masks, output, scores, sources, weights
from qkv.mistakes._layer import Replaced

_PARTS = {
    "Weights and biases": weights,
    "Sources and projections": sources,
    "Heads": heads,
    "Masks": masks,
    "Scores, softmax and the weighted sum": scores,
    "Output": output,
}


@dataclass(frozen=True)
class Mistake:
    """One mistake that lets a layer run, and makes its numbers wrong.

    Args:
        name: What `diagnose` calls it.
        what: What is the case, to be read after "if".
        symptom: What one sees.
        cure: What to do.
        seen_as: Which of `symptoms()` it shows: the key.
        rare: Whether it is so rare that `diagnose` tries it alone, and not with another one.
        steps: The steps of a plain layer that it replaces, and by what: a function of the layer and
            of the step as it was. Empty where nothing can be replaced.
    """

    name: str
    what: str
    symptom: str
    cure: str
    seen_as: str
    rare: bool
    steps: Mapping[str, Replaced]


_WORDS = tomllib.loads(Path(__file__).with_name("known.toml").read_text("utf-8"))


def _read(steps: Mapping[str, Mapping[str, Replaced]]) -> Iterator[Mistake]:
    for seen_as, table in _WORDS.items():
        for alike in table["alike"]:
            shared = {"symptom": table["says"], **alike}
            symptom, cure = shared.pop("symptom"), shared.pop("cure")
            for name, what in shared.items():
                rare = name in table.get("rare", ())
                yield Mistake(name, what, symptom, cure, seen_as, rare, steps[name])


_FILED = {
    each.name: each
    for each in _read({name: it for part in _PARTS.values() for name, it in part.MISTAKES.items()})
}


def known() -> dict[str, Mistake]:
    r"""Every mistake that `diagnose` knows, by name.

    Returns:
        Name to mistake, part by part.

    Examples:
        >>> known()["scale-missing"].what
        'the scores are not scaled'
    """
    return {each.name: each for part in parts().values() for each in part}


def parts() -> dict[str, tuple[Mistake, ...]]:
    r"""The mistakes by the part of a layer that they are about.

    Returns:
        The name of the part to its mistakes.

    Examples:
        >>> [*parts()][:2]
        ['Weights and biases', 'Sources and projections']
    """
    return {said: tuple(_FILED[name] for name in part.MISTAKES) for said, part in _PARTS.items()}


def symptoms() -> dict[str, str]:
    r"""What one sees when a layer runs and is wrong.

    Returns:
        The key under which a mistake is filed, its `seen_as`, to what people say.

    Examples:
        >>> symptoms()[known()["groups-tiled"].seen_as]
        'It is right until query heads share key heads.'
    """
    return {key: table["says"] for key, table in _WORDS.items()}
