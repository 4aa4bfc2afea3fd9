"""May these two be merged? Tables of pairs, each answer tried while the page is built.

For each pair a case says what one merged array would read, and what it would have to give. The best
such array is fitted with least squares. "Yes" is one that misses by rounding alone; "no" says that
even the best one misses.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from qkv import softmax
from qkv_site.tables.libraries import table

EXACT = 1e-9  # of what the two give: what rounding may miss
HEAD = {
    ("",): "alone, and weights",
    ("biases",): "biases",
    ("RoPE",): "RoPE",
    ("norm", "activation"): "a norm, an activation",
    ("dropout",): "dropout in training",
    ("packed",): "all heads packed",
}
EXTRAS = tuple(chain(*HEAD))

_D, _H, _D_K, _N, _N_WORDS = 6, 2, 4, 60, 7
_rng = np.random.default_rng(0)
X, Y = _rng.normal(size=(2, _N, _D))  # two sources; in cross-attention Y gives keys and values
WORDS, PLACES = _rng.integers(_N_WORDS, size=(2, _N))  # of each token
E_WORDS, E_PLACES = _rng.normal(size=(2, _N_WORDS, _D))
W_Q, W_K, W_V = _rng.normal(size=(3, _H, _D, _D_K))
W_O = _rng.normal(size=(_H, _D_K, _D))
P, NEXT = _rng.normal(size=(2, _D, _D))
DOWN, UP = _rng.normal(size=(_D, 2)), _rng.normal(size=(2, _D_K))
GAIN, B_FIRST = _rng.normal(size=(2, _D))
B_Q, B_K, B_V = _rng.normal(size=(3, _H, _D_K))


@dataclass(frozen=True)
class Case:
    """What a merged array would read, what it would have to give, and what acts on that."""

    reads: np.ndarray
    gives: np.ndarray
    after: Callable[[np.ndarray], np.ndarray] = lambda result: result

    def best(self) -> np.ndarray:
        """The array that comes nearest to what the two give."""
        return np.linalg.lstsq(self.reads, self.gives)[0]

    def miss(self) -> float:
        """How far the best array is from what the two give, as a part of that."""
        given = self.after(self.gives)
        return np.linalg.norm(self.after(self.reads @ self.best()) - given) / np.linalg.norm(given)


@dataclass(frozen=True)
class Pair:
    """Two things that one may want to merge, and what speaks against it.

    Attributes:
        name: What the two are, in Markdown.
        page: Where it is explained.
        case: The case if there is nothing else, `""`, or with one of `EXTRAS`.
        holds: How many weights the two hold in the paper's base model, and how many one holds.
        extras: What of `EXTRAS` may be there.
        notes: What to say behind an answer.
    """

    name: str
    page: str
    case: Callable[[str], Case]
    holds: tuple[int, int]
    extras: tuple[str, ...] = EXTRAS
    notes: dict[str, str] = field(default_factory=dict)

    def may(self, extra: str) -> bool:
        """Whether the two may be merged."""
        return self.case(extra).miss() < EXACT

    def cells(self) -> Iterator[str]:
        """A row of the table."""
        yield f"[{self.name}]({self.page})"
        for extras in HEAD:
            yield self._answer([extra for extra in extras if extra in self.extras])

    def _answer(self, extras: list[str]) -> str:
        if not extras:
            return "—"
        (may,) = {self.may(extra) for extra in extras}  # one column has one answer
        weights = f"× {self.holds[1] / self.holds[0]:.2g}" if may and extras == [""] else ""
        said = "yes" if may else "**no**"
        return ", ".join(filter(None, [said, self.notes.get(extras[0]), weights]))


def tables(group: str) -> str:
    """The pairs of one group, one a row."""
    return table(("pair", *HEAD.values()), (pair.cells() for pair in GROUPS[group]))


def cases() -> int:
    """How many cases the tables rest on."""
    return sum(len(pair.extras) for pairs in GROUPS.values() for pair in pairs)


# What may act between two maps, or after them


def _rms_norm(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True))


def _dropped(x: np.ndarray) -> np.ndarray:
    """With a half of the numbers at zero, the same ones for each array of this shape."""
    return x * np.random.default_rng(1).choice([0, 2], size=x.shape)


def _rotated(x: np.ndarray) -> np.ndarray:
    """Each row turned in pairs of coordinates, by its place."""
    angle = np.arange(len(x))[:, None] / 10 ** np.arange(x.shape[-1] // 2)
    first, second = x[:, 0::2], x[:, 1::2]
    cos, sin = np.cos(angle), np.sin(angle)
    return np.hstack([first * cos - second * sin, first * sin + second * cos])


def _between(extra: str) -> Callable[[np.ndarray], np.ndarray]:
    acts = {"norm": _rms_norm, "activation": lambda x: np.maximum(x, 0), "dropout": _dropped}
    return acts.get(extra, lambda x: x)


def _joined(W: np.ndarray) -> np.ndarray:
    """The weights of all heads, in one array."""
    return np.hstack([*W])


def _with_one(x: np.ndarray) -> np.ndarray:
    return np.hstack([x, np.ones((len(x), 1))])


def _of_pairs(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What a matrix between two tokens reads: each number of one times each of the other."""
    return np.einsum("qa,kb->qkab", x, y).reshape(len(x) * len(y), -1)


def _weights(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    return softmax(Q @ K.T / np.sqrt(Q.shape[-1]))


# The cases


def _in_a_row(first: np.ndarray, second: np.ndarray, source: np.ndarray = X):
    """Two maps, one after the other."""

    def case(extra: str) -> Case:
        b, c = (B_FIRST, 1.0) if extra == "biases" else (0, 0)
        gives = _between(extra)(source @ first + b) @ second + c
        reads = _with_one(source) if extra == "biases" else source
        return Case(reads, gives, _rotated if extra == "RoPE" else lambda result: result)

    return case


def _before_heads(extra: str) -> Case:
    return _in_a_row(P, _joined(W_Q) if extra == "packed" else W_Q[0])(extra)


def _gain(extra: str) -> Case:
    W = _joined(W_Q) if extra == "packed" else W_Q[0]
    if extra == "dropout":  # what it leaves is multiplied by the gain, before or after
        return Case(_dropped(_rms_norm(X)), _dropped(_rms_norm(X) * GAIN) @ W)
    return _in_a_row(np.diag(GAIN), W, _rms_norm(X))(extra)


def _division(extra: str) -> Case:
    gives = _rms_norm(X) @ (_joined(W_Q) if extra == "packed" else W_Q[0])
    return Case(_with_one(X), gives + B_Q[0] if extra == "biases" else gives)


def _words(extra: str) -> Case:
    return Case(np.eye(_N_WORDS)[WORDS], _in_a_row(np.eye(_D), W_Q[0], E_WORDS[WORDS])(extra).gives)


def _words_and_places(extra: str) -> Case:
    reads = np.hstack([np.eye(_N_WORDS)[WORDS], np.eye(_N_WORDS)[PLACES]])
    added = E_WORDS[WORDS] + E_PLACES[PLACES]
    return Case(reads, _in_a_row(np.eye(_D), W_Q[0], added)(extra).gives)


def _lora(extra: str) -> Case:
    up = np.hstack([UP, UP]) if extra == "packed" else UP
    W = _joined(W_Q) if extra == "packed" else W_Q[0]
    if extra == "dropout":  # it acts on what the adapter reads
        return Case(X, X @ W + _dropped(X) @ DOWN @ up)
    case = _in_a_row(DOWN, up)("" if extra == "biases" else extra)
    if extra == "biases":
        return Case(_with_one(X), X @ W + B_Q[0] + case.gives)
    return Case(X, X @ W + case.gives, case.after)


def _queries_with_keys(extra: str) -> Case:
    """The scores of two tokens."""
    b, c = (B_Q, B_K) if extra == "biases" else (0 * B_Q, 0 * B_K)
    acts = _rotated if extra == "RoPE" else _between("" if extra == "dropout" else extra)
    x, y = (_with_one(X), _with_one(Y)) if extra == "biases" else (X, Y)
    heads = range(_H) if extra == "packed" else [0]
    scores = [acts(X @ W_Q[i] + b[i]) @ acts(Y @ W_K[i] + c[i]).T for i in heads]
    reads = np.vstack([_of_pairs(x, y) for _ in heads])
    gives = np.concatenate([each.ravel() for each in scores])[:, None]
    if extra != "dropout":
        return Case(reads, gives)
    return Case(reads, gives, lambda S: _dropped(softmax(S.reshape(_N, _N))))  # of the weights


def _values_with_output(extra: str) -> Case:
    """What a head writes: its average of tokens is read."""
    acts = {"norm": _rms_norm, "activation": _between("activation")}.get(extra, lambda V: V)
    reads, gives = [], []
    for i in range(_H) if extra == "packed" else [0]:
        A = _attention(extra, i)
        b = B_V[i] if extra == "biases" else 0
        reads.append(A @ (_with_one(Y) if extra == "biases" else Y))
        gives.append(A @ acts(Y @ W_V[i] + b) @ W_O[i])
    return Case(np.vstack(reads), np.vstack(gives))


def _attention(extra: str, i: int) -> np.ndarray:
    """The weights of a head."""
    turn = _rotated if extra == "RoPE" else lambda x: x
    A = _weights(turn(X @ W_Q[i]), turn(Y @ W_K[i]))
    return _dropped(A) if extra == "dropout" else A


def _two_gains(extra: str) -> Case:
    """The gains of QK-norm: each score is a sum of products, one for each coordinate."""
    b = B_Q[0] if extra == "biases" else 0
    Q, K = _rms_norm(X @ W_Q[0] + b), _rms_norm(Y @ W_K[0] + b)
    g_Q, g_K = GAIN[:_D_K], B_FIRST[:_D_K]
    turn = _rotated if extra == "RoPE" else lambda x: x
    of_coordinates = [turn(Q) @ turn(K * one).T for one in np.eye(_D_K)]
    scores = turn(Q * g_Q) @ turn(K * g_K).T
    return Case(np.stack(of_coordinates, axis=-1).reshape(-1, _D_K), scores.reshape(-1, 1))


def _one_for_both(extra: str) -> Case:
    """One weight that gives keys and values."""
    b, c = (B_K[0], B_V[0]) if extra == "biases" else (0, 0)
    W = [_joined(each) if extra == "packed" else each[0] for each in (W_K, W_V)]
    acts = _between(extra)
    read = _with_one(Y)
    return Case(np.vstack([read, read]), np.vstack([acts(Y @ W[0] + b), acts(Y @ W[1] + c)]))


def _side_by_side(*parts: tuple[np.ndarray, np.ndarray]):
    """Weights with a source each, side by side in one product that reads the first source."""

    def case(extra: str) -> Case:
        gives = [
            source @ (_joined(W) if extra == "packed" else W[0])
            + (i + 1.0 if extra == "biases" else 0)
            for i, (source, W) in enumerate(parts)
        ]
        source = parts[0][0]
        acts = _rotated if extra == "RoPE" else _between(extra)

        def after(joined: np.ndarray) -> np.ndarray:
            return np.hstack([acts(part) for part in np.split(joined, len(parts), axis=-1)])

        return Case(_with_one(source) if extra == "biases" else source, np.hstack(gives), after)

    return case


def _output_with_next(extra: str) -> Case:
    joined = np.hstack([_attention(extra, i) @ Y @ W_V[i] for i in range(_H)])
    case = _in_a_row(np.vstack([*W_O]), NEXT, joined)("" if extra in ("RoPE", "packed") else extra)
    return Case(case.reads, case.gives)


def _over_a_residual(extra: str) -> Case:
    """The output weight with the next map, where the source is added between."""
    without = _output_with_next(extra)
    joined = without.reads[:, : _H * _D_K]
    b = B_FIRST if extra == "biases" else 0
    gives = _between(extra)(X + joined @ np.vstack([*W_O]) + b) @ NEXT
    return Case(without.reads, gives)


def _value_bias(extra: str) -> Case:
    """What the bias of the values adds to the output: one vector?"""
    acts = {"norm": _rms_norm, "activation": _between("activation")}.get(extra, lambda V: V)
    added = 0
    for i in range(_H) if extra == "packed" else [0]:
        A, V = _attention(extra, i), Y @ W_V[i]
        added = added + A @ (acts(V + B_V[i]) - acts(V)) @ W_O[i]
    return Case(np.ones((_N, 1)), added)


def _key_bias(extra: str) -> Case:
    """The attention weights without the bias of the keys: are they those with it?"""
    acts = _rotated if extra == "RoPE" else _between("" if extra == "dropout" else extra)
    heads = range(_H) if extra == "packed" else [0]
    with_it, without = (
        np.hstack([_weights(acts(X @ W_Q[i]), acts(Y @ W_K[i] + b[i])).ravel() for i in heads])
        for b in (B_K, 0 * B_K)
    )
    after = _dropped if extra == "dropout" else lambda A: A
    return Case(without[:, None], with_it[:, None], after)


_512 = 512**2  # a weight of all heads
_PER_HEAD = {"": "per head", "biases": "one wider", "dropout": "on the weights"}
_AFTER = {"norm": "after it", "dropout": "after it"}
_VOCABULARY = 37_000 * 512  # the paper's, section 5.1
_ADAPTER = 8 * (512 + 512)  # of rank 8

GROUPS = {
    "before": (
        Pair(
            "a map before the heads, with W^Q",
            "projected-twice.md#check",
            _before_heads,
            (2 * _512, _512),
        ),
        Pair(
            "a norm's gain and shift, with the maps that read it",
            "../how-to/fold-a-norm.md",
            _gain,
            (3 * _512 + 512, 3 * _512),
            ("", "biases", "RoPE", "dropout", "packed"),
            {"biases": "a new bias", "dropout": "the gain"},
        ),
        Pair(
            "a whole norm, with its division, with W^Q",
            "really-two-maps.md#norm",
            _division,
            (_512, _512),
            ("", "biases", "packed"),
        ),
        Pair(
            "LoRA's two factors, with their base",
            "really-two-maps.md#lora",
            _lora,
            (_512 + _ADAPTER, _512),
            notes={"dropout": "on its input"},
        ),
        Pair(
            "the table of embeddings, with W^Q",
            "#embeddings",
            _words,
            (_VOCABULARY + _512, _VOCABULARY),
            ("", "biases", "norm", "activation", "dropout"),
        ),
        Pair(
            "embeddings plus learned positions, with W^Q",
            "#embeddings",
            _words_and_places,
            (_VOCABULARY + 512 * 512 + _512, _VOCABULARY + 512 * 512),
            ("", "biases", "norm", "activation", "dropout"),
            {"": "two tables", "biases": "two tables"},
        ),
    ),
    "inside": (
        Pair(
            "W^Q with W^K",
            "why-not-one-matrix.md",
            _queries_with_keys,
            (2 * _512, 8 * _512),
            notes=_PER_HEAD | {"norm": "QK-norm"},
        ),
        Pair(
            "W^V with W^O",
            "values-and-output.md#merge",
            _values_with_output,
            (2 * _512, 8 * _512),
            notes=_PER_HEAD | {"norm": "of values"},
        ),
        Pair(
            "QK-norm's gain of queries, with that of keys",
            "rope-and-qk-norm.md#gauge-left",
            _two_gains,
            (2 * 64, 64),
            ("", "biases", "RoPE"),
        ),
        Pair(
            "W^K with W^V, one weight for both",
            "are-they-the-same.md#one-weight",
            _one_for_both,
            (2 * _512, _512),
            ("", "biases", "packed"),
        ),
        Pair(
            "the value bias, with the output bias",
            "biases.md#values",
            _value_bias,
            (2 * 512, 512),
            ("", "RoPE", "norm", "activation", "dropout", "packed"),
            {"norm": "of values", "dropout": "on the weights"},
        ),
        Pair(
            "the key bias, with nothing: left out",
            "biases.md#check",
            _key_bias,
            (512, 0),
            ("", "RoPE", "norm", "activation", "dropout", "packed"),
            {"norm": "QK-norm", "dropout": "on the weights"},
        ),
    ),
    "beside": (
        Pair(
            "W^Q, W^K, W^V in one product, one source",
            "square-or-rectangular.md#thirds",
            _side_by_side((X, W_Q), (X, W_K), (X, W_V)),
            (3 * _512, 3 * _512),
            notes=_AFTER,
        ),
        Pair(
            "W^Q, W^K, W^V in one product, cross-attention",
            "are-they-the-same.md#cross-attention",
            _side_by_side((X, W_Q), (Y, W_K), (Y, W_V)),
            (3 * _512, 3 * _512),
            ("", "biases", "packed"),
        ),
        Pair(
            "W^K, W^V in one product, cross-attention",
            "grouped-and-latent-heads.md#to-kv",
            _side_by_side((Y, W_K), (Y, W_V)),
            (2 * _512, 2 * _512),
            notes=_AFTER,
        ),
        Pair(
            "W^O with a linear layer that follows at once",
            "values-and-output.md#why-w-o",
            _output_with_next,
            (2 * _512, _512),
        ),
        Pair(
            "W^O with the next layer, the residual added between",
            "values-and-output.md#why-w-o",
            _over_a_residual,
            (2 * _512, _512),
        ),
    ),
}
