"""What PyTorch's layer takes, stores and learns.

The first line of a test's docstring is the claim. Pages that state it name the test.
"""

import inspect
import re
from functools import partial

import numpy as np
import pytest
from arrays import (
    D_K,
    N_K,
    N_Q,
    E,
    H,
    called,
    close,
    grouped_qwen2,
    loaded,
    no_rotation,
    sdpa,
    size,
    torch_layer,
)
from numpy.testing import assert_allclose, assert_array_equal
from real_layers import keras_library, randomised, transformers

import qkv
from qkv_site.page import Site


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
    computed = sdpa(Q, K, V)
    assert close(computed, qkv.attention(Q, K, V))


def test_torch_layer_joins_what_its_attention_function_gives_and_multiplies(torch, mha, x):
    """PyTorch's layer is its function, then `transpose(-3, -2).flatten(-2)`, then `out_proj`.

    The function gets the layer's projected heads, (h, n, d_k) or (batch, h, n, d_k). The layer has
    batch_first=True and no dropout.
    """
    for given in x, x[0]:
        projected = map(torch.from_numpy, loaded(mha).project(given))
        heads = torch.nn.functional.scaled_dot_product_attention(*projected)
        output = mha.out_proj(heads.transpose(-3, -2).flatten(-2)).numpy()
        assert close(output, called(mha, given, given, given)[0])


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
        ((2, 5, 768), (2304, 768), "10x768 and 2304x768"),
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


def test_torch_stores_w_q_of_a_head_as_transposed_rows(mha):
    """PyTorch stores W_Q of a head as transposed rows.

    Head i's W_Q is in_proj_weight[i·d_k : (i+1)·d_k], transposed; keys and values follow.
    """
    weight, bias = mha.in_proj_weight.numpy(), mha.in_proj_bias.numpy()
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
    weight, bias = cross.in_proj_weight.numpy(), cross.in_proj_bias.numpy()
    assert weight.shape == (3 * E, E)
    Q, K, V = (
        (source @ W.T + b).reshape(-1, H, D_K).swapaxes(0, 1)
        for source, W, b in zip((x, y, y), np.split(weight, 3), np.split(bias, 3), strict=True)
    )
    joined = qkv.attention(Q, K, V).swapaxes(0, 1).reshape(1, N_Q, E)
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


def test_torch_w_o_is_transposed_and_cut_into_blocks_of_its_columns(mha, x):
    """PyTorch: a head's W_O is a block of columns of `out_proj.weight`, transposed.

    Head i meets out_proj.weight[:, i·d_k : (i+1)·d_k], transposed; the products add up.
    """
    output, A = called(mha, x, x, x, average_attn_weights=False)
    W_out, b_out = (part.numpy() for part in (mha.out_proj.weight, mha.out_proj.bias))
    _, _, values = np.split(x @ mha.in_proj_weight.numpy().T, 3, axis=-1)
    values = values + mha.in_proj_bias.numpy()[2 * E :]
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


def test_torch_weight_of_a_1_by_1_convolution_is_that_of_linear_with_two_axes_more(torch):
    """PyTorch's `Conv2d` of size 1 is a linear map: squeeze its weight, and do not transpose it."""
    convolution, linear = torch.nn.Conv2d(6, 4, 1), torch.nn.Linear(6, 4)
    assert convolution.weight.shape == (4, 6, 1, 1)
    with torch.no_grad():
        linear.weight.copy_(convolution.weight[:, :, 0, 0])
        linear.bias.copy_(convolution.bias)
    picture = torch.randn(2, 6, 3, 5)
    mapped = linear(picture.movedim(1, -1)).movedim(-1, 1)
    assert torch.allclose(convolution(picture), mapped, atol=1e-6)


def test_torch_each_decoder_layer_reads_the_output_of_the_last_encoder_layer(torch):
    """Each decoder layer of PyTorch's `Transformer` reads the output of the last encoder layer.

    Covers: two encoder layers and three decoder layers, with the norm after the last one.
    """
    model = torch.nn.Transformer(8, 2, 2, 3, 16, batch_first=True).eval()
    encoded, read = [], []
    model.encoder.register_forward_hook(lambda *of: encoded.append(of[-1]))
    for layer in model.decoder.layers:
        layer.register_forward_pre_hook(lambda _, arguments: read.append(arguments[1]))
    model(src=torch.randn(1, 5, 8), tgt=torch.randn(1, 3, 8))
    assert len(read) == 3
    assert all(memory is encoded[0] for memory in read)


def test_torch_attention_without_positions_is_equivariant(torch, rng, x):
    """Without a mask PyTorch's attention and encoder layer do not see the order of the tokens.

    In another order they return the same vectors, in that order. A causal mask changes that.

    Covers: one order of five tokens, in evaluation, without a mask; MultiheadAttention with one.
    """
    order = [3, 0, 4, 2, 1]
    mha = torch_layer(rng)
    block = randomised(torch.nn.TransformerEncoderLayer(E, H, 11, batch_first=True), rng)
    x = torch.from_numpy(x)
    causal = torch.ones(N_Q, N_Q, dtype=torch.bool).triu(1)
    for layer in (lambda x: mha(x, x, x)[0], block):
        assert_allclose(layer(x[:, order]), layer(x)[:, order], atol=1e-12)
        assert not close(layer(x[:, order]), layer(x), 1e-3)
    masked = [mha(each, each, each, attn_mask=causal)[0] for each in (x[:, order], x)]
    assert not close(masked[0], masked[1][:, order], 1e-3)


def test_the_check_of_steps_holds_for_a_fresh_layer_of_torch_in_float32(torch):
    """The check of steps holds for a fresh nn.MultiheadAttention in float32.

    Without biases, 512 wide. Its output is small, so a LayerNorm's eps takes some of the variance.
    """
    page = Site().pages["symptoms/steps.md"]
    (block,) = (each for each in page.fences() if "def step_that_differs" in each.code)
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


def test_torch_refuses_values_of_another_length_than_the_keys(torch, mha, x, y, rng):
    """PyTorch's layer refuses values of another length than the keys, and takes others as long.

    Values from the query side are refused for 5 queries and 7 keys. For 5 and 5 they are taken.

    Covers: `nn.MultiheadAttention`, values that are another array of the keys' length.
    """
    with pytest.raises((RuntimeError, AssertionError), match=r"shape|size|match"):
        called(mha, x, y, x)
    other = rng.normal(size=x.shape)
    assert close(called(mha, x, other, x)[0], loaded(mha)(x, other, x))
    assert not close(called(mha, x, other, x)[0], called(mha, x, other, other)[0], 0.1)


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


def test_torch_gradient_of_w_q_is_that_of_the_formula(torch, mha, x, y, rng):
    """PyTorch's gradient of W_Q is X^T dS K, with dS = A (dA − the sum of A dA over keys) / √d_k.

    Covers: `nn.MultiheadAttention` in float64, 2 heads, 5 queries and 7 keys.
    """
    mha.requires_grad_()
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
    mha.requires_grad_()
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
    mha.requires_grad_()
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
    layer = torch_layer(rng, dropout=0.5).requires_grad_()
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


def test_qwen2_equal_keys_that_are_turned_give_w_q_a_gradient(torch, rng):
    """Qwen2 with W_K = 0 and a key bias: the rotation makes the equal keys differ.

    Then W_Q has a gradient. Without the rotation it has none, up to rounding.
    """
    layer = grouped_qwen2(rng).requires_grad_()
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
