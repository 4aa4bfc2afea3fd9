r"""What stands between the maps in today's layers: small values, each with its formula.

In the paper queries and keys go from the maps straight to equation (1). Llama rotates them first,
Gemma 2 caps their scores. Each such step is a frozen value here, and a layer holds them in the
order in which they act: `MultiHead(..., between=(QKNorm(g_Q, g_K), Rotation.of(10000, 64)))`.
A step overrides the method of `Step` for where it acts; so does one of your own.

Queries have axes `(*batch, h, n_q, d_k)`, keys `(*batch, h_kv, n_k, d_k)`, and scores
`(*batch, h, n_q, n_k)`. Positions are whole numbers in columns, i of the queries, `(n_q, 1)`, and j
of the keys, `(n_k, 1)`; where samples have their own, `(*batch, 1, n_q, 1)`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from qkv._arrays import Float, bind_fields, check_one_of, check_positive, check_sizes


class Step:
    """One thing that stands between the maps; a subclass overrides what it changes.

    Attributes:
        changes: Of "Q", "K", "V", "S" (scores) and "A" (weights), those that it changes.
        by_position: Whether it needs positions.

    Raises:
        TypeError: If an array of the step does not hold floating-point numbers.
        ValueError: If an array has another shape, or a number is not positive that has to be.
    """

    changes = ""
    by_position = False
    _positive = ()

    def __init_subclass__(cls, changes="", by_position=False, positive=(), **options):
        """Note what a step changes: what it says, or all that its methods may change.

        `positive` names those of its numbers that must be positive.
        """
        super().__init_subclass__(**options)  # which refuses what is none of these
        of_methods = {"vectors": "QKV", "scores": "S", "weights": "A"}
        own = "".join(of_methods[name] for name in of_methods if name in vars(cls))
        # A step that is made from another one changes what that one does too.
        cls.changes = changes or "".join(each for each in "QKVSA" if each in cls.changes + own)
        cls.by_position = by_position or cls.by_position
        cls._positive = (*cls._positive, *positive)

    def __post_init__(self):
        bind_fields(self)
        check_positive(**{name: getattr(self, name) for name in self._positive})

    def vectors(self, Q, K, V, i, j):
        """Queries, keys and values after this step."""
        return Q, K, V

    def scores(self, S, i, j):
        """Scores after this step; they are scaled already, and not masked."""
        return S

    def weights(self, A, S):
        """Weights of the softmax after this step; where the mask hides, S is minus infinity."""
        return A

    def check(self, h: int, h_kv: int, d_k: int) -> None:
        """Raise ValueError if a layer of these sizes cannot have this step."""

    def __repr__(self):
        parts = [
            f"{name} {value.shape}" if isinstance(value, np.ndarray) else f"{name}={value!r}"
            for name, value in vars(self).items()
            if value is not None
        ]
        return f"{type(self).__name__}({', '.join(parts)})"

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        a, b = vars(self), vars(other)
        return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


@dataclass(frozen=True, eq=False, repr=False)
class Rotation(Step, changes="QK", by_position=True, positive=["magnitude"]):
    r"""RoPE: turns pairs of numbers of each query and key, by angles that grow with its position.

    $$(x_a + \mathrm{i}\,x_b) \mapsto m\,e^{\mathrm{i} p \theta_k}\,(x_a + \mathrm{i}\,x_b)$$

    At position $p$, pair $k$ turns by $p\,\theta_k$. So of two positions only the difference acts
    on a dot product.

    Args:
        angles: $\theta_k$; r of them turn the first 2r numbers of a head, and the others stay.
        pairs: Which numbers are a pair: "halves" are k and k + r, "neighbours" 2k and 2k + 1.
        magnitude: $m$, which YaRN needs.

    Raises:
        TypeError: If the angles are no floating-point numbers.
        ValueError: If they are no vector, `pairs` is another word, or `magnitude` is not positive.

    Examples:
        A quarter turn takes (1, 0) to (0, 1).

        >>> Rotation(np.array([np.pi / 2])).turn(np.array([[1.0, 0.0]]), np.array([[1]])).round(9)
        array([[0., 1.]])

    Source:
        Su et al., *RoFormer* (2021), section 3.4.2; halves as in transformers 5.23.0,
        models/llama/modeling_llama.py, neighbours as in models/gptj/modeling_gptj.py.
    """

    angles: Float[np.ndarray, " r"]
    pairs: str = "halves"
    magnitude: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        check_one_of("pairs", self.pairs, ("halves", "neighbours"))

    @classmethod
    def of(
        cls, base: float, width: int, pairs: str = "halves", scaling: Mapping | None = None
    ) -> "Rotation":
        r"""The rotation of a base, $\theta_k = base^{-2k/width}$, or one scaled for long texts.

        Args:
            base: 10000 in RoFormer; a config.json calls it `rope_theta`.
            width: How many numbers of a head are turned.
            pairs: "halves" or "neighbours".
            scaling: As a config.json has it; `rope_type` is one of `SCALINGS`.

        Raises:
            ValueError: If `width` is no even number from 2 on, `base` is not positive, `pairs` is
                another word, or the scaling is not known, lacks a number, or gives no angles from 0
                on or no positive magnitude.

        Examples:
            >>> Rotation.of(1e4, 4, scaling={"rope_type": "linear", "factor": 2}).angles.tolist()
            [0.5, 0.005]

        Source:
            transformers 5.23.0, modeling_rope_utils.py; Peng et al., *YaRN* (2023), section 3.
        """
        if not (isinstance(width, Integral) and width >= 2 and width % 2 == 0):
            raise ValueError(f"width must be an even number from 2 on, but is {width!r}.")
        check_positive(base=base)
        scaling = dict(scaling or {})
        scaling.setdefault("rope_type", scaling.get("type", "default"))  # older configs say "type"
        check_one_of("rope_type", scaling["rope_type"], SCALINGS)
        angles = base ** (-np.arange(0.0, width, 2) / width)
        try:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                angles, magnitude = SCALINGS[scaling["rope_type"]](angles, base, scaling)
            finite = bool(np.isfinite(angles).all() and (angles >= 0).all())
        except KeyError as missing:
            raise ValueError(f"scaling must have {missing}, but is {scaling}.") from None
        except (TypeError, ValueError, ArithmeticError):  # null in a config.json, or no length
            finite = False
        if not finite:  # a factor of 0, or less
            raise ValueError(f"No angles follow from base = {base} and {scaling}.")
        return cls(angles, pairs, magnitude)

    def vectors(self, Q, K, V, i, j):
        return self.turn(Q, i), self.turn(K, j), V

    def turn(self, x: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Turn vectors (..., n, d) at positions (..., n, 1)."""
        r = len(self.angles)
        a, b = slice(r), slice(r, 2 * r)
        if self.pairs == "neighbours":
            a, b = slice(0, 2 * r, 2), slice(1, 2 * r, 2)
        turned = (self.magnitude * np.exp(1j * p * self.angles)).astype(np.result_type(x, 1j))
        cos, sin = turned.real, turned.imag
        shape = np.broadcast_shapes(x.shape, (*p.shape[:-1], 1))
        y = np.array(np.broadcast_to(x, shape), np.result_type(x, np.float16))  # never integers
        y[..., a] = x[..., a] * cos - x[..., b] * sin
        y[..., b] = x[..., a] * sin + x[..., b] * cos
        return y

    def check(self, h, h_kv, d_k):
        if (width := 2 * len(self.angles)) > d_k:
            raise ValueError(f"The rotation turns {width} numbers of a head, but d_k = {d_k}.")


def _llama3(angles: np.ndarray, base: float, given: Mapping) -> tuple[np.ndarray, float]:
    """Slow pairs are divided by the factor, fast ones stay, and those between do it in part."""
    turns = given["original_max_position_embeddings"] * angles / (2 * math.pi)
    low, high = given["low_freq_factor"], given["high_freq_factor"]
    kept = np.clip((turns - low) / (high - low), 0, 1)
    return kept * angles + (1 - kept) * angles / given["factor"], 1.0


def _yarn(angles: np.ndarray, base: float, given: Mapping) -> tuple[np.ndarray, float]:
    """The same with a ramp over the pairs; and what is turned grows."""
    factor, length = given["factor"], given["original_max_position_embeddings"]
    width = 2 * len(angles)

    def pair_with(turns: float) -> float:
        return width * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base))

    def growth(by: float) -> float:
        return 0.1 * by * math.log(factor) + 1 if factor > 1 else 1.0

    low, high = pair_with(given.get("beta_fast") or 32.0), pair_with(given.get("beta_slow") or 1.0)
    if given.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    divided = np.clip((np.arange(len(angles)) - low) / (high - low or 0.001), 0, 1)
    by, by_all = given.get("mscale"), given.get("mscale_all_dim")
    magnitude = growth(by) / growth(by_all) if by and by_all else growth(1.0)
    own = given.get("attention_factor")
    angles = (1 - divided) * angles + divided * angles / factor
    return angles, magnitude if own is None else own


SCALINGS: Mapping[str, Callable] = {
    "default": lambda angles, base, given: (angles, 1.0),
    "linear": lambda angles, base, given: (angles / given["factor"], 1.0),
    "llama3": _llama3,
    "yarn": _yarn,
}


@dataclass(frozen=True, eq=False, repr=False)
class QKNorm(Step, changes="QK"):
    r"""A norm of each query and key; where it stands in `between` says whether before a rotation.

    $$x \mapsto g\,\frac{x}{\sqrt{\operatorname{mean}(x^2) + \epsilon}} + b$$

    That is RMSNorm. With `centre`, LayerNorm: $x - \operatorname{mean}(x)$ stands for $x$.

    Args:
        g_Q: Gains of queries, (d_k,) for all heads or (h, d_k); 1 where None.
        g_K: Gains of keys, (d_k,) or (h_kv, d_k).
        b_Q: What is added to queries, in the same shapes; 0 where None.
        b_K: What is added to keys.
        eps: $\epsilon$.
        centre: Whether the mean is taken away first.
        all_heads: Whether a mean is over all heads of a token together.

    Examples:
        >>> Q, K, V = np.full((3, 1, 2, 4), 5.0)
        >>> QKNorm(eps=0.0).vectors(Q, K, V, None, None)[0].tolist()
        [[[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]]

    Source:
        Henry et al., *Query-Key Normalization for Transformers* (2020), with the L2 norm and one
        learned scale. These norms are those of transformers 5.23.0: over each head,
        models/qwen3/modeling_qwen3.py; over all heads, models/olmo2/modeling_olmo2.py.
    """

    g_Q: Float[np.ndarray, " d_k"] | Float[np.ndarray, "h d_k"] | None = None
    g_K: Float[np.ndarray, " d_k"] | Float[np.ndarray, "h_kv d_k"] | None = None
    b_Q: Float[np.ndarray, " d_k"] | Float[np.ndarray, "h d_k"] | None = None
    b_K: Float[np.ndarray, " d_k"] | Float[np.ndarray, "h_kv d_k"] | None = None
    eps: float = 1e-6
    centre: bool = False
    all_heads: bool = False

    def vectors(self, Q, K, V, i, j):
        return self._norm(Q, self.g_Q, self.b_Q), self._norm(K, self.g_K, self.b_K), V

    def _norm(self, x, g, b):
        axes = (-3, -1) if self.all_heads else -1
        dtype = x.dtype
        x = x.astype(np.result_type(x, np.float32), copy=False)  # squares overflow in float16
        x = x - x.mean(axes, keepdims=True) if self.centre else x
        x = x / np.sqrt((x**2).mean(axes, keepdims=True) + x.dtype.type(self.eps))
        x = x.astype(dtype, copy=False)
        # Gains (d_k,) or (h, d_k) meet vectors (*batch, h, n, d_k).
        g, b = (y if y is None or y.ndim == 1 else y[:, None] for y in (g, b))
        x = x if g is None else x * g.astype(x.dtype)
        return x if b is None else x + b.astype(x.dtype)


@dataclass(frozen=True, eq=False, repr=False)
class Clip(Step, changes="QKV", positive=["c"]):
    r"""Queries, keys and values stay within a limit: $x \mapsto \min(\max(x, -c), c)$.

    Examples:
        >>> Clip(8.0).vectors(*np.array([[9.0], [-9.0], [1.0]]), None, None)[1]
        array([-8.])

    Source:
        `clip_qkv` of OLMo: transformers 5.23.0, models/olmo/modeling_olmo.py.
    """

    c: float

    def vectors(self, Q, K, V, i, j):
        return tuple(np.clip(x, -self.c, self.c) for x in (Q, K, V))


@dataclass(frozen=True, eq=False, repr=False)
class Temperature(Step, changes="Q", by_position=True, positive=["f"]):
    r"""Queries grow with their position, so that long texts do not flatten their weights.

    $$q_p \mapsto \left(1 + a \ln(1 + \lfloor (p + p_0) / f \rfloor)\right) q_p$$

    Examples:
        >>> Temperature(a=1.0, f=1.0, p_0=0).vectors(np.ones((1, 1)), 0, 0, np.array([[1]]), 0)[0]
        array([[1.69314718]])

    Source:
        `attn_temperature_tuning` of Llama 4: transformers 5.23.0,
        models/llama4/modeling_llama4.py.
    """

    a: float
    f: float
    p_0: int = 1

    def vectors(self, Q, K, V, i, j):
        return Q * (1 + self.a * np.log1p((i + self.p_0) // self.f)).astype(Q.dtype), K, V


@dataclass(frozen=True, eq=False, repr=False)
class SoftCap(Step, changes="S", positive=["c"]):
    r"""Scores stay between -c and c, softly: $s \mapsto c \tanh(s / c)$.

    Examples:
        >>> SoftCap(50.0).scores(np.array([1.0, 5000.0]), None, None).round(4).tolist()
        [0.9999, 50.0]

    Source:
        Gemma Team, *Gemma 2* (2024), section 2, "Logit soft-capping".
    """

    c: float

    def scores(self, S, i, j):
        return self.c * np.tanh(S / self.c)


@dataclass(frozen=True, eq=False, repr=False)
class ALiBi(Step, changes="S", by_position=True):
    r"""A score falls the further back its key is, by the head's slope: $s_{ij} + m\,(j - i)$.

    Later keys would gain: it is made for a causal mask.

    Args:
        slopes: $m$ of each head, (h,).

    Examples:
        >>> ALiBi.of(8).slopes[:3].tolist()
        [0.5, 0.25, 0.125]

    Source:
        Press et al., *Train Short, Test Long* (2021), section 3.
    """

    slopes: Float[np.ndarray, " h"]

    @classmethod
    def of(cls, h: int) -> "ALiBi":
        """The paper's slopes; where h is no power of two, those of its authors' code.

        Raises:
            ValueError: If `h` is no positive whole number.
        """
        check_sizes(h=h)
        H = 2 ** math.floor(math.log2(h))
        slopes = 2.0 ** (-8 * np.arange(1, H + 1) / H)
        between = 2.0 ** (-8 * (np.arange(1, H + 1) - 0.5) / H)
        return cls(np.concatenate([slopes, between])[:h])

    def scores(self, S, i, j):
        return S + (self.slopes[:, None, None] * (j.swapaxes(-1, -2) - i)).astype(S.dtype)


@dataclass(frozen=True, eq=False, repr=False)
class DistanceBias(Step, changes="S", by_position=True):
    r"""A learned number is added to each score, by head and distance: $s_{ij} + T_{b(j - i)}$.

    Short distances have a bucket $b$ each; longer ones share buckets.

    Args:
        table: $T$, (buckets, h).
        farthest: From this distance on, and mostly from somewhat before it, a side has one bucket.
        both_ways: Whether keys after the query have half of the buckets.

    Raises:
        TypeError: If the table does not hold floating-point numbers.
        ValueError: If it has too few rows, or too many for `farthest`.

    Examples:
        >>> bias = DistanceBias(np.arange(8.0)[:, None], farthest=16, both_ways=False)
        >>> i = np.arange(12)[:, None]
        >>> bias.scores(np.zeros((1, 12, 12)), i, i)[0, 11].astype(int).tolist()
        [6, 6, 6, 6, 5, 5, 4, 4, 3, 2, 1, 0]

    Source:
        Raffel et al., *T5* (2020), section 2.1; transformers 5.23.0, models/t5/modeling_t5.py.
    """

    table: Float[np.ndarray, "buckets h"]
    farthest: int = 128
    both_ways: bool = True

    def __post_init__(self):
        super().__post_init__()
        one_each = len(self.table) // (4 if self.both_ways else 2)
        if not 1 <= one_each < self.farthest:
            raise ValueError(
                f"table has {len(self.table)} rows, so {one_each} distances have one each: "
                f"expected at least 1, and less than farthest = {self.farthest}."
            )

    def scores(self, S, i, j):
        buckets = self._bucket(j.swapaxes(-1, -2) - i)  # (n_q, n_k), or (*batch, 1, n_q, n_k)
        buckets = buckets[..., 0, :, :] if buckets.ndim > 2 else buckets  # heads come in its place
        return S + np.moveaxis(self.table[buckets], -1, -3).astype(S.dtype)

    def _bucket(self, distance: np.ndarray) -> np.ndarray:
        n, first = len(self.table), 0
        if self.both_ways:
            n //= 2
            first, distance = n * (distance > 0), -np.abs(distance)
        back, one_each = np.maximum(-distance, 0), n // 2
        rise = np.log(np.maximum(back, 1) / one_each) / math.log(self.farthest / one_each)
        shared = np.minimum(one_each + (rise * (n - one_each)).astype(int), n - 1)
        return first + np.where(back < one_each, back, shared)


@dataclass(frozen=True, eq=False, repr=False)
class Sinks(Step, changes="A"):
    r"""Each head's softmax has one more score, learned, without a value.

    $$A_{ij} = \frac{e^{s_{ij}}}{e^t + \sum_l e^{s_{il}}}$$

    Args:
        t: $t$ of each head, (h,).

    Examples:
        >>> Sinks(np.zeros(1)).weights(np.ones((1, 1, 1)), np.zeros((1, 1, 1))).item()
        0.5

    Source:
        gpt-oss (2025): transformers 5.23.0, models/gpt_oss/modeling_gpt_oss.py.
    """

    t: Float[np.ndarray, " h"]

    def weights(self, A, S):
        t = self.t[:, None, None].astype(S.dtype)
        largest = np.maximum(S.max(axis=-1, keepdims=True), t)
        wide = np.result_type(S, np.float32)  # in float16 a sum of many would be wrong
        Z = np.exp(S - largest).sum(axis=-1, keepdims=True, dtype=wide)
        return (A * (Z / (np.exp(t - largest) + Z))).astype(A.dtype, copy=False)


@dataclass(frozen=True, eq=False, repr=False)
class Unknown(Step, changes="QKVSA"):
    """Something that stands there, or may, and is not known: the layer refuses to be called.

    `why` says what is not known.
    """

    why: str

    def vectors(self, Q, K, V, i, j):
        raise ValueError(
            f"{self.why} To compute the layer all the same, say what stands between the maps of "
            "mh = load(...): dataclasses.replace(mh, between=()) if nothing does."
        )
