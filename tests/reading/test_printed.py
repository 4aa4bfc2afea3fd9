"""Messages of errors, as the libraries print them today: each gets a card."""

import os

import numpy as np
import pytest

from qkv.reading import read


def shaped(ones):
    """Q, K and V of one head, and sources: 5 queries and 7 keys of 64 numbers, 512 in a source."""
    return ones((2, 5, 64)), ones((2, 7, 64)), ones((2, 5, 512)), ones((2, 7, 512))


def torch():
    library = pytest.importorskip("torch")
    Q, K, X_Q, X_K = shaped(library.ones)
    layer = library.nn.MultiheadAttention(512, 8, batch_first=True)
    scaled = library.nn.functional.scaled_dot_product_attention
    yield lambda: Q @ K
    yield lambda: Q[0] @ K[0]
    yield lambda: Q @ K[:1].mT.expand(3, 64, 7)
    yield lambda: library.einsum("bqd,bkd->bqk", Q, K[..., :32])
    yield lambda: library.einsum("bhqd,bhkd->bhqk", Q, K)
    yield lambda: Q.transpose(1, 2).view(2, 320)
    yield lambda: X_Q.view(2, 5, 7, 64)
    yield lambda: layer(X_Q, X_K, X_Q)
    yield lambda: layer(Q, Q, Q)
    yield lambda: layer(X_Q[None], X_K, X_K)
    yield lambda: layer(X_Q[0], X_K, X_K)
    yield lambda: layer(X_Q, X_K, X_K, attn_mask=library.ones(7, 5))
    yield lambda: layer(X_Q, X_K, X_K, key_padding_mask=library.ones(7, 2) > 0)
    yield lambda: library.nn.MultiheadAttention(512, 7)
    yield lambda: scaled(Q, K[..., :32], K)
    yield lambda: scaled(Q, K, K, attn_mask=library.ones(5, 7, dtype=library.int64))
    yield lambda: scaled(Q.expand(1, 2, 5, 64), *[K.repeat(1, 3, 1, 1)[:, :3]] * 2)
    wide, narrow = (library.nn.ModuleDict({"k_proj": library.nn.Linear(8, n)}) for n in (8, 2))
    yield lambda: wide.load_state_dict(narrow.state_dict())
    yield lambda: layer.load_state_dict(narrow.state_dict())


def numpy():
    Q, K, X_Q, _ = shaped(np.ones)
    yield lambda: Q @ K
    yield lambda: np.dot(Q[0], K[0])
    yield lambda: np.ones((3, 5, 64)) @ K.mT
    yield lambda: np.einsum("bqd,bkd->bqk", Q, K[..., :32])
    yield lambda: np.ones((2, 8, 5, 7)) + np.ones((2, 5, 7))
    yield lambda: X_Q.reshape(2, 5, 7, 64)


def jax():
    numbers = pytest.importorskip("jax.numpy")
    Q, K, X_Q, _ = shaped(numbers.ones)
    scaled = pytest.importorskip("jax").nn.dot_product_attention
    yield lambda: Q @ K
    yield lambda: numbers.ones((3, 5, 64)) @ K.mT
    yield lambda: numbers.einsum("bqd,bkd->bqk", Q, K[..., :32])
    yield lambda: numbers.ones((2, 8, 5, 7)) + numbers.ones((2, 5, 7))
    yield lambda: X_Q.reshape(2, 5, 7, 64)
    yield lambda: scaled(Q[:, :, None], K[:, :, None], K[:, :6, None])
    yield lambda: scaled(numbers.ones((2, 5, 8, 64)), *[numbers.ones((2, 7, 3, 64))] * 2)


def flax():
    linen = pytest.importorskip("flax.linen")
    random, ones = pytest.importorskip("jax").random.key(0), pytest.importorskip("jax.numpy").ones
    Q, K, X_Q, X_K = shaped(ones)
    layer = linen.MultiHeadDotProductAttention(num_heads=8)
    yield lambda: linen.MultiHeadDotProductAttention(num_heads=7).init(random, X_Q)
    yield lambda: layer.init(random, X_Q, X_K, X_Q)
    yield lambda: layer.init(random, X_Q, X_K[:1])
    yield lambda: layer.apply(layer.init(random, X_Q), X_Q[..., :256])
    yield lambda: linen.dot_product_attention(Q[:, :, None], *[K[:, :, None, :32]] * 2)


def keras():
    os.environ.setdefault("KERAS_BACKEND", "torch")
    layers = pytest.importorskip("keras").layers
    Q, K, X_Q, X_K = shaped(np.ones)
    yield lambda: layers.MultiHeadAttention(8, 64)(X_Q, X_K, X_Q)
    yield lambda: layers.MultiHeadAttention(8, 64)(X_Q)
    yield lambda: layers.GroupQueryAttention(64, 8, 3)(X_Q, X_K)
    yield lambda: layers.Attention()(Q)
    yield lambda: layers.Attention()([Q, K[..., :32]])


@pytest.mark.parametrize("library", [torch, numpy, jax, flax, keras])
def test_what_a_library_prints_is_read(library):
    for number, call in enumerate(library()):
        with pytest.raises(Exception, match=r"\S") as raised:  # each library has its own kinds
            call()
        found = read(f"{raised.typename}: {raised.value}")
        assert [each.kind for each in found] == ["error"], (number, raised.value)
