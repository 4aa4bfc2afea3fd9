"""Each type of model that a layout knows, built small and run whole, gives what its layers load as.

Sizes are small and windows short, so that each thing between the maps changes some output.
"""

import inspect
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import qkv
from qkv.between import Rotation
from qkv.layouts import layouts
from qkv.layouts._load import find_arrangement
from support import thorough

TYPES = {name: layout for layout in layouts().values() for name in layout.types}
OFTEN = (  # one of each kind, at each run of the tests
    "llama", "qwen3", "gemma2", "gemma3_text", "gpt_oss", "gpt_neox", "falcon", "t5", "cohere2",
    "olmo2", "llama4_text", "bert", "vit", "whisper", "distilbert", "hunyuan_v1_dense",
)  # fmt: skip

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


def recorded(kind, model, found, run) -> dict[tuple[str, str], list[tuple]]:
    """What each map of each found layer took and gave while the model ran, call by call."""
    modules, seen, hooks = dict(model.named_modules()), {}, []
    rename = {known: own for own, known in TYPES[kind].types[kind].rename.items()}
    for layer in found:
        if layer.refused:
            continue
        names = [name.removeprefix(layer.prefix) for name in layer.arrays]
        for stored in find_arrangement(layouts()[layer.layouts[0]], names):
            for part in stored.parts:
                name = layer.prefix + stored.name
                for known, own in rename.items():
                    name = name.replace(known, own)
                module = modules.get(name.rpartition(".")[0])
                if part.startswith("W_") and module:

                    def note(_, sources, output, key=(layer.prefix, part)):
                        seen.setdefault(key, []).append((sources[0], output))

                    hooks.append(module.register_forward_hook(note))
    run(model)
    for hook in hooks:
        hook.remove()
    return seen


def layers(kind, config, attention="eager") -> Iterator[tuple]:
    """Each found layer, the sources that its maps took in the model, and what the last map gave."""
    model = built(config, attention)
    found = qkv.find_layers(model.state_dict(), config=config)
    seen = recorded(kind, model, found, called)
    for layer in found:
        if (layer.prefix, "W_O") in seen:
            X_Q, _ = seen[layer.prefix, "W_Q"][0]
            X_K, _ = seen.get((layer.prefix, "W_K"), [(X_Q, None)])[0]
            _, output = seen[layer.prefix, "W_O"][0]
            by_sample = (
                each.swapaxes(0, 1) if kind == "fsmt" else each for each in (X_Q, X_K, output)
            )
            yield layer, *(_as_rows(each, X_Q) for each in by_sample)


def _as_rows(tensor, like) -> np.ndarray:
    """(batch, n, width), of tokens that may come as one long row or as a picture."""
    array = tensor.numpy()
    return array.reshape(1 if like.ndim == 2 else array.shape[0], -1, array.shape[-1])


def off(mh, mask, X_Q, X_K, output, **given) -> float:
    """By how much a layer differs at most, as a part of the largest output."""
    computed = mh(X_Q.astype(mh.W_Q.dtype), X_K.astype(mh.W_Q.dtype), mask=mask, **given)
    return float(abs(computed - output).max() / abs(output).max())


def own_mask(layer, X_Q, X_K):
    return layer.mask(X_Q.shape[-2], X_K.shape[-2])


@pytest.mark.parametrize(
    "kind", [*OFTEN, *thorough(*(each for each in TYPES if each not in OFTEN))]
)
def test_a_loaded_layer_gives_the_models_own_output(kind):
    """A layer that `find_layers` loads with a model's config gives the model's own output.

    Rotation, norms, scale, cap, window, sinks and a bias by position are those of the model, and so
    is the mask.

    Covers: the attention layers of one small random model of a type, run whole, to 1e-4 of the
    largest output; the thorough tests do so for each type that a layout knows.
    """
    found = {
        layer.prefix: off(layer.load(), own_mask(layer, *given[:2]), *given)
        for layer, *given in layers(kind, configured(kind))
    }
    assert max(found.values()) < 1e-4


def _rope(**options):
    return {"rope_parameters": {"rope_theta": 1e4, "factor": 4.0, **options}}


_LLAMA3 = _rope(
    rope_type="llama3",
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=16,
)
_YARN = _rope(rope_type="yarn", original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0)
OPTIONS = {  # a type of model, its options, and what has to be there and to be noticed
    "linear": ("llama", _rope(rope_type="linear"), "Rotation angles"),
    "llama3": ("llama", _LLAMA3, "Rotation angles"),
    "yarn": ("llama", _YARN, "Rotation angles"),
    "partial": ("gpt_neox", {"rotary_pct": 0.5}, "Rotation"),
    "norm": ("qwen3", {}, "QKNorm Rotation"),
    "norm over all": ("olmo2", {}, "QKNorm Rotation"),
    "norm of Cohere": ("cohere", {"use_qk_norm": True}, "QKNorm Rotation angles"),
    "clip": ("olmo", {"clip_qkv": 0.3}, "Clip Rotation"),
    "cap": (
        "gemma2",
        {"attn_logit_softcapping": 0.5, "query_pre_attn_scalar": 2},
        "Rotation SoftCap scale window",
    ),
    "sinks": ("gpt_oss", {}, "Rotation angles Sinks window"),
    "scale": ("granite", {"attention_multiplier": 0.9}, "Rotation scale"),
    "scale by layer": ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale"),
    "no scale": ("gpt2", {"scale_attn_weights": False}, "scale"),
    "window": ("mistral", {}, "Rotation window"),
    "window by option": (
        "qwen2",
        {"use_sliding_window": True, "max_window_layers": 1},
        "Rotation window",
    ),
    "chunks": (
        "llama4_text",
        {"attention_chunk_size": 4, "floor_scale": 2, "no_rope_layers": [1, 1, 0, 1]},
        "QKNorm Rotation angles Temperature chunk",
    ),
    "ALiBi": ("falcon", {"alibi": True}, "ALiBi"),
    "ALiBi and biases": ("bloom", {}, "ALiBi"),
    "table": ("t5", {}, "DistanceBias scale"),
}
SDPA = {"ALiBi"}  # Falcon's layer in eager mode adds the bias twice


def without(layer) -> Iterator[tuple]:
    """What a layer has, and the layer and its mask without it."""
    mh, between = layer.load(), layer.between
    for n, step in enumerate(mh.between):
        before, after = mh.between[:n], mh.between[n + 1 :]
        yield type(step).__name__, replace(mh, between=(*before, *after)), {}
        if isinstance(step, Rotation):
            plain = Rotation.of(1e4, 2 * len(step.angles), step.pairs)
            if plain != step:
                yield "angles", replace(mh, between=(*before, plain, *after)), {}
    if mh.scale is not None:
        yield "scale", replace(mh, scale=None), {}
    for what in ("window", "chunk"):
        if getattr(between, what) is not None:
            yield what, mh, {what: None}


@pytest.mark.parametrize("name", OPTIONS)
def test_leaving_out_what_a_config_says_is_noticed(name):
    """Without any one of the steps that a config asks for, a loaded layer gives another output.

    With all of them it gives the model's own.

    Covers: small windows, caps, clips, norms, sinks, biases by position, scales, and the three
    ways to stretch a rotation, each in one small random model that was run whole.
    """
    kind, options, expected = OPTIONS[name]
    noticed = {}
    mode = "sdpa" if name in SDPA else "eager"
    for layer, *given in layers(kind, configured(kind, **options), mode):
        mask = own_mask(layer, *given[:2])
        assert off(layer.load(), mask, *given) < 1e-4
        n = [each.shape[-2] for each in given[:2]]
        for what, other, changed in without(layer):
            seen = replace(layer.between, **changed).mask(*n) if changed else mask
            noticed[what] = max(noticed.get(what, 0), off(other, seen, *given))
    assert {*noticed} == {*expected.split()}
    assert min(noticed.values()) > 1e-3, noticed


STEPS = {name: OPTIONS[name][:2] for name in ("norm", "cap", "sinks", "partial", "ALiBi", "table")}
STEPS["plain"] = "llama", {}
UNPLACED = {"ALiBi", "table"}  # Falcon with ALiBi, and T5, take no positions


@pytest.mark.parametrize("name", STEPS)
def test_a_decoding_step_with_a_cache_gives_the_models_own_output(name):
    """In a decoding step a loaded layer gives the model's own output, at the positions it has.

    The new token's query meets the keys of all tokens; `FoundLayer.mask(1, n)` is the mask.

    Covers: Llama, Qwen3, Gemma 2, gpt-oss, GPT-NeoX, Falcon with ALiBi and T5's decoder, small and
    random, with ten tokens in the cache; at random positions where the model takes positions.
    """
    torch = pytest.importorskip("torch")
    kind, options = STEPS[name]
    model = built(config := configured(kind, **options), "sdpa" if name in SDPA else "eager")
    rng = np.random.default_rng(3)
    ids = torch.from_numpy(rng.integers(3, 30, size=(1, 11)))
    at = np.sort(rng.choice(40, size=11, replace=False))
    at = np.arange(11) if name in UNPLACED else at

    def decoded(model):
        given = {"encoder_outputs": model.encoder(ids)} if config.is_encoder_decoder else {}
        tokens = "decoder_input_ids" if given else "input_ids"
        cache = None
        for cut in (slice(10), slice(10, 11)):
            if name not in UNPLACED:
                given |= {
                    "position_ids": torch.from_numpy(at[None, cut]),
                    "attention_mask": torch.ones(1, cut.stop, dtype=torch.long),
                }
            given |= {tokens: ids[:, cut], "past_key_values": cache, "use_cache": True}
            cache = model(**given).past_key_values

    found = qkv.find_layers(model.state_dict(), config=config)
    with torch.no_grad():
        seen = recorded(kind, model, found, decoded)
    compared = 0
    for layer in found:
        calls = seen.get((layer.prefix, "W_K"), ())
        if len(calls) < 2 or not layer.between.causal:
            continue  # an encoder runs once, and so do the keys that come from it
        X = np.concatenate([each.numpy() for each, _ in calls], axis=-2)
        output = seen[layer.prefix, "W_O"][1][1].numpy()
        step = {"positions": (at[10:], at)}
        assert off(layer.load(), layer.mask(1, 11), X[:, 10:], X, output, **step) < 1e-4
        compared += 1
    assert compared >= 2
