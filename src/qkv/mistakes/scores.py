"""Mistakes in equation (1): the product, the scale, the softmax, and the weighted sum."""

import numpy as np

from qkv.mistakes._layer import need, softmax


def _reshaped_keys(s, step):
    K = s.K_repeated
    return s.asked(s.between[0]) @ K.reshape(*K.shape[:2], K.shape[3], K.shape[2])


def _turned(s, step):
    need(s.between[0].shape[-2] == s.K_repeated.shape[-2])
    return s.asked(s.K_repeated) @ s.between[0].swapaxes(-1, -2)


def _scale(s):
    return s.inputs.scale_of(s.d_k)


def _over(axis):
    def weights(s, step):
        need(axis != 0 or s.inputs.has_batch)
        need(np.array_equal(step(s), softmax(s.masked), equal_nan=True))  # no sinks
        return softmax(s.masked, axis)

    return weights


def _everywhere(reduced):
    def same(s, step):
        V = s.V_repeated
        return np.broadcast_to(reduced(V), (*V.shape[:2], s.masked.shape[-2], V.shape[-1]))

    return same


MISTAKES = {
    "keys-reshaped-to-fit": {"products": _reshaped_keys},
    "scores-turned": {"products": _turned},
    "scale-missing": {"scale": lambda s, step: 1.0},
    "scale-twice-or-by-d_k": {"scale": lambda s, step: _scale(s) ** 2},
    "scale-multiplied": {"scale": lambda s, step: 1 / _scale(s)},
    "scale-by-d_k-where-there-is-another": {"scale": lambda s, step: s.d_k**-0.5},
    "scale-by-root-of-d_model": {"scale": lambda s, step: s.X_Q.shape[-1] ** -0.5},
    "scale-by-d_model": {"scale": lambda s, step: 1 / s.X_Q.shape[-1]},
    "scale-after-the-softmax": {
        "scores": lambda s, step: s.inputs.scores_after(s.products, s.asked(s.i), s.j),
        "weights": lambda s, step: step(s) * s.scale,
    },
    "softmax-over-queries": {"weights": _over(-2)},
    "softmax-over-heads": {"weights": _over(1)},
    "softmax-missing": {"weights": lambda s, step: np.where(np.isneginf(s.masked), 0, s.masked)},
    "softmax-twice": {"weights": lambda s, step: softmax(step(s))},
    "weights-averaged-over-heads": {"weights": lambda s, step: step(s).mean(axis=1, keepdims=True)},
    "weights-turned": {"heads": lambda s, step: s.weights.swapaxes(-1, -2) @ s.V_repeated},
    "values-summed-everywhere": {"heads": _everywhere(lambda V: V.sum(axis=-2, keepdims=True))},
    "values-averaged": {"heads": _everywhere(lambda V: V.mean(axis=-2, keepdims=True))},
}
