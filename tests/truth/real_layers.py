"""The real layers: how each library builds one, stores it and calls it.

Sizes are distinct primes wherever a library allows it, so that no two axes can be confused, and
every weight is random, biases and all. A library is imported when its layer is built, not before.
"""

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from types import ModuleType
from unittest import mock

import numpy as np
import pytest

import qkv
from qkv.layouts import layouts

BATCH, N_Q, N_K = 3, 5, 7

# The distributions whose code runs, by layout: first the layer's own, then what computes for it.
LIBRARIES = {
    "pytorch": ("torch",),
    "keras": ("keras", "torch"),
    "flax": ("flax", "jax"),
    "haiku": ("dm-haiku", "jax"),
    "openai-whisper": ("openai-whisper", "torch"),
    "vit-pytorch": ("vit-pytorch", "torch"),
    "timm": ("timm", "torch"),
    "diffusers": ("diffusers", "torch"),
}
_IN_TRANSFORMERS = (
    *("bert", "bloom", "clip", "codegen", "falcon", "gpt-bigcode", "gpt-neox", "gpt2", "gptj"),
    *("llama", "phi3", "t5", "whisper"),
)
LIBRARIES |= dict.fromkeys(_IN_TRANSFORMERS, ("transformers", "torch"))


@dataclass(frozen=True)
class Layer:
    """A real layer: what it stores, as its library hands it out, and what it computes.

    `call` takes X_Q, X_K, X_V and a mask (BATCH, 1, n_q, n_k), True where a query may attend.
    X_K is None in self-attention, and X_V is None where it is X_K.
    """

    weights: Mapping
    call: Callable[..., np.ndarray]


@dataclass(frozen=True)
class Case:
    """What to build, and how to load it: a row of the table at the end."""

    name: str  # begins with that of its layout
    build: Callable[["Case", np.random.Generator], Layer]
    options: dict = field(default_factory=dict)
    h: int = 2
    h_kv: int | None = None
    widths: tuple[int, int, int] = (6, 6, 6)  # of X_Q, X_K and X_V
    forms: tuple[str, ...] = ("self", "cross")
    prefix: str = ""
    rotary: bool = False
    masks: bool = True  # whether the layer takes a mask

    @property
    def layout(self) -> str:
        """What the library stores, and how `qkv.load` is told."""
        return max((name for name in layouts() if self.name.startswith(name)), key=len)

    @property
    def library(self) -> str:
        """The distribution that the layer comes from."""
        once = RAN_ONCE.get(self.layout, "").partition(" ")[0]
        return once or LIBRARIES[self.layout][0]

    def layer(self) -> Layer:
        """The real layer, with the same weights every time."""
        return self.build(self, np.random.default_rng([*self.name.encode()]))

    def load(self, weights: Mapping) -> qkv.MultiHead:
        """The same layer as this package reads it; a rotation is left out on both sides."""
        mh = qkv.load(weights, self.layout, h=self.h, h_kv=self.h_kv, prefix=self.prefix)
        assert bool(mh.between) == self.rotary
        return replace(mh, between=())

    def problems(self) -> dict[str, tuple[np.ndarray | None, ...]]:
        """Arguments for `Layer.call`: every form the layer does, with and without a mask."""
        rng = np.random.default_rng([N_Q, N_K])
        X_Q, X_K, X_V = (
            rng.normal(size=(BATCH, n, width))
            for n, width in zip((N_Q, N_K, N_K), self.widths, strict=True)
        )
        sources = {"self": (X_Q, None, None), "cross": (X_Q, X_K, None), "three": (X_Q, X_K, X_V)}
        problems = {}
        for form in self.forms:
            n_k = N_Q if form == "self" else N_K
            mask = rng.random((BATCH, 1, N_Q, n_k)) < 0.5
            mask[..., 0] = True  # libraries disagree about a query that may attend to nothing
            problems[form] = (*sources[form], None)
            if self.masks:
                problems[f"{form}, masked"] = (*sources[form], mask)
        return problems


def drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Weights so small that no softmax saturates, and none of them zero."""
    return rng.normal(scale=0.3, size=tuple(shape))


def spelt_out(X_Q, X_K, X_V):
    """All three sources, for a library that wants each of them."""
    X_K = X_Q if X_K is None else X_K
    return X_Q, X_K, X_K if X_V is None else X_V


def randomised(module, rng: np.random.Generator):
    """A PyTorch module in float64, out of training, with random weights that need no gradient."""
    torch = pytest.importorskip("torch")
    for parameter in module.double().eval().requires_grad_(False).parameters():
        parameter.copy_(torch.from_numpy(drawn(rng, parameter.shape)))
    return module


def torch_layer(module, forward: Callable, rng: np.random.Generator) -> Layer:
    """A randomised PyTorch module; `forward` gets it and tensors."""
    torch = pytest.importorskip("torch")
    module = randomised(module, rng)

    def call(*arrays):
        tensors = (None if array is None else torch.from_numpy(array) for array in arrays)
        with torch.no_grad():
            return forward(module, *tensors).numpy()

    weights = module.state_dict()  # a norm of BERT's module comes after its attention
    return Layer({name: w for name, w in weights.items() if "LayerNorm" not in name}, call)


def keras_library():
    """Keras on PyTorch, which it chooses when it is first imported."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    return pytest.importorskip("keras")


def keras(case: Case, rng: np.random.Generator) -> Layer:
    library = keras_library()
    layer = library.layers.MultiHeadAttention(case.h, dtype="float64", **case.options)
    q_width, k_width, v_width = case.widths
    layer.build((None, None, q_width), (None, None, v_width), (None, None, k_width))
    layer.set_weights([drawn(rng, weight.shape) for weight in layer.weights])

    def call(X_Q, X_K, X_V, mask):
        X_Q, X_K, X_V = spelt_out(X_Q, X_K, X_V)
        output, _ = layer(
            query=X_Q,
            key=X_K,
            value=X_V,
            attention_mask=None if mask is None else mask[:, 0],
            return_attention_scores=True,  # without them it computes in float32
        )
        return library.ops.convert_to_numpy(output)

    names = (weight.path.removeprefix(f"{layer.name}/") for weight in layer.weights)
    return Layer(dict(zip(names, layer.get_weights(), strict=True)), call)


def in_float64() -> contextlib.AbstractContextManager:
    """JAX with 64 bits inside this context, and nowhere else."""
    return pytest.importorskip("jax").enable_x64(True)


def flax_linen(case: Case, rng: np.random.Generator) -> Layer:
    jax = pytest.importorskip("jax")
    linen = pytest.importorskip("flax.linen")
    layer = linen.MultiHeadDotProductAttention(case.h, param_dtype=np.float64, **case.options)
    with in_float64():
        sources = (np.ones((1, width)) for width in case.widths)
        params = layer.init(jax.random.key(0), *sources)["params"]
    params = jax.tree.map(lambda weight: drawn(rng, weight.shape), params)

    def call(X_Q, X_K, X_V, mask):
        with in_float64():
            return np.asarray(layer.apply({"params": params}, X_Q, X_K, X_V, mask=mask))

    return Layer(params, call)


def flax_nnx(case: Case, rng: np.random.Generator) -> Layer:
    jax = pytest.importorskip("jax")
    nnx = pytest.importorskip("flax.nnx")
    with in_float64():
        layer = nnx.MultiHeadAttention(
            case.h,
            case.widths[0],
            param_dtype=np.float64,
            decode=False,
            rngs=nnx.Rngs(0),
            **case.options,
        )
        params = nnx.to_pure_dict(nnx.state(layer, nnx.Param))
        params = jax.tree.map(lambda weight: drawn(rng, weight.shape), params)
        nnx.update(layer, params)

    def call(X_Q, X_K, X_V, mask):
        with in_float64():
            # Where the weights are kept, nothing is computed in float32.
            return np.asarray(layer(X_Q, X_K, X_V, mask=mask, sow_weights=True))

    return Layer(params, call)


def haiku(case: Case, rng: np.random.Generator) -> Layer:
    jax = pytest.importorskip("jax")
    hk = pytest.importorskip("haiku")

    @hk.without_apply_rng
    @hk.transform
    def layer(X_Q, X_K, X_V, mask):
        attend = hk.MultiHeadAttention(case.h, w_init=hk.initializers.Constant(0), **case.options)
        return attend(*spelt_out(X_Q, X_K, X_V), mask)

    with in_float64():
        sources = (np.ones((1, width)) for width in case.widths)
        params = layer.init(jax.random.key(0), *sources, None)
    params = jax.tree.map(lambda weight: drawn(rng, weight.shape), params)

    def call(*arguments):
        with in_float64():
            return np.asarray(layer.apply(params, *arguments))

    return Layer(params, call)


def transformers(model: str):
    """The module of Transformers that holds a model's layers and its configuration."""
    return pytest.importorskip(f"transformers.models.{model}.modeling_{model}")


def added(X_Q, X_K, mask):
    """The mask as Transformers wants it: 0 where allowed, minus infinity elsewhere.

    It is never None: given none, a decoder's layer brings a causal mask of its own.
    """
    zeros = X_Q.new_zeros(BATCH, 1, N_Q, (X_Q if X_K is None else X_K).shape[1])
    return zeros if mask is None else zeros.masked_fill(~mask, float("-inf"))


class InFloat64:
    """PyTorch as a model's module sees it, with float64 in place of float32.

    Some layers of Transformers take the softmax in float32, whatever they are given.
    """

    def __getattr__(self, name: str):
        torch = pytest.importorskip("torch")
        return getattr(torch, "float64" if name == "float32" else name)


def of(make: Callable, forward: Callable):
    """What builds a case's layer: `make` a module of PyTorch, `forward` calls it with tensors."""

    def build(case: Case, rng: np.random.Generator) -> Layer:
        return torch_layer(make(case), partial(forward, case), rng)

    return build


def of_transformers(name: str, model: str, sizes: str, forward: Callable, **options):
    """What builds the attention of a model of Transformers for a case.

    Args:
        name: The model's module.
        model: What the names of its classes begin with.
        sizes: What its configuration calls the width, h and, where heads are grouped, h_kv.
        forward: Calls the layer with the sources and the mask.
        options: Other entries of the configuration.
    """

    def make(case: Case):
        library = transformers(name)
        named = dict(zip(sizes.split(), (case.widths[0], case.h, case.h_kv), strict=False))
        named["attn_implementation"] = "sdpa"  # the other one takes the softmax in float32
        made = {key: case.options[key] for key in case.options if key == "is_cross_attention"}
        config = getattr(library, f"{model}Config")(**named, **options, **case.options)
        attention = getattr(library, f"{model.removesuffix('Text')}Attention")
        if "layer_idx" in signature(attention).parameters:
            made["layer_idx"] = 0
        return attention(config, **made)

    return of(make, lambda case, *given: forward(*given))


def masked(module, X_Q, X_K, X_V, mask, **options):
    """Call a layer that needs nothing but the mask."""
    return module(X_Q, attention_mask=added(X_Q, X_K, mask), **options)[0]


def unrotated(module, X_Q, X_K, X_V, mask, **options):
    """Call a rotary layer with a rotation by no angle at all."""
    angle = X_Q.new_zeros(1, 1, 1)
    angles = {"position_embeddings": (angle.cos(), angle.sin())}
    return masked(module, X_Q, X_K, X_V, mask, **angles, **options)


def at_place_0(module, X_Q, X_K, X_V, mask):
    """Call GPT-J's layer or CodeGen's with all tokens at position 0: there they are not rotated."""
    places = X_Q.new_zeros(BATCH, N_Q).long()
    with mock.patch.object(sys.modules[type(module).__module__], "torch", InFloat64()):
        return masked(module, X_Q, X_K, X_V, mask, position_ids=places)


def without_alibi(module, X_Q, X_K, X_V, mask):
    """Call Bloom's layer without numbers of ALiBi and without a residual."""
    zeros = {"alibi": X_Q.new_zeros(BATCH * module.num_heads, 1, N_Q), "residual": X_Q.new_zeros(1)}
    with mock.patch.object(sys.modules[type(module).__module__], "torch", InFloat64()):
        return masked(module, X_Q, X_K, X_V, mask, **zeros)


def of_t5(module, X_Q, X_K, X_V, mask):
    return module(X_Q, mask=added(X_Q, X_K, mask), key_value_states=X_K)[0]


def of_bert(module, X_Q, X_K, X_V, mask):
    """Without the residual connection and the norm that the module goes on with."""
    sources = [X_Q] if X_K is None else [X_Q, X_K]
    return module.output.dense(module.self(*sources, attention_mask=added(X_Q, X_K, mask))[0])


def of_gpt2(module, X_Q, X_K, X_V, mask):
    if X_K is None:
        return masked(module, X_Q, X_K, X_V, mask)
    mask = added(X_Q, X_K, mask)
    return module(X_Q, encoder_hidden_states=X_K, encoder_attention_mask=mask)[0]


_USUAL = "hidden_size num_attention_heads"
gpt_neox = of_transformers("gpt_neox", "GPTNeoX", _USUAL, unrotated)
llama = of_transformers("llama", "Llama", f"{_USUAL} num_key_value_heads", unrotated)
falcon = of_transformers(
    "falcon", "Falcon", f"{_USUAL} num_kv_heads", partial(unrotated, alibi=None)
)
gpt_bigcode = of_transformers("gpt_bigcode", "GPTBigCode", "n_embd n_head", masked)
bloom = of_transformers("bloom", "Bloom", "hidden_size n_head", without_alibi)
gptj = of_transformers("gptj", "GPTJ", "n_embd n_head", at_place_0, rotary_dim=2)
codegen = of_transformers("codegen", "CodeGen", "n_embd n_head", at_place_0, rotary_dim=2)
bert = of_transformers("bert", "Bert", _USUAL, of_bert)
gpt2 = of_transformers("gpt2", "GPT2", "n_embd n_head", of_gpt2)
clip = of_transformers("clip", "CLIPText", _USUAL, masked)
t5 = of_transformers("t5", "T5", "d_model num_heads", of_t5)


def alone(name: str, *unneeded: str) -> ModuleType:
    """A module, without the packages around it and without what it imports and does not need.

    Those import what must match PyTorch's build, or what is large. An attention layer does not.
    """
    pytest.importorskip("torch")
    package = ""
    for part in name.split(".")[:-1]:
        package = f"{package}.{part}" if package else part
        if (spec := importlib.util.find_spec(package)) is None:
            pytest.skip(f"{package} is not installed")
        sys.modules.setdefault(package, importlib.util.module_from_spec(spec))
    for each in unneeded:
        sys.modules.setdefault(each, mock.MagicMock())
    return importlib.import_module(name)


def vit_pytorch_code() -> ModuleType:
    return alone("vit_pytorch.vit")


def timm_code(module: str = "attention") -> ModuleType:
    return alone(f"timm.layers.{module}")


def openai_whisper_code() -> ModuleType:
    return alone("whisper.model", "whisper.decoding", "whisper.transcribe")


def nn_attention(case: Case):
    nn = pytest.importorskip("torch").nn
    return nn.MultiheadAttention(case.widths[0], case.h, batch_first=True, **case.options)


def call_nn_attention(case, module, X_Q, X_K, X_V, mask):
    if mask is not None:  # True means blocked here, and the heads are folded into the batch
        mask = ~mask.repeat_interleave(case.h, dim=1).flatten(0, 1)
    return module(*spelt_out(X_Q, X_K, X_V), attn_mask=mask)[0]


def phi3_attention(case: Case):
    library = transformers("phi3")
    sizes = {"hidden_size": case.widths[0], "num_attention_heads": case.h, "pad_token_id": 0}
    config = library.Phi3Config(**sizes, num_key_value_heads=case.h_kv, attn_implementation="sdpa")
    config.head_dim = 5  # which the class reads, though its configuration does not list it
    return library.Phi3Attention(config, layer_idx=0)


def whisper_attention(case: Case):
    library = transformers("whisper")
    config = library.WhisperConfig(attn_implementation="sdpa")
    return library.WhisperAttention(case.widths[0], case.h, config=config)


def vit_attention(case: Case):
    module = vit_pytorch_code().Attention(case.widths[0], case.h, **case.options)
    module.norm = pytest.importorskip("torch").nn.Identity()  # MultiHead's sources come after it
    return module


def diffusers_attention(case: Case):
    library = pytest.importorskip("diffusers.models.attention_processor")
    width, other, _ = case.widths
    cross = {"cross_attention_dim": other} if other != width else {}
    return library.Attention(width, heads=case.h, dim_head=5, **cross, **case.options)


def lens_attention(case: Case):
    components = pytest.importorskip("transformer_lens.components")
    config = {"d_model": case.widths[0], "d_head": 5, "n_heads": case.h}
    config |= {"n_key_value_heads": case.h_kv, "n_layers": 1, "n_ctx": max(N_Q, N_K)}
    config |= {"attn_only": True, "d_vocab": 3, "attention_dir": "bidirectional"}
    module = getattr(components, "GroupedQueryAttention" if case.h_kv else "Attention")
    return module(config, "global", 0)


pytorch = of(nn_attention, call_nn_attention)
phi3 = of(phi3_attention, lambda case, *given: unrotated(*given))
whisper = of(
    whisper_attention,
    lambda case, module, X_Q, X_K, *given: masked(module, X_Q, X_K, *given, key_value_states=X_K),
)
vit_pytorch = of(vit_attention, lambda case, module, X_Q, *_: module(X_Q))
openai_whisper = of(
    lambda case: openai_whisper_code().MultiHeadAttention(case.widths[0], case.h),
    lambda case, module, X_Q, X_K, *_: module(X_Q, X_K)[0],
)
timm = of(
    lambda case: timm_code().Attention(case.widths[0], case.h, **case.options),
    lambda case, module, X_Q, X_K, X_V, mask: module(X_Q, attn_mask=mask),
)
diffusers = of(
    diffusers_attention,
    lambda case, module, X_Q, X_K, X_V, mask: module(
        X_Q, X_K, attention_mask=added(X_Q, X_K, mask)[:, 0]
    ),
)
transformerlens = of(lens_attention, lambda case, module, *given: module(*spelt_out(*given[:3])))

SELF, CROSS, THREE = ("self",), ("cross",), ("three",)
OWN_WIDTHS = {"widths": (6, 11, 13), "forms": THREE}
GROUPED = {"h": 6, "h_kv": 2, "widths": (12, 12, 12), "forms": SELF, "rotary": True}
ROTARY = {"forms": SELF, "rotary": True}
OF_TORCH, OF_KERAS, OF_FLAX = {"kdim": 11, "vdim": 13}, {"key_dim": 5}, {"qkv_features": 10}
KERAS_WIDTHS = OF_KERAS | {"value_dim": 7, "output_shape": 17}
NNX_WIDTHS = OF_FLAX | {"in_kv_features": 11, "out_features": 17}
HAIKU_WIDTHS = {"key_size": 5, "value_size": 7, "model_size": 17}
FALCON = {"new_decoder_architecture": True}
IN_MODULE = {"prefix": "multi_head_attention/"}

CASES = {
    case.name: case
    for case in (
        Case("pytorch", pytorch, forms=SELF + CROSS + THREE),
        Case("pytorch-no-bias", pytorch, {"bias": False}),
        Case("pytorch-widths", pytorch, OF_TORCH, **OWN_WIDTHS),
        Case("pytorch-widths-no-bias", pytorch, OF_TORCH | {"bias": False}, **OWN_WIDTHS),
        Case("keras", keras, OF_KERAS, forms=SELF + CROSS + THREE),
        Case("keras-widths", keras, KERAS_WIDTHS, **OWN_WIDTHS),
        Case("keras-no-bias", keras, OF_KERAS | {"use_bias": False}),
        Case("flax-linen", flax_linen, OF_FLAX),
        Case("flax-linen-widths", flax_linen, OF_FLAX | {"out_features": 17}, **OWN_WIDTHS),
        Case("flax-linen-no-bias", flax_linen, OF_FLAX | {"use_bias": False}),
        Case("flax-nnx", flax_nnx, OF_FLAX),
        Case("flax-nnx-widths", flax_nnx, NNX_WIDTHS, widths=(6, 11, 11), forms=CROSS),
        Case("flax-nnx-grouped", flax_nnx, {"qkv_features": 30, "num_kv_heads": 2}, h=6, h_kv=2),
        Case("haiku", haiku, {"key_size": 3}, **IN_MODULE),
        Case("haiku-widths", haiku, HAIKU_WIDTHS, **IN_MODULE, **OWN_WIDTHS),
        Case("haiku-no-bias", haiku, {"key_size": 5, "with_bias": False}, **IN_MODULE),
        Case("bert", bert, forms=SELF),
        Case("bert-cross", bert, {"is_cross_attention": True}, forms=CROSS),
        Case("gpt2", gpt2, forms=SELF),
        Case("gpt2-cross", gpt2, {"is_cross_attention": True}, forms=CROSS),
        Case("gpt-neox", gpt_neox, **ROTARY),
        Case("gpt-neox-no-bias", gpt_neox, {"attention_bias": False}, **ROTARY),
        Case("llama", llama, {"head_dim": 4}, **GROUPED),
        Case("llama-bias", llama, {"head_dim": 4, "attention_bias": True}, **GROUPED),
        Case("phi3", phi3, h=6, h_kv=2, widths=(7, 7, 7), **ROTARY),
        Case("falcon", falcon, FALCON, **GROUPED),
        Case("falcon-bias", falcon, FALCON | {"bias": True}, **GROUPED),
        Case("falcon-multi-query", falcon, {"multi_query": True}, h=3, h_kv=1, **ROTARY),
        Case("falcon-multi-head", falcon, {"multi_query": False}, h=3, **ROTARY),
        Case("gpt-bigcode", gpt_bigcode, h=3, h_kv=1, forms=SELF),
        Case("gpt-bigcode-multi-head", gpt_bigcode, {"multi_query": False}, h=3, forms=SELF),
        Case("bloom", bloom, forms=SELF),
        Case("codegen", codegen, h=8, widths=(24, 24, 24), **ROTARY),
        Case("gptj", gptj, **ROTARY),
        Case("clip", clip, forms=SELF),
        Case("t5", t5, {"d_kv": 5}),
        Case("whisper", whisper),
        Case("openai-whisper", openai_whisper, masks=False),
        Case("vit-pytorch", vit_pytorch, {"dim_head": 5}, forms=SELF, masks=False),
        Case("timm", timm, {"qkv_bias": True}, forms=SELF),
        Case("timm-no-bias", timm, {"attn_head_dim": 5, "dim_out": 17}, forms=SELF),
        Case("diffusers", diffusers),
        Case("diffusers-bias", diffusers, {"bias": True}, widths=(6, 11, 11), forms=CROSS),
    )
}

# No later version has these layers, so they were recorded once; nothing here installs them.
ONCE = {
    case.name: case
    for case in (
        Case("transformerlens", transformerlens, forms=THREE, masks=False),
        Case("transformerlens-grouped", transformerlens, h=6, h_kv=2, forms=THREE, masks=False),
    )
}
RAN_ONCE = {"transformerlens": "transformer-lens 3.5.1 with torch 2.13.0, on 21 November 2026"}
