"""What the layers of Keras, Flax, Haiku and JAX do."""

import inspect

import numpy as np
import pytest
from arrays import N_K, N_Q, SCORES, E, H, called, close, keras_layer, loaded, of_keras, size
from numpy.testing import assert_array_equal

import qkv


def test_keras_with_a_gate_stores_a_fifth_projection(keras, rng):
    """Keras with `use_gate=True` stores a fifth matrix, the gate, with a bias."""
    layer = keras_layer(keras, rng, key_dim=4, use_gate=True)
    shapes = {weight.path.partition("/")[2]: weight.shape for weight in layer.weights}
    assert (shapes["gate/kernel"], shapes["gate/bias"]) == ((E, H, 4), (H, 4))


def test_flax_nnx_computes_head_dim_and_takes_no_argument_for_it():
    """Flax nnx computes head dim and takes no argument for it."""
    nnx = pytest.importorskip("flax.nnx")
    layer = nnx.MultiHeadAttention(H, 11, qkv_features=E, decode=False, rngs=nnx.Rngs(0))
    assert layer.head_dim == E // H
    assert "head_dim" not in inspect.signature(nnx.MultiHeadAttention).parameters


def test_flax_nnx_needs_decode_when_a_layer_is_made_or_called(rng):
    """A layer of Flax nnx needs `decode`, when it is made or when it is called."""
    nnx = pytest.importorskip("flax.nnx")
    layer = nnx.MultiHeadAttention(H, E, rngs=nnx.Rngs(0))
    x = rng.normal(size=(1, N_Q, E))
    with pytest.raises(ValueError, match="decode"):
        layer(x, x, x)
    assert layer(x, x, x, decode=False).shape == x.shape
    made = nnx.MultiHeadAttention(H, E, decode=False, rngs=nnx.Rngs(0))
    assert made(x, x, x).shape == x.shape


def test_torch_weights_move_to_keras_in_two_lines(keras, mha, rng, x, y):
    """PyTorch weights move to Keras in two lines."""
    layer = keras_layer(keras, rng)
    layer.set_weights(list(qkv.dump(loaded(mha), "keras").values()))
    output, _ = of_keras(layer, x, y, **SCORES)
    assert close(output, called(mha, x, y, y)[0])


def test_keras_takes_query_value_key_in_this_order(keras, rng, x):
    """Keras takes query value key in this order."""
    layer, (keys, values) = keras_layer(keras, rng), rng.normal(size=(2, 1, N_K, E))
    expected = loaded(layer, "keras")(x, keys, values)
    assert close(of_keras(layer, x, values, keys, **SCORES)[0], expected)
    assert not close(of_keras(layer, x, keys, values, **SCORES)[0], expected)
    assert list(inspect.signature(layer.call).parameters)[:3] == ["query", "value", "key"]


def test_keras_ignores_a_mask_in_fourth_place(keras, rng, x):
    """Keras ignores a mask in fourth place."""
    layer, mask = keras_layer(keras, rng), np.tri(N_Q, dtype=bool)[None]
    unmasked = of_keras(layer, x, x, x)
    assert_array_equal(of_keras(layer, x, x, x, mask), unmasked)
    assert not close(of_keras(layer, x, x, x, attention_mask=mask), unmasked, 1e-3)


def test_keras_takes_masks_of_two_three_and_four_axes(keras, rng, x):
    """Keras takes a mask (queries, keys), with a batch before it, or with batch and heads."""
    layer, mask = keras_layer(keras, rng), np.tri(N_Q, dtype=bool)
    expected = of_keras(layer, x, x, x, attention_mask=mask[None])
    for axes in (), (1, 1), (1, H):
        whole = np.broadcast_to(mask, (*axes, N_Q, N_Q)).copy()
        assert close(of_keras(layer, x, x, x, attention_mask=whole), expected, 1e-5)
        asked, _ = of_keras(layer, x, x, x, attention_mask=whole, **SCORES)
        assert close(asked, expected, 1e-5)
    with pytest.raises((RuntimeError, ValueError)):
        layer(x, x, x, attention_mask=np.ones((N_Q - 2, N_Q), dtype=bool))


def test_keras_key_dim_is_a_width_after_the_map(keras, rng):
    """Keras `key_dim` is a width after the map."""
    mh = loaded(keras_layer(keras, rng, key_dim=11), "keras")
    assert mh.W_K.shape == (H, E, 11)
    assert mh.d_k == 11


@pytest.mark.parametrize(("key_dim", "parameters"), [(64, 1_050_624), (512, 8_401_408)])
def test_keras_key_dim_of_d_model_makes_the_layer_h_times_as_large(keras, key_dim, parameters):
    """Keras `key_dim` of d_model makes the layer h times as large."""
    layer = keras.layers.MultiHeadAttention(8, key_dim)
    layer.build((None, None, 512), (None, None, 512))
    mh = loaded(layer, "keras", h=8)
    assert mh.d_k == key_dim
    assert layer.count_params() == size(mh) == parameters
    assert parameters == 4 * 8 * 512 * key_dim + 3 * 8 * key_dim + 512


def test_keras_heads_need_not_divide_d_model(keras, rng):
    """Keras heads need not divide d_model."""
    layer = keras_layer(keras, rng, h=8, source=(None, None, 4), key_dim=4)
    assert loaded(layer, "keras", h=8).W_Q.shape == (8, 4, 4)


def test_keras_computes_in_float32_unless_asked_for_the_scores(keras, rng, x, y):
    """Keras on PyTorch rounds a float64 layer to float32, and not if it is asked for the scores."""
    layer = keras_layer(keras, rng)
    exact, short = loaded(layer, "keras")(x, y), of_keras(layer, x, y)
    assert close(of_keras(layer, x, y, **SCORES)[0], exact)
    assert short.dtype == np.float64
    assert 1e-10 < np.abs(short - exact).max() < 1e-4


def test_flax_nnx_computes_in_float32_unless_weights_are_kept(rng, x):
    """Flax's nnx rounds a float64 layer to float32, and not if it keeps weights or has dropout."""
    jax, nnx = pytest.importorskip("jax"), pytest.importorskip("flax.nnx")
    with jax.enable_x64(True):
        options = {"param_dtype": np.float64, "decode": False, "rngs": nnx.Rngs(0)}
        dropout = {"dropout_rate": 0.1, "deterministic": True}
        exactly = nnx.MultiHeadAttention(H, E, **options, **dropout)
        assert close(np.asarray(exactly(x)), np.asarray(exactly(x, sow_weights=True)))
        layer = nnx.MultiHeadAttention(H, E, **options)
        params = nnx.to_pure_dict(nnx.state(layer, nnx.Param))
        exact = qkv.load(params, "flax", h=H)(x)
        assert close(np.asarray(layer(x, sow_weights=True)), exact)
        assert 1e-10 < np.abs(np.asarray(layer(x)) - exact).max() < 1e-4


def test_keras_keeps_float64_with_dropout_or_over_two_axes(keras, rng, x):
    """Keras on PyTorch keeps float64 with dropout, and with attention over two axes."""
    layer = keras_layer(keras, rng, dropout=0.1)
    assert close(of_keras(layer, x, x), loaded(layer, "keras")(x))
    grid = rng.normal(size=(1, 2, 3, E))
    for axes, tokens in ((1, 2), grid.reshape(1, 6, E)), (2, grid[0]):
        layer = keras_layer(keras, rng, source=grid.shape, attention_axes=axes)
        expected = loaded(layer, "keras")(tokens).reshape(grid.shape)
        assert close(of_keras(layer, grid, grid), expected)


def test_attention_without_weights_is_a_layer_whose_maps_are_identities(keras, rng, x):
    """Attention without weights is a layer whose maps are identities."""
    layer = keras_layer(keras, rng, h=1, key_dim=E, use_bias=False)
    layer.set_weights([np.eye(E).reshape(weight.shape) for weight in layer.weights])
    output, _ = of_keras(layer, x, x, **SCORES)
    assert close(output, qkv.attention(x, x, x))
    assert not close(output, qkv.attention(x, x, x, scale=1.0), 0.01)


def test_keras_additive_attention_has_no_maps(keras, rng):
    """Keras' `AdditiveAttention` has no maps: its one weight, by default, is Bahdanau's v."""
    q, k, v = rng.normal(size=(1, 3, E)), rng.normal(size=(1, 5, E)), rng.normal(size=(1, 5, 2))
    additive, dot = keras.layers.AdditiveAttention(), keras.layers.Attention()
    output = of_keras(additive, [q, v, k])
    (scale,) = additive.get_weights()
    assert scale.shape == (E,)
    expected = qkv.softmax(np.tanh(q[:, :, None] + k[:, None]) @ scale) @ v
    assert close(output, expected, 1e-5)  # in float32
    assert close(of_keras(dot, [q, v, k]), qkv.attention(q, k, v, scale=1.0), 1e-5)
    assert dot.get_weights() == []
    wide = np.concatenate([k, k], axis=-1)
    concat = keras.layers.Attention(score_mode="concat")
    for layer in (dot, concat, keras.layers.AdditiveAttention()):
        with pytest.raises(RuntimeError, match="size"):
            layer([q, wide, wide])


def test_keras_w_o_is_stored_in_blocks_of_one_head(keras, rng, x):
    """Keras' output kernel holds one block for each head, and what the blocks give is added."""
    layer = keras_layer(keras, rng, value_dim=5)
    output, A = of_keras(layer, x, x, **SCORES)
    W_V, b_V, W_O, b_O = layer.get_weights()[4:]
    assert W_O.shape == (H, 5, E)
    values = np.einsum("bnd,dhv->bhnv", x, W_V) + b_V[:, None]
    assert close((A @ values @ W_O).sum(axis=1) + b_O, output)


def test_flax_qkv_features_is_the_width_of_all_heads():
    """Flax `qkv_features` is the width of all heads."""
    jax, linen = pytest.importorskip("jax"), pytest.importorskip("flax.linen")

    def stored(width=32, **options):
        layer = linen.MultiHeadDotProductAttention(8, **options)
        source = np.ones((N_Q, width), dtype=np.float32)
        shapes = jax.eval_shape(layer.init, jax.random.key(0), source)["params"]
        return qkv.load(jax.tree.map(lambda each: np.ones(each.shape), shapes), "flax", h=8)

    as_on_the_page = stored(512, qkv_features=64, out_features=20)
    assert (as_on_the_page.W_Q.shape, as_on_the_page.W_O.shape) == ((8, 512, 8), (8, 8, 20))
    assert stored(qkv_features=24).d_k == 24 // 8
    assert stored().d_k == 32 // 8
    with pytest.raises(AssertionError, match="divisible"):
        stored(qkv_features=20)


@pytest.mark.parametrize(
    ("widths", "d_v", "d_out"), [({}, 5, 10), ({"value_size": 7}, 7, 10), ({"model_size": 3}, 5, 3)]
)
def test_haiku_output_is_as_wide_as_all_heads_unless_told_otherwise(widths, d_v, d_out):
    """Haiku's output is as wide as all heads' queries unless told otherwise."""
    jax, hk = pytest.importorskip("jax"), pytest.importorskip("haiku")
    start, x = hk.initializers.Constant(1), np.ones((N_Q, 11), dtype=np.float32)
    layer = hk.transform(lambda x: hk.MultiHeadAttention(H, 5, w_init=start, **widths)(x, x, x))
    params = layer.init(jax.random.key(0), x)
    assert params["multi_head_attention/value"]["w"].shape == (11, H * d_v)
    assert layer.apply(params, None, x).shape == (N_Q, d_out)
