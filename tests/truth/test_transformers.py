"""What the layers of Transformers store and compute.

The first line of a test's docstring is the claim. Pages that state it name the test.
"""

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
    loaded,
    rotary_layer,
)
from numpy.testing import assert_allclose, assert_array_equal
from real_layers import randomised, transformers

import qkv
from qkv.between import Rotation


def test_past_key_values_of_llama_hold_keys_and_values_and_no_queries(torch):
    """In Llama past_key_values holds keys and values for each layer, and no queries."""
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
    """Llama with rope_type "dynamic": a long text has other outputs with a cache than at once."""
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
    """In DeepSeek-V3 past_key_values holds the latent and the rotated key, once for all heads."""
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


def test_gpt_neox_first_third_is_not_the_queries(rng, x):
    """With several heads, GPT-NeoX's first third is not the queries."""
    state = attention_of("GPTNeoX", rng, hidden_size=E, num_attention_heads=1).state_dict()
    queries = state["query_key_value.weight"][:E].numpy().T
    assert_array_equal(qkv.load(state, "gpt-neox", h=1).W_Q[0], queries)
    layer = rotary_layer("GPTNeoX", rng, head_dim=D_K)
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
    real, _ = attend(layer, x)
    assert close(replace(mh, between=())(x), real)
    assert in_thirds.W_Q.shape == mh.W_Q.shape
    assert not close(in_thirds(x), real)

    gpt2 = attention_of("GPT2", rng, n_embd=E, n_head=H, attn_implementation="eager")
    gpt2.load_state_dict({name: array.t() for name, array in renamed.items()})
    as_gpt2, _ = called(gpt2, x)
    assert close(as_gpt2, in_thirds(x))


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
    read = replace(qkv.load(wide, "falcon", h=4, h_kv=2), between=())
    assert read.W_Q.shape[::2] == mh.W_Q.shape[::2]
    computed = read(np.pad(x, ((0, 0), (0, 0), (0, 6))))[..., :E]
    assert not close(computed, output, 1e-3)

    one = replace(qkv.MultiHead.random(4 * D_K, 4, h_kv=1, d_k=D_K), between=(Rotation.of(1e4, 2),))
    pairs = zip(qkv.dump(one, "phi3").values(), qkv.dump(one, "falcon").values(), strict=True)
    assert all(np.array_equal(*pair) for pair in pairs)


def test_falcon_queries_do_not_come_first_if_there_are_groups(rng):
    """In Falcon queries do not come first if there are several groups."""
    layer = falcon_layer(rng, new_decoder_architecture=True, num_kv_heads=2)
    x = rng.normal(size=(1, N_Q, 12))
    real, _ = attend(layer, x, alibi=None)
    state = layer.state_dict()
    mh = qkv.load(state, "falcon", h=4, h_kv=2)
    group = state["query_key_value.weight"].numpy()[4 * D_K :]  # heads 2 and 3 with key 1
    assert_array_equal(group.T, np.hstack([mh.W_Q[2], mh.W_Q[3], mh.W_K[1], mh.W_V[1]]))
    assert close(replace(mh, between=())(x), real)

    renamed = {
        name.replace("query_key_value", "qkv_proj").replace("dense", "o_proj"): array
        for name, array in state.items()
    }
    queries_first = replace(qkv.load(renamed, "phi3", h=4, h_kv=2), between=())
    assert not close(queries_first(x), real, 1e-3)


def test_falcon_multi_query_ignores_num_kv_heads(rng):
    """Falcon with multi_query has one head of keys, and num_kv_heads changes nothing."""

    def rows(**options):
        return len(falcon_layer(rng, **options).query_key_value.weight)

    for num_kv_heads in (1, 2, 4):
        sizes = {"num_kv_heads": num_kv_heads}
        assert rows(multi_query=True, **sizes) == (4 + 2) * D_K
        assert rows(multi_query=False, **sizes) == 3 * 4 * D_K
        for multi_query in (True, False):
            new = {"new_decoder_architecture": True, "multi_query": multi_query}
            assert rows(**new, **sizes) == (4 + 2 * num_kv_heads) * D_K


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
    in_thirds = loaded(layer, "nanogpt")
    assert not close(in_thirds(x), real, 1e-3)


def bloom_output(layer, x, residual=0, alibi=0):
    """What a layer of Bloom gives for a residual and numbers of alibi, zeros unless given."""
    given = {"residual": residual + 0 * x, "alibi": alibi + np.zeros((H, 1, N_Q))}
    return called(layer, x, **given, attention_mask=np.zeros((1, 1, N_Q, N_Q)))[0]


def test_bloom_adds_the_residual_and_alibi(torch, rng, x):
    """Bloom adds the residual to its output and ALiBi to its scores."""
    library, layer = transformers("bloom"), bloom_layer(rng)
    mh = loaded(layer, "bloom")
    plain = bloom_output(layer, x)
    alibi = library.build_alibi_tensor(torch.ones(1, N_Q), H, torch.float64).numpy()
    assert close(plain, mh(x), 1e-5)  # in float32
    assert close(bloom_output(layer, x, residual=x), plain + x)
    assert not close(bloom_output(layer, x, alibi=alibi), mh(x), 1e-3)

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
        assert close(source, block.input_layernorm(torch.from_numpy(x)))
        assert_array_equal(residual, source if normed else x)


def test_bloom_leaves_out_the_output_bias_with_slow_but_exact(rng, x):
    """Bloom leaves out the output's bias with slow_but_exact=True and pretraining_tp above 1."""
    for tp, exact in ((1, True), (2, False), (2, True)):
        layer = bloom_layer(rng, pretraining_tp=tp, slow_but_exact=exact)
        mh = loaded(layer, "bloom")
        expected = replace(mh, b_O=None) if (tp, exact) == (2, True) else mh
        assert close(bloom_output(layer, x), expected(x), 1e-5)  # in float32
        assert not close(mh(x), replace(mh, b_O=None)(x), 1e-3)


def test_bloom_and_gptj_take_the_softmax_in_float32(torch, rng, x):
    """Bloom and GPTJ take the softmax in float32, and a layer in float64 rounds so."""
    layer = bloom_layer(rng)
    pairs = [(bloom_output(layer, x), qkv.load(layer.state_dict(), "bloom", h=H)(x))]
    wide = rng.normal(size=(1, N_Q, 4 * D_K))
    for layout, model, h, source in (("gptj", "GPTJ", H, x), ("codegen", "CodeGen", 4, wide)):
        layer = attention_of(model, rng, n_embd=h * D_K, n_head=h, rotary_dim=2)
        mh = loaded(layer, layout, h=h)
        real = called(layer, source, position_ids=torch.zeros(1, N_Q, dtype=int))[0]
        pairs.append((real, mh(source)))
    for real, expected in pairs:
        assert close(real, expected, 1e-5)
        assert not close(real, expected)


def test_codegen_stores_values_before_keys_in_four_blocks(torch, rng):
    """CodeGen stores values before keys, in four blocks."""
    layer = attention_of("CodeGen", rng, n_embd=24, n_head=8, rotary_dim=2)
    x = rng.normal(size=(1, N_Q, 24))
    real = called(layer, x, position_ids=torch.zeros(1, N_Q, dtype=int))[0]
    state = layer.state_dict()
    mh = replace(qkv.load(state, "codegen", h=8), between=())
    assert close(mh(x), real, 1e-5)  # the layer computes scores in float32
    block = state["qkv_proj.weight"].numpy()[18:36]
    assert_array_equal(block.T, np.hstack([*mh.W_Q[2:4], *mh.W_V[2:4], *mh.W_K[2:4]]))
    assert not close(replace(mh, W_K=mh.W_V, W_V=mh.W_K)(x), real, 1e-3)

    renamed = {"qkv_proj.weight": "c_attn.weight", "out_proj.weight": "c_proj.weight"}
    weights = {renamed[name]: array for name, array in state.items()}
    assert not close(qkv.load(weights, "nanogpt", h=8)(x), real, 1e-3)


OF_TRANSFORMERS = [
    each for each in qkv.layouts.layouts().values() if each.title.startswith("Transformers, ")
]


@pytest.mark.parametrize("layout", OF_TRANSFORMERS, ids=lambda layout: layout.name)
def test_transformers_takes_these_arguments_in_this_order(layout):
    """A layer of Transformers takes these arguments in this order."""
    kind = re.search(r"models/(\w+)/", layout.read_in)[1]
    forward = getattr(transformers(kind), re.search(r", (\w+)", layout.title)[1]).forward
    taken = [*inspect.signature(forward).parameters][1:]
    placed = [name for name in layout.arguments if not name.endswith("=...")]
    named = {name.removesuffix("=...") for name in layout.arguments}
    assert taken[: len(placed)] == placed
    assert named <= {*taken}


def test_gpt2_stores_in_out_where_linear_stores_out_in(torch, rng):
    """GPT-2 stores (in, out) where linear stores (out, in)."""
    Conv1D = pytest.importorskip("transformers.pytorch_utils").Conv1D
    conv1d = Conv1D(nf=13, nx=11)
    linear = torch.nn.Linear(11, 13)
    assert conv1d.weight.shape == (11, 13)
    assert linear.weight.shape == (13, 11)
    x = torch.from_numpy(rng.normal(size=(N_Q, 11)))
    assert close(randomised(conv1d, rng)(x), x @ conv1d.weight + conv1d.bias)
    assert close(randomised(linear, rng)(x), x @ linear.weight.T + linear.bias)

    square, wrong_way = randomised(Conv1D(11, 11), rng), torch.nn.Linear(11, 11).double()
    wrong_way.requires_grad_(False)
    wrong_way.load_state_dict(square.state_dict())
    assert not close(wrong_way(x), square(x))


@pytest.mark.parametrize("kinds", [(), ("c2p",), ("c2p", "p2c")])
def test_deberta_divides_by_the_root_of_as_many_widths_as_it_adds_scores(torch, rng, kinds):
    """DeBERTa v2 and v3 divide by √(n·d_k), where n counts the scores that are added."""
    library = transformers("deberta_v2")
    config = library.DebertaV2Config(
        hidden_size=E, num_attention_heads=H, pos_att_type=list(kinds), relative_attention=True,
        max_relative_positions=8, share_att_key=False,
    )  # fmt: skip
    layer = randomised(library.DisentangledSelfAttention(config), rng)
    x = torch.from_numpy(rng.normal(size=(1, N_Q, E)))
    allowed = torch.ones(1, 1, N_Q, N_Q)

    def scores(positions):
        _, weights = layer(x, allowed, output_attentions=True, rel_embeddings=positions.double())
        log = weights[0].log()
        return log - log[..., :1]  # what is the same for all keys of a query cancels

    def split(projected):
        return projected.reshape(-1, H, D_K).transpose(0, 1)

    # positions that are zero, and their biases, add no score
    for name, parameter in layer.named_parameters():
        if name.startswith("pos_"):
            parameter.zero_()
    Q, K = split(layer.query_proj(x)), split(layer.key_proj(x))
    content = Q @ K.transpose(1, 2) / ((1 + len(kinds)) * D_K) ** 0.5
    of_zeros = scores(torch.zeros(16, E))
    assert close(of_zeros, content - content[..., :1], 1e-6)  # √ in float32
    layer.relative_attention = False
    assert close(scores(positions=torch.ones(16, E)), of_zeros, 1e-6)
    layer.relative_attention = True

    if kinds:
        layer.pos_key_proj.weight.copy_(torch.eye(E))
        positions = torch.from_numpy(rng.normal(size=(16, E)))
        distance = torch.arange(N_Q)[:, None] - torch.arange(N_Q) + 8
        of_positions = (Q @ split(positions).transpose(1, 2)).gather(2, distance.expand(H, -1, -1))
        added = of_positions / ((1 + len(kinds)) * D_K) ** 0.5
        both = content + added
        assert close(scores(positions), both - both[..., :1], 1e-6)


def test_bert_has_no_causal_mask(rng, x):
    """BERT has no causal mask: the first word's output changes with the last word."""
    made = {"hidden_size": E, "num_attention_heads": H, "attn_implementation": "sdpa"}
    library = transformers("bert")
    layer = randomised(library.BertSelfAttention(library.BertConfig(**made)), rng)
    other = x.copy()
    other[:, -1] += 1
    assert not close(called(layer, other)[0][:, 0], called(layer, x)[0][:, 0], 1e-3)


def test_t5_does_not_scale_its_scores(torch, rng, x):
    """T5 does not scale its scores."""
    library = transformers("t5")
    made = {"d_model": E, "num_heads": H, "attn_implementation": "eager"}
    layer = attention_of("T5", rng, **made, d_kv=5)
    mh = loaded(layer, "t5")
    assert close(called(layer, x)[0], mh(x))
    assert not close(called(layer, x)[0], replace(mh, scale=None)(x))

    torch.manual_seed(0)
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
    sizes = {
        "hidden_size": E,
        "num_heads": H,
        "num_layers": 1,
        "attention_types": [[["global"], 1]],
    }
    config = library.GPTNeoConfig(**sizes, max_position_embeddings=16)
    layer = randomised(library.GPTNeoSelfAttention(config, "global", layer_id=0), rng)
    words = torch.from_numpy(x)

    def heads(linear):
        return linear(words).unflatten(-1, (H, E // H)).transpose(1, 2)

    def of_kernel(factor):
        made = torch.nn.functional.scaled_dot_product_attention(
            heads(layer.q_proj) * factor, heads(layer.k_proj), heads(layer.v_proj), is_causal=True
        )
        return layer.out_proj(made.transpose(1, 2).flatten(2))

    expected = layer(words)[0]
    assert close(of_kernel((E / H) ** 0.5), expected, 1e-5)  # its scores are float32
    assert not close(of_kernel(1), expected, 1e-3)


def test_t5_heads_need_not_fill_d_model(rng):
    """T5 heads need not fill d_model."""
    for d_kv in (2, 5):
        layer = attention_of("T5", rng, d_model=E, num_heads=H, d_kv=d_kv)
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
    exact = loaded(layer, layout)(x)
    assert close(attend(layer, x)[0], exact)
    layer.config._attn_implementation = "eager"
    assert 1e-10 < np.abs(attend(layer, x)[0] - exact).max() < 1e-5


def test_llama_takes_the_softmax_in_float32_in_eager_mode(rng, x):
    """Llama takes the softmax in float32 in eager mode."""
    assert_rounds_in_eager_mode(rotary_layer("Llama", rng), "llama", x)


def test_phi3_clip_and_gpt_bigcode_take_the_softmax_in_float32_in_eager_mode(rng, x):
    """Phi-3, CLIP and GPT-BigCode take the softmax in float32 in eager mode."""
    assert_rounds_in_eager_mode(rotary_layer("Phi3", rng, pad_token_id=0), "phi3", x)
    assert_rounds_in_eager_mode(gpt_bigcode_layer(rng, multi_query=False), "gpt-bigcode", x)
    library = transformers("clip")
    config = library.CLIPTextConfig(
        hidden_size=E, num_attention_heads=H, attn_implementation="sdpa"
    )
    assert_rounds_in_eager_mode(randomised(library.CLIPAttention(config), rng), "clip", x)


def test_gpt_neox_takes_the_softmax_in_float32_in_eager_mode(rng, x):
    """In eager mode GPT-NeoX takes the softmax in float32, and with sdpa it does not."""
    layer = rotary_layer("GPTNeoX", rng, head_dim=D_K)
    assert_rounds_in_eager_mode(layer, "gpt-neox", x)


def test_qwen3_heads_need_not_fill_hidden_size(torch):
    """Qwen3 heads need not fill hidden size."""
    library = transformers("qwen3")
    for width, h, h_kv in ((2560, 32, 8), (1024, 16, 8)):
        sizes = {"hidden_size": width, "num_attention_heads": h, "num_key_value_heads": h_kv}
        with torch.device("meta"):
            layer = library.Qwen3Attention(library.Qwen3Config(head_dim=128, **sizes), layer_idx=0)
        assert layer.q_proj.weight.shape == (h * 128, width)
        assert layer.k_proj.weight.shape == layer.v_proj.weight.shape == (h_kv * 128, width)
        assert layer.o_proj.weight.shape == (width, h * 128)


def test_llama_groups_are_counted_by_key_heads_and_not_by_num_key_value_groups(torch):
    """Llama's `num_key_value_groups` is how many query heads one group has."""
    library = transformers("llama")
    sizes = {"hidden_size": 64, "num_attention_heads": 32, "num_key_value_heads": 8}
    layer = library.LlamaAttention(library.LlamaConfig(**sizes), layer_idx=0)
    assert layer.num_key_value_groups == 4
    keys = torch.randn(1, 8, 5, 2)
    repeated = library.repeat_kv(keys, layer.num_key_value_groups)
    assert repeated.shape[1] == 32
    assert len({*map(str, repeated[0, :, 0].tolist())}) == 8


def test_llama_k_proj_is_as_tall_as_its_key_heads(torch):
    """Llama's `k_proj` has fewer rows than `q_proj` where heads are grouped."""
    library = transformers("llama")
    sizes = {"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8}
    with torch.device("meta"):
        layer = library.LlamaAttention(library.LlamaConfig(**sizes), layer_idx=0)
    assert layer.k_proj.weight.shape == layer.v_proj.weight.shape == (1024, 4096)
    assert layer.q_proj.weight.shape == layer.o_proj.weight.shape == (4096, 4096)
