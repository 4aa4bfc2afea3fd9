"""What libraries do with attention weights: the softmax, dropout, added biases, hooks."""

import numpy as np
import pytest
from arrays import D_K, E, H, close, loaded, of_keras, sdpa, torch_layer
from numpy.testing import assert_array_equal
from real_layers import randomised, transformers

import qkv

N = 5


def tokens(torch, rng, batch=1):
    return torch.from_numpy(rng.normal(size=(batch, N, E)))


def later(torch):
    """A mask of PyTorch's layer: True for later words."""
    return torch.ones(N, N, dtype=torch.bool).triu(1)


def weights_of(model, source, **options):
    """The attention weights that a small model of Transformers returns."""
    library = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}
    sizes |= {"vocab_size": 11, "num_hidden_layers": 1, "attn_implementation": "eager"} | options
    if model == "Swin":
        sizes = options | {"attn_implementation": "eager"}
    config = getattr(library, f"{model}Config")(**sizes)
    model = getattr(library, f"{model}Model")(config).eval()
    return model(source, output_attentions=True).attentions


each_dtype = pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])


# The softmax


def test_keras_softmax_gives_ones_on_a_last_axis_of_length_one(keras, rng):
    """Keras' softmax activation gives ones on a last axis of length 1, and axis=1 gives weights."""
    energies, states = rng.normal(size=(2, 7, 1)), rng.normal(size=(2, 7, 4))
    wrong = of_keras(keras.layers.Activation("softmax"), energies)
    assert_array_equal(wrong, np.ones_like(wrong))
    right = of_keras(keras.layers.Softmax(axis=1), energies)
    assert close(right.sum(axis=1), 1, 1e-6)
    context = of_keras(keras.layers.Dot(axes=1), [wrong, states])
    assert close(context[:, 0], states.sum(axis=1), 1e-5)


def test_torch_softmax_without_dim_takes_the_first_axis_of_three(torch, rng):
    """PyTorch's `F.softmax` without `dim` takes the first axis of an array with three axes."""
    softmax = torch.nn.functional.softmax
    for shape, axis in (((3, 5), 1), ((2, 3, 5), 0), ((2, 3, 4, 5), 1)):
        scores = torch.from_numpy(rng.normal(size=shape))
        with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
            found = softmax(scores)
        assert torch.equal(found, softmax(scores, dim=axis))


# Masks before the softmax


def test_torch_zero_times_minus_infinity_makes_every_weight_of_a_query_nan(torch):
    """In PyTorch (1 - mask) times −∞ makes the weights NaN, and masked_fill does not."""
    mask, scores = torch.ones(N, N).tril(), torch.randn(N, N)
    assert torch.softmax(scores + (1 - mask) * float("-inf"), dim=-1).isnan().all()
    filled = torch.softmax(scores.masked_fill(mask == 0, float("-inf")), dim=-1)
    for visible in scores, scores * mask:
        assert close(filled, torch.softmax(visible + (1 - mask) * -1e9, dim=-1), 1e-6)


@pytest.mark.parametrize("filled", [True, False])
def test_torch_a_nan_row_outside_the_loss_makes_the_gradients_nan(torch, filled):
    """In PyTorch a row of NaN weights that the loss leaves out makes the values' gradient NaN.

    Covers: a softmax by hand; −∞ that is filled in, and −∞ that is added, which lets NaN reach
    the gradients of queries and keys, too.
    """
    visible = later(torch).mT  # the first query sees no key
    with torch.enable_grad():
        Q, K, V = (torch.randn(N, D_K, requires_grad=True) for _ in range(3))
        S = Q @ K.mT
        S = S.masked_fill(~visible, float("-inf")) if filled else S + visible.log()
        output = S.softmax(dim=-1) @ V
        of_queries, of_keys, of_values = torch.autograd.grad(output[1:].sum(), (Q, K, V))
    assert output.isnan().all(dim=-1).tolist() == [True] + (N - 1) * [False]
    assert of_values.isnan().all()
    for gradient in (of_queries, of_keys):
        assert gradient.isnan().any() == (not filled)


@each_dtype
def test_torch_two_least_numbers_add_up_to_minus_infinity(torch, dtype):
    """In PyTorch two masks of the least number of a dtype add up to −∞, and a hidden row to NaN."""
    dtype = getattr(torch, dtype)
    once = torch.full((3,), torch.finfo(dtype).min, dtype=dtype)
    assert (once + once == float("-inf")).all()
    assert torch.softmax(once + once, dim=-1).isnan().all()
    assert torch.softmax(once, dim=-1).isfinite().all()


@each_dtype
def test_torch_fused_attention_gives_zeros_to_a_query_that_nothing_is_left_for(torch, dtype):
    """PyTorch's `scaled_dot_product_attention` gives zeros for a row of −∞, a softmax by hand NaN.

    Covers: float16, bfloat16, float32 and float64, on the CPU.
    """
    attend, dtype = torch.nn.functional.scaled_dot_product_attention, getattr(torch, dtype)
    Q, K, V = torch.randn(3, 1, H, N, 4).to(dtype)
    least = torch.full((N, N), torch.finfo(dtype).min, dtype=dtype)
    infinite = torch.full((N, N), float("-inf"), dtype=dtype)
    for mask in (torch.zeros(N, N, dtype=torch.bool), infinite, least + least):
        assert not attend(Q, K, V, attn_mask=mask).any()
    assert attend(Q, K, V, attn_mask=least).any()
    assert torch.softmax(Q @ K.mT + least + least, dim=-1).isnan().all()
    if dtype == torch.float16:  # the least number and a score of -16 add up to -∞
        Q = torch.full_like(Q, 4)
        assert ((Q @ -Q.mT) / 4 + least == float("-inf")).all()
        given = attend(Q, -Q, V, attn_mask=least, scale=1 / 4)
        assert close(given, V.mean(dim=-2, keepdim=True).expand(given.shape), 1e-3)


def test_torch_refuses_to_fill_float16_with_a_number_that_it_cannot_hold(torch):
    """PyTorch's `masked_fill` refuses −10⁹ in float16, and an assignment writes −∞."""
    scores = torch.zeros(3, dtype=torch.float16)
    hidden = torch.tensor([False, False, True])
    with pytest.raises(RuntimeError, match="cannot be converted"):
        scores.masked_fill(hidden, -1e9)
    scores[hidden] = -1e9
    assert scores[2] == float("-inf")


# Dropout


def test_torch_multihead_attention_drops_weights_in_training_and_divides_what_it_keeps(torch, rng):
    """PyTorch's layer drops weights in training, and divides others by 1 − p; `eval()` does not."""
    layer, x = torch_layer(rng, dropout=0.2, bias=False), tokens(torch, rng, batch=500)
    asked = {"attn_mask": later(torch), "average_attn_weights": False}
    output, weights = layer.train()(x, x, x, **asked)
    first = weights[..., 0, 0]  # behind the mask the first query sees one key
    assert {*first.unique().numpy().round(12)} == {0, 1.25}
    assert (first == 0).double().mean().item() == pytest.approx(0.2, abs=0.04)
    assert (first[:, 0] != first[:, 1]).any()  # each head drops for itself
    dropped = (first == 0).all(dim=1)
    assert dropped.any()
    assert not output[dropped, 0].any()
    _, weights = layer.eval()(x, x, x, **asked)
    assert close(weights.sum(dim=-1), 1)


def test_torch_scaled_dot_product_attention_drops_whatever_the_mode_of_the_module(torch, rng):
    """PyTorch's `scaled_dot_product_attention` drops weights after `eval()` too.

    Covers: a module that is in training and one that is not, float32 on a CPU.
    """

    class Attention(torch.nn.Module):
        def forward(self, x):
            attend = torch.nn.functional.scaled_dot_product_attention
            return attend(x, x, x, dropout_p=0.5)

    x = torch.randn(1, H, N, D_K)
    for module in (Attention().train(), Attention().eval()):
        assert not torch.equal(module(x), module(x))
    layer, x = torch_layer(rng, dropout=0.5), tokens(torch, rng)
    assert torch.equal(layer(x, x, x)[0], layer(x, x, x)[0])


def test_torch_functional_dropout_drops_whatever_the_mode_of_the_module(torch):
    """PyTorch's `F.dropout(x, p)` drops after `eval()` too, and nn.Dropout does not."""

    class Attention(torch.nn.Module):
        def forward(self, x, **options):
            return torch.nn.functional.dropout(x, 0.5, **options)

    ones, module = torch.ones(100), Attention().eval()
    assert (module(ones) == 0).any()
    assert torch.equal(module(ones, training=module.training), ones)
    assert torch.equal(torch.nn.Dropout(0.5).eval()(ones), ones)


# Biases of the scores


def test_sam_adds_positions_from_the_unscaled_query_after_the_scale(torch, rng):
    """SAM's layer in Transformers adds positions made from unscaled queries after the scale."""
    sam = transformers("sam")
    sizes = {"hidden_size": E, "num_attention_heads": H, "image_size": 6, "patch_size": 2}
    config = sam.SamVisionConfig(**sizes, use_rel_pos=True)
    eager = randomised(sam.SamVisionAttention(config, window_size=0), rng)
    fused = sam.SamVisionSdpaAttention(config, window_size=0).double().eval()
    fused.load_state_dict(eager.state_dict())
    x = torch.from_numpy(rng.normal(size=(1, 3, 3, E)))
    expected, weights = eager(x)  # SAM's heads are one axis with the batch
    assert close(fused(x)[0], expected, 1e-6)  # softmax in float32
    query, key, _ = eager.qkv(x).reshape(9, 3, H, D_K).permute(1, 2, 0, 3)
    positions = eager.get_decomposed_rel_pos(
        query, eager.rel_pos_h, eager.rel_pos_w, (3, 3), (3, 3)
    ).reshape(H, 9, 9)
    scores = query @ key.mT / D_K**0.5
    assert close((scores + positions).softmax(-1), weights, 1e-6)
    assert not close((scores + positions / D_K**0.5).softmax(-1), weights, 1e-2)


def test_torch_adds_a_bias_after_the_scale(rng):
    """PyTorch's `scaled_dot_product_attention` adds a mask of floats after the scale."""
    Q, K, V = rng.normal(size=(3, 1, H, N, D_K))
    products, causal = Q @ K.swapaxes(-1, -2), np.where(np.tri(N, dtype=bool), 0, -np.inf)
    for added, shows in ((rng.normal(size=(N, N)), True), (causal, False)):
        found = sdpa(Q, K, V, attn_mask=added)
        assert close(found, qkv.softmax(products / np.sqrt(D_K) + added) @ V)
        before = qkv.softmax((products + added) / np.sqrt(D_K)) @ V
        assert close(found, before) != shows


# How to get the weights


def test_torch_returns_no_weights_without_need_weights(torch, rng):
    """PyTorch's layer returns None in place of the weights with `need_weights=False`."""
    layer, x = torch_layer(rng), tokens(torch, rng)
    output, weights = layer(x, x, x)
    alone, none = layer(x, x, x, need_weights=False)
    assert weights.shape == (1, N, N)
    assert none is None
    assert close(alone, output)


@pytest.mark.parametrize("norm_first", [False, True])
def test_torch_encoder_layer_asks_for_no_weights_and_its_own_call_gives_them(
    torch, rng, norm_first
):
    """PyTorch's encoder layer asks for no weights, and a call of its `self_attn` gives them."""
    encoder, seen = torch.nn.TransformerEncoderLayer, []
    layer = randomised(encoder(E, H, 7, batch_first=True, norm_first=norm_first), rng)
    layer.self_attn.register_forward_hook(lambda module, given, got: seen.append(got))
    x, mask = tokens(torch, rng), {"attn_mask": later(torch)}
    layer(x, src_mask=later(torch))
    (of_hook, none), *_ = seen
    source = layer.norm1(x) if norm_first else x
    output, mean = layer.self_attn(source, source, source, **mask)
    _, weights = layer.self_attn(source, source, source, **mask, average_attn_weights=False)
    assert none is None
    assert close(of_hook, output)
    assert (mean.shape, weights.shape) == ((1, N, N), (1, H, N, N))
    projected, seen = loaded(layer.self_attn).project(source.numpy()), np.tri(N, dtype=bool)
    assert close(qkv.attention(*projected, mask=seen, return_weights=True)[1], weights)


def test_torch_fast_path_does_not_call_self_attn_unless_it_has_a_hook(torch, rng, monkeypatch):
    """PyTorch's encoder layer does not call `self_attn` on the fast path, unless it has a hook."""
    calls, forward, x = [], torch.nn.MultiheadAttention.forward, tokens(torch, rng)

    def counted(self, *sources, **options):
        calls.append(options["need_weights"])
        return forward(self, *sources, **options)

    def calls_of(hook=False, fast=True):
        calls.clear()
        layer = torch.nn.TransformerEncoderLayer(E, H, 7, batch_first=True).double().eval()
        if hook:
            layer.self_attn.register_forward_hook(lambda module, given, got: None)
        torch.backends.mha.set_fastpath_enabled(fast)
        try:
            layer(x)
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
        return [*calls]

    monkeypatch.setattr(torch.nn.MultiheadAttention, "forward", counted)
    assert calls_of() == []
    assert calls_of(hook=True) == calls_of(fast=False) == [False]


@pytest.mark.parametrize("mode", ["eager", "sdpa"])
def test_transformers_return_weights_in_eager_mode_and_none_with_sdpa(torch, mode):
    """Transformers' BERT returns weights in eager mode, (batch, h, n, n), and () with sdpa."""
    found = weights_of("Bert", torch.tensor([[3, 1, 4, 1, 5]]), attn_implementation=mode)
    if mode == "sdpa":
        assert found == ()
    else:
        assert [weights.shape for weights in found] == [(1, 2, 5, 5)]
        assert close(found[0].sum(dim=-1), 1, 1e-6)


def test_t5_of_transformers_returns_three_tuples_of_weights(torch):
    """Transformers' T5 returns weights of the encoder, the decoder and the cross-attention."""
    library, words = pytest.importorskip("transformers"), torch.tensor([[3, 1, 4, 1, 5]])
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_heads": 2, "num_layers": 1, "vocab_size": 11}
    config = library.T5Config(**sizes, decoder_start_token_id=0, attn_implementation="eager")
    asked = {"decoder_input_ids": words[:, :3], "output_attentions": True}
    found = library.T5Model(config).eval()(words, **asked)
    names = "encoder_attentions", "decoder_attentions", "cross_attentions"
    shapes = [found[name][0].shape for name in names]
    assert shapes == [(1, 2, 5, 5), (1, 2, 3, 3), (1, 2, 3, 5)]


def test_torch_strict_false_drops_bias_k_and_names_it_in_its_return_value(torch):
    """PyTorch's strict=False drops `bias_k` and `bias_v`, and names them in its return value."""
    with_them = torch.nn.MultiheadAttention(E, H, add_bias_kv=True)
    without = torch.nn.MultiheadAttention(E, H)
    found = without.load_state_dict(with_them.state_dict(), strict=False)
    assert {*found.unexpected_keys} == {"bias_k", "bias_v"}
    with pytest.raises(RuntimeError, match="bias_k"):
        without.load_state_dict(with_them.state_dict())


@pytest.mark.parametrize(
    "options",
    [{"add_bias_kv": True}, {"add_zero_attn": True}, {"add_bias_kv": True, "add_zero_attn": True}],
)
def test_torch_added_keys_lengthen_the_weights(torch, rng, options):
    """PyTorch's `add_bias_kv` and `add_zero_attn` lengthen the weights by one key each, a token."""
    layer, x = torch_layer(rng, **options), tokens(torch, rng)
    output, weights = layer(x, x, x)
    assert weights.shape == (1, N, N + len(options))
    assert (weights[..., -1] > 0).all()
    state, zero = layer.state_dict(), torch.zeros(1, 1, E)
    assert state["in_proj_bias"].shape == (3 * E,)
    learned = [state.pop(name, None) for name in ("bias_k", "bias_v")]
    mh = qkv.load(state, "pytorch", h=H)
    Q, *given = mh.project(x.numpy())
    for n, token in enumerate(learned):  # the learned token comes before the one of zeros
        added = [token] if "add_bias_kv" in options else []
        added += [zero] if "add_zero_attn" in options else []
        given[n] = np.concatenate([given[n], *(each.reshape(1, H, 1, D_K) for each in added)], -2)
    assert close(mh.join(qkv.attention(Q, *given)), output)


@pytest.mark.parametrize("option", ["add_bias_kv", "add_zero_attn"])
def test_torch_hides_added_keys_with_is_causal_and_without_weights(torch, rng, option):
    """PyTorch's layer hides an added key if `is_causal=True` and `need_weights=False`, else not.

    Covers: a causal mask of five words; and the same with a `key_padding_mask` that hides no word.
    With six queries and five keys the last query sees what was added.
    """
    layer, x = torch_layer(rng, **{option: True}), tokens(torch, rng)
    plain = torch_layer(rng)
    plain.load_state_dict(layer.state_dict(), strict=False)
    padding = torch.zeros(1, N, dtype=torch.bool)
    shown, _ = layer(x, x, x, attn_mask=later(torch))
    hidden, _ = plain(x, x, x, attn_mask=later(torch))
    assert not close(shown, hidden, 1e-3)
    for given, expected in (
        ({"need_weights": False}, shown),
        ({"is_causal": True}, shown),
        ({"is_causal": True, "need_weights": False}, hidden),
        ({"is_causal": True, "need_weights": False, "key_padding_mask": padding}, shown),
    ):
        output, _ = layer(x, x, x, attn_mask=later(torch), **given)
        assert close(output, expected)
    more = torch.cat([x, x[:, :1]], dim=1)
    mask = torch.ones(N + 1, N, dtype=torch.bool).triu(1)
    given = {"attn_mask": mask, "is_causal": True, "need_weights": False}
    differs = (layer(more, x, x, **given)[0] - plain(more, x, x, **given)[0]).abs().amax(dim=(0, 2))
    assert (differs > 1e-3).tolist() == [False] * N + [True]
