import dataclasses
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv import MultiHead, w_qk, w_vo, which
from qkv.layouts import layouts
from support import refuses

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


# Who stores it so


@pytest.mark.parametrize("layout", layouts().values(), ids=layouts())
def test_each_array_of_a_layout_names_it(layout):
    """Widths that the layout fixes are those of the layer; every part has a reading."""
    sizes = {"d_model": 24, "h": 8, "h_kv": 4 if layout.grouped else 8, "d_k": 3}
    for form in layout.forms:
        grouped = any("h_kv" in stored.symbols for stored in form.stored)
        at = sizes if grouped else sizes | {"h_kv": 8}
        widths = dict.fromkeys(("d_source", "d_source_k", "d_source_v", "d_out"), 24)
        for stored in form.stored:
            shape = stored.shape_for(at | widths | {"d_v": 3})
            said = "; ".join(each for found in which(*shape, **at) for each in found.stored_by)
            if {*stored.parts} != {"b_Q", "b_V"}:
                assert re.search(rf"\b{layout.name}: [^;]*{re.escape(stored.name)}", said), stored


def test_what_flows_is_stored_by_no_library():
    for candidate in which(10, 512, **PAPER):
        assert candidate.stored_by == ()


# Sizes that were not given


@pytest.mark.parametrize(
    ("shape", "sizes", "told", "reading"),
    [
        ((256, 512), PAPER, "h_kv = 4", "W_K or W_V (out, in)"),
        ((256, 512), PAPER, "h_kv = 2", "W_K and W_V (out, in)"),
        ((4096, 2560), {"d_model": 2560, "h": 32}, "d_k = 128", "W_Q, W_K or W_V (out, in)"),
        ((1024, 2560), {"d_model": 2560, "h": 32}, "h_kv·d_k = 1024", "W_K or W_V (out, in)"),
        ((1024, 2560), {"d_model": 2560, "h": 32, "d_k": 128}, "h_kv = 8", "W_K or W_V (out, in)"),
        ((1024, 2560), {"d_model": 2560, "h": 32, "h_kv": 8}, "d_k = 128", "W_K or W_V (out, in)"),
        ((512, 8, 512), PAPER, "d_k = 512", "W_Q, W_K or W_V (in, out)"),
    ],
)
def test_a_size_that_was_not_given_would_add_readings(shape, sizes, told, reading):
    candidates = which(*shape, **sizes)
    assert reading in candidates.at_other_sizes[told]
    assert reading not in symbols_said(candidates)
    assert f"and if {told}: " in " ".join(str(candidates).split())


def symbols_said(candidates):
    return [f"{each.symbol} {each.convention}".rstrip() for each in candidates]


@given(st.tuples(st.integers(1, 40), st.integers(1, 40)), st.sampled_from([2, 4, 6]))
def test_sizes_that_are_named_do_add_the_reading(shape, h):
    candidates = which(*shape, d_model=12, h=h)
    for told, readings in candidates.at_other_sizes.items():
        sizes = dict(each.split(" = ") for each in told.split(" and "))
        if {*sizes} <= {"h_kv", "d_k"}:
            at_them = which(*shape, d_model=12, h=h, **{n: int(size) for n, size in sizes.items()})
            assert {*readings} <= {*symbols_said(at_them)}
        else:
            assert all(math.prod(known_at(h, axis)) for axis in sizes)


def known_at(h, axis):
    """The factors of an axis that are known, such as 2 in 2·h_kv·d_k."""
    return [int(factor) for factor in axis.split("·") if factor.isdigit()] or [h]


def test_sizes_that_were_given_are_not_varied():
    assert which(256, 512, **PAPER, h_kv=8, d_k=64).at_other_sizes == {}
    assert {*which(256, 512, **PAPER, d_k=64).at_other_sizes} == {"h_kv = 4", "h_kv = 2"}


def test_the_refusal_names_sizes_that_would_fit():
    with pytest.raises(ValueError, match=r"pass d_k\. If d_k = 128, it may be b_Q, b_K or b_V\."):
        which(4096, d_model=2560, h=32)


# Shapes in a row


def rows(*shapes, **sizes):
    return [symbols(candidates) for candidates in which(*shapes, **(PAPER | sizes))]


def test_a_second_map_before_the_heads_is_told_by_what_comes_after_it():
    source, first, second = rows((10, 512), (512, 512), (512, 64))
    assert source == [("X_Q, X_K, X_V or the output", "")]
    assert first == [("P_Q, P_K or P_V", "(in, out) or (out, in)")]
    assert second == [("W_Q[i], W_K[i] or W_V[i]", "(in, out)")]


def test_one_matrix_per_head_after_a_square_one():
    *_, first, second = rows((10, 512), (512, 512), (8, 64, 512))
    assert first == [("P_Q, P_K or P_V", "(in, out) or (out, in)")]
    assert second == [("W_Q, W_K or W_V", "(out, in)")]


def test_values_and_then_the_output_of_one_head():
    *_, value, out = rows((10, 512), (512, 64), (64, 512))
    assert value[0] == ("W_Q[i], W_K[i] or W_V[i]", "(in, out)")
    assert out == [("W_O[i]", "(in, out)")]


def test_weights_of_the_softmax_and_then_values():
    weights, values = rows((10, 11), (11, 64))
    assert weights == [("S[i], A[i] or a mask", "")]
    assert values == [("Q[i], K[i] or V[i]", "")]


def test_one_column_a_token_goes_with_weights_on_the_other_side():
    source, weight = rows((512, 10), (64, 512))
    assert source == [("X_Q, X_K, X_V or the output", "")]
    assert weight == [("W_Q[i], W_K[i] or W_V[i]", "(out, in)")]
    with pytest.raises(ValueError, match="no array of shape"):
        which((512, 10), (512, 64), **PAPER)
    with pytest.raises(ValueError, match="or an array with one column a token follows, ask for"):
        which((10, 64), (64, 10), **PAPER)  # Q K^T: columns begin a row


def test_grouped_values_do_not_fit_an_output_map_of_all_heads():
    assert rows((3, 7), (7, 10), h=6, h_kv=2, d_k=5, d_model=7)
    with pytest.raises(ValueError, match=r"no array of shape \(30, 7\).* give 10 \(packed heads\)"):
        which((3, 7), (7, 10), (30, 7), d_model=7, h=6, h_kv=2, d_k=5)


def test_matrices_in_a_row_are_one():
    chain = which((10, 512), (512, 512), (512, 64), **PAPER)
    [said] = chain.maps
    assert said.startswith("As X @ W, (in, out), the weights take 512 to 512 to 64 numbers.")
    assert said.endswith("one matrix of shape (512, 64) does the same.")
    assert " ".join(str(chain).split()).endswith(said)
    [turned] = which((512, 512), (64, 512), **PAPER).maps
    assert "one matrix of shape (64, 512)" in turned
    one = np.ones((512, 512)) @ np.ones((512, 64))
    assert one.shape == (512, 64)


@given(st.permutations([5, 7, 11, 13]), st.sampled_from([2, 3]))
def test_the_arrays_of_a_layer_follow_each_other(widths, h):
    d_model, d_k, n, _ = widths
    mh = MultiHead.random(d_model, h, d_k=d_k)
    sizes = {"d_model": d_model, "h": h, "d_k": d_k}
    packed = (d_model, h * d_k)
    for shapes, last in (
        ([(n, d_model), mh.W_Q.shape], "W_Q, W_K or W_V"),
        ([(n, d_model), packed, packed[::-1]], "W_O"),
        ([(n, d_model), mh.W_V[0].shape, mh.W_O[0].shape], "W_O[i]"),
        ([(n, d_model), (d_model, d_model), packed], "W_Q, W_K or W_V"),
        ([mh.W_V.shape, mh.W_O.shape], "W_O"),
    ):
        assert last in dict(symbols(which(*shapes, **sizes)[-1]))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("shapes", "parts"),
    [
        (
            [(10, 512), (64, 512), (64, 512)],
            (
                "no array of shape (64, 512) can follow one of shape (64, 512) … "
                "may give 512 (packed heads) or 512 (source) … this may take … 512 (source) … "
                "Perhaps both take the same 512 numbers, those of a source."
            ),
        ),
        ([(10, 512), (10, 512)], "(10, 512) can follow one of shape (10, 512)"),
        ([(10, 512), (512, 512), (100,)], "No array of attention … shape (100,)"),
        ([(10, 512), (1536, 512), (512, 512)], "(512, 512) can follow one of shape (1536, 512)"),
        ([(10, 512), 512], "axis 1 of the shape … is 512 … of several in a row their shapes"),
        ([(512, 512)], "axis 0 of the shape … (512, 512) … which(*shape, ...)"),
        ([(10, 512), (512, 0)], "axis 1 of the shape must be a positive whole number"),
    ],
)
def test_shapes_that_do_not_follow_each_other(shapes, parts):
    with refuses(parts):
        which(*shapes, **PAPER)


# How it prints


def test_candidates_print_as_a_text_and_are_values():
    candidates = which(1536, 512, **PAPER)
    assert isinstance(candidates, tuple)
    text = str(candidates)
    assert text.startswith("(1536, 512) may be\n  W_Q, W_K and W_V (out, in): the projections")
    for candidate in candidates:
        for told in (candidate.symbol, candidate.what, candidate.why, candidate.question):
            assert told in " ".join(text.split())
    assert "Stored so by pytorch, " in text
    first, *_ = text.splitlines()[1:]
    assert str(candidates[0]).splitlines()[0] == first.strip()


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


def test_whole_numbers_of_numpy_are_sizes():
    sizes = {"d_model": np.int64(512), "h": np.int64(8)}
    assert which(np.int64(512), 64, **sizes) == which(512, 64, d_model=512, h=8)
    assert repr(which(np.int64(512), 64, **sizes).shape) == "(512, 64)"


def test_an_array_in_place_of_its_shape():
    for arrays in ((np.ones((30, 20)),), (np.ones((30, 20)), (20, 5))):
        with pytest.raises(ValueError, match=r"array of shape \(30, 20\): pass which\(\*array"):
            which(*arrays, d_model=20, h=4)
