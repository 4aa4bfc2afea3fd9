"""Types of models that a layout knows, run whole, give what their loaded layers give."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from small_models import built, called, configured

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


_SHORT = {"original_max_position_embeddings": 16}
_LLAMA3 = _rope(rope_type="llama3", low_freq_factor=1.0, high_freq_factor=4.0, **_SHORT)
_YARN = _rope(rope_type="yarn", beta_fast=32.0, beta_slow=1.0, **_SHORT)
_WARM = _YARN["rope_parameters"] | {"original_max_position_embeddings": 4}
_WARM = {"rope_parameters": _WARM | {"llama_4_scaling_beta": 0.5}}
_CAP = {"attn_logit_softcapping": 0.5, "query_pre_attn_scalar": 2}
_WINDOW = {"use_sliding_window": True, "max_window_layers": 1}
_CHUNKS = {"attention_chunk_size": 4, "floor_scale": 2, "no_rope_layers": [1, 1, 0, 1]}
OPTIONS = {  # a type of model, its options, and what has to be there and to be noticed
    "linear": ("llama", _rope(rope_type="linear"), "Rotation angles"),
    "llama3": ("llama", _LLAMA3, "Rotation angles"),
    "yarn": ("llama", _YARN, "Rotation angles"),
    "partial": ("gpt_neox", {"rotary_pct": 0.5}, "Rotation"),
    "a width, and a base": (
        "minimax_m2",
        {"rotary_dim": 4, "rope_theta": 5e6},
        "QKNorm Rotation angles",
    ),
    "norm": ("qwen3", {}, "QKNorm Rotation"),
    "norm over all": ("olmo2", {}, "QKNorm Rotation"),
    "norm of Cohere": ("cohere", {"use_qk_norm": True}, "QKNorm Rotation angles"),
    "norm over one head of keys": ("olmo2", {"num_key_value_heads": 1}, "QKNorm Rotation"),
    "clip after a norm": ("olmoe", {"clip_qkv": 0.3}, "QKNorm Clip Rotation"),
    "temperature": ("ministral3", _WARM, "Rotation angles Temperature window"),
    "clip": ("olmo", {"clip_qkv": 0.3}, "Clip Rotation"),
    "cap": ("gemma2", _CAP, "Rotation SoftCap scale window"),
    "sinks": ("gpt_oss", {}, "Rotation angles Sinks window"),
    "scale": ("granite", {"attention_multiplier": 0.9}, "Rotation scale"),
    "scale by layer": ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale"),
    "no scale": ("gpt2", {"scale_attn_weights": False}, "scale"),
    "what GPT-J says, too": ("gptj", {"rotary": True}, "Rotation"),
    "what Bloom says, too": ("bloom", {"offset_alibi": 100}, "ALiBi"),
    "what Gemma 2 says, too": (
        "gemma2",
        _CAP | {"sliding_window_size": 3},
        "Rotation SoftCap scale window",
    ),
    "no causal mask": ("llama", {"is_causal": False}, "Rotation"),
    "no causal mask in a decoder": ("t5", {"is_causal": False}, "DistanceBias scale"),
    "window": ("mistral", {}, "Rotation window"),
    "window by option": ("qwen2", _WINDOW, "Rotation window"),
    "chunks": ("llama4_text", _CHUNKS, "QKNorm Rotation angles Temperature chunk"),
    "ALiBi": ("falcon", {"alibi": True}, "ALiBi"),
    "ALiBi and biases": ("bloom", {}, "ALiBi"),
    "ALiBi and a clip": ("mpt", {"attn_config": {"clip_qkv": 0.3}}, "ALiBi Clip"),
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

    Covers: small windows, caps, clips, norms, sinks, biases by position, scales, and three ways to
    stretch a rotation, each in one small random model that was run whole.
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


@pytest.mark.parametrize(
    ("kind", "name", "options"),
    [
        ("gemma2", "layer_types", {}),
        ("llama4_text", "layer_types", {"attention_chunk_size": 4}),
        ("qwen2", "layer_types", _WINDOW),
        ("smollm3", "no_rope_layers", {}),
    ],
)
def test_a_config_without_its_list_of_layers_is_not_guessed(kind, name, options):
    """Without the list that says what each layer does, a layer refuses to be called, and its mask.

    Covers: the windows of Gemma 2 and Qwen2, the chunks of Llama 4 and the rotations of SmolLM3.
    """
    config = configured(kind, **options)
    written = config.to_dict()
    del written[name]
    layer = qkv.find_layers(built(config).state_dict(), config=written)[0]
    with pytest.raises(ValueError, match=f"The config has no {name}, "):
        layer.load()(np.ones((2, layer.sizes["d_model"])))
    with pytest.raises(ValueError, match=f"The mask is not known. The config has no {name}, "):
        layer.mask(2)


STEPS = {name: OPTIONS[name][:2] for name in ("norm", "cap", "sinks", "partial", "ALiBi", "table")}
STEPS["plain"] = "llama", {}
UNPLACED = {"ALiBi", "table"}  # Falcon with ALiBi, and T5, take no positions


@pytest.mark.parametrize("name", STEPS)
def test_a_decoding_step_with_a_cache_gives_the_models_own_output(name):
    """In a decoding step a loaded layer gives the model's own output, at the positions it has.

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
