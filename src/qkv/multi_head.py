r"""Section 3.2.2: multi-head attention, as one frozen value with the paper's weights."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qkv._arrays import (
    Bool,
    Float,
    as_mask,
    as_positions,
    bind,
    bind_fields,
    check_groups,
    check_positive,
    check_sizes,
    head_width,
    repeat_heads,
    shapes_of,
)
from qkv.between import Step
from qkv.equation_1 import attention, softmax


@dataclass(frozen=True, eq=False, repr=False)
class MultiHead:
    r"""Multi-head attention with one matrix per head: section 3.2.2 of the paper.

    $$\operatorname{MultiHead}(X_Q, X_K, X_V) = \sum_{i=1}^{h} \operatorname{Attention}(
      X_Q W_i^Q,\; X_K W_i^K,\; X_V W_i^V)\, W_i^O$$

    The paper calls the three sources $Q$, $K$ and $V$ as well; here those letters are kept for
    what enters equation (1). `W_Q[0]` is the paper's $W_1^Q$, and `W_O[0]` is the block of rows
    of $W^O$ that the first head meets, so that the sum over heads equals
    $\operatorname{Concat}(\mathrm{head}_1, \ldots, \mathrm{head}_h)\,W^O$.

    The value is frozen: its arrays are read-only copies.

    Args:
        W_Q: Maps the source of the queries to queries,
            $W_i^Q \in \mathbb{R}^{d_{model} \times d_k}$.
        W_K: Maps the source of the keys to keys,
            $W_i^K \in \mathbb{R}^{d_{source\_k} \times d_k}$; in the paper all sources are as wide
            as the output, $d_{model}$. It may have `h_kv` heads where `h_kv` divides `h`
            (grouped-query attention): query head `i`, counted from 0, then uses key
            head `i // (h // h_kv)`.
        W_V: Maps the source of the values to values, with as many heads as `W_K`.
        W_O: Maps each head back, $W_i^O \in \mathbb{R}^{d_v \times d_{out}}$; where None, nothing
            does, and the output is the heads side by side.
        b_Q: Added to each head's queries; none in the paper.
        b_K: Added to each head's keys.
        b_V: Added to each head's values.
        b_O: Added to the output.
        scale: What the scores are multiplied by; $1/\sqrt{d_k}$ where None.
        between: What stands between the maps, in the order in which it acts: steps of
            `qkv.between`, such as a rotation (RoPE) or a norm of queries and keys. None in the
            paper.

    Raises:
        TypeError: If a part does not hold floating-point numbers, or `between` no steps.
        ValueError: If shapes or steps do not fit, or `scale` is not a positive number.

    Examples:
        >>> mh = MultiHead.random(512, 8)
        >>> mh.W_Q.shape
        (8, 512, 64)
        >>> mh(np.ones((10, 512))).shape
        (10, 512)

    Source:
        Vaswani et al., *Attention Is All You Need* (2017), section 3.2.2; grouped heads from
        Ainslie et al., *GQA* (2023).
    """

    W_Q: Float[np.ndarray, "h d_model d_k"]
    W_K: Float[np.ndarray, "h_kv d_source_k d_k"]
    W_V: Float[np.ndarray, "h_kv d_source_v d_v"]
    W_O: Float[np.ndarray, "h d_v d_out"] | None = None
    b_Q: Float[np.ndarray, "h d_k"] | None = None
    b_K: Float[np.ndarray, "h_kv d_k"] | None = None
    b_V: Float[np.ndarray, "h_kv d_v"] | None = None
    b_O: Float[np.ndarray, " d_out"] | None = None
    scale: float | None = None
    between: tuple[Step, ...] = ()

    def __post_init__(self):
        bind_fields(self, hint=_how_to_unpack)
        check_groups(self.h, self.h_kv)
        if self.W_O is None:  # one that changes nothing: head i is written to its own columns
            side_by_side = np.eye(self.h * self.d_v, dtype=self.W_V.dtype)
            side_by_side.flags.writeable = False
            object.__setattr__(self, "W_O", side_by_side.reshape(self.h, self.d_v, -1))
            bind(MultiHead, b_O=self.b_O, fitting=self)
        if self.scale is not None:
            check_positive(scale=self.scale)
            object.__setattr__(self, "scale", float(self.scale))
        object.__setattr__(self, "between", tuple(self.between))
        for step in self.between:
            if not isinstance(step, Step):
                raise TypeError(f"between must hold steps of qkv.between, but has {step!r}.")
            arrays = {name: getattr(step, name) for name in shapes_of(type(step))}
            bind(type(step), **arrays, fitting=self)
            step.check(self.h, self.h_kv, self.d_k)

    @property
    def h(self) -> int:
        """The number of heads, counted by their queries."""
        return self.W_Q.shape[0]

    @property
    def h_kv(self) -> int:
        """The number of heads of keys and values; `h` unless heads are grouped."""
        return self.W_K.shape[0]

    @property
    def d_model(self) -> int:
        """The width of the source of the queries."""
        return self.W_Q.shape[1]

    @property
    def d_k(self) -> int:
        """The width of one head's queries and keys."""
        return self.W_Q.shape[2]

    @property
    def d_v(self) -> int:
        """The width of one head's values."""
        return self.W_V.shape[2]

    @classmethod
    def random(
        cls,
        d_model: int,
        h: int,
        *,
        h_kv: int | None = None,
        d_k: int | None = None,
        d_v: int | None = None,
        bias: bool = False,
        seed: int = 0,
    ) -> "MultiHead":
        r"""Random float64 weights of the paper's shapes: normal, variance 1 / (width summed over).

        Args:
            d_model: Width of the sources and of the output.
            h: Number of heads, $h$.
            h_kv: Number of heads of keys and values; `h` where None.
            d_k: Width of a query; `d_model / h` where None.
            d_v: Width of a value; `d_k` where None.
            bias: Whether to draw biases too (standard normal); the paper has none.
            seed: The same seed gives the same weights.

        Returns:
            The layer.

        Raises:
            ValueError: If a size is not a positive whole number, `h` does not divide `d_model`
                where `d_k` is None, or `h_kv` does not divide `h`.

        Examples:
            >>> MultiHead.random(6, 2, d_k=5, d_v=7)
            MultiHead(h=2, d_model=6, d_k=5, d_v=7)
        """
        given = {"h_kv": h_kv, "d_k": d_k, "d_v": d_v}
        given = {name: size for name, size in given.items() if size is not None}
        check_sizes(d_model=d_model, h=h, **given)
        if d_k is None:
            d_k = head_width(d_model, h)
        h_kv, d_v = h_kv or h, d_v or d_k
        rng = np.random.default_rng(seed)

        def normal(*shape: int, width: int) -> np.ndarray:
            return rng.normal(scale=width**-0.5, size=shape)

        weights = {
            "W_Q": normal(h, d_model, d_k, width=d_model),
            "W_K": normal(h_kv, d_model, d_k, width=d_model),
            "W_V": normal(h_kv, d_model, d_v, width=d_model),
            "W_O": normal(h, d_v, d_model, width=h * d_v),
        }
        biases = {"b_Q": (h, d_k), "b_K": (h_kv, d_k), "b_V": (h_kv, d_v), "b_O": (d_model,)}
        drawn = {name: normal(*shape, width=1) for name, shape in biases.items() if bias}
        return cls(**weights, **drawn)

    def project(
        self,
        X_Q: Float[np.ndarray, "*batch_q n_q d_model"],
        X_K: Float[np.ndarray, "*batch_k n_k d_source_k"] | None = None,
        X_V: Float[np.ndarray, "*batch_v n_k d_source_v"] | None = None,
    ) -> tuple[
        Float[np.ndarray, "*batch_q h n_q d_k"],
        Float[np.ndarray, "*batch_k h_kv n_k d_k"],
        Float[np.ndarray, "*batch_v h_kv n_k d_v"],
    ]:
        r"""Project the sources, once for each head; biases that the layer has are added.

        $$Q_i = X_Q W_i^Q \qquad K_i = X_K W_i^K \qquad V_i = X_V W_i^V$$

        Args:
            X_Q: Source of the queries, as in a call.
            X_K: Source of the keys; `X_Q` where None.
            X_V: Source of the values; `X_K` where None.

        Returns:
            `Q (*batch, h, n_q, d_k)`, `K (*batch, h_kv, n_k, d_k)`, `V (*batch, h_kv, n_k, d_v)`,
            each with the leading axes of its source.

        Raises:
            TypeError: If a source does not hold floating-point numbers.
            ValueError: If shapes do not fit, or a source holds NaN or infinity.

        Examples:
            >>> Q, K, V = MultiHead.random(6, 2).project(np.ones((5, 6)))
            >>> Q.shape
            (2, 5, 3)
        """
        X_K = X_Q if X_K is None else X_K
        X_V = X_K if X_V is None else X_V
        sources = {"X_Q": X_Q, "X_K": X_K, "X_V": X_V}
        X_Q, X_K, X_V = bind(
            MultiHead.project, **sources, fitting=self, finite=True, hint=_which_source
        )
        Q = _map_per_head(X_Q, self.W_Q, self.b_Q)  # (*batch, h, n_q, d_k)
        K = _map_per_head(X_K, self.W_K, self.b_K)  # (*batch, h_kv, n_k, d_k)
        V = _map_per_head(X_V, self.W_V, self.b_V)  # (*batch, h_kv, n_k, d_v)
        return Q, K, V

    def attend(
        self,
        Q: Float[np.ndarray, "*batch_q h n_q d_k"],
        K: Float[np.ndarray, "*batch_k h_kv n_k d_k"],
        V: Float[np.ndarray, "*batch_v h_kv n_k d_v"],
        *,
        mask: Bool[np.ndarray, "..."] | None = None,
        positions: tuple | np.ndarray | None = None,
    ) -> Float[np.ndarray, "*batch h n_q d_v"]:
        r"""Equation (1) in each head, with what stands between the maps.

        Args:
            Q: Queries, as `project` returns them.
            K: Keys; a head of keys serves `h / h_kv` heads of queries.
            V: Values.
            mask: As in a call.
            positions: Whole numbers of the queries and of the keys, `(i, j)`, each (n,) or
                `(*batch, n)`, or one array for both; where None, 0, 1, 2, ... of as many keys as
                queries. Only some steps need them.

        Returns:
            The attended values of each head, `(*batch, h, n_q, d_v)`.

        Raises:
            TypeError: As in a call.
            ValueError: As in a call.

        Examples:
            >>> mh = MultiHead.random(6, 2, h_kv=1)
            >>> Q, K, V = mh.project(np.ones((5, 6)))
            >>> np.array_equal(mh.attend(Q, K, V), attention(Q, K, V))
            True
        """
        Q, K, V = bind(MultiHead.attend, Q=Q, K=K, V=V, fitting=self, finite=True)
        i, j = as_positions(positions, Q.shape[-2], K.shape[-2], self.between)
        for step in self.between:
            Q, K, V = step.vectors(Q, K, V, i, j)
        K, V = (repeat_heads(each, Q.shape) for each in (K, V))
        mask = _mask_per_head(mask, Q, K)
        if not any({"S", "A"} & {*step.changes} for step in self.between):  # none inside it
            return attention(Q, K, V, mask=mask, scale=self.scale)

        scale = self.d_k**-0.5 if self.scale is None else self.scale
        S = Q * scale @ K.swapaxes(-1, -2)  # as `attention` does: the product may overflow
        for step in self.between:
            S = step.scores(S, i, j)
        allowed = as_mask(np.True_ if mask is None else mask, S.shape)
        A, S = softmax(S, mask=allowed), np.where(allowed, S, -np.inf)  # (*batch, h, n_q, n_k)
        for step in self.between:
            A = step.weights(A, S)
        return A @ V

    def join(
        self, heads: Float[np.ndarray, "*batch h n_q d_v"]
    ) -> Float[np.ndarray, "*batch n_q d_out"]:
        r"""Map heads back and add them up, which is the paper's Concat and $W^O$.

        Args:
            heads: What `attend` returns, or equation (1).

        Returns:
            The output, `(*batch, n_q, d_out)`.

        Raises:
            TypeError: If the heads do not hold floating-point numbers.
            ValueError: If they do not have the shape that `W_O` maps from.

        Examples:
            >>> mh = MultiHead.random(6, 2)
            >>> mh.join(np.ones((2, 5, 3))).shape
            (5, 6)
        """
        (heads,) = bind(MultiHead.join, heads=heads, fitting=self)
        # The sum over heads is Concat(head_1, ..., head_h) W^O, without the concatenation.
        output = (heads @ self.W_O).sum(axis=-3)  # (*batch, n_q, d_out)
        return output if self.b_O is None else output + self.b_O

    def __call__(
        self,
        X_Q: Float[np.ndarray, "*#batch n_q d_model"],
        X_K: Float[np.ndarray, "*#batch n_k d_source_k"] | None = None,
        X_V: Float[np.ndarray, "*#batch n_k d_source_v"] | None = None,
        *,
        mask: Bool[np.ndarray, "..."] | None = None,
        positions: tuple | np.ndarray | None = None,
    ) -> Float[np.ndarray, "*batch n_q d_out"]:
        r"""Project, attend in each head, map back and add up.

        Args:
            X_Q: Source of the queries, $X_Q \in \mathbb{R}^{n_q \times d_{model}}$: the $Q$ of the
                paper's section 3.2.2.
            X_K: Source of the keys; `X_Q` where None (self-attention).
            X_V: Source of the values; `X_K` where None.
            mask: True where a query may attend: (n_q, n_k) for all heads alike, or with all axes
                of the scores, `(*batch, h, n_q, n_k)`, where any may be 1; their batch is that of
                `X_Q` and `X_K`.
            positions: As in `attend`; a decoding step gives those of its queries and of all keys.

        Returns:
            The output, `(*batch, n_q, d_out)`.

        Raises:
            TypeError: If a source does not hold floating-point numbers, the mask is not boolean, or
                positions are no whole numbers.
            ValueError: If shapes or positions do not fit, a source, Q, K or V holds NaN or
                infinity, the largest score that enters the softmax is not finite, or what stands
                between the maps is not known.

        Examples:
            Cross-attention: 3 queries attend to 5 keys.

            >>> mh = MultiHead.random(4, 2)
            >>> mh(np.ones((3, 4)), np.ones((5, 4))).shape
            (3, 4)
        """
        Q, K, V = self.project(X_Q, X_K, X_V)  # (*batch, h or h_kv, n_q or n_k, d_k or d_v)
        heads = self.attend(Q, K, V, mask=mask, positions=positions)  # (*batch, h, n_q, d_v)
        return self.join(heads)

    def __eq__(self, other):
        if not isinstance(other, MultiHead):
            return NotImplemented
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return all(
            getattr(a, "dtype", None) == getattr(b, "dtype", None) and np.array_equal(a, b)
            for a, b in pairs
        )

    def __repr__(self):
        names = ["h", *["h_kv"] * (self.h_kv != self.h), "d_model", "d_k", "d_v"]
        parts = [f"{name}={getattr(self, name)}" for name in names]
        parts += [f"between={self.between!r}"] * bool(self.between)
        return f"MultiHead({', '.join(parts)})"


def _map_per_head(X: np.ndarray, W: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    per_head = X[..., None, :, :] @ W
    return per_head if b is None else per_head + b[:, None, :]


def _how_to_unpack(guess: str, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Show how a packed weight becomes one matrix per head."""
    (name, shape), *others = shapes.items()
    if others or len(shape) != 2 or name.startswith("b_"):
        return guess
    heads, width, _ = shapes_of(MultiHead)[name][0].axes
    repack = f"{name}.reshape({width}, {heads}, -1).swapaxes(0, 1)"
    if name == "W_O":
        repack = f"{name}.reshape({heads}, {width}, -1)"
    return (
        "A packed weight holds all heads side by side; where it is applied as "
        f"X @ {name}, one matrix per head is {repack}."
    )


def _which_source(guess: str, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Tell a source that is projected already from a weight that is transposed."""
    if len(shapes) < 2:
        return guess
    (w_name, W), (x_name, X) = shapes.items()
    if X[-1] != W[-1] or not w_name.startswith("W_"):
        return guess
    return (
        f"{X[-1]} is the width of one head. Either {x_name} is projected already: pass the source "
        f"here, and what {w_name} has projected to attention(Q, K, V). Or {w_name} is transposed: "
        f"rows are tokens here, X @ {w_name}."
    )


def _mask_per_head(mask: object, Q: np.ndarray, K: np.ndarray) -> object:
    """Refuse a mask whose axes could be read two ways: (batch, n_q, n_k) or (h, n_q, n_k)."""
    axes = max(Q.ndim, K.ndim)
    if mask is not None and np.ndim(mask) not in (2, axes):
        shape = (*np.broadcast_shapes(Q.shape[:-2], K.shape[:-2]), Q.shape[-2], K.shape[-2])
        raise ValueError(
            f"mask must have shape (n_q, n_k) = {shape[-2:]} or all axes of the scores, "
            f"(*batch, h, n_q, n_k) = {shape} where any may be 1, but has shape {np.shape(mask)}. "
            "For one mask a sample, shared by its heads, pass mask[:, None]; for one of keys "
            "alone, mask[None]."
        )
    return mask
