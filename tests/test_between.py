"""What stands between the maps: each step against a loop over numbers, and what it refuses."""

import cmath
import math
from dataclasses import replace

import numpy as np
import pytest

from qkv import MultiHead, attention, w_qk
from qkv.between import (
    ALiBi,
    Clip,
    DistanceBias,
    QKNorm,
    Rotation,
    Sinks,
    SoftCap,
    Step,
    Temperature,
    Unknown,
)
from qkv.maps import gauge
from qkv.masks import causal
from support import refuses

RNG = np.random.default_rng(7)
MH = MultiHead.random(12, 6, h_kv=2, d_k=4, d_v=5, bias=True)
X = RNG.normal(size=(2, 7, 12))
Q, K, V = MH.project(X)
COLUMN = np.arange(7)[:, None]
LINEAR = {"rope_type": "linear", "factor": None}
YARN = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64}
ALL = (
    Clip(0.5),
    QKNorm(*(RNG.normal(size=(n, 4)) for n in (6, 2)), all_heads=True),
    Rotation.of(10.0, 2),
    Temperature(0.7, 2.0),
    SoftCap(0.8),
    ALiBi.of(6),
    DistanceBias(RNG.normal(size=(8, 6)), farthest=4),
    Sinks(RNG.normal(size=6)),
)


def with_steps(*steps: Step) -> MultiHead:
    return replace(MH, between=steps)


@pytest.mark.parametrize("pairs", ["halves", "neighbours"])
def test_a_rotation_turns_complex_numbers(pairs):
    rotation = Rotation(np.array([0.3, 0.01]), pairs, magnitude=1.5)
    x = RNG.normal(size=(3, 7, 5))
    turned = rotation.turn(x, COLUMN + 4)
    for n in range(7):
        for k, angle in enumerate([0.3, 0.01]):
            a, b = (k, k + 2) if pairs == "halves" else (2 * k, 2 * k + 1)
            z = complex(x[1, n, a], x[1, n, b]) * 1.5 * cmath.exp(1j * (n + 4) * angle)
            assert turned[1, n, a] == pytest.approx(z.real)
            assert turned[1, n, b] == pytest.approx(z.imag)
    np.testing.assert_array_equal(turned[..., 4], x[..., 4])


def test_rotated_scores_depend_on_the_distance_alone():
    mh = with_steps(Rotation.of(10000.0, 4))
    near, far = (mh.attend(Q, K, V, positions=np.arange(7) + n) for n in (0, 1000))
    np.testing.assert_allclose(near, far, atol=1e-9)
    assert abs(near - MH.attend(Q, K, V)).max() > 0.01


def test_a_norm_over_each_head_and_over_all():
    gains = RNG.normal(size=(6, 4))
    for all_heads in (False, True):
        normed, _, _ = QKNorm(gains, eps=1e-3, all_heads=all_heads).vectors(Q, K, V, None, None)
        for head, n in ((0, 3), (5, 6)):
            row = Q[1, :, n] if all_heads else Q[1, head, n]
            length = math.sqrt(sum(float(q) ** 2 for q in row.ravel()) / row.size + 1e-3)
            np.testing.assert_allclose(normed[1, head, n], gains[head] * Q[1, head, n] / length)
    centred, _, _ = QKNorm(b_Q=np.full(4, 2.0), centre=True).vectors(Q, K, V, None, None)
    np.testing.assert_allclose(centred.mean(-1), 2.0)


def test_norms_and_sinks_do_not_overflow_in_float16():
    x = np.array([[[-100.0, 300, 300, 300]]])
    wide, narrow = (QKNorm().vectors(*[x.astype(t)] * 3, None, None)[0] for t in "de")
    assert narrow.dtype == np.float16
    np.testing.assert_allclose(narrow, wide, rtol=2e-3)
    A, S = np.full((1, 1, 70_000), 1 / 70_000, np.float16), np.zeros((1, 1, 70_000), np.float16)
    kept = Sinks(np.zeros(1)).weights(A, S)
    assert kept.dtype == np.float16
    np.testing.assert_allclose(kept, A, rtol=2e-2)


def test_steps_on_scores_against_a_loop():
    """Cap, ALiBi, a table and sinks at once, each score by itself."""
    slopes, table, t = RNG.random(6), RNG.normal(size=(4, 6)), RNG.normal(size=6)
    bias = DistanceBias(table, farthest=4, both_ways=False)
    mh = with_steps(SoftCap(0.8), ALiBi(slopes), bias, Sinks(t))
    heads = mh.attend(Q, K, V, mask=causal(7, 7))
    buckets = [0, 1, 2, 3, 3, 3, 3]  # of 0 to 6 tokens back: two of their own, then two shared
    for head, i in ((0, 0), (4, 6)):
        weights = []
        for j in range(i + 1):
            score = float(Q[1, head, i] @ K[1, head // 3, j]) / 2
            score = 0.8 * math.tanh(score / 0.8) + slopes[head] * (j - i)
            weights.append(math.exp(score + table[buckets[i - j], head]))
        total = sum(weights) + math.exp(t[head])
        expected = sum(w * V[1, head // 3, j] for j, w in enumerate(weights)) / total
        np.testing.assert_allclose(heads[1, head, i], expected)


def test_a_decoding_step_gives_the_last_row():
    mh = with_steps(*ALL)
    whole = mh(X, mask=causal(7, 7))
    step = mh(
        X[:, 6:], X, positions=(np.array([6]), np.arange(7)), mask=causal(1, 7, aligned="end")
    )
    np.testing.assert_allclose(step, whole[:, 6:], atol=1e-12)


def test_samples_may_have_positions_of_their_own():
    mh = with_steps(*ALL)
    own = np.stack([np.arange(7), np.arange(7) * 3])
    together = mh(X, positions=own)
    for sample in range(2):
        np.testing.assert_allclose(together[sample], mh(X[sample], positions=own[sample]))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint64, np.int8])
def test_positions_of_a_narrow_or_unsigned_dtype_are_the_same_numbers(dtype):
    mh = with_steps(*ALL, Temperature(a=1.0, f=2.0))
    np.testing.assert_array_equal(
        mh(X, positions=np.arange(121, 128).astype(dtype)), mh(X, positions=np.arange(121, 128))
    )


def test_the_steps_of_a_layer_are_closed():
    """What one returns the next takes, so that a reader may put a step of his own between."""
    np.testing.assert_array_equal(MH.join(MH.attend(*MH.project(X))), MH(X))
    np.testing.assert_allclose(attention(Q, K, V), MH.attend(Q, K, V))

    class Halved(Step):
        def vectors(self, Q, K, V, i, j):
            return Q / 2, K, V

    class Later(Step):
        def scores(self, S, i, j):
            return S / 2

    halved = replace(MH, W_Q=MH.W_Q / 2, b_Q=MH.b_Q / 2)
    for step in Halved(), Later():
        np.testing.assert_allclose(with_steps(step)(X), halved(X))
    with refuses("Halved() stands between W_Q and W_K"):
        w_qk(with_steps(Halved()), constant=True)
    with pytest.raises(TypeError, match="keyword"):
        type("Misspelt", (Step,), {}, change="S")


def test_a_step_that_is_made_from_another_one_changes_what_that_one_does():
    class Logged(Rotation):
        def scores(self, S, i, j):
            return S

    assert (Logged.changes, Logged.by_position) == ("QKS", True)
    with refuses("magnitude must be a positive number"):
        Logged(np.ones(2), magnitude=-1.0)


def test_one_head_needs_no_output_map():
    one = MultiHead(MH.W_Q[:1], MH.W_K[:1], MH.W_V[:1])
    np.testing.assert_array_equal(one(X), attention(*(p[:, 0] for p in one.project(X))))


@pytest.mark.parametrize("left_out", range(len(ALL)), ids=lambda n: type(ALL[n]).__name__)
def test_leaving_a_step_out_is_noticed(left_out):
    without = with_steps(*ALL[:left_out], *ALL[left_out + 1 :])
    assert abs(without(X) - with_steps(*ALL)(X)).max() > 1e-3


@pytest.mark.usefixtures("unchecked")
def test_a_width_may_be_a_number_of_numpy():
    assert Rotation.of(10000.0, 4) == Rotation.of(10000.0, np.int64(4))


def test_values_are_equal_by_their_numbers_and_do_not_change():
    assert with_steps(*ALL) == with_steps(*ALL) != with_steps(*ALL[:-1])
    assert Rotation.of(10000.0, 4) != Rotation.of(500000.0, 4)
    assert "Rotation(angles (1,), pairs='halves', magnitude=1.0)" in repr(with_steps(*ALL))
    slopes = np.ones(6)
    step = ALiBi(slopes)
    slopes[0] = 2
    assert step.slopes[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        step.slopes[0] = 2


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        (lambda: with_steps(Rotation.of(1e4, 6)), "turns 6 numbers of a head, but d_k = 4"),
        (lambda: Rotation.of(1e4, 5), "width must be an even number from 2 on, but is 5"),
        (lambda: Rotation.of(-1.0, 4), "base must be a positive number, but is -1.0"),
        (lambda: Rotation.of(1e4, 4, "thirds"), "pairs must be one of 'halves', 'neighbours'"),
        (lambda: Rotation.of(1e4, 4, scaling={"rope_type": "longer"}), "rope_type must be one of"),
        (lambda: Rotation.of(1e4, 4, scaling={"type": "longer"}), "rope_type must be one of"),
        (lambda: Rotation.of(1e4, 4, scaling={"rope_type": "linear"}), "must have 'factor'"),
        (lambda: Rotation.of(1e4, 4, scaling=LINEAR), "No angles follow from"),
        (lambda: Rotation.of(1.0, 4, scaling=YARN), "No angles follow from base = 1.0"),
        (lambda: Rotation.of(1e4, 4, scaling=LINEAR | {"factor": 0}), "No angles follow from base"),
        (lambda: with_steps(QKNorm(np.ones(5))), "g_Q must have shape (4,), because W_Q has"),
        (lambda: with_steps(QKNorm(g_K=np.ones((6, 4)))), "g_K must have shape (2, 4), because"),
        (lambda: with_steps(ALiBi.of(8)), "slopes must have shape (6,), because W_Q has shape"),
        (lambda: Clip(0.0), "c must be a positive number, but is 0.0"),
        (lambda: with_steps(*ALL)(X[:, :3], X), "3 queries of 7 keys may stand anywhere"),
        (lambda: with_steps(*ALL)(X, positions=np.arange(6)), "There are 7 queries, but their"),
        (lambda: MH.join(np.ones((6, 5, 4))), "heads must have shape"),
        (lambda: MultiHead(MH.W_Q, MH.W_K, MH.W_V, b_O=np.ones(9)), "b_O must have shape (30,)"),
        (lambda: with_steps(*ALL).attend(Q, K, np.full_like(V, np.nan)), "V must be finite"),
        (lambda: with_steps(*ALL).attend(np.repeat(Q, 2, -3), K, V), "Q must have shape"),
        (lambda: gauge(with_steps(Clip(0.5)), B=2 * np.eye(5)), "stands between W_V and W_O"),
        (lambda: DistanceBias(np.ones((2, 6))), "expected at least 1"),
        (lambda: MH(X, mask=np.ones(7, bool)), "for one of keys alone, mask[None]"),
        (lambda: with_steps(Unknown("There is a gate."))(X), "There is a gate. To compute"),
    ],
)
def test_what_does_not_fit_is_refused(refused, said):
    with refuses(said):
        refused()


@pytest.mark.usefixtures("unchecked")
def test_what_is_no_step_or_no_position_is_refused():
    with refuses("g_Q must have shape (d_k,) or (h, d_k), but has shape (6, 4, 1)"):
        QKNorm(np.ones((6, 4, 1)))
    with pytest.raises(TypeError, match="slopes must hold floating-point numbers"):
        ALiBi(np.arange(6))
    with refuses("A packed weight holds all heads side by side"):
        MultiHead(*np.ones((3, 512, 512)))
    with pytest.raises(TypeError, match=r"between must hold steps of qkv\.between, but has 'RoPE'"):
        replace(MH, between=("RoPE",))
    with pytest.raises(TypeError, match="positions must be whole numbers, but those"):
        with_steps(*ALL)(X, positions=np.arange(7.0))


def test_whole_numbers_turn_as_floats_do():
    eighth, p = Rotation(np.array([np.pi / 4])), np.array([[1]])
    whole, real = eighth.turn(np.array([[1, 0]]), p), eighth.turn(np.array([[1.0, 0.0]]), p)
    assert np.array_equal(whole, real)


def test_scores_are_scaled_before_they_overflow_with_steps_and_without():
    """In float16 a product of 90,000 is infinite, and an eighth of it is not."""
    one_head = [np.eye(64, dtype=np.float16)[None]] * 3
    X = np.full((2, 64), 37.5, np.float16)
    with np.errstate(over="ignore"):
        assert np.isinf(X @ X.T).all()
    level = ALiBi(np.zeros(1))
    assert np.array_equal(MultiHead(*one_head, between=(level,))(X), MultiHead(*one_head)(X))
