"""Mistakes with the heads: how they are split, grouped, and joined again."""

import numpy as np

from qkv.mistakes._layer import need, no_mask, split


def _packed(s, letter):
    return getattr(s, f"{letter}_packed")


def _by_view(letter):
    return lambda s, step: _packed(s, letter).reshape(step(s).shape)


def _interleaved(letter):
    def interleaved(s, step):
        batch, h, n, d = step(s).shape
        return np.moveaxis(_packed(s, letter).reshape(batch, n, d, h), -1, 1)

    return interleaved


def _of_all_heads(s, step):
    need((step(s) == step(s)[:, :1]).all())
    return step(s)[:, :1]


def _another_number(count):
    """Cut into another number of heads, where all have keys and values of their own."""

    def cut(letter):
        def cut_anew(s, step):
            h, packed = count(s), _packed(s, letter)
            need(s.h == s.h_kv and h not in (1, s.h))
            need(h == int(h) and packed.shape[-1] % int(h) == 0)
            return split(packed, int(h))

        return cut_anew

    return {letter: cut(letter) for letter in "QKV"} | {"mask": _of_all_heads}


def _whole(letter):
    return lambda s, step: _packed(s, letter)[:, None]


def _no_heads(s, step):
    need(s.h > 1)
    return _of_all_heads(s, step)


def _swapped(s, step):
    return step(s).swapaxes(1, 2)


def _tiled(place):
    return lambda s, step: np.tile(s.between[place], (1, s.h // s.h_kv, 1, 1))


def _queries_swapped(s, step):
    """After what stands between the maps: that may be of a head, or of a position."""
    Q, K, V = step(s)
    return Q.swapaxes(1, 2), K, V


def _first(s, step):
    need(s.h_kv < s.h)
    return np.broadcast_to(step(s)[:, :1], step(s).shape)


MISTAKES = {
    "heads-split-by-view": {letter: _by_view(letter) for letter in "QKV"},
    "heads-interleaved": {letter: _interleaved(letter) for letter in "QKV"},
    "half-as-many-heads": _another_number(lambda s: s.h / 2),
    "twice-as-many-heads": _another_number(lambda s: s.h * 2),
    "h-and-d_k-exchanged": _another_number(lambda s: s.d_k),
    "heads-not-split": {
        **{letter: _whole(letter) for letter in "QKV"},
        "mask": _no_heads,
        "joined": lambda s, step: s.heads[:, 0],
    },
    "heads-attend-to-heads": {
        "between": _queries_swapped,
        **dict.fromkeys(("K_repeated", "V_repeated", "heads"), _swapped),
        "mask": no_mask,
    },
    "groups-tiled": {"K_repeated": _tiled(1), "V_repeated": _tiled(2)},
    "first-group-used-for-all": dict.fromkeys(("K_repeated", "V_repeated"), _first),
    "heads-joined-by-view": {"joined": lambda s, step: s.heads.reshape(step(s).shape)},
    "heads-joined-interleaved": {
        "joined": lambda s, step: np.moveaxis(s.heads, 1, -1).reshape(step(s).shape)
    },
    "heads-averaged": {"joined": lambda s, step: step(s) / s.h},
}
