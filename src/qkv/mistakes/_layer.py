r"""Multi-head attention, step by step, so that each step can be replaced.

`MultiHead` computes the same in a few lines. Here each value between the sources and the output
has a name and a function of its own. A mix-up is another function in one of these places, or in a
few, and two mix-ups are planted by replacing both.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np

from qkv.multi_head import MultiHead

Step = Callable[[Any], np.ndarray]
Planted = Callable[[Any, Step], np.ndarray]


ROLES = {"Q": "queries", "K": "keys", "V": "values"}


class CannotApplyError(ValueError):
    """A mix-up does not exist at these sizes, or its code would stop with an error."""


def split(packed: np.ndarray, h: int) -> np.ndarray:
    """Cut the last axis into heads: (batch, n, h·d) to (batch, h, n, d)."""
    return packed.reshape(*packed.shape[:2], h, -1).swapaxes(1, 2)


def join(heads: np.ndarray) -> np.ndarray:
    """Put heads side by side: (batch, h, n, d) to (batch, n, h·d)."""
    return heads.swapaxes(1, 2).reshape(heads.shape[0], heads.shape[2], -1)


def repeat(heads: np.ndarray, times: int) -> np.ndarray:
    """Give each head of keys or values to as many heads of queries."""
    return heads if times == 1 else heads.repeat(times, axis=1)


def given(name: str) -> Planted:
    """An array as it was given, whatever else is planted."""
    return lambda s, step: s.given.arrays[name]


def no_mask(s: Any, step: Step) -> np.ndarray:
    """A mask that fits any shape, where nothing is hidden."""
    if not step(s).all():
        raise CannotApplyError("the mask would not fit")
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
    "K_repeated": lambda s: repeat(s.K, s.h // s.h_kv),  # (batch, h, n_k, d_k)
    "V_repeated": lambda s: repeat(s.V, s.h // s.h_kv),  # (batch, h, n_k, d_v)
    "products": lambda s: s.asked(s.Q) @ s.K_repeated.swapaxes(-1, -2),  # (batch, h, n_q, n_k)
    "scale": lambda s: s.given_scale or s.Q.shape[-1] ** -0.5,
    "scores": lambda s: s.products * s.scale,
    "masked": lambda s: np.where(s.asked(s.mask), s.scores, -np.inf),
    "weights": lambda s: softmax(s.masked),
    "heads": lambda s: s.weights @ s.V_repeated,  # (batch, h, n_q, d_v)
    "joined": lambda s: join(s.heads),  # (batch, n_q, h·d_v)
    "output": lambda s: s.joined @ s.shown(s.W_O) + s.shown(s.b_O),  # (batch, n_q, d_out)
}


@dataclass(frozen=True)
class Given:
    """What a layer is given: sizes, and arrays by name.

    Each source has one batch axis, the mask the axes (batch, h, n_q, n_k), and weights are packed,
    `W_Q (d_model, h·d_k)`. A bias that the layer does not have is a zero.

    `queries` are those that are asked, as an index, and `columns` those of the output that are
    shown; None is all of them. Keys are all there.
    """

    h: int
    h_kv: int
    d_k: int
    d_v: int
    scale: float | None
    arrays: Mapping[str, np.ndarray]
    has_batch: bool = True
    queries: np.ndarray | None = None
    columns: slice | None = None

    @classmethod
    def of(
        cls, mh: MultiHead, sources: list[np.ndarray], mask: np.ndarray | None, dtype: type
    ) -> "Given":
        """What `mh(*sources, mask=mask)` is given."""
        n_q, n_k = sources[0].shape[-2], sources[1].shape[-2]
        batch = sources[0].shape[:-2]
        mask = np.broadcast_to(True if mask is None else mask, (*batch, mh.h, n_q, n_k))
        arrays = dict(zip(("X_Q", "X_K", "X_V"), sources, strict=True))
        arrays = {name: X.reshape(-1, *X.shape[-2:]) for name, X in arrays.items()}
        for letter in "QKVO":
            W, b = getattr(mh, f"W_{letter}"), getattr(mh, f"b_{letter}")
            arrays[f"W_{letter}"] = np.concatenate(W, axis=0 if letter == "O" else 1)
            arrays[f"b_{letter}"] = np.zeros(1) if b is None else b.reshape(-1)
        arrays = {name: array.astype(dtype) for name, array in arrays.items()}
        arrays["mask"] = mask.reshape(-1, *mask.shape[-3:])
        return cls(mh.h, mh.h_kv, mh.d_k, mh.d_v, mh.scale, arrays, bool(batch))


class Layer:
    """One way through the steps, with some mix-ups planted; a value is computed when asked for.

    Args:
        given: What goes in.
        mix_ups: What is planted: for each mix-up, its functions by the name of the step. A
            function gets the layer, and the step as it was.
        known: Layers that were given the same, each with the steps in which it may differ from
            this one. A value that none of these leads to is taken from there.
    """

    def __init__(
        self,
        given: Given,
        mix_ups: Iterable[Mapping[str, Planted]] = (),
        known: Iterable[tuple["Layer", AbstractSet[str]]] = (),
    ):
        self.given, self._mix_ups, self._known = given, tuple(mix_ups), tuple(known)
        self.h, self.h_kv, self.d_k, self.d_v = given.h, given.h_kv, given.d_k, given.d_v
        self.given_scale = given.scale
        self._values: dict[str, np.ndarray] = {}
        self._behind: dict[str, AbstractSet[str]] = {}  # for each value, the steps that lead to it
        self._open: list[set[str]] = [set()]

    def __getattr__(self, name: str) -> np.ndarray:
        if name not in self._values:
            self._take(name) or self._compute(name)
        self._open[-1] |= self._behind[name]
        return self._values[name]

    def asked(self, per_query: np.ndarray) -> np.ndarray:
        """Those queries that are asked, along the last axis but one."""
        self._open[-1].add("queries")
        queries = self.given.queries
        return per_query if queries is None else per_query[..., queries, :]

    def shown(self, per_column: np.ndarray) -> np.ndarray:
        """Those columns of the output that are shown, along the last axis."""
        self._open[-1].add("columns")
        columns = self.given.columns
        whole = columns is None or per_column.shape[-1] == 1  # of a bias that there is not
        return per_column if whole else per_column[..., columns]

    def _take(self, name: str) -> bool:
        for layer, differing in self._known:
            behind = layer._behind.get(name)
            if behind is not None and differing.isdisjoint(behind):
                self._values[name], self._behind[name] = layer._values[name], behind
                return True
        return False

    def _compute(self, name: str) -> None:
        step = STEPS.get(name)
        if step is None:
            if name not in self.given.arrays:
                raise AttributeError(name)
            step = _input(name)
        for planted in self._mix_ups:
            if name in planted:
                step = _plant(planted[name], step)
        self._open.append({name})
        try:
            self._values[name] = step(self)
            self._behind[name] = self._open[-1]
        finally:
            self._open.pop()


def _input(name: str) -> Step:
    return lambda layer: layer.given.arrays[name]


def _plant(planted: Planted, step: Step) -> Step:
    return lambda layer: planted(layer, step)
