r"""The known mix-ups by name, by part of a layer, and by what one sees."""

from functools import cache

from qkv.mistakes import heads, masks, output, scores, sources, weights
from qkv.mistakes._mix_up import MixUp

_GROUPS = {
    "Weights and biases": weights,
    "Sources and projections": sources,
    "Heads": heads,
    "Masks": masks,
    "Scores, softmax and the weighted sum": scores,
    "Output": output,
}

# What people say, the most striking first. A mix-up is filed under what one would notice, so that
# who has a symptom finds the causes that can have it.
_SYMPTOMS = {
    "same-vector": "Every position has the same output.",
    "heads-mixed": "Shapes fit, and tokens or heads are mixed.",
    "only-batches": "One sample is right, and a batch is not.",
    "only-cross-attention": "Self-attention is right, and cross-attention is not.",
    "grouped-heads": "It is right until query heads share key heads.",
    "first-third": "Each slice of the fused weight fits, and is another one than it says.",
    "square-weight": "Shapes fit, because a matrix is square or was reshaped, and numbers do not.",
    "rotation": "A single token is right, and longer texts are not.",
    "scale": "The weights are too sharp or too even, or the output is off by a factor.",
    "constant-vector": "The outputs are off by the same vector, or by a little.",
    "steps": "The output has the input in it, or has a step too many or too few.",
    "idle": "A weight, a head or a token changes nothing, and the loss stays where it is.",
    "cache": "The whole text is right, and generation with a cache is not.",
    "nan": "The output, or a part of it, is NaN.",
    "hidden-tokens": "A hidden token changes the output, or a visible one does not.",
    "weights-wrong": "The weights of a query do not sum to 1, or are where they should not be.",
    "flat-weights": "The weights are almost equal.",
    "two-calls": "Two calls give two outputs.",
}


@cache
def _found() -> dict[str, MixUp]:
    return {each.name: each for group in _GROUPS.values() for each in group.MIX_UPS}


def mix_ups() -> dict[str, MixUp]:
    r"""Every mix-up that `diagnose` knows, by name.

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


def symptoms() -> dict[str, str]:
    r"""What one sees when a layer runs and is wrong.

    Returns:
        The key under which a mix-up files itself, its `seen_as`, to what people say.

    Examples:
        >>> symptoms()[mix_ups()["groups-tiled-all"].seen_as]
        'It is right until query heads share key heads.'
    """
    return dict(_SYMPTOMS)
