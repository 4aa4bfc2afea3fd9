"""Layers that take a mask, each called with its own form of a boolean one.

Each function builds a layer, as this package reads its weights, and a function that calls the
library's own with a mask that is converted to the library's form.
"""

import numpy as np
import pytest
from real_layers import CASES, randomised

import qkv
from qkv.layouts import convert_mask
from qkv.masks import causal, padding

E, H, BATCH, N = 6, 2, 3, 5
LENGTHS = np.array([5, 3, 1])
PADDING, CAUSAL = padding(LENGTHS, N), causal(N)
MASKS = (PADDING, CAUSAL, PADDING & CAUSAL)


def tensors(*arrays):
    torch = pytest.importorskip("torch")
    return [torch.from_numpy(array) for array in arrays]


def check(mh, call, masks=MASKS):
    """The library's layer computes with its form of a mask what `mh` does with the boolean one."""
    X = np.random.default_rng(0).normal(size=(BATCH, N, E))
    for mask in masks:
        expected = mh(X, mask=mask)
        np.testing.assert_allclose(call(X, mask), expected, rtol=0, atol=1e-12)
        assert not np.allclose(mh(X), expected, atol=1e-3)


def multihead_attention(torch, argument, dtype=None):
    """PyTorch's layer, with the mask as one of its arguments."""
    module = torch.nn.MultiheadAttention(E, H, batch_first=True)
    module = randomised(module, np.random.default_rng(1))

    def call(X, mask):
        X, converted = tensors(X, convert_mask(mask, argument, h=H, n_q=N, dtype=dtype))
        with torch.no_grad():
            return module(X, X, X, **{argument: converted}, need_weights=False)[0].numpy()

    return qkv.load(module.state_dict(), "pytorch", h=H), call


def scaled_dot_product_attention(torch, dtype=None):
    """PyTorch's function, between the projections of a layer."""
    mh = qkv.MultiHead.random(E, H)

    def call(X, mask):
        *projected, converted = tensors(*mh.project(X), convert_mask(mask, "sdpa", dtype=dtype))
        attend = torch.nn.functional.scaled_dot_product_attention
        return (attend(*projected, attn_mask=converted).numpy() @ mh.W_O).sum(axis=1)

    return mh, call


def keras_layer(keras):
    """Keras' layer; without the scores it would compute in float32."""
    layer = keras.layers.MultiHeadAttention(H, 3, dtype="float64")
    layer.build((None, None, E), (None, None, E))
    rng = np.random.default_rng(1)
    layer.set_weights([rng.normal(scale=0.3, size=weight.shape) for weight in layer.weights])

    def call(X, mask):
        converted = convert_mask(mask, "keras")
        output, _ = layer(X, X, attention_mask=converted, return_attention_scores=True)
        return keras.ops.convert_to_numpy(output)

    return qkv.load(layer.get_weights(), "keras", h=H), call


def case_of(name, form):
    """A layer of `real_layers` that hands its mask on as it comes."""
    case = CASES[name]
    layer = case.layer()
    return case.load(layer.weights), lambda X, mask: layer.call(
        X, None, None, convert_mask(mask, form)
    )


def bert(library):
    """BERT's layer in Transformers, in eager mode: it adds what it is given."""
    config = library.BertConfig(hidden_size=E, num_attention_heads=H, attn_implementation="eager")
    module = randomised(library.BertAttention(config), np.random.default_rng(1))
    torch = pytest.importorskip("torch")

    def call(X, mask):
        X, added = tensors(X, convert_mask(mask, "transformers", dtype=X.dtype))
        with torch.no_grad():
            return module.output.dense(module.self(X, attention_mask=added)[0]).numpy()

    return qkv.load(module.state_dict(), "bert", h=H), call
