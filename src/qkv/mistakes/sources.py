"""Mistakes in what goes in: the wrong source, no projection or two, a norm or rotation before."""

from dataclasses import replace

import numpy as np

from qkv.between import ALiBi, DistanceBias, QKNorm, Rotation, Sinks, SoftCap
from qkv.mistakes._layer import given, need, no_mask, softmax

_SOURCES = ("X_Q", "X_K", "X_V")


def _mask_that_fits(s, step):
    """A mask that hides nothing fits any number of keys."""
    mask = step(s)
    return np.ones((1, 1, s.X_Q.shape[1], s.X_K.shape[1]), bool) if mask.all() else mask


def _from(letters):
    """Queries, keys and values from these sources: "QQV" makes the keys from X_Q."""
    taken = {
        f"X_{role}": given(f"X_{source}")
        for role, source in zip("QKV", letters, strict=True)
        if role != source
    }
    return taken | {"mask": _mask_that_fits}


def _not_projected(letters):
    def unprojected(letter):
        def source(s, step):
            X = getattr(s, f"X_{letter}")
            need(X.shape[-1] == step(s).shape[-1])
            return X

        return source

    return {f"{letter}_packed": unprojected(letter) for letter in letters}


def _projected_twice(letters):
    def twice(letter):
        def again(s, step):
            W, b = getattr(s, f"W_{letter}"), getattr(s, f"b_{letter}")
            need(W.shape[0] == W.shape[1])
            return step(s) @ W + b

        return again

    return {f"{letter}_packed": twice(letter) for letter in letters}


def layer_norm(X):
    """Mean 0 and variance 1 for each token, with PyTorch's eps and without learned parameters."""
    centred = X - X.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)


def rms_norm(X):
    """Mean square 1 for each token."""
    return X / np.sqrt((X**2).mean(axis=-1, keepdims=True) + 1e-6)


def _normed(norm, *names):
    return dict.fromkeys(names, lambda s, step: norm(step(s)))


def _with_steps(change):
    """A layer in which something else stands between the maps; `change` gets what does."""

    def changed(s, step):
        steps = change(s.inputs.between, s.d_k)
        need(steps != s.inputs.between)
        return replace(s.inputs, between=steps)

    return {
        "between": lambda s, step: changed(s, step).vectors_after((s.Q, s.K, s.V), s.i, s.j),
        "scores": lambda s, step: changed(s, step).scores_after(
            s.products * s.scale, s.asked(s.i), s.j
        ),
        "weights": lambda s, step: changed(s, step).weights_after(softmax(s.masked), s.masked),
    }


def _without(kind):
    return _with_steps(lambda steps, d: tuple(each for each in steps if not isinstance(each, kind)))


def _rotated(pairs):
    """By these pairs: with the layer's own angles, or else those of the base 10000."""

    def by_pairs(steps, d):
        if any(isinstance(each, Rotation) for each in steps):
            return tuple(
                replace(each, pairs=pairs) if isinstance(each, Rotation) else each for each in steps
            )
        return (*steps, Rotation.of(10000.0, d, pairs))

    return _with_steps(by_pairs)


def _swap_batch(s, step):
    need(s.inputs.has_batch)
    return step(s).swapaxes(0, 1)


MISTAKES = {
    "X_K-and-X_V-exchanged": _from("QVK"),
    "X_Q-and-X_K-exchanged": _from("KQV"),
    "X_Q-and-the-others-exchanged": _from("KQQ"),
    "X_Q-used-for-X_K": _from("QQV"),
    "X_Q-used-for-X_V": _from("QKQ"),
    "X_Q-used-for-X_K-and-X_V": _from("QQQ"),
    "X_K-used-for-X_Q": _from("KKV"),
    "X_V-used-for-X_K": _from("QVV"),
    "queries-not-projected": _not_projected("Q"),
    "queries-projected-twice": _projected_twice("Q"),
    "keys-not-projected": _not_projected("K"),
    "keys-projected-twice": _projected_twice("K"),
    "values-not-projected": _not_projected("V"),
    "values-projected-twice": _projected_twice("V"),
    "queries-and-keys-not-projected": _not_projected("QK"),
    "queries-and-keys-projected-twice": _projected_twice("QK"),
    "queries-and-keys-and-values-not-projected": _not_projected("QKV"),
    "queries-and-keys-and-values-projected-twice": _projected_twice("QKV"),
    "layer-norm-on-the-sources": _normed(layer_norm, *_SOURCES),
    "layer-norm-on-queries-and-keys": _normed(layer_norm, "Q", "K"),
    "rms-norm-on-the-sources": _normed(rms_norm, *_SOURCES),
    "rms-norm-on-queries-and-keys": _normed(rms_norm, "Q", "K"),
    "rotation-missing": _without(Rotation),
    "rotation-and-norm-exchanged": _with_steps(lambda steps, d: steps[::-1]),
    "norm-missing": _without(QKNorm),
    "cap-missing": _without(SoftCap),
    "position-bias-missing": _without((ALiBi, DistanceBias)),
    "sinks-missing": _without(Sinks),
    "rotated-by-halves": _rotated("halves"),
    "rotated-by-neighbours": _rotated("neighbours"),
    "batch-and-tokens-exchanged": {
        **dict.fromkeys((*_SOURCES, "output"), _swap_batch),
        "mask": no_mask,
    },
}
