r"""The known mix-ups: mistakes that let a layer run and make its numbers wrong, as data."""

from functools import cache

from qkv.mix_ups import heads, masks, output, scores, sources, weights
from qkv.mix_ups._mix_up import MixUp

__all__ = ["MixUp", "groups", "mix_ups"]

_GROUPS = {
    "Weights and biases": weights,
    "Sources and projections": sources,
    "Heads": heads,
    "Masks": masks,
    "Scores, softmax and the weighted sum": scores,
    "Output": output,
}


@cache
def _found() -> dict[str, MixUp]:
    return {each.name: each for group in _GROUPS.values() for each in group.MIX_UPS}


def mix_ups() -> dict[str, MixUp]:
    r"""Every mix-up that `diagnose` tries, by name.

    Returns:
        Name to mix-up, in the order of a layer's steps.

    Examples:
        >>> known = mix_ups()["scale-missing"]
        >>> known.what
        'the scores are not scaled'
        >>> known.wrong
        'S = Q @ K.swapaxes(-1, -2)'
    """
    return dict(_found())


def groups() -> dict[str, tuple[MixUp, ...]]:
    r"""The mix-ups by the part of a layer that they are about.

    Returns:
        The name of the part to its mix-ups.

    Examples:
        >>> [*groups()][:2]
        ['Weights and biases', 'Sources and projections']
    """
    return {title: group.MIX_UPS for title, group in _GROUPS.items()}
