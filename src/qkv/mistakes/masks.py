"""Mistakes with the mask: its meaning, its axes, a causal part too much, how it is applied."""

import numpy as np

from qkv.mistakes._layer import need


def _tri(mask, offset=0):
    return np.tri(*mask.shape[-2:], offset, dtype=bool)


def _diagonal(mask):
    """Where a mask is causal: aligned at the first tokens or at the last; None if it is not.

    If it hides the same from each query, it is a mask for padding.
    """
    n_q, n_k = mask.shape[-2:]
    if not mask.all() and _is_for_padding(mask):
        return None
    offsets = sorted({0, n_k - n_q})  # the one that hides more comes first
    return next((it for it in offsets if not (mask & ~_tri(mask, it)).any()), None)


def _is_causal(mask):
    return _diagonal(mask) is not None


def _padding(mask):
    """What a mask hides from each query; of a causal mask, what it hides from those after it."""
    if not _is_causal(mask):
        return mask
    later = ~_tri(mask, _diagonal(mask)).any(axis=-2, keepdims=True)  # than all queries
    return np.broadcast_to(mask.any(axis=-2, keepdims=True) | later, mask.shape)


def _is_for_padding(mask):
    """Whether it hides the same from each query, or nothing."""
    return (mask == mask[..., :1, :]).all()


def _has_two_parts(mask):
    """Whether it is one for padding and a causal one, and nothing else, such as a window."""
    return _is_causal(mask) and (mask == _padding(mask) & _tri(mask, _diagonal(mask))).all()


def _both(combine):
    """Another way to combine the two parts of a mask: what is for padding, and what is causal."""

    def combined(s, step):
        mask = step(s)
        need(_has_two_parts(mask) and not _padding(mask).all())
        return combine(_padding(mask), np.broadcast_to(_tri(mask, _diagonal(mask)), mask.shape))

    return combined


def _turn(mask):
    need(mask.shape[-1] == mask.shape[-2])
    return mask.swapaxes(-1, -2)


def _reversed(s, step):
    need(not step(s).all())
    return ~step(s)


def _aligned(corner):
    def aligned(s, step):
        mask = step(s)
        n_q, n_k = mask.shape[-2:]
        lower = corner == "lower right"
        need(n_q != n_k and (_has_two_parts(mask) or (lower and _is_for_padding(mask))))
        return _padding(mask) & _tri(mask, n_k - n_q if lower else 0)

    return aligned


def _sees_one_more(s, step):
    mask = step(s)
    need(_is_causal(mask))
    diagonal = _diagonal(mask)
    return mask | (_padding(mask) & _tri(mask, diagonal + 1) & ~_tri(mask, diagonal))


def _sees_one_less(s, step):
    need(_is_causal(step(s)))
    return step(s) & _tri(step(s), _diagonal(step(s)) - 1)


def _also_causal(s, step):
    need(step(s).all() or not _is_causal(step(s)))
    return step(s) & _tri(step(s))


def _visible(s):
    return s.asked(s.mask)


MISTAKES = {
    "mask-reversed": {"mask": _reversed},
    "mask-ignored": {"mask": lambda s, step: np.ones_like(step(s))},
    "mask-turned": {"mask": lambda s, step: _turn(step(s))},
    "causal-mask-added": {"mask": _also_causal},
    "causal-mask-sees-one-token-ahead": {"mask": _sees_one_more},
    "causal-mask-hides-its-own-token": {"mask": _sees_one_less},
    "causal-mask-at-the-lower-right": {"mask": _aligned("lower right")},
    "causal-mask-at-the-upper-left": {"mask": _aligned("upper left")},
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
