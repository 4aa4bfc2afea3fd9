import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv import MultiHead, w_qk, w_vo, which

PAPER = {"d_model": 512, "h": 8}
GROUPED = {"d_model": 7, "h": 6, "h_kv": 2, "d_k": 5}


def symbols(candidates):
    return [(candidate.symbol, candidate.convention) for candidate in candidates]


@pytest.mark.parametrize(
    ("shape", "sizes", "first"),
    [
        ((1536, 512), PAPER, ("W_Q, W_K and W_V", "(out, in)")),
        ((512, 1536), PAPER, ("W_Q, W_K and W_V", "(in, out)")),
        ((512, 512), PAPER, ("W_Q, W_K or W_V", "(out, in)")),
        ((512, 64), PAPER, ("W_Q[i], W_K[i] or W_V[i]", "(in, out)")),
        ((8, 512, 64), PAPER, ("W_Q, W_K or W_V", "(in, out)")),
        ((512, 8, 64), PAPER, ("W_Q, W_K or W_V", "(in, out)")),
        ((8, 64, 512), PAPER, ("W_O", "(in, out)")),
        ((1024, 512), PAPER, ("W_K and W_V", "(out, in)")),
        ((1536,), PAPER, ("b_Q, b_K and b_V", "")),
        ((8, 64), PAPER, ("b_Q, b_K or b_V", "")),
        ((64,), PAPER, ("b_Q[i], b_K[i] or b_V[i]", "")),
        ((100, 512), PAPER, ("X_Q, X_K, X_V or the output", "")),
        ((3, 100, 512), PAPER, ("X_Q, X_K, X_V or the output", "")),
        ((100, 64), PAPER, ("Q[i], K[i] or V[i]", "")),
        ((8, 100, 64), PAPER, ("Q, K or V", "")),
        ((3, 8, 100, 64), PAPER, ("Q, K or V", "")),
        ((3, 100, 8, 64), PAPER, ("Q, K or V", "")),
        ((3, 8, 100, 101), PAPER, ("S or A", "")),
        ((100, 100), PAPER, ("S[i], A[i] or a mask", "")),
        ((30, 7), GROUPED, ("W_Q", "(out, in)")),
        ((10, 7), GROUPED, ("W_K or W_V", "(out, in)")),
        ((50, 7), GROUPED, ("W_Q, W_K and W_V", "(out, in)")),
        ((2, 5), GROUPED, ("b_K or b_V", "")),
        ((3, 2, 11, 5), GROUPED, ("K or V", "")),
        # tokens as columns
        ((512, 10), PAPER, ("X_Q, X_K, X_V or the output", "")),
        ((64, 10), PAPER, ("Q[i], K[i] or V[i]", "")),
        # heads in the batch, masks, letters on an axis of their own
        ((16, 10, 64), PAPER, ("Q, K or V", "")),
        ((16, 10, 10), PAPER, ("S, A or a mask", "")),
        ((2, 1, 10, 10), PAPER, ("a mask", "")),
        ((2, 10, 10), PAPER, ("a mask, or A averaged over heads", "")),
        ((3, 2, 8, 10, 64), PAPER, ("Q, K and V", "")),
        ((2, 10, 3, 8, 64), PAPER, ("Q, K and V", "")),
        # a number of tokens or samples that is not known yet
        ((None, 5, 512), PAPER, ("X_Q, X_K, X_V or the output", "")),
        ((None, 512), PAPER, ("X_Q, X_K, X_V or the output", "")),
    ],
)
def test_most_common_candidate_comes_first(shape, sizes, first):
    assert symbols(which(*shape, **sizes))[0] == first


def test_a_square_matrix_is_never_certain():
    candidates = symbols(which(512, 512, **PAPER))
    for name in ("W_Q, W_K or W_V", "W_O"):
        assert (name, "(in, out)") in candidates
        assert (name, "(out, in)") in candidates
    for name in ("P_Q, P_K or P_V", "W_QK[i] or W_VO[i]", "X_Q, X_K, X_V or the output"):
        assert name in dict(candidates)


@given(st.sampled_from([1, 2, 3]), st.sampled_from([1, 2]), st.permutations([5, 7, 11, 13, 17]))
def test_every_array_of_a_layer_is_among_its_candidates(h_kv, group, widths):
    d_model, d_k, n_q, n_k, batch = widths
    sizes = {"d_model": d_model, "h": h_kv * group, "h_kv": h_kv, "d_k": d_k}
    mh = MultiHead.random(**sizes, bias=True)
    Q, K, V = mh.project(np.ones((batch, n_q, d_model)), np.ones((batch, n_k, d_model)))
    arrays = {
        **{f.name: getattr(mh, f.name) for f in dataclasses.fields(mh) if f.name[1] == "_"},
        "Q": Q,
        "K": K,
        "V": V,
        "S": np.repeat(K, group, axis=1) @ Q.swapaxes(-1, -2),
        "W_QK": w_qk(mh, constant=True)[:, :-1, :-1],
        "W_VO": w_vo(mh, constant=True)[:, :-1],
    }
    for name, array in arrays.items():
        named = {
            candidate.symbol
            for candidate in which(*array.shape, **sizes)
            if candidate.convention != "(out, in)"
        }
        assert any(name in symbol.replace(",", "").split() for symbol in named), name
        if array.ndim > 1 and name[0] != "b":
            first = {candidate.symbol for candidate in which(*array[0].shape, **sizes)}
            assert any(name in symbol for symbol in first), name


@given(
    st.tuples(st.integers(1, 12), st.integers(1, 12)),
    st.sampled_from([2, 4, 6]),
    st.sampled_from([1, 2]),
    st.integers(1, 6),
    st.integers(1, 12),
)
def test_what_is_told_of_a_shape_adds_up(shape, h, h_kv, d_k, d_model):
    candidates = which(*shape, d_model=d_model, h=h, h_kv=h_kv, d_k=d_k)
    names = {"d_model": d_model, "h": h, "h_kv": h_kv, "d_k": d_k}
    for candidate in candidates:
        for axis, size in zip(candidate.axes[1:-1].split(", "), shape, strict=True):
            free = axis in {"n", "n_q", "n_k", "batch"}
            formula = axis.replace("·", "*")
            assert eval(formula, {}, names | {axis: size} if free else names) == size
            assert (f"{axis} = {size}" if free else f"{size} = {axis}") in candidate.why
        assert candidate.question.endswith("?")
        assert candidate.what
    assert len(set(candidates)) == len(candidates)


@given(st.permutations([2, 3, 5, 7]))
def test_grouped_heads_part_queries_from_keys(sizes):
    d_model, d_k, h_kv, group = sizes
    grouped = {"d_model": d_model, "h": h_kv * group, "h_kv": h_kv, "d_k": d_k}
    assert "W_Q" in dict(symbols(which(h_kv * group, d_model, d_k, **grouped)))
    keys = dict(symbols(which(h_kv, d_model, d_k, **grouped)))
    assert "W_K or W_V" in keys
    assert not any("W_Q" in symbol for symbol in keys if "[i]" not in symbol)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("shape", "sizes", "message"),
    [
        ((13,), PAPER, r"shape \(13,\) at these sizes: d_model = 512, h = 8.*pass d_k"),
        ((), PAPER, r"No array of attention that is known here has shape \(\)"),
        (((512, 512),), PAPER, r"axis 0 of the shape must be .* but is \(512, 512\)"),
        ((512, 0), PAPER, "axis 1 of the shape must be a positive whole number, but is 0"),
        ((512,), {"d_model": 512, "h": 7}, "not divisible by h = 7.*Pass d_k"),
        ((512,), PAPER | {"h_kv": 3}, "h_kv must divide h"),
        ((512,), PAPER | {"h_kv": 0}, "h_kv must be a positive whole number"),
    ],
)
def test_shapes_and_sizes_that_fit_nothing(shape, sizes, message):
    with pytest.raises(ValueError, match=message):
        which(*shape, **sizes)
