import dataclasses
import math
import re
import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv import MultiHead, softmax, w_qk
from qkv.costs import (
    SCHEMES,
    Sizes,
    cost,
    degrees_of_freedom,
    layer_cost,
    low_rank_dimension,
    products,
)
from qkv.masks import causal
from support import ROOT

SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def all_sizes(draw):
    n_q, n_k, d_model, d_k, d_v = draw(st.permutations([1, 2, 3, 5, 7]))
    h_kv, group = draw(st.sampled_from([1, 2, 3])), draw(st.sampled_from([1, 2]))
    return Sizes(d_model, h_kv * group, n_q, n_k, h_kv, d_k, d_v)


class Counting:
    """Multiplies matrices number by number, and counts."""

    def __init__(self):
        self.products = self.multiply_adds = self.activations = 0
        self.weights = {}

    def __call__(self, A, B, weight=None):
        result = np.zeros((len(A), B.shape[1]))
        for i, j, k in np.ndindex(len(A), B.shape[1], len(B)):
            result[i, j] += A[i, k] * B[k, j]
            self.multiply_adds += 1
        self.products += 1
        self.activations += result.size
        if weight is not None:
            self.weights[weight] = self.weights.get(weight, 0) + B.size
        return result


def side_by_side(W):
    return np.concatenate(list(W), axis=-1)


def heads_of(packed, h):
    return np.split(packed, h, axis=-1)


def compute(scheme, mh, X_Q, X, P, count):
    """The layer as each scheme would have it; also what it keeps of one earlier token."""
    group = mh.h // mh.h_kv
    X_Q, X_K, X_V = X_Q, X, X
    if scheme == "two-step":
        X_Q, X_K, X_V = (
            count(source, P[letter], f"P_{letter}")
            for letter, source in zip("QKV", (X_Q, X_K, X_V), strict=True)
        )
    if scheme == "packed":
        Q = heads_of(count(X_Q, side_by_side(mh.W_Q), "W_Q"), mh.h)
        K = heads_of(count(X_K, side_by_side(mh.W_K), "W_K"), mh.h_kv)
        V = heads_of(count(X_V, side_by_side(mh.W_V), "W_V"), mh.h_kv)
    elif scheme == "w_qk":
        Q = [count(X_Q, W, "W_QK") for W in w_qk(mh)]
        K = None
        V = [count(X_V, W, "W_V") for W in mh.W_V]
    else:
        Q = [count(X_Q, W, "W_Q") for W in mh.W_Q]
        K = [count(X_K, W, "W_K") for W in mh.W_K]
        V = [count(X_V, W, "W_V") for W in mh.W_V]
    keys = [X_K if K is None else K[i // group] for i in range(mh.h)]
    S = [count(Q[i], keys[i].T) for i in range(mh.h)]
    A = softmax(np.stack(S) / math.sqrt(mh.d_k))
    heads = [count(A[i], V[i // group]) for i in range(mh.h)]
    output = count(np.concatenate(heads, axis=-1), np.concatenate(list(mh.W_O)), "W_O")
    cached = sum(kept[0].size for kept in ([X_K] if K is None else K) + V)
    return output, cached


def layer_of(sizes, seed=0):
    """A random layer of these sizes."""
    widths = {"h_kv": sizes.h_kv, "d_k": sizes.d_k, "d_v": sizes.d_v}
    return MultiHead.random(sizes.d_model, sizes.h, **widths, seed=seed)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(sizes=all_sizes(), seed=SEEDS)
def test_costs_are_those_of_computing_it(scheme, sizes, seed):
    mh = layer_of(sizes, seed)
    rng = np.random.default_rng(seed)
    X_Q, X = (rng.normal(size=(n, sizes.d_model)) for n in (sizes.n_q, sizes.n_k))
    P = dict(zip("QKV", rng.normal(size=(3, sizes.d_model, sizes.d_model)), strict=True))

    count = Counting()
    output, cached = compute(scheme, mh, X_Q, X, P, count)
    two_step = scheme == "two-step"
    expected = mh(X_Q @ P["Q"], X @ P["K"], X @ P["V"]) if two_step else mh(X_Q, X)
    np.testing.assert_allclose(output, expected, rtol=1e-9, atol=1e-9)

    counted = cost(scheme, sizes)
    assert counted.products == count.products
    assert counted.multiply_adds == count.multiply_adds
    assert counted.activations == count.activations
    assert counted.parameters == sum(count.weights.values())
    assert counted.cached_per_token == cached
    by_weight = {step.weight: step.parameters for step in products(scheme, sizes) if step.weight}
    assert by_weight == count.weights


@given(all_sizes())
def test_schemes_with_factors_have_the_freedom_of_the_layer(sizes):
    mh = layer_of(sizes)
    for scheme in ("paper", "packed", "two-step"):
        assert cost(scheme, sizes).degrees_of_freedom == degrees_of_freedom(mh)


@given(all_sizes())
def test_one_matrix_for_queries_and_keys_has_the_freedom_of_heads_as_wide_as_the_model(sizes):
    sizes = dataclasses.replace(sizes, h_kv=sizes.h)
    mh = MultiHead.random(sizes.d_model, sizes.h, d_k=sizes.d_model, d_v=sizes.d_v)
    assert cost("w_qk", sizes).degrees_of_freedom == degrees_of_freedom(mh)


@given(all_sizes())
def test_costs_are_whole_numbers_in_a_flat_structure(sizes):
    for scheme in SCHEMES:
        name, *counts = dataclasses.astuple(cost(scheme, sizes))
        assert name == scheme
        assert {type(number) for number in counts} == {int}


@pytest.mark.usefixtures("unchecked")
def test_whole_numbers_of_numpy_do_not_overflow():
    sizes = Sizes(np.int32(70_000), np.int32(8), np.int32(100_000), d_k=np.int32(64))
    assert sizes == Sizes(70_000, 8, 100_000, d_k=64)
    assert type(cost("paper", sizes).multiply_adds) is int
    wide = np.int32(100_000)
    assert low_rank_dimension(wide, wide, wide) == 100_000**2
    assert layer_cost(Sizes(4096, 32, 1), np.int32(2**20)).mlp == 2 * 4096 * 2**20


@given(*[st.integers(1, 6)] * 3)
def test_low_rank_dimension_is_the_rank_of_the_derivative(rows, columns, rank):
    rng = np.random.default_rng(0)
    F, G = rng.normal(size=(rows, rank)), rng.normal(size=(rank, columns))
    by_F = np.kron(np.eye(rows), G.T)  # of the entries of F G, row by row
    by_G = np.kron(F, np.eye(columns))
    derivative = np.concatenate([by_F, by_G], axis=1)
    assert np.linalg.matrix_rank(derivative) == low_rank_dimension(rows, columns, rank)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"d_model": 7, "h": 2, "n_q": 3}, "d_model = 7 is not divisible by h = 2"),
        ({"d_model": 6, "h": 2, "n_q": 0}, "n_q must be a positive whole number, but is 0"),
        ({"d_model": 6, "h": 2.5, "n_q": 3}, "h must be a positive whole number"),
        ({"d_model": None, "h": 2, "n_q": 3}, "d_model must be a positive whole number"),
        ({"d_model": 6, "h": 3, "n_q": 3, "h_kv": 2}, "h_kv must divide h, but h_kv = 2 and h = 3"),
    ],
)
def test_sizes_that_make_no_layer(sizes, message):
    with pytest.raises(ValueError, match=message):
        Sizes(**sizes)


@pytest.mark.usefixtures("unchecked")
def test_unknown_scheme_and_rank():
    with pytest.raises(ValueError, match="'two-step', 'w_qk', but is 'pack'"):
        cost("pack", Sizes(6, 2, 3))
    with pytest.raises(ValueError, match="rank must be a positive whole number, but is 0"):
        low_rank_dimension(512, 512, 0)


@given(all_sizes(), st.integers(1, 5))
def test_a_layer_costs_its_attention_and_its_mlp(sizes, d_ff):
    whole, attention = layer_cost(sizes, d_ff, gated=True), cost("packed", sizes)
    assert whole.projections + whole.scores_and_averages == attention.multiply_adds
    assert whole.attention_parameters == attention.parameters
    assert whole.mlp_parameters == 3 * layer_cost(sizes, d_ff).mlp_parameters // 2
    assert whole.mlp == sizes.n_q * whole.mlp_parameters
    assert whole.flops == 2 * (attention.multiply_adds + whole.mlp)
    assert layer_cost(sizes).flops == 2 * attention.multiply_adds


@given(all_sizes())
def test_a_causal_layer_compares_a_query_with_keys_up_to_its_own(sizes):
    if sizes.n_k < sizes.n_q:
        with pytest.raises(ValueError, match=f"n_q = {sizes.n_q} and n_k = {sizes.n_k}"):
            layer_cost(sizes, causal=True)
        return
    allowed = causal(sizes.n_q, sizes.n_k, aligned="end").sum()
    counted = layer_cost(sizes, causal=True).scores_and_averages
    assert counted == allowed * sizes.h * (sizes.d_k + sizes.d_v)


def test_counts_that_people_quote():
    D, L = 512, 100
    whole = layer_cost(Sizes(D, 8, L), 4 * D)
    assert whole.flops == 24 * D**2 * L + 4 * D * L**2
    assert 2 * whole.projections == 8 * D**2 * L
    assert 2 * whole.mlp == 16 * D**2 * L
    half = layer_cost(Sizes(D, 8, L), 4 * D, causal=True)
    assert 2 * half.scores_and_averages == 2 * D * L**2 + 2 * D * L
    assert 2 * 36 * layer_cost(Sizes(2560, 32, 1, h_kv=8, d_k=128)).cached_per_token == 147_456


@pytest.mark.usefixtures("unchecked")
def test_an_mlp_of_no_width():
    with pytest.raises(ValueError, match="d_ff must be a positive whole number, but is 0"):
        layer_cost(Sizes(6, 2, 3), 0)


def test_the_page_on_counting_has_the_sizes_of_the_table_of_models():
    folder = ROOT / "docs" / "explanation"
    models = tomllib.loads((folder / "model-sizes.toml").read_text())["model"]
    keys = "layers", "h_kv", "d_k"
    sizes = {each["name"]: [each["sizes"].get(key) for key in keys] for each in models}
    called = re.findall(r"cache_bytes\((\d+), (\d+), (\d+)\)", (folder / "counting.md").read_text())
    stated = [list(map(int, each)) for each in called]
    assert stated == [sizes["Qwen3 4B"]]
