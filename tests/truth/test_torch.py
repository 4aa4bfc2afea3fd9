"""What PyTorch's layer takes, stores and learns."""

import inspect
import re

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
    loaded,
    sdpa,
    size,
    torch_layer,
)
from numpy.testing import assert_array_equal
from real_layers import keras_library, randomised, transformers

import qkv


def test_torch_multihead_attention_contains_the_projections(mha, x):
    """PyTorch `MultiheadAttention` contains the projections."""
    assert sum(p.numel() for p in mha.parameters()) == size(loaded(mha)) == 4 * E * E + 4 * E
    assert close(called(mha, x, x, x)[0], loaded(mha)(x))


def test_torch_scaled_dot_product_attention_is_equation_1(torch, rng):
    """PyTorch `scaled_dot_product_attention` is equation (1)."""
    shapes = (H, N_Q, D_K), (H, N_K, D_K), (H, N_K, 11)
    Q, K, V = (rng.normal(size=shape) for shape in shapes)
    computed = sdpa(Q, K, V)
    assert close(computed, qkv.attention(Q, K, V))


def test_torch_layer_joins_what_its_attention_function_gives_and_multiplies(torch, mha, x):
    """PyTorch's layer: its maps, its function, `transpose(-3, -2).flatten(-2)`, then `out_proj`."""
    for given in x, x[0]:
        projected = map(torch.from_numpy, loaded(mha).project(given))
        heads = torch.nn.functional.scaled_dot_product_attention(*projected)
        output = mha.out_proj(heads.transpose(-3, -2).flatten(-2)).numpy()
        assert close(output, called(mha, given, given, given)[0])


def test_torch_without_batch_first_attends_across_the_batch_and_says_nothing(torch, mha, rng):
    """PyTorch without `batch_first` attends across the batch and says nothing."""
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
    """PyTorch `kdim` is a width before the map."""
    mh = loaded(torch.nn.MultiheadAttention(E, H, kdim=11, vdim=13))
    assert (mh.W_K.shape, mh.W_V.shape) == ((H, 11, E // H), (H, 13, E // H))


def test_torch_heads_always_fill_embed_dim(torch):
    """PyTorch heads fill `embed_dim`, and no argument is `head_dim`."""
    with pytest.raises(AssertionError, match="divisible"):
        torch.nn.MultiheadAttention(E, 5)
    parameters = inspect.signature(torch.nn.MultiheadAttention).parameters
    assert not {"head_dim", "key_dim", "d_k"} & parameters.keys()
    assert torch.nn.MultiheadAttention(E, H).head_dim == E // H  # an attribute, computed


def test_embed_dim_must_be_divisible_by_num_heads_and_the_message_says_so(torch):
    """In PyTorch embed_dim must be divisible by num_heads, and in BERT the hidden size likewise."""
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
    """`nn.Linear` names the width that came, and the width that it takes."""
    said = re.escape(f"mat1 and mat2 shapes cannot be multiplied ({message})")
    with pytest.raises(RuntimeError, match=said):
        torch.nn.Linear(*layer)(torch.zeros(came))


def test_torch_stores_w_q_of_a_head_as_transposed_rows(mha):
    """PyTorch stores W_Q of a head as transposed rows."""
    weight, bias = mha.in_proj_weight.numpy(), mha.in_proj_bias.numpy()
    mh = loaded(mha)
    thirds = (mh.W_Q, mh.b_Q), (mh.W_K, mh.b_K), (mh.W_V, mh.b_V)
    for third, (W, b) in enumerate(thirds):
        for i in range(H):
            rows = slice(third * E + i * D_K, third * E + (i + 1) * D_K)
            assert_array_equal(W[i], weight[rows].T)
            assert_array_equal(b[i], bias[rows])


def test_torch_in_proj_weight_holds_three_maps_in_cross_attention_too(torch, rng, x, y):
    """PyTorch: `in_proj_weight` holds the three maps in cross-attention, too."""
    cross = torch.nn.TransformerDecoderLayer(E, H, batch_first=True).multihead_attn
    weight = randomised(cross, rng).in_proj_weight.numpy()
    thirds = [np.hstack([*W]) for W in (loaded(cross).W_Q, loaded(cross).W_K, loaded(cross).W_V)]
    assert_array_equal(weight.T, np.hstack(thirds))
    assert close(called(cross, x, y, y)[0], loaded(cross)(x, y))


def spread(array) -> float:
    return array.std().item()


def test_torch_packing_the_three_projections_makes_their_first_weights_smaller(torch):
    """PyTorch packing the three projections makes their first weights smaller."""
    packed = torch.nn.MultiheadAttention(256, 8).in_proj_weight
    separate = torch.nn.MultiheadAttention(256, 8, kdim=255).q_proj_weight
    assert spread(packed) == pytest.approx((2 / (256 + 3 * 256)) ** 0.5, rel=0.01)
    assert spread(separate) == pytest.approx((2 / (256 + 256)) ** 0.5, rel=0.01)
    for outputs in (256, 3 * 256):
        weight = torch.nn.Linear(256, outputs).weight
        assert spread(weight) == pytest.approx((1 / (3 * 256)) ** 0.5, rel=0.01)


def test_torch_scores_start_at_half_a_unit(torch):
    """PyTorch's divided scores start with a standard deviation of about 0.5.

    Covers: `nn.MultiheadAttention(512, 8)`.
    """
    packed = torch.nn.MultiheadAttention(512, 8).in_proj_weight
    apart = torch.nn.MultiheadAttention(512, 8, vdim=256)
    stored_apart = torch.cat([apart.q_proj_weight, apart.k_proj_weight])
    linears = torch.cat([torch.nn.Linear(512, 512).weight for _ in "QK"])
    for weights, expected in (packed[:1024], 0.5), (stored_apart, 1), (linears, 1 / 3):
        queries, keys = (torch.randn(1000, 512) @ weights.T).chunk(2, dim=-1)
        scores = queries[:, :64] @ keys[:, :64].T / 64**0.5
        assert spread(scores) == pytest.approx(expected, rel=0.05)


def test_torch_embeddings_start_with_variance_one(torch):
    """PyTorch embeddings start with variance one."""
    first = torch.nn.Embedding(1000, 512).weight
    assert spread(first) == pytest.approx(1, rel=0.01)
    assert 512**0.5 * spread(first) == pytest.approx(22.6, abs=0.1)


def test_torch_w_o_is_transposed_and_cut_into_blocks_of_its_columns(mha, x):
    """PyTorch: a head's W_O is columns of `out_proj.weight`. The module itself is not called."""
    mh, (W_out, b_out) = loaded(mha), (part.numpy() for part in mha.out_proj.parameters())
    heads, calls = qkv.attention(*mh.project(x)), []
    mha.out_proj.register_forward_hook(lambda *call: calls.append(call))
    blocks = [W_out[:, i * D_K : (i + 1) * D_K].T for i in range(H)]
    assert close((heads @ blocks).sum(axis=1) + b_out, called(mha, x, x, x)[0])
    assert not calls


def test_torch_without_bias_has_no_output_bias_either(torch):
    """PyTorch without bias has no output bias either."""
    state = torch.nn.MultiheadAttention(E, H, bias=False).state_dict()
    assert state.keys() == {"in_proj_weight", "out_proj.weight"}


def test_view_to_heads_first_is_wrong_without_an_error(torch):
    """PyTorch's `view` from (n, h·d_k) to (h, n, d_k) cuts tokens, not heads, without an error.

    Covers: 6 tokens and 2 heads.
    """
    n, h, d_k = 6, 2, 3
    projected = torch.randn(n, h * d_k)
    right = projected.view(n, h, d_k).transpose(0, 1)
    wrong = projected.view(h, n, d_k)
    assert torch.equal(right[0], projected[:, :d_k])
    assert torch.equal(wrong[0].flatten(), projected[: n // h].flatten())  # of all their heads


def test_torch_view_fails_after_a_transpose_and_reshape_does_not(torch):
    """PyTorch `view` fails after a transpose of heads and tokens, and `reshape` does not."""
    heads, joined = torch.randn(1, H, N_Q, D_K), (1, N_Q, H * D_K)
    turned = heads.transpose(1, 2)
    with pytest.raises(RuntimeError, match="view size is not compatible with input tensor's size"):
        turned.view(joined)
    right = torch.cat([*heads[0]], dim=-1)[None]
    assert torch.equal(turned.reshape(joined), right)
    assert torch.equal(turned.contiguous().view(joined), right)
    assert not torch.allclose(heads.view(joined), right)


def test_torch_einsum_sums_a_letter_of_one_input_alone(torch):
    """PyTorch `einsum` sums a letter of one input alone, if the output does not have it."""
    A, V = torch.randn(2, H, N_Q, N_K).softmax(dim=-1), torch.randn(2, N_K, H, D_K)
    assert close(torch.einsum("bhqk,bvhd->bqhd", A, V), V.sum(dim=1, keepdim=True), 1e-5)
    right = (A @ V.transpose(1, 2)).transpose(1, 2)
    assert close(torch.einsum("bhqk,bkhd->bqhd", A, V), right, 1e-5)


def test_torch_scales_padded_heads_by_the_padded_width_unless_told(rng):
    """PyTorch `scaled_dot_product_attention` scales padded heads by the padded width by default."""
    Q, K, V = rng.normal(size=(3, 1, H, N_Q, 80))
    padded = np.pad([Q, K, V], [(0, 0)] * 4 + [(0, 128 - 80)])
    by_default, told = sdpa(*padded), sdpa(*padded, scale=80**-0.5)
    assert close(told, np.pad(sdpa(Q, K, V), [(0, 0)] * 3 + [(0, 128 - 80)]))
    assert close(by_default[..., :80], sdpa(Q, K, V, scale=128**-0.5))
    assert not close(by_default, told, 1e-2)


def test_torch_grouped_heads_repeat_each_key_head_before_the_next(torch, rng):
    """PyTorch grouped heads repeat each key head before the next."""
    Q, (K, V) = rng.normal(size=(1, 6, N_Q, D_K)), rng.normal(size=(2, 1, 2, N_K, D_K))
    grouped = sdpa(Q, K, V, enable_gqa=True)
    assert close(grouped, qkv.attention(Q, K.repeat(3, axis=1), V.repeat(3, axis=1)))
    assert not close(grouped, qkv.attention(Q, np.tile(K, (1, 3, 1, 1)), np.tile(V, (1, 3, 1, 1))))
    repeat_kv = transformers("llama").repeat_kv
    assert_array_equal(repeat_kv(torch.from_numpy(K), 3), K.repeat(3, axis=1))


def test_torch_weight_of_a_1_by_1_convolution_is_that_of_linear_with_two_axes_more(torch):
    """PyTorch's `Conv2d` of size 1 is a linear map: squeeze its weight, and do not transpose it."""
    convolution, picture = torch.nn.Conv2d(6, 4, 1), torch.randn(2, 6, 3, 5)
    assert convolution.weight.shape == (4, 6, 1, 1)
    W, b = convolution.weight.squeeze(), convolution.bias
    mapped = torch.nn.functional.linear(picture.movedim(1, -1), W, b).movedim(-1, 1)
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


def test_torch_attention_without_positions_is_equivariant(torch, rng, mha, x):
    """Without a mask PyTorch's attention and encoder layer do not see the order of the tokens.

    Covers: one order of five tokens, in evaluation, without a mask; MultiheadAttention with one.
    """
    block = randomised(torch.nn.TransformerEncoderLayer(E, H, 11, batch_first=True), rng)
    causal, order = torch.ones(N_Q, N_Q, dtype=torch.bool).triu(1), [3, 0, 4, 2, 1]
    x = torch.from_numpy(x)
    for layer, same in (
        (lambda x: mha(x, x, x)[0], True),
        (block, True),
        (lambda x: mha(x, x, x, attn_mask=causal)[0], False),
    ):
        assert close(layer(x[:, order]), layer(x)[:, order], 1e-3) == same
        assert not close(layer(x[:, order]), layer(x), 1e-3)


def test_torch_refuses_values_of_another_length_than_the_keys(mha, x, y, rng):
    """PyTorch's layer refuses values of another length than the keys, and takes others as long.

    Covers: `nn.MultiheadAttention`, values that are another array of the keys' length.
    """
    with pytest.raises((RuntimeError, AssertionError), match=r"shape|size|match"):
        called(mha, x, y, x)
    other = rng.normal(size=x.shape)
    assert close(called(mha, x, other, x)[0], loaded(mha)(x, other, x))
    assert not close(called(mha, x, other, x)[0], called(mha, x, other, other)[0], 0.1)


def test_torch_function_takes_fewer_values_than_keys_and_ignores_the_last_keys(torch, rng):
    """PyTorch's `scaled_dot_product_attention` may take fewer values than keys on a CPU.

    Covers: with four axes it ignores the last keys; with three axes it raises an error.
    """
    Q, K, V = (rng.normal(size=(2, H, n, D_K)) for n in (N_Q, N_K, N_K - 2))
    assert close(sdpa(Q, K, V), qkv.attention(Q, K[:, :, :-2], V))
    with pytest.raises(RuntimeError, match="Expected size"):
        sdpa(Q[0], K[0], V[0])


@pytest.mark.usefixtures("gradients")
@pytest.mark.parametrize(
    ("optimiser", "least", "most"),
    [("SGD", 0, 0), ("Adam", 0, 0), ("Muon", 0.1, 1), ("Adafactor", 0.05, 1)],
)
def test_packing_changes_the_steps_of_muon_and_adafactor_but_not_those_of_sgd_and_adam(
    torch, optimiser, least, most
):
    """Packing changes the steps of muon and adafactor but not those of sgd and adam."""
    start, *gradients = torch.randn(4, 192, 64, dtype=torch.float64)

    def trained(pieces):
        parts = [torch.nn.Parameter(part.clone()) for part in start.chunk(pieces)]
        stepping = getattr(torch.optim, optimiser)(parts, lr=0.01)
        for gradient in gradients:
            for part, its_gradient in zip(parts, gradient.chunk(pieces), strict=True):
                part.grad = its_gradient.clone()
            stepping.step()
        return torch.cat([part.detach() for part in parts])

    packed, separate = trained(1), trained(3)
    assert least <= (packed - separate).abs().max() / (packed - start).abs().max() <= most


@pytest.mark.usefixtures("gradients")
def test_torch_gradient_of_w_q_is_that_of_the_formula(torch, mha, x, y, rng):
    """PyTorch's gradient of W_Q is X^T dS K, with dS = A (dA − the sum of A dA over keys) / √d_k.

    Covers: `nn.MultiheadAttention` in float64, 2 heads, 5 queries and 7 keys.
    """
    G, X, Y = (torch.from_numpy(array) for array in (rng.normal(size=(1, N_Q, E)), x, y))
    (mha.requires_grad_()(X, Y, Y)[0] * G).sum().backward()
    mh = loaded(mha)
    Q, K, V = mh.project(x, y, y)
    _, A = qkv.attention(Q, K, V, return_weights=True)
    dA = G.numpy()[:, None] @ mh.W_O.swapaxes(1, 2) @ V.swapaxes(-1, -2)  # (1, h, n_q, n_k)
    dS = A * (dA - (A * dA).sum(axis=-1, keepdims=True)) / D_K**0.5
    dW_Q = x[:, None].swapaxes(-1, -2) @ dS @ K  # (1, h, d_model, d_k)
    assert close(mha.in_proj_weight.grad[:E], dW_Q[0].swapaxes(1, 2).reshape(E, E))


def largest_gradients(mha, *sources, wanted=0):
    """The largest number in the gradients of W_Q, W_K, W_V and W_O, for a sum of squares."""
    mha.requires_grad_().zero_grad()
    (mha(*sources)[0] - wanted).square().sum().backward()
    grads = (*mha.in_proj_weight.grad.chunk(3), mha.out_proj.weight.grad)
    return [float(grad.abs().max()) for grad in grads]


@pytest.mark.usefixtures("gradients")
def test_torch_one_key_gives_w_q_and_w_k_no_gradient_and_one_query_does(torch, mha, x):
    """PyTorch's layer gives W_Q and W_K a gradient of zero with one key, and not with one query.

    Covers: `nn.MultiheadAttention` in float64: one token that attends to itself, one query that
    attends to five.
    """
    X = torch.from_numpy(x)
    one_key = largest_gradients(mha, *[X[:, :1]] * 3)
    assert max(one_key[:2]) < 1e-12
    assert min(one_key[2:]) > 1e-3
    assert min(largest_gradients(mha, X[:, :1], X, X)) > 1e-3


@pytest.mark.usefixtures("gradients")
def test_torch_zero_output_weight_gives_q_k_and_v_no_gradient(torch, mha, x):
    """PyTorch's layer with an output weight of zero gives W_Q, W_K and W_V no gradient.

    Covers: `nn.MultiheadAttention` in float64, and a loss that is not zero for this output.
    """
    X = torch.from_numpy(x)
    torch.nn.init.zeros_(mha.out_proj.weight)
    *of_Q_K_and_V, of_W_O = largest_gradients(mha, X, X, X, wanted=X)
    assert of_Q_K_and_V == [0, 0, 0]
    assert of_W_O > 1e-3
    torch.optim.SGD(mha.parameters(), lr=0.01).step()
    assert min(largest_gradients(mha, X, X, X, wanted=X)) > 1e-3


@pytest.mark.usefixtures("gradients")
@pytest.mark.parametrize(
    ("optimiser", "options"), [("SGD", {}), ("Adam", {}), ("AdamW", {"weight_decay": 0})]
)
def test_torch_adam_tells_pairs_apart_that_differ_by_a_rotation(torch, rng, optimiser, options):
    """After one step of Adam, two pairs that had the same product may have different ones.

    Covers: Adam, and AdamW without weight decay, for a pair 30 x 5 and 5 x 30.
    """
    F, G, dP = (torch.from_numpy(rng.normal(size=size)) for size in ((30, 5), (5, 30), (30, 30)))
    turn, _ = torch.linalg.qr(torch.from_numpy(rng.normal(size=(5, 5))))
    exchange = torch.eye(5, dtype=float)[[3, 1, 4, 0, 2]] * torch.tensor([1, -1, 1, 1, -1])

    def product_after(*pair):
        first, second = pair = [torch.nn.Parameter(each.clone()) for each in pair]
        stepping = getattr(torch.optim, optimiser)(pair, lr=0.01, **options)
        ((first @ second) * dP).sum().backward()
        stepping.step()
        return first @ second

    apart, exchanged = (
        (product_after(F, G) - product_after(F @ M, M.T @ G)).abs().max() for M in (turn, exchange)
    )
    assert apart < 1e-12 if optimiser == "SGD" else apart > 0.01
    assert exchanged < 1e-12


def test_torch_merge_in_bfloat16_loses_a_part_of_a_small_update(torch):
    """PyTorch: a small update that is merged in bfloat16 loses a part, in float32 nearly nothing.

    Covers: weights of standard deviation 0.02, and a product of rank 8 of 0.0001, 768 wide.
    """
    weight = (0.02 * torch.randn(768, 768)).bfloat16()  # a checkpoint
    BA = torch.randn(768, 8) @ torch.randn(8, 768)
    BA *= 1e-4 / BA.std()

    def lost(dtype):
        merged = weight.to(dtype) + BA.to(dtype)
        return float((merged.double() - weight.double() - BA).norm() / BA.norm())

    assert 0.1 < lost(torch.bfloat16) < 0.5
    assert lost(torch.float32) < 1e-4


@pytest.mark.usefixtures("gradients")
def test_torch_dropout_gives_w_q_a_gradient_with_equal_values(torch, rng, x):
    """PyTorch's layer with dropout gives W_Q a gradient in training, though values are equal.

    Covers: five words; with one key there is none.
    """
    layer, X = torch_layer(rng, dropout=0.5), torch.from_numpy(x)
    layer.in_proj_weight[2 * E :] = 0  # each value is the bias
    assert largest_gradients(layer.train(), X, X, X)[0] > 1e-3
    assert largest_gradients(layer, X, X[:, :1], X[:, :1])[0] < 1e-12
    assert largest_gradients(layer.eval(), X, X, X)[0] < 1e-12
