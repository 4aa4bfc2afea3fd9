"""Where a bias, a map, a norm or a scale may move, and when a head is gone, on the libraries."""

from copy import deepcopy

import numpy as np
import pytest
from arrays import (
    D_K,
    FIRST_HEAD,
    N_K,
    N_Q,
    E,
    H,
    angles_of,
    attend,
    attention_of,
    called,
    close,
    grouped_qwen2,
    head_by_head,
    loaded,
    no_rotation,
    rotary_layer,
    size,
    torch_layer,
    zeroed,
)
from real_layers import randomised, transformers

import qkv

ADDED_KEYS = {"add_bias_kv": True}, {"add_zero_attn": True}


KEYS, VALUES = slice(E, 2 * E), slice(2 * E, 3 * E)  # the rows of in_proj


def still_and_turned(layer, x):
    """Outputs and weights of a rotary layer: without its rotation, and with it."""
    return [attend(layer, x, angles) for angles in (no_rotation(), angles_of(layer, x))]


def projected(qwen2, x):
    """Queries and keys of each head of a layer of Qwen2, which is 2 wide, before its rotation."""
    maps = (each(x) for each in (qwen2.q_proj, qwen2.k_proj))
    return [each.unflatten(-1, (-1, 2)).transpose(0, 1) for each in maps]


@pytest.mark.usefixtures("gradients")
def test_torch_key_bias_has_no_effect_and_no_gradient(torch, mha, x, y, rng):
    """PyTorch's key bias has no effect and no gradient by default, and both beside an added key."""
    X, Y = torch.from_numpy(x), torch.from_numpy(y)
    for layer, counts in (mha, False), *((torch_layer(rng, **each), True) for each in ADDED_KEYS):
        layer.requires_grad_()(X, Y, Y)[0].square().sum().backward()
        query, key, value = layer.in_proj_bias.grad.reshape(3, E).abs().amax(dim=1)
        assert min(query, value) > 1e-3
        assert key > 1e-3 if counts else key < 1e-12
        before = called(layer, x, y, y)
        layer.in_proj_bias.data[KEYS] += 10
        assert close(called(layer, x, y, y)[0], before[0]) != counts
        assert close(called(layer, x, y, y)[1], before[1]) != counts
    mha.in_proj_bias.data[:E] += 10
    assert not close(called(mha, x, y, y)[0], before[0])


@pytest.mark.usefixtures("gradients")
@pytest.mark.parametrize("optimiser", ["SGD", "Adam"])
def test_torch_key_bias_wanders_in_float32_under_adam_and_still_has_no_effect(torch, optimiser):
    """PyTorch key bias wanders in float32 under adam and still has no effect."""
    layer = torch.nn.MultiheadAttention(16, 2, batch_first=True)
    tokens, wanted = torch.randn(2, 4, 10, 16)
    assert not layer.in_proj_bias.any()  # as PyTorch starts it
    stepping = getattr(torch.optim, optimiser)(layer.parameters(), lr=1e-3)
    for _ in range(100):
        stepping.zero_grad()
        (layer(tokens, tokens, tokens)[0] - wanted).square().sum().backward()
        stepping.step()
    trained = layer.in_proj_bias.data[16:32].abs().max()
    assert trained > 1e-3 if optimiser == "Adam" else trained < 1e-6
    before = layer(tokens, tokens, tokens)[0]
    layer.in_proj_bias.data[16:32] = 0
    assert torch.allclose(layer(tokens, tokens, tokens)[0], before, rtol=0, atol=1e-6)


def test_torch_value_bias_passes_through_to_the_output(torch, mha, x, y, rng):
    """PyTorch's value bias passes through to the output by default, not beside an added value."""
    blocked = rng.random((N_Q, N_K)) < 0.5
    blocked[:, 0] = False

    def written(layer, **options):
        """What the value bias adds to the output."""
        without = zeroed(layer, in_proj_bias=VALUES)
        outputs = (called(each, x, y, y, **options)[0] for each in (layer, without))
        return np.subtract(*outputs)

    mh = loaded(mha)
    assert close(written(mha, attn_mask=blocked), (mh.b_V[:, None] @ mh.W_O).sum(axis=0))
    for added_key in ADDED_KEYS:  # another one for each query
        assert np.ptp(written(torch_layer(rng, **added_key)), axis=1).max() > 0.01


def test_rotation_makes_a_key_bias_count(torch, rng, x):
    """Rotation makes a key bias count."""
    layer = rotary_layer("Llama", rng, attention_bias=True)
    before = still_and_turned(layer, x)
    layer.k_proj.bias += 10
    after = still_and_turned(layer, x)
    assert close(after[0][0], before[0][0])
    assert not close(after[1][0], before[1][0], 1e-3)


def value_bias_moved(layer, value="v_proj", output="o_proj"):
    """A copy of a layer, with what its value bias writes in its output bias."""
    moved = deepcopy(layer).requires_grad_(False)
    value, output = moved.get_submodule(value), moved.get_submodule(output)
    output.bias += output.weight @ value.bias
    value.bias.zero_()
    return moved


def assert_differ_by_their_sinks(layers, x, angles=None):
    """Two layers of gpt-oss give different outputs, and equal ones if no sink has a share."""
    assert not close(*(attend(each, x, angles)[0] for each in layers), atol=0.01)
    for each in layers:
        each.sinks.data.fill_(float("-inf"))
    assert close(*(attend(each, x, angles)[0] for each in layers))


def test_gpt_oss_value_bias_does_not_move_into_the_output_bias(torch, rng, x):
    """In gpt-oss a value bias does not move into the output bias: its sinks take a share."""
    layer = rotary_layer("GptOss", rng, attn_implementation="eager")
    rotation = angles_of(layer, x)
    assert_differ_by_their_sinks((layer, value_bias_moved(layer)), x, rotation)


def test_gpt_oss_a_sink_adds_e_to_its_power_to_the_sum(torch, rng):
    """In gpt-oss each head adds e to the power of its sink to the sum in its softmax."""
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
    """In gpt-oss a key bias changes the output of a single token: its sink does not get it."""
    layer = rotary_layer("GptOss", rng, attn_implementation="eager")
    biased = deepcopy(layer)
    biased.k_proj.bias += 1
    assert_differ_by_their_sinks((layer, biased), x[:, :1])


@pytest.mark.parametrize("model", ["Llama", "BitNet", "Qwen3Next", "Gemma3nText"])
def test_a_value_bias_does_not_pass_a_norm_or_a_gate(rng, x, model):
    """In BitNet, Qwen3-Next and Gemma 3n a value bias does not move into the output bias."""
    layer = rotary_layer(model, rng, head_dim=D_K, attention_bias=True)
    both = layer, value_bias_moved(layer)
    outputs = [attend(each, x)[0] for each in both]
    assert close(*outputs, atol=1e-4) == (model == "Llama")


@pytest.mark.parametrize("rotated", [False, True])
def test_roformer_a_value_bias_does_not_pass_a_rotation_of_the_values(torch, rng, rotated):
    """With rotary_value=True a value bias of RoFormer does not move into the output bias."""
    x, sizes = rng.normal(size=(1, 5, 8)), {"hidden_size": 8, "num_attention_heads": 2}
    layer = attention_of("RoFormer", rng, **sizes, rotary_value=rotated)
    moved = value_bias_moved(layer, "self.value", "output.dense")
    angles = torch.arange(5, dtype=float)[:, None] / torch.tensor([1, 10])
    places = torch.cat([angles.sin(), angles.cos()], dim=-1)[None, None]
    outputs = [called(each, x, sinusoidal_pos=places)[0] for each in (layer, moved)]
    assert close(*outputs, atol=1e-4) == (not rotated)


def test_a_double_projection_as_in_yolov5_is_one_layer_with_fewer_weights(torch, mha, x, rng):
    """A double projection as in YOLOv5 is one layer with fewer weights."""
    q, k, v = (randomised(torch.nn.Linear(E, E, bias=False), rng) for _ in range(3))
    tokens = torch.from_numpy(x)
    twice = mha(q(tokens), k(tokens), v(tokens))[0].numpy()

    P_Q, P_K, P_V = (linear.weight.numpy().T for linear in (q, k, v))
    once = qkv.fold(loaded(mha), P_Q=P_Q, P_K=P_K, P_V=P_V)
    assert close(once(x), twice)
    modules = (q, k, v, mha)
    assert sum(p.numel() for module in modules for p in module.parameters()) == 7 * E * E + 4 * E
    assert size(once) == 4 * E * E + 4 * E

    stored = qkv.dump(once, "pytorch")
    mha.load_state_dict({name: torch.from_numpy(array) for name, array in stored.items()})
    assert close(called(mha, x, x, x)[0], twice)


def test_torch_linear_layers_fold_into_the_thirds_of_in_proj_weight(torch, mha, x, rng):
    """PyTorch's linear layers fold into the thirds of `in_proj_weight` and of `in_proj_bias`."""
    linears = [randomised(torch.nn.Linear(E, E), rng) for _ in range(3)]
    plain = torch_layer(rng, bias=False)
    fresh = torch.nn.MultiheadAttention(E, H, batch_first=True, dtype=torch.float64)
    missing, _ = fresh.load_state_dict(plain.state_dict(), strict=False)
    assert missing == ["in_proj_bias", "out_proj.bias"]
    assert not fresh.in_proj_bias.any()
    assert not fresh.out_proj.bias.any()
    sources = [called(linear, x) for linear in linears]
    in_place = [mha, *(torch_layer(rng, **each) for each in ADDED_KEYS)]
    for before, layer in (plain, fresh), *zip(in_place, in_place, strict=True):
        twice = called(before, *sources)[0]
        weights = layer.in_proj_weight.clone().chunk(3)
        layer.in_proj_weight.copy_(
            torch.cat([W @ linear.weight for W, linear in zip(weights, linears, strict=True)])
        )
        layer.in_proj_bias += torch.cat(
            [W @ linear.bias for W, linear in zip(weights, linears, strict=True)]
        )
        assert close(called(layer, x, x, x)[0], twice)


@pytest.mark.parametrize("model", ["Llama", "BitNet", "Olmo2"])
def test_a_head_that_writes_nothing_counts_in_a_norm_of_all_heads(torch, rng, x, model):
    """In BitNet and OLMo 2 a head whose columns of o_proj are zero still changes the output."""
    layer = rotary_layer(model, rng, head_dim=D_K)
    gone = zeroed(layer, o_proj__weight=(slice(None), FIRST_HEAD))
    other = deepcopy(gone)
    for each in (other.q_proj, other.k_proj, other.v_proj):
        each.weight[FIRST_HEAD] = torch.from_numpy(rng.normal(size=(D_K, E)))
    outputs = [attend(each, x)[0] for each in (gone, other)]
    assert close(*outputs, atol=1e-4) == (model == "Llama")


def test_torch_a_head_without_queries_averages_and_one_without_output_columns_is_gone(mha, x, y):
    """PyTorch: a head whose queries are zero averages; with zero out_proj columns it is gone."""
    without = loaded(mha)(x, y) - head_by_head(loaded(mha), x, y)[0]
    no_queries = zeroed(mha, in_proj_weight=FIRST_HEAD, in_proj_bias=FIRST_HEAD)
    output, weights = called(no_queries, x, y, y, average_attn_weights=False)
    assert close(weights[:, 0], 1 / N_K)
    assert not close(output, without, 0.01)
    for part, gone in ((slice(None), FIRST_HEAD), True), (FIRST_HEAD, False):
        output = called(zeroed(mha, out_proj__weight=part), x, y, y)[0]
        assert close(output, without, 0.01) == gone


def test_torch_a_head_without_value_weights_still_writes_its_value_bias(mha, x, y):
    """PyTorch: a head with zero value weights still writes its value bias."""
    mh = loaded(mha)
    without = mh(x, y) - head_by_head(mh, x, y)[0]
    values = slice(2 * E, 2 * E + D_K)
    with_bias = called(zeroed(mha, in_proj_weight=values), x, y, y)[0]
    assert close(with_bias, without + mh.b_V[0] @ mh.W_O[0])
    gone = zeroed(mha, in_proj_weight=values, in_proj_bias=values)
    assert close(called(gone, x, y, y)[0], without)


def test_qwen2_query_head_h_uses_key_head_h_over_7_where_14_share_2(torch, rng):
    """Qwen2 with 14 query heads over 2 key heads: query head 1 uses key head 0, and not 1."""
    layer, x = grouped_qwen2(rng), rng.normal(size=(1, N_Q, 28))
    _, weights = attend(layer, x)
    Q, K = (each.numpy() for each in projected(layer, torch.from_numpy(x[0])))
    for h in range(14):
        expected = qkv.softmax(Q[h] @ K[h // 7].T / 2**0.5)
        assert close(weights[0, h], expected, 1e-6)  # its softmax is in float32
    assert not close(weights[0, 1], qkv.softmax(Q[1] @ K[1].T / 2**0.5), 0.01)


def test_llama_zero_value_rows_of_a_group_remove_its_query_heads(torch, rng):
    """Llama: zero value rows of a key head remove all query heads that share it, without biases."""
    sizes = {"hidden_size": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 2}
    layer, x = rotary_layer("Llama", rng, **sizes), rng.normal(size=(1, N_Q, 8))
    of_heads, first = head_by_head(loaded(layer, "llama", h=4, h_kv=2), x), slice(0, 2)
    no_values = zeroed(layer, v_proj__weight=first)
    assert close(attend(no_values, x)[0], of_heads[2:].sum(axis=0))
    one_less = zeroed(layer, o_proj__weight=(slice(None), first))
    assert close(attend(one_less, x)[0], of_heads[1:].sum(axis=0))
    biased = rotary_layer("Llama", rng, **sizes, attention_bias=True)
    bias_left = zeroed(biased, v_proj__weight=first)
    gone = zeroed(bias_left, v_proj__bias=first)
    assert not close(attend(bias_left, x)[0], attend(gone, x)[0], 1e-3)


ONE_PLUS = (
    *("gemma.GemmaRMSNorm", "gemma2.Gemma2RMSNorm", "gemma3.Gemma3RMSNorm"),
    *("qwen3_next.Qwen3NextRMSNorm", "qwen3_5.Qwen3_5RMSNorm", "nemotron.NemotronLayerNorm1P"),
)


AS_STORED = (
    *("llama.LlamaRMSNorm", "mistral.MistralRMSNorm", "qwen2.Qwen2RMSNorm"),
    *("qwen3.Qwen3RMSNorm", "gemma3n.Gemma3nRMSNorm", "gemma4.Gemma4RMSNorm"),
    "nemotron_h.NemotronHRMSNorm",
)


@pytest.mark.parametrize("name", [*ONE_PLUS, *AS_STORED])
def test_the_gain_of_gemmas_norm_is_one_plus_the_stored_weight(torch, name, rng, x):
    """Norms of Gemma 1 to 3, Qwen3-Next, Qwen3.5 and Nemotron multiply by 1 plus the weight."""
    (model, norm), one_plus = name.split("."), name in ONE_PLUS
    norm = randomised(getattr(transformers(model), norm)(E), rng)
    linear = randomised(torch.nn.Linear(E, 3, bias=False), rng)
    tokens, bare = torch.from_numpy(x), deepcopy(norm)
    shift = getattr(norm, "bias", 0 * norm.weight)
    for parameter in bare.parameters():
        parameter.zero_()
    assert bare(tokens).any() == one_plus  # a weight of zero tells the two apart
    if not one_plus:
        bare.weight.fill_(1)
    for gain, exact in ((1 + norm.weight, one_plus), (norm.weight, not one_plus)):
        folded = bare(tokens) @ (linear.weight * gain).T + linear.weight @ shift
        assert close(folded, linear(norm(tokens)), 1e-5) == exact


@pytest.mark.parametrize(
    "name", ["qwen3_next.Qwen3NextRMSNormGated", "qwen3_5.Qwen3_5RMSNormGated"]
)
def test_the_gated_norm_of_qwen3_next_multiplies_by_the_weight_as_stored(torch, name, x):
    """The gated norms of Qwen3-Next and Qwen3.5 multiply by the weight as it is stored."""
    model, norm = name.split(".")
    norm, tokens = getattr(transformers(model), norm)(E).requires_grad_(False), torch.from_numpy(x)
    once = norm(tokens, tokens)
    norm.weight.fill_(0.5)
    assert close(2 * norm(tokens, tokens), once, 1e-6)
    assert once.any()


def test_torch_layer_norm_folds_into_multihead_attention(torch, mha, rng, x):
    """PyTorch: the gain and the shift of a LayerNorm fold into in_proj_weight and in_proj_bias."""
    norm, new = randomised(torch.nn.LayerNorm(E), rng), deepcopy(mha)
    new.in_proj_bias += mha.in_proj_weight @ norm.bias
    new.in_proj_weight *= norm.weight
    expected = called(mha, *[called(norm, x)] * 3)[0]
    bare = [called(torch.nn.LayerNorm(E, elementwise_affine=False), x)] * 3
    assert close(called(new, *bare)[0], expected)
    new.in_proj_weight -= new.in_proj_weight.mean(dim=1, keepdim=True)
    assert close(called(new, *bare)[0], expected)
    new.in_proj_bias.copy_(mha.in_proj_bias)
    assert not close(called(new, *bare)[0], expected, 0.01)


def test_llama_weights_may_not_be_centred_after_its_norm(torch, rng, x):
    """Llama: centring the weights after its norm changes the queries."""
    library = transformers("llama")
    norm = library.LlamaRMSNorm(E).double().requires_grad_(False)
    linear = randomised(torch.nn.Linear(E, 3, bias=False), rng)
    normed = norm(torch.from_numpy(x))
    before = linear(normed)
    linear.weight -= linear.weight.mean(dim=1, keepdim=True)
    assert not close(linear(normed), before, 0.01)


def test_llama_a_scale_moves_from_o_proj_to_v_proj_if_a_group_shares_it(torch, rng):
    """Llama with grouped heads: a scale moves from v_proj to o_proj if a group's heads share it."""
    h, h_kv, g, d_k = 8, 2, 4, 3
    sizes = {"hidden_size": 16, "num_attention_heads": h, "num_key_value_heads": h_kv}
    layer = rotary_layer("Llama", rng, **sizes, head_dim=d_k)
    x, scale = rng.normal(size=(1, N_Q, 16)), torch.from_numpy(rng.uniform(0.5, 2, size=h * d_k))
    shared, proposed = scale.view(h_kv, g, d_k).mean(1), scale.view(g, -1).mean(0)
    with torch.enable_grad(), pytest.raises(RuntimeError, match="leaf Variable"):
        deepcopy(layer).requires_grad_().v_proj.weight.div_(shared.reshape(-1, 1))
    for of_values, of_output, exact in (
        (shared, shared[:, None].expand(h_kv, g, d_k).reshape(-1), True),
        (proposed, proposed.repeat_interleave(g), False),
        (shared, scale, False),
    ):
        new = deepcopy(layer)
        new.v_proj.weight /= of_values.reshape(-1, 1)
        new.o_proj.weight *= of_output
        assert close(attend(new, x)[0], attend(layer, x)[0], 1e-12 if exact else 0.01) == exact
