"""What the layers of Transformers store and compute."""

import inspect
import re
from dataclasses import replace

import numpy as np
import pytest
from arrays import (
    D_K,
    N_Q,
    E,
    H,
    attend,
    attention_of,
    bloom_layer,
    called,
    close,
    falcon_layer,
    gpt_bigcode_layer,
    layer_of,
    loaded,
    rotary_layer,
)
from numpy.testing import assert_array_equal
from real_layers import randomised, transformers

import qkv
from qkv.between import Rotation


def model_of(name: str, model: str, **options):
    """A small model of Transformers without its head, with its own first weights."""
    pytest.importorskip("torch").manual_seed(0)
    library, config = transformers(name), {"hidden_size": 24, "num_attention_heads": 4}
    config |= {"num_key_value_heads": 2, "intermediate_size": 8, "vocab_size": 11}
    config |= {"num_hidden_layers": 2, "bos_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}
    return getattr(library, f"{model}Model")(
        getattr(library, f"{model}Config")(**config | options)
    ).eval()


def cache_of(model, words, **options):
    return model(words, use_cache=True, **options).past_key_values


def lengths(cache, count=None):
    """How many words the keys of each layer of a cache are for."""
    return [layer.keys.shape[2] for layer in cache.layers[:count]]


def test_past_key_values_of_llama_hold_keys_and_values_and_no_queries(torch):
    """In Llama past_key_values holds keys and values for each layer, and no queries."""
    model, words = model_of("llama", "Llama"), torch.tensor([[1, 2, 3, 4]])
    last = model(words, use_cache=False).last_hidden_state[:, 3:]
    cache = cache_of(model, words[:, :3])
    for layer in cache.layers:
        assert layer.keys.shape == layer.values.shape == (1, 2, 3, 6)
        assert not any("quer" in name for name in vars(layer))
    static = pytest.importorskip("transformers").StaticCache(config=model.config, max_cache_len=9)
    cache_of(model, words[:, :3], past_key_values=static)
    for each, before, after in (cache, [3, 3], [4, 4]), (static, [9, 9], [9, 9]):
        assert lengths(each) == before
        step = model(words[:, 3:], past_key_values=each, use_cache=True).last_hidden_state
        assert lengths(each) == after
        assert each.get_seq_length() == 4
        assert close(step, last, 1e-5)


def test_not_each_layer_keeps_keys_and_values_of_its_own(torch):
    """Of Qwen3-Next's 48 layers 12 keep keys and values, of Gemma 3n's 35 layers 20, by default.

    Covers: the numbers of layers in the default configurations; a small Gemma 3n, 2 of 4 layers.
    """
    qwen = transformers("qwen3_next").Qwen3NextConfig()
    assert (len(qwen.layer_types), qwen.layer_types.count("full_attention")) == (48, 12)
    gemma = transformers("gemma3n").Gemma3nTextConfig()
    assert (gemma.num_hidden_layers, gemma.num_kv_shared_layers) == (35, 15)
    layers = {"num_hidden_layers": 4, "num_kv_shared_layers": 2, "sliding_window": 4}
    layers |= {"layer_types": 2 * ["sliding_attention", "full_attention"], "laurel_rank": 2}
    layers |= {"activation_sparsity_pattern": 4 * [0.0], "hidden_size_per_layer_input": 8}
    small = model_of("gemma3n", "Gemma3nText", **layers, vocab_size_per_layer_input=11, head_dim=8)
    cache = cache_of(small, torch.arange(3, 10)[None])
    kept = [getattr(layer, "keys", None) is not None for layer in cache.layers]
    assert kept == [True, True, False, False]
    assert lengths(cache, 2) == [3, 7]


def test_past_key_values_of_deepseek_v3_hold_the_latent_and_the_rotated_key(torch):
    """In DeepSeek-V3 past_key_values holds the latent and the rotated key, once for all heads."""
    latents = {"q_lora_rank": 8, "kv_lora_rank": 6, "qk_rope_head_dim": 4, "qk_nope_head_dim": 10}
    sizes = {"num_key_value_heads": 4, "v_head_dim": 7, "first_k_dense_replace": 2}
    words = torch.tensor([[1, 2, 3, 4, 5]])
    for layer in cache_of(model_of("deepseek_v3", "DeepseekV3", **sizes, **latents), words).layers:
        assert (*layer.keys.shape, *layer.values.shape) == (1, 1, 5, 6, 1, 1, 5, 4)

    linear = {"linear_num_key_heads": 1, "linear_num_value_heads": 1, "num_hidden_layers": 4}
    linear |= {"linear_key_head_dim": 8, "linear_value_head_dim": 8, "num_experts": 0}
    cache = cache_of(model_of("qwen3_next", "Qwen3Next", **linear, head_dim=8), words)
    holds_keys = [torch.is_tensor(getattr(layer, "keys", None)) for layer in cache.layers]
    assert holds_keys == [False, False, False, True]
    assert all(torch.is_tensor(layer.recurrent_states[0]) for layer in cache.layers[:3])


def renamed(state, **names):
    """Arrays under other names: each part of a name is replaced by another one."""
    for old, new in names.items():
        state = {name.replace(old, new): array for name, array in state.items()}
    return state


def unrotated(weights, layout, **heads):
    return replace(qkv.load(weights, layout, **heads), between=())


def test_gpt_neox_first_third_is_not_the_queries(rng, x):
    """With several heads, GPT-NeoX's first third is not the queries."""
    state = attention_of("GPTNeoX", rng, hidden_size=E, num_attention_heads=1).state_dict()
    queries = state["query_key_value.weight"][:E].numpy().T
    assert_array_equal(qkv.load(state, "gpt-neox", h=1).W_Q[0], queries)
    layer = rotary_layer("GPTNeoX", rng, head_dim=D_K)
    mh, state = loaded(layer, "gpt-neox"), layer.state_dict()
    head = state["query_key_value.weight"].numpy()[3 * D_K :].T  # head 1: queries, keys, values
    assert_array_equal(head, np.hstack([mh.W_Q[1], mh.W_K[1], mh.W_V[1]]))
    bias = state["query_key_value.bias"].numpy()[3 * D_K :]
    assert_array_equal(bias, np.hstack([mh.b_Q[1], mh.b_K[1], mh.b_V[1]]))

    in_thirds = renamed(state, query_key_value="c_attn", dense="c_proj")
    real, read = attend(layer, x)[0], qkv.load(in_thirds, "nanogpt", h=H)
    assert close(mh(x), real)
    assert not close(read(x), real, 1e-3)
    gpt2 = attention_of("GPT2", rng, n_embd=E, n_head=H, attn_implementation="eager")
    gpt2.load_state_dict({name: array.t() for name, array in in_thirds.items()})
    assert close(called(gpt2, x)[0], read(x))


def phi3_and_what_it_computes(rng, x):
    """A layer of Phi-3 with four heads over two, and its output."""
    sizes = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": D_K}
    layer = rotary_layer("Phi3", rng, **sizes, pad_token_id=0)
    output, _ = attend(layer, x)
    mh = loaded(layer, "phi3", h=4, h_kv=2)
    assert close(mh(x), output)
    return layer, mh, output


def test_phi3_cut_into_thirds_is_wrong_where_heads_are_grouped(rng, x):
    """Phi-3 cut into thirds is wrong where heads are grouped."""
    layer, mh, _ = phi3_and_what_it_computes(rng, x)
    weight = layer.qkv_proj.weight.numpy()
    assert len(weight) == 8 * D_K
    queries, keys, values = np.split(weight, [4 * D_K, 6 * D_K])
    assert_array_equal(np.concatenate(mh.W_Q, axis=1), queries.T)
    assert_array_equal(np.concatenate(mh.W_K, axis=1), keys.T)
    assert_array_equal(np.concatenate(mh.W_V, axis=1), values.T)
    assert len(queries) != len(weight) / 3


def test_phi3_read_in_the_order_of_falcon_is_wrong_without_an_error(rng, x):
    """`Phi3` read in the order of Falcon is wrong without an error if keys have several heads."""
    layer, mh, output = phi3_and_what_it_computes(rng, x)
    wide = {  # Falcon's heads fill its width, so the source gets as many zeros as it needs
        "query_key_value.weight": np.pad(layer.qkv_proj.weight, ((0, 0), (0, 6))),
        "dense.weight": np.pad(layer.o_proj.weight, ((0, 6), (0, 0))),
    }
    read = unrotated(wide, "falcon", h=4, h_kv=2)
    assert read.W_Q.shape[::2] == mh.W_Q.shape[::2]
    assert not close(read(np.pad(x, ((0, 0), (0, 0), (0, 6))))[..., :E], output, 1e-3)

    one = replace(qkv.MultiHead.random(4 * D_K, 4, h_kv=1, d_k=D_K), between=(Rotation.of(1e4, 2),))
    pairs = zip(qkv.dump(one, "phi3").values(), qkv.dump(one, "falcon").values(), strict=True)
    assert all(np.array_equal(*pair) for pair in pairs)


def test_falcon_queries_do_not_come_first_if_there_are_groups(rng):
    """In Falcon queries do not come first if there are several groups."""
    layer = falcon_layer(rng, new_decoder_architecture=True, num_kv_heads=2)
    x, mh = rng.normal(size=(1, N_Q, 12)), loaded(layer, "falcon", h=4, h_kv=2)
    real, state = attend(layer, x, alibi=None)[0], layer.state_dict()
    group = state["query_key_value.weight"].numpy()[4 * D_K :]  # heads 2 and 3 with key 1
    assert_array_equal(group.T, np.hstack([mh.W_Q[2], mh.W_Q[3], mh.W_K[1], mh.W_V[1]]))
    assert close(mh(x), real)
    queries_first = renamed(state, query_key_value="qkv_proj", dense="o_proj")
    assert not close(unrotated(queries_first, "phi3", h=4, h_kv=2)(x), real, 1e-3)


@pytest.mark.parametrize("num_kv_heads", [1, 2, 4])
@pytest.mark.parametrize("multi_query", [True, False])
def test_falcon_multi_query_ignores_num_kv_heads(rng, multi_query, num_kv_heads):
    """Falcon's first architecture with multi_query has one head of keys, for any num_kv_heads."""
    for new in False, True:
        options = {"multi_query": multi_query, "new_decoder_architecture": new}
        layer = falcon_layer(rng, **options, num_kv_heads=num_kv_heads)
        h_kv = num_kv_heads if new else 1 if multi_query else 4
        assert len(layer.query_key_value.weight) == (4 + 2 * h_kv) * D_K


def test_gpt_bigcode_stores_out_in_under_the_names_of_gpt2(torch, rng):
    """GPT-BigCode stores (out, in) under the names of GPT-2, which stores (in, out)."""
    ours = gpt_bigcode_layer(rng, multi_query=False)
    gpt2 = attention_of("GPT2", rng, n_embd=E, n_head=H)
    for name in ("c_attn", "c_proj"):
        assert isinstance(getattr(ours, name), torch.nn.Linear)
        assert not isinstance(getattr(gpt2, name), torch.nn.Linear)
    assert ours.c_attn.weight.shape == (3 * E, E)
    assert gpt2.c_attn.weight.shape == (E, 3 * E)
    with pytest.raises(ValueError, match=r"c_attn.* must have shape .*fit 'gpt-bigcode'"):
        qkv.load(ours.state_dict(), "gpt2", h=H)


def test_gpt_bigcode_with_many_heads_of_keys_is_stored_head_after_head(rng, x):
    """GPT-BigCode with as many heads of keys as of queries is stored head after head."""
    layer = gpt_bigcode_layer(rng, multi_query=False)
    real = called(layer, x, attention_mask=np.zeros((1, 1, N_Q, N_Q)))[0]
    mh = loaded(layer, "gpt-bigcode")
    head = layer.c_attn.weight.numpy()[3 * D_K :].T
    assert_array_equal(head, np.hstack([mh.W_Q[1], mh.W_K[1], mh.W_V[1]]))
    assert close(mh(x), real)
    assert not close(loaded(layer, "nanogpt")(x), real, 1e-3)  # in thirds


def bloom_output(layer, x, residual=0, alibi=0):
    """What a layer of Bloom gives for a residual and numbers of alibi, zeros unless given."""
    given = {"residual": residual + 0 * x, "alibi": alibi + np.zeros((H, 1, N_Q))}
    return called(layer, x, **given, attention_mask=np.zeros((1, 1, N_Q, N_Q)))[0]


def test_bloom_adds_the_residual_and_alibi(torch, rng, x):
    """Bloom adds the residual to its output and ALiBi to its scores."""
    library, layer = transformers("bloom"), bloom_layer(rng)
    mh, plain = loaded(layer, "bloom"), bloom_output(layer, x)
    alibi = library.build_alibi_tensor(torch.ones(1, N_Q), H, torch.float64).numpy()
    assert close(plain, mh(x), 1e-5)  # in float32
    assert close(bloom_output(layer, x, residual=x), plain + x)
    assert not close(bloom_output(layer, x, alibi=alibi), mh(x), 1e-3)

    assert library.BloomConfig().apply_residual_connection_post_layernorm is False
    config, given = library.BloomConfig(hidden_size=E, n_head=H), []
    block = randomised(library.BloomBlock(config, 0), rng)
    block.self_attention.register_forward_pre_hook(lambda _, got: given.extend(got))
    called(block, x, alibi=0 * alibi, attention_mask=np.zeros((1, 1, N_Q, N_Q)))
    source, residual = given
    assert close(source, block.input_layernorm(torch.from_numpy(x)))
    assert_array_equal(residual, x)


def test_bloom_leaves_out_the_output_bias_with_slow_but_exact(rng, x):
    """Bloom leaves out the output's bias with slow_but_exact=True and pretraining_tp above 1."""
    for tp, exact in ((1, True), (2, False), (2, True)):
        layer = bloom_layer(rng, pretraining_tp=tp, slow_but_exact=exact)
        mh = loaded(layer, "bloom")
        expected = replace(mh, b_O=None) if (tp, exact) == (2, True) else mh
        assert close(bloom_output(layer, x), expected(x), 1e-5)  # in float32
        assert not close(mh(x), replace(mh, b_O=None)(x), 1e-3)


@pytest.mark.parametrize(
    ("layout", "model", "h"), [("bloom", "", H), ("gptj", "GPTJ", H), ("codegen", "CodeGen", 4)]
)
def test_bloom_and_gptj_take_the_softmax_in_float32(torch, rng, layout, model, h):
    """Bloom and GPTJ take the softmax in float32, and a layer in float64 rounds so."""
    x = rng.normal(size=(1, N_Q, h * D_K))
    if layout == "bloom":
        layer = bloom_layer(rng)
        real = bloom_output(layer, x)
    else:
        layer = attention_of(model, rng, n_embd=h * D_K, n_head=h, rotary_dim=2)
        real = called(layer, x, position_ids=torch.zeros(1, N_Q, dtype=int))[0]
    assert close(real, loaded(layer, layout, h=h)(x), 1e-5)
    assert not close(real, loaded(layer, layout, h=h)(x))


def test_codegen_stores_values_before_keys_in_four_blocks(torch, rng):
    """CodeGen stores values before keys, in four blocks."""
    layer = attention_of("CodeGen", rng, n_embd=24, n_head=8, rotary_dim=2)
    x, mh = rng.normal(size=(1, N_Q, 24)), loaded(layer, "codegen", h=8)
    real = called(layer, x, position_ids=torch.zeros(1, N_Q, dtype=int))[0]
    assert close(mh(x), real, 1e-5)  # the layer computes scores in float32
    block = layer.qkv_proj.weight.numpy()[18:36]
    assert_array_equal(block.T, np.hstack([*mh.W_Q[2:4], *mh.W_V[2:4], *mh.W_K[2:4]]))
    assert not close(replace(mh, W_K=mh.W_V, W_V=mh.W_K)(x), real, 1e-3)
    in_thirds = renamed(layer.state_dict(), qkv_proj="c_attn", out_proj="c_proj")
    assert not close(qkv.load(in_thirds, "nanogpt", h=8)(x), real, 1e-3)


OF_TRANSFORMERS = [
    each for each in qkv.layouts.layouts().values() if each.title.startswith("Transformers, ")
]


@pytest.mark.parametrize("layout", OF_TRANSFORMERS, ids=lambda layout: layout.name)
def test_transformers_takes_these_arguments_in_this_order(layout):
    """A layer of Transformers takes these arguments in this order."""
    kind = re.search(r"models/(\w+)/", layout.read_in)[1]
    forward = getattr(transformers(kind), re.search(r", (\w+)", layout.title)[1]).forward
    parameters = [*inspect.signature(forward).parameters.values()][1:]
    taken = [each.name for each in parameters]
    plain = [each for each in parameters if each.kind is not each.VAR_KEYWORD]
    needed = {each.name for each in plain if each.default is each.empty}
    placed = [name for name in layout.arguments if not name.endswith("=...")]
    named = {name.removesuffix("=...") for name in layout.arguments}
    assert taken[: len(placed)] == placed
    assert named <= {*taken}
    assert needed <= named, "and each that has no default"


def test_gpt2_stores_in_out_where_linear_stores_out_in(torch, rng):
    """GPT-2 stores (in, out) where linear stores (out, in)."""
    Conv1D = pytest.importorskip("transformers.pytorch_utils").Conv1D
    conv1d, linear = randomised(Conv1D(nf=13, nx=11), rng), randomised(torch.nn.Linear(11, 13), rng)
    assert (conv1d.weight.shape, linear.weight.shape) == ((11, 13), (13, 11))
    x = torch.from_numpy(rng.normal(size=(N_Q, 11)))
    assert close(conv1d(x), x @ conv1d.weight + conv1d.bias)
    assert close(linear(x), x @ linear.weight.T + linear.bias)
    square, wrong_way = randomised(Conv1D(11, 11), rng), torch.nn.Linear(11, 11).double()
    wrong_way.load_state_dict(square.state_dict())
    assert not close(wrong_way(x), square(x))


@pytest.mark.parametrize("kinds", [(), ("c2p",), ("c2p", "p2c")])
def test_deberta_divides_by_the_root_of_as_many_widths_as_it_adds_scores(torch, rng, kinds):
    """DeBERTa v2 and v3 divide by √(n·d_k), where n counts the scores that are added."""
    library, root = transformers("deberta_v2"), ((1 + len(kinds)) * D_K) ** 0.5
    sizes = {"hidden_size": E, "num_attention_heads": H, "max_relative_positions": 8}
    config = library.DebertaV2Config(
        **sizes, pos_att_type=list(kinds), relative_attention=True, share_att_key=False
    )
    layer = randomised(library.DisentangledSelfAttention(config), rng)
    x, positions = (torch.from_numpy(rng.normal(size=size)) for size in ((1, N_Q, E), (16, E)))

    def logs(weights):
        return weights.log() - weights.log()[..., :1]  # what is the same for all keys cancels

    def split(projected):
        return projected.reshape(-1, H, D_K).transpose(0, 1)

    for name, parameter in layer.named_parameters():
        if name.startswith("pos_"):
            parameter.zero_()
    if kinds:
        layer.pos_key_proj.weight.copy_(torch.eye(E))
    Q, K = split(layer.query_proj(x)), split(layer.key_proj(x))
    distance = torch.arange(N_Q)[:, None] - torch.arange(N_Q) + 8
    content = Q @ K.transpose(1, 2)
    of_positions = (Q @ split(positions).transpose(1, 2)).gather(2, distance.expand(H, -1, -1))
    for size in (0, 1):
        given = {"output_attentions": True, "rel_embeddings": size * positions}
        _, (weights, *_) = layer(x, torch.ones(1, 1, N_Q, N_Q), **given)
        scores = content + size * of_positions if kinds else content
        assert close(logs(weights), logs((scores / root).softmax(-1)), 1e-6)  # √ in float32


def test_bert_has_no_causal_mask(rng, x):
    """BERT has no causal mask: the first word's output changes with the last word."""
    library = transformers("bert")
    sizes = {"hidden_size": E, "num_attention_heads": H, "attn_implementation": "sdpa"}
    layer = randomised(library.BertSelfAttention(library.BertConfig(**sizes)), rng)
    other = x.copy()
    other[:, -1] += 1
    assert not close(called(layer, other)[0][:, 0], called(layer, x)[0][:, 0], 1e-3)


@pytest.mark.parametrize("is_decoder", [True, False])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_bert_with_is_decoder_hides_later_words(torch, rng, implementation, is_decoder):
    """BERT with is_decoder=True hides later words: earlier outputs stay if the last word changes.

    Covers: a small model of two layers with sdpa and in eager mode, and the same without it.
    """
    library = transformers("bert")
    sizes = {"hidden_size": E, "num_attention_heads": H, "intermediate_size": 5, "vocab_size": 11}
    options = {"num_hidden_layers": 2, "attn_implementation": implementation}
    config = library.BertConfig(**sizes, **options, is_decoder=is_decoder)
    model = randomised(library.BertModel(config), rng)
    words = torch.tensor([[3, 1, 4, 1, 5], [3, 1, 4, 1, 9]])  # the last word differs
    first, second = model(words).last_hidden_state.detach().numpy()
    assert close(first[:-1], second[:-1], 1e-5) == is_decoder  # eager: in float32
    assert not close(first[-1], second[-1], 1e-2)


def test_t5_does_not_scale_its_scores(torch, rng, x):
    """T5 does not scale its scores."""
    sizes = {"d_model": E, "num_heads": H, "d_kv": 5, "attn_implementation": "eager"}
    layer = attention_of("T5", rng, **sizes)
    mh = loaded(layer, "t5")
    assert close(called(layer, x)[0], mh(x))
    assert not close(called(layer, x)[0], replace(mh, scale=None)(x))

    library = transformers("t5")
    sizes = {"d_model": 256, "num_heads": 8, "d_kv": 32, "d_ff": 1, "num_layers": 1}
    model = library.T5EncoderModel(library.T5Config(**sizes, vocab_size=2))
    first = model.encoder.block[0].layer[0].SelfAttention
    assert first.k.weight.std().item() == pytest.approx(256**-0.5, rel=0.02)
    assert first.q.weight.std().item() == pytest.approx((256 * 32) ** -0.5, rel=0.02)


def test_gpt_neo_does_not_scale_and_wants_larger_queries_from_a_kernel_that_does(torch, rng, x):
    """GPT-Neo does not scale its scores. For a kernel that scales, multiply W_Q by the root of d_k.

    Covers: one layer without a window, with sdpa as the kernel.
    """
    library = transformers("gpt_neo")
    sizes = {"hidden_size": E, "num_heads": H, "num_layers": 1, "max_position_embeddings": 16}
    config = library.GPTNeoConfig(**sizes, attention_types=[[["global"], 1]])
    layer = randomised(library.GPTNeoSelfAttention(config, "global", layer_id=0), rng)
    words = torch.from_numpy(x)
    q, k, v = (
        linear(words).unflatten(-1, (H, E // H)).transpose(1, 2)
        for linear in (layer.q_proj, layer.k_proj, layer.v_proj)
    )
    attend = torch.nn.functional.scaled_dot_product_attention
    for factor, right in ((E / H) ** 0.5, True), (1, False):
        heads = attend(q * factor, k, v, is_causal=True).transpose(1, 2).flatten(2)
        assert close(layer.out_proj(heads), layer(words)[0], 1e-5) == right  # scores in float32


@pytest.mark.parametrize("d_kv", [2, 5])
def test_t5_heads_need_not_fill_d_model(rng, d_kv):
    """T5 heads need not fill d_model."""
    layer = attention_of("T5", rng, d_model=E, num_heads=H, d_kv=d_kv)
    assert (layer.q.weight.shape, layer.o.weight.shape) == ((H * d_kv, E), (E, H * d_kv))


def test_whisper_has_no_key_bias():
    """Whisper has no key bias. With bias=False it has none of the others."""
    library = transformers("whisper")
    for options, letters in ({}, {"q", "v", "out"}), ({"bias": False}, set()):
        layer = library.WhisperAttention(E, H, config=library.WhisperConfig(), **options)
        biases = {name for name in layer.state_dict() if name.endswith("bias")}
        assert biases == {f"{letter}_proj.bias" for letter in letters}


@pytest.mark.parametrize("layout", ["llama", "gpt-neox", "phi3", "clip", "gpt-bigcode"])
def test_these_take_the_softmax_in_float32_in_eager_mode(rng, x, layout):
    """Llama, GPT-NeoX, Phi-3, CLIP and GPT-BigCode take the softmax in float32 in eager mode.

    Covers: a layer in float64, which is exact with sdpa.
    """
    layer, _ = layer_of(layout, rng)
    exact = loaded(layer, layout)(x)
    assert close(attend(layer, x)[0], exact)
    layer.config._attn_implementation = "eager"
    assert 1e-10 < np.abs(attend(layer, x)[0] - exact).max() < 1e-5


@pytest.mark.parametrize(
    ("model", "width", "h", "h_kv"),
    [("Qwen3", 2560, 32, 8), ("Qwen3", 1024, 16, 8), ("Llama", 4096, 32, 8)],
)
def test_projections_of_qwen3_and_llama_have_the_rows_of_their_heads(torch, model, width, h, h_kv):
    """Qwen3 heads need not fill hidden size, and k_proj has the rows of its heads, as in Llama.

    Covers: the sizes of Qwen3-4B, of Qwen3-0.6B and of Llama 3 8B, with heads of 128.
    """
    library = transformers(model.lower())
    sizes = {"hidden_size": width, "num_attention_heads": h, "num_key_value_heads": h_kv}
    config = getattr(library, f"{model}Config")(head_dim=128, **sizes)
    with torch.device("meta"):
        layer = getattr(library, f"{model}Attention")(config, layer_idx=0)
    assert layer.q_proj.weight.shape == (h * 128, width)
    assert layer.k_proj.weight.shape == layer.v_proj.weight.shape == (h_kv * 128, width)
    assert layer.o_proj.weight.shape == (width, h * 128)


def test_llama_groups_are_counted_by_key_heads_and_not_by_num_key_value_groups(torch):
    """Llama's `num_key_value_groups` is how many query heads one group has."""
    library = transformers("llama")
    sizes = {"hidden_size": 64, "num_attention_heads": 32, "num_key_value_heads": 8}
    layer = library.LlamaAttention(library.LlamaConfig(**sizes), layer_idx=0)
    assert layer.num_key_value_groups == 4
    repeated = library.repeat_kv(torch.randn(1, 8, 5, 2), layer.num_key_value_groups)
    assert repeated.shape[1] == 32
    assert len({*map(str, repeated[0, :, 0].tolist())}) == 8
