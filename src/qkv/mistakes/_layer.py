r"""Multi-head attention, step by step, so that each step can be replaced.

`MultiHead` computes the same in a few lines. Here each value between the sources and the output
has a name and a function of its own. A mistake is another function in one of these places, or in a
few, and two mistakes are made by replacing both.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from qkv import between as steps_between
from qkv._arrays import as_positions
from qkv.multi_head import MultiHead

Step = Callable[[Any], np.ndarray]
Replaced = Callable[[Any, Step], np.ndarray]  # gets the layer, and the step as it was


def need(fits: bool) -> None:
    """Say that a mistake does not exist here, or that its code would stop with an error."""
    if not fits:
        raise ValueError("the mistake cannot be made here")


def split(packed: np.ndarray, h: int) -> np.ndarray:
    """Cut the last axis into heads: (batch, n, h·d) to (batch, h, n, d)."""
    return packed.reshape(*packed.shape[:2], h, -1).swapaxes(1, 2)


def join(heads: np.ndarray) -> np.ndarray:
    """Put heads side by side: (batch, h, n, d) to (batch, n, h·d)."""
    return heads.swapaxes(1, 2).reshape(heads.shape[0], heads.shape[2], -1)


def given(name: str) -> Replaced:
    """An array as it was given, whatever else is replaced."""
    return lambda s, step: s.inputs.arrays[name]


def no_mask(s: Any, step: Step) -> np.ndarray:
    """A mask that fits any shape, where nothing is hidden."""
    need(step(s).all())
    return np.ones((1, 1, 1, 1), bool)


def softmax(scores: np.ndarray, axis: int | tuple[int, ...] = -1) -> np.ndarray:
    """As a layer written by hand has it: a query that may attend to nothing gets NaN."""
    E = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return E / E.sum(axis=axis, keepdims=True)


STEPS: dict[str, Step] = {
    "Q_packed": lambda s: s.X_Q @ s.W_Q + s.b_Q,  # (batch, n_q, h·d_k)
    "K_packed": lambda s: s.X_K @ s.W_K + s.b_K,  # (batch, n_k, h_kv·d_k)
    "V_packed": lambda s: s.X_V @ s.W_V + s.b_V,  # (batch, n_k, h_kv·d_v)
    "Q": lambda s: split(s.Q_packed, s.h),  # (batch, h, n_q, d_k)
    "K": lambda s: split(s.K_packed, s.h_kv),  # (batch, h_kv, n_k, d_k)
    "V": lambda s: split(s.V_packed, s.h_kv),  # (batch, h_kv, n_k, d_v)
    # What stands between the maps is one value: norms and rotations see all three.
    "between": lambda s: s.inputs.vectors_after((s.Q, s.K, s.V), s.i, s.j),
    "K_repeated": lambda s: s.between[1].repeat(s.h // s.h_kv, axis=1),  # (batch, h, n_k, d_k)
    "V_repeated": lambda s: s.between[2].repeat(s.h // s.h_kv, axis=1),  # (batch, h, n_k, d_v)
    "products": lambda s: (
        s.asked(s.between[0]) @ s.K_repeated.swapaxes(-1, -2)
    ),  # (batch, h, n_q, n_k)
    "scale": lambda s: s.inputs.scale_of(s.Q.shape[-1]),
    "scores": lambda s: s.inputs.scores_after(s.products * s.scale, s.asked(s.i), s.j),
    "masked": lambda s: np.where(s.asked(s.mask), s.scores, -np.inf),
    "weights": lambda s: s.inputs.weights_after(softmax(s.masked), s.masked),
    "heads": lambda s: s.weights @ s.V_repeated,  # (batch, h, n_q, d_v)
    "joined": lambda s: join(s.heads),  # (batch, n_q, h·d_v)
    "projected": lambda s: s.shown(s.joined) @ s.W_O + s.b_O,  # (batch, n_q, d_out)
    "output": lambda s: s.projected,  # what of the block around it a layer may add comes here
}


@dataclass(frozen=True)
class Inputs:
    """What a layer is given: sizes, and arrays by name.

    Each source has one batch axis, the mask the axes (batch, h, n_q, n_k), and weights are packed,
    `W_Q (d_model, h·d_k)`. A bias that the layer does not have is a zero.

    Some queries may be all that is wanted. If `asked`, an index, has them, no other is computed.
    Where a mistake lets queries have a part in each other's outputs, all are computed, and `shown`
    has those that are mapped by W_O. None is all of them. Keys are all there.
    """

    h: int
    h_kv: int
    d_k: int
    d_v: int
    own_scale: float | None
    arrays: Mapping[str, np.ndarray]
    between: tuple[steps_between.Step, ...] = ()
    has_batch: bool = True
    asked: np.ndarray | None = None
    shown: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        mh: MultiHead,
        sources: list[np.ndarray],
        mask: np.ndarray | None,
        positions: tuple | np.ndarray | None = None,
    ) -> "Inputs":
        """What `mh(*sources, mask=mask, positions=positions)` is given, in double precision."""
        n_q, n_k = sources[0].shape[-2], sources[1].shape[-2]
        batch = sources[0].shape[:-2]
        mask = np.broadcast_to(True if mask is None else mask, (*batch, mh.h, n_q, n_k))
        arrays = dict(zip(("X_Q", "X_K", "X_V"), sources, strict=True))
        arrays = {name: X.reshape(-1, *X.shape[-2:]) for name, X in arrays.items()}
        for letter in "QKVO":
            W, b = getattr(mh, f"W_{letter}"), getattr(mh, f"b_{letter}")
            arrays[f"W_{letter}"] = np.concatenate(W, axis=0 if letter == "O" else 1)
            arrays[f"b_{letter}"] = np.zeros(1) if b is None else b.reshape(-1)
        arrays = {name: array.astype(np.float64) for name, array in arrays.items()}
        arrays["mask"] = mask.reshape(-1, *mask.shape[-3:])
        for name, p in zip("ij", as_positions(positions, n_q, n_k, mh.between), strict=True):
            columns = np.broadcast_to(p, (*batch, 1, p.shape[-2], 1))
            arrays[name] = columns.reshape(-1, 1, p.shape[-2], 1)
        return cls(mh.h, mh.h_kv, mh.d_k, mh.d_v, mh.scale, arrays, mh.between, bool(batch))

    def scale_of(self, d_k: int) -> float:
        """The layer's own scale, or the paper's for heads that are so wide."""
        return self.own_scale or d_k**-0.5

    def vectors_after(self, three: tuple, i: np.ndarray, j: np.ndarray) -> tuple:
        """Queries, keys and values after what stands between the maps."""
        for step in self.between:
            three = step.vectors(*three, i, j)
        return three

    def scores_after(self, S: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Scores after what stands between the maps."""
        for step in self.between:
            S = step.scores(S, i, j)
        return S

    def weights_after(self, A: np.ndarray, S: np.ndarray) -> np.ndarray:
        """Weights after what stands between the maps."""
        for step in self.between:
            A = step.weights(A, S)
        return A


@cache
def leads_to(name: str) -> AbstractSet[str]:
    """A value and all that it is made from."""
    # A step is one line, so the names in it are what it reads: no second list has to be kept.
    read = STEPS[name].__code__.co_names if name in STEPS else ()
    arrays = ("mask", "i", "j", *(f"{kind}_{letter}" for kind in "XWb" for letter in "QKVO"))
    return {name}.union(*(leads_to(each) for each in read if each in STEPS or each in arrays))


class Layer:
    """One way through the steps, with some of them replaced; a value is computed when asked for.

    Args:
        inputs: What goes in.
        mistakes: For each mistake, its steps: what it replaces. A function may read what leads to
            its step, and what was given.
        simpler: Layers that were given the same and have some of these mistakes. A value that no
            other mistake leads to is taken from there, so it is computed once.
    """

    def __init__(
        self,
        inputs: Inputs,
        mistakes: tuple[Mapping[str, Replaced], ...] = (),
        simpler: tuple["Layer", ...] = (),
    ):
        self.inputs, self.mistakes, self._simpler = inputs, mistakes, simpler
        self.h, self.h_kv, self.d_k, self.d_v = inputs.h, inputs.h_kv, inputs.d_k, inputs.d_v

    def __getattr__(self, name: str) -> np.ndarray:
        # Python calls this once for each name: what is found stays as an attribute.
        if name not in STEPS and name not in self.inputs.arrays:
            raise AttributeError(name)
        met = [each for each in self.mistakes if leads_to(name) & each.keys()]
        same = (each for each in self._simpler if all(one in each.mistakes for one in met))
        source = next(same, None)
        value = self._compute(name) if source is None else getattr(source, name)
        setattr(self, name, value)
        return value

    def _compute(self, name: str) -> np.ndarray:
        step = STEPS.get(name, lambda s: s.inputs.arrays[name])
        for each in self.mistakes:
            if name in each:
                step = _replaced(each[name], step)
        return step(self)

    def asked(self, per_query: np.ndarray) -> np.ndarray:
        """Of what has a row for each query, the rows that are computed."""
        return _rows(per_query, self.inputs.asked)

    def shown(self, per_query: np.ndarray) -> np.ndarray:
        """Of the rows that are computed, those that reach the output."""
        return _rows(per_query, self.inputs.shown)


def _rows(array: np.ndarray, index: np.ndarray | None) -> np.ndarray:
    return array if index is None else array[..., index, :]


def _replaced(by: Replaced, step: Step) -> Step:
    return lambda layer: by(layer, step)
