"""Rotations, QK-norm and latent attention, in Transformers."""

import sys

import numpy as np
import pytest
from arrays import N_Q, H, angles_of, attend, attention_of, close, rotary_layer
from real_layers import transformers

import qkv


def random_pair(*shape):
    """Queries and keys."""
    torch = pytest.importorskip("torch")
    return torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))


def test_gptj_rotates_neighbours_and_llama_rotates_halves(torch):
    """GPTJ rotates neighbours as pairs, and Llama rotates halves."""
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
    """GPT-J and CodeGen turn a quarter of a head by default, which no reordering makes Llama's."""
    gptj, llama, d_k = transformers("gptj"), transformers("llama"), 16
    for config in (gptj.GPTJConfig(), transformers("codegen").CodeGenConfig()):
        assert 4 * config.rotary_dim == config.n_embd // config.n_head
    pair = random_pair(1, N_Q, 1, d_k)
    of_head = llama.LlamaConfig(hidden_size=d_k, num_attention_heads=1)
    cos_sin = llama.LlamaRotaryEmbedding(of_head)(pair[0], torch.arange(N_Q)[None])

    def of_gptj(turned):
        sin, cos = gptj.create_sinusoidal_positions(N_Q, turned)[None].chunk(2, dim=-1)
        parts = (x.split([turned, d_k - turned], dim=-1) for x in pair)
        each = (torch.cat([gptj.apply_rotary_pos_emb(a, sin, cos), b], dim=-1) for a, b in parts)
        return torch.einsum("bihd,bjhd->ij", *each)

    def of_llama(reordered):
        pairs = [*range(0, reordered, 2), *range(1, reordered, 2), *range(reordered, d_k)]
        each = (x[..., pairs].transpose(1, 2) for x in pair)
        return torch.einsum("bhid,bhjd->ij", *llama.apply_rotary_pos_emb(*each, *cos_sin))

    assert close(of_llama(d_k), of_gptj(d_k), 1e-4)
    for reordered in (d_k, d_k // 4):
        assert not close(of_llama(reordered), of_gptj(d_k // 4), 0.1)


def test_gpt_neox_rotates_pairs_and_frequencies_of_the_rotated_part(torch):
    """GPT-NeoX takes pairs and frequencies of a partial rotation from the rotated part alone."""
    library = transformers("gpt_neox")
    config = library.GPTNeoXConfig(hidden_size=2 * 64, num_attention_heads=2)
    rotary, theta = library.GPTNeoXRotaryEmbedding(config), config.rope_parameters["rope_theta"]
    assert np.allclose(rotary.inv_freq, theta ** (-2 * np.arange(8) / 16), rtol=1e-6)
    each = torch.eye(64)[None, :, None]  # 64 heads, 1 token: each has one coordinate
    angles = rotary(torch.zeros(1), torch.tensor([[3]]))
    turned, _ = library.apply_rotary_pos_emb(each, each, *angles)
    for i, moved in enumerate(turned[0, :, 0].abs() > 1e-6):
        assert {*torch.where(moved)[0].tolist()} == ({i % 8, i % 8 + 8} if i < 16 else {i})


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("yarn", {"original_max_position_embeddings": 64}),
        (
            "longrope",
            {
                "original_max_position_embeddings": 64,
                "short_factor": [1.0] * 8,
                "long_factor": [2.0] * 8,
            },
        ),
        ("linear", {}),
    ],
)
def test_yarn_and_longrope_multiply_scores_at_distance_zero_and_linear_scaling_does_not(
    torch, kind, more
):
    """YaRN and LongRoPE multiply scores at distance zero, and linear scaling does not."""
    llama, rope = transformers("llama"), {"rope_type": kind, "factor": 4.0, "rope_theta": 1e4}
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "max_position_embeddings": 256}
    config = llama.LlamaConfig(rope_parameters=rope | more, **sizes)
    q, k = random_pair(1, 1, 4, 16)
    angles = llama.LlamaRotaryEmbedding(config)(q, torch.arange(4)[None])
    turned = llama.apply_rotary_pos_emb(q, k, *angles)
    times = (turned[0] * turned[1]).sum(dim=-1) / (q * k).sum(dim=-1)
    factor = times[0, 0, 0].item()
    assert torch.allclose(times, times[0, 0, 0], rtol=1e-3)
    assert factor == pytest.approx(1) if kind == "linear" else factor > 1.1


SCALED = {  # whether the angles depend on the largest position
    "default": ({}, False),
    "yarn": ({"factor": 4.0, "original_max_position_embeddings": 64}, False),
    "dynamic": ({"factor": 4.0}, True),
    "longrope": (
        {
            "factor": 4.0,
            "original_max_position_embeddings": 64,
            "short_factor": [1.0] * 8,
            "long_factor": [2.0] * 8,
        },
        True,
    ),
}


def scaled_llama(kind):
    """The configuration of a Llama that was made for 64 words, and whether angles change later."""
    more, changes = SCALED[kind]
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "max_position_embeddings": 64}
    sizes |= {"num_hidden_layers": 1, "intermediate_size": 32, "vocab_size": 16}
    rope = {"rope_type": kind, "rope_theta": 1e4} | more
    return transformers("llama").LlamaConfig(rope_parameters=rope, **sizes), changes


@pytest.mark.parametrize("kind", SCALED)
def test_a_shift_of_all_positions_changes_scores_with_longrope_and_dynamic_scaling(torch, kind):
    """A shift of all positions changes scores with LongRoPE and dynamic scaling, past a length."""
    llama, (config, changes) = transformers("llama"), scaled_llama(kind)
    q, k = random_pair(1, 1, 6, 16)
    scores = []
    for start in (0, 100):
        angles = llama.LlamaRotaryEmbedding(config)(q, torch.arange(start, start + 6)[None])
        turned_q, turned_k = llama.apply_rotary_pos_emb(q, k, *angles)
        scores.append(turned_q @ turned_k.swapaxes(-1, -2))
    assert torch.allclose(*scores, atol=1e-3) != changes


@pytest.mark.parametrize("kind", SCALED)
def test_a_cache_keeps_the_angles_of_a_shorter_text_with_longrope_and_dynamic_scaling(torch, kind):
    """With LongRoPE and dynamic scaling a cache gives another output if the angles change.

    Covers: a Llama of one layer, and texts that end just before and just after the length that it
    was made for. LongRoPE's angles change once there, those of dynamic scaling with each word.
    """
    config, changes = scaled_llama(kind)
    for prompt, changed in (63, False), (64, changes), (65, kind == "dynamic"):
        torch.manual_seed(0)
        model = transformers("llama").LlamaModel(config).double().eval()
        text = torch.arange(prompt + 1)[None] % 16
        kept = model(text[:, :prompt], use_cache=True).past_key_values
        step = model(text[:, prompt:], past_key_values=kept).last_hidden_state[:, 0]
        whole = model(text).last_hidden_state[:, -1]
        assert torch.allclose(step, whole, atol=1e-6) != changed


def test_rotation_makes_the_score_of_two_tokens_depend_on_their_distance(torch, rng, x):
    """Rotation makes the score of two tokens depend on their distance."""
    layer = rotary_layer("Llama", rng, attn_implementation="eager")
    copies = np.repeat(x[:, :1], N_Q, axis=1)
    rotation = angles_of(layer, copies)
    _, unrotated = attend(layer, copies)
    _, rotated = attend(layer, copies, rotation)
    assert close(unrotated, 1 / N_Q, 1e-7)
    assert np.ptp(rotated, axis=-1).max() > 1e-2
    log = np.log(rotated[0])  # scores but for a constant of each query
    forward, back = log[:, 1, 2] - log[:, 1, 1], log[:, 1, 0] - log[:, 1, 1]
    assert np.abs(forward - back).max() > 1e-2


def test_qk_norm_makes_weights_ignore_the_length_of_a_token(rng, x):
    """Without biases QK-norm makes Qwen3's weights ignore a token's length, but for its eps."""
    longer = x.copy()
    longer[:, 1] *= 5
    for model, biased, ignores in ("Qwen3", 0, True), ("Qwen3", 1, False), ("Llama", 0, False):
        options = {"attention_bias": bool(biased), "attn_implementation": "eager"}
        layer = rotary_layer(model, rng, **options)
        before, after = (attend(layer, each)[1] for each in (x, longer))
        assert close(before, after, 1e-4 if ignores else 1e-3) == ignores


@pytest.mark.parametrize(
    ("model", "norms", "orders"),
    [
        ("Qwen3", "q_norm k_norm", {"normed"}),
        ("HunYuanDenseV1", "query_layernorm key_layernorm", {"rotated"}),
        ("NanoChat", "q_norm k_norm", {"normed", "rotated"}),
    ],
)
def test_order_of_rotation_and_norm_counts_with_gains(torch, rng, x, model, norms, orders):
    """If gains differ, the order of rotation and norm counts: Qwen3 norms first, HunYuan last."""
    layer = rotary_layer(model, rng, attn_implementation="eager")
    angles = torch.from_numpy(np.outer(np.arange(N_Q), [1, 0.3])).repeat(1, 2)[None]
    rotation, norms = (angles.cos(), angles.sin()), [getattr(layer, name) for name in norms.split()]
    _, weights = attend(layer, x, rotation)

    def rotated(q, k):
        return sys.modules[type(layer).__module__].apply_rotary_pos_emb(q, k, *rotation)

    def normed(q, k):
        return norms[0](q), norms[1](k)

    maps = (each(torch.from_numpy(x)) for each in (layer.q_proj, layer.k_proj))
    projected = [each.view(1, N_Q, H, 4).transpose(1, 2) for each in maps]
    fits = set()
    for first, then in ((normed, rotated), (rotated, normed)):
        q, k = then(*first(*projected))
        if close((q @ k.mT * layer.scaling).softmax(-1), weights, 1e-5):
            fits.add(first.__name__)
    assert fits == orders


def is_one_map_but_for_a_length(x, merged, made):
    """Whether what was made of x is that of one map, times a number of each token's own."""
    length = np.linalg.norm(made, axis=-1) / np.linalg.norm(x @ merged, axis=-1)
    assert np.ptp(length) > 0.01
    return close(made, length[:, None] * (x @ merged), 1e-5)  # its norm is in float32


def test_mla_keys_have_the_rank_of_the_latent(torch, rng):
    """DeepSeek-V3's keys without position are one low-rank map, times a number of each token."""
    ranks = {"kv_lora_rank": 5, "qk_nope_head_dim": 6, "v_head_dim": 3}
    layer = attention_of("DeepseekV3", rng, hidden_size=13, num_attention_heads=H, **ranks)
    x, maps = rng.normal(size=(N_Q, 13)), (layer.kv_a_proj_with_mqa, layer.kv_b_proj)
    latent = maps[0](torch.from_numpy(x))[:, :5]
    both = maps[1](layer.kv_a_layernorm(latent)).numpy().reshape(N_Q, H, 9)
    down, up = (each.weight.numpy().T for each in maps)
    gains, of_keys = layer.kv_a_layernorm.weight.numpy(), up.reshape(5, H, 9)[..., :6]
    merged, _ = qkv.merge(down[:, :5] * gains, of_keys.reshape(5, 12))
    assert np.linalg.matrix_rank(merged) == 5
    assert is_one_map_but_for_a_length(x, merged, both[..., :6].reshape(N_Q, 12))


def test_mla_has_a_norm_between_two_maps_so_they_are_no_single_map(torch, rng):
    """DeepSeek-V3 has a norm between two maps of its queries, so the two are no single map."""
    layer = attention_of("DeepseekV3", rng, hidden_size=13, num_attention_heads=H, q_lora_rank=5)
    x, norm = rng.normal(size=(N_Q, 13)), layer.q_a_layernorm
    queries = layer.q_b_proj(norm(layer.q_a_proj(torch.from_numpy(x)))).numpy()
    down, up = (each.weight.numpy().T for each in (layer.q_a_proj, layer.q_b_proj))
    merged, _ = qkv.merge(down * norm.weight.numpy(), up)
    assert is_one_map_but_for_a_length(x, merged, queries)


def test_mla_scores_are_larger_where_yarn_lengthens_the_context(torch):
    """MLA scores are larger where yarn lengthens the context."""
    library, plain = transformers("deepseek_v3"), {"rope_type": "default", "rope_theta": 10_000.0}
    yarn = plain | {"rope_type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0}
    yarn |= {"original_max_position_embeddings": 4096}
    times = 0.1 * np.log(40) + 1
    assert times**2 == pytest.approx(1.87, abs=0.01)
    for rope, divisor in ((plain, 192**0.5), (yarn, 192**0.5 / times**2)):
        config = library.DeepseekV3Config(rope_parameters=rope)
        with torch.device("meta"):
            layer = library.DeepseekV3Attention(config, layer_idx=0)
        assert 1 / layer.scaling == pytest.approx(divisor)
