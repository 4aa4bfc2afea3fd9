r"""What each scheme of multi-head attention costs, in exact whole numbers.

This room is for whoever counts weights, multiplications or memory. A scheme is a list of steps,
each of them one matrix product or several.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from qkv._arrays import check_groups, check_one_of, check_sizes, head_width, refuse_steps
from qkv.multi_head import MultiHead

SCHEMES = ("paper", "packed", "two-step", "w_qk")


@dataclass(frozen=True)
class Sizes:
    """The sizes of a layer and of its sources; what is left out takes the paper's default.

    Args:
        d_model: Width of the sources and of the output.
        h: Number of heads.
        n_q: Number of tokens in the source of the queries.
        n_k: Number of tokens in the source of the keys and values; `n_q` where None.
        h_kv: Number of heads of keys and values; `h` where None.
        d_k: Width of one head's queries and keys; `d_model / h` where None.
        d_v: Width of one head's values; `d_k` where None.

    Raises:
        ValueError: If a size is not a positive whole number, `h` does not divide `d_model` where
            `d_k` is None, or `h_kv` does not divide `h`.

    Examples:
        >>> Sizes(d_model=512, h=8, n_q=100).d_k
        64
    """

    d_model: int
    h: int
    n_q: int
    n_k: int | None = None
    h_kv: int | None = None
    d_k: int | None = None
    d_v: int | None = None

    def __post_init__(self):
        defaults = {
            "n_k": lambda: self.n_q,
            "h_kv": lambda: self.h,
            "d_k": lambda: head_width(self.d_model, self.h),
            "d_v": lambda: self.d_k,
        }
        left_out = {name for name in defaults if getattr(self, name) is None}
        check_sizes(**{name: size for name, size in vars(self).items() if name not in left_out})
        for name, size in vars(self).items():
            object.__setattr__(self, name, int(defaults[name]() if size is None else size))
        check_groups(self.h, self.h_kv)


Factors = tuple[str, ...]
"""Names of sizes, to be multiplied; an empty tuple is one."""


class Step(NamedTuple):
    """One step of a scheme: `count` products of a (rows, inner) by an (inner, columns) matrix.

    Each is a product of sizes and holds their names: `("h", "d_k")` is h·d_k. `weight` names the
    right factors where they are a weight.
    """

    result: str
    weight: str | None
    count: Factors
    rows: Factors
    inner: Factors
    columns: Factors

    @property
    def multiply_adds(self) -> Factors:
        """How many times one number is multiplied by another and added to a sum."""
        return self.count + self.rows + self.inner + self.columns

    @property
    def activations(self) -> Factors:
        """How many numbers the results hold."""
        return self.count + self.rows + self.columns

    @property
    def parameters(self) -> Factors | None:
        """How many numbers the weight holds; None if there is no weight."""
        return self.count + self.inner + self.columns if self.weight else None


class Product(NamedTuple):
    """A `Step` at given sizes."""

    result: str
    weight: str | None
    count: int
    rows: int
    inner: int
    columns: int
    multiply_adds: int
    activations: int
    parameters: int


@dataclass(frozen=True)
class Cost:
    """What a scheme costs at given sizes. Biases are not counted; the paper has none.

    Args:
        scheme: Its name in `SCHEMES`.
        parameters: Numbers in the weights.
        degrees_of_freedom: How many of them can move the output independently; see
            `degrees_of_freedom`.
        products: Matrix products.
        multiply_adds: Multiplications in them, each with an addition. The softmax is not counted.
        activations: Numbers in the results of all products.
        cached_per_token: Numbers kept of each earlier token while a text is generated, so that
            the next token repeats no product of theirs.
    """

    scheme: str
    parameters: int
    degrees_of_freedom: int
    products: int
    multiply_adds: int
    activations: int
    cached_per_token: int


@dataclass(frozen=True)
class LayerCost:
    """What a whole layer costs at given sizes: attention, and the MLP after it.

    Norms, biases, the softmax, and the MLP's activation and gating are not counted.

    Args:
        attention_parameters: Numbers in the weights of queries, keys, values and output.
        mlp_parameters: Numbers in the matrices of the MLP.
        projections: Multiply-adds with the weights of attention.
        scores_and_averages: Multiply-adds of queries with keys, and of weights with values.
        mlp: Multiply-adds of the MLP.
        cached_per_token: Numbers kept of each earlier token, keys and values.
    """

    attention_parameters: int
    mlp_parameters: int
    projections: int
    scores_and_averages: int
    mlp: int
    cached_per_token: int

    @property
    def multiply_adds(self) -> int:
        """All multiply-adds of the layer."""
        return self.projections + self.scores_and_averages + self.mlp

    @property
    def flops(self) -> int:
        """Floating-point operations: a multiplication and an addition count as two."""
        return 2 * self.multiply_adds


def layer_cost(
    sizes: Sizes, d_ff: int | None = None, *, gated: bool = False, causal: bool = False
) -> LayerCost:
    r"""Count what a layer of a Transformer costs: attention, and the MLP after it.

    In the paper's encoder, with $D = d_{model}$ and $L$ tokens, the projections take $4 L D^2$
    multiply-adds, scores and averages $2 L^2 D$, and the MLP $8 L D^2$.

    Args:
        sizes: The layer and the lengths of its sources.
        d_ff: Width of the MLP; without one, there is no MLP.
        gated: Whether the MLP has three matrices, as SwiGLU has, in place of two.
        causal: Whether a query is compared only with keys up to its own place, the last query
            standing at the last key.

    Returns:
        The counts, each a whole number.

    Raises:
        ValueError: If `d_ff` is not a positive whole number, or there are fewer keys than queries
            in a causal layer.

    Examples:
        Grouped heads: the cache shrinks.

        >>> every = layer_cost(Sizes(4096, 32, 8192), causal=True)
        >>> grouped = layer_cost(Sizes(4096, 32, 8192, h_kv=8), causal=True)
        >>> every.cached_per_token, grouped.cached_per_token
        (8192, 2048)
    """
    if d_ff is not None:
        check_sizes(d_ff=d_ff)
        d_ff = int(d_ff)  # a product of NumPy's numbers may overflow
    n_q, n_k = sizes.n_q, sizes.n_k
    if causal and n_k < n_q:
        raise ValueError(
            "A causal layer needs as many keys as queries or more, "
            f"but n_q = {n_q} and n_k = {n_k}."
        )
    every = products("packed", sizes)
    pairs = n_q * n_k - causal * (n_q * (n_q - 1) // 2)
    mlp = (3 if gated else 2) * sizes.d_model * (d_ff or 0)
    return LayerCost(
        attention_parameters=sum(step.parameters for step in every),
        mlp_parameters=mlp,
        projections=sum(step.multiply_adds for step in every if step.weight),
        scores_and_averages=pairs * sizes.h * (sizes.d_k + sizes.d_v),
        mlp=n_q * mlp,
        cached_per_token=cost("packed", sizes).cached_per_token,
    )


def low_rank_dimension(rows: int, columns: int, rank: int) -> int:
    r"""Count the degrees of freedom of a matrix of limited rank.

    $$\dim \{M \in \mathbb{R}^{r \times c} : \operatorname{rank} M \le k\} = k\,(r + c - k)$$

    Args:
        rows: $r$, a positive whole number.
        columns: $c$.
        rank: The bound $k$ on the rank; one above the smaller of $r$ and $c$ binds nothing.

    Returns:
        The dimension.

    Raises:
        ValueError: If a size is not a positive whole number.

    Examples:
        The paper's $W_i^Q {W_i^K}^\top$ of rank 64, made from 65,536 weights, and a free matrix.

        >>> low_rank_dimension(512, 512, 64), low_rank_dimension(512, 512, 512)
        (61440, 262144)
    """
    check_sizes(rows=rows, columns=columns, rank=rank)
    rows, columns, rank = int(rows), int(columns), int(min(rank, rows, columns))
    return rank * (rows + columns - rank)


def cost(scheme: str, sizes: Sizes) -> Cost:
    r"""Count what a scheme costs.

    Args:
        scheme: One of `SCHEMES`. "paper" has one matrix per head, and "packed" the same numbers
            side by side in one. "two-step" has a d_model by d_model map of each source before
            those of the heads. "w_qk" has one $W_i^{QK}$ in place of $W_i^Q$ and $W_i^K$.
        sizes: The layer and the lengths of its sources.

    Returns:
        The counts, each a whole number.

    Raises:
        ValueError: If `scheme` is not one of `SCHEMES`.

    Examples:
        A map before the heads adds three matrices, and nothing a layer without it cannot do.

        >>> sizes = Sizes(d_model=512, h=8, n_q=100)
        >>> paper, two_step = cost("paper", sizes), cost("two-step", sizes)
        >>> two_step.parameters - paper.parameters == 3 * 512**2
        True
        >>> two_step.degrees_of_freedom - paper.degrees_of_freedom
        0
    """
    numbers = {name: _evaluate(terms, sizes) for name, terms in counts(scheme).items()}
    return Cost(scheme, **numbers, degrees_of_freedom=_degrees_of_freedom(scheme, sizes))


def products(scheme: str, sizes: Sizes) -> tuple[Product, ...]:
    """List a scheme's matrix products, with numbers, in the order they are computed.

    Args:
        scheme: One of `SCHEMES`.
        sizes: The layer and the lengths of its sources.

    Returns:
        The products; those of all heads are one step.

    Raises:
        ValueError: If `scheme` is not one of `SCHEMES`.

    Examples:
        >>> first, *_ = products("paper", Sizes(d_model=512, h=8, n_q=100))
        >>> first.result, first.count, first.rows, first.inner, first.columns
        ('Q', 8, 100, 512, 64)
    """
    return tuple(
        Product(
            step.result,
            step.weight,
            *(_multiply(factors, sizes) for factors in step[2:]),
            _multiply(step.multiply_adds, sizes),
            _multiply(step.activations, sizes),
            _multiply(step.parameters, sizes) if step.weight else 0,
        )
        for step in steps(scheme)
    )


def steps(scheme: str) -> tuple[Step, ...]:
    """List a scheme's matrix products, with names of sizes, in the order they are computed.

    Args:
        scheme: One of `SCHEMES`.

    Returns:
        The steps.

    Raises:
        ValueError: If `scheme` is not one of `SCHEMES`.

    Examples:
        >>> steps("packed")[0].columns
        ('h', 'd_k')
    """
    check_one_of("scheme", scheme, SCHEMES)
    return _STEPS[scheme]


def counts(scheme: str) -> dict[str, tuple[Factors, ...]]:
    """Write each count of a `Cost` as a sum of products of sizes.

    Args:
        scheme: One of `SCHEMES`.

    Returns:
        Name to terms, for each count but the degrees of freedom, which are no such sum.

    Raises:
        ValueError: If `scheme` is not one of `SCHEMES`.

    Examples:
        >>> counts("paper")["cached_per_token"]
        (('h_kv', 'd_k'), ('h_kv', 'd_v'))
    """
    every = steps(scheme)
    keys = ("d_model",) if scheme == "w_qk" else ("h_kv", "d_k")  # all heads share the source
    return {
        "parameters": tuple(step.parameters for step in every if step.parameters),
        "products": tuple(step.count for step in every),
        "multiply_adds": tuple(step.multiply_adds for step in every),
        "activations": tuple(step.activations for step in every),
        "cached_per_token": (keys, ("h_kv", "d_v")),
    }


def _multiply(factors: Factors, sizes: Sizes) -> int:
    return math.prod(getattr(sizes, name) for name in factors)


def _evaluate(terms: tuple[Factors, ...], sizes: Sizes) -> int:
    return sum(_multiply(factors, sizes) for factors in terms)


def _grouped_dimension(h: int, h_kv: int, width: int, shared_width: int, rank: int) -> int:
    """Count the degrees of freedom of one map per head of limited rank.

    The heads of a group share one factor, so that their maps, one below the other, are one matrix
    of that rank.
    """
    return h_kv * low_rank_dimension(h // h_kv * width, shared_width, rank)


def _degrees_of_freedom(scheme: str, sizes: Sizes) -> int:
    h, h_kv, d_model = sizes.h, sizes.h_kv, sizes.d_model
    W_QK = (
        _grouped_dimension(h, h, d_model, d_model, d_model)  # each matrix is free
        if scheme == "w_qk"
        else _grouped_dimension(h, h_kv, d_model, d_model, sizes.d_k)
    )
    return W_QK + _grouped_dimension(h, h_kv, d_model, d_model, sizes.d_v)


_PER_HEAD = (
    Step("Q", "W_Q", ("h",), ("n_q",), ("d_model",), ("d_k",)),
    Step("K", "W_K", ("h_kv",), ("n_k",), ("d_model",), ("d_k",)),
    Step("V", "W_V", ("h_kv",), ("n_k",), ("d_model",), ("d_v",)),
)
_SIDE_BY_SIDE = tuple(
    step._replace(count=(), columns=step.count + step.columns) for step in _PER_HEAD
)
_BEFORE_HEADS = tuple(
    Step(f"X_{c} P_{c}", f"P_{c}", (), (n,), ("d_model",), ("d_model",))
    for c, n in (("Q", "n_q"), ("K", "n_k"), ("V", "n_k"))
)
_SCORES = Step("S", None, ("h",), ("n_q",), ("d_k",), ("n_k",))
_W_QK_SCORES = (
    Step("X_Q W_QK", "W_QK", ("h",), ("n_q",), ("d_model",), ("d_model",)),
    _SCORES._replace(inner=("d_model",)),
)
_COMBINE = (
    Step("heads", None, ("h",), ("n_q",), ("n_k",), ("d_v",)),
    Step("output", "W_O", (), ("n_q",), ("h", "d_v"), ("d_model",)),
)
_STEPS = {
    "paper": (*_PER_HEAD, _SCORES, *_COMBINE),
    "packed": (*_SIDE_BY_SIDE, _SCORES, *_COMBINE),
    "two-step": (*_BEFORE_HEADS, *_PER_HEAD, _SCORES, *_COMBINE),
    "w_qk": (*_W_QK_SCORES, _PER_HEAD[-1], *_COMBINE),
}


def degrees_of_freedom(mh: MultiHead) -> int:
    r"""Count the independent directions in which the weights can move the output.

    $$\dim \{W_i^{QK}\} = d_k\,(2\,d_{model} - d_k) \qquad
      \dim \{W_i^{VO}\} = d_v\,(2\,d_{model} - d_v)$$

    That is for each head of the paper's layer: all its weights but the $d_k^2$ and $d_v^2$ numbers
    of a `gauge`. Heads that share a key and value share its gauge. A key's bias moves no output; a
    value's adds a constant to the output, as `b_O` does.

    Args:
        mh: The layer. W_O counts as a weight, also where it was None.

    Returns:
        The rank of the derivative of the outputs by all weights, for random weights and enough
        sources of several tokens.

    Raises:
        ValueError: If a step between the maps changes queries, keys or values; with a bias of keys
            or values also if one changes scores or weights. The message names the step.

    Examples:
        One head of width 2 in a model of width 3: 24 weights, twice 2 (2 x 3 - 2) of them free.

        >>> degrees_of_freedom(MultiHead.random(3, 1, d_k=2))
        16
    """
    refuse_steps(mh, "QKV", "the maps", "and decides which gauges are left.")
    if mh.b_K is not None or mh.b_V is not None:
        refuse_steps(mh, "SA", "the maps", "and decides whether b_K and b_V are free.")
    d_query = mh.d_model + (mh.b_Q is not None)
    (d_source_k, d_source_v, d_out) = mh.W_K.shape[1], mh.W_V.shape[1], mh.W_O.shape[-1]
    W_QK = _grouped_dimension(mh.h, mh.h_kv, d_query, d_source_k, mh.d_k)
    W_VO = _grouped_dimension(mh.h, mh.h_kv, d_out, d_source_v, mh.d_v)
    if mh.b_O is not None or (mh.b_V is not None and mh.d_v > d_source_v):
        constant = d_out  # parts of W_O that no source reaches take b_V anywhere
    elif mh.b_V is not None:
        constant = min(d_out, mh.h_kv * mh.d_v)
    else:
        constant = 0
    return W_QK + W_VO + constant
