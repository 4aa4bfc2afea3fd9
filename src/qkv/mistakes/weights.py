"""Mistakes in the stored weights and biases: turned, exchanged, cut in another order, left out."""

import itertools

import numpy as np

from qkv.mistakes._layer import given, need


def _turn(s, step):
    W = step(s)
    need(W.shape[0] == W.shape[1])
    return W.T


def _reshaped_into_heads(heads):
    def reshaped(s, step):
        W = step(s)
        return np.concatenate(W.reshape(getattr(s, heads), len(W), -1), axis=1)

    return reshaped


def _read_as(order):
    """The first third holds the weight of the queries; the reader takes it for another."""
    thirds = [(read, stored) for read, stored in zip(order, "QKV", strict=True) if read != stored]
    return {f"{kind}_{read}": given(f"{kind}_{stored}") for read, stored in thirds for kind in "Wb"}


def _repacked(stored, read):
    """Three weights that are stored in one order of axes, and read in another.

    An axis is "3" (which of the weights), "h" or "d".
    """

    def repacked(kind, letter):
        def repack(s, step):
            arrays = [s.inputs.arrays[f"{kind}_{each}"] for each in "QKV"]
            need(len({array.shape for array in arrays}) == 1)
            if arrays[0].shape[-1] % s.h:
                return step(s)  # the zero of a bias that there is not
            sizes = {"3": 3, "h": s.h, "d": arrays[0].shape[-1] // s.h}
            packed = np.stack([a.reshape(-1, s.h, sizes["d"]) for a in arrays])  # 3 in h d
            moved = packed.transpose(1, *("3.hd".index(axis) for axis in stored))
            cut = moved.reshape(-1, *(sizes[axis] for axis in read))
            cut = cut.transpose(1 + read.index("3"), 0, 1 + read.index("h"), 1 + read.index("d"))
            return cut["QKV".index(letter)].reshape(step(s).shape)

        return repack

    return {f"{kind}_{letter}": repacked(kind, letter) for letter in "QKV" for kind in "Wb"}


def _left_out(*names):
    def none(s, step):
        need(s.inputs.arrays[names[0]].any() and s.inputs.arrays[names[-1]].any())
        return 0 * step(s)

    return dict.fromkeys(names, none)


def _bias_after_scale(s, step):
    need(np.any(s.b_Q))
    return s.X_Q @ s.W_Q * s.inputs.scale_of(s.d_k) + s.b_Q


MISTAKES = {
    "W_Q-turned": {"W_Q": _turn},
    "W_K-turned": {"W_K": _turn},
    "W_V-turned": {"W_V": _turn},
    "W_O-turned": {"W_O": _turn},
    "W_Q-and-W_K-and-W_V-turned": dict.fromkeys(("W_Q", "W_K", "W_V"), _turn),
    "W_Q-and-W_K-and-W_V-and-W_O-turned": dict.fromkeys(("W_Q", "W_K", "W_V", "W_O"), _turn),
    "weights-reshaped-into-heads": {
        "W_Q": _reshaped_into_heads("h"),
        "W_K": _reshaped_into_heads("h_kv"),
        "W_V": _reshaped_into_heads("h_kv"),
    },
    **{
        f"W_{used}-used-for-{role}": {
            f"W_{role}": given(f"W_{used}"),
            f"b_{role}": given(f"b_{used}"),
        }
        for used, role in itertools.permutations("QKV", 2)
    },
    "thirds-read-as-k-q-v": _read_as("KQV"),
    "thirds-read-as-q-v-k": _read_as("QVK"),
    "thirds-read-head-by-head": _repacked("3hd", "h3d"),
    "head-by-head-read-as-thirds": _repacked("h3d", "3hd"),
    "b_Q-left-out": _left_out("b_Q"),
    "b_K-left-out": _left_out("b_K"),
    "b_V-left-out": _left_out("b_V"),
    "b_O-left-out": _left_out("b_O"),
    "b_Q-and-b_K-and-b_V-left-out": _left_out("b_Q", "b_K", "b_V"),
    "b_Q-and-b_K-and-b_V-and-b_O-left-out": _left_out("b_Q", "b_K", "b_V", "b_O"),
    "b_Q-added-after-scaling": {"Q_packed": _bias_after_scale, "scale": lambda s, step: 1.0},
}
