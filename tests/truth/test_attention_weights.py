"""What libraries do with attention weights: the softmax, dropout, added biases, hooks.

The first line of a test's docstring is the claim. Pages that state it name the test.
"""

import numpy as np
import pytest
from arrays import D_K, E, H, close, torch_layer
from numpy.testing import assert_array_equal
from real_layers import randomised, transformers

import qkv

N = 5


def tokens(torch, rng, batch=1):
    return torch.from_numpy(rng.normal(size=(batch, N, E)))


# The softmax


def test_keras_softmax_gives_ones_on_a_last_axis_of_length_one(keras, rng):
    """Keras' softmax activation gives ones on a last axis of length 1, and axis=1 gives weights."""
    energies = rng.normal(size=(2, 7, 1)).astype("float32")
    states = rng.normal(size=(2, 7, 4)).astype("float32")

    def of_keras(layer, *arrays):
        return keras.ops.convert_to_numpy(layer(*arrays))

    wrong = of_keras(keras.layers.Activation("softmax"), energies)
    assert_array_equal(wrong, np.ones_like(wrong))
    right = of_keras(keras.layers.Softmax(axis=1), energies)
    assert np.allclose(right.sum(axis=1), 1, rtol=0, atol=1e-6)
    context = of_keras(keras.layers.Dot(axes=1), [wrong, states])
    assert np.allclose(context[:, 0], states.sum(axis=1), rtol=0, atol=1e-5)


def test_torch_softmax_without_dim_takes_the_first_axis_of_three(torch, rng):
    """PyTorch's `F.softmax` without `dim` takes the first axis of an array with three axes."""
    softmax = torch.nn.functional.softmax
    for shape, axis in (((3, 5), 1), ((2, 3, 5), 0), ((2, 3, 4, 5), 1)):
        scores = torch.from_numpy(rng.normal(size=shape))
        with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
            found = softmax(scores)
        assert torch.equal(found, softmax(scores, dim=axis))


# Masks before the softmax


def test_torch_zero_times_minus_infinity_makes_every_weight_of_a_query_nan(torch, rng):
    """In PyTorch (1 - mask) times −∞ makes the weights NaN, and masked_fill does not."""
    mask = torch.ones(N, N).tril()
    scores = torch.from_numpy(rng.normal(size=(N, N)).astype("float32"))
    weights = torch.softmax(scores + (1 - mask) * float("-inf"), dim=-1)
    assert weights.isnan().all()
    filled = torch.softmax(scores.masked_fill(mask == 0, float("-inf")), dim=-1)
    finite = torch.softmax(scores + (1 - mask) * -1e9, dim=-1)
    assert filled.isfinite().all()
    assert torch.allclose(filled, finite)


def test_a_float16_mask_times_minus_a_billion_is_nan_in_jax_and_not_in_torch(torch):
    """In float16 (1 - mask) * -1e9 is NaN at visible keys in JAX, and 0 in PyTorch."""
    jax = pytest.importorskip("jax")
    mask = np.tri(N, dtype=np.float16)
    of_jax = np.asarray((1 - jax.numpy.asarray(mask)) * -1e9)
    hidden = 1 - torch.from_numpy(mask)
    of_torch = (hidden * -1e9).numpy()
    of_tensor = (hidden * torch.tensor(-1e9).half()).numpy()
    for product in (of_jax, of_torch, of_tensor):
        assert product.dtype == np.float16
        assert np.isneginf(product[mask == 0]).all()
    assert not of_torch[mask == 1].any()
    assert np.isnan(of_jax[mask == 1]).all()
    assert np.isnan(of_tensor[mask == 1]).all()


def test_torch_two_least_numbers_add_up_to_minus_infinity(torch):
    """In PyTorch two masks of the least number of a dtype add up to −∞, and a hidden row to NaN."""
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        least = torch.finfo(dtype).min
        hidden_twice = torch.full((3,), least, dtype=dtype) + least
        assert (hidden_twice == float("-inf")).all()
        assert torch.softmax(hidden_twice, dim=-1).isnan().all()
        once = torch.full((3,), least, dtype=dtype)
        assert torch.softmax(once, dim=-1).isfinite().all()


def test_torch_fused_attention_gives_zeros_to_a_query_that_nothing_is_left_for(torch, rng):
    """PyTorch's `scaled_dot_product_attention` gives zeros for a row of −∞, a softmax by hand NaN.

    Covers: float16, bfloat16, float32 and float64, on the CPU.
    """
    attend = torch.nn.functional.scaled_dot_product_attention
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        Q, K, V = torch.from_numpy(rng.normal(size=(3, 1, H, N, D_K))).to(dtype)
        least = torch.full((N, N), torch.finfo(dtype).min, dtype=dtype)
        infinite = torch.full((N, N), float("-inf"), dtype=dtype)
        for mask in (torch.zeros(N, N, dtype=torch.bool), infinite, least + least):
            assert not attend(Q, K, V, attn_mask=mask).any()
        assert attend(Q, K, V, attn_mask=least).any()
        assert torch.softmax(Q @ K.mT + least + least, dim=-1).isnan().all()

    Q, V = torch.full((1, H, N, 4), 4.0).half(), V.half()
    least = torch.full((N, N), torch.finfo(torch.float16).min).half()
    assert ((Q @ -Q.mT) / 4 + least == float("-inf")).all()
    given = attend(Q, -Q, V, attn_mask=least, scale=1 / 4)
    assert torch.allclose(given, V.mean(dim=-2, keepdim=True).expand(given.shape), atol=1e-3)


def test_torch_a_row_of_nan_gives_nan_gradients_though_the_loss_leaves_it_out(torch, rng):
    """In PyTorch a row of NaN weights gives NaN gradients, even if the loss leaves the row out."""
    given = [torch.from_numpy(rng.normal(size=(N, D_K))).requires_grad_() for _ in range(3)]
    hidden = torch.ones(N, N).triu(1).bool()
    hidden[1] = True  # this query sees no key

    def nan_gradients(hide):
        Q, K, V = given
        output = torch.softmax(hide(Q @ K.T), dim=-1) @ V
        assert output[1].isnan().all() or output.isfinite().all()
        loss = output[[0, 2, 3, 4]].square().sum()
        assert loss.isfinite()
        return [bool(each.isnan().any()) for each in torch.autograd.grad(loss, given)]

    infinite = torch.zeros(N, N).masked_fill(hidden, float("-inf"))
    least = torch.finfo(torch.float64).min
    assert nan_gradients(lambda S: S.masked_fill(hidden, float("-inf"))) == [False, False, True]
    assert nan_gradients(lambda S: S + infinite) == [True, True, True]
    assert nan_gradients(lambda S: S.masked_fill(hidden, least)) == [False, False, False]


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
    layer = torch_layer(rng, dropout=0.2, bias=False)
    x = tokens(torch, rng, batch=500)
    later = torch.ones(N, N, dtype=torch.bool).triu(1)
    torch.manual_seed(0)

    def called():
        with torch.no_grad():
            return layer(x, x, x, attn_mask=later, average_attn_weights=False)

    layer.train()
    output, weights = called()
    first = weights[..., 0, 0]
    assert {*first.unique().numpy().round(12)} == {0, 1.25}
    assert (first == 0).double().mean().item() == pytest.approx(0.2, abs=0.04)
    assert (first[:, 0] != first[:, 1]).any()  # each head drops for itself
    dropped = (first == 0).all(dim=1)
    assert dropped.any()
    assert not output[dropped, 0].any()
    layer.eval()
    _, weights = called()
    assert close(weights.sum(dim=-1), 1)


def test_torch_scaled_dot_product_attention_drops_whatever_the_mode_of_the_module(torch, rng):
    """PyTorch's `scaled_dot_product_attention` drops weights after `eval()` too.

    Covers: a module that is in training and one that is not, float32 on a CPU.
    """

    class Attention(torch.nn.Module):
        def forward(self, x):
            attend = torch.nn.functional.scaled_dot_product_attention
            return attend(x, x, x, dropout_p=0.5)

    x = torch.from_numpy(rng.normal(size=(1, H, N, D_K)).astype("float32"))
    for module in (Attention().train(), Attention().eval()):
        assert not torch.equal(module(x), module(x))
    layer = torch_layer(rng, dropout=0.5)
    x = tokens(torch, rng)
    assert torch.equal(layer(x, x, x)[0], layer(x, x, x)[0])


def test_torch_functional_dropout_drops_whatever_the_mode_of_the_module(torch):
    """PyTorch's `F.dropout(x, p)` drops after `eval()` too, and nn.Dropout does not."""

    class Careless(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.dropout(x, 0.5)

    class Careful(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.dropout(x, 0.5, training=self.training)

    ones = torch.ones(100)
    assert (Careless().eval()(ones) == 0).any()
    for module in (Careful().eval(), torch.nn.Dropout(0.5).eval()):
        assert torch.equal(module(ones), ones)


def test_flax_drops_the_same_places_in_each_head_unless_told_otherwise(rng):
    """Flax drops the same places in each head and sentence unless told otherwise."""
    jax = pytest.importorskip("jax")
    linen = pytest.importorskip("flax.linen")
    nnx = pytest.importorskip("flax.nnx.nn.attention")
    Q, K = rng.normal(size=(2, 3, N, H, D_K)).astype("float32")
    options = {"dropout_rng": jax.random.key(0), "dropout_rate": 0.5, "deterministic": False}
    for library in (linen, nnx):
        shared, own = (
            np.asarray(library.dot_product_attention_weights(Q, K, **options, **more)) == 0
            for more in ({}, {"broadcast_dropout": False})
        )
        assert 0 < shared.sum() < shared.size
        assert (shared == shared[:1, :1]).all()
        assert (own != own[:1, :1]).any()


# Biases of the scores


def test_sam_adds_positions_from_the_unscaled_query_after_the_scale(torch, rng):
    """SAM's layer in Transformers adds positions made from unscaled queries after the scale."""
    sam = transformers("sam")
    config = sam.SamVisionConfig(
        hidden_size=E, num_attention_heads=H, image_size=6, patch_size=2, use_rel_pos=True
    )
    eager = randomised(sam.SamVisionAttention(config, window_size=0), rng)
    fused = sam.SamVisionSdpaAttention(config, window_size=0).double().eval()
    fused.load_state_dict(eager.state_dict())
    x = torch.from_numpy(rng.normal(size=(1, 3, 3, E)))
    with torch.no_grad():
        expected, weights = eager(x)  # SAM's heads are one axis with the batch
        assert np.allclose(fused(x)[0], expected, rtol=0, atol=1e-6)  # softmax in float32
        qkv_of_x = eager.qkv(x).reshape(9, 3, H, D_K).permute(1, 2, 0, 3)
        query, key, _ = qkv_of_x
        rel_pos = eager.rel_pos_h, eager.rel_pos_w
        positions = eager.get_decomposed_rel_pos(query, *rel_pos, (3, 3), (3, 3)).reshape(H, 9, 9)
    scores = query @ key.transpose(-1, -2) / D_K**0.5
    right = qkv.softmax((scores + positions).numpy())
    assert np.allclose(right, weights, rtol=0, atol=1e-6)
    wrong = qkv.softmax((scores + positions / D_K**0.5).numpy())
    assert not np.allclose(wrong, weights, atol=1e-2)


def test_torch_adds_a_bias_after_the_scale(torch, rng):
    """PyTorch's `scaled_dot_product_attention` adds a mask of floats after the scale."""
    Q, K, V = rng.normal(size=(3, 1, H, N, D_K))
    bias, later = rng.normal(size=(N, N)), np.where(np.tri(N, dtype=bool), 0, -np.inf)
    attend = torch.nn.functional.scaled_dot_product_attention
    products = Q @ K.swapaxes(-1, -2)
    for added, shows in ((bias, True), (later, False)):
        found = attend(*map(torch.from_numpy, (Q, K, V)), attn_mask=torch.from_numpy(added))
        assert close(found, qkv.softmax(products / np.sqrt(D_K) + added) @ V)
        before = qkv.softmax((products + added) / np.sqrt(D_K)) @ V
        assert close(found, before) != shows


# How to get the weights


def test_torch_encoder_layer_asks_for_no_weights_and_its_own_call_gives_them(torch, rng):
    """PyTorch's encoder layer asks for no weights, and a call of its `self_attn` gives them."""
    later = torch.ones(N, N, dtype=torch.bool).triu(1)
    for norm_first in (False, True):
        encoder = torch.nn.TransformerEncoderLayer
        layer = randomised(encoder(E, H, 7, batch_first=True, norm_first=norm_first), rng)
        seen = []
        layer.self_attn.register_forward_hook(lambda module, given, got, to=seen: to.append(got))
        x = tokens(torch, rng)
        with torch.no_grad():
            layer(x, src_mask=later)
            source = layer.norm1(x) if norm_first else x
            asked = {"need_weights": True, "average_attn_weights": False, "attn_mask": later}
            output, weights = layer.self_attn(source, source, source, **asked)
            mean = layer.self_attn(source, source, source, attn_mask=later)[1]
        of_hook, none = seen[0]
        assert none is None
        assert close(of_hook, output)
        assert weights.shape == (1, H, N, N)
        assert mean.shape == (1, N, N)
        mh = qkv.load(layer.self_attn.state_dict(), "pytorch", h=H)
        Q, K, V = mh.project(source.numpy())
        allowed = ~later.numpy()
        assert close(qkv.attention(Q, K, V, mask=allowed, return_weights=True)[1], weights)


def test_torch_fast_path_does_not_call_self_attn_unless_it_has_a_hook(torch, rng, monkeypatch):
    """PyTorch's encoder layer does not call `self_attn` on the fast path, unless it has a hook."""
    layer = torch.nn.TransformerEncoderLayer(E, H, 7, batch_first=True).double().eval()
    calls, forward = [], torch.nn.MultiheadAttention.forward

    def counted(self, *sources, **options):
        calls.append(options["need_weights"])
        return forward(self, *sources, **options)

    monkeypatch.setattr(torch.nn.MultiheadAttention, "forward", counted)
    x = tokens(torch, rng)
    with torch.no_grad():
        layer(x)
        assert calls == []
        layer.self_attn.register_forward_hook(lambda module, given, got: None)
        layer(x)
    assert calls == [False]
    other = torch.nn.TransformerEncoderLayer(E, H, 7, batch_first=True).double().eval()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad():
            other(x)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    assert calls == [False, False]


def test_transformers_return_weights_in_eager_mode_and_none_with_sdpa(torch):
    """Transformers' BERT returns weights in eager mode, (batch, h, n, n), and () with sdpa."""
    library = pytest.importorskip("transformers")
    sizes = {"hidden_size": E, "num_attention_heads": H, "intermediate_size": 7, "vocab_size": 11}
    words = torch.tensor([[3, 1, 4, 1, 5]])
    for implementation, gives in (("eager", True), ("sdpa", False)):
        config = library.BertConfig(
            num_hidden_layers=1, attn_implementation=implementation, **sizes
        )
        model = library.BertModel(config).eval()
        found = model(words, output_attentions=True).attentions
        if gives:
            (weights,) = found
            assert weights.shape == (1, H, N, N)
            assert torch.allclose(weights.sum(dim=-1), torch.ones(1, H, N))
        else:
            assert found == ()


def test_longformer_and_swin_return_weights_of_windows(torch):
    """Longformer and Swin return weights of windows, with other axes than most models."""
    library = pytest.importorskip("transformers")
    config = library.LongformerConfig(
        vocab_size=11,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        attention_window=4,
    )
    words = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]] * 3)
    with torch.no_grad():
        found = library.LongformerModel(config).eval()(words, output_attentions=True).attentions
    assert [tuple(weights.shape) for weights in found] == [(3, 2, 8, 4 + 1)]

    config = library.SwinConfig(
        image_size=32, patch_size=4, embed_dim=16, depths=[1], num_heads=[2], window_size=4
    )
    config._attn_implementation = "eager"
    images = torch.zeros(3, 3, 32, 32)  # 8 by 8 patches, which are four windows of 4 by 4
    with torch.no_grad():
        found = library.SwinModel(config).eval()(images, output_attentions=True).attentions
    assert [tuple(weights.shape) for weights in found] == [(3 * 4, 2, 16, 16)]

    distance = torch.arange(8)[:, None] - torch.arange(8)
    for name in ("Mistral", "Gemma2"):
        config = getattr(library, f"{name}Config")(
            vocab_size=11,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=8,
            intermediate_size=16,
            sliding_window=3,
            attn_implementation="eager",
        )
        model = getattr(library, f"{name}Model")(config).eval()
        with torch.no_grad():
            (weights,) = model(words, output_attentions=True).attentions
        assert torch.equal(weights > 0, ((distance >= 0) & (distance < 3)).expand(3, 2, 8, 8))


def test_transformers_return_weights_of_the_layers_with_softmax_attention_alone(torch):
    """Transformers returns weights of layers with a softmax, so the first may be layer 3's."""
    library = pytest.importorskip("transformers")
    words = torch.tensor([[3, 1, 4, 1, 5]])
    asked = {"output_attentions": True}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8}
    linear = {"linear_num_key_heads": 1, "linear_num_value_heads": 2}
    linear |= {"linear_key_head_dim": 8, "linear_value_head_dim": 8}
    experts = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 8}
    config = library.Qwen3NextConfig(
        vocab_size=11,
        hidden_size=16,
        intermediate_size=16,
        shared_expert_intermediate_size=8,
        num_hidden_layers=4,
        attn_implementation="eager",
        **(heads | linear | experts),
    )
    assert config.layer_types == 3 * ["linear_attention"] + ["full_attention"]
    with torch.no_grad():
        found = library.Qwen3NextModel(config).eval()(words, **asked).attentions
    assert [tuple(weights.shape) for weights in found] == [(1, 2, 5, 5)]

    config = library.T5Config(
        vocab_size=11,
        d_model=8,
        d_kv=4,
        d_ff=8,
        num_layers=1,
        num_heads=2,
        decoder_start_token_id=0,
    )
    config._attn_implementation = "eager"
    with torch.no_grad():
        found = library.T5Model(config).eval()(words, decoder_input_ids=words[:, :3], **asked)
    shapes = {
        name: tuple(found[f"{name}_attentions"][0].shape)
        for name in ("encoder", "decoder", "cross")
    }
    assert shapes == {"encoder": (1, 2, 5, 5), "decoder": (1, 2, 3, 3), "cross": (1, 2, 3, 5)}
    assert "attentions" not in found


def test_torch_strict_false_drops_bias_k_and_names_it_in_its_return_value(torch):
    """PyTorch's strict=False drops `bias_k` and `bias_v`, and names them in its return value."""
    with_them = torch.nn.MultiheadAttention(E, H, add_bias_kv=True)
    without = torch.nn.MultiheadAttention(E, H)
    found = without.load_state_dict(with_them.state_dict(), strict=False)
    assert {*found.unexpected_keys} == {"bias_k", "bias_v"}
    with pytest.raises(RuntimeError, match="bias_k"):
        without.load_state_dict(with_them.state_dict())


def test_torch_added_keys_lengthen_the_weights(torch, rng):
    """PyTorch's `add_bias_kv` and `add_zero_attn` lengthen the weights by one key each."""
    x = tokens(torch, rng)
    for options, more in (
        ({"add_bias_kv": True}, 1),
        ({"add_zero_attn": True}, 1),
        ({"add_bias_kv": True, "add_zero_attn": True}, 2),
    ):
        layer = torch_layer(rng, **options)
        with torch.no_grad():
            _, weights = layer(x, x, x)
        assert weights.shape == (1, N, N + more)
        assert (weights[..., -1] > 0).all()
        names = {name: tuple(array.shape) for name, array in layer.state_dict().items()}
        assert names["in_proj_bias"] == (3 * E,)
        assert ("bias_k" in names) == ("add_bias_kv" in options)
        assert names.get("bias_k") == names.get("bias_v")
        if "bias_k" in names:
            assert names["bias_k"] == (1, 1, E)

    layer = torch_layer(rng, add_zero_attn=True)
    mh = qkv.load(layer.state_dict(), "pytorch", h=H)
    Q, K, V = (np.asarray(each) for each in mh.project(x.numpy()))
    K, V = (np.concatenate([each, np.zeros((1, H, 1, D_K))], axis=-2) for each in (K, V))
    with torch.no_grad():
        output, _ = layer(x, x, x)
    assert close((qkv.attention(Q, K, V) @ mh.W_O).sum(axis=1) + mh.b_O, output)


def test_torch_is_causal_hides_what_add_bias_kv_adds(torch, rng):
    """PyTorch's `is_causal=True` hides from a query what `add_bias_kv` or `add_zero_attn` adds."""
    x, memory = tokens(torch, rng), tokens(torch, rng)[:, : N - 2]
    mask = torch.ones(N, N, dtype=torch.bool).triu(1)
    for options in ({"add_bias_kv": True}, {"add_zero_attn": True}):
        layer = torch_layer(rng, **options)
        mh = qkv.load(
            {name: w for name, w in layer.state_dict().items() if name not in ("bias_k", "bias_v")},
            "pytorch",
            h=H,
        )
        without = mh(x.numpy(), mask=~mask.numpy())

        def called(layer=layer, **given):
            with torch.no_grad():
                return layer(x, x, x, attn_mask=mask, **given)[0].numpy()

        assert close(called(is_causal=True, need_weights=False), without)
        shown = torch.zeros(1, N, dtype=torch.bool)
        for given in (
            {"need_weights": False},
            {"is_causal": True},
            {"is_causal": True, "need_weights": False, "key_padding_mask": shown},
        ):
            assert (np.abs(called(**given) - without).max(axis=-1) > 1e-6).all()

        with torch.no_grad():
            causal = {"is_causal": True, "need_weights": False}
            longer = layer(x, memory, memory, attn_mask=mask[:, : N - 2], **causal)[0].numpy()
        plain = mh(x.numpy(), memory.numpy(), mask=~mask.numpy()[:, : N - 2])
        differs = np.abs(longer - plain).max(axis=-1)[0] > 1e-6
        assert differs.tolist() == [False] * (N - 2) + [True] * 2
