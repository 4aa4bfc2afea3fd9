"""Whole models, as their own libraries make and save them, for `qkv.find_layers`.

The models are small and random, and no two of their sizes are equal where that is possible.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from real_layers import BATCH, N_K, N_Q, added, randomised, unrotated

import qkv


@dataclass(frozen=True)
class Model:
    """A model, its configuration if it has one, and a line of its table for each kind of layer."""

    module: Any
    lines: tuple[str, ...]
    call: Callable[..., Any]
    config: Mapping | None = None
    heads: Mapping[str, int] | None = None

    @property
    def said(self) -> dict:
        """What has to be said for the heads to be known."""
        return {"config": self.config} if self.config else dict(self.heads)


def llama(library: ModuleType) -> Model:
    config = library.LlamaConfig(
        hidden_size=18,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=4,
        num_hidden_layers=3,
        intermediate_size=5,
        vocab_size=11,
        attn_implementation="sdpa",
    )
    line = "model.layers.0-2.self_attn.  llama   none    h=6, h_kv=2, d_model=18, d_k=4"
    return Model(library.LlamaForCausalLM(config), (line,), unrotated, config.to_dict())


def gpt_neox(library: ModuleType) -> Model:
    config = library.GPTNeoXConfig(
        hidden_size=15,
        num_attention_heads=3,
        num_hidden_layers=2,
        intermediate_size=7,
        vocab_size=11,
        rotary_pct=0.5,
        attn_implementation="sdpa",
    )
    line = "gpt_neox.layers.0-1.attention.  gpt-neox  b_Q b_K b_V b_O  h=3, d_model=15, d_k=5"
    return Model(library.GPTNeoXForCausalLM(config), (line,), unrotated, config.to_dict())


def vit_pytorch(library: ModuleType) -> Model:
    module = library.ViT(
        image_size=4, patch_size=2, num_classes=3, dim=14, depth=3, heads=2, mlp_dim=11, dim_head=5
    )
    line = "transformer.layers.0-2.0.  vit-pytorch  b_O     h=2, d_model=14, d_k=5"
    return Model(module, (line,), lambda layer, X_Q, *_: layer(X_Q), heads={"h": 2})


def vit(library: ModuleType) -> Model:
    config = library.ViTConfig(
        hidden_size=14,
        num_attention_heads=2,
        num_hidden_layers=3,
        intermediate_size=5,
        image_size=4,
        patch_size=2,
        attn_implementation="sdpa",
    )
    line = "layers.0-2.attention.  llama   b_Q b_K b_V b_O  h=2, d_model=14, d_k=7"
    return Model(
        library.ViTModel(config), (line,), lambda layer, X_Q, *_: layer(X_Q)[0], config.to_dict()
    )


def whisper(library: ModuleType) -> Model:
    config = library.WhisperConfig(
        d_model=12,
        encoder_layers=2,
        encoder_attention_heads=2,
        encoder_ffn_dim=7,
        decoder_layers=3,
        decoder_attention_heads=3,
        decoder_ffn_dim=5,
        vocab_size=11,
        num_mel_bins=5,
        max_source_positions=7,
        max_target_positions=5,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        attn_implementation="sdpa",
    )
    lines = (
        "model.encoder.layers.0-1.self_attn.     whisper  b_Q b_V b_O  h=2, d_model=12, d_k=6",
        "model.decoder.layers.0-2.self_attn.     whisper  b_Q b_V b_O  h=3, d_model=12, d_k=4",
        "model.decoder.layers.0-2.encoder_attn.  whisper  b_Q b_V b_O  h=3, d_model=12, d_k=4",
    )

    def call(layer, X_Q, X_K, *_):
        return layer(X_Q, key_value_states=X_K, attention_mask=added(X_Q, X_K, None))[0]

    module = library.WhisperForConditionalGeneration(config)
    return Model(module, lines, call, config.to_dict())


MODELS = {each.__name__: each for each in (llama, gpt_neox, vit_pytorch, vit, whisper)}


@cache
def built(name: str, library: ModuleType) -> Model:
    """One of these models, with random weights."""
    model = MODELS[name](library)
    return replace(model, module=randomised(model.module, np.random.default_rng(0)))


def check(model: Model, weights: Mapping | Path) -> None:
    """The model's weights get its table, and each loaded layer computes what the model's does."""
    found = qkv.find_layers(weights, **model.said)
    _, *lines = str(found).splitlines()
    assert {*lines[: len(model.lines)]} == {*model.lines}  # a file has another order of names
    assert lines[len(model.lines)] == f"{len(found)} attention layers."
    for layer in found:
        computed, loaded = outputs(model, layer)
        np.testing.assert_allclose(loaded, computed, rtol=0, atol=1e-12, err_msg=layer.prefix)


def outputs(model: Model, found: qkv.layouts.FoundLayer) -> tuple[np.ndarray, np.ndarray]:
    """What the real layer computes, and what the loaded one does; rotations are left out."""
    torch = pytest.importorskip("torch")
    layer = model.module.get_submodule(found.prefix.rstrip("."))
    rng = np.random.default_rng(1)
    X_Q, X_K = (
        torch.from_numpy(rng.normal(size=(BATCH, n, found.sizes["d_model"]))) for n in (N_Q, N_K)
    )
    X_K = X_K if "encoder_attn" in found.prefix else None
    mh = replace(found.load(), between=())
    with torch.no_grad():
        computed = model.call(layer, X_Q, X_K, None, None)
        if hasattr(layer, "norm"):  # vit-pytorch's: MultiHead's source comes after it
            X_Q = layer.norm(X_Q)
    return computed.numpy(), mh(X_Q.numpy(), None if X_K is None else X_K.numpy())
