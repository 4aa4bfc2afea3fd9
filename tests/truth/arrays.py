"""Layers of libraries that are called with arrays, and what tests of them share."""

import sys
from copy import deepcopy
from dataclasses import fields, replace

import numpy as np
import pytest
from real_layers import openai_whisper_code, randomised, transformers

import qkv

E, H, D_K = 6, 2, 3  # width of the model, heads, and the width of one
N_Q, N_K = 5, 7
FIRST_HEAD = slice(0, D_K)


def close(a, b, atol=1e-12) -> bool:
    """Whether arrays differ by rounding alone; what is computed in float32 needs a larger atol."""
    return np.allclose(a, b, rtol=0, atol=atol)


def size(mh: qkv.MultiHead) -> int:
    """How many numbers a layer stores."""
    parts = (getattr(mh, field.name) for field in fields(mh))
    return sum(part.size for part in parts if isinstance(part, np.ndarray))


def head_by_head(mh, *sources):
    """What each head adds to the output, without the output bias."""
    Q, K, V = mh.project(*sources)
    K, V = (np.repeat(shared, mh.h // mh.h_kv, axis=-3) for shared in (K, V))
    return np.moveaxis(qkv.attention(Q, K, V) @ mh.W_O, -3, 0)


def loaded(layer, layout="pytorch", h=H, **options) -> qkv.MultiHead:
    """The weights of a layer, one matrix per head; of a rotary one without its rotation."""
    weights = layer.get_weights() if hasattr(layer, "get_weights") else layer.state_dict()
    return replace(qkv.load(weights, layout, h=h, **options), between=())


# PyTorch


def torch_layer(rng, **options):
    """nn.MultiheadAttention with random weights in float64, out of training."""
    torch = pytest.importorskip("torch")
    return randomised(torch.nn.MultiheadAttention(E, H, batch_first=True, **options), rng)


def called(module, *sources, **options):
    """Call a PyTorch module or function with arrays, and get its first output and its second."""
    torch = pytest.importorskip("torch")
    for name, value in options.items():
        if isinstance(value, np.ndarray):
            options[name] = torch.from_numpy(np.array(value))
    with torch.no_grad():
        result = module(*map(torch.from_numpy, sources), **options)
    if torch.is_tensor(result):
        return result.numpy()
    return [None if part is None else part.numpy() for part in result]


def sdpa(*sources, **options):
    """PyTorch's `scaled_dot_product_attention` of arrays."""
    torch = pytest.importorskip("torch")
    return called(torch.nn.functional.scaled_dot_product_attention, *sources, **options)


def zeroed(layer, **rows_or_columns):
    """A copy of a PyTorch layer with parts of its parameters set to zero, by their names."""
    copy = deepcopy(layer)
    for name, part in rows_or_columns.items():
        copy.get_parameter(name.replace("__", "."))[part] = 0
    return copy


# Keras


def keras_layer(keras, rng, h=H, source=(None, None, E), **options):
    """A layer of Keras for sources of this shape, with random weights in float64."""
    layer = keras.layers.MultiHeadAttention(h, **{"key_dim": D_K, "dtype": "float64"} | options)
    layer.build(source, source)
    layer.set_weights([rng.normal(size=weight.shape) for weight in layer.weights])
    return layer


SCORES = {"return_attention_scores": True}


def of_keras(layer, *sources, **options):
    """What a layer of Keras gives, as an array; with scores if it is asked for them."""
    result = layer(*sources, **options)
    to_numpy = sys.modules["keras"].ops.convert_to_numpy
    return [*map(to_numpy, result)] if isinstance(result, tuple) else to_numpy(result)


# Transformers

_MODULES = {
    "DeepseekV3": "deepseek_v3",
    "GPTBigCode": "gpt_bigcode",
    "GPTNeoX": "gpt_neox",
    "Gemma3nText": "gemma3n",
    "GptOss": "gpt_oss",
    "HunYuanDenseV1": "hunyuan_v1_dense",
    "Qwen3Next": "qwen3_next",
}


def attention_of(model: str, rng, **options):
    """The attention of a model of Transformers, `GPT2Attention`, with random weights."""
    library = transformers(_MODULES.get(model, model.lower()))
    config = getattr(library, f"{model}Config")(**options)
    return randomised(getattr(library, f"{model}Attention")(config, layer_idx=0), rng)


def rotary_layer(model: str, rng, **options):
    """The attention of a rotary model of width E, with random weights."""
    sizes = {"hidden_size": E, "num_attention_heads": H, "num_key_value_heads": H, "head_dim": 4}
    return attention_of(model, rng, **sizes | {"attn_implementation": "sdpa"} | options)


def angles_of(layer, x):
    """The cosines and sines with which the model of a layer turns the tokens x."""
    torch = pytest.importorskip("torch")
    name = type(layer).__name__.removesuffix("Attention").removesuffix("Text")
    rotary = getattr(sys.modules[type(layer).__module__], f"{name}RotaryEmbedding")
    return rotary(layer.config)(torch.from_numpy(x), torch.arange(x.shape[1])[None])


def no_rotation():
    """The cosine and the sine of the angle 0, for any number of tokens."""
    angle = pytest.importorskip("torch").zeros(1, 1, 1, dtype=float)
    return angle.cos(), angle.sin()


def attend(layer, x, angles=None, **options):
    """Output and weights of a rotary layer whose tokens may attend to all others."""
    given = {"position_embeddings": angles or no_rotation(), **options}
    return called(layer, x, attention_mask=np.zeros((1, 1, x.shape[1], x.shape[1])), **given)


def grouped_qwen2(rng):
    """Qwen2's attention with 14 heads of queries over 2 of keys and values, as Qwen2.5-0.5B has."""
    sizes = {"hidden_size": 28, "num_attention_heads": 14, "num_key_value_heads": 2}
    return attention_of("Qwen2", rng, **sizes, attn_implementation="eager")


def falcon_layer(rng, **options):
    """Falcon's attention of 4 heads, 12 wide."""
    made = {"hidden_size": 12, "num_attention_heads": 4, "attn_implementation": "sdpa"}
    return attention_of("Falcon", rng, **made, **options)


def bloom_layer(rng, **options):
    """Bloom's attention of width E, unless told otherwise."""
    return attention_of("Bloom", rng, **{"hidden_size": E, "n_head": H} | options)


def gpt_bigcode_layer(rng, **options):
    """GPT-BigCode's attention of width E."""
    made = {"n_embd": E, "n_head": H, "attn_implementation": "sdpa"}
    return attention_of("GPTBigCode", rng, **made, **options)


def clip_layer(rng):
    """CLIP's attention of width E."""
    library = transformers("clip")
    sizes = {"hidden_size": E, "num_attention_heads": H, "attn_implementation": "sdpa"}
    return randomised(library.CLIPAttention(library.CLIPTextConfig(**sizes)), rng)


def layer_of(layout: str, rng):
    """A small layer with sdpa of a layout of Transformers, and what it is called with but masks."""
    unturned = {"position_embeddings": no_rotation()}
    made = {
        "clip": lambda: (clip_layer(rng), {}),
        "falcon": lambda: (falcon_layer(rng), {"alibi": None} | unturned),
        "gpt-bigcode": lambda: (gpt_bigcode_layer(rng, multi_query=False), {}),
        "gpt-neox": lambda: (rotary_layer("GPTNeoX", rng, head_dim=D_K), unturned),
        "gpt2": lambda: (
            attention_of("GPT2", rng, n_embd=E, n_head=H, attn_implementation="sdpa"),
            {},
        ),
        "llama": lambda: (rotary_layer("Llama", rng, head_dim=D_K), unturned),
        "phi3": lambda: (rotary_layer("Phi3", rng, pad_token_id=0), unturned),
    }
    return made[layout]()


# Others


def openai_whisper_layer(rng):
    """The attention of OpenAI's Whisper of width E."""
    return randomised(openai_whisper_code().MultiHeadAttention(E, H), rng)


def diffusers_layer(rng, **options):
    """diffusers' Attention of width E."""
    library = pytest.importorskip("diffusers.models.attention_processor")
    return randomised(library.Attention(E, heads=H, **options), rng)
