"""Models of Transformers, small and random, of any type.

Sizes are small and windows short, so that each thing between the maps changes some output.
"""

import inspect

import numpy as np
import pytest

SIZES = dict.fromkeys(
    ("hidden_size", "d_model", "n_embd", "dim", "hidden_dim_model"), 32
) | dict.fromkeys(
    ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
     "decoder_attention_heads"), 4
) | dict.fromkeys(
    ("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 4
) | dict.fromkeys(
    ("intermediate_size", "d_ff", "ffn_dim", "hidden_dim", "encoder_ffn_dim", "decoder_ffn_dim",
     "ffn_hidden_size"), 24
) | dict.fromkeys(
    ("num_local_experts", "num_experts", "n_routed_experts", "encoder_layers", "decoder_layers",
     "num_decoder_layers", "num_key_value_heads", "num_kv_heads"), 2
) | {
    "head_dim": 8, "d_kv": 8, "vocab_size": 31, "max_position_embeddings": 64, "n_positions": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
    "moe_intermediate_size": 8, "num_experts_per_tok": 1, "rotary_dim": 4, "image_size": 32,
    "patch_size": 8, "projection_dim": 16, "embedding_size": 32, "sliding_window": 3,
}  # fmt: skip
_SPEECH = {
    "conv_dim": [8],
    "conv_stride": [5],
    "conv_kernel": [5],
    "num_feat_extract_layers": 1,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
}
_VISION = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}
OWN = {
    "audio-spectrogram-transformer": {"max_length": 32, "num_mel_bins": 32, "patch_size": 16},
    "dots1": {"n_shared_experts": 1, "first_k_dense_replace": 4},
    "jamba": {
        "num_hidden_layers": 8,
        "attn_layer_period": 8,
        "attn_layer_offset": 4,
        "mamba_d_state": 4,
    },
    "phi": {"partial_rotary_factor": 0.5},
    "qwen2_5_vl_text": {"rope_parameters": _VISION},
    "qwen2_vl_text": {"rope_parameters": _VISION},
    "speech_to_text": {"input_feat_per_channel": 80, "conv_channels": 16},
    "vivit": {"num_frames": 2, "tubelet_size": [2, 8, 8]},
    "xmod": {"default_language": "en_XX", "languages": ["en_XX"]},
    "yolos": {"image_size": [32, 32]},
} | dict.fromkeys(
    ("data2vec-audio", "hubert", "sew", "unispeech", "unispeech-sat", "wav2vec2"), _SPEECH
)


def configured(kind: str, **options):
    """A small configuration; of the sizes above those that the type has, and that fit together."""
    library = pytest.importorskip("transformers")
    by_default = library.AutoConfig.for_model(kind)
    known = {*by_default.to_dict(), *inspect.signature(type(by_default).__init__).parameters}
    sizes = {name: size for name, size in SIZES.items() if name in known}
    width, groups = "head_dim", "num_key_value_heads"
    for left_out in ((), (width,), (groups,), (width, groups)):
        given = {name: size for name, size in sizes.items() if name not in left_out}
        try:
            return library.AutoConfig.for_model(kind, **given | OWN.get(kind, {}) | options)
        except Exception as error:
            refused = error
    raise refused


def built(config, attention="eager"):
    """A model of the configuration with random weights, in float64 where its code takes that."""
    import torch
    import transformers

    model = transformers.AutoModel.from_config(config, attn_implementation=attention)
    experts = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
    of_experts = any(getattr(config, name, None) for name in experts)
    model, rng = (model if of_experts else model.double()).eval(), np.random.default_rng(0)
    with torch.no_grad():
        for parameter in filter(lambda each: each.requires_grad, model.parameters()):
            matrix = parameter.ndim > 1
            spread = (1.5 / parameter.shape[-1]) ** 0.5 if matrix else 0.3
            drawn = rng.normal(size=parameter.shape, scale=spread)
            parameter.copy_(torch.from_numpy(drawn if matrix else 1 + drawn))
    return model


def called(model) -> None:
    """Run a model on a few tokens, pictures or sounds."""
    import torch

    rng, config = np.random.default_rng(1), model.config
    kind, main = config.model_type, model.main_input_name
    dtype = next(model.parameters()).dtype

    def noise(*shape):
        return torch.from_numpy(rng.normal(size=shape)).to(dtype)

    ids = torch.from_numpy(rng.integers(3, 30, size=(2, 11)))
    inputs = {"input_ids": ids}
    if main == "pixel_values":
        frames = (2,) if kind == "vivit" else ()
        inputs = {main: noise(2, *frames, 3, 32, 32)}
    elif main == "input_values":
        inputs = {main: noise(2, 32, 32) if "spectrogram" in kind else noise(2, 400)}
    elif main == "input_features":
        mels = getattr(config, "num_mel_bins", 80)
        long = 2 * getattr(config, "max_source_positions", 64)
        inputs = {main: noise(2, 40, 80) if kind == "speech_to_text" else noise(2, mels, long)}
    if kind == "vilt":
        inputs["pixel_values"] = noise(2, 3, 32, 32)
    if config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids
    with torch.no_grad():
        model(**inputs)
