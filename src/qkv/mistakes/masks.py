"""Mistakes with the mask: its meaning, its axes, a causal part too much, how it is applied."""

import numpy as np

from qkv.mistakes._layer import need


def _tri(mask, offset=0):
    return np.tri(*mask.shape[-2:], offset, dtype=bool)


def _is_for_padding(mask):
    """Whether it hides the same from each query, or nothing."""
    return (mask == mask[..., :1, :]).all()


def _diagonal(mask):
    """Where a mask is causal: aligned at the first tokens or at the last; None if it is not."""
    n_q, n_k = mask.shape[-2:]
    if not mask.all() and _is_for_padding(mask):
        return None
    offsets = sorted({0, n_k - n_q})  # the one that hides more comes first
    return next((it for it in offsets if not (mask & ~_tri(mask, it)).any()), None)


def _parts(mask):
    """What of a causal mask is for padding, and the diagonal of the rest."""
    diagonal = _diagonal(mask)
    need(diagonal is not None)
    later = ~_tri(mask, diagonal).any(axis=-2, keepdims=True)  # than all queries
    return np.broadcast_to(mask.any(axis=-2, keepdims=True) | later, mask.shape), diagonal


def _only_parts(mask):
    """The same of a mask that has nothing else, such as a window."""
    padding, diagonal = _parts(mask)
    need((mask == padding & _tri(mask, diagonal)).all())
    return padding, diagonal


def _both(combine):
    """Another way to combine the two parts of a mask: what is for padding, and what is causal."""

    def combined(s, step):
        mask = step(s)
        padding, diagonal = _only_parts(mask)
        need(not padding.all())
        return combine(padding, np.broadcast_to(_tri(mask, diagonal), mask.shape))

    return combined


def _turn(mask):
    need(mask.shape[-1] == mask.shape[-2])
    return mask.swapaxes(-1, -2)


def _reversed(s, step):
    need(not step(s).all())
    return ~step(s)


def _at_the_lower_right(s, step):
    mask = step(s)
    n_q, n_k = mask.shape[-2:]
    need(n_q != n_k)
    padding = mask if _is_for_padding(mask) else _only_parts(mask)[0]
    return padding & _tri(mask, n_k - n_q)


def _at_the_upper_left(s, step):
    mask = step(s)
    need(mask.shape[-2] != mask.shape[-1])
    return _only_parts(mask)[0] & _tri(mask)


def _sees_one_more(s, step):
    mask = step(s)
    padding, diagonal = _parts(mask)
    return mask | (padding & _tri(mask, diagonal + 1) & ~_tri(mask, diagonal))


def _sees_one_less(s, step):
    mask = step(s)
    return mask & _tri(mask, _parts(mask)[1] - 1)


def _also_causal(s, step):
    mask = step(s)
    need(mask.all() or _diagonal(mask) is None)
    return mask & _tri(mask)


def _visible(s):
    return s.asked(s.mask)


MISTAKES = {
    "mask-reversed": {"mask": _reversed},
    "mask-ignored": {"mask": lambda s, step: np.ones_like(step(s))},
    "mask-turned": {"mask": lambda s, step: _turn(step(s))},
    "causal-mask-added": {"mask": _also_causal},
    "causal-mask-sees-one-token-ahead": {"mask": _sees_one_more},
    "causal-mask-hides-its-own-token": {"mask": _sees_one_less},
    "causal-mask-at-the-lower-right": {"mask": _at_the_lower_right},
    "causal-mask-at-the-upper-left": {"mask": _at_the_upper_left},
    "padding-ignored": {"mask": _both(lambda padding, causal: causal)},
    "causal-part-ignored": {"mask": _both(lambda padding, causal: padding)},
    "padding-or-causal": {"mask": _both(lambda padding, causal: padding | causal)},
    "padding-reversed": {"mask": _both(lambda padding, causal: ~padding & causal)},
    "padding-applied-to-queries": {"mask": _both(lambda padding, causal: _turn(padding) & causal)},
    "mask-of-ones-added": {"masked": lambda s, step: s.scores + _visible(s)},
    "mask-of-zeros-added": {"masked": lambda s, step: s.scores + ~_visible(s)},
    "hidden-scores-set-to-zero": {"masked": lambda s, step: np.where(_visible(s), s.scores, 0)},
    "mask-after-the-softmax": {
        "masked": lambda s, step: s.scores,
        "weights": lambda s, step: step(s) * _visible(s),
    },
}
