import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import oracle
from qkv import _arrays, attention, equation_1, softmax

SIZES = st.permutations([2, 3, 5, 7]).map(tuple)
SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def inputs(draw):
    """Q, K, V and a mask, of any dtype, sizes and batch axes that broadcast."""
    n_q, n_k, d_k, d_v = draw(SIZES)
    batches, batch = draw(
        hnp.mutually_broadcastable_shapes(num_shapes=3, min_dims=0, max_dims=2, max_side=3)
    )
    rng = np.random.default_rng(draw(SEEDS))
    Q, K, V = (
        rng.normal(size=shape + size).astype(draw(st.sampled_from([np.float32, np.float64])))
        for shape, size in zip(batches, [(n_q, d_k), (n_k, d_k), (n_k, d_v)], strict=True)
    )
    mask = None
    if draw(st.booleans()):
        shape = draw(st.sampled_from([(n_q, n_k), (1, n_k), (*batch, n_q, 1), (*batch, n_q, n_k)]))
        mask = rng.random(shape) < 0.7
    return Q, K, V, mask


def random(*shapes, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


@given(inputs(), st.sampled_from([None, 0.5, 1.0]))
def test_attention_is_what_the_loops_compute(arrays, scale):
    Q, K, V, mask = arrays
    heads, weights = attention(Q, K, V, mask=mask, scale=scale, return_weights=True)
    assert heads.dtype == np.result_type(Q, K, V)
    assert weights.dtype == np.result_type(Q, K)
    tolerance = 1e-5 if np.float32 in (Q.dtype, K.dtype, V.dtype) else 1e-12
    np.testing.assert_allclose(
        heads, oracle.attention(Q, K, V, mask, scale), rtol=tolerance, atol=tolerance
    )
    np.testing.assert_allclose(heads, weights @ V, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(heads, attention(Q, K, V, mask=mask, scale=scale))


@given(inputs())
def test_weights_are_distributions_over_allowed_keys(arrays):
    Q, K, V, mask = arrays
    _, weights = attention(Q, K, V, mask=mask, return_weights=True)
    allowed = np.broadcast_to(True if mask is None else mask, weights.shape)
    assert (weights[~allowed] == 0).all()
    assert (weights[allowed] > 0).all()
    np.testing.assert_allclose(weights.sum(axis=-1), allowed.any(axis=-1), rtol=1e-5)


@given(inputs(), SEEDS)
def test_order_of_keys_does_not_matter_and_order_of_queries_is_kept(arrays, seed):
    Q, K, V, mask = arrays
    n_q, n_k = Q.shape[-2], K.shape[-2]
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(n_q), rng.permutation(n_k)
    if mask is not None:
        batch = np.broadcast_shapes(*(array.shape[:-2] for array in (Q, K, V)))
        mask = np.broadcast_to(mask, (*batch, n_q, n_k))
    permuted = attention(
        Q[..., rows, :],
        K[..., columns, :],
        V[..., columns, :],
        mask=None if mask is None else mask[..., rows, :][..., columns],
    )
    expected = attention(Q, K, V, mask=mask)[..., rows, :]
    np.testing.assert_allclose(permuted, expected, rtol=1e-5, atol=1e-6)


@given(inputs())
def test_inputs_are_left_alone(arrays):
    before = [None if array is None else array.copy() for array in arrays]
    Q, K, V, mask = arrays
    attention(Q, K, V, mask=mask, return_weights=True)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtype_stays(dtype):
    Q, K, V = random((3, 2), (5, 2), (5, 7), dtype=dtype)
    assert attention(Q, K, V, scale=np.float64(0.5)).dtype == dtype
    assert softmax(Q).dtype == dtype


@given(inputs(), st.sampled_from([None, 0.5]), st.sampled_from([1, 2, 13, 40]), st.booleans())
def test_tiles_of_any_size_give_what_the_plain_expression_gives(
    arrays, scale, scores_at_once, return_weights
):
    Q, K, V, mask = arrays
    options = {"mask": mask, "scale": scale, "return_weights": return_weights}
    plain = attention(Q, K, V, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_arrays, "SCORES_AT_ONCE", scores_at_once)
        tiled = attention(Q, K, V, **options)
    tolerance = 1e-5 if np.float32 in (Q.dtype, K.dtype, V.dtype) else 1e-12
    for one, other in zip(*(x if return_weights else (x,) for x in (plain, tiled)), strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def test_few_scores_are_computed_at_once_and_many_in_tiles(monkeypatch):
    shapes = []
    weigh = equation_1._softmax_in_place
    monkeypatch.setattr(
        equation_1,
        "_softmax_in_place",
        lambda S, allowed: shapes.append(S.shape) or weigh(S, allowed),
    )
    arrays = random((3, 2), (5, 2), (5, 7))
    attention(*arrays)
    assert shapes == [(3, 5)]
    monkeypatch.setattr(_arrays, "SCORES_AT_ONCE", 14)
    attention(*arrays)
    assert shapes[1:] == [(2, 5), (1, 5)]


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered")
@pytest.mark.parametrize("sign", [1, -1])
def test_scores_that_overflow_in_a_tile(monkeypatch, sign):
    monkeypatch.setattr(_arrays, "SCORES_AT_ONCE", 1)
    with pytest.raises(ValueError, match=r"scores must be finite.*overflowed"):
        attention(
            np.full((3, 2), sign * 1e30, np.float32),
            np.full((5, 2), 1e30, np.float32),
            np.ones((5, 7), np.float32),
        )


@pytest.mark.parametrize("masked", [False, True])
def test_memory_does_not_grow_with_the_square_of_the_tokens(monkeypatch, masked):
    monkeypatch.setattr(_arrays, "SCORES_AT_ONCE", 2**12)

    def peak(n):
        Q, K, V = random((2, n, 2), (2, n, 2), (2, n, 2), dtype=np.float32)
        mask = np.ones((1, n), bool) if masked else None
        tracemalloc.start()
        attention(Q, K, V, mask=mask)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak

    assert peak(1024) < 2.5 * peak(512)
    assert peak(1024) < 0.05 * (2 * 1024**2 * 4)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_large_scores_do_not_overflow(dtype):
    Q, K, V = (
        np.array(rows, dtype) for rows in ([[100.0]], [[100], [-100], [99]], [[2], [3], [5]])
    )
    assert attention(Q, K, V).item() == pytest.approx(2)


@pytest.mark.parametrize("axis", [0, 1])
def test_weights_of_many_keys_sum_to_one_in_float16(axis):
    (scores,) = random((5000, 3), dtype=np.float16)
    weights = softmax(scores if axis == 0 else scores.T, axis=axis)
    assert weights.dtype == np.float16
    assert weights.sum(axis, dtype=float) == pytest.approx([1, 1, 1], abs=1e-3)
    many = softmax(np.zeros((1, 70_000), np.float16))  # the largest float16 is 65504
    assert many.sum(dtype=float) == pytest.approx(1, abs=1e-2)


@given(hnp.array_shapes(min_dims=1, max_dims=3, max_side=7), st.data(), st.floats(-1e3, 1e3))
def test_softmax_is_the_quotient_along_any_axis(shape, data, shift):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    (scores,) = random(shape, seed=data.draw(SEEDS))
    weights = softmax(scores, axis=axis)
    exponentials = np.exp(scores)
    expected = exponentials / exponentials.sum(axis=axis, keepdims=True)
    np.testing.assert_allclose(weights, expected, rtol=1e-12)
    np.testing.assert_allclose(softmax(scores + shift, axis=axis), expected, rtol=1e-9)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_with_a_mask_is_the_softmax_of_what_is_left(axis):
    (scores,) = random((5, 5))
    mask = ~np.eye(5, dtype=bool)
    weights = softmax(scores, mask=mask, axis=axis)
    for i in range(5):
        others = mask[i]
        line, weight = (np.take(array, i, axis=1 - axis % 2) for array in (scores, weights))
        assert weight[i] == 0
        np.testing.assert_allclose(weight[others], softmax(line[others]), rtol=1e-14)


def test_score_of_minus_infinity_is_a_masked_one():
    scores = np.array([[0.0, -np.inf, 0.0], [-np.inf] * 3])
    np.testing.assert_array_equal(softmax(scores), [[0.5, 0, 0.5], [0, 0, 0]])
