"""Layers that take a mask, each called with its own form of a boolean one."""

import numpy as np
from arrays import SCORES, E, H, called, keras_layer, loaded, of_keras, sdpa, torch_layer
from real_layers import CASES, keras_library, randomised, transformers

from qkv.layouts import convert_mask
from qkv.masks import causal, padding

BATCH, N = 3, 5
PADDING, CAUSAL = padding(np.array([5, 3, 1]), N), causal(N)


def layer_with(form, dtype=None):
    """A layer as this package reads its weights, and how its library is called.

    Args:
        form: What the library calls its mask: a form of `convert_mask`, or a case's name.
        dtype: That of a mask that is added.
    """
    rng = np.random.default_rng(1)

    def converted(mask, form=form):
        return convert_mask(mask, form, h=H, n_q=N, dtype=dtype)

    if form == "keras":
        layer = keras_layer(keras_library(), rng)
        return loaded(layer, "keras"), lambda X, mask: of_keras(
            layer, X, X, attention_mask=converted(mask), **SCORES
        )[0]
    if form in CASES:  # they hand the mask on as it comes
        layer, case = CASES[form].layer(), CASES[form]
        return case.load(layer.weights), lambda X, mask: layer.call(
            X, None, None, converted(mask, case.layout)
        )
    if form == "transformers":  # BERT's layer in eager mode adds what it is given
        bert = transformers("bert")
        sizes = {"hidden_size": E, "num_attention_heads": H, "attn_implementation": "eager"}
        layer = randomised(bert.BertAttention(bert.BertConfig(**sizes)), rng)
        return loaded(layer, "bert"), lambda X, mask: called(
            layer.output.dense, called(layer.self, X, attention_mask=converted(mask))[0]
        )
    layer = torch_layer(rng)
    mh = loaded(layer)
    if form == "sdpa":
        return mh, lambda X, mask: mh.join(sdpa(*mh.project(X), attn_mask=converted(mask)))
    return mh, lambda X, mask: called(
        layer, X, X, X, need_weights=False, **{form: converted(mask)}
    )[0]


def check(mh, call, masks=(PADDING, CAUSAL, PADDING & CAUSAL)):
    """The library's layer computes with its form of a mask what `mh` does with the boolean one."""
    X = np.random.default_rng(0).normal(size=(BATCH, N, E))
    for mask in masks:
        expected = mh(X, mask=mask)
        np.testing.assert_allclose(call(X, mask), expected, rtol=0, atol=1e-12)
        assert not np.allclose(mh(X), expected, atol=1e-3)
