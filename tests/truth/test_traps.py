"""What the libraries do that a reader of the formulas does not expect, each shown on the library.

The first line of a test's docstring is the claim. Pages that state it name the test.
"""

import inspect
import os
import re
import subprocess
import sys
from copy import deepcopy
from dataclasses import fields, replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from real_layers import (
    alone,
    in_float64,
    keras_library,
    openai_whisper_code,
    randomised,
    timm_code,
    transformers,
    vit_pytorch_code,
)

import qkv
from qkv_site.markdown import blocks
from support import ROOT

E, H, D_K = 6, 2, 3  # embed_dim of torch, heads, and the width of one
N_Q, N_K = 5, 7


@pytest.fixture
def x(rng) -> np.ndarray:
    """The source of the queries."""
    return rng.normal(size=(1, N_Q, E))


@pytest.fixture
def y(rng) -> np.ndarray:
    """The source of keys and values."""
    return rng.normal(size=(1, N_K, E))


@pytest.fixture
def mha(torch, rng):
    """nn.MultiheadAttention with random weights in float64."""
    return randomised(torch.nn.MultiheadAttention(E, H, batch_first=True), rng)


def loaded(mha) -> qkv.MultiHead:
    """The weights of an nn.MultiheadAttention, one matrix per head."""
    return qkv.load(mha.state_dict(), "pytorch", h=mha.num_heads)


def called(module, *sources, **options):
    """Call a PyTorch module with arrays, and get arrays."""
    torch = pytest.importorskip("torch")
    for name, value in options.items():
        if isinstance(value, np.ndarray):
            options[name] = torch.from_numpy(value)
    with torch.no_grad():
        result = module(*map(torch.from_numpy, sources), **options)
    return [None if part is None else part.numpy() for part in result]


def size(mh: qkv.MultiHead) -> int:
    """How many numbers a layer stores."""
    parts = (getattr(mh, field.name) for field in fields(mh))
    return sum(part.size for part in parts if isinstance(part, np.ndarray))


def close(a, b) -> bool:
    return np.allclose(a, b, rtol=0, atol=1e-12)


# PyTorch: what goes in


def test_torch_multihead_attention_contains_the_projections(mha, x):
    """PyTorch `MultiheadAttention` contains the projections.

    Linear layers of one's own before nn.MultiheadAttention project a second time.
    """
    assert sum(p.numel() for p in mha.parameters()) == size(loaded(mha)) == 4 * E * E + 4 * E
    assert close(called(mha, x, x, x)[0], loaded(mha)(x))


def test_torch_scaled_dot_product_attention_is_equation_1(torch, rng):
    """PyTorch `scaled_dot_product_attention` is equation (1).

    It has no weights, and what it calls E, an embedding dimension, is the width of one head.
    """
    shapes = (H, N_Q, D_K), (H, N_K, D_K), (H, N_K, 11)
    Q, K, V = (rng.normal(size=shape) for shape in shapes)
    computed = torch.nn.functional.scaled_dot_product_attention(*map(torch.from_numpy, (Q, K, V)))
    assert close(computed, qkv.attention(Q, K, V))


def test_torch_layer_joins_what_its_attention_function_gives_and_multiplies(torch, mha, x):
    """PyTorch's layer is its function, then `transpose(-3, -2).flatten(-2)`, then `out_proj`.

    The function gets the layer's projected heads, (h, n, d_k) or (batch, h, n, d_k). The layer has
    batch_first=True and no dropout.
    """
    for given in x, x[0]:
        projected = map(torch.from_numpy, loaded(mha).project(given))
        heads = torch.nn.functional.scaled_dot_product_attention(*projected)
        with torch.no_grad():
            output = mha.out_proj(heads.transpose(-3, -2).flatten(-2)).numpy()
        assert close(output, called(mha, given, given, given)[0])


def test_a_double_projection_as_in_yolov5_is_one_layer_with_fewer_weights(torch, mha, x, rng):
    """A double projection as in YOLOv5 is one layer with fewer weights.

    Linear q, k and v without biases, and then nn.MultiheadAttention, hold 7 d² + 4 d numbers. One
    layer that computes the same holds 4 d² + 4 d.
    """
    q, k, v = (randomised(torch.nn.Linear(E, E, bias=False), rng) for _ in range(3))
    tokens = torch.from_numpy(x)
    with torch.no_grad():
        twice = mha(q(tokens), k(tokens), v(tokens))[0].numpy()

    P_Q, P_K, P_V = (linear.weight.detach().numpy().T for linear in (q, k, v))
    once = qkv.fold(loaded(mha), P_Q=P_Q, P_K=P_K, P_V=P_V)
    assert close(once(x), twice)
    modules = (q, k, v, mha)
    assert sum(p.numel() for module in modules for p in module.parameters()) == 7 * E * E + 4 * E
    assert size(once) == 4 * E * E + 4 * E

    stored = qkv.dump(once, "pytorch")
    mha.load_state_dict({name: torch.from_numpy(array) for name, array in stored.items()})
    assert close(called(mha, x, x, x)[0], twice)


def test_torch_linear_layers_fold_into_the_thirds_of_in_proj_weight(torch, mha, x, rng):
    """PyTorch's linear layers fold into the thirds of `in_proj_weight` and of `in_proj_bias`.

    A layer without biases first gives its weights to a new one, whose biases begin as zeros. Layers
    with add_bias_kv or add_zero_attn keep what it gives.
    """
    linears = [randomised(torch.nn.Linear(E, E), rng) for _ in range(3)]
    make = partial(torch.nn.MultiheadAttention, E, H, batch_first=True, dtype=torch.float64)
    plain, fresh = randomised(make(bias=False), rng), make()
    missing, _ = fresh.load_state_dict(plain.state_dict(), strict=False)
    assert missing == ["in_proj_bias", "out_proj.bias"]
    assert not fresh.in_proj_bias.any()
    assert not fresh.out_proj.bias.any()

    options = {"add_bias_kv": True}, {"add_zero_attn": True}
    folded_in_place = [mha, *(randomised(make(**each), rng) for each in options)]
    pairs = (plain, fresh), *((layer, layer) for layer in folded_in_place)
    for before, layer in pairs:
        sources = [linear(torch.from_numpy(x)).detach().numpy() for linear in linears]
        twice = called(before, *sources)[0]
        for third, linear in enumerate(linears):
            rows = slice(third * E, (third + 1) * E)
            with torch.no_grad():
                W = layer.in_proj_weight[rows].clone()
                layer.in_proj_weight[rows] = W @ linear.weight
                layer.in_proj_bias[rows] += W @ linear.bias
        assert close(called(layer, x, x, x)[0], twice)


def test_torch_without_batch_first_attends_across_the_batch_and_says_nothing(torch, mha, rng):
    """PyTorch without `batch_first` attends across the batch and says nothing.

    The default layout is (n, batch, d_model); a batch of sentences passes for one sentence.
    """
    sentences = rng.normal(size=(N_Q, N_K, E))  # batch first, as most data is
    default = torch.nn.MultiheadAttention(E, H).double().eval()
    default.load_state_dict(mha.state_dict())
    output = called(default, sentences, sentences, sentences)[0]
    meant = loaded(mha)(sentences)
    assert output.shape == meant.shape
    assert not close(output, meant)
    assert close(output, loaded(mha)(sentences.swapaxes(0, 1)).swapaxes(0, 1))
    shorter = sentences[:, :-1]  # with fewer queries than keys it does not fit
    with pytest.raises(RuntimeError, match="is invalid for input of size"):
        called(default, shorter, sentences, sentences)


# PyTorch: widths and storage


def test_torch_kdim_is_a_width_before_the_map(torch):
    """PyTorch `kdim` is a width before the map.

    kdim is the width of the source of the keys, and says nothing about the width of a head.
    """
    mha = torch.nn.MultiheadAttention(E, H, kdim=11, vdim=13)
    assert mha.k_proj_weight.shape == (E, 11)
    assert mha.v_proj_weight.shape == (E, 13)
    assert loaded(mha).W_K.shape == (H, 11, E // H)
    assert loaded(mha).W_V.shape == (H, 13, E // H)


def test_torch_heads_always_fill_embed_dim(torch):
    """PyTorch heads fill `embed_dim`, and no argument sets their width.

    nn.MultiheadAttention takes no width of a head: h·d_k is embed_dim, or there is no layer.
    """
    with pytest.raises(AssertionError, match="divisible"):
        torch.nn.MultiheadAttention(E, 5)
    parameters = inspect.signature(torch.nn.MultiheadAttention).parameters
    assert not {"head_dim", "key_dim", "d_k"} & parameters.keys()
    assert torch.nn.MultiheadAttention(E, H).head_dim == E // H  # an attribute, computed


def test_embed_dim_must_be_divisible_by_num_heads_and_the_message_says_so(torch):
    """In PyTorch embed_dim must be divisible by num_heads, and in BERT the hidden size likewise.

    Both raise an error that says so. Keras' layer takes 8 heads at the width 300.
    """
    for layer in (torch.nn.MultiheadAttention, torch.nn.TransformerEncoderLayer):
        with pytest.raises(AssertionError, match=r"^embed_dim must be divisible by num_heads$"):
            layer(300, 8)
    bert = transformers("bert")
    said = r"hidden size \(300\) is not a multiple of the number of attention heads \(8\)"
    with pytest.raises(ValueError, match=said):
        bert.BertSelfAttention(bert.BertConfig(hidden_size=300, num_attention_heads=8))
    keras = keras_library()
    source = np.ones((1, N_Q, 300), dtype="float32")
    assert keras.layers.MultiHeadAttention(8, 38)(source, source).shape == (1, N_Q, 300)


@pytest.mark.parametrize(
    ("came", "layer", "message"),
    [
        ((2, 5, 64), (512, 512), "10x64 and 512x512"),
        ((2, 8, 5, 64), (512, 512), "80x64 and 512x512"),
        ((2, 5, 512), (64, 64), "10x512 and 64x64"),
        ((2, 5, 512), (300, 512), "10x512 and 300x512"),
        ((5, 768), (2304, 768), "5x768 and 2304x768"),
    ],
)
def test_torch_linear_names_the_width_that_came_and_the_width_that_it_takes(
    torch, came, layer, message
):
    """`nn.Linear` names the width that came, and the width that it takes.

    In "mat1 and mat2 shapes cannot be multiplied" mat1 is the input with its leading axes as one,
    and mat2 is the weight as (in, out).
    """
    said = re.escape(f"mat1 and mat2 shapes cannot be multiplied ({message})")
    with pytest.raises(RuntimeError, match=said):
        torch.nn.Linear(*layer)(torch.zeros(came))


def test_past_key_values_of_llama_hold_keys_and_values_and_no_queries(torch):
    """In Llama past_key_values holds keys and values for each layer, and no queries.

    Their axes are batch, key heads, words so far and width of a head. A step with the new word
    alone adds one word, and gives the last word's output of the whole computation. In a StaticCache
    the third axis has its full length from the first call on, and get_seq_length counts the words.
    """
    llama = transformers("llama")
    sizes = {"hidden_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = llama.LlamaConfig(
        **sizes, num_hidden_layers=3, intermediate_size=8, vocab_size=11, bos_token_id=0
    )
    model, words = llama.LlamaModel(config).eval(), torch.tensor([[1, 2, 3, 4]])
    with torch.no_grad():
        whole = model(words, use_cache=False).last_hidden_state
        cache = model(words[:, :3], use_cache=True).past_key_values
        shapes = [(*layer.keys.shape, *layer.values.shape) for layer in cache.layers]
        step = model(words[:, 3:], past_key_values=cache, use_cache=True).last_hidden_state
    assert shapes == 3 * [(1, 2, 3, 6, 1, 2, 3, 6)]
    assert not any("quer" in name for layer in cache.layers for name in vars(layer))
    assert [layer.keys.shape[2] for layer in cache.layers] == [4, 4, 4]
    assert_allclose(step.numpy(), whole[:, 3:].numpy(), atol=1e-5)
    static = pytest.importorskip("transformers").StaticCache(config=config, max_cache_len=9)
    assert [layer.keys for layer in static.layers] == [None, None, None]
    with torch.no_grad():
        model(words[:, :3], past_key_values=static, use_cache=True)
        assert [layer.keys.shape[2] for layer in static.layers] == [9, 9, 9]
        step = model(words[:, 3:], past_key_values=static, use_cache=True).last_hidden_state
    assert [layer.keys.shape[2] for layer in static.layers] == [9, 9, 9]
    assert static.get_seq_length() == 4
    assert_allclose(step.numpy(), whole[:, 3:].numpy(), atol=1e-5)


def test_llama_a_cache_keeps_older_angles_if_they_depend_on_the_length(torch):
    """Llama with rope_type "dynamic": a long text has other outputs with a cache than at once.

    The angles depend on the length of the text, and kept keys have those of a shorter one.
    """
    llama = transformers("llama")
    sizes = {"hidden_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2}
    sizes |= {"num_hidden_layers": 2, "intermediate_size": 8, "vocab_size": 11, "bos_token_id": 0}
    words, apart = torch.arange(20)[None] % 11, {}
    for kind in ("default", "dynamic"):
        rope = {"rope_type": kind, "rope_theta": 1e4} | (
            {"factor": 4.0} if kind == "dynamic" else {}
        )
        config = llama.LlamaConfig(
            **sizes, max_position_embeddings=8, rope_parameters=rope, initializer_range=0.5
        )
        torch.manual_seed(0)
        model = llama.LlamaModel(config).eval()
        with torch.no_grad():
            cache = None
            for word in words.split(1, dim=1):
                step = model(word, past_key_values=cache, use_cache=True)
                cache = step.past_key_values
            whole = model(words, use_cache=False).last_hidden_state[:, -1:]
        apart[kind] = (step.last_hidden_state - whole).abs().max().item()
    assert apart["default"] < 1e-4 < 0.1 < apart["dynamic"]


def test_not_each_layer_keeps_keys_and_values_of_its_own(torch):
    """Of Qwen3-Next's 48 layers 12 keep keys and values, of Gemma 3n's 35 layers 20, by default.

    Three layers of four in Qwen3-Next have linear attention. In Gemma 3n the last 15 use keys and
    values of an earlier layer. A layer with a window keeps those of the last words alone.

    Covers: the numbers of layers in the default configurations; a small Gemma 3n, 2 of 4 layers.
    """
    qwen = transformers("qwen3_next").Qwen3NextConfig()
    assert (len(qwen.layer_types), qwen.layer_types.count("full_attention")) == (48, 12)
    library = transformers("gemma3n")
    gemma = library.Gemma3nTextConfig()
    assert (gemma.num_hidden_layers, gemma.num_kv_shared_layers) == (35, 15)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8}
    sizes |= {"intermediate_size": 8, "vocab_size": 11, "vocab_size_per_layer_input": 11}
    sizes |= {"hidden_size_per_layer_input": 8, "laurel_rank": 2, "pad_token_id": 0}
    small = library.Gemma3nTextConfig(
        **sizes,
        num_hidden_layers=4,
        num_kv_shared_layers=2,
        sliding_window=4,
        layer_types=2 * ["sliding_attention", "full_attention"],
        activation_sparsity_pattern=4 * [0.0],
    )
    with torch.no_grad():
        model = library.Gemma3nTextModel(small).eval()
        cache = model(torch.arange(3, 10)[None], use_cache=True).past_key_values
    kept = [getattr(layer, "keys", None) is not None for layer in cache.layers]
    assert kept == [True, True, False, False]
    assert [layer.keys.shape[2] for layer in cache.layers[:2]] == [3, 7]


def test_past_key_values_of_deepseek_v3_hold_the_latent_and_the_rotated_key(torch):
    """In DeepSeek-V3 past_key_values holds the latent and the rotated key, once for all heads.

    In Qwen3-Next three layers of four have linear attention, and keep a state in place of keys.
    """
    sizes = {"hidden_size": 24, "num_attention_heads": 3, "num_key_value_heads": 3}
    sizes |= {"intermediate_size": 8, "vocab_size": 11, "bos_token_id": 0, "eos_token_id": 1}
    latents = {"q_lora_rank": 8, "kv_lora_rank": 6, "qk_rope_head_dim": 4, "qk_nope_head_dim": 10}
    deepseek = transformers("deepseek_v3")
    config = deepseek.DeepseekV3Config(
        **sizes, **latents, v_head_dim=7, num_hidden_layers=2, first_k_dense_replace=2
    )
    words = torch.tensor([[1, 2, 3, 4, 5]])
    with torch.no_grad():
        cache = deepseek.DeepseekV3Model(config).eval()(words, use_cache=True).past_key_values
    for layer in cache.layers:
        assert (*layer.keys.shape, *layer.values.shape) == (1, 1, 5, 6, 1, 1, 5, 4)

    qwen = transformers("qwen3_next")
    linear = {"linear_num_key_heads": 1, "linear_num_value_heads": 1}
    linear |= {"linear_key_head_dim": 8, "linear_value_head_dim": 8}
    config = qwen.Qwen3NextConfig(**sizes, **linear, head_dim=8, num_hidden_layers=4, num_experts=0)
    with torch.no_grad():
        cache = qwen.Qwen3NextModel(config).eval()(words, use_cache=True).past_key_values
    holds_keys = [torch.is_tensor(getattr(layer, "keys", None)) for layer in cache.layers]
    assert holds_keys == [False, False, False, True]
    assert all(torch.is_tensor(layer.recurrent_states[0]) for layer in cache.layers[:3])


def test_flax_nnx_computes_head_dim_and_takes_no_argument_for_it():
    """Flax nnx computes head dim and takes no argument for it."""
    nnx = pytest.importorskip("flax.nnx")
    layer = nnx.MultiHeadAttention(H, 11, qkv_features=E, decode=False, rngs=nnx.Rngs(0))
    assert layer.head_dim == E // H
    assert "head_dim" not in inspect.signature(nnx.MultiHeadAttention).parameters


def test_torch_stores_w_q_of_a_head_as_transposed_rows(mha):
    """PyTorch stores W_Q of a head as transposed rows.

    Head i's W_Q is in_proj_weight[i·d_k : (i+1)·d_k], transposed; keys and values follow.
    """
    weight, bias = mha.in_proj_weight.detach().numpy(), mha.in_proj_bias.detach().numpy()
    mh = loaded(mha)
    thirds = (mh.W_Q, mh.b_Q), (mh.W_K, mh.b_K), (mh.W_V, mh.b_V)
    for third, (W, b) in enumerate(thirds):
        for i in range(H):
            rows = slice(third * E + i * D_K, third * E + (i + 1) * D_K)
            assert_array_equal(W[i], weight[rows].T)
            assert_array_equal(b[i], bias[rows])


def test_torch_in_proj_weight_holds_three_maps_in_cross_attention_too(torch, rng, x, y):
    """PyTorch: `in_proj_weight` holds the three maps in cross-attention, too.

    So it does in a decoder's layer. It is cut: the source of the queries meets the first third.
    """
    decoder = torch.nn.TransformerDecoderLayer(E, H, batch_first=True)
    cross = randomised(decoder.multihead_attn, rng)
    weight, bias = cross.in_proj_weight.detach().numpy(), cross.in_proj_bias.detach().numpy()
    assert weight.shape == (3 * E, E)
    Q, K, V = (
        (source @ W.T + b).reshape(-1, H, D_K).swapaxes(0, 1)
        for source, W, b in zip((x, y, y), np.split(weight, 3), np.split(bias, 3), strict=True)
    )
    joined = qkv.attention(Q, K, V).swapaxes(0, 1).reshape(1, N_Q, E)
    with torch.no_grad():
        expected = cross.out_proj(torch.from_numpy(joined))
    assert close(called(cross, x, y, y)[0], expected)


def test_torch_packing_the_three_projections_makes_their_first_weights_smaller(torch):
    """PyTorch packing the three projections makes their first weights smaller.

    Xavier's rule sees a (3E, E) matrix where the same three maps stored apart are (E, E).
    """
    torch.manual_seed(0)
    packed = torch.nn.MultiheadAttention(256, 8).in_proj_weight
    separate = torch.nn.MultiheadAttention(256, 8, kdim=255).q_proj_weight

    def xavier(fan_out, fan_in):
        return (2 / (fan_in + fan_out)) ** 0.5

    assert packed.std().item() == pytest.approx(xavier(3 * 256, 256), rel=0.01)
    assert separate.std().item() == pytest.approx(xavier(256, 256), rel=0.01)


def test_torch_linear_layers_draw_their_first_weights_by_their_inputs_alone(torch):
    """The number of inputs alone sets how large a PyTorch linear layer's first weights are.

    A head's rows of a square start as large as a layer of their own; its columns start smaller.
    """
    torch.manual_seed(0)
    square, own = torch.nn.Linear(512, 512), torch.nn.Linear(512, 64)
    for weight in (square.weight, square.weight[:64], square.weight[:, :64], own.weight):
        assert weight.std().item() == pytest.approx((3 * 512) ** -0.5, rel=0.02)
    of_output = torch.nn.Linear(64, 512)
    assert of_output.weight.std().item() == pytest.approx((3 * 64) ** -0.5, rel=0.02)


def test_torch_linear_layers_shorten_vectors_by_the_root_of_3_at_first(torch):
    """A fresh nn.Linear(512, 512) of PyTorch divides a spread of one by about the root of 3.

    With its bias or without: by 1.73, within 2 %. The numbers of the tokens are independent.
    """
    torch.manual_seed(0)
    tokens = torch.randn(2000, 512)
    for bias in (True, False):
        with torch.no_grad():
            mapped = torch.nn.Linear(512, 512, bias=bias)(tokens)
        assert tokens.std() / mapped.std() == pytest.approx(3**0.5, rel=0.02)


def test_torch_scores_start_at_half_a_unit(torch):
    """Scores of a fresh PyTorch layer, 512 wide, have a standard deviation of about 0.5.

    They are divided scores of nn.MultiheadAttention(512, 8) for tokens of variance one. With two
    fresh nn.Linear(512, 512) it is about a third. With vdim=256 the layer's weights are stored
    apart, and it is about one.
    """
    torch.manual_seed(0)
    in_proj = torch.nn.MultiheadAttention(512, 8).in_proj_weight.detach()
    apart = torch.nn.MultiheadAttention(512, 8, vdim=256)
    two = torch.cat([apart.q_proj_weight, apart.k_proj_weight]).detach()
    for weights, expected in (in_proj[:1024], 0.5), (two, 1):
        queries, keys = (torch.randn(1000, 512) @ weights.T).chunk(2, dim=-1)
        scores = queries[:, :64] @ keys[:, :64].T / 64**0.5
        assert scores.std().item() == pytest.approx(expected, rel=0.05)
    with torch.no_grad():
        queries, keys = (torch.nn.Linear(512, 512)(torch.randn(1000, 512)) for _ in range(2))
    scores = queries[:, :64] @ keys[:, :64].T / 64**0.5
    assert scores.std().item() == pytest.approx(1 / 3, rel=0.05)


def test_torch_embeddings_start_with_variance_one(torch):
    """PyTorch embeddings start with variance one.

    Multiplied by √512, as the paper's section 3.4 does, their standard deviation is 22.6.
    """
    torch.manual_seed(0)
    first = torch.nn.Embedding(1000, 512).weight
    assert first.std().item() == pytest.approx(1, rel=0.01)
    assert (512**0.5 * first.std()).item() == pytest.approx(22.6, abs=0.1)


def test_packing_changes_the_steps_of_muon_and_adafactor_but_not_those_of_sgd_and_adam(torch):
    """Packing changes the steps of muon and adafactor but not those of sgd and adam.

    With the same gradients, three weights and their packed one part ways under Muon.
    """
    torch.manual_seed(0)
    start, *gradients = torch.randn(4, 192, 64, dtype=torch.float64)

    def trained(optimiser, pieces):
        parts = [torch.nn.Parameter(part.clone()) for part in start.chunk(pieces)]
        stepping = getattr(torch.optim, optimiser)(parts, lr=0.01)
        for gradient in gradients:
            for part, its_gradient in zip(parts, gradient.chunk(pieces), strict=True):
                part.grad = its_gradient.clone()
            stepping.step()
        return torch.cat([part.detach() for part in parts])

    apart = {}
    for optimiser in ("SGD", "Adam", "Muon", "Adafactor"):
        packed, separate = trained(optimiser, 1), trained(optimiser, 3)
        apart[optimiser] = (packed - separate).abs().max() / (packed - start).abs().max()
    assert apart["SGD"] == apart["Adam"] == 0
    assert apart["Muon"] > 0.1
    assert apart["Adafactor"] > 0.05


def test_torch_w_o_is_transposed_and_cut_into_blocks_of_its_columns(mha, x):
    """PyTorch: a head's W_O is a block of columns of `out_proj.weight`, transposed.

    Head i meets out_proj.weight[:, i·d_k : (i+1)·d_k], transposed; the products add up.
    """
    output, A = called(mha, x, x, x, average_attn_weights=False)
    W_out, b_out = (part.detach().numpy() for part in (mha.out_proj.weight, mha.out_proj.bias))
    _, _, values = np.split(x @ mha.in_proj_weight.detach().numpy().T, 3, axis=-1)
    values = values + mha.in_proj_bias.detach().numpy()[2 * E :]
    of_heads = 0
    for i in range(H):
        columns = slice(i * D_K, (i + 1) * D_K)
        of_heads = of_heads + A[:, i] @ values[..., columns] @ W_out[:, columns].T
    assert close(of_heads + b_out, output)


def test_torch_without_bias_has_no_output_bias_either(torch):
    """PyTorch without bias has no output bias either."""
    state = torch.nn.MultiheadAttention(E, H, bias=False).state_dict()
    assert state.keys() == {"in_proj_weight", "out_proj.weight"}


def test_view_to_heads_first_is_wrong_without_an_error(torch, rng):
    """PyTorch's `view` from (n, h·d_k) to (h, n, d_k) cuts tokens, not heads, without an error.

    It has to be cut to (n, h, d_k) first, and then turned.

    Covers: 6 tokens and 2 heads.
    """
    n, h, d_k = 6, 2, 3
    projected = torch.from_numpy(rng.normal(size=(1, n, h * d_k)))
    right = projected.view(1, n, h, d_k).transpose(1, 2)
    wrong = projected.view(1, h, n, d_k)
    assert wrong.shape == right.shape
    assert torch.equal(right[0, 0], projected[0, :, :d_k])
    first_tokens = projected[0, : n // h]  # all their features, all heads
    assert torch.equal(wrong[0, 0].flatten(), first_tokens.flatten())


def test_torch_view_fails_after_a_transpose_and_reshape_does_not(torch, rng):
    """PyTorch `view` fails after a transpose of heads and tokens, and `reshape` does not.

    `reshape` and `contiguous().view` give the same numbers; `view` without the transpose gives
    others.
    """
    heads = torch.from_numpy(rng.normal(size=(1, H, N_Q, D_K)))
    turned = heads.transpose(1, 2)
    with pytest.raises(RuntimeError, match="view size is not compatible with input tensor's size"):
        turned.view(1, N_Q, H * D_K)
    joined = turned.reshape(1, N_Q, H * D_K)
    assert torch.equal(joined, turned.contiguous().view(1, N_Q, H * D_K))
    assert torch.equal(joined, torch.cat([*heads[0]], dim=-1)[None])
    assert not torch.allclose(joined, heads.view(1, N_Q, H * D_K))


def test_torch_fused_attention_to_one_key_leaves_rounding_in_place_of_a_zero_gradient(torch):
    """PyTorch's fused attention to one key leaves rounding in place of a gradient of zero.

    The gradient of the queries is far below that of the values. By hand it is exactly 0.
    """
    largest = {}
    for name in ("fused", "by hand"):
        torch.manual_seed(0)
        q, k, v = (torch.randn(3, 4, n, 16, requires_grad=True) for n in (5, 1, 1))
        weights = (q @ k.transpose(-1, -2) / 4).softmax(-1)
        fused = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        heads = fused if name == "fused" else weights @ v
        (heads * torch.randn_like(heads)).sum().backward()
        largest[name] = [each.grad.abs().max().item() for each in (q, v)]
    of_q, of_v = largest["fused"]
    assert 0 < of_q < 1e-5 * of_v
    assert largest["by hand"][0] == 0


@pytest.mark.parametrize("masked", [False, True])
def test_torch_view_may_join_the_heads_of_its_fused_attention(torch, rng, masked):
    """PyTorch `view` may join the heads of its fused attention, whose numbers stand token by token.

    Their order in memory is that of a right join: there `view` without the transpose fails, and
    `reshape` without it copies, into a wrong order.
    """
    q, k, v = (
        torch.from_numpy(rng.normal(size=(2, N_Q, H, 8)).astype(np.float32)).transpose(1, 2)
        for _ in range(3)
    )
    mask = torch.ones(N_Q, N_Q, dtype=torch.bool).tril() if masked else None
    heads = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    joined = heads.transpose(1, 2).view(2, N_Q, H * 8)
    assert torch.equal(joined, torch.cat([*heads.unbind(dim=1)], dim=-1))
    with pytest.raises(RuntimeError, match="view size is not compatible with input tensor's size"):
        heads.view(2, N_Q, H * 8)
    assert not torch.allclose(heads.reshape(2, N_Q, H * 8), joined)


def test_torch_einsum_sums_a_letter_of_one_input_alone(torch, rng):
    """PyTorch `einsum` sums a letter of one input alone, if the output does not have it.

    Weights (b, h, q, k) and values (b, v, h, d) give the sum of the values, for each query.
    """
    A = torch.from_numpy(rng.dirichlet(np.ones(N_K), size=(2, H, N_Q)))
    V = torch.from_numpy(rng.normal(size=(2, N_K, H, D_K)))
    summed = torch.einsum("bhqk,bvhd->bqhd", A, V)
    assert close(summed, V.sum(dim=1, keepdim=True))
    right = torch.einsum("bhqk,bkhd->bqhd", A, V)
    assert close(right, (A @ V.transpose(1, 2)).transpose(1, 2))


def test_torch_scales_padded_heads_by_the_padded_width_unless_told(torch, rng):
    """PyTorch `scaled_dot_product_attention` scales padded heads by the padded width by default.

    Heads that are 80 wide, padded by zeros to 128, give the right output with scale=80**-0.5.
    """
    Q, K, V = (torch.from_numpy(rng.normal(size=(1, H, N_Q, 80))) for _ in "QKV")
    attend = torch.nn.functional.scaled_dot_product_attention
    right = attend(Q, K, V)
    padded = [torch.nn.functional.pad(each, (0, 128 - 80)) for each in (Q, K, V)]
    by_default, told = attend(*padded), attend(*padded, scale=80**-0.5)
    assert close(told[..., :80], right)
    assert not told[..., 80:].any()
    assert (by_default[..., :80] - right).abs().max() > 1e-2
    assert close(by_default[..., :80], attend(Q, K, V, scale=128**-0.5))


def test_torch_grouped_heads_repeat_each_key_head_before_the_next(torch, rng):
    """PyTorch grouped heads repeat each key head before the next.

    Query head i uses key head i // (h // h_kv), not i modulo h_kv; Llama's repeat_kv agrees.
    """
    h, h_kv = 6, 2
    Q = rng.normal(size=(1, h, N_Q, D_K))
    K, V = rng.normal(size=(2, 1, h_kv, N_K, D_K))
    tensors = [torch.from_numpy(array) for array in (Q, K, V)]
    grouped = torch.nn.functional.scaled_dot_product_attention(*tensors, enable_gqa=True)
    assert close(grouped, qkv.attention(Q, K.repeat(3, axis=1), V.repeat(3, axis=1)))
    assert not close(grouped, qkv.attention(Q, np.tile(K, (1, 3, 1, 1)), np.tile(V, (1, 3, 1, 1))))
    assert_array_equal(transformers("llama").repeat_kv(tensors[1], 3), K.repeat(3, axis=1))


# PyTorch: biases


def test_torch_key_bias_has_no_effect_and_no_gradient(torch, mha, x, y, rng):
    """PyTorch's key bias has no effect and no gradient by default; beside an added key it has both.

    `add_bias_kv` and `add_zero_attn` add a key after the projection, so it has no key bias.
    """
    before = called(mha, x, y, y)
    X, Y = torch.from_numpy(x), torch.from_numpy(y)
    mha(X, Y, Y)[0].square().sum().backward()
    query, key, value = mha.in_proj_bias.grad.reshape(3, E).abs().amax(dim=1)
    assert key < 1e-12
    assert query > 1e-3
    assert value > 1e-3

    with torch.no_grad():
        mha.in_proj_bias[E : 2 * E] += 10
    output, weights = called(mha, x, y, y)
    assert close(output, before[0])
    assert close(weights, before[1])
    with torch.no_grad():
        mha.in_proj_bias[:E] += 10
    assert not close(called(mha, x, y, y)[0], before[0])

    for added_key in ({"add_bias_kv": True}, {"add_zero_attn": True}):
        layer = randomised(torch.nn.MultiheadAttention(E, H, batch_first=True, **added_key), rng)
        output = layer(X, Y, Y)[0]
        output.square().sum().backward()
        assert layer.in_proj_bias.grad[E : 2 * E].abs().max() > 1e-3
        with torch.no_grad():
            layer.in_proj_bias[E : 2 * E] += 1
            assert (layer(X, Y, Y)[0] - output).abs().max() > 1e-3


def test_torch_key_bias_wanders_in_float32_under_adam_and_still_has_no_effect(torch):
    """PyTorch key bias wanders in float32 under adam and still has no effect.

    Its gradient is rounding noise, which Adam scales up; with SGD it stays where it was.
    """

    def trained(optimiser):
        torch.manual_seed(0)
        layer = torch.nn.MultiheadAttention(16, 2, batch_first=True)
        tokens, wanted = torch.randn(2, 4, 10, 16)
        assert layer.in_proj_bias.eq(0).all()  # as PyTorch starts it
        stepping = optimiser(layer.parameters(), lr=1e-3)
        for _ in range(100):
            stepping.zero_grad()
            (layer(tokens, tokens, tokens)[0] - wanted).square().sum().backward()
            stepping.step()
        return layer, tokens

    of_sgd, _ = trained(torch.optim.SGD)
    of_adam, tokens = trained(torch.optim.Adam)
    assert of_sgd.in_proj_bias[16:32].abs().max() < 1e-6
    assert of_adam.in_proj_bias[16:32].abs().max() > 1e-3
    with torch.no_grad():
        before = of_adam(tokens, tokens, tokens)[0]
        of_adam.in_proj_bias[16:32] = 0
        assert torch.allclose(of_adam(tokens, tokens, tokens)[0], before, rtol=0, atol=1e-6)


def test_torch_value_bias_passes_through_to_the_output(torch, mha, x, y, rng):
    """PyTorch's value bias passes through to the output by default, and not beside an added value.

    Each row of weights sums to one, so b_V reaches every output alike and could stand in b_O. With
    `add_bias_kv` or `add_zero_attn` the weights of the values that have the bias sum to less.
    """
    blocked = rng.random((N_Q, N_K)) < 0.5
    blocked[:, 0] = False
    mh = loaded(mha)
    before, _ = called(mha, x, y, y, attn_mask=blocked)
    with torch.no_grad():
        mha.in_proj_bias[2 * E :] = 0
    after, _ = called(mha, x, y, y, attn_mask=blocked)
    assert close(before - after, (mh.b_V[:, None] @ mh.W_O).sum(axis=0))

    for added_key in ({"add_bias_kv": True}, {"add_zero_attn": True}):
        layer = randomised(torch.nn.MultiheadAttention(E, H, batch_first=True, **added_key), rng)
        before, _ = called(layer, x, y, y)
        with torch.no_grad():
            layer.in_proj_bias[2 * E :] = 0
        added = before - called(layer, x, y, y)[0]
        assert np.ptp(added, axis=1).max() > 0.01  # another one for each query


def test_torch_bias_k_is_a_token_and_no_bias(torch, x, y, rng):
    """PyTorch `bias_k` is a token and no bias.

    add_bias_kv appends one learned key and value: the weights gain a column.
    """
    mha = randomised(torch.nn.MultiheadAttention(E, H, add_bias_kv=True, batch_first=True), rng)
    output, weights = called(mha, x, y, y)
    assert weights.shape == (1, N_Q, N_K + 1)

    state = mha.state_dict()
    extra_key, extra_value = (
        state.pop(name).numpy().reshape(1, H, 1, D_K) for name in ("bias_k", "bias_v")
    )
    mh = qkv.load(state, "pytorch", h=H)
    Q, K, V = mh.project(x, y)
    K, V = np.concatenate([K, extra_key], axis=-2), np.concatenate([V, extra_value], axis=-2)
    assert close((qkv.attention(Q, K, V) @ mh.W_O).sum(axis=-3) + mh.b_O, output)


# PyTorch: masks and weights


def test_torch_multihead_attention_and_scaled_dot_product_attention_read_masks_inversely(
    torch, mha, x, y, rng
):
    """PyTorch `MultiheadAttention` and `scaled_dot_product_attention` read True in opposite ways.

    In a boolean mask True forbids in nn.MultiheadAttention and allows in the function.
    """
    mask = rng.random((N_Q, N_K)) < 0.5
    mask[:, 0], mask[:, 1] = True, False
    assert close(called(mha, x, y, y, attn_mask=~mask)[0], loaded(mha)(x, y, mask=mask))

    Q, K, V = loaded(mha).project(x, y)
    heads = torch.nn.functional.scaled_dot_product_attention(
        *map(torch.from_numpy, (Q, K, V)), attn_mask=torch.from_numpy(mask)
    )
    assert close(heads, qkv.attention(Q, K, V, mask=mask))


def test_torch_adds_a_mask_of_floats_so_zero_allows(torch, mha, x, y, rng):
    """PyTorch adds a mask of floats to the scores, so 0.0 allows, and −∞ hides.

    So do attn_mask and key_padding_mask of nn.MultiheadAttention, and attn_mask of
    scaled_dot_product_attention.
    """
    added = rng.normal(size=(N_Q, N_K))
    added[:, 0], added[:, 1] = 0, -np.inf
    Q, K, V = loaded(mha).project(x, y)
    scores = Q @ K.swapaxes(-1, -2) / np.sqrt(D_K)

    per_head = called(mha, x, y, y, attn_mask=added, average_attn_weights=False)[1]
    assert close(per_head, qkv.softmax(scores + added))
    heads = torch.nn.functional.scaled_dot_product_attention(
        *map(torch.from_numpy, (Q, K, V)), attn_mask=torch.from_numpy(added)
    )
    assert close(heads, qkv.softmax(scores + added) @ V)

    padding = np.where(np.arange(N_K) == 1, -np.inf, 0.0)
    of_keys = np.broadcast_to(padding, (len(y), N_K)).copy()
    per_head = called(mha, x, y, y, key_padding_mask=of_keys, average_attn_weights=False)[1]
    assert close(per_head, qkv.softmax(scores + padding))


def test_torch_hides_a_key_that_either_of_two_masks_hides(mha, x, y, rng):
    """PyTorch's layer hides a key that `attn_mask` or `key_padding_mask` hides.

    Both are masks of True and False, and True hides in both.
    """
    of_pairs, of_keys = rng.random((N_Q, N_K)) < 0.5, np.zeros((len(y), N_K), dtype=bool)
    of_pairs[:, 0], of_pairs[:, 1], of_keys[:, 1] = False, False, True
    output, _ = called(mha, x, y, y, attn_mask=of_pairs, key_padding_mask=of_keys)
    hidden = of_pairs | of_keys
    assert close(output, loaded(mha)(x, y, mask=~hidden))
    assert not close(output, loaded(mha)(x, y, mask=~of_pairs))


def test_torch_mask_with_three_axes_is_per_head(mha, rng):
    """A mask with three axes for PyTorch's layer is per head.

    Its first axis is batch·h with the heads of one sentence together, not the batch.
    """
    batch = 3
    x = rng.normal(size=(batch, N_Q, E))
    per_sentence = np.zeros((batch, N_Q, N_Q), dtype=bool)
    with pytest.raises(RuntimeError, match=r"3D attn_mask"):
        called(mha, x, x, x, attn_mask=per_sentence)

    blocked = np.zeros((batch * H, N_Q, N_Q), dtype=bool)
    blocked[1 * H + 0, :, 4] = True
    _, weights = called(mha, x, x, x, attn_mask=blocked, average_attn_weights=False)
    assert_array_equal(np.argwhere((weights[..., 4] == 0).all(axis=-1)), [[1, 0]])


def test_torch_returns_the_mean_of_the_heads_weights(mha, x, y):
    """PyTorch's layer by default returns the mean of the heads' weights.

    Weights per head have to be asked for: average_attn_weights=False.
    """
    _, mean = called(mha, x, y, y)
    _, per_head = called(mha, x, y, y, average_attn_weights=False)
    assert mean.shape == (1, N_Q, N_K)
    assert per_head.shape == (1, H, N_Q, N_K)
    assert close(mean, per_head.mean(axis=1))
    mha.dropout = 0.5
    _, in_training = called(mha.train(), x, y, y, average_attn_weights=False)
    kept = in_training != 0
    assert 0 < kept.sum() < kept.size
    assert close(in_training[kept], 2 * per_head[kept])


def test_torch_answers_a_fully_masked_query_with_nan_or_with_the_output_bias(torch, mha, x):
    """PyTorch answers a fully masked query with NaN or with the output bias.

    NaN where weights are asked for and on the fast path of inference, b_O otherwise. The fast path
    takes neither batch_first=False nor an odd number of heads nor another source of keys, no mask
    of floats, no source without batch, no layer without biases. Such a layer gives zeros.
    """
    X = torch.from_numpy(x)
    blocked = torch.zeros((N_Q, N_Q), dtype=torch.bool)
    blocked[1] = True
    with_weights, _ = mha(X, X, X, attn_mask=blocked)
    without, _ = mha(X, X, X, attn_mask=blocked, need_weights=False)
    with torch.no_grad():
        fast, _ = mha(X, X, X, attn_mask=blocked, need_weights=False)
    assert with_weights[0, 1].isnan().all()
    assert fast[0, 1].isnan().all()
    assert close(without.detach()[0, 1], mha.out_proj.bias.detach())
    assert close(without.detach(), loaded(mha)(x, mask=~blocked.numpy()))

    tokens_first = torch.nn.MultiheadAttention(E, H).double().eval()
    odd = torch.nn.MultiheadAttention(E, 3, batch_first=True).double().eval()
    for layer, keys in ((tokens_first, X), (odd, X), (mha, X.clone())):
        layer.load_state_dict(mha.state_dict())
        sources = (X, keys, keys)
        if layer is tokens_first:
            sources = [source.transpose(0, 1) for source in sources]
        with torch.no_grad():
            slow, _ = layer(*sources, attn_mask=blocked, need_weights=False)
        assert close(slow.reshape(N_Q, E)[1], mha.out_proj.bias.detach())

    of_floats = torch.zeros((N_Q, N_Q), dtype=X.dtype).masked_fill(blocked, float("-inf"))
    for source, mask in ((X, of_floats), (X[0], blocked)):
        with torch.no_grad():
            slow, _ = mha(source, source, source, attn_mask=mask, need_weights=False)
        assert close(slow.reshape(N_Q, E)[1], mha.out_proj.bias.detach())
    unbiased = torch.nn.MultiheadAttention(E, H, bias=False, batch_first=True).double().eval()
    with torch.no_grad():
        output, _ = unbiased(X, X, X, attn_mask=blocked, need_weights=False)
    assert_array_equal(output[0, 1], 0)


def test_libraries_disagree_about_a_query_that_may_attend_to_nothing(torch, keras, rng, x):
    """Libraries disagree about a query that may attend to nothing.

    scaled_dot_product_attention gives zeros, Flax a mean of all values, Keras three answers. Linen
    in float64 with its softmax in float32 gives NaN.
    """
    mask = np.ones((1, N_Q, N_Q), dtype=bool)
    mask[0, 1] = False
    X, allowed = torch.from_numpy(x), torch.from_numpy(mask)
    attended = torch.nn.functional.scaled_dot_product_attention(X, X, X, attn_mask=allowed)
    assert_array_equal(attended[0, 1], 0)
    assert_array_equal(qkv.attention(x, x, x, mask=mask)[0, 1], 0)

    attention = pytest.importorskip("flax.linen").dot_product_attention
    with in_float64():
        one_head = x[:, :, None]
        attended = attention(one_head, one_head, one_head, mask=mask[:, None])[:, :, 0]
        by_float32 = attention(
            one_head, one_head, one_head, mask=mask[:, None], force_fp32_for_softmax=True
        )[:, :, 0]
        by_nnx = pytest.importorskip("flax.nnx").dot_product_attention(
            one_head, one_head, one_head, mask=mask[:, None]
        )[:, :, 0]
    assert close(attended[0, 1], x[0].mean(axis=0))
    assert np.isnan(by_float32[0, 1]).all()
    assert np.allclose(by_nnx[0, 1], x[0].mean(axis=0), rtol=0, atol=1e-6)  # in float32

    layer = keras_layer(keras, rng)
    mh = qkv.load(layer.get_weights(), "keras", h=H)
    _, _, V = mh.project(x)
    mean = (V.mean(axis=-2, keepdims=True) @ mh.W_O).sum(axis=1)[0, 0] + mh.b_O
    default = layer(x, x, attention_mask=mask)
    asked, _ = layer(x, x, attention_mask=mask, return_attention_scores=True)
    assert np.allclose(keras.ops.convert_to_numpy(default)[0, 1], mean, atol=1e-5)
    assert close(keras.ops.convert_to_numpy(asked)[0, 1], mh.b_O)
    with_dropout = keras_layer(keras, rng, dropout=0.5)
    output = with_dropout(x, x, attention_mask=mask, training=False)
    output_bias = with_dropout.get_weights()[-1]
    assert np.allclose(keras.ops.convert_to_numpy(output)[0, 1], output_bias, atol=1e-6)

    for dtype in ("float32", "float16"):
        layer = keras_layer(keras, rng, dtype=dtype)
        mh = qkv.load(layer.get_weights(), "keras", h=H)
        _, _, V = mh.project(x.astype(dtype))
        mean = (V.mean(axis=-2, keepdims=True) @ mh.W_O).sum(axis=1)[0, 0] + mh.b_O
        masked, unmasked = (
            keras.ops.convert_to_numpy(layer(x, x, **options))[0, 1]
            for options in ({"attention_mask": mask}, {})
        )
        asked, _ = layer(x, x, attention_mask=mask, return_attention_scores=True)
        half = dtype == "float16"
        assert np.allclose(masked, mean, atol=1e-2) != half
        assert np.allclose(masked, unmasked, atol=1e-1) == half
        assert np.allclose(keras.ops.convert_to_numpy(asked)[0, 1], mh.b_O, atol=1e-2)


# PyTorch: what a layer's weights leave open


def test_torch_output_survives_a_change_of_basis_of_queries_and_keys(torch, mha, x, y, rng):
    """PyTorch output survives a change of basis of queries and keys.

    W_Q A and W_K A⁻ᵀ give the same scores, so a head's W_Q is one of many.
    """
    before, _ = called(mha, x, y, y)
    changed = qkv.maps.gauge(loaded(mha), A=rng.normal(size=(H, D_K, D_K)))
    assert not close(changed.W_Q, loaded(mha).W_Q)
    state = qkv.dump(changed, "pytorch")
    mha.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
    assert_allclose(called(mha, x, y, y)[0], before, rtol=0, atol=1e-10)


# PyTorch: gradients, and what goes into a layer


def test_torch_gradient_of_w_q_is_that_of_the_formula(torch, mha, x, y, rng):
    """PyTorch's gradient of W_Q is X^T dS K, with dS = A (dA − the sum of A dA over keys) / √d_k.

    Covers: `nn.MultiheadAttention` in float64, 2 heads, 5 queries and 7 keys.
    """
    G = rng.normal(size=(1, N_Q, E))
    X, Y = torch.from_numpy(x), torch.from_numpy(y)
    (mha(X, Y, Y)[0] * torch.from_numpy(G)).sum().backward()
    mh = loaded(mha)
    Q, K, V = mh.project(x, y, y)
    _, A = qkv.attention(Q, K, V, return_weights=True)
    dA = G[:, None] @ mh.W_O.swapaxes(1, 2) @ V.swapaxes(-1, -2)  # (1, h, n_q, n_k)
    dS = A * (dA - (A * dA).sum(axis=-1, keepdims=True)) / D_K**0.5
    dW_Q = x[:, None].swapaxes(-1, -2) @ dS @ K  # (1, h, d_model, d_k)
    assert close(mha.in_proj_weight.grad[:E], dW_Q[0].swapaxes(1, 2).reshape(E, E))


def test_torch_one_key_gives_w_q_and_w_k_no_gradient_and_one_query_does(torch, mha, x):
    """PyTorch's layer gives W_Q and W_K a gradient of zero with one key, and not with one query.

    W_V and W_O have a gradient in both cases.
    Covers: `nn.MultiheadAttention` in float64: one token that attends to itself, one query that
    attends to five.
    """
    X = torch.from_numpy(x)
    largest = {}
    for case, sources in {"one key": (X[:, :1],) * 3, "one query": (X[:, :1], X, X)}.items():
        mha.zero_grad()
        mha(*sources)[0].square().sum().backward()
        grads = (*mha.in_proj_weight.grad.chunk(3), mha.out_proj.weight.grad)
        largest[case] = [float(grad.abs().max()) for grad in grads]
    assert max(largest["one key"][:2]) < 1e-12
    assert min(largest["one key"][2:]) > 1e-3
    assert min(largest["one query"]) > 1e-3


def test_torch_zero_output_weight_gives_q_k_and_v_no_gradient(torch, mha, x):
    """PyTorch's layer with an output weight of zero gives W_Q, W_K and W_V no gradient.

    The output weight has one. After a step of gradient descent all have one.
    Covers: `nn.MultiheadAttention` in float64, and a loss that is not zero for this output.
    """
    torch.nn.init.zeros_(mha.out_proj.weight)
    X = torch.from_numpy(x)

    def gradients():
        mha.zero_grad()
        (mha(X, X, X)[0] - X).square().sum().backward()
        grads = (*mha.in_proj_weight.grad.chunk(3), mha.out_proj.weight.grad)
        return [float(grad.abs().max()) for grad in grads]

    *of_Q_K_and_V, of_W_O = gradients()
    assert of_Q_K_and_V == [0, 0, 0]
    assert of_W_O > 1e-3
    torch.optim.SGD(mha.parameters(), lr=0.01).step()
    assert min(gradients()) > 1e-3


def test_torch_adam_tells_pairs_apart_that_differ_by_a_rotation(torch, rng):
    """After one step of Adam, two pairs that had the same product have different ones.

    That holds though the change of basis between them is orthogonal; with SGD the products agree.
    With Adam they agree, too, if the change exchanges coordinates or their signs.
    Covers: Adam, and AdamW without weight decay, for a pair 30 x 5 and 5 x 30.
    """
    F, G, dP = (torch.from_numpy(rng.normal(size=size)) for size in ((30, 5), (5, 30), (30, 30)))
    turn, _ = torch.linalg.qr(torch.from_numpy(rng.normal(size=(5, 5))))
    exchange = torch.eye(5, dtype=float)[[3, 1, 4, 0, 2]] * torch.tensor([1, -1, 1, 1, -1])

    def product_after(optimiser, *pair, **options):
        first, second = pair = [torch.nn.Parameter(each.clone()) for each in pair]
        stepping = optimiser(pair, lr=0.01, **options)
        ((first @ second) * dP).sum().backward()
        stepping.step()
        return first @ second

    for name, options in {"SGD": {}, "Adam": {}, "AdamW": {"weight_decay": 0}}.items():
        optimiser = partial(product_after, getattr(torch.optim, name), **options)
        apart, exchanged = (
            (optimiser(F, G) - optimiser(F @ M, M.T @ G)).abs().max() for M in (turn, exchange)
        )
        assert (apart < 1e-12) == (name == "SGD")
        assert name == "SGD" or apart > 0.01
        assert exchanged < 1e-12


def test_torch_merge_in_bfloat16_loses_a_part_of_a_small_update(torch):
    """PyTorch: a small update that is merged in bfloat16 loses a part, in float32 nearly nothing.

    Covers: weights of standard deviation 0.02, and a product of rank 8 of 0.0001, 768 wide.
    """
    torch.manual_seed(0)
    weight = (0.02 * torch.randn(768, 768)).bfloat16()  # a checkpoint
    BA = torch.randn(768, 8) @ torch.randn(8, 768)
    BA *= 1e-4 / BA.std()

    def lost(dtype):
        merged = weight.to(dtype) + BA.to(dtype)
        return float((merged.double() - weight.double() - BA).norm() / BA.norm())

    assert 0.1 < lost(torch.bfloat16) < 0.5
    assert lost(torch.float32) < 1e-4


def test_torch_dropout_gives_w_q_a_gradient_with_equal_values(torch, rng, x):
    """PyTorch's layer with dropout gives W_Q a gradient, in training, though the values are equal.

    In evaluation it is zero.
    """
    layer = randomised(torch.nn.MultiheadAttention(E, H, dropout=0.5, batch_first=True), rng)
    with torch.no_grad():
        layer.in_proj_weight[2 * E :] = 0  # each value is the bias
    X = torch.from_numpy(x)
    largest = {}
    torch.manual_seed(0)
    for training in (True, False):
        layer.train(training)
        layer.zero_grad()
        layer(X, X, X)[0].square().sum().backward()
        largest[training] = float(layer.in_proj_weight.grad[:E].abs().max())
    assert largest[True] > 1e-3
    assert largest[False] < 1e-12


def test_torch_refuses_values_of_another_length_than_the_keys(torch, mha, x, y, rng):
    """PyTorch's layer refuses values of another length than the keys, and takes others as long.

    Values from the query side are refused for 5 queries and 7 keys. For 5 and 5 they are taken.

    Covers: `nn.MultiheadAttention`, values that are another array of the keys' length.
    """
    with pytest.raises((RuntimeError, AssertionError), match=r"shape|size|match"):
        called(mha, x, y, x)
    other = rng.normal(size=x.shape)
    assert close(called(mha, x, other, x)[0], loaded(mha)(x, other, x))
    assert not np.allclose(called(mha, x, other, x)[0], called(mha, x, other, other)[0], atol=0.1)


# Keras


def test_torch_weights_move_to_keras_in_two_lines(keras, mha, x, y):
    """PyTorch weights move to Keras in two lines."""
    layer = keras.layers.MultiHeadAttention(H, key_dim=D_K, dtype="float64")
    layer.build(x.shape, y.shape)
    layer.set_weights(list(qkv.dump(loaded(mha), "keras").values()))
    output, _ = layer(x, y, return_attention_scores=True)
    assert close(keras.ops.convert_to_numpy(output), called(mha, x, y, y)[0])


def keras_layer(keras, rng, **options):
    """A layer of Keras for sources of width E, with random weights in float64."""
    layer = keras.layers.MultiHeadAttention(H, **{"key_dim": D_K, "dtype": "float64"} | options)
    layer.build((None, None, E), (None, None, E))
    layer.set_weights([rng.normal(size=weight.shape) for weight in layer.weights])
    return layer


def test_keras_takes_query_value_key_in_this_order(keras, rng, x):
    """Keras takes query value key in this order.

    Called as the paper writes it, (Q, K, V), Keras matches values and attends to keys.
    """
    layer = keras_layer(keras, rng)
    keys, values = rng.normal(size=(2, 1, N_K, E))
    mh = qkv.load(layer.get_weights(), "keras", h=H)

    def attended(*sources):
        output, _ = layer(*sources, return_attention_scores=True)
        return keras.ops.convert_to_numpy(output)

    assert close(attended(x, values, keys), mh(x, keys, values))
    assert not close(attended(x, keys, values), mh(x, keys, values))
    assert list(inspect.signature(layer.call).parameters)[:3] == ["query", "value", "key"]


def test_keras_ignores_a_mask_in_fourth_place(keras, rng, x):
    """Keras ignores a mask in fourth place.

    mha(x, x, x, mask), as courses write it, computes without the mask and says nothing.
    """
    layer = keras_layer(keras, rng)
    mask = np.tri(N_Q, dtype=bool)[None]
    unmasked, fourth, named = (
        keras.ops.convert_to_numpy(output)
        for output in (layer(x, x, x), layer(x, x, x, mask), layer(x, x, x, attention_mask=mask))
    )
    assert_array_equal(fourth, unmasked)
    assert not np.allclose(named, unmasked, atol=1e-3)


def test_keras_key_dim_is_a_width_after_the_map(keras):
    """Keras `key_dim` is a width after the map.

    key_dim is the paper's d_k, the width of one head; kdim of torch is the width of a source.
    """
    layer = keras.layers.MultiHeadAttention(H, key_dim=11)
    layer.build((None, None, E), (None, None, E))
    mh = qkv.load(layer.get_weights(), "keras", h=H)
    assert mh.W_K.shape == (H, E, 11)
    assert mh.d_k == 11


def test_keras_key_dim_of_d_model_makes_the_layer_h_times_as_large(keras):
    """Keras `key_dim` of d_model makes the layer h times as large.

    With key_dim=512 in place of 64 there are 8,401,408 parameters, not 1,050,624.
    """
    d_model, h = 512, 8

    def parameters(key_dim):
        layer = keras.layers.MultiHeadAttention(h, key_dim)
        layer.build((None, None, d_model), (None, None, d_model))
        mh = qkv.load(layer.get_weights(), "keras", h=h)
        assert mh.d_k == key_dim
        assert layer.count_params() == size(mh)
        assert layer.count_params() == 4 * h * d_model * key_dim + 3 * h * key_dim + d_model
        return layer.count_params()

    assert parameters(key_dim=d_model // h) == 1_050_624
    assert parameters(key_dim=d_model) == 8_401_408


def test_keras_heads_need_not_divide_d_model(keras):
    """Keras heads need not divide d_model.

    Eight heads in a model of width 4, as a course's test has it, is a layer like any other.
    """
    layer = keras.layers.MultiHeadAttention(8, key_dim=4)
    layer.build((None, None, 4), (None, None, 4))
    mh = qkv.load(layer.get_weights(), "keras", h=8)
    assert mh.W_Q.shape == (8, 4, 4)
    assert mh.W_O.shape == (8, 4, 4)


def test_keras_computes_in_float32_unless_asked_for_the_scores(keras, rng, x, y):
    """Keras on PyTorch computes in float32 by default, and not if it is asked for the scores.

    A layer of dtype float64 differs from itself by float32's rounding.
    """
    layer = keras_layer(keras, rng)
    exact = qkv.load(layer.get_weights(), "keras", h=H)(x, y)
    short = keras.ops.convert_to_numpy(layer(x, y))
    full, _ = layer(x, y, return_attention_scores=True)
    assert close(keras.ops.convert_to_numpy(full), exact)
    assert short.dtype == np.float64
    assert 1e-10 < np.abs(short - exact).max() < 1e-4


def test_keras_rounds_float64_on_numpy_and_on_jax_without_its_64_bits(keras):
    """Keras rounds float64 with NumPy as its backend, and with JAX unless `jax_enable_x64` is set.

    It rounds there even if it is asked for the scores. With `jax_enable_x64` it then does not, as
    on PyTorch.
    """
    pytest.importorskip("jax")
    code = """
import keras, numpy as np, qkv
mh, x = qkv.MultiHead.random(6, 2, bias=True), np.random.default_rng(0).normal(size=(1, 5, 6))
layer = keras.layers.MultiHeadAttention(2, 3, dtype="float64")
layer.build(x.shape, x.shape)
layer.set_weights(list(qkv.dump(mh, "keras").values()))
for output in layer(x, x), layer(x, x, return_attention_scores=True)[0]:
    print(np.abs(keras.ops.convert_to_numpy(output) - mh(x)).max())
"""

    def differences(backend, enable_x64="0"):
        named = {"KERAS_BACKEND": backend, "JAX_ENABLE_X64": enable_x64}
        made = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | named,
            capture_output=True,
            text=True,
            check=True,
        )
        return [float(line) for line in made.stdout.splitlines()]

    for each in (*differences("numpy"), *differences("jax")):
        assert 1e-10 < each < 1e-4
    by_default, with_scores = differences("jax", enable_x64="1")
    assert 1e-10 < by_default < 1e-4
    assert with_scores < 1e-12


def test_keras_keeps_float64_with_dropout_or_over_two_axes(keras, rng, x):
    """Keras on PyTorch keeps float64 with dropout, and with attention over two axes.

    Neither takes the fused path here. Over two axes, the tokens of both attend to each other.
    Attention over one of two axes keeps float64, too.
    """
    layer = keras_layer(keras, rng, dropout=0.1)
    mh = qkv.load(layer.get_weights(), "keras", h=H)
    assert close(keras.ops.convert_to_numpy(layer(x, x)), mh(x))

    layer = keras.layers.MultiHeadAttention(H, D_K, dtype="float64", attention_axes=(1, 2))
    grid = rng.normal(size=(1, 2, 3, E))
    layer.build(grid.shape, grid.shape)
    layer.set_weights([rng.normal(size=weight.shape) for weight in layer.weights])
    mh = qkv.load(layer.get_weights(), "keras", h=H)
    tokens = mh(grid.reshape(1, 6, E))
    assert close(keras.ops.convert_to_numpy(layer(grid, grid)), tokens.reshape(grid.shape))

    of_rows = keras.layers.MultiHeadAttention(H, D_K, dtype="float64", attention_axes=2)
    of_rows.build(grid.shape, grid.shape)
    of_rows.set_weights(layer.get_weights())
    output = keras.ops.convert_to_numpy(of_rows(grid, grid))
    assert close(output, np.stack([mh(row) for row in grid.swapaxes(0, 1)], axis=1))


def test_attention_without_weights_is_a_layer_whose_maps_are_identities(keras, rng, x):
    """Attention without weights is a layer whose maps are identities.

    softmax(x xᵀ/√d) x is one head with four identities and no bias. softmax(x xᵀ) x, without
    the root, is another function.
    """
    layer = keras.layers.MultiHeadAttention(1, key_dim=E, use_bias=False, dtype="float64")
    layer.build(x.shape, x.shape)
    layer.set_weights([np.eye(E).reshape(weight.shape) for weight in layer.weights])
    output, _ = layer(x, x, return_attention_scores=True)
    assert close(keras.ops.convert_to_numpy(output), qkv.attention(x, x, x))
    assert not np.allclose(
        keras.ops.convert_to_numpy(output), qkv.attention(x, x, x, scale=1.0), atol=0.01
    )


def test_keras_additive_attention_has_no_maps(keras, rng):
    """Keras' `AdditiveAttention` has no maps: its one weight, by default, is Bahdanau's v.

    softmax over the keys of v · tanh(q + k). `Attention` is q · k, without a weight and a root.
    Keys twice as wide as the queries raise an error, with the additive score of `Attention` too.
    """
    q, k, v = rng.normal(size=(1, 3, E)), rng.normal(size=(1, 5, E)), rng.normal(size=(1, 5, 2))
    additive = keras.layers.AdditiveAttention()
    output = keras.ops.convert_to_numpy(additive([q, v, k]))
    (scale,) = additive.get_weights()
    scores = np.tanh(q[:, :, None] + k[:, None]) @ scale
    assert scale.shape == (E,)
    assert_allclose(output, qkv.softmax(scores) @ v, atol=1e-5)  # in float32

    dot = keras.layers.Attention()
    output = keras.ops.convert_to_numpy(dot([q, v, k]))
    assert dot.get_weights() == []
    assert_allclose(output, qkv.attention(q, k, v, scale=1.0), atol=1e-5)

    wide = np.concatenate([k, k], axis=-1)
    concat = keras.layers.Attention(score_mode="concat")
    for layer in (dot, concat, keras.layers.AdditiveAttention()):
        with pytest.raises(RuntimeError, match="size"):
            layer([q, wide, wide])


def test_keras_w_o_is_stored_in_blocks_of_one_head(keras, rng, x):
    """Keras' output kernel holds one block for each head, and what the blocks give is added.

    The kernel is (h, d_v, d_model). Each head meets its own block.
    """
    layer = keras_layer(keras, rng, value_dim=5)
    output, A = layer(x, x, return_attention_scores=True)
    output, A = keras.ops.convert_to_numpy(output), keras.ops.convert_to_numpy(A)
    W_V, b_V, W_O, b_O = layer.get_weights()[4:]
    assert W_O.shape == (H, 5, E)
    values = np.einsum("bnd,dhv->bhnv", x, W_V) + b_V[:, None]
    assert close((A @ values @ W_O).sum(axis=1) + b_O, output)


# Flax and Haiku


def test_flax_qkv_features_is_the_width_of_all_heads():
    """Flax `qkv_features` is the width of all heads.

    Where Keras wants the width of one head, Flax wants h·d_k; by default the source's width.
    """
    jax = pytest.importorskip("jax")
    linen = pytest.importorskip("flax.linen")

    def stored(**options):
        layer = linen.MultiHeadDotProductAttention(8, **options)
        params = layer.init(jax.random.key(0), np.ones((N_Q, 32), dtype=np.float32))["params"]
        return qkv.load(params, "flax", h=8)

    as_on_the_page = linen.MultiHeadDotProductAttention(8, qkv_features=64, out_features=20)
    source = np.ones((1, 512), dtype=np.float32)
    kernels = as_on_the_page.init(jax.random.key(0), source)["params"]
    assert kernels["query"]["kernel"].shape == (512, 8, 8)
    assert kernels["out"]["kernel"].shape == (8, 8, 20)
    assert stored(qkv_features=24, out_features=20).W_Q.shape == (8, 32, 24 // 8)
    assert stored(qkv_features=24, out_features=20).W_O.shape == (8, 24 // 8, 20)
    assert stored().d_k == 32 // 8
    with pytest.raises(AssertionError, match="divisible"):
        stored(qkv_features=20)


def test_jax_takes_the_last_key_head_for_an_index_beyond_it(torch, rng):
    """JAX takes the last key head for an index beyond it, where NumPy and PyTorch raise.

    Covers: 2 key heads, indexed by each of 14 query heads.
    """
    W_K = rng.normal(size=(2, 5, 3)).astype(np.float32)
    in_jax = pytest.importorskip("jax.numpy").asarray(W_K)
    for h in range(14):
        assert np.array_equal(in_jax[h], W_K[min(h, 1)])
        for array in (W_K, torch.from_numpy(W_K)):
            if h < 2:
                assert np.array_equal(array[h], W_K[h])
            else:
                with pytest.raises(IndexError):
                    array[h]


def test_flax_nnx_takes_the_softmax_in_float32_unless_it_keeps_the_weights(rng, x):
    """Flax nnx takes the softmax in float32 unless it has dropout or keeps the weights.

    A layer of dtype float64 differs from itself by float32's rounding. linen does if told to.
    """
    jax, nnx = pytest.importorskip("jax"), pytest.importorskip("flax.nnx")
    linen = pytest.importorskip("flax.linen")

    def errors(mh, *outputs):
        assert all(output.dtype == np.float64 for output in outputs)
        return [np.abs(np.asarray(output) - mh(x)).max() for output in outputs]

    with in_float64():
        for dropout_rate in (0.0, 0.1):
            options = {"param_dtype": np.float64, "decode": False, "dropout_rate": dropout_rate}
            layer = nnx.MultiHeadAttention(H, E, **options, deterministic=True, rngs=nnx.Rngs(0))
            mh = qkv.load(nnx.to_pure_dict(nnx.state(layer, nnx.Param)), "flax", h=H)
            by_default, kept = errors(mh, layer(x), layer(x, sow_weights=True))
            assert kept < 1e-12
            assert by_default < 1e-12 if dropout_rate else 1e-10 < by_default < 1e-5

        for told in (False, True):
            layer = linen.MultiHeadDotProductAttention(
                H, param_dtype=np.float64, force_fp32_for_softmax=told
            )
            output, variables = layer.init_with_output(jax.random.key(0), x)
            [error] = errors(qkv.load(variables["params"], "flax", h=H), output)
            assert 1e-10 < error < 1e-5 if told else error < 1e-12


def test_haiku_output_is_as_wide_as_all_heads_unless_told_otherwise():
    """Haiku's output is as wide as all heads' queries unless told otherwise.

    model_size is key_size·h by default, whatever the width of the source and value_size.
    """
    jax = pytest.importorskip("jax")
    hk = pytest.importorskip("haiku")

    def attend(x, **widths):
        start = hk.initializers.Constant(1)
        return hk.MultiHeadAttention(H, 5, w_init=start, **widths)(x, x, x)

    x = np.ones((N_Q, 11), dtype=np.float32)
    for widths, d_v, d_out in (({}, 5, 10), ({"value_size": 7}, 7, 10), ({"model_size": 3}, 5, 3)):
        init, apply = hk.without_apply_rng(hk.transform(partial(attend, **widths)))
        params = init(jax.random.key(0), x)
        assert params["multi_head_attention/value"]["w"].shape == (11, H * d_v)
        assert apply(params, x).shape == (N_Q, d_out)


# Transformers


def rotary_layer(model: str, rng, *, module=None, attn_implementation="sdpa", **options):
    """The attention of a rotary model of width E, with random weights."""
    library = transformers(module or model.lower())
    sizes = {"hidden_size": E, "num_attention_heads": H, "num_key_value_heads": H, "head_dim": 4}
    config = getattr(library, f"{model}Config")(
        **sizes | options, attn_implementation=attn_implementation
    )
    layer = randomised(getattr(library, f"{model}Attention")(config, layer_idx=0), rng)
    rotary = getattr(library, f"{model.removesuffix('Text')}RotaryEmbedding")(config)
    return layer, rotary


def attend(layer, x, angles):
    """Output and weights of a rotary layer whose tokens may attend to all others."""
    torch = pytest.importorskip("torch")
    mask = torch.zeros(1, 1, x.shape[1], x.shape[1], dtype=torch.float64)
    return called(layer, x, position_embeddings=angles, attention_mask=mask)


def no_rotation():
    angle = pytest.importorskip("torch").zeros(1, 1, 1, dtype=float)
    return angle.cos(), angle.sin()


def test_gpt_neox_first_third_is_not_the_queries(rng, x):
    """With several heads, GPT-NeoX's first third is not the queries.

    query_key_value holds q, k and v of head 0, then of head 1; in GPT-2's order it loads too. With
    one head the two orders are one.
    """
    library = transformers("gpt_neox")
    state = library.GPTNeoXAttention(
        library.GPTNeoXConfig(hidden_size=E, num_attention_heads=1)
    ).state_dict()
    queries = state["query_key_value.weight"][:E].numpy().T
    assert_array_equal(qkv.load(state, "gpt-neox", h=1).W_Q[0], queries)
    layer, _ = rotary_layer("GPTNeoX", rng, module="gpt_neox", head_dim=D_K)
    state = layer.state_dict()
    mh = qkv.load(state, "gpt-neox", h=H)
    weight, bias = state["query_key_value.weight"].numpy(), state["query_key_value.bias"].numpy()
    of_head = slice(3 * D_K, 6 * D_K)  # head 1: its query rows, its key rows, its value rows
    W = [mh.W_Q[1], mh.W_K[1], mh.W_V[1]]
    assert_array_equal(np.concatenate(W, axis=1), weight[of_head].T)
    assert_array_equal(np.concatenate([mh.b_Q[1], mh.b_K[1], mh.b_V[1]]), bias[of_head])

    renamed = {
        name.replace("query_key_value", "c_attn").replace("dense", "c_proj"): array
        for name, array in state.items()
    }
    in_thirds = qkv.load(renamed, "nanogpt", h=H)
    real, _ = attend(layer, x, no_rotation())
    assert close(replace(mh, rotary=False)(x), real)
    assert in_thirds.W_Q.shape == mh.W_Q.shape
    assert not close(in_thirds(x), real)

    library = transformers("gpt2")
    config = library.GPT2Config(n_embd=E, n_head=H, attn_implementation="eager")
    gpt2 = library.GPT2Attention(config).double().eval()
    gpt2.load_state_dict({name: array.t() for name, array in renamed.items()})
    as_gpt2, _ = called(gpt2, x)
    assert close(as_gpt2, in_thirds(x))


def phi3_and_what_it_computes(rng, x):
    """A layer of Phi-3 with four heads over two, and its output."""
    library = transformers("phi3")
    sizes = {"hidden_size": E, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = library.Phi3Config(**sizes, pad_token_id=0, attn_implementation="sdpa")
    config.head_dim = D_K
    layer = randomised(library.Phi3Attention(config, layer_idx=0), rng)
    output, _ = attend(layer, x, no_rotation())
    mh = replace(qkv.load(layer.state_dict(), "phi3", h=4, h_kv=2), rotary=False)
    assert close(mh(x), output)
    return layer, mh, output


def test_phi3_cut_into_thirds_is_wrong_where_heads_are_grouped(rng, x):
    """Phi-3 cut into thirds is wrong where heads are grouped.

    With four heads of queries over two, half of the rows of qkv_proj are queries.
    """
    layer, mh, _ = phi3_and_what_it_computes(rng, x)
    weight = layer.qkv_proj.weight.detach().numpy()
    assert len(weight) == 8 * D_K
    queries, keys, values = np.split(weight, [4 * D_K, 6 * D_K])
    assert_array_equal(np.concatenate(mh.W_Q, axis=1), queries.T)
    assert_array_equal(np.concatenate(mh.W_K, axis=1), keys.T)
    assert_array_equal(np.concatenate(mh.W_V, axis=1), values.T)
    assert len(queries) != len(weight) / 3


def test_phi3_read_in_the_order_of_falcon_is_wrong_without_an_error(rng, x):
    """`Phi3` read in the order of Falcon is wrong without an error if keys have several heads.

    Both arrays have h + 2 h_kv heads. Falcon's has them in groups. With one head of keys that
    is the same order.
    """
    layer, mh, output = phi3_and_what_it_computes(rng, x)
    wide = {  # Falcon's heads fill its width, so the source gets as many zeros as it needs
        "query_key_value.weight": np.pad(layer.qkv_proj.weight.detach(), ((0, 0), (0, 6))),
        "dense.weight": np.pad(layer.o_proj.weight.detach(), ((0, 6), (0, 0))),
    }
    read = replace(qkv.load(wide, "falcon", h=4, h_kv=2), rotary=False)
    assert read.W_Q.shape[::2] == mh.W_Q.shape[::2]
    computed = read(np.pad(x, ((0, 0), (0, 0), (0, 6))))[..., :E]
    assert not np.allclose(computed, output, atol=1e-3)

    one = replace(qkv.MultiHead.random(4 * D_K, 4, h_kv=1, d_k=D_K), rotary=True)
    pairs = zip(qkv.dump(one, "phi3").values(), qkv.dump(one, "falcon").values(), strict=True)
    assert all(np.array_equal(*pair) for pair in pairs)


def falcon_layer(rng, **options):
    library = transformers("falcon")
    config = library.FalconConfig(
        hidden_size=12, num_attention_heads=4, attn_implementation="sdpa", **options
    )
    return randomised(library.FalconAttention(config, layer_idx=0), rng)


def test_falcon_queries_do_not_come_first_if_there_are_groups(rng):
    """In Falcon queries do not come first if there are several groups.

    A group of the new architecture is its heads of queries, then one key, then one value. Read in
    Phi-3's order the same weights load, and the layer computes something else.
    """
    layer = falcon_layer(rng, new_decoder_architecture=True, num_kv_heads=2)
    x = rng.normal(size=(1, N_Q, 12))
    mask = np.zeros((1, 1, N_Q, N_Q))
    real, _ = called(layer, x, alibi=None, attention_mask=mask, position_embeddings=no_rotation())
    state = layer.state_dict()
    mh = qkv.load(state, "falcon", h=4, h_kv=2)
    group = state["query_key_value.weight"].numpy()[4 * D_K :]  # heads 2 and 3 with key 1
    assert_array_equal(group.T, np.hstack([mh.W_Q[2], mh.W_Q[3], mh.W_K[1], mh.W_V[1]]))
    assert close(replace(mh, rotary=False)(x), real)

    renamed = {
        name.replace("query_key_value", "qkv_proj").replace("dense", "o_proj"): array
        for name, array in state.items()
    }
    queries_first = replace(qkv.load(renamed, "phi3", h=4, h_kv=2), rotary=False)
    assert not np.allclose(queries_first(x), real, atol=1e-3)


def test_falcon_multi_query_ignores_num_kv_heads(rng):
    """Falcon with multi_query has one head of keys, and num_kv_heads changes nothing.

    In the new architecture num_kv_heads counts, and multi_query changes nothing.
    """

    def rows(**options):
        return len(falcon_layer(rng, **options).query_key_value.weight)

    for num_kv_heads in (1, 2, 4):
        sizes = {"num_kv_heads": num_kv_heads}
        assert rows(multi_query=True, **sizes) == (4 + 2) * D_K
        assert rows(multi_query=False, **sizes) == 3 * 4 * D_K
        for multi_query in (True, False):
            new = {"new_decoder_architecture": True, "multi_query": multi_query}
            assert rows(**new, **sizes) == (4 + 2 * num_kv_heads) * D_K


def test_falcon_does_not_rotate_where_it_gets_alibi(torch, rng):
    """Falcon does not rotate where it gets alibi.

    With sdpa the layer does not read the numbers of alibi, unless it is asked for its weights. In
    eager mode it adds them to the scores.
    """
    layer = falcon_layer(rng, multi_query=False, alibi=True, bias=True)
    mh = qkv.load(layer.state_dict(), "falcon", h=4)
    x = rng.normal(size=(1, N_Q, 12))
    angle = torch.arange(float(N_Q), dtype=float)[None, :, None]
    given = {"attention_mask": np.zeros((1, 1, N_Q, N_Q)), "position_embeddings": None}
    with_alibi, _ = called(layer, x, alibi=np.ones((1, 4, 1, N_Q)), **given)
    assert close(with_alibi, replace(mh, rotary=False)(x))
    given["position_embeddings"] = (angle.cos(), angle.sin())
    assert close(called(layer, x, alibi=np.ones((1, 4, 1, N_Q)), **given)[0], with_alibi)
    assert not np.allclose(called(layer, x, alibi=None, **given)[0], with_alibi, atol=1e-3)
    others = rng.normal(size=(4, 1, N_Q))
    assert close(called(layer, x, alibi=others, **given)[0], with_alibi)
    asked, _ = called(layer, x, alibi=others, output_attentions=True, **given)
    assert not np.allclose(asked, with_alibi, atol=1e-3)
    layer.config._attn_implementation = "eager"
    assert not np.allclose(called(layer, x, alibi=others, **given)[0], with_alibi, atol=1e-3)
    nothing = called(layer, x, alibi=np.zeros((4, 1, N_Q)), **given)[0]
    assert np.allclose(nothing, with_alibi, rtol=0, atol=1e-5)  # in float32


def gpt_bigcode_layer(rng, **options):
    library = transformers("gpt_bigcode")
    config = library.GPTBigCodeConfig(n_embd=E, n_head=H, attn_implementation="sdpa", **options)
    return randomised(library.GPTBigCodeAttention(config), rng)


def test_gpt_bigcode_stores_out_in_under_the_names_of_gpt2(torch, rng):
    """GPT-BigCode stores (out, in) under the names of GPT-2, which stores (in, out).

    Its c_attn and c_proj are Linear layers.
    """
    ours = gpt_bigcode_layer(rng, multi_query=False)
    library = transformers("gpt2")
    gpt2 = library.GPT2Attention(library.GPT2Config(n_embd=E, n_head=H))
    for name in ("c_attn", "c_proj"):
        assert isinstance(getattr(ours, name), torch.nn.Linear)
        assert not isinstance(getattr(gpt2, name), torch.nn.Linear)
    assert ours.c_attn.weight.shape == (3 * E, E)
    assert gpt2.c_attn.weight.shape == (E, 3 * E)
    with pytest.raises(ValueError, match=r"c_attn.* must have shape .*fit 'gpt-bigcode'"):
        qkv.load(ours.state_dict(), "gpt2", h=H)


def test_gpt_bigcode_with_many_heads_of_keys_is_stored_head_after_head(rng, x):
    """GPT-BigCode with as many heads of keys as of queries is stored head after head.

    nanoGPT has the same names and shapes in thirds. Read so, the layer computes something else.
    """
    layer = gpt_bigcode_layer(rng, multi_query=False)
    real = called(layer, x, attention_mask=np.zeros((1, 1, N_Q, N_Q)))[0]
    mh = qkv.load(layer.state_dict(), "gpt-bigcode", h=H)
    head = layer.c_attn.weight.detach().numpy()[3 * D_K :].T
    assert_array_equal(head, np.hstack([mh.W_Q[1], mh.W_K[1], mh.W_V[1]]))
    assert close(mh(x), real)
    in_thirds = qkv.load(layer.state_dict(), "nanogpt", h=H)
    assert not np.allclose(in_thirds(x), real, atol=1e-3)


def bloom_layer(rng, **options):
    library = transformers("bloom")
    config = library.BloomConfig(**{"hidden_size": E, "n_head": H} | options)
    return randomised(library.BloomAttention(config, layer_idx=0), rng)


def bloom_output(layer, x, residual=0, alibi=0):
    """What a layer of Bloom gives for a residual and numbers of alibi, zeros unless given."""
    given = {"residual": residual + 0 * x, "alibi": alibi + np.zeros((H, 1, N_Q))}
    return called(layer, x, **given, attention_mask=np.zeros((1, 1, N_Q, N_Q)))[0]


def test_bloom_adds_the_residual_and_alibi(torch, rng, x):
    """Bloom adds the residual to its output and ALiBi to its scores.

    Given zeros for both, the layer is the paper's. By default the block gives it its own input as
    the residual, and that input normed as the source. With
    apply_residual_connection_post_layernorm=True both are the normed input.
    """
    library, layer = transformers("bloom"), bloom_layer(rng)
    mh = qkv.load(layer.state_dict(), "bloom", h=H)
    plain = bloom_output(layer, x)
    alibi = library.build_alibi_tensor(torch.ones(1, N_Q), H, torch.float64).numpy()
    assert np.allclose(plain, mh(x), rtol=0, atol=1e-5)  # in float32
    assert close(bloom_output(layer, x, residual=x), plain + x)
    assert not np.allclose(bloom_output(layer, x, alibi=alibi), mh(x), atol=1e-3)

    assert library.BloomConfig().apply_residual_connection_post_layernorm is False
    for normed in False, True:
        config = library.BloomConfig(
            hidden_size=E, n_head=H, apply_residual_connection_post_layernorm=normed
        )
        block = randomised(library.BloomBlock(config, 0), rng)
        given = []
        block.self_attention.register_forward_pre_hook(lambda _, got, to=given: to.extend(got))
        called(block, x, alibi=0 * alibi, attention_mask=np.zeros((1, 1, N_Q, N_Q)))
        source, residual = given
        assert close(source.detach(), block.input_layernorm(torch.from_numpy(x)).detach())
        assert_array_equal(residual.detach(), source.detach() if normed else x)


def test_bloom_falcon_and_mpt_add_alibi_by_the_position_of_the_key(torch):
    """Bloom, Falcon and MPT add a number for each head and key, and not one for each distance.

    The numbers grow by the slope from key to key, so scores at distance 0 get them too. The softmax
    of the numbers behind a causal mask is that of −slope · distance.

    Covers: 4 heads, 5 tokens; Bloom's numbers and Falcon's begin at 0, and MPT's end at 0.
    """
    heads, n = 4, 5
    seen = torch.ones(1, n, dtype=torch.long)
    of_bloom = transformers("bloom").build_alibi_tensor(seen, heads, torch.float64)
    of_falcon = transformers("falcon").build_alibi_tensor(seen, heads, torch.float64)
    of_mpt = transformers("mpt").build_mpt_alibi_tensor(heads, n)
    slopes = 2.0 ** -np.array([2, 4, 6, 8])
    keys = np.arange(n)
    by_distance = -slopes[:, None, None] * (keys[:, None] - keys)
    causal = np.tri(n, dtype=bool)
    for added, first in ((of_bloom, 0), (of_falcon, 0), (of_mpt, 1 - n)):
        by_key = added.double().numpy().reshape(heads, 1, n)
        assert np.allclose(by_key[:, 0], slopes[:, None] * (keys + first), rtol=0, atol=1e-2)
        weights = qkv.softmax(np.broadcast_to(by_key, (heads, n, n)), mask=causal)
        assert np.allclose(weights, qkv.softmax(by_distance, mask=causal), rtol=0, atol=1e-2)


def test_falcon_adds_alibi_before_the_scale(rng):
    """In eager mode Falcon's layer adds alibi before the scale. Bloom and MPT add it after it.

    So behind a plain causal mask the weights of Falcon's layer are those of
    −slope · distance / √d_k.
    """
    h, d_k = 4, 3
    slopes = 2.0 ** -np.array([2, 4, 6, 8])
    by_key = slopes[:, None, None] * np.arange(N_Q)
    distance = np.arange(N_Q)[:, None] - np.arange(N_Q)
    causal = np.tri(N_Q, dtype=bool)
    x = rng.normal(size=(1, N_Q, h * d_k))

    falcon = falcon_layer(rng, multi_query=False, alibi=True, bias=True)
    falcon.config._attn_implementation = "eager"
    bloom, mpt = bloom_layer(rng, hidden_size=h * d_k, n_head=h), transformers("mpt")
    mpt = randomised(mpt.MptAttention(mpt.MptConfig(d_model=h * d_k, n_heads=h)), rng)
    hidden = np.where(causal, 0, -1e30)[None, None]
    given = {"alibi": by_key, "attention_mask": hidden}
    _, of_falcon = called(falcon, x, position_embeddings=None, output_attentions=True, **given)
    _, of_bloom = called(bloom, x, residual=0 * x, output_attentions=True, **given)
    _, of_mpt = called(mpt, x, position_bias=by_key, attention_mask=~causal[None, None])

    layouts = {"falcon": falcon, "bloom": bloom, "mpt": mpt}
    for name, found in zip(layouts, (of_falcon, of_bloom, of_mpt), strict=True):
        stored = layouts[name].state_dict()
        if name == "mpt":
            parts = qkv.unpack(stored["Wqkv.weight"], "pytorch", h=h)
            Q, K = x[0] @ parts["W_Q"], x[0] @ parts["W_K"]
        else:
            Q, K, _ = replace(qkv.load(stored, name, h=h), rotary=False).project(x[0])
        scores = Q @ K.swapaxes(-1, -2) / d_k**0.5
        smaller = d_k**0.5 if name == "falcon" else 1
        for divisor in (1, d_k**0.5):
            by_distance = scores - slopes[:, None, None] * distance / divisor
            expected = qkv.softmax(by_distance, mask=causal)
            same = np.allclose(found[0], expected, rtol=0, atol=1e-5)  # in float32
            assert same == (divisor == smaller), name


def test_falcon_counts_alibi_twice_in_eager_mode(torch, rng):
    """In eager mode Falcon's model counts the numbers of alibi twice, and with sdpa once.

    The model puts them over √d_k into the mask, and in eager mode the layer adds them before the
    scale, too. With sdpa it does so if it is asked for its weights.
    """
    h, d_k = 4, 3
    library = transformers("falcon")
    sizes = {"hidden_size": h * d_k, "num_hidden_layers": 1, "num_attention_heads": h}
    config = library.FalconConfig(multi_query=False, alibi=True, bias=True, **sizes)
    model = randomised(library.FalconModel(config), rng).eval()
    layer, tokens = model.h[0].self_attention, torch.arange(N_Q)[None]
    mh = replace(qkv.load(layer.state_dict(), "falcon", h=h), rotary=False)
    with torch.no_grad():
        x = model.h[0].input_layernorm(model.word_embeddings(tokens))[0].numpy()
    Q, K, V = mh.project(x)
    scores = Q @ K.swapaxes(-1, -2) / d_k**0.5
    slopes = 2.0 ** -np.array([2, 4, 6, 8])
    distance = np.arange(N_Q)[:, None] - np.arange(N_Q)

    outputs = []
    layer.register_forward_hook(lambda *call: outputs.append(call[-1][0][0].numpy()))
    for mode, asked, counted in (("sdpa", False, 1), ("sdpa", True, 2), ("eager", False, 2)):
        config._attn_implementation = mode
        with torch.no_grad():
            model(tokens, output_attentions=asked)
        for times in (1, 2):
            by_distance = scores - times * slopes[:, None, None] * distance / d_k**0.5
            A = qkv.softmax(by_distance, mask=np.tri(N_Q, dtype=bool))
            expected = (A @ V @ mh.W_O).sum(axis=0) + mh.b_O
            same = np.allclose(outputs[-1], expected, rtol=0, atol=1e-5)  # in float32
            assert same == (times == counted), (mode, asked)


def test_bloom_leaves_out_the_output_bias_with_slow_but_exact(rng, x):
    """Bloom leaves out the output's bias with slow_but_exact=True and pretraining_tp above 1.

    The bias is stored all the same.
    """
    for tp, exact in ((1, True), (2, False), (2, True)):
        layer = bloom_layer(rng, pretraining_tp=tp, slow_but_exact=exact)
        mh = qkv.load(layer.state_dict(), "bloom", h=H)
        expected = replace(mh, b_O=None) if (tp, exact) == (2, True) else mh
        assert np.allclose(bloom_output(layer, x), expected(x), rtol=0, atol=1e-5)  # in float32
        assert not np.allclose(mh(x), replace(mh, b_O=None)(x), atol=1e-3)


def test_bloom_and_gptj_take_the_softmax_in_float32(torch, rng, x):
    """Bloom and GPTJ take the softmax in float32, and a layer in float64 rounds so.

    GPT-J computes the scores in float32 too, and so does CodeGen.
    """
    layer = bloom_layer(rng)
    pairs = [(bloom_output(layer, x), qkv.load(layer.state_dict(), "bloom", h=H)(x))]
    wide = rng.normal(size=(1, N_Q, 4 * D_K))
    for layout, model, h, source in (("gptj", "GPTJ", H, x), ("codegen", "CodeGen", 4, wide)):
        library = transformers(layout)
        config = getattr(library, f"{model}Config")(n_embd=h * D_K, n_head=h, rotary_dim=2)
        layer = randomised(getattr(library, f"{model}Attention")(config, layer_idx=0), rng)
        mh = replace(qkv.load(layer.state_dict(), layout, h=h), rotary=False)
        real = called(layer, source, position_ids=torch.zeros(1, N_Q, dtype=int))[0]
        pairs.append((real, mh(source)))
    for real, expected in pairs:
        assert np.allclose(real, expected, rtol=0, atol=1e-5)
        assert not close(real, expected)


def test_codegen_stores_values_before_keys_in_four_blocks(torch, rng):
    """CodeGen stores values before keys, in four blocks.

    Read as queries, keys and values of all heads, the weights load, and compute something else.
    """
    library = transformers("codegen")
    config = library.CodeGenConfig(n_embd=24, n_head=8, rotary_dim=2)
    layer = randomised(library.CodeGenAttention(config, layer_idx=0), rng)
    x = rng.normal(size=(1, N_Q, 24))
    real = called(layer, x, position_ids=torch.zeros(1, N_Q, dtype=int))[0]
    state = layer.state_dict()
    mh = replace(qkv.load(state, "codegen", h=8), rotary=False)
    assert np.allclose(mh(x), real, rtol=0, atol=1e-5)  # the layer computes scores in float32
    block = state["qkv_proj.weight"].numpy()[18:36]
    assert_array_equal(block.T, np.hstack([*mh.W_Q[2:4], *mh.W_V[2:4], *mh.W_K[2:4]]))
    assert not np.allclose(replace(mh, W_K=mh.W_V, W_V=mh.W_K)(x), real, atol=1e-3)

    renamed = {"qkv_proj.weight": "c_attn.weight", "out_proj.weight": "c_proj.weight"}
    weights = {renamed[name]: array for name, array in state.items()}
    assert not np.allclose(qkv.load(weights, "nanogpt", h=8)(x), real, atol=1e-3)


def test_gptj_rotates_neighbours_and_llama_rotates_halves(torch):
    """GPTJ rotates neighbours as pairs, and Llama rotates halves.

    A quarter turn takes one coordinate to the place of the other one of its pair.
    """
    first = torch.eye(4)[0][None, None, None]  # one query of one head, and it is (1, 0, 0, 0)
    neighbours = transformers("gptj").apply_rotary_pos_emb(
        first, sin=torch.ones(1, 1, 2), cos=torch.zeros(1, 1, 2)
    )
    halves, _ = transformers("llama").apply_rotary_pos_emb(
        first, first, cos=torch.zeros(1, 1, 4), sin=torch.ones(1, 1, 4)
    )
    assert neighbours.flatten().tolist() == [0, 1, 0, 0]
    assert halves.flatten().tolist() == [0, 0, 1, 0]


def test_gptj_and_codegen_turn_a_quarter_of_a_head_which_no_reordering_makes_llamas(torch):
    """GPT-J and CodeGen turn a quarter of a head by default, which no reordering makes Llama's.

    If GPT-J turns the whole head, queries and keys whose coordinates are reordered from neighbours
    to halves get its scores from Llama's rotation. If it turns a quarter, they get others, whether
    the whole head or that quarter is reordered.
    """
    gptj, llama = transformers("gptj"), transformers("llama")
    for config in (gptj.GPTJConfig(), transformers("codegen").CodeGenConfig()):
        assert 4 * config.rotary_dim == config.n_embd // config.n_head

    d_k = 16
    q, k = torch.randn(2, 1, N_Q, 1, d_k, generator=torch.Generator().manual_seed(0))
    of_head = llama.LlamaConfig(hidden_size=d_k, num_attention_heads=1)
    cos_sin = llama.LlamaRotaryEmbedding(of_head)(q, torch.arange(N_Q)[None])

    def of_gptj(turned):
        sin, cos = gptj.create_sinusoidal_positions(N_Q, turned)[None].chunk(2, dim=-1)
        parts = (x.split([turned, d_k - turned], dim=-1) for x in (q, k))
        each = (
            torch.cat([gptj.apply_rotary_pos_emb(part, sin, cos), rest], dim=-1)
            for part, rest in parts
        )
        return torch.einsum("bihd,bjhd->ij", *each)

    def of_llama(reordered):
        pairs = [*range(0, reordered, 2), *range(1, reordered, 2), *range(reordered, d_k)]
        each = (x[..., pairs].transpose(1, 2) for x in (q, k))
        return torch.einsum("bhid,bhjd->ij", *llama.apply_rotary_pos_emb(*each, *cos_sin))

    assert torch.allclose(of_llama(d_k), of_gptj(d_k), atol=1e-4)
    for reordered in (d_k, d_k // 4):
        assert not torch.allclose(of_llama(reordered), of_gptj(d_k // 4), atol=0.1)


OF_TRANSFORMERS = [
    each for each in qkv.layouts.layouts().values() if each.title.startswith("Transformers, ")
]


@pytest.mark.parametrize("layout", OF_TRANSFORMERS, ids=lambda layout: layout.name)
def test_transformers_takes_these_arguments_in_this_order(layout):
    """A layer of Transformers takes these arguments in this order.

    One that is listed with =... is given by name.
    """
    kind = re.search(r"models/(\w+)/", layout.read_in)[1]
    forward = getattr(transformers(kind), re.search(r", (\w+)", layout.title)[1]).forward
    taken = [*inspect.signature(forward).parameters][1:]
    placed = [name for name in layout.arguments if not name.endswith("=...")]
    named = {name.removesuffix("=...") for name in layout.arguments}
    assert taken[: len(placed)] == placed
    assert named <= {*taken}


def given_by_the_text_model_of_clip(library, torch, implementation, words=N_Q):
    """What the model gives its first layer, by name, for a sentence that is then filled up."""
    config = library.CLIPTextConfig(
        hidden_size=E,
        num_attention_heads=H,
        num_hidden_layers=1,
        intermediate_size=5,
        vocab_size=11,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        attn_implementation=implementation,
    )
    model, given = library.CLIPTextModel(config).eval(), {}
    [layer] = (part for part in model.modules() if isinstance(part, library.CLIPAttention))
    layer.register_forward_pre_hook(lambda _, __, named: given.update(named), with_kwargs=True)
    tokens = torch.arange(N_Q)[None]
    model(tokens + 3, attention_mask=(tokens < words).long())
    return given


def test_clip_called_with_its_source_alone_is_not_causal(torch, rng, x):
    """A layer of CLIP called with its source alone is not causal, not even that of the text model.

    The text model passes its layers a causal mask in eager mode, and is_causal=True with sdpa. With
    sdpa a layer that gets it, and no mask, is causal. For a sentence with padding sdpa gets a mask.
    """
    library = transformers("clip")
    for implementation in ("sdpa", "eager"):
        config = library.CLIPTextConfig(
            hidden_size=E, num_attention_heads=H, attn_implementation=implementation
        )
        layer = randomised(library.CLIPAttention(config), rng)
        mh = qkv.load(layer.state_dict(), "clip", h=H)
        assert np.allclose(called(layer, x)[0], mh(x), rtol=0, atol=1e-5)  # eager: in float32
        causal = mh(x, mask=np.tri(N_Q, dtype=bool))
        assert not np.allclose(causal, mh(x), atol=1e-3)
        if implementation == "sdpa":
            assert close(called(layer, x, is_causal=True)[0], causal)

        given = given_by_the_text_model_of_clip(library, torch, implementation)
        assert given["is_causal"]
        if implementation == "sdpa":
            assert given["attention_mask"] is None
            padded = given_by_the_text_model_of_clip(library, torch, implementation, words=2)
            allowed = np.tri(N_Q, dtype=bool) & (np.arange(N_Q) < 2)
            assert_array_equal(padded["attention_mask"][0, 0].numpy(), allowed)
        else:
            assert_array_equal(given["attention_mask"][0, 0].numpy() == 0, np.tri(N_Q, dtype=bool))


def test_gpt2_stores_in_out_where_linear_stores_out_in(torch, rng):
    """GPT-2 stores (in, out) where linear stores (out, in).

    Conv1D computes x @ W + b with the W that it stores, nn.Linear x @ Wᵀ + b.
    """
    Conv1D = pytest.importorskip("transformers.pytorch_utils").Conv1D
    conv1d = Conv1D(nf=13, nx=11)
    linear = torch.nn.Linear(11, 13)
    assert conv1d.weight.shape == (11, 13)
    assert linear.weight.shape == (13, 11)
    x = torch.from_numpy(rng.normal(size=(N_Q, 11)))
    with torch.no_grad():
        assert close(randomised(conv1d, rng)(x), x @ conv1d.weight + conv1d.bias)
        assert close(randomised(linear, rng)(x), x @ linear.weight.T + linear.bias)

    square, wrong_way = randomised(Conv1D(11, 11), rng), torch.nn.Linear(11, 11).double()
    wrong_way.load_state_dict(square.state_dict())
    with torch.no_grad():
        assert not close(wrong_way(x), square(x))


def test_gpt2_given_no_mask_is_causal_in_one_implementation_and_not_in_the_other(rng, x):
    """GPT-2 given no mask is causal in one implementation and not in the other.

    With sdpa the layer hides later tokens by itself; in eager mode the model has to.
    """
    library = transformers("gpt2")
    for implementation, mask in (("sdpa", np.tri(N_Q, dtype=bool)), ("eager", None)):
        config = library.GPT2Config(n_embd=E, n_head=H, attn_implementation=implementation)
        layer = randomised(library.GPT2Attention(config), rng)
        mh = qkv.load(layer.state_dict(), "gpt2", h=H)
        assert close(called(layer, x)[0], mh(x, mask=mask))


def test_llama_and_gpt_neox_given_no_mask_are_causal_with_sdpa_and_not_in_eager_mode(rng, x):
    """Llama and GPT-NeoX given no mask are causal with sdpa, and not in eager mode.

    In eager mode the model has to pass the causal mask.
    """
    for implementation, mask in (("sdpa", np.tri(N_Q, dtype=bool)), ("eager", None)):
        made = {"head_dim": D_K, "attn_implementation": implementation}
        llama, _ = rotary_layer("Llama", rng, **made)
        gpt_neox, _ = rotary_layer("GPTNeoX", rng, module="gpt_neox", **made)
        for layout, layer in (("llama", llama), ("gpt-neox", gpt_neox)):
            mh = replace(qkv.load(layer.state_dict(), layout, h=H), rotary=False)
            output, _ = called(layer, x, position_embeddings=no_rotation(), attention_mask=None)
            assert np.allclose(output, mh(x, mask=mask), rtol=0, atol=1e-5)  # eager: in float32


def test_decoders_of_bert_t5_and_whisper_given_no_mask_are_causal_with_sdpa(torch, rng, x):
    """Layers of BERT, T5 and Whisper made for a decoder, given no mask, are causal with sdpa.

    They are made with is_causal=True, and their weights do not show it.
    """
    made = {"is_causal": True, "layer_idx": 0}
    library = transformers("t5")
    sizes = {"d_model": E, "num_heads": H, "d_kv": D_K}
    config = library.T5Config(**sizes, is_decoder=True, attn_implementation="sdpa")
    t5 = library.T5Attention(config, **made)
    library = transformers("whisper")
    config = library.WhisperConfig(attn_implementation="sdpa")
    whisper = library.WhisperAttention(E, H, is_decoder=True, config=config, **made)
    for layout, layer in (("t5", t5), ("whisper", whisper)):
        mh = qkv.load(randomised(layer, rng).state_dict(), layout, h=H)
        assert close(called(layer, x)[0], mh(x, mask=np.tri(N_Q, dtype=bool)))
        assert not close(called(layer, x)[0], mh(x))

    library = transformers("bert")
    config = library.BertConfig(
        hidden_size=E, num_attention_heads=H, attn_implementation="sdpa", is_decoder=True
    )
    bert = randomised(library.BertAttention(config, **made), rng)
    mh = qkv.load(bert.state_dict(), "bert", h=H)
    heads, _ = called(bert.self, x)  # what follows the output map is not attention
    with torch.no_grad():
        output = bert.output.dense(torch.from_numpy(heads))
    assert close(output, mh(x, mask=np.tri(N_Q, dtype=bool)))
    assert not close(output, mh(x))


@pytest.mark.parametrize("kinds", [(), ("c2p",), ("c2p", "p2c")])
def test_deberta_divides_by_the_root_of_as_many_widths_as_it_adds_scores(torch, rng, kinds):
    """DeBERTa v2 and v3 divide by √(n·d_k), where n counts the scores that are added.

    With content-to-position and position-to-content n is 3; each of the added scores is divided.
    The kinds that the config names are counted, even with `relative_attention=False`.
    """
    library = transformers("deberta_v2")
    config = library.DebertaV2Config(
        hidden_size=E, num_attention_heads=H, pos_att_type=list(kinds), relative_attention=True,
        max_relative_positions=8, share_att_key=False,
    )  # fmt: skip
    layer = randomised(library.DisentangledSelfAttention(config), rng)
    x = torch.from_numpy(rng.normal(size=(1, N_Q, E)))
    allowed = torch.ones(1, 1, N_Q, N_Q)

    def scores(positions):
        with torch.no_grad():
            _, weights = layer(
                x, allowed, output_attentions=True, rel_embeddings=positions.double()
            )
        log = weights[0].log()
        return log - log[..., :1]  # what is the same for all keys of a query cancels

    def split(projected):
        return projected.detach().reshape(-1, H, D_K).transpose(0, 1)

    with torch.no_grad():  # positions that are zero, and their biases, add no score
        for name, parameter in layer.named_parameters():
            if name.startswith("pos_"):
                parameter.zero_()
    Q, K = split(layer.query_proj(x)), split(layer.key_proj(x))
    content = Q @ K.transpose(1, 2) / ((1 + len(kinds)) * D_K) ** 0.5
    of_zeros = scores(torch.zeros(16, E))
    assert np.allclose(of_zeros, content - content[..., :1], rtol=0, atol=1e-6)  # √ in float32
    layer.relative_attention = False
    assert np.allclose(scores(positions=torch.ones(16, E)), of_zeros, rtol=0, atol=1e-6)
    layer.relative_attention = True

    if kinds:
        with torch.no_grad():
            layer.pos_key_proj.weight.copy_(torch.eye(E))
        positions = torch.from_numpy(rng.normal(size=(16, E)))
        distance = torch.arange(N_Q)[:, None] - torch.arange(N_Q) + 8
        of_positions = (Q @ split(positions).transpose(1, 2)).gather(2, distance.expand(H, -1, -1))
        added = of_positions / ((1 + len(kinds)) * D_K) ** 0.5
        both = content + added
        assert np.allclose(scores(positions), both - both[..., :1], rtol=0, atol=1e-6)


def test_t5_does_not_scale_its_scores(torch, rng, x):
    """T5 does not scale its scores.

    1/√d_k is missing from T5's scores; it stands in the first weights of the queries.
    """
    library = transformers("t5")
    config = library.T5Config(d_model=E, num_heads=H, d_kv=5, attn_implementation="eager")
    layer = randomised(library.T5Attention(config), rng)
    mh = qkv.load(layer.state_dict(), "t5", h=H)
    assert close(called(layer, x)[0], mh(x))
    assert not close(called(layer, x)[0], replace(mh, scale=None)(x))

    torch.manual_seed(0)
    sizes = {"d_model": 256, "num_heads": 8, "d_kv": 32, "d_ff": 1, "num_layers": 1}
    model = library.T5EncoderModel(library.T5Config(**sizes, vocab_size=2))
    first = model.encoder.block[0].layer[0].SelfAttention
    assert first.k.weight.std().item() == pytest.approx(256**-0.5, rel=0.02)
    assert first.q.weight.std().item() == pytest.approx((256 * 32) ** -0.5, rel=0.02)


def test_t5_heads_need_not_fill_d_model():
    """T5 heads need not fill d_model.

    d_kv times the number of heads may be more or less than d_model.
    """
    library = transformers("t5")
    for d_kv in (2, 5):
        layer = library.T5Attention(library.T5Config(d_model=E, num_heads=H, d_kv=d_kv))
        assert layer.q.weight.shape == (H * d_kv, E)
        assert layer.o.weight.shape == (E, H * d_kv)


def test_whisper_has_no_key_bias():
    """Whisper has no key bias. With bias=False it has none of the others."""
    library = transformers("whisper")
    for options, letters in ({}, {"q", "v", "out"}), ({"bias": False}, set()):
        layer = library.WhisperAttention(E, H, config=library.WhisperConfig(), **options)
        biases = {name for name in layer.state_dict() if name.endswith("bias")}
        assert biases == {f"{letter}_proj.bias" for letter in letters}


def assert_rounds_in_eager_mode(layer, layout, x):
    """A layer in float64 is exact with sdpa, and in eager mode it differs as float32 does."""
    exact = replace(qkv.load(layer.state_dict(), layout, h=H), rotary=False)(x)
    assert close(attend(layer, x, no_rotation())[0], exact)
    layer.config._attn_implementation = "eager"
    assert 1e-10 < np.abs(attend(layer, x, no_rotation())[0] - exact).max() < 1e-5


def test_llama_takes_the_softmax_in_float32_in_eager_mode(rng, x):
    """Llama takes the softmax in float32 in eager mode.

    A model in float64 differs from itself by float32's rounding.
    """
    assert_rounds_in_eager_mode(rotary_layer("Llama", rng)[0], "llama", x)


def test_gpt_neox_takes_the_softmax_in_float32_in_eager_mode(rng, x):
    """In eager mode GPT-NeoX takes the softmax in float32, and with sdpa it does not.

    A model in float64 differs from itself by float32's rounding.
    """
    layer, _ = rotary_layer("GPTNeoX", rng, module="gpt_neox", head_dim=D_K)
    assert_rounds_in_eager_mode(layer, "gpt-neox", x)


def test_gpt_neox_rotates_a_quarter_of_each_head_and_there_a_key_bias_counts(torch, rng):
    """GPT-NeoX rotates a quarter of each head by default, and there a key bias counts.

    On the coordinates that it does not rotate, the softmax removes a key bias.
    """
    sizes = {"hidden_size": 16, "head_dim": 8}
    layer, rotary = rotary_layer("GPTNeoX", rng, module="gpt_neox", **sizes)
    assert layer.rotary_ndims == 8 // 4
    x = rng.normal(size=(1, N_Q, 16))
    rotation = rotary(torch.from_numpy(x), torch.arange(N_Q)[None])
    before, _ = attend(layer, x, rotation)
    for coordinates, counts in ((slice(8 + 2, 16), False), (slice(8, 8 + 2), True)):
        with torch.no_grad():
            layer.query_key_value.bias[coordinates] += 10  # of head 0: q, then k, then v
        after, _ = attend(layer, x, rotation)
        assert np.allclose(after, before, rtol=0, atol=1e-12) != counts


def test_gpt_neox_rotates_pairs_and_frequencies_of_the_rotated_part(torch, rng):
    """GPT-NeoX takes pairs and frequencies of a partial rotation from the rotated part alone.

    Of 64 coordinates with a quarter rotated, coordinate i is paired with i + 8, and the angles are
    theta^(-2i/16). The other 48 pass through.
    """
    library = transformers("gpt_neox")
    config = library.GPTNeoXConfig(hidden_size=2 * 64, num_attention_heads=2)
    rotary = library.GPTNeoXRotaryEmbedding(config)
    theta = config.rope_parameters["rope_theta"]
    assert np.allclose(rotary.inv_freq, theta ** (-2 * np.arange(8) / 16), rtol=1e-6)

    cos, sin = rotary(torch.zeros(1), torch.tensor([[3]]))
    each = torch.eye(64)[:, None, None]  # (64 heads, 1 token): each has one coordinate
    turned, _ = library.apply_rotary_pos_emb(each[None, :, 0], each[None, :, 0], cos, sin)
    moved = turned[0, :, 0].abs() > 1e-6
    for i in range(64):
        expected = {i % 8, i % 8 + 8} if i < 16 else {i}
        assert {*torch.where(moved[i])[0].tolist()} == expected


def test_llama_refuses_a_rotation_of_a_part_of_the_head_at_dimension_3(torch):
    """Llama's code refuses a rotation of a part of the head, and names dimension 3.

    The two numbers are the width of the head and that of the rotation, which may be larger, too.
    """
    q = torch.ones(2, H, N_Q, 16)
    for width in (4, 32):
        cos = torch.ones(2, N_Q, width)
        said = rf"tensor a \(16\) must match .* tensor b \({width}\) at non-singleton dimension 3"
        with pytest.raises(RuntimeError, match=said):
            transformers("llama").apply_rotary_pos_emb(q, q, cos, cos)


@pytest.mark.parametrize("kind", ["yarn", "longrope", "linear"])
def test_yarn_and_longrope_multiply_scores_at_distance_zero_and_linear_scaling_does_not(
    torch, kind
):
    """YaRN and LongRoPE multiply scores at distance zero, and linear scaling does not.

    By the square of the attention factor, in Transformers' Llama, for four times the length.
    """
    llama = transformers("llama")
    given = {"rope_type": kind, "factor": 4.0, "rope_theta": 1e4}
    if kind != "linear":
        given["original_max_position_embeddings"] = 64
    if kind == "longrope":
        given |= {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "max_position_embeddings": 256}
    rotary = llama.LlamaRotaryEmbedding(llama.LlamaConfig(rope_parameters=given, **sizes))
    cos, sin = rotary(torch.zeros(1), torch.arange(4)[None])
    q, k = torch.randn(2, 1, 1, 4, 16, generator=torch.Generator().manual_seed(0))
    turned = llama.apply_rotary_pos_emb(q, k, cos, sin)
    times = (turned[0] * turned[1]).sum(dim=-1) / (q * k).sum(dim=-1)
    factor = times[0, 0, 0].item()
    assert torch.allclose(times, times[0, 0, 0], rtol=1e-3)
    assert factor == pytest.approx(1) if kind == "linear" else factor > 1.1


def test_rotation_makes_the_score_of_two_tokens_depend_on_their_distance(torch, rng, x):
    """Rotation makes the score of two tokens depend on their distance.

    Copies of one token all score alike without RoPE; with it no single W_QK gives the scores.
    """
    layer, rotary = rotary_layer("Llama", rng, attn_implementation="eager")
    copies = np.repeat(x[:, :1], N_Q, axis=1)
    rotation = rotary(torch.from_numpy(copies), torch.arange(N_Q)[None])
    _, unrotated = attend(layer, copies, no_rotation())
    _, rotated = attend(layer, copies, rotation)
    assert np.allclose(unrotated, 1 / N_Q, atol=1e-7)
    assert np.ptp(rotated, axis=-1).max() > 1e-2
    log = np.log(rotated[0])  # scores but for a constant of each query
    forward, back = log[:, 1, 2] - log[:, 1, 1], log[:, 1, 0] - log[:, 1, 1]
    assert np.abs(forward - back).max() > 1e-2


def test_rotation_makes_a_key_bias_count(torch, rng, x):
    """Rotation makes a key bias count.

    Softmax removes a key bias only where nothing is between the bias and the dot product.
    """
    layer, rotary = rotary_layer("Llama", rng, attention_bias=True)
    rotation = rotary(torch.from_numpy(x), torch.arange(N_Q)[None])
    before = [attend(layer, x, angles)[0] for angles in (no_rotation(), rotation)]
    with torch.no_grad():
        layer.k_proj.bias += 10
    after = [attend(layer, x, angles)[0] for angles in (no_rotation(), rotation)]
    assert close(after[0], before[0])
    assert not np.allclose(after[1], before[1], atol=1e-3)


def test_rotation_turns_a_query_bias(torch, rng, x):
    """RoPE turns a query bias: without query weights, Qwen2's queries may prefer different keys.

    Without the rotation each query prefers the same keys. Key weights of zero give equal weights
    without the rotation, and others with it, because the key bias is turned, too.
    """
    layer, rotary = rotary_layer("Qwen2", rng, attn_implementation="eager")
    rotation = rotary(torch.from_numpy(x), torch.arange(N_Q)[None])
    with torch.no_grad():
        layer.q_proj.weight.zero_()
        layer.q_proj.bias.copy_(torch.tensor([5.0, 0, 0, 0]).repeat(H))
    still, turned = (attend(layer, x, angles)[1] for angles in (no_rotation(), rotation))
    preferred = turned.argmax(axis=-1)
    assert close(still, np.broadcast_to(still[:, :, :1], still.shape))
    assert (preferred != preferred[..., :1]).any()

    layer, rotary = rotary_layer("Qwen2", rng, attn_implementation="eager")
    with torch.no_grad():
        layer.k_proj.weight.zero_()
    still, turned = (attend(layer, x, angles)[1] for angles in (no_rotation(), rotation))
    assert np.allclose(still, 1 / N_Q, rtol=0, atol=1e-6)
    assert not np.allclose(turned, 1 / N_Q, atol=0.01)


def value_bias_moved(layer, value="v_proj", output="o_proj"):
    """A copy of a layer, with what its value bias writes in its output bias."""
    moved = deepcopy(layer).requires_grad_(False)
    value, output = moved.get_submodule(value), moved.get_submodule(output)
    output.bias += output.weight @ value.bias
    value.bias.zero_()
    return moved


def assert_differ_by_their_sinks(layers, x, angles):
    """Two layers of gpt-oss give different outputs, and equal ones if no sink has a share."""
    assert not np.allclose(*(attend(each, x, angles)[0] for each in layers), atol=0.01)
    for each in layers:
        each.sinks.data.fill_(float("-inf"))
    assert close(*(attend(each, x, angles)[0] for each in layers))


def test_gpt_oss_value_bias_does_not_move_into_the_output_bias(torch, rng, x):
    """In gpt-oss a value bias does not move into the output bias: its sinks take a share.

    Without the share of the sinks it does, although the layer rotates queries and keys.
    """
    layer, rotary = rotary_layer("GptOss", rng, module="gpt_oss", attn_implementation="eager")
    rotation = rotary(torch.from_numpy(x), torch.arange(N_Q)[None])
    assert_differ_by_their_sinks((layer, value_bias_moved(layer)), x, rotation)


def test_gpt_oss_a_sink_adds_e_to_its_power_to_the_sum(torch, rng):
    """In gpt-oss each head adds e to the power of its sink to the sum in its softmax.

    The sink has no value.
    """
    models = pytest.importorskip("transformers.models.gpt_oss.modeling_gpt_oss")
    Q, K, V = torch.from_numpy(rng.normal(size=(3, 1, 2, N_Q, 4)))
    layer = torch.nn.Module().eval()
    layer.sinks, layer.num_key_value_groups = torch.tensor([0.5, 2.0]).double(), 1
    result, weights = models.eager_attention_forward(layer, Q, K, V, None, 0.5)
    assert torch.allclose(result.transpose(1, 2), weights @ V)
    E, sink = (Q @ K.mT / 2).exp(), layer.sinks[:, None, None]
    assert torch.allclose(weights, E / (E.sum(dim=-1, keepdim=True) + sink.exp()))
    assert not torch.allclose(weights, E / (E.sum(dim=-1, keepdim=True) + sink), atol=0.01)


def test_gpt_oss_a_key_bias_counts_for_a_single_token(torch, rng, x):
    """In gpt-oss a key bias changes the output of a single token: its sink does not get the bias.

    Without the share of the sinks the token has the weight 1, and the bias changes nothing.
    """
    layer, _ = rotary_layer("GptOss", rng, module="gpt_oss", attn_implementation="eager")
    biased = deepcopy(layer)
    with torch.no_grad():
        biased.k_proj.bias += 1
    assert_differ_by_their_sinks((layer, biased), x[:, :1], no_rotation())


@pytest.mark.parametrize("model", ["Llama", "BitNet", "Qwen3Next", "Gemma3nText"])
def test_a_value_bias_does_not_pass_a_norm_or_a_gate(rng, x, model):
    """In BitNet, Qwen3-Next and Gemma 3n a value bias does not move into the output bias.

    BitNet norms the joined heads, Qwen3-Next multiplies them by a gate that depends on the token,
    and Gemma 3n norms the values. In Llama's layer with biases, which does none of this, it moves.
    """
    own = {"Qwen3Next": "qwen3_next", "Gemma3nText": "gemma3n"}.get(model)
    layer, _ = rotary_layer(model, rng, module=own, head_dim=D_K, attention_bias=True)
    both = layer, value_bias_moved(layer)
    outputs = [attend(each, x, no_rotation())[0] for each in both]
    assert np.allclose(*outputs, rtol=0, atol=1e-4) == (model == "Llama")


@pytest.mark.parametrize("rotated", [False, True])
def test_roformer_a_value_bias_does_not_pass_a_rotation_of_the_values(torch, rng, rotated):
    """With rotary_value=True a value bias of RoFormer does not move into the output bias.

    By default RoFormer rotates queries and keys alone, and there it moves.
    """
    library, x = transformers("roformer"), rng.normal(size=(1, 5, 8))
    config = library.RoFormerConfig(hidden_size=8, num_attention_heads=2, rotary_value=rotated)
    layer = randomised(library.RoFormerAttention(config, layer_idx=0), rng)
    moved = value_bias_moved(layer, "self.value", "output.dense")
    angles = torch.arange(5, dtype=float)[:, None] / torch.tensor([1, 10])
    places = torch.cat([angles.sin(), angles.cos()], dim=-1)[None, None]
    outputs = [called(each, x, sinusoidal_pos=places)[0] for each in (layer, moved)]
    assert np.allclose(*outputs, rtol=0, atol=1e-4) == (not rotated)


@pytest.mark.parametrize("model", ["Llama", "BitNet", "Olmo2"])
def test_a_head_that_writes_nothing_counts_in_a_norm_of_all_heads(torch, rng, x, model):
    """In BitNet and OLMo 2 a head whose columns of o_proj are zero still changes the output.

    It counts in the norm of the joined heads, or of the queries and keys of all heads. In Llama
    its other weights change nothing.
    """
    layer, _ = rotary_layer(model, rng, head_dim=D_K)
    gone = zeroed(layer, o_proj__weight=(slice(None), FIRST_HEAD))
    other = deepcopy(gone)
    with torch.no_grad():
        for each in (other.q_proj, other.k_proj, other.v_proj):
            each.weight[FIRST_HEAD] = torch.from_numpy(rng.normal(size=(D_K, E)))
    outputs = [attend(each, x, no_rotation())[0] for each in (gone, other)]
    assert np.allclose(*outputs, rtol=0, atol=1e-4) == (model == "Llama")


def test_qk_norm_makes_weights_ignore_the_length_of_a_token(rng, x):
    """Without biases QK-norm makes Qwen3's attention weights ignore the length of a token.

    Qwen3 normalises projected queries and keys, so its scores are not bilinear in the tokens. With
    attention_bias=True the weights change.
    """
    longer = x.copy()
    longer[:, 1] *= 5

    def moved(model, **options):
        layer, _ = rotary_layer(model, rng, attn_implementation="eager", **options)
        before, after = (attend(layer, each, no_rotation())[1] for each in (x, longer))
        return np.abs(after - before).max()

    assert moved("Qwen3") < 1e-4
    assert min(moved("Llama"), moved("Qwen3", attention_bias=True)) > 1e-2


def test_torch_attention_without_positions_is_equivariant(torch, rng, x):
    """Without a mask PyTorch's attention and encoder layer do not see the order of the tokens.

    In another order they return the same vectors, in that order. A causal mask changes that.

    Covers: one order of five tokens, in evaluation, without a mask; MultiheadAttention with one.
    """
    order = [3, 0, 4, 2, 1]
    mha = randomised(torch.nn.MultiheadAttention(E, H, batch_first=True), rng)
    block = randomised(torch.nn.TransformerEncoderLayer(E, H, 11, batch_first=True), rng)
    x = torch.from_numpy(x)
    causal = torch.ones(N_Q, N_Q, dtype=torch.bool).triu(1)
    with torch.no_grad():
        for layer in (lambda x: mha(x, x, x)[0], block):
            assert_allclose(layer(x[:, order]), layer(x)[:, order], atol=1e-12)
            assert not np.allclose(layer(x[:, order]), layer(x), atol=1e-3)
        masked = [mha(each, each, each, attn_mask=causal)[0] for each in (x[:, order], x)]
    assert not np.allclose(masked[0], masked[1][:, order], atol=1e-3)


NORMS = {
    "NanoChat": ("nanochat", "q_norm", "k_norm"),
    "Qwen3": ("qwen3", "q_norm", "k_norm"),
    "HunYuanDenseV1": ("hunyuan_v1_dense", "query_layernorm", "key_layernorm"),
}


def orders_that_fit(torch, rng, x, model):
    """In which order of norm and rotation a layer's weights come out."""
    module, *norms = NORMS[model]
    library = transformers(module)
    config = getattr(library, f"{model}Config")(
        hidden_size=E, num_attention_heads=H, num_key_value_heads=H, head_dim=4
    )
    config._attn_implementation = "eager"
    layer = randomised(getattr(library, f"{model}Attention")(config, layer_idx=0), rng)
    angles = torch.from_numpy(np.outer(np.arange(N_Q), [1, 0.3])).repeat(1, 2)[None]
    rotation = angles.cos(), angles.sin()
    _, weights = attend(layer, x, rotation)

    def rotated(q, k):
        return library.apply_rotary_pos_emb(q, k, *rotation)

    def normed(q, k):
        return tuple(getattr(layer, norm)(each) for norm, each in zip(norms, (q, k), strict=True))

    fits = set()
    with torch.no_grad():
        maps = layer.q_proj, layer.k_proj
        projected = [each(torch.from_numpy(x)).view(1, N_Q, H, 4).transpose(1, 2) for each in maps]
        for first, then in ((normed, rotated), (rotated, normed)):
            q, k = then(*first(*projected))
            expected = (q @ k.mT * layer.scaling).softmax(-1)
            if np.abs(weights - expected.numpy()).max() < 1e-5:
                fits.add(first.__name__)
    return fits


def test_order_of_rotation_and_norm_counts_with_gains(torch, rng, x):
    """If gains differ, the order of rotation and norm counts: Qwen3 norms first, HunYuan last.

    NanoChat rotates first and its norm has no gains, so both orders give its weights.
    """
    assert orders_that_fit(torch, rng, x, "Qwen3") == {"normed"}
    assert orders_that_fit(torch, rng, x, "HunYuanDenseV1") == {"rotated"}
    assert orders_that_fit(torch, rng, x, "NanoChat") == {"normed", "rotated"}


def test_mla_keys_have_the_rank_of_the_latent(torch, rng):
    """DeepSeek-V3's keys without position are one low-rank map, times a number of each token's own.

    The rank of the map is the width of the latent, 5. It gives the keys of all heads, 12 numbers.
    """
    library = transformers("deepseek_v3")
    config = library.DeepseekV3Config(
        hidden_size=13, num_attention_heads=H, kv_lora_rank=5, qk_nope_head_dim=6, v_head_dim=3
    )
    layer = randomised(library.DeepseekV3Attention(config, layer_idx=0), rng)
    x = rng.normal(size=(N_Q, 13))
    with torch.no_grad():
        latent = layer.kv_a_proj_with_mqa(torch.from_numpy(x))[:, :5]
        both = layer.kv_b_proj(layer.kv_a_layernorm(latent)).numpy().reshape(N_Q, H, 9)
    keys = both[..., :6].reshape(N_Q, 12)
    down, norm, up = (
        part.weight.detach().numpy().T
        for part in (layer.kv_a_proj_with_mqa, layer.kv_a_layernorm, layer.kv_b_proj)
    )
    merged, _ = qkv.merge(down[:, :5] * norm, up.reshape(5, H, 9)[..., :6].reshape(5, 12))
    assert merged.shape == (13, 12)
    assert np.linalg.matrix_rank(merged) == 5
    length = np.linalg.norm(keys, axis=-1) / np.linalg.norm(x @ merged, axis=-1)
    assert_allclose(keys, length[:, None] * (x @ merged), atol=1e-5)  # its norm is in float32
    assert np.ptp(length) > 0.01


def test_mla_has_a_norm_between_two_maps_so_they_are_no_single_map(torch, rng):
    """DeepSeek-V3 has a norm between two maps of its queries, so the two are no single map.

    It has them if `q_lora_rank` is a number, as by default. Its queries are those of one merged
    map, times a number of each token's own.
    """
    library = transformers("deepseek_v3")
    config = library.DeepseekV3Config(hidden_size=13, num_attention_heads=H, q_lora_rank=5)
    layer = randomised(library.DeepseekV3Attention(config, layer_idx=0), rng)
    x = rng.normal(size=(N_Q, 13))
    with torch.no_grad():
        queries = layer.q_b_proj(layer.q_a_layernorm(layer.q_a_proj(torch.from_numpy(x)))).numpy()
    down, norm, up = (
        part.weight.detach().numpy().T
        for part in (layer.q_a_proj, layer.q_a_layernorm, layer.q_b_proj)
    )
    merged, _ = qkv.merge(down * norm, up)
    length = np.linalg.norm(queries, axis=-1) / np.linalg.norm(x @ merged, axis=-1)
    assert_allclose(queries, length[:, None] * (x @ merged), atol=1e-5)  # its norm is in float32
    assert np.ptp(length) > 0.1


def test_mla_scores_are_larger_where_yarn_lengthens_the_context(torch):
    """MLA scores are larger where yarn lengthens the context.

    DeepSeek-V3's √192 becomes √192 / 1.87 with the factor of 40 of its released weights.
    """
    library = transformers("deepseek_v3")
    rope = {"rope_type": "default", "rope_theta": 10_000.0}
    yarn = rope | {
        "rope_type": "yarn",
        "factor": 40,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096,
    }
    divisors = []
    for rope_parameters in (rope, yarn):
        config = library.DeepseekV3Config(rope_parameters=rope_parameters)
        with torch.device("meta"):
            divisors.append(1 / library.DeepseekV3Attention(config, layer_idx=0).scaling)
    assert divisors[0] == pytest.approx(192**0.5)
    assert divisors[1] == pytest.approx(192**0.5 / (0.1 * np.log(40) + 1) ** 2)
    assert divisors[0] / divisors[1] == pytest.approx(1.87, abs=0.01)


def test_qwen3_heads_need_not_fill_hidden_size(torch):
    """Qwen3 heads need not fill hidden size.

    4B: 2560 and 32 heads of 128, 8 of keys and values; 0.6B: 1024 and 16 heads of 128.
    """
    library = transformers("qwen3")
    for width, h, h_kv in ((2560, 32, 8), (1024, 16, 8)):
        sizes = {"hidden_size": width, "num_attention_heads": h, "num_key_value_heads": h_kv}
        with torch.device("meta"):
            layer = library.Qwen3Attention(library.Qwen3Config(head_dim=128, **sizes), layer_idx=0)
        assert layer.q_proj.weight.shape == (h * 128, width)
        assert layer.k_proj.weight.shape == layer.v_proj.weight.shape == (h_kv * 128, width)
        assert layer.o_proj.weight.shape == (width, h * 128)


def test_llama_k_proj_is_as_tall_as_its_key_heads(torch):
    """Llama's `k_proj` has fewer rows than `q_proj` where heads are grouped.

    hidden_size 4096, 32 query heads, 8 key heads: k_proj (1024, 4096), q_proj (4096, 4096).
    """
    library = transformers("llama")
    sizes = {"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8}
    with torch.device("meta"):
        layer = library.LlamaAttention(library.LlamaConfig(**sizes), layer_idx=0)
    assert layer.k_proj.weight.shape == layer.v_proj.weight.shape == (1024, 4096)
    assert layer.q_proj.weight.shape == layer.o_proj.weight.shape == (4096, 4096)


def test_qk_norm_bounds_scores_by_its_gains(torch, rng):
    """QK-norm bounds scores by its gains.

    With gains of 3 on both sides a scaled score of Qwen3 reaches 9 √d_k, whatever the token. The
    rotation comes after the gains, so a gain of 2 for queries meets one of 2 for keys in the other
    coordinate of its pair: 4 √d_k, where a coordinate's own two gains have the product 2. No score
    of 200 random queries with as many keys, turned by random angles, is larger.
    """
    layer, _ = rotary_layer("Qwen3", rng)
    with torch.no_grad():
        for norm in (layer.q_norm, layer.k_norm):
            norm.weight.fill_(3)
        query, key = (norm(torch.tensor([5.0, 0, 0, 0])) for norm in (layer.q_norm, layer.k_norm))
        assert (query @ key).item() * layer.scaling == pytest.approx(9 * 4**0.5, rel=1e-4)

        layer.q_norm.weight.copy_(torch.tensor([2.0, 1, 1, 1]))
        layer.k_norm.weight.copy_(torch.tensor([1.0, 1, 2, 1]))
        query = layer.q_norm(torch.tensor([5.0, 0, 0, 0]))[None, None, None]
        key = layer.k_norm(torch.tensor([0, 0, 5.0, 0]))
        quarter_turn = torch.zeros(1, 1, 4), torch.ones(1, 1, 4)  # cosines, sines
        turned, _ = transformers("qwen3").apply_rotary_pos_emb(query, query, *quarter_turn)
        assert (turned.flatten() @ key).item() * layer.scaling == pytest.approx(8, rel=1e-4)

        angles = torch.from_numpy(rng.uniform(0, 2 * np.pi, size=(1, 200, 2))).repeat(1, 1, 2)
        tokens = torch.from_numpy(rng.normal(size=(2, 1, 1, 200, 4)))
        normed = layer.q_norm(tokens[0]), layer.k_norm(tokens[1])
        pair = transformers("qwen3").apply_rotary_pos_emb(*normed, angles.cos(), angles.sin())
    scores = (pair[0] @ pair[1].mT).abs() * layer.scaling
    assert 4 < scores.max().item() <= 4 * 4**0.5 + 1e-4


def vit_attention(rng, **options):
    """vit-pytorch's Attention with random weights, the norm's too."""
    return randomised(vit_pytorch_code().Attention(E, **options), rng)


def test_vit_pytorch_normalises_what_it_receives(torch, rng, x):
    """`vit-pytorch` normalises what it receives, so the source of its maps is norm(x).

    The norm is a part of the module, and stands before to_qkv.
    """
    layer = vit_attention(rng, heads=H, dim_head=D_K)
    mh = qkv.load(layer.state_dict(), "vit-pytorch", h=H)
    with torch.no_grad():
        source = layer.norm(torch.from_numpy(x)).numpy()
        output = layer(torch.from_numpy(x)).numpy()
    assert close(output, mh(source))
    assert not np.allclose(output, mh(x), atol=1e-3)


def test_cait_of_vit_pytorch_mixes_heads_after_the_softmax(torch, rng, x):
    """CaiT of `vit-pytorch` mixes the heads' weights after the softmax, so some are negative.

    What is multiplied with the values does not sum to 1. The scores are mixed before it, too.
    """
    layer = randomised(alone("vit_pytorch.cait").Attention(E, heads=H, dim_head=D_K), rng)
    with torch.no_grad():
        source = layer.norm(torch.from_numpy(x))
        q, k, v = (
            made.reshape(N_Q, H, D_K).transpose(0, 1)
            for made in (layer.to_q(source), *layer.to_kv(source).chunk(2, dim=-1))
        )
        before, after = layer.mix_heads_pre_attn, layer.mix_heads_post_attn
        scores = torch.einsum("hij,hg->gij", q @ k.mT / D_K**0.5, before)
        weights = torch.einsum("hij,hg->gij", scores.softmax(dim=-1), after)
        joined = (weights @ v).transpose(0, 1).reshape(1, N_Q, H * D_K)
        assert close(layer(torch.from_numpy(x)), layer.to_out(joined))
    assert weights.min() < 0
    assert not np.allclose(weights.sum(dim=-1), 1, atol=0.1)


def test_the_check_of_steps_holds_for_a_fresh_layer_of_torch_in_float32(torch):
    """The check of steps holds for a fresh nn.MultiheadAttention in float32.

    Without biases, 512 wide. Its output is small, so a LayerNorm's eps takes some of the variance.
    """
    page = (ROOT / "docs" / "symptoms" / "steps.md").read_text()
    (block,) = (each for each in blocks.find(page) if "def step_that_differs" in each.code)
    exec(block.code, names := {})
    step_that_differs = names["step_that_differs"]
    torch.manual_seed(0)
    mha = torch.nn.MultiheadAttention(512, 8, bias=False, batch_first=True).eval()
    x = torch.randn(1, 50, 512)
    with torch.no_grad():
        right, _ = mha(x, x, x)
        outputs = {
            "residual": right + x,
            "W_O twice": mha.out_proj(right),
            "a LayerNorm comes last": torch.nn.functional.layer_norm(right, (512,)),
        }
        W_O = mha.out_proj.weight.T.numpy()
    for step, mine in outputs.items():
        found = step_that_differs(mine[0].numpy(), right[0].numpy(), x[0].numpy(), W_O)
        assert found == [step]


def test_vit_pytorch_one_head_as_wide_as_the_token_has_no_output_map(torch, rng, x):
    """In `vit-pytorch` one head as wide as the token has no output map.

    What it returns is the head itself. Two heads, or a head of another width, have one.
    """
    layer = vit_attention(rng, heads=1, dim_head=E)
    assert not any(name.startswith("to_out") for name in layer.state_dict())
    with torch.no_grad():
        source = layer.norm(torch.from_numpy(x))
        Q, K, V = (part.numpy() for part in layer.to_qkv(source).chunk(3, dim=-1))
        assert close(layer(torch.from_numpy(x)).numpy(), qkv.attention(Q, K, V))
    for heads, dim_head in ((H, D_K), (1, D_K)):
        stored = vit_attention(rng, heads=heads, dim_head=dim_head).state_dict()
        assert stored["to_out.0.weight"].shape == (E, heads * dim_head)


def test_vit_pytorch_heads_are_64_wide_whatever_dim_is(rng):
    """In `vit-pytorch` heads are 64 wide unless told otherwise; dim does not set their width.

    `dim_head` is the width of one head, and heads need not fill dim.
    """
    assert vit_attention(rng).to_qkv.weight.shape == (3 * 8 * 64, E)
    assert vit_attention(rng, heads=H, dim_head=5).to_qkv.weight.shape == (3 * H * 5, E)


def test_siglip_probe_takes_w_q_into_itself(torch, rng, x):
    """SigLIP's pooling head in Transformers gives the same output with its probe folded into W_Q.

    The probe becomes its projected queries, W_Q the identity, and the bias of the queries zero.
    """
    library = transformers("siglip")
    config = library.SiglipVisionConfig(
        hidden_size=E, num_attention_heads=H, intermediate_size=11, num_hidden_layers=1
    )
    head = randomised(library.SiglipMultiheadAttentionPoolingHead(config), rng)
    before = called(head, x)[0]
    with torch.no_grad():
        W, b = head.attention.in_proj_weight, head.attention.in_proj_bias
        head.probe.copy_(head.probe @ W[:E].T + b[:E])
        W[:E], b[:E] = torch.eye(E, dtype=W.dtype), 0
    assert close(called(head, x)[0], before)


# timm


def test_timm_norm_stands_between_the_heads_and_the_output_map(torch, rng, x):
    """In timm with scale_norm=True, `norm` normalises the joined heads before the output map.

    `qkv.load` refuses it.
    """
    library = timm_code()
    layer = library.Attention(E, H, scale_norm=True, norm_layer=torch.nn.LayerNorm)
    state = randomised(layer, rng).state_dict()
    with pytest.raises(ValueError, match=r"norm.weight.*between the heads and the output map"):
        qkv.load(state, "timm", h=H)
    maps = {name: array for name, array in state.items() if not name.startswith("norm.")}
    mh = qkv.load(maps, "timm", h=H)
    heads = replace(mh, W_O=np.eye(E).reshape(H, D_K, E), b_O=None)(x)
    with torch.no_grad():
        expected = layer.proj(layer.norm(torch.from_numpy(heads))).numpy()
        real = layer(torch.from_numpy(x)).numpy()
    assert close(real, expected)
    assert not np.allclose(real, mh(x), atol=1e-3)


def test_timm_has_no_qkv_bias_unless_asked_for():
    """In timm Attention has no bias of queries, keys and values unless asked for.

    The output map has one.
    """
    library = timm_code()
    assert [*library.Attention(E, H).state_dict()] == ["qkv.weight", "proj.weight", "proj.bias"]
    assert "qkv.bias" in library.Attention(E, H, qkv_bias=True).state_dict()


def test_timm_qk_norm_without_weights_loads_and_changes_the_output(torch, rng, x):
    """In timm a norm of queries and keys without weights loads, and changes the output.

    With qk_norm=True the names of the weights are the same then.
    """
    library = timm_code()
    norm = partial(torch.nn.LayerNorm, elementwise_affine=False)
    layer = randomised(library.Attention(E, H, qk_norm=True, norm_layer=norm), rng)
    plain = randomised(library.Attention(E, H), rng)
    plain.load_state_dict(layer.state_dict())
    mh = qkv.load(layer.state_dict(), "timm", h=H)
    with torch.no_grad():
        assert close(plain(torch.from_numpy(x)).numpy(), mh(x))
        assert not np.allclose(layer(torch.from_numpy(x)).numpy(), mh(x), atol=1e-3)


def test_timm_latent_query_takes_its_projection_into_itself(torch, rng, x, monkeypatch):
    """`AttentionPoolLatent` of timm without `q_proj` gives the same output from a folded latent.

    `scaled_dot_product_attention` gets this latent as its query, cut into heads.
    """
    AttentionPoolLatent = timm_code("attention_pool").AttentionPoolLatent
    sizes = {"in_features": E, "num_heads": H, "latent_len": 3, "pool_type": ""}
    whole = randomised(AttentionPoolLatent(**sizes), rng)
    folded = AttentionPoolLatent(**sizes, q_proj=False).to(torch.float64).eval()
    weights = whole.state_dict()
    weights["latent"] = whole.q(whole.latent).detach()
    del weights["q.weight"], weights["q.bias"]
    folded.load_state_dict(weights)
    assert folded.latent.shape == whole.latent.shape
    output, queries = called(whole, x)[0], []
    attend = torch.nn.functional.scaled_dot_product_attention

    def seen(q, k, v, **options):
        queries.append(q)
        return attend(q, k, v, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", seen)
    assert close(called(folded, x)[0], output)
    (query,) = queries
    assert torch.equal(query[0].transpose(0, 1).flatten(1), folded.latent[0])


# diffusers


def diffusers_layer(rng, **options):
    library = pytest.importorskip("diffusers.models.attention_processor")
    return randomised(library.Attention(E, heads=H, **options), rng)


def test_diffusers_may_add_the_source_and_divide(torch, rng, x):
    """In diffusers Attention may add the source to its output, and divide.

    residual_connection adds, and rescale_output_factor divides the sum, or the output alone. No
    weight shows them.
    """
    for adds in (True, False):
        options = {"residual_connection": adds, "rescale_output_factor": 2.0}
        layer = diffusers_layer(rng, dim_head=D_K, **options)
        mh = qkv.load(layer.state_dict(), "diffusers", h=H)
        with torch.no_grad():
            real = layer(torch.from_numpy(x)).numpy()
        assert close(real, (mh(x) + adds * x) / 2)


def test_diffusers_with_pre_only_has_no_output_map(rng):
    """In diffusers Attention made with pre_only=True has no output map, and is refused."""
    stored = diffusers_layer(rng, dim_head=D_K, pre_only=True).state_dict()
    assert not any(name.startswith("to_out") for name in stored)
    with pytest.raises(ValueError, match="to_out"):
        qkv.load(stored, "diffusers", h=H)


def test_diffusers_with_added_kv_proj_dim_holds_second_matrices(rng):
    """In diffusers a layer made with added_kv_proj_dim holds second matrices of keys and values.

    With context_pre_only True or False it holds one of queries too, and with False one for the
    output. With only_cross_attention=True it holds no first ones of keys and values.
    """
    first, keys, values = {"to_q", "to_out.0"}, {"to_k", "add_k_proj"}, {"to_v", "add_v_proj"}
    second = {None: set(), True: {"add_q_proj"}, False: {"add_q_proj", "to_add_out"}}
    for context, more in second.items():
        options = {"added_kv_proj_dim": 12, "context_pre_only": context}
        for cross in (False, True):
            layer = diffusers_layer(rng, only_cross_attention=cross, **options)
            stored = {name.removesuffix(".weight") for name in layer.state_dict()}
            stored -= {f"{name}.bias" for name in ("to_out.0", "to_add_out")}
            stored -= {f"add_{letter}_proj.bias" for letter in "qkv"}
            assert stored == (first | keys | values | more) - ({"to_k", "to_v"} if cross else set())


def test_diffusers_heads_are_64_wide_unless_told_otherwise(rng):
    """In diffusers heads are 64 wide unless told otherwise.

    query_dim does not set their width.
    """
    assert diffusers_layer(rng).to_q.weight.shape == (H * 64, E)
    assert diffusers_layer(rng, dim_head=5).to_q.weight.shape == (H * 5, E)


def test_keras_and_diffusers_have_classes_with_fewer_heads_of_keys(torch, keras, rng, x):
    """Keras and diffusers have classes that hold fewer heads of keys and values than of queries.

    They are Keras' GroupQueryAttention, and diffusers' Attention made with kv_heads and a processor
    that computes them. qkv.load refuses both.
    """
    grouped = keras.layers.GroupQueryAttention(D_K, 4, 2)
    assert grouped(x, x).shape == x.shape
    shapes = {weight.path.partition("/")[2]: weight.shape for weight in grouped.weights}
    assert shapes["query/kernel"] == (E, 4, D_K)
    assert shapes["key/kernel"] == shapes["value/kernel"] == (E, 2, D_K)
    with pytest.raises(ValueError, match="as many heads"):
        qkv.load(grouped.get_weights(), "keras", h=4, h_kv=2)

    library = pytest.importorskip("diffusers.models.attention_processor")
    processor = library.StableAudioAttnProcessor2_0()
    layer = library.Attention(E, heads=4, kv_heads=2, dim_head=D_K, processor=processor)
    assert layer(torch.from_numpy(x).float()).shape == x.shape
    assert layer.to_q.weight.shape == (4 * D_K, E)
    assert layer.to_k.weight.shape == layer.to_v.weight.shape == (2 * D_K, E)
    with pytest.raises(ValueError, match="as many heads"):
        qkv.load(layer.state_dict(), "diffusers", h=4, h_kv=2)


def test_diffusers_without_scale_qk_does_not_scale(torch, rng, x):
    """In diffusers Attention made with scale_qk=False does not scale.

    It has another processor then, and the same names of weights. Given AttnProcessor2_0 it scales.
    """
    layer = diffusers_layer(rng, dim_head=D_K, scale_qk=False)
    mh = qkv.load(layer.state_dict(), "diffusers", h=H)
    with torch.no_grad():
        real = layer(torch.from_numpy(x)).numpy()
    assert close(real, replace(mh, scale=1.0)(x))
    assert not np.allclose(real, mh(x), atol=1e-3)
    plain = diffusers_layer(rng, dim_head=D_K)
    assert layer.state_dict().keys() == plain.state_dict().keys()
    assert type(layer.processor) is not type(plain.processor)
    layer.set_processor(sys.modules[type(layer).__module__].AttnProcessor2_0())
    with torch.no_grad():
        assert close(layer(torch.from_numpy(x)).numpy(), mh(x))


def test_diffusers_qk_norms_without_weights_load_and_change_the_output(torch, rng, x):
    """In diffusers a norm of queries and keys without weights loads, and changes the output.

    "l2" and "fp32_layer_norm" have none, nor have "layer_norm" and "rms_norm" with
    elementwise_affine=False. Those across heads have weights in spite of it.
    """
    plain = diffusers_layer(rng, dim_head=D_K)
    affine = {"elementwise_affine": False}
    for options in (
        {},
        {"qk_norm": "l2"},
        {"qk_norm": "fp32_layer_norm"},
        affine | {"qk_norm": "layer_norm"},
        affine | {"qk_norm": "rms_norm"},
    ):
        layer = diffusers_layer(rng, dim_head=D_K, **options)
        layer.load_state_dict(plain.state_dict())
        mh = qkv.load(layer.state_dict(), "diffusers", h=H)
        with torch.no_grad():
            real = layer(torch.from_numpy(x)).numpy()
        assert np.allclose(real, mh(x), rtol=0, atol=1e-3) == (not options)
    for norm in ("layer_norm_across_heads", "rms_norm_across_heads"):
        layer = diffusers_layer(rng, dim_head=D_K, kv_heads=1, qk_norm=norm, **affine)
        assert {"norm_q.weight", "norm_k.weight"} <= {*layer.state_dict()}


# OpenAI's Whisper


def openai_whisper_layer(rng):
    return randomised(openai_whisper_code().MultiHeadAttention(E, H), rng)


def test_openai_whisper_takes_a_mask_for_the_causal_one(torch, rng, x):
    """OpenAI's Whisper with sdpa takes a mask for the causal one, and does not read its numbers.

    A mask that hides the last token does not hide it. One query alone attends to all keys.
    """
    layer = openai_whisper_layer(rng)
    mh = qkv.load(layer.state_dict(), "openai-whisper", h=H)
    hides_the_last = np.zeros((N_Q, N_Q))
    hides_the_last[:, -1] = -np.inf
    causal = mh(x, mask=np.tri(N_Q, dtype=bool))
    for mask in (hides_the_last, np.zeros((N_Q, N_Q))):
        assert close(called(layer, x, mask=mask)[0], causal)
    assert close(called(layer, x)[0], mh(x))
    assert not np.allclose(mh(x, mask=hides_the_last == 0), causal, atol=1e-3)
    one, hides = x[:, :1], np.full((1, N_Q), -np.inf)
    hides[0, 0] = 0
    assert close(called(layer, one, xa=torch.from_numpy(x), mask=hides)[0], mh(one, x))


def test_openai_whisper_computes_the_same_with_and_without_sdpa(rng, x, monkeypatch):
    """OpenAI's Whisper computes the same with and without sdpa, but for rounding.

    Without it, queries and keys are each multiplied by the fourth root of 1/d_k, and the softmax is
    taken in float32. Then the layer reads the mask.
    """
    library = openai_whisper_code()
    layer = openai_whisper_layer(rng)
    mh = qkv.load(layer.state_dict(), "openai-whisper", h=H)
    mask = np.tri(N_Q, dtype=bool) | (np.arange(N_Q) == 1)
    added = np.where(mask, 0, -np.inf)
    monkeypatch.setattr(library.MultiHeadAttention, "use_sdpa", False)
    for given, expected in ((None, mh(x)), (added, mh(x, mask=mask))):
        real, _ = called(layer, x, mask=given)
        assert np.allclose(real, expected, rtol=0, atol=1e-5)
        assert not close(real, expected)


# Surgery: a head removed, a norm folded, scales moved from one weight to the next


def zeroed(layer, **rows_or_columns):
    """A copy of a PyTorch layer with parts of its parameters set to zero, by their names."""
    torch = pytest.importorskip("torch")
    copy = deepcopy(layer)
    with torch.no_grad():
        for name, part in rows_or_columns.items():
            copy.get_parameter(name.replace("__", "."))[part] = 0
    return copy


FIRST_HEAD = slice(0, D_K)


def test_torch_a_head_without_queries_averages_and_one_without_output_columns_is_gone(mha, x, y):
    """PyTorch: a head with zero query weights averages; with zero columns of out_proj it is gone.

    Zero rows of W^Q, with the bias, give weights of 1/n_k. Zero rows of out_proj change each head.
    """
    mh = loaded(mha)
    without = mh(x, y) - head_by_head(mh, x, y)[0]
    no_queries = zeroed(mha, in_proj_weight=FIRST_HEAD, in_proj_bias=FIRST_HEAD)
    output, weights = called(no_queries, x, y, y, average_attn_weights=False)
    assert np.allclose(weights[:, 0], 1 / N_K)
    assert not np.allclose(output, without, atol=0.01)
    no_columns = zeroed(mha, out_proj__weight=(slice(None), FIRST_HEAD))
    assert close(called(no_columns, x, y, y)[0], without)
    no_rows = zeroed(mha, out_proj__weight=FIRST_HEAD)
    assert not np.allclose(called(no_rows, x, y, y)[0], without, atol=0.01)


def test_torch_a_head_without_value_weights_still_writes_its_value_bias(mha, x, y):
    """PyTorch: a head with zero value weights still writes its value bias.

    With the bias of its values at zero as well it is gone.
    """
    mh = loaded(mha)
    without = mh(x, y) - head_by_head(mh, x, y)[0]
    values = slice(2 * E, 2 * E + D_K)
    with_bias = called(zeroed(mha, in_proj_weight=values), x, y, y)[0]
    assert close(with_bias, without + mh.b_V[0] @ mh.W_O[0])
    gone = zeroed(mha, in_proj_weight=values, in_proj_bias=values)
    assert close(called(gone, x, y, y)[0], without)


def head_by_head(mh, *sources):
    """What each head adds to the output, without the output bias."""
    Q, K, V = mh.project(*sources)
    K, V = (np.repeat(shared, mh.h // mh.h_kv, axis=-3) for shared in (K, V))
    return np.moveaxis(qkv.attention(Q, K, V) @ mh.W_O, -3, 0)


def grouped_qwen2(rng):
    """Qwen2's attention with 14 heads of queries over 2 of keys and values, as Qwen2.5-0.5B has."""
    library = transformers("qwen2")
    sizes = {"hidden_size": 28, "num_attention_heads": 14, "num_key_value_heads": 2}
    config = library.Qwen2Config(**sizes, attn_implementation="eager")
    return randomised(library.Qwen2Attention(config, layer_idx=0), rng)


def test_qwen2_query_head_h_uses_key_head_h_over_7_where_14_share_2(torch, rng):
    """Qwen2 with 14 query heads over 2 key heads: query head 1 uses key head 0, and not 1.

    With the angle 0, head h has the weights of W_Q[h] and W_K[h // 7]. Heads 0 to 6 use key head 0.
    """
    layer, x = grouped_qwen2(rng), rng.normal(size=(1, N_Q, 28))
    _, weights = attend(layer, x, no_rotation())
    parts = {name: value.numpy() for name, value in layer.state_dict().items()}
    Q, K = (
        (x @ parts[f"{name}.weight"].T + parts[f"{name}.bias"]).reshape(N_Q, -1, 2).swapaxes(0, 1)
        for name in ("q_proj", "k_proj")
    )
    assert (len(Q), len(K)) == (14, 2)
    for h in range(14):
        expected = qkv.softmax(Q[h] @ K[h // 7].T / 2**0.5)
        assert np.allclose(weights[0, h], expected, atol=1e-6)  # its softmax is in float32
    wrong = qkv.softmax(Q[1] @ K[1].T / 2**0.5)
    assert not np.allclose(weights[0, 1], wrong, atol=0.01)


def test_qwen2_scores_a_word_with_itself_by_a_matrix_one_number_wider(torch, rng):
    """Qwen2's rotated score of a word with itself is that of a matrix that reads a constant 1, too.

    Without the biases the matrix gives another score.
    """
    library, layer = transformers("qwen2"), grouped_qwen2(rng)
    x = torch.from_numpy(rng.normal(size=(N_Q, 28)))
    with torch.no_grad():
        projected = (
            each(x).reshape(N_Q, -1, 2).swapaxes(0, 1) for each in (layer.q_proj, layer.k_proj)
        )
        angles = torch.arange(N_Q, dtype=torch.float64)[None, :, None].expand(1, N_Q, 2)
        q, k = library.apply_rotary_pos_emb(
            *(each[None] for each in projected), angles.cos(), angles.sin()
        )
        wider = torch.cat([x, torch.ones(N_Q, 1)], dim=1)
        for h in range(14):
            W_Q, W_K = (
                torch.cat([each.weight.T, each.bias[None]])[:, 2 * head : 2 * head + 2]
                for each, head in ((layer.q_proj, h), (layer.k_proj, h // 7))
            )
            itself = (q[0, h] * k[0, h // 7]).sum(dim=1)
            assert close(itself, ((wider @ W_Q @ W_K.T) * wider).sum(dim=1))
            assert not close(itself, ((x @ W_Q[:-1] @ W_K[:-1].T) * x).sum(dim=1))


def test_qwen2_equal_keys_that_are_turned_give_w_q_a_gradient(torch, rng):
    """Qwen2 with W_K = 0 and a key bias: the rotation makes the equal keys differ.

    Then W_Q has a gradient. Without the rotation it has none, up to rounding.
    """
    layer = grouped_qwen2(rng)
    with torch.no_grad():
        layer.k_proj.weight.zero_()
    x = torch.from_numpy(rng.normal(size=(1, N_Q, 28)))
    angles = torch.arange(N_Q, dtype=torch.float64)[None, :, None].expand(1, N_Q, 2)
    largest = []
    for cos, sin in ((angles.cos(), angles.sin()), no_rotation()):
        layer.zero_grad()
        layer(x, position_embeddings=(cos, sin), attention_mask=None)[0].square().sum().backward()
        largest.append(float(layer.q_proj.weight.grad.abs().max()))
    turned, unturned = largest
    assert turned > 1e-3
    assert unturned < turned / 1000  # its softmax is in float32


def test_llama_zero_value_rows_of_a_group_remove_its_query_heads(torch, rng):
    """Llama: zero value rows of a key head remove each query head that shares it, without biases.

    To remove one query head, its columns of o_proj are set to zero.
    """
    library = transformers("llama")
    sizes = {"hidden_size": 8, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = library.LlamaConfig(**sizes, attn_implementation="sdpa")
    layer = randomised(library.LlamaAttention(config, layer_idx=0), rng)
    x = rng.normal(size=(1, N_Q, 8))
    mh = replace(qkv.load(layer.state_dict(), "llama", h=4, h_kv=2), rotary=False)
    of_heads = head_by_head(mh, x)
    no_values = zeroed(layer, v_proj__weight=slice(0, 2))
    assert close(attend(no_values, x, no_rotation())[0], of_heads[2:].sum(axis=0))
    biased = library.LlamaConfig(**sizes, attn_implementation="sdpa", attention_bias=True)
    biased = randomised(library.LlamaAttention(biased, layer_idx=0), rng)
    biases_left = attend(zeroed(biased, v_proj__weight=slice(0, 2)), x, no_rotation())[0]
    gone = zeroed(biased, v_proj__weight=slice(0, 2), v_proj__bias=slice(0, 2))
    assert not np.allclose(biases_left, attend(gone, x, no_rotation())[0], atol=1e-3)
    one_less = zeroed(layer, o_proj__weight=(slice(None), slice(0, 2)))
    assert close(attend(one_less, x, no_rotation())[0], of_heads[1:].sum(axis=0))


def folded(linear, gain):
    """The linear layer with a norm's gain multiplied in: it scales the inputs, its columns."""
    new = deepcopy(linear)
    new.weight *= gain
    return new


ONE_PLUS = {
    "gemma": "GemmaRMSNorm",
    "gemma2": "Gemma2RMSNorm",
    "gemma3": "Gemma3RMSNorm",
    "qwen3_next": "Qwen3NextRMSNorm",
    "qwen3_5": "Qwen3_5RMSNorm",
    "nemotron": "NemotronLayerNorm1P",
}
AS_STORED = {
    "llama": "LlamaRMSNorm",
    "mistral": "MistralRMSNorm",
    "qwen2": "Qwen2RMSNorm",
    "qwen3": "Qwen3RMSNorm",
    "gemma3n": "Gemma3nRMSNorm",
    "gemma4": "Gemma4RMSNorm",
}


@pytest.fixture(params=[*ONE_PLUS.items(), *AS_STORED.items()], ids=lambda model: model[1])
def norm(request, rng):
    """A model's norm with random weights."""
    model, name = request.param
    return randomised(getattr(transformers(model), name)(E), rng)


def test_the_gain_of_gemmas_norm_is_one_plus_the_stored_weight(torch, norm, rng, x):
    """Norms of Gemma 1 to 3, Qwen3-Next, Qwen3.5 and Nemotron multiply by 1 plus the weight.

    Those of Llama, Mistral, Qwen2, Qwen3, Gemma 3n and Gemma 4 multiply by the weight. So a linear
    layer keeps its output with W * (1 + w) after the former, and with W * w after the latter.
    """
    one_plus = type(norm).__name__ in ONE_PLUS.values()
    linear = randomised(torch.nn.Linear(E, 3, bias=False), rng)
    tokens, bare = torch.from_numpy(x), deepcopy(norm)
    with torch.no_grad():
        shift = getattr(norm, "bias", 0 * norm.weight)
        for parameter in bare.parameters():
            parameter.zero_()
        assert bare(tokens).any() == one_plus  # a weight of zero tells the two apart
        if not one_plus:
            bare.weight.fill_(1)
        for gain, exact in ((1 + norm.weight, one_plus), (norm.weight, not one_plus)):
            new = folded(linear, gain)(bare(tokens)) + linear.weight @ shift
            assert np.allclose(new, linear(norm(tokens)), rtol=0, atol=1e-5) == exact


def test_torch_layer_norm_folds_into_multihead_attention(torch, mha, rng, x):
    """PyTorch: the gain and the shift of a LayerNorm fold into in_proj_weight and in_proj_bias.

    After that the columns may be centred. Without the shift's part of the bias the output changes.
    """
    norm = randomised(torch.nn.LayerNorm(E), rng)
    bare, tokens = torch.nn.LayerNorm(E, elementwise_affine=False), torch.from_numpy(x)
    new = deepcopy(mha)
    with torch.no_grad():
        new.in_proj_bias += mha.in_proj_weight @ norm.bias
        new.in_proj_weight *= norm.weight
        expected = mha(*[norm(tokens)] * 3)[0]
        assert close(new(*[bare(tokens)] * 3)[0], expected)
        new.in_proj_weight -= new.in_proj_weight.mean(dim=1, keepdim=True)
        assert close(new(*[bare(tokens)] * 3)[0], expected)
        new.in_proj_bias.copy_(mha.in_proj_bias)
        assert not np.allclose(new(*[bare(tokens)] * 3)[0], expected, atol=0.01)


def test_llama_weights_may_not_be_centred_after_its_norm(torch, rng, x):
    """Llama: centring the weights after its norm changes the queries.

    The norm divides by the root mean square, and leaves the mean in.
    """
    library = transformers("llama")
    norm = library.LlamaRMSNorm(E).double()
    linear = randomised(torch.nn.Linear(E, 3, bias=False), rng)
    with torch.no_grad():
        normed = norm(torch.from_numpy(x))
        before = linear(normed)
        linear.weight -= linear.weight.mean(dim=1, keepdim=True)
        assert not np.allclose(linear(normed), before, atol=0.01)


def test_llama_a_scale_moves_from_o_proj_to_v_proj_if_a_group_shares_it(torch, rng):
    """Llama with grouped heads: a scale moves from v_proj to o_proj if a group's heads share it.

    view(h_kv, g, d_k).mean(1), expanded over g, is exact. view(g, -1).mean(0) is not.
    """
    library = transformers("llama")
    h, h_kv, d_k = 8, 2, 3
    g = h // h_kv
    sizes = {"hidden_size": 16, "num_attention_heads": h, "num_key_value_heads": h_kv}
    config = library.LlamaConfig(**sizes, head_dim=d_k, attn_implementation="sdpa")
    layer = randomised(library.LlamaAttention(config, layer_idx=0), rng)
    x = rng.normal(size=(1, N_Q, 16))
    scale = torch.from_numpy(rng.uniform(0.5, 2, size=h * d_k))
    shared = scale.view(h_kv, g, d_k).mean(1)
    right = shared, shared[:, None].expand(h_kv, g, d_k).reshape(-1)
    proposed = scale.view(g, -1).mean(0)
    wrong = proposed, proposed.repeat_interleave(g)
    own = shared, scale
    before = attend(layer, x, no_rotation())[0]
    with pytest.raises(RuntimeError, match="leaf Variable"):  # the page says: under no_grad
        layer.v_proj.weight.div_(shared.reshape(-1, 1))
    for (of_values, of_output), exact in ((right, True), (wrong, False), (own, False)):
        new = deepcopy(layer)
        with torch.no_grad():
            new.v_proj.weight /= of_values.reshape(-1, 1)
            new.o_proj.weight *= of_output
        after = attend(new, x, no_rotation())[0]
        assert close(after, before) == exact
        assert exact or np.abs(after - before).max() > 0.01
