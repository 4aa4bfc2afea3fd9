"""What the attention functions of libraries take and do: each line of the table, run.

The first line of a test's docstring is the claim. Pages that state it name the test.
"""

import os
import subprocess
import sys

import numpy as np
import pytest
from attention_functions import RUN, _onnx, arguments_of, call, causal, is_layer
from real_layers import keras_library

import qkv
from qkv import masks

BATCH, H, N_Q, N_K, D_K = 2, 3, 4, 7, 5


def drawn(rng, h=H, n_q=N_Q, n_k=N_K, h_kv=None):
    """Queries, keys and values, each (batch, heads, tokens, width)."""
    shapes = (h, n_q), (h_kv or h, n_k), (h_kv or h, n_k)
    return [rng.normal(size=(BATCH, *shape, D_K)) for shape in shapes]


def near(a, b) -> bool:
    """Equal within the precision of the functions that compute in float32."""
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and np.allclose(a, b, rtol=0, atol=1e-5)


def a_mask(rng, n_q=N_Q, n_k=N_K) -> np.ndarray:
    """True for what is seen: something and not everything for each query."""
    mask = rng.random((n_q, n_k)) < 0.5
    mask[:, 0], mask[:, 1] = True, False
    return mask


def scores(Q, K) -> np.ndarray:
    return Q @ K.swapaxes(-1, -2) / np.sqrt(Q.shape[-1])


def refused(function, *arrays, **options) -> bool:
    """Whether a call raises an error; what kind differs between libraries."""
    try:
        call(function, *arrays, **options)
    except (AssertionError, TypeError, ValueError, RuntimeError):
        return True
    return False


def of_table(function, mask: np.ndarray) -> np.ndarray:
    """A mask (n_q, n_k) with the axes that a function's own mask has at least."""
    return mask[None] if function["mask_axes"] == "batch, n_q, n_k" else mask


each_function = pytest.mark.parametrize("function", RUN.values(), ids=RUN)


@each_function
def test_an_attention_function_takes_its_sources_in_the_order_and_the_axes_of_the_table(
    function, rng
):
    """Attention functions of PyTorch, JAX, Flax, Keras, MLX and ONNX differ in axes and order.

    Each takes its sources in the order and with the axes of the table, and its default scale is
    1/√d_k, or it has none and raises an error.
    """
    Q, K, V = drawn(rng)
    assert near(call(function, Q, K, V), qkv.attention(Q, K, V))
    if function["scale"] == "must be given":
        assert refused(function, Q, K, V, scale=None)


def test_keras_layer_takes_sources_of_any_width_and_torchs_takes_one(keras, torch, rng):
    """Keras' layer takes sources of widths other than that of all heads, PyTorch's queries have it.

    Covers: 2 heads of width 5, and sources that are 7 and 9 wide.
    """
    query, value = (rng.normal(size=(2, n, width)) for n, width in ((3, 7), (4, 9)))
    assert keras.layers.MultiHeadAttention(2, 5)(query, value).shape == (2, 3, 7)
    layer = torch.nn.MultiheadAttention(10, 2, kdim=9, vdim=9, batch_first=True).double()
    query, value = map(torch.from_numpy, (query, value))
    with pytest.raises(AssertionError, match="embedding dimension of 10, but got 7"):
        layer(query, value, value)


@each_function
def test_true_in_a_mask_of_an_attention_function_means_what_the_table_says(function, rng):
    """True means attend in seven functions and in Keras' layer, and hide in PyTorch's layer."""
    Q, K, V = drawn(rng)
    mask = a_mask(rng)
    said = mask if function["true"] == "attend" else ~mask
    output = call(function, Q, K, V, **{function["mask"]: of_table(function, said)})
    assert near(output, qkv.attention(Q, K, V, mask=mask))
    assert not near(output, qkv.attention(Q, K, V))


@each_function
def test_a_mask_of_ones_and_zeros_as_floats_is_added_or_read_or_refused(function, rng):
    """A mask of 1.0 and 0.0 is added by PyTorch, MLX and ONNX; Flax and Keras read it, JAX refuses.

    Where it is added, nothing is hidden: a key with 1.0 gets e times the weight of one with 0.0.
    """
    Q, K, V = drawn(rng)
    mask = a_mask(rng)
    floats = {function["mask"]: of_table(function, mask.astype(float))}
    if function["floats"] == "refused":
        assert refused(function, Q, K, V, **floats)
        return
    output = call(function, Q, K, V, **floats)
    added, read = qkv.softmax(scores(Q, K) + mask), qkv.softmax(scores(Q, K), mask=mask)
    expected = {"added": added, "read as True and False": read}[function["floats"]]
    assert near(output, expected @ V)
    assert not near(added @ V, read @ V)


@each_function
def test_the_causal_mask_of_an_attention_function_is_aligned_as_the_table_says(function, rng):
    """With fewer queries than keys, causal masks begin at the first key, MLX's ends at the last.

    So with 2 queries and 5 keys the two give other outputs, and with 5 and 5 the same.
    """
    if not function["ask"]:
        assert not function["causal"]
        return
    for n_q, n_k in ((2, 5), (5, 5)):
        Q, K, V = drawn(rng, n_q=n_q, n_k=n_k)
        output = call(function, Q, K, V, **causal(function))
        start, end = (
            qkv.attention(Q, K, V, mask=masks.causal(n_q, n_k, aligned=aligned))
            for aligned in ("start", "end")
        )
        assert near(output, {"start": start, "end": end}[function["causal"]])
        assert near(start, end) == (n_q == n_k)


def test_mlx_gives_the_mean_of_the_values_where_its_causal_mask_leaves_no_key(rng):
    """MLX gives the mean of the values to queries for which its causal mask leaves no key.

    With 5 queries and 2 keys these are the first three.
    """
    Q, K, V = drawn(rng, n_q=5, n_k=2)
    pytest.importorskip("mlx.core")
    output = call(RUN["mx.fast.scaled_dot_product_attention"], Q, K, V, mask="causal")
    assert near(output[:, :, :3], V.mean(axis=2, keepdims=True).repeat(3, axis=2))
    expected = qkv.attention(Q, K, V, mask=masks.causal(5, 2, aligned="end"))
    assert near(output[:, :, 3:], expected[:, :, 3:])
    assert not expected[:, :, :3].any()


@pytest.mark.parametrize("opset", [23, 24, 25])
def test_onnx_aligns_its_causal_mask_at_the_start_without_a_cache_and_at_the_end_with_one(
    opset, rng
):
    """ONNX aligns its causal mask at the start, and after the keys of a cache that it is given."""
    pytest.importorskip("onnx")
    Q, K, V = drawn(rng, n_q=2, n_k=5)
    output = _onnx([Q, K, V], H, {"is_causal": 1}, opset)
    assert near(output, qkv.attention(Q, K, V, mask=masks.causal(2, 5, aligned="start")))
    cache = {"past_key": K[:, :, :3], "past_value": V[:, :, :3]}
    output = _onnx([Q, K[:, :, 3:], V[:, :, 3:]], H, {"is_causal": 1, **cache}, opset)
    assert near(output, qkv.attention(Q, K, V, mask=masks.causal(2, 5, aligned="end")))


@pytest.mark.parametrize("opset", [23, 24, 25])
def test_onnx_fills_a_shorter_mask_so_that_later_keys_are_hidden(torch, opset, rng):
    """ONNX fills a mask whose last axis is shorter than the keys, so that later keys are hidden.

    A mask (n_q, 1) of True leaves the first key alone; PyTorch repeats its last axis.
    """
    pytest.importorskip("onnx")
    Q, K, V = drawn(rng, n_q=2, n_k=5)
    mask = np.ones((2, 1), dtype=bool)
    output = _onnx([Q, K, V], H, {"attn_mask": mask}, opset)
    assert near(output, V[:, :, :1].repeat(2, axis=2))
    assert near(sdpa(torch, Q, K, V, attn_mask=mask), qkv.attention(Q, K, V))


@each_function
def test_fewer_heads_of_keys_are_served_as_the_table_says(function, rng):
    """Fewer heads of keys are repeated in place by JAX, nnx, Keras' function, MLX and ONNX.

    Query head i then uses key head i // (h / h_kv). PyTorch's function does so if it is asked, and
    without that it raises an error, but for one head of keys, which serves all. Flax linen
    refuses fewer heads. The layers of PyTorch and Keras have no argument for them.
    """
    if is_layer(function["axes"]):
        assert function["groups"] == "no argument"
        assert {"num_kv_heads", "num_key_value_heads"}.isdisjoint(arguments_of(function))
        return
    Q, K, V = drawn(rng, h=6, h_kv=2)
    options = {}
    if function["groups"] != "by itself":
        assert refused(function, Q, K, V)
        options = {"enable_gqa": True}
    if function["groups"] == "refused":
        assert refused(function, Q, K[:, :1], V[:, :1]) != function["one"]
        return
    output = call(function, Q, K, V, **options)
    assert near(output, qkv.attention(Q, K.repeat(3, axis=1), V.repeat(3, axis=1)))
    tiled = [np.tile(array, (1, 3, 1, 1)) for array in (K, V)]
    assert not near(output, qkv.attention(Q, *tiled))
    of_one = call(function, Q, K[:, :1], V[:, :1])
    assert near(of_one, qkv.attention(Q, K[:, :1], V[:, :1])) == function["one"]


@each_function
def test_a_query_that_may_see_nothing_gets_what_the_table_says(function, rng):
    """A query that may see nothing gets zeros, the mean of the values, or NaN.

    Zeros from PyTorch's function and ONNX, the mean from JAX, Flax, Keras and MLX, NaN from
    PyTorch's layer if it returns weights, as it does by default.
    """
    Q, K, V = drawn(rng)
    mask = np.ones((N_Q, N_K), dtype=bool)
    mask[1] = False
    said = mask if function["true"] == "attend" else ~mask
    of_nothing = call(function, Q, K, V, **{function["mask"]: of_table(function, said)})[:, :, 1]
    expected = {"zeros": np.zeros_like(of_nothing), "mean": V.mean(axis=2)}
    if function["nothing"] == "NaN":
        assert np.isnan(of_nothing).all()
    else:
        assert near(of_nothing, expected[function["nothing"]])


@each_function
def test_an_axis_of_length_one_is_repeated_in_silence_by_some_functions(function, rng):
    """One head of queries, or one sentence, is repeated in silence by PyTorch, Keras and ONNX.

    Their functions broadcast the queries to three heads of keys, or to two sentences. JAX, Flax
    and MLX refuse it. Keras ran with PyTorch as its backend, ONNX as its reference implementation.
    """
    if is_layer(function["axes"]):
        return  # a layer makes the heads itself
    Q, K, V = drawn(rng)
    repeats = function["of"] in ("PyTorch", "Keras", "ONNX")
    for few in (Q[:, :1], Q[:1]):
        assert refused(function, few, K, V) != repeats
        if repeats:
            assert near(call(function, few, K, V), qkv.attention(few, K, V))
            # With one sentence of keys the shape is right.
            assert near(call(function, Q, K[:1], V[:1]), qkv.attention(Q, K[:1], V[:1]))


def test_keras_with_jax_refuses_masks_of_floats_and_one_head_of_queries():
    """Keras with JAX refuses a mask of floats (n_q, n_k), and one head of queries beside three.

    It refuses one sentence beside two as well. A mask of floats with four axes is read as True and
    False.
    """
    pytest.importorskip("jax")
    keras_library()
    code = """
import keras, numpy as np
attend, rng = keras.ops.dot_product_attention, np.random.default_rng(0)
q, k, v = (rng.normal(size=(2, n, 3, 5)).astype("float32") for n in (4, 7, 7))
mask = np.tri(4, 7, 2, dtype=bool)
expected = attend(q, k, v, mask=mask)
four_axes = np.broadcast_to(mask, (2, 3, 4, 7)).astype("float32")
print(np.allclose(attend(q, k, v, mask=four_axes), expected, atol=1e-5))
for query, options in ((q, {"mask": mask.astype("float32")}), (q[:, :, :1], {}), (q[:1], {})):
    try:
        attend(query, k, v, **options)
    except TypeError:
        print("refused")
"""
    made = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout.split() == ["True", "refused", "refused", "refused"]


@each_function
def test_exchanged_queries_and_values_are_refused_but_by_the_functions_of_pytorch_and_keras(
    function, rng
):
    """Exchanged queries and values are refused if lengths differ, but by some of PyTorch and Keras.

    `F.scaled_dot_product_attention` and `keras.ops.dot_product_attention` with PyTorch, on a CPU
    with four axes and no dropout, give as many words as there are keys: 5, for 3 queries. With
    a mask both refuse it, and with three axes or dropout PyTorch's does. Keras' layer takes it
    without a key and a mask, since keys are values there. With a key it refuses it in its first
    call, which builds it, and takes it later, unless it has a mask or dropout, or is asked for its
    scores, or its inputs have four axes, or its values have another width than its keys.
    """
    queries, values = drawn(rng, n_q=3, n_k=5)[:2]
    mask = np.ones((3, 5), bool)
    if function["name"] == "keras.layers.MultiHeadAttention":
        layer = keras_library().layers.MultiHeadAttention(H, D_K)
        asked, three = (each[:, 0].astype("float32") for each in (values, queries))
        with pytest.raises(ValueError, match="All dimensions of `value` and `key`"):
            layer(query=asked, value=three, key=asked)
        without_key = keras_library().layers.MultiHeadAttention(H, D_K, dropout=0.1)
        output, _ = without_key(query=asked, value=three, return_attention_scores=True)
        assert tuple(output.shape) == (BATCH, 5, D_K)
        with pytest.raises(ValueError, match="must be broadcastable"):
            without_key(query=asked, value=three, attention_mask=mask[None])
        layer(query=asked, value=asked, key=asked)
        assert tuple(layer(query=asked, value=three, key=asked).shape) == (BATCH, 5, D_K)
        with pytest.raises(RuntimeError, match="does not broadcast"):
            layer(query=asked, value=three, key=asked, return_attention_scores=True)
        with pytest.raises(RuntimeError, match="must match"):
            layer(query=asked, value=three, key=asked, attention_mask=mask[None])
        with_dropout = keras_library().layers.MultiHeadAttention(H, D_K, dropout=0.1)
        with_dropout(query=asked, value=asked, key=asked)
        with pytest.raises(RuntimeError, match="does not broadcast"):
            with_dropout(query=asked, value=three, key=asked)
        other_width = keras_library().layers.MultiHeadAttention(H, D_K, value_dim=D_K + 1)
        other_width(query=asked, value=asked, key=asked)
        with pytest.raises(RuntimeError, match="Expected size for first two dimensions"):
            other_width(query=asked, value=three, key=asked)
        of_rows = keras_library().layers.MultiHeadAttention(H, D_K, attention_axes=2)
        asked, three = asked[:, None], three[:, None]
        of_rows(query=asked, value=asked, key=asked)
        with pytest.raises(RuntimeError, match="does not broadcast"):
            of_rows(query=asked, value=three, key=asked)
    elif function["name"] in ("F.scaled_dot_product_attention", "keras.ops.dot_product_attention"):
        assert call(function, values, values, queries).shape == (BATCH, H, 5, D_K)
        assert refused(function, values, values, queries, **{function["mask"]: mask})
        if function["of"] == "PyTorch":
            assert refused(function, values[0], values[0], queries[0])
            assert refused(function, values, values, queries, dropout_p=0.1)
    else:
        assert refused(function, values, values, queries)


def test_torch_fused_function_takes_more_values_than_keys_and_its_plain_one_does_not(torch, rng):
    """PyTorch's fused function on a CPU takes more values than keys, and its plain one does not.

    With 5 keys and 6 values `scaled_dot_product_attention` raises no error. Held to its plain form,
    SDPBackend.MATH, it does, as with a mask, dropout, three axes, or values of another width than
    keys.
    """
    Q, K, V = map(torch.from_numpy, (*drawn(rng, n_k=5)[:2], drawn(rng, n_k=6)[2]))
    attend = torch.nn.functional.scaled_dot_product_attention
    assert attend(Q, K, V).shape == (BATCH, H, N_Q, D_K)
    plain = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
    with plain, pytest.raises(RuntimeError, match="Expected size for first two dimensions"):
        attend(Q, K, V)
    refuses_what_is_not_fused(torch, Q, K, V)


def refuses_what_is_not_fused(torch, Q, K, V):
    """Values of another length than keys: with a mask, dropout, three axes or other widths."""
    attend = torch.nn.functional.scaled_dot_product_attention
    with pytest.raises(RuntimeError, match="must match the existing size"):
        attend(Q, K, V, attn_mask=torch.ones(Q.shape[2], K.shape[2], dtype=torch.bool))
    for arrays, dropout in (((Q[0], K[0], V[0]), 0), ((Q, K, V[..., 1:]), 0), ((Q, K, V), 0.1)):
        with pytest.raises(RuntimeError, match="Expected size for first two dimensions"):
            attend(*arrays, dropout_p=dropout)


def test_torch_fused_function_leaves_out_keys_that_have_no_value(torch, rng):
    """PyTorch's fused function on a CPU leaves out keys that have no value, without an error.

    With 1, 2 or 3 values for 5 keys it computes what it computes with the first 1, 2 or 3 keys.
    With a mask, dropout, three axes, or values of another width than keys it raises an error.
    """
    Q, K, V = map(torch.from_numpy, drawn(rng, n_k=5))
    attend = torch.nn.functional.scaled_dot_product_attention
    for n in (1, 2, 3):
        first_keys, first_values = K[:, :, :n], V[:, :, :n].contiguous()
        assert torch.allclose(attend(Q, K, first_values), attend(Q, first_keys, first_values))
        refuses_what_is_not_fused(torch, Q, K, first_values)


def test_torch_takes_axes_that_are_exchanged_and_then_attends_across_heads(torch, rng):
    """PyTorch's `scaled_dot_product_attention` attends across heads if its axes are exchanged.

    It takes (batch, n, h, d_k) without an error, and then another word has no effect on a word.
    """
    attend = torch.nn.functional.scaled_dot_product_attention
    Q, K, V = (torch.from_numpy(array.swapaxes(1, 2).copy()) for array in drawn(rng, n_k=N_Q))
    before = attend(Q, K, V)
    assert before.shape == (BATCH, N_Q, H, D_K)
    for array in (Q, K, V):
        array[:, -1] += 1
    after = attend(Q, K, V)
    assert torch.equal(after[:, 0], before[:, 0])
    right = attend(*(array.transpose(1, 2) for array in (Q, K, V)))
    assert not torch.allclose(right.transpose(1, 2), after)


# PyTorch: masks that fit and stand for something else


def sdpa(torch, *arrays, **options):
    """PyTorch's function, called with arrays."""
    options = {
        name: torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray) else value
        for name, value in options.items()
    }
    attend = torch.nn.functional.scaled_dot_product_attention
    return attend(*map(torch.from_numpy, arrays), **options).numpy()


def test_torch_refuses_a_mask_of_integers_and_adds_one_of_floats(torch, rng):
    """PyTorch's `scaled_dot_product_attention` refuses a mask of integers, adds one of floats."""
    Q, K, V = drawn(rng)
    mask = a_mask(rng)
    with pytest.raises(RuntimeError, match="Expected attn_mask dtype to be bool or float"):
        sdpa(torch, Q, K, V, attn_mask=mask.astype(int))
    added = sdpa(torch, Q, K, V, attn_mask=mask.astype(float))
    assert near(added, qkv.softmax(scores(Q, K) + mask) @ V)


def test_torch_hides_by_a_mask_of_ones_and_zeros_once_it_is_boolean(torch, rng):
    """PyTorch's `scaled_dot_product_attention` hides where a mask was 0.0, if given `mask.bool()`.

    The mask has 1.0 for "may attend". As floats it hides nothing.
    """
    Q, K, V = drawn(rng)
    mask = a_mask(rng)
    floats = torch.from_numpy(mask.astype(float))
    hidden = qkv.attention(Q, K, V, mask=mask)
    assert near(sdpa(torch, Q, K, V, attn_mask=floats.bool()), hidden)
    all_seen = qkv.softmax(scores(Q, K) + mask)
    assert all_seen.min() > 0
    assert near(sdpa(torch, Q, K, V, attn_mask=floats), all_seen @ V)


def test_torch_with_scale_1_takes_queries_that_were_divided(torch, rng):
    """PyTorch's `scaled_dot_product_attention` does not divide again if given `scale=1`."""
    Q, K, V = drawn(rng)
    divided, right = Q / np.sqrt(D_K), qkv.attention(Q, K, V)
    assert near(sdpa(torch, divided, K, V, scale=1), right)
    assert not near(sdpa(torch, divided, K, V), right)


def test_torch_takes_a_padding_mask_for_queries_and_keys_if_it_fits(torch, rng):
    """PyTorch takes a padding mask (batch, keys) for one of queries and keys if it fits.

    So do scaled_dot_product_attention and attn_mask of nn.MultiheadAttention, with 4 sentences of 4
    words. With 3 sentences both raise an error. `mask[:, None, None]` is right for the function.
    """
    real = np.arange(4) < np.array([4, 3, 2, 1])[:, None]
    Q, K, V = rng.normal(size=(3, 4, 1, 4, 5))
    as_queries = qkv.attention(Q, K, V, mask=np.broadcast_to(real, (4, 1, 4, 4)))
    assert near(sdpa(torch, Q, K, V, attn_mask=real), as_queries)
    right = qkv.attention(Q, K, V, mask=real[:, None, None])
    assert not near(as_queries, right)
    assert near(sdpa(torch, Q, K, V, attn_mask=real[:, None, None]), right)
    layer = RUN["nn.MultiheadAttention"]
    assert near(call(layer, Q, K, V, attn_mask=~real), as_queries)
    for function in (layer, RUN["F.scaled_dot_product_attention"]):
        assert refused(function, Q, K, V, attn_mask=real[:3])


def test_torch_takes_a_mask_of_sentences_for_one_of_heads_if_it_fits(torch, rng):
    """PyTorch's `scaled_dot_product_attention` takes (N, L, S) for (heads, L, S) if it fits."""
    Q, K, V = rng.normal(size=(3, 2, 2, 4, 5))  # 2 sentences, 2 heads
    of_sentences = np.stack([a_mask(rng, 4, 4), a_mask(rng, 4, 4)])
    as_heads = qkv.attention(Q, K, V, mask=np.broadcast_to(of_sentences, (2, 2, 4, 4)))
    assert near(sdpa(torch, Q, K, V, attn_mask=of_sentences), as_heads)
    assert not near(as_heads, qkv.attention(Q, K, V, mask=of_sentences[:, None]))
    assert refused(
        RUN["F.scaled_dot_product_attention"], Q, K, V, attn_mask=np.ones((3, 4, 4), bool)
    )


def test_torch_names_the_sentences_of_a_mask_with_three_axes_as_if_they_were_heads(torch, rng):
    """PyTorch says of a mask (batch, queries, keys) that its batch does not match the heads.

    The message is the one for grouped heads, at dimension 1. `enable_gqa=True` does not help, and
    an axis for the heads does.

    Covers: 8 sentences, 32 heads, masks of booleans and of floats.
    """
    Q, K, V = rng.normal(size=(3, 8, 32, N_Q, D_K))
    of_sentences = np.stack([a_mask(rng, N_Q, N_Q) for _ in range(8)])
    said = r"tensor a \(32\) must match the size of tensor b \(8\) at non-singleton dimension 1"
    for mask in (of_sentences, np.where(of_sentences, 0.0, -np.inf)):
        for options in ({}, {"enable_gqa": True}):
            with pytest.raises(RuntimeError, match=said):
                sdpa(torch, Q, K, V, attn_mask=mask, **options)
        right = qkv.attention(Q, K, V, mask=of_sentences[:, None])
        assert near(sdpa(torch, Q, K, V, attn_mask=mask[:, None]), right)


def test_torch_repeat_gives_a_head_the_mask_of_another_sentence(torch, rng):
    """PyTorch's `repeat` gives heads other sentences' masks, and `repeat_interleave` does not.

    nn.MultiheadAttention takes (N·num_heads, L, S) with the heads of a sentence together.
    """
    Q, K, V = rng.normal(size=(3, BATCH, H, 4, 5))
    allowed = np.stack([a_mask(rng, 4, 4) for _ in range(BATCH)])
    hidden, layer = torch.from_numpy(~allowed), RUN["nn.MultiheadAttention"]
    expected = qkv.attention(Q, K, V, mask=allowed[:, None])
    for_each = hidden.repeat_interleave(H, dim=0).numpy()
    tiled = hidden.repeat(H, 1, 1).numpy()
    assert for_each.shape == tiled.shape == (BATCH * H, 4, 4)
    assert near(call(layer, Q, K, V, attn_mask=for_each), expected)
    assert not near(call(layer, Q, K, V, attn_mask=tiled), expected)


def test_torch_causal_query_beside_a_cache_gets_the_first_value(torch, rng):
    """PyTorch's `is_causal=True` gives one query the first value; a mask to the last key is right.

    `ones(L, S).tril(diagonal=S - L)` gives the last L rows of the computation without a cache.
    """
    Q, K, V = drawn(rng, n_q=9, n_k=9)
    one = sdpa(torch, Q[:, :, -1:], K, V, is_causal=True)
    assert near(one, V[:, :, :1])
    whole = sdpa(torch, Q, K, V, is_causal=True)
    assert near(sdpa(torch, Q[:, :, -1:], K, V), whole[:, :, -1:])
    mask = torch.ones(3, 9, dtype=torch.bool).tril(diagonal=9 - 3).numpy()
    assert near(sdpa(torch, Q[:, :, -3:], K, V, attn_mask=mask), whole[:, :, -3:])
    assert not near(sdpa(torch, Q[:, :, -3:], K, V, is_causal=True), whole[:, :, -3:])


def test_torch_says_which_heads_do_not_match_and_broadcasts_one_head(torch, rng):
    """PyTorch names the numbers of heads that do not match, and one head of keys serves each head.

    With 32 heads of queries, 8 heads of keys raise an error. `enable_gqa=True` or
    repeat_interleave serves them, and repeat pairs other heads. Of arrays with three axes the
    error names dimension 0, and `enable_gqa=True` serves these heads too.
    """
    Q, K, V = drawn(rng, h=32, h_kv=8)
    said = r"size of tensor a \(32\) must match the size of tensor b \(8\) at non-singleton dim\w+ "
    with pytest.raises(RuntimeError, match=said + "1"):
        sdpa(torch, Q, K, V)
    grouped = sdpa(torch, Q, K, V, enable_gqa=True)
    with pytest.raises(RuntimeError, match=said + "0"):
        sdpa(torch, Q[0], K[0], V[0])
    assert near(sdpa(torch, Q[0], K[0], V[0], enable_gqa=True), grouped[0])
    K_4, V_4 = (torch.from_numpy(each).repeat_interleave(4, dim=1).numpy() for each in (K, V))
    assert near(sdpa(torch, Q, K_4, V_4), grouped)
    K_4, V_4 = (torch.from_numpy(each).repeat(1, 4, 1, 1).numpy() for each in (K, V))
    assert not near(sdpa(torch, Q, K_4, V_4), grouped)
    K_1, V_1 = K[:, :1], V[:, :1]
    assert near(sdpa(torch, Q, K_1, V_1), qkv.attention(Q, K_1, V_1))
    assert sdpa(torch, Q[:, :1], K, V).shape == (BATCH, 8, N_Q, D_K)


@each_function
def test_a_mask_of_an_attention_function_has_the_axes_of_the_table(function, rng):
    """A mask of an attention function is broadcast to batch, heads, queries and keys.

    So three axes are heads, queries and keys. In PyTorch's layer they are batch·h, queries and
    keys, and in Keras' layer batch, queries and keys.
    """
    Q, K, V = drawn(rng)
    mask = a_mask(rng)
    expected = qkv.attention(Q, K, V, mask=mask)
    of_batch, of_heads = (np.broadcast_to(mask, (size, N_Q, N_K)) for size in (BATCH, H))
    of_both = np.broadcast_to(mask, (BATCH * H, N_Q, N_K))
    of_all = np.broadcast_to(mask, (BATCH, 1, N_Q, N_K))
    taken = {
        "batch, h, n_q, n_k": (mask, of_heads, of_all),
        "n_q, n_k, or batch·h, n_q, n_k": (mask, of_both),
        "batch, n_q, n_k": (of_batch,),
    }[function["mask_axes"]]
    tried = (mask, of_heads, of_all, of_both, of_batch)
    for each in tried:
        said = {function["mask"]: each if function["true"] == "attend" else ~each}
        if any(each is one for one in taken):
            assert near(call(function, Q, K, V, **said), expected)
        elif each.ndim == 3:
            assert refused(function, Q, K, V, **said)


def test_a_mask_of_keys_alone_is_taken_by_torchs_function_where_it_is_not_fused(torch, rng):
    """A mask of keys alone is taken by PyTorch's function where no fused kernel runs.

    With four axes and no dropout it raises an IndexError on a CPU. With three axes, with dropout,
    or held to its plain form, it hides the keys from each query. Keras' function with PyTorch, and
    the layers of both, refuse such a mask.
    """
    Q, K, V = drawn(rng)
    of_keys = np.arange(N_K) < 3
    for name in ("F.scaled_dot_product_attention", "keras.ops.dot_product_attention"):
        with pytest.raises(IndexError):
            call(RUN[name], Q, K, V, **{RUN[name]["mask"]: of_keys})
    for name in ("nn.MultiheadAttention", "keras.layers.MultiHeadAttention"):
        assert refused(RUN[name], Q, K, V, **{RUN[name]["mask"]: of_keys})
    expected = qkv.attention(Q, K[:, :, :3], V[:, :, :3])
    assert near(sdpa(torch, Q[0], K[0], V[0], attn_mask=of_keys), expected[0])
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert near(sdpa(torch, Q, K, V, attn_mask=of_keys), expected)
    with_dropout = []
    for mask in (of_keys, np.tile(of_keys, (N_Q, 1))):
        torch.manual_seed(0)
        with_dropout.append(sdpa(torch, Q, K, V, attn_mask=mask, dropout_p=0.5))
    assert near(*with_dropout)
    assert not near(with_dropout[0], expected)
