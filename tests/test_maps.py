import dataclasses
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qkv import MultiHead, fold, merge, softmax, w_qk, w_vo
from qkv.between import Rotation
from qkv.costs import degrees_of_freedom
from qkv.maps import factor, gauge

ROTATION = Rotation.of(1e4, 2)

SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.permutations([2, 3, 5, 7])


@given(SIZES, SEEDS, *[st.booleans()] * 4)
def test_merged_map_is_the_two_steps(sizes, seed, heads_first, heads_second, bias_1, bias_2):
    n, d_in, d_mid, d_out = sizes
    rng = np.random.default_rng(seed)
    batch_1, batch_2 = (11,) * heads_first, (11,) * heads_second
    X = rng.normal(size=(n, d_in))
    first, second = (
        rng.normal(size=(*batch_1, d_in, d_mid)),
        rng.normal(size=(*batch_2, d_mid, d_out)),
    )
    b_first = rng.normal(size=(*batch_1, d_mid)) if bias_1 else None
    b_second = rng.normal(size=(*batch_2, d_out)) if bias_2 else None
    W, b = merge(first, second, b_first=b_first, b_second=b_second)

    step = X @ first if b_first is None else X @ first + b_first[..., None, :]
    expected = step @ second if b_second is None else step @ second + b_second[..., None, :]
    merged = X @ W if b is None else X @ W + b[..., None, :]
    np.testing.assert_allclose(merged, expected, rtol=1e-10, atol=1e-10)
    assert (b is None) == (b_first is None and b_second is None)
    assert W.shape == (*np.broadcast_shapes(batch_1, batch_2), d_in, d_out)


def test_merge_keeps_float32():
    rng = np.random.default_rng(0)
    first, second, b = (rng.normal(size=s).astype(np.float32) for s in [(2, 3), (3, 5), (5,)])
    W, b = merge(first, second, b_second=b)
    assert W.dtype == b.dtype == np.float32


@st.composite
def layers(draw, *, biases=True, widths=(2, 3, 5, 7), heads=(1, 2, 3)):
    """A layer with sources of unlike widths, grouped or not, with any of its biases or none."""
    d_model, d_k, d_v, d_out = draw(st.permutations(widths))
    d_source_k, d_source_v = draw(st.permutations(widths))[:2]
    h_kv, group = draw(st.sampled_from(heads)), draw(st.sampled_from([1, 2]))
    rng = np.random.default_rng(draw(SEEDS))
    shapes = {
        "W_Q": (h_kv * group, d_model, d_k),
        "W_K": (h_kv, d_source_k, d_k),
        "W_V": (h_kv, d_source_v, d_v),
        "W_O": (h_kv * group, d_v, d_out),
        "b_Q": (h_kv * group, d_k),
        "b_K": (h_kv, d_k),
        "b_V": (h_kv, d_v),
        "b_O": (d_out,),
    }
    return MultiHead(
        **{
            name: rng.normal(size=shape)
            for name, shape in shapes.items()
            if name.startswith("W_") or (biases and draw(st.booleans()))
        }
    )


def sources(mh, seed, n_q=5, n_k=11):
    rng = np.random.default_rng(seed)
    widths = (W.shape[-2] for W in (mh.W_Q, mh.W_K, mh.W_V))
    return [rng.normal(size=(n, d)) for n, d in zip((n_q, n_k, n_k), widths, strict=True)]


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


@given(layers(), SEEDS, st.sets(st.sampled_from(["P_Q", "P_K", "P_V", "c_Q", "c_K", "c_V"])))
def test_folded_layer_is_the_layer_behind_its_projections(mh, seed, given_maps):
    rng = np.random.default_rng(seed)
    maps, projected, raw = {}, [], []
    for letter, X in zip("QKV", sources(mh, seed), strict=True):
        P, c = rng.normal(size=(13, X.shape[-1])), rng.normal(size=X.shape[-1])
        if f"P_{letter}" in given_maps:
            maps[f"P_{letter}"], X = P, rng.normal(size=(len(X), 13))
        raw.append(X)
        X = X @ P if f"P_{letter}" in given_maps else X
        if f"c_{letter}" in given_maps:
            maps[f"c_{letter}"], X = c, X + c
        projected.append(X)
    close(fold(mh, **maps)(*raw), mh(*projected))


def test_folding_seven_square_matrices_leaves_four():
    mh, P = MultiHead.random(6, 2), np.ones((3, 6, 6))
    folded = fold(mh, P_Q=P[0], P_K=P[1], P_V=P[2])
    weights = (folded.W_Q, folded.W_K, folded.W_V, folded.W_O)
    assert sum(W.size for W in weights) == 4 * 6**2
    assert fold(mh) == mh


def test_folding_keeps_scale_and_rotation():
    mh = dataclasses.replace(MultiHead.random(6, 2), scale=0.3, between=(ROTATION,))
    folded = fold(mh, P_Q=np.ones((5, 6)))
    assert (folded.scale, folded.between) == (0.3, (ROTATION,))


def scores(mh, X_Q, X_K):
    Q, K, _ = mh.project(X_Q, X_K, np.ones((len(X_K), mh.W_V.shape[-2])))
    return np.stack([Q[i] @ K[i // (mh.h // mh.h_kv)].T for i in range(mh.h)])


def with_constant(X):
    return np.concatenate([X, np.ones((len(X), 1))], axis=-1)


@given(layers(biases=False), SEEDS)
def test_w_qk_gives_the_scores(mh, seed):
    X_Q, X_K, _ = sources(mh, seed)
    close(X_Q @ w_qk(mh) @ X_K.T, scores(mh, X_Q, X_K))


@given(layers(), SEEDS)
def test_w_qk_with_a_constant_gives_the_scores_with_biases(mh, seed):
    X_Q, X_K, _ = sources(mh, seed)
    W_QK = w_qk(mh, constant=True)
    assert W_QK.shape == (mh.h, X_Q.shape[-1] + 1, X_K.shape[-1] + 1)
    close(with_constant(X_Q) @ W_QK @ with_constant(X_K).T, scores(mh, X_Q, X_K))


@given(layers(), SEEDS)
def test_layer_is_its_two_merged_maps(mh, seed):
    X_Q, X_K, X_V = sources(mh, seed)
    S = with_constant(X_Q) @ w_qk(mh, constant=True) @ with_constant(X_K).T
    A = softmax(S / math.sqrt(mh.d_k))
    if mh.b_V is None:
        output = (A @ X_V @ w_vo(mh)).sum(axis=0)
    else:
        output = (A @ with_constant(X_V) @ w_vo(mh, constant=True)).sum(axis=0)
    close(mh(X_Q, X_K, X_V), output if mh.b_O is None else output + mh.b_O)


def test_merged_maps_have_the_rank_of_a_head():
    mh = MultiHead.random(11, 2, d_k=3, d_v=5)
    assert np.linalg.matrix_rank(w_qk(mh)).tolist() == [3, 3]
    assert np.linalg.matrix_rank(w_vo(mh)).tolist() == [5, 5]


@given(st.permutations([2, 3, 5, 7]), SEEDS, st.booleans())
def test_factor_takes_apart_what_merge_put_together(sizes, seed, heads):
    d_in, d_out, h, _ = sizes
    rank = min(d_in, d_out) - 1
    rng, batch = np.random.default_rng(seed), (h,) * heads
    W, _ = merge(rng.normal(size=(*batch, d_in, rank)), rng.normal(size=(*batch, rank, d_out)))
    first, second = factor(W, rank)
    close(first @ second, W)
    balance = first.swapaxes(-1, -2) @ first
    close(balance, second @ second.swapaxes(-1, -2))
    singular_values = np.linalg.svd(W, compute_uv=False)[..., :rank, None]
    close(balance, singular_values * np.eye(rank))


@given(SEEDS)
def test_factor_of_a_lower_rank_misses_what_the_other_singular_values_hold(seed):
    W = np.random.default_rng(seed).normal(size=(5, 7))
    first, second = factor(W, 3)
    rest = np.linalg.svd(W, compute_uv=False)[3:]
    assert np.linalg.norm(W - first @ second) == pytest.approx(np.linalg.norm(rest))


@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_factor_refuses_what_is_not_finite(number):
    with pytest.raises(ValueError, match="W must be finite"):  # of infinity NumPy's SVD may not end
        factor(np.diag([number, 1.0, 1.0]), 1)


@given(layers(), SEEDS, st.booleans(), st.booleans(), st.booleans())
def test_gauge_changes_the_weights_and_not_the_output(mh, seed, per_head, change_A, change_B):
    rng = np.random.default_rng(seed)
    heads = (mh.h_kv,) * per_head
    A, B = (
        np.linalg.qr(rng.normal(size=(*heads, d, d)))[0] * rng.uniform(1, 3, size=d)
        for d in (mh.d_k, mh.d_v)
    )
    other = gauge(mh, A if change_A else None, B if change_B else None)
    np.testing.assert_allclose(other(*sources(mh, seed)), mh(*sources(mh, seed)), rtol=1e-7)
    for name in ("W_Q", "W_K"):
        assert np.allclose(getattr(other, name), getattr(mh, name)) != change_A
    for name in ("W_V", "W_O"):
        assert np.allclose(getattr(other, name), getattr(mh, name)) != change_B
    close(w_qk(other, constant=True), w_qk(mh, constant=True))
    close(w_vo(other, constant=True), w_vo(mh, constant=True))


def test_gauge_of_values_leaves_a_rotation_alone():
    mh = MultiHead.random(6, 2)
    turned = gauge(dataclasses.replace(mh, between=(ROTATION,)), B=np.diag([2.0, 3.0, 5.0]))
    close(dataclasses.replace(turned, between=())(np.eye(5, 6)), mh(np.eye(5, 6)))


def jacobian_rank(mh, seed):
    """The rank of the derivative of outputs for many sources by all weights."""
    rng = np.random.default_rng(seed)
    names = [f.name for f in dataclasses.fields(mh) if f.name[1] == "_"]
    arrays = {name: getattr(mh, name) for name in names if getattr(mh, name) is not None}
    sizes = [array.size for array in arrays.values()]
    weights = np.concatenate([array.ravel() for array in arrays.values()])
    samples = len(weights) // mh.W_O.shape[-1] + 1  # of two queries each: twice the numbers
    X_Q, X_K, X_V = (
        rng.normal(size=(samples, n, W.shape[-2]))
        for n, W in zip((2, 5, 5), (mh.W_Q, mh.W_K, mh.W_V), strict=True)
    )

    def output(weights):
        parts = np.split(weights, np.cumsum(sizes)[:-1])
        parts = {n: p.reshape(arrays[n].shape) for n, p in zip(arrays, parts, strict=True)}
        return dataclasses.replace(mh, **parts)(X_Q, X_K, X_V).ravel()

    step = 1e-4 * np.eye(len(weights))
    columns = [(output(weights + e) - output(weights - e)) / 2e-4 for e in step]
    J = np.stack(columns)
    return np.linalg.matrix_rank(J, tol=1e-6 * np.linalg.norm(J, 2))  # NumPy 1.26 has no rtol


@pytest.mark.usefixtures("unchecked")  # thousands of calls, of shapes that other tests check
@given(layers(widths=(1, 2, 3, 4), heads=(1, 2)), SEEDS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_degrees_of_freedom_is_the_rank_of_the_derivative(mh, seed):
    assert degrees_of_freedom(mh) == jacobian_rank(mh, seed)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("h", "d_model", "d_source_k", "d_source_v", "d_k", "d_v", "d_out"),
    [(1, 4, 4, 2, 2, 3, 7), (2, 4, 3, 2, 2, 3, 10), (1, 1, 2, 1, 2, 3, 4)],
)
def test_values_wider_than_their_source(h, d_model, d_source_k, d_source_v, d_k, d_v, d_out):
    rng = np.random.default_rng(0)
    mh = MultiHead(
        W_Q=rng.normal(size=(h, d_model, d_k)),
        W_K=rng.normal(size=(h, d_source_k, d_k)),
        W_V=rng.normal(size=(h, d_source_v, d_v)),
        W_O=rng.normal(size=(h, d_v, d_out)),
        b_V=rng.normal(size=(h, d_v)),
    )
    assert degrees_of_freedom(mh) == jacobian_rank(mh, seed=1)


def test_degrees_of_freedom_at_the_size_of_the_paper():
    per_head = 2 * 512 * 64 - 64**2
    assert per_head == 61_440
    assert degrees_of_freedom(MultiHead.random(512, 8)) == 8 * 2 * per_head
