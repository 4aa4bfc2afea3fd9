"""The layers that take a mask, each called with its own form of it.

Each entry of `LAYERS` builds a layer, as this package reads its weights, and a function that calls
the library's own with a boolean mask converted to the library's form.
"""

from functools import cache

import numpy as np
import pytest
from real_layers import CASES, keras_library, randomised, transformers

import qkv
from qkv.masks import causal, convert, padding

E, H, BATCH, N = 6, 2, 3, 5
LENGTHS = np.array([5, 3, 1])
MASKS = {
    "padding": padding(LENGTHS, N),
    "causal": causal(N),
    "both": padding(LENGTHS, N) & causal(N),
}


def tensors(*arrays):
    torch = pytest.importorskip("torch")
    return [torch.from_numpy(array) for array in arrays]


def torch_layer(argument, dtype=None):
    """nn.MultiheadAttention with a mask as one of its arguments, and its weights as loaded."""
    torch = pytest.importorskip("torch")
    module = torch.nn.MultiheadAttention(E, H, batch_first=True)
    module = randomised(module, np.random.default_rng(1))

    def call(X, mask):
        if mask.shape[-2] == 1 and argument == "attn_mask":
            mask = np.broadcast_to(mask, (BATCH, 1, N, N))  # it repeats no axis of queries
        X, converted = tensors(X, convert(mask, argument, h=H, dtype=dtype))
        with torch.no_grad():
            return module(X, X, X, **{argument: converted}, need_weights=False)[0].numpy()

    return qkv.load(module.state_dict(), "pytorch", h=H), call


def torch_function(dtype=None):
    """F.scaled_dot_product_attention between the projections of a layer."""
    torch = pytest.importorskip("torch")
    mh = qkv.MultiHead.random(E, H)

    def call(X, mask):
        arrays = tensors(*mh.project(X), convert(mask, "sdpa", dtype=dtype))
        *sources, converted = arrays
        heads = torch.nn.functional.scaled_dot_product_attention(*sources, attn_mask=converted)
        return (heads.numpy() @ mh.W_O).sum(axis=1)

    return mh, call


def keras_layer():
    keras = keras_library()
    layer = keras.layers.MultiHeadAttention(H, 3, dtype="float64")
    layer.build((None, None, E), (None, None, E))
    rng = np.random.default_rng(1)
    layer.set_weights([rng.normal(scale=0.3, size=weight.shape) for weight in layer.weights])

    def call(X, mask):
        output, _ = layer(
            X,
            X,
            attention_mask=convert(mask, "keras"),
            return_attention_scores=True,  # without them it computes in float32
        )
        return keras.ops.convert_to_numpy(output)

    return qkv.load(layer.get_weights(), "keras", h=H), call


def case_of(name, form, widths=E):
    """A layer of `real_layers`, whose call takes a mask as its library does."""
    case = CASES[name]
    layer = case.layer()
    return case.load(layer.weights), lambda X, mask: layer.call(X, None, None, convert(mask, form))


def bert():
    """BERT's layer in Transformers, in eager mode: it adds what it is given."""
    torch = pytest.importorskip("torch")
    library = transformers("bert")
    config = library.BertConfig(hidden_size=E, num_attention_heads=H, attn_implementation="eager")
    module = randomised(library.BertAttention(config), np.random.default_rng(1))
    weights = {n: w for n, w in module.state_dict().items() if "LayerNorm" not in n}

    def call(X, mask):
        X, added = tensors(X, convert(mask, "transformers", dtype=X.dtype))
        with torch.no_grad():
            heads, _ = module.self(X, attention_mask=added)
            return module.output.dense(heads).numpy()

    return qkv.load(weights, "bert", h=H), call


LAYERS = {
    "attn_mask": lambda: torch_layer("attn_mask"),
    "attn_mask, added": lambda: torch_layer("attn_mask", np.float64),
    "key_padding_mask": lambda: torch_layer("key_padding_mask"),
    "key_padding_mask, added": lambda: torch_layer("key_padding_mask", np.float64),
    "sdpa": torch_function,
    "sdpa, added": lambda: torch_function(np.float64),
    "keras": keras_layer,
    "flax": lambda: case_of("flax-linen", "flax"),
    "flax, nnx": lambda: case_of("flax-nnx", "flax"),
    "haiku": lambda: case_of("haiku", "haiku"),
    "transformers": bert,
}


@cache
def built(name):
    """A layer and its call, made once."""
    return LAYERS[name]()
