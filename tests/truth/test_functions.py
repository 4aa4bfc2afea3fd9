"""What the attention functions of libraries take and do: each line of the table, run."""

import numpy as np
import pytest
from arrays import sdpa
from attention_functions import RUN, arguments_of, call, causal, is_layer

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


def refused(entry, *arrays, **options) -> bool:
    """Whether a call raises an error; what kind differs between libraries."""
    try:
        call(entry, *arrays, **options)
    except (AssertionError, TypeError, ValueError, RuntimeError):
        return True
    return False


def of_table(entry, mask: np.ndarray) -> np.ndarray:
    """A mask (n_q, n_k) with the axes that a function's own mask has at least."""
    return mask[None] if entry["mask_axes"] == "batch, n_q, n_k" else mask


def option_of(entry, mask: np.ndarray) -> dict:
    """The option that gives a function a boolean mask, True for what is seen."""
    return {entry["mask"]: mask if entry["true"] == "attend" else ~mask}


each_function = pytest.mark.parametrize("function", RUN.values(), ids=RUN)


@each_function
def test_an_attention_function_takes_its_sources_in_the_order_and_the_axes_of_the_table(
    function, rng
):
    """Attention functions of PyTorch, JAX, Flax, Keras, MLX and ONNX differ in axes and order."""
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
    (Q, K, V), mask = drawn(rng), a_mask(rng)
    output = call(function, Q, K, V, **option_of(function, of_table(function, mask)))
    assert near(output, qkv.attention(Q, K, V, mask=mask))
    assert not near(output, qkv.attention(Q, K, V))


@each_function
def test_a_mask_of_ones_and_zeros_as_floats_is_added_or_read_or_refused(function, rng):
    """PyTorch, MLX, ONNX add a mask of floats after the scale; Flax, Keras read it, JAX refuses."""
    (Q, K, V), mask = drawn(rng), a_mask(rng)
    floats = {function["mask"]: of_table(function, mask.astype(float))}
    if function["floats"] == "refused":
        assert refused(function, Q, K, V, **floats)
        return
    added, read = qkv.softmax(scores(Q, K) + mask), qkv.softmax(scores(Q, K), mask=mask)
    expected = {"added": added, "read as True and False": read}[function["floats"]]
    assert near(call(function, Q, K, V, **floats), expected @ V)
    assert not near(added @ V, read @ V)


@each_function
def test_the_causal_mask_of_an_attention_function_is_aligned_as_the_table_says(function, rng):
    """With fewer queries than keys, causal masks begin at the first key, MLX's ends at the last."""
    if not function["ask"]:
        assert not function["causal"]
        return
    for n_q, n_k in ((2, 5), (5, 5)):
        Q, K, V = drawn(rng, n_q=n_q, n_k=n_k)
        expected = {
            aligned: qkv.attention(Q, K, V, mask=masks.causal(n_q, n_k, aligned=aligned))
            for aligned in ("start", "end")
        }
        output = call(function, Q, K, V, **causal(function))
        assert near(output, expected[function["causal"]])
        assert near(*expected.values()) == (n_q == n_k)


@each_function
def test_fewer_heads_of_keys_are_served_as_the_table_says(function, rng):
    """Fewer heads of keys are repeated in place by JAX, nnx, Keras' function, MLX and ONNX."""
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
    """A query that may see nothing gets zeros, the mean of the values, or NaN."""
    (Q, K, V), mask = drawn(rng), np.ones((N_Q, N_K), dtype=bool)
    mask[1] = False
    of_nothing = call(function, Q, K, V, **option_of(function, of_table(function, mask)))[:, :, 1]
    zeros, mean = np.zeros_like(of_nothing), V.mean(axis=2)
    expected = {"zeros": zeros, "mean": mean, "NaN": zeros + np.nan}[function["nothing"]]
    assert np.allclose(of_nothing, expected, rtol=0, atol=1e-5, equal_nan=True)


EXCHANGED = "keras.ops.dot_product_attention", "F.scaled_dot_product_attention"


@pytest.mark.parametrize("function", [RUN[name] for name in RUN if "keras.layers" not in name])
def test_exchanged_queries_and_values_are_refused_but_by_the_functions_of_pytorch_and_keras(
    function, rng
):
    """If lengths differ, most functions refuse queries and values that are exchanged.

    Covers: PyTorch's function and Keras' with PyTorch take them, on a CPU with four axes, without
    a mask and dropout, and give as many words as there are keys: 5, for 3 queries.
    """
    queries, values = drawn(rng, n_q=3, n_k=5)[:2]
    if function["name"] not in EXCHANGED:
        assert refused(function, values, values, queries)
        return
    assert call(function, values, values, queries).shape == (BATCH, H, 5, D_K)
    mask = {function["mask"]: np.ones((3, 5), bool)}
    assert refused(function, values, values, queries, **mask)
    if function["of"] == "PyTorch":
        assert refused(function, values[0], values[0], queries[0])
        assert refused(function, values, values, queries, dropout_p=0.1)


def test_keras_layer_takes_exchanged_queries_and_values_in_a_later_call(keras, rng):
    """Without a key, or after a right call, Keras' layer takes exchanged queries and values.

    Covers: PyTorch on a CPU, three axes, values as wide as keys, no mask; with a key no dropout and
    no scores.
    """
    queries, values = (each[:, 0].astype("float32") for each in drawn(rng, n_q=3, n_k=5)[:2])
    five, three = {"query": values}, {"value": queries}
    mask, scores = {"attention_mask": np.ones((1, 3, 5), bool)}, {"return_attention_scores": True}

    def made(**options):
        layer = keras.layers.MultiHeadAttention(H, D_K, **options)
        layer(**five, value=values, key=values)
        return layer

    def refuses(layer, match, key=values, **options):
        error = RuntimeError if key is not None else ValueError
        with pytest.raises(error, match=match):
            layer(**five, **three, key=key, **options)

    layer = keras.layers.MultiHeadAttention(H, D_K)
    for _ in range(2):  # a call that fails builds nothing
        with pytest.raises(ValueError, match="All dimensions of `value` and `key`"):
            layer(**five, **three, key=values)
    layer = keras.layers.MultiHeadAttention(H, D_K, dropout=0.1)
    assert layer(**five, **three, **scores)[0].shape == (BATCH, 5, D_K)
    refuses(layer, "must be broadcastable", key=None, **mask)
    layer = made()
    assert layer(**five, **three, key=values).shape == (BATCH, 5, D_K)
    refuses(layer, "does not broadcast", **scores)
    refuses(layer, "must match", **mask)
    refuses(made(dropout=0.1), "does not broadcast")
    refuses(made(value_dim=D_K + 1), "Expected size for first two dimensions")
    values, queries = values[:, None], queries[:, None]  # four axes
    five, three = {"query": values}, {"value": queries}
    refuses(made(attention_axes=2), "does not broadcast", key=values)


@pytest.mark.parametrize("n_v", [6, 3, 2, 1])
def test_torch_fused_function_takes_more_values_than_keys_or_fewer_and_its_plain_one_does_not(
    torch, rng, n_v
):
    """PyTorch's fused function on a CPU takes more values than keys, or leaves out keys without.

    Covers: 5 keys, and 6, 3, 2 or 1 values. Its plain form raises an error, as it does for a mask,
    dropout, three axes, or values of another width than keys.
    """
    Q, K, V = map(torch.from_numpy, (*drawn(rng, n_k=5)[:2], drawn(rng, n_k=n_v)[2]))
    attend = torch.nn.functional.scaled_dot_product_attention
    assert attend(Q, K, V).shape == (BATCH, H, N_Q, D_K)
    if n_v < 5:
        assert torch.allclose(attend(Q, K, V), attend(Q, K[:, :, :n_v], V))
    with pytest.raises(RuntimeError, match="must match the existing size"):
        attend(Q, K, V, attn_mask=torch.ones(N_Q, 5, dtype=torch.bool))
    plain = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
    refusing = pytest.raises(RuntimeError, match="Expected size for first two dimensions")
    with plain, refusing:
        attend(Q, K, V)
    for arrays, dropout in (((Q[0], K[0], V[0]), 0), ((Q, K, V[..., 1:]), 0), ((Q, K, V), 0.1)):
        with refusing:
            attend(*arrays, dropout_p=dropout)


def test_torch_takes_axes_that_are_exchanged_and_then_attends_across_heads(rng):
    """PyTorch's `scaled_dot_product_attention` attends across heads if its axes are exchanged."""
    exchanged = np.swapaxes(drawn(rng, n_k=N_Q), 2, 3).copy()
    changed = exchanged.copy()
    changed[:, :, -1] += 1  # of the last word
    assert sdpa(*exchanged).shape == (BATCH, N_Q, H, D_K)
    assert np.array_equal(sdpa(*exchanged)[:, 0], sdpa(*changed)[:, 0])
    right = sdpa(*changed.swapaxes(2, 3)).swapaxes(1, 2)
    assert not near(right, sdpa(*changed))


# PyTorch: masks that fit and stand for something else


def test_torch_refuses_a_mask_of_integers_and_adds_one_of_floats(torch, rng):
    """PyTorch's `scaled_dot_product_attention` refuses a mask of integers, adds one of floats."""
    Q, K, V = drawn(rng)
    mask = a_mask(rng)
    with pytest.raises(RuntimeError, match="Expected attn_mask dtype to be bool or float"):
        sdpa(Q, K, V, attn_mask=mask.astype(int))
    added = sdpa(Q, K, V, attn_mask=mask.astype(float))
    assert near(added, qkv.softmax(scores(Q, K) + mask) @ V)


def test_torch_hides_by_a_mask_of_ones_and_zeros_once_it_is_boolean(rng):
    """PyTorch's `scaled_dot_product_attention` hides where a mask is 0.0 if given `mask.bool()`."""
    (Q, K, V), floats = drawn(rng), a_mask(rng).astype(float)
    hidden = qkv.attention(Q, K, V, mask=floats == 1)
    assert near(sdpa(Q, K, V, attn_mask=floats.astype(bool)), hidden)
    assert near(sdpa(Q, K, V, attn_mask=floats), qkv.softmax(scores(Q, K) + floats) @ V)


def test_torch_with_scale_1_takes_queries_that_were_divided(torch, rng):
    """PyTorch's `scaled_dot_product_attention` does not divide again if given `scale=1`."""
    Q, K, V = drawn(rng)
    divided, right = Q / np.sqrt(D_K), qkv.attention(Q, K, V)
    assert near(sdpa(divided, K, V, scale=1), right)
    assert not near(sdpa(divided, K, V), right)


def test_torch_takes_a_padding_mask_for_queries_and_keys_if_it_fits(rng):
    """PyTorch takes a padding mask (batch, keys) for one of queries and keys if it fits."""
    real = np.arange(4) < np.array([4, 3, 2, 1])[:, None]
    Q, K, V = rng.normal(size=(3, 4, 1, 4, 5))
    as_queries = qkv.attention(Q, K, V, mask=real[None, None])
    right = qkv.attention(Q, K, V, mask=real[:, None, None])
    assert not near(as_queries, right)
    assert near(sdpa(Q, K, V, attn_mask=real[:, None, None]), right)
    for name in ("nn.MultiheadAttention", "F.scaled_dot_product_attention"):
        assert near(call(RUN[name], Q, K, V, **option_of(RUN[name], real)), as_queries)
        assert refused(RUN[name], Q, K, V, attn_mask=real[:3])


def test_torch_takes_a_mask_of_sentences_for_one_of_heads_if_it_fits(torch, rng):
    """PyTorch's `scaled_dot_product_attention` takes (N, L, S) for (heads, L, S) if it fits."""
    Q, K, V = rng.normal(size=(3, 2, 2, 4, 5))  # 2 sentences, 2 heads
    of_sentences = np.stack([a_mask(rng, 4, 4), a_mask(rng, 4, 4)])
    as_heads = qkv.attention(Q, K, V, mask=np.broadcast_to(of_sentences, (2, 2, 4, 4)))
    assert near(sdpa(Q, K, V, attn_mask=of_sentences), as_heads)
    assert not near(as_heads, qkv.attention(Q, K, V, mask=of_sentences[:, None]))
    assert refused(
        RUN["F.scaled_dot_product_attention"], Q, K, V, attn_mask=np.ones((3, 4, 4), bool)
    )


def test_torch_names_the_sentences_of_a_mask_with_three_axes_as_if_they_were_heads(torch, rng):
    """PyTorch says of a mask (batch, queries, keys) that its batch does not match the heads.

    Covers: 8 sentences, 32 heads, masks of booleans and of floats.
    """
    Q, K, V = rng.normal(size=(3, 8, 32, N_Q, D_K))
    of_sentences = np.stack([a_mask(rng, N_Q, N_Q) for _ in range(8)])
    said = r"tensor a \(32\) must match the size of tensor b \(8\) at non-singleton dimension 1"
    for mask in (of_sentences, np.where(of_sentences, 0.0, -np.inf)):
        for options in ({}, {"enable_gqa": True}):
            with pytest.raises(RuntimeError, match=said):
                sdpa(Q, K, V, attn_mask=mask, **options)
        right = qkv.attention(Q, K, V, mask=of_sentences[:, None])
        assert near(sdpa(Q, K, V, attn_mask=mask[:, None]), right)


def test_torch_repeat_gives_a_head_the_mask_of_another_sentence(torch, rng):
    """PyTorch's `repeat` gives heads other sentences' masks, and `repeat_interleave` does not."""
    (Q, K, V), allowed = drawn(rng), np.stack([a_mask(rng) for _ in range(BATCH)])
    hidden, layer = torch.from_numpy(~allowed), RUN["nn.MultiheadAttention"]
    expected = qkv.attention(Q, K, V, mask=allowed[:, None])
    for repeated, right in (
        (hidden.repeat_interleave(H, dim=0), True),
        (hidden.repeat(H, 1, 1), False),
    ):
        assert repeated.shape == (BATCH * H, N_Q, N_K)
        assert near(call(layer, Q, K, V, attn_mask=repeated.numpy()), expected) == right


def test_torch_causal_query_beside_a_cache_gets_the_first_value(rng):
    """`is_causal=True` of PyTorch's function gives one query the first value; a mask helps."""
    Q, K, V = drawn(rng, n_q=9, n_k=9)
    whole, step = sdpa(Q, K, V, is_causal=True), Q[:, :, -3:]
    assert near(sdpa(Q[:, :, -1:], K, V, is_causal=True), V[:, :, :1])
    assert near(sdpa(Q[:, :, -1:], K, V), whole[:, :, -1:])
    assert near(sdpa(step, K, V, attn_mask=np.tri(3, 9, 9 - 3, dtype=bool)), whole[:, :, -3:])
    assert not near(sdpa(step, K, V, is_causal=True), whole[:, :, -3:])


def test_torch_says_which_heads_do_not_match_and_broadcasts_one_head(rng):
    """PyTorch names the numbers of heads that do not match, and one head of keys serves all."""
    Q, K, V = drawn(rng, h=32, h_kv=8)
    said = r"size of tensor a \(32\) must match the size of tensor b \(8\) at non-singleton dim\w+ "
    for arrays, axis in ((Q, K, V), "1"), ((Q[0], K[0], V[0]), "0"):
        with pytest.raises(RuntimeError, match=said + axis):
            sdpa(*arrays)
    grouped = sdpa(Q, K, V, enable_gqa=True)
    assert near(sdpa(Q[0], K[0], V[0], enable_gqa=True), grouped[0])
    assert near(sdpa(Q, K.repeat(4, axis=1), V.repeat(4, axis=1)), grouped)
    assert not near(sdpa(Q, np.tile(K, (1, 4, 1, 1)), np.tile(V, (1, 4, 1, 1))), grouped)
    one = K[:, :1], V[:, :1]
    assert near(sdpa(Q, *one), qkv.attention(Q, *one))
    assert sdpa(Q[:, :1], K, V).shape == (BATCH, 8, N_Q, D_K)


@each_function
def test_a_mask_of_an_attention_function_has_the_axes_of_the_table(function, rng):
    """A mask of an attention function has the axes that the table gives it."""
    (Q, K, V), mask = drawn(rng), a_mask(rng)
    taken = {
        "batch, h, n_q, n_k": [(), (H,), (BATCH, 1)],
        "n_q, n_k, or batch·h, n_q, n_k": [(), (BATCH * H,)],
        "batch, n_q, n_k": [(BATCH,)],
    }[function["mask_axes"]]
    for axes in (), (H,), (BATCH, 1), (BATCH * H,), (BATCH,):
        each = option_of(function, np.broadcast_to(mask, (*axes, N_Q, N_K)))
        if axes in taken:
            assert near(call(function, Q, K, V, **each), qkv.attention(Q, K, V, mask=mask))
        elif len(axes) == 1:
            assert refused(function, Q, K, V, **each)
    if function["mask_axes"] == "batch, h, n_q, n_k":
        of_keys = np.arange(N_K) < 3
        for one_long in of_keys[None], np.stack([of_keys] * BATCH)[:, None, None]:
            hidden = call(function, Q, K, V, **option_of(function, one_long))
            assert near(hidden, qkv.attention(Q, K[:, :, :3], V[:, :, :3]))
