import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from qkv import MultiHead, attention
from qkv.between import SoftCap

SEEDS = st.integers(0, 2**32 - 1)
WEIGHTS = ["W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O"]


def astype(mh, dtype):
    arrays = {name: getattr(mh, name) for name in WEIGHTS}
    return dataclasses.replace(
        mh, **{name: a if a is None else a.astype(dtype) for name, a in arrays.items()}
    )


@st.composite
def layers(draw):
    """A layer of any sizes, grouped or not, with any of its biases, of either dtype."""
    d_model, d_k, d_v = draw(st.permutations([2, 3, 5, 7]))[:3]
    h_kv, group = draw(st.sampled_from([1, 2, 3])), draw(st.sampled_from([1, 2]))
    mh = MultiHead.random(
        d_model, h_kv * group, h_kv=h_kv, d_k=d_k, d_v=d_v, bias=True, seed=draw(SEEDS)
    )
    unbiased = draw(st.sets(st.sampled_from(["b_Q", "b_K", "b_V", "b_O"])))
    mh = dataclasses.replace(
        mh, scale=draw(st.sampled_from([None, 1.0, 0.3])), **dict.fromkeys(unbiased)
    )
    return astype(mh, draw(st.sampled_from([np.float32, np.float64])))


@given(layers(), SEEDS, st.booleans())
def test_layer_is_what_the_loops_compute(mh, seed, masked):
    n_q, n_k = 5, 3
    rng = np.random.default_rng(seed)
    dtype = mh.W_Q.dtype
    X_Q, X_K, X_V = (rng.normal(size=(n, mh.d_model)).astype(dtype) for n in (n_q, n_k, n_k))
    mask = rng.random((mh.h, n_q, n_k)) < 0.7 if masked else None
    output = mh(X_Q, X_K, X_V, mask=mask)
    assert output.dtype == dtype
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(
        output, oracle.multi_head(mh, X_Q, X_K, X_V, mask), rtol=tolerance, atol=tolerance
    )


@given(layers(), SEEDS)
def test_sources_default_to_the_one_before(mh, seed):
    X, Y = np.random.default_rng(seed).normal(size=(2, 5, mh.d_model)).astype(mh.W_Q.dtype)
    np.testing.assert_array_equal(mh(X), mh(X, X, X))
    np.testing.assert_array_equal(mh(X, Y), mh(X, Y, Y))


@given(layers(), SEEDS, st.sampled_from([((2,), ()), ((), (2,)), ((3, 1), (2,)), ((3, 2), (3, 2))]))
def test_batch_axes_are_independent_samples(mh, seed, batches):
    rng = np.random.default_rng(seed)
    X_Q, X_K = (
        rng.normal(size=(*batch, n, mh.d_model)).astype(mh.W_Q.dtype)
        for batch, n in zip(batches, (5, 3), strict=True)
    )
    batch = np.broadcast_shapes(*batches)
    output = mh(X_Q, X_K)
    assert output.shape == (*batch, 5, mh.d_model)
    X_Q, X_K = (np.broadcast_to(X, batch + X.shape[-2:]) for X in (X_Q, X_K))
    for index in np.ndindex(batch):
        np.testing.assert_allclose(output[index], mh(X_Q[index], X_K[index]), rtol=1e-4, atol=1e-5)


@given(layers(), SEEDS)
def test_project_gives_what_enters_equation_1(mh, seed):
    X_Q, X_K = np.random.default_rng(seed).normal(size=(2, 5, mh.d_model)).astype(mh.W_Q.dtype)
    Q, K, V = mh.project(X_Q, X_K)
    assert (Q.shape, K.shape, V.shape) == (
        (mh.h, 5, mh.d_k),
        (mh.h_kv, 5, mh.d_k),
        (mh.h_kv, 5, mh.d_v),
    )
    group = mh.h // mh.h_kv
    heads = [attention(Q[i], K[i // group], V[i // group], scale=mh.scale) for i in range(mh.h)]
    output = np.concatenate(heads, axis=-1) @ mh.W_O.reshape(-1, mh.d_model)
    if mh.b_O is not None:
        output = output + mh.b_O
    np.testing.assert_allclose(mh(X_Q, X_K), output, rtol=1e-4, atol=1e-5)


def test_sources_may_have_widths_of_their_own():
    rng = np.random.default_rng(0)
    mh = MultiHead(
        *(rng.normal(size=shape) for shape in [(2, 11, 3), (2, 13, 3), (2, 5, 7), (2, 7, 17)])
    )
    X_Q, X_K, X_V = (rng.normal(size=shape) for shape in [(2, 11), (3, 13), (3, 5)])
    np.testing.assert_allclose(mh(X_Q, X_K, X_V), oracle.multi_head(mh, X_Q, X_K, X_V), rtol=1e-12)


@pytest.mark.parametrize("shape", [(5, 3), (7, 2, 5, 3), (7, 1, 5, 3), (1, 2, 5, 1)])
def test_a_mask_is_for_all_heads_or_says_which(shape):
    mh = MultiHead.random(4, 2)
    rng = np.random.default_rng(0)
    X_Q, X_K = rng.normal(size=(7, 5, 4)), rng.normal(size=(7, 3, 4))
    mask = rng.random(shape) < 0.7
    everywhere = np.broadcast_to(mask, (7, 2, 5, 3))
    output = mh(X_Q, X_K, mask=mask)
    for sample in range(7):
        expected = oracle.multi_head(mh, X_Q[sample], X_K[sample], X_K[sample], everywhere[sample])
        np.testing.assert_allclose(output[sample], expected, rtol=1e-12)


def test_default_scale_is_that_of_the_head_not_of_the_model():
    mh = MultiHead.random(6, 2)
    X = np.random.default_rng(0).normal(size=(5, 6))
    np.testing.assert_array_equal(mh(X), dataclasses.replace(mh, scale=1 / math.sqrt(3))(X))
    assert not np.allclose(mh(X), dataclasses.replace(mh, scale=1 / math.sqrt(6))(X))


def test_random_layer_keeps_unit_variance():
    mh = MultiHead.random(256, 8)
    Q, K, V = mh.project(np.random.default_rng(1).normal(size=(100, 256)))
    for projected in (Q, K, V):
        assert projected.std() == pytest.approx(1, rel=0.05)


def test_same_seed_same_layer():
    assert MultiHead.random(6, 2, seed=3) == MultiHead.random(6, 2, seed=3)
    assert MultiHead.random(6, 2, seed=3) != MultiHead.random(6, 2, seed=4)


@pytest.mark.parametrize(
    "change",
    [
        {"b_Q": None},
        {"scale": 0.5},
        {"between": (SoftCap(30.0),)},
        {"W_K": np.zeros((2, 6, 3))},
        {"W_O": MultiHead.random(6, 2).W_O.astype(np.float32)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_equality_is_of_all_parts(change):
    mh = MultiHead.random(6, 2, bias=True)
    assert mh == dataclasses.replace(mh)
    assert mh != dataclasses.replace(mh, **change)
    assert mh != "a layer"


def test_layer_is_frozen_and_keeps_its_own_copy():
    W_Q = np.ones((2, 6, 3))
    mh = dataclasses.replace(MultiHead.random(6, 2), W_Q=W_Q)
    W_Q[:] = 0
    assert (mh.W_Q == 1).all()
    assert W_Q.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        mh.W_Q[0] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        mh.W_Q = W_Q


def test_repr_tells_the_sizes():
    assert repr(MultiHead.random(6, 2, d_k=5, d_v=7)) == "MultiHead(h=2, d_model=6, d_k=5, d_v=7)"
    assert (
        repr(MultiHead.random(12, 4, h_kv=2)) == "MultiHead(h=4, h_kv=2, d_model=12, d_k=3, d_v=3)"
    )
