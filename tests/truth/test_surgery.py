"""Where a bias, a map, a norm or a scale may move, and when a head is gone, on the libraries.

The first line of a test's docstring is the claim. Pages that state it name the test.
"""

from copy import deepcopy
from functools import partial

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


def test_torch_key_bias_has_no_effect_and_no_gradient(torch, mha, x, y, rng):
    """PyTorch's key bias has no effect and no gradient by default; beside an added key it has both.

    `add_bias_kv` and `add_zero_attn` add a key after the projection, so it has no key bias.
    """
    mha.requires_grad_()
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
        layer = torch_layer(rng, **added_key).requires_grad_()
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
    mha.in_proj_bias[2 * E :] = 0
    after, _ = called(mha, x, y, y, attn_mask=blocked)
    assert close(before - after, (mh.b_V[:, None] @ mh.W_O).sum(axis=0))

    for added_key in ({"add_bias_kv": True}, {"add_zero_attn": True}):
        layer = torch_layer(rng, **added_key)
        before, _ = called(layer, x, y, y)
        layer.in_proj_bias[2 * E :] = 0
        added = before - called(layer, x, y, y)[0]
        assert np.ptp(added, axis=1).max() > 0.01  # another one for each query


def test_torch_bias_k_is_a_token_and_no_bias(torch, x, y, rng):
    """PyTorch `bias_k` is a token and no bias.

    add_bias_kv appends one learned key and value: the weights gain a column.
    """
    mha = torch_layer(rng, add_bias_kv=True)
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


def test_rotation_makes_a_key_bias_count(torch, rng, x):
    """Rotation makes a key bias count.

    Softmax removes a key bias only where nothing is between the bias and the dot product.
    """
    layer = rotary_layer("Llama", rng, attention_bias=True)
    rotation = angles_of(layer, x)
    before = [attend(layer, x, angles)[0] for angles in (no_rotation(), rotation)]
    layer.k_proj.bias += 10
    after = [attend(layer, x, angles)[0] for angles in (no_rotation(), rotation)]
    assert close(after[0], before[0])
    assert not close(after[1], before[1], 1e-3)


def test_rotation_turns_a_query_bias(torch, rng, x):
    """RoPE turns a query bias: without query weights, Qwen2's queries may prefer different keys.

    Without the rotation each query prefers the same keys. Key weights of zero give equal weights
    without the rotation, and others with it, because the key bias is turned, too.
    """
    layer = rotary_layer("Qwen2", rng, attn_implementation="eager")
    rotation = angles_of(layer, x)
    layer.q_proj.weight.zero_()
    layer.q_proj.bias.copy_(torch.tensor([5.0, 0, 0, 0]).repeat(H))
    still, turned = (attend(layer, x, angles)[1] for angles in (no_rotation(), rotation))
    preferred = turned.argmax(axis=-1)
    assert close(still, np.broadcast_to(still[:, :, :1], still.shape))
    assert (preferred != preferred[..., :1]).any()

    layer = rotary_layer("Qwen2", rng, attn_implementation="eager")
    layer.k_proj.weight.zero_()
    still, turned = (attend(layer, x, angles)[1] for angles in (no_rotation(), rotation))
    assert close(still, 1 / N_Q, 1e-6)
    assert not close(turned, 1 / N_Q, 0.01)


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
    """In gpt-oss a value bias does not move into the output bias: its sinks take a share.

    Without the share of the sinks it does, although the layer rotates queries and keys.
    """
    layer = rotary_layer("GptOss", rng, attn_implementation="eager")
    rotation = angles_of(layer, x)
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
    layer = rotary_layer("GptOss", rng, attn_implementation="eager")
    biased = deepcopy(layer)
    biased.k_proj.bias += 1
    assert_differ_by_their_sinks((layer, biased), x[:, :1])


@pytest.mark.parametrize("model", ["Llama", "BitNet", "Qwen3Next", "Gemma3nText"])
def test_a_value_bias_does_not_pass_a_norm_or_a_gate(rng, x, model):
    """In BitNet, Qwen3-Next and Gemma 3n a value bias does not move into the output bias.

    BitNet norms the joined heads, Qwen3-Next multiplies them by a gate that depends on the token,
    and Gemma 3n norms the values. In Llama's layer with biases, which does none of this, it moves.
    """
    layer = rotary_layer(model, rng, head_dim=D_K, attention_bias=True)
    both = layer, value_bias_moved(layer)
    outputs = [attend(each, x)[0] for each in both]
    assert close(*outputs, atol=1e-4) == (model == "Llama")


@pytest.mark.parametrize("rotated", [False, True])
def test_roformer_a_value_bias_does_not_pass_a_rotation_of_the_values(torch, rng, rotated):
    """With rotary_value=True a value bias of RoFormer does not move into the output bias.

    By default RoFormer rotates queries and keys alone, and there it moves.
    """
    x, sizes = rng.normal(size=(1, 5, 8)), {"hidden_size": 8, "num_attention_heads": 2}
    layer = attention_of("RoFormer", rng, **sizes, rotary_value=rotated)
    moved = value_bias_moved(layer, "self.value", "output.dense")
    angles = torch.arange(5, dtype=float)[:, None] / torch.tensor([1, 10])
    places = torch.cat([angles.sin(), angles.cos()], dim=-1)[None, None]
    outputs = [called(each, x, sinusoidal_pos=places)[0] for each in (layer, moved)]
    assert close(*outputs, atol=1e-4) == (not rotated)


def test_a_double_projection_as_in_yolov5_is_one_layer_with_fewer_weights(torch, mha, x, rng):
    """A double projection as in YOLOv5 is one layer with fewer weights.

    Linear q, k and v without biases, and then nn.MultiheadAttention, hold 7 d² + 4 d numbers. One
    layer that computes the same holds 4 d² + 4 d.
    """
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
    fresh.requires_grad_(False)
    pairs = (plain, fresh), *((layer, layer) for layer in folded_in_place)
    for before, layer in pairs:
        sources = [called(linear, x) for linear in linears]
        twice = called(before, *sources)[0]
        for third, linear in enumerate(linears):
            rows = slice(third * E, (third + 1) * E)
            W = layer.in_proj_weight[rows].clone()
            layer.in_proj_weight[rows] = W @ linear.weight
            layer.in_proj_bias[rows] += W @ linear.bias
        assert close(called(layer, x, x, x)[0], twice)


@pytest.mark.parametrize("model", ["Llama", "BitNet", "Olmo2"])
def test_a_head_that_writes_nothing_counts_in_a_norm_of_all_heads(torch, rng, x, model):
    """In BitNet and OLMo 2 a head whose columns of o_proj are zero still changes the output.

    It counts in the norm of the joined heads, or of the queries and keys of all heads. In Llama
    its other weights change nothing.
    """
    layer = rotary_layer(model, rng, head_dim=D_K)
    gone = zeroed(layer, o_proj__weight=(slice(None), FIRST_HEAD))
    other = deepcopy(gone)
    for each in (other.q_proj, other.k_proj, other.v_proj):
        each.weight[FIRST_HEAD] = torch.from_numpy(rng.normal(size=(D_K, E)))
    outputs = [attend(each, x)[0] for each in (gone, other)]
    assert close(*outputs, atol=1e-4) == (model == "Llama")


def test_torch_a_head_without_queries_averages_and_one_without_output_columns_is_gone(mha, x, y):
    """PyTorch: a head with zero query weights averages; with zero columns of out_proj it is gone.

    Zero rows of W^Q, with the bias, give weights of 1/n_k. Zero rows of out_proj change each head.
    """
    mh = loaded(mha)
    without = mh(x, y) - head_by_head(mh, x, y)[0]
    no_queries = zeroed(mha, in_proj_weight=FIRST_HEAD, in_proj_bias=FIRST_HEAD)
    output, weights = called(no_queries, x, y, y, average_attn_weights=False)
    assert np.allclose(weights[:, 0], 1 / N_K)
    assert not close(output, without, 0.01)
    no_columns = zeroed(mha, out_proj__weight=(slice(None), FIRST_HEAD))
    assert close(called(no_columns, x, y, y)[0], without)
    no_rows = zeroed(mha, out_proj__weight=FIRST_HEAD)
    assert not close(called(no_rows, x, y, y)[0], without, 0.01)


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


def test_qwen2_query_head_h_uses_key_head_h_over_7_where_14_share_2(torch, rng):
    """Qwen2 with 14 query heads over 2 key heads: query head 1 uses key head 0, and not 1.

    With the angle 0, head h has the weights of W_Q[h] and W_K[h // 7]. Heads 0 to 6 use key head 0.
    """
    layer, x = grouped_qwen2(rng), rng.normal(size=(1, N_Q, 28))
    _, weights = attend(layer, x)
    parts = {name: value.numpy() for name, value in layer.state_dict().items()}
    Q, K = (
        (x @ parts[f"{name}.weight"].T + parts[f"{name}.bias"]).reshape(N_Q, -1, 2).swapaxes(0, 1)
        for name in ("q_proj", "k_proj")
    )
    assert (len(Q), len(K)) == (14, 2)
    for h in range(14):
        expected = qkv.softmax(Q[h] @ K[h // 7].T / 2**0.5)
        assert close(weights[0, h], expected, 1e-6)  # its softmax is in float32
    wrong = qkv.softmax(Q[1] @ K[1].T / 2**0.5)
    assert not close(weights[0, 1], wrong, 0.01)


def test_qwen2_scores_a_word_with_itself_by_a_matrix_one_number_wider(torch, rng):
    """Qwen2's rotated score of a word with itself is that of a matrix that reads a constant 1, too.

    Without the biases the matrix gives another score.
    """
    library, layer = transformers("qwen2"), grouped_qwen2(rng)
    x = torch.from_numpy(rng.normal(size=(N_Q, 28)))
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


def test_llama_zero_value_rows_of_a_group_remove_its_query_heads(torch, rng):
    """Llama: zero value rows of a key head remove each query head that shares it, without biases.

    To remove one query head, its columns of o_proj are set to zero.
    """
    sizes = {"hidden_size": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 2}
    layer = rotary_layer("Llama", rng, **sizes)
    x = rng.normal(size=(1, N_Q, 8))
    mh = loaded(layer, "llama", h=4, h_kv=2)
    of_heads = head_by_head(mh, x)
    no_values = zeroed(layer, v_proj__weight=slice(0, 2))
    assert close(attend(no_values, x)[0], of_heads[2:].sum(axis=0))
    biased = rotary_layer("Llama", rng, **sizes, attention_bias=True)
    biases_left = attend(zeroed(biased, v_proj__weight=slice(0, 2)), x)[0]
    gone = zeroed(biased, v_proj__weight=slice(0, 2), v_proj__bias=slice(0, 2))
    assert not close(biases_left, attend(gone, x)[0], 1e-3)
    one_less = zeroed(layer, o_proj__weight=(slice(None), slice(0, 2)))
    assert close(attend(one_less, x)[0], of_heads[1:].sum(axis=0))


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
    shift = getattr(norm, "bias", 0 * norm.weight)
    for parameter in bare.parameters():
        parameter.zero_()
    assert bare(tokens).any() == one_plus  # a weight of zero tells the two apart
    if not one_plus:
        bare.weight.fill_(1)
    for gain, exact in ((1 + norm.weight, one_plus), (norm.weight, not one_plus)):
        new = folded(linear, gain)(bare(tokens)) + linear.weight @ shift
        assert close(new, linear(norm(tokens)), 1e-5) == exact


def test_torch_layer_norm_folds_into_multihead_attention(torch, mha, rng, x):
    """PyTorch: the gain and the shift of a LayerNorm fold into in_proj_weight and in_proj_bias.

    After that the columns may be centred. Without the shift's part of the bias the output changes.
    """
    norm = randomised(torch.nn.LayerNorm(E), rng)
    bare, tokens = torch.nn.LayerNorm(E, elementwise_affine=False), torch.from_numpy(x)
    new = deepcopy(mha)
    new.in_proj_bias += mha.in_proj_weight @ norm.bias
    new.in_proj_weight *= norm.weight
    expected = mha(*[norm(tokens)] * 3)[0]
    assert close(new(*[bare(tokens)] * 3)[0], expected)
    new.in_proj_weight -= new.in_proj_weight.mean(dim=1, keepdim=True)
    assert close(new(*[bare(tokens)] * 3)[0], expected)
    new.in_proj_bias.copy_(mha.in_proj_bias)
    assert not close(new(*[bare(tokens)] * 3)[0], expected, 0.01)


def test_llama_weights_may_not_be_centred_after_its_norm(torch, rng, x):
    """Llama: centring the weights after its norm changes the queries.

    The norm divides by the root mean square, and leaves the mean in.
    """
    library = transformers("llama")
    norm = library.LlamaRMSNorm(E).double().requires_grad_(False)
    linear = randomised(torch.nn.Linear(E, 3, bias=False), rng)
    normed = norm(torch.from_numpy(x))
    before = linear(normed)
    linear.weight -= linear.weight.mean(dim=1, keepdim=True)
    assert not close(linear(normed), before, 0.01)


def test_llama_a_scale_moves_from_o_proj_to_v_proj_if_a_group_shares_it(torch, rng):
    """Llama with grouped heads: a scale moves from v_proj to o_proj if a group's heads share it.

    view(h_kv, g, d_k).mean(1), expanded over g, is exact. view(g, -1).mean(0) is not.
    """
    h, h_kv, d_k = 8, 2, 3
    g = h // h_kv
    sizes = {"hidden_size": 16, "num_attention_heads": h, "num_key_value_heads": h_kv}
    layer = rotary_layer("Llama", rng, **sizes, head_dim=d_k)
    x = rng.normal(size=(1, N_Q, 16))
    scale = torch.from_numpy(rng.uniform(0.5, 2, size=h * d_k))
    shared = scale.view(h_kv, g, d_k).mean(1)
    right = shared, shared[:, None].expand(h_kv, g, d_k).reshape(-1)
    proposed = scale.view(g, -1).mean(0)
    wrong = proposed, proposed.repeat_interleave(g)
    own = shared, scale
    before = attend(layer, x)[0]
    with pytest.raises(RuntimeError, match="leaf Variable"):  # the page says: under no_grad
        deepcopy(layer).requires_grad_().v_proj.weight.div_(shared.reshape(-1, 1))
    for (of_values, of_output), exact in ((right, True), (wrong, False), (own, False)):
        new = deepcopy(layer)
        new.v_proj.weight /= of_values.reshape(-1, 1)
        new.o_proj.weight *= of_output
        after = attend(new, x)[0]
        assert close(after, before) == exact
        assert exact or np.abs(after - before).max() > 0.01
