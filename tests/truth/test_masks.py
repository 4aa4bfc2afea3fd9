"""What libraries do with masks, and with ALiBi."""

from functools import partial

import numpy as np
import pytest
from arrays import (
    D_K,
    N_K,
    N_Q,
    SCORES,
    E,
    H,
    attend,
    attention_of,
    bloom_layer,
    called,
    clip_layer,
    close,
    falcon_layer,
    keras_layer,
    layer_of,
    loaded,
    of_keras,
    openai_whisper_layer,
    sdpa,
)
from numpy.testing import assert_array_equal
from real_layers import in_float64, randomised, transformers

import qkv


def test_torch_multihead_attention_and_scaled_dot_product_attention_read_masks_inversely(
    mha, x, y, rng
):
    """PyTorch `MultiheadAttention` and `scaled_dot_product_attention` read True inversely."""
    mask = rng.random((N_Q, N_K)) < 0.5
    mask[:, 0], mask[:, 1] = True, False
    mh = loaded(mha)
    assert close(called(mha, x, y, y, attn_mask=~mask)[0], mh(x, y, mask=mask))
    assert close(mh.join(sdpa(*mh.project(x, y), attn_mask=mask)), mh(x, y, mask=mask))


def test_torch_adds_a_mask_of_floats_so_zero_allows(mha, x, y, rng):
    """PyTorch adds a mask of floats to the scores, so 0.0 allows, and −∞ hides."""
    added, padding = rng.normal(size=(N_Q, N_K)), np.zeros((1, N_K))
    added[:, 0], added[:, 1], padding[:, 1] = 0, -np.inf, -np.inf
    Q, K, V = loaded(mha).project(x, y)
    scores = Q @ K.swapaxes(-1, -2) / np.sqrt(D_K)
    assert close(sdpa(Q, K, V, attn_mask=added), qkv.softmax(scores + added) @ V)
    for name, mask in ("attn_mask", added), ("key_padding_mask", padding):
        per_head = called(mha, x, y, y, average_attn_weights=False, **{name: mask})[1]
        assert close(per_head, qkv.softmax(scores + mask))


def test_torch_hides_a_key_that_either_of_two_masks_hides(mha, x, y, rng):
    """PyTorch's layer hides a key that `attn_mask` or `key_padding_mask` hides."""
    of_pairs, of_keys = rng.random((N_Q, N_K)) < 0.5, np.zeros((len(y), N_K), dtype=bool)
    of_pairs[:, 0], of_pairs[:, 1], of_keys[:, 1] = False, False, True
    output, _ = called(mha, x, y, y, attn_mask=of_pairs, key_padding_mask=of_keys)
    hidden = of_pairs | of_keys
    assert close(output, loaded(mha)(x, y, mask=~hidden))
    assert not close(output, loaded(mha)(x, y, mask=~of_pairs))


def test_torch_mask_with_three_axes_is_per_head(mha, rng):
    """A mask with three axes for PyTorch's layer is per head; one of sentence and head is refused.

    Covers: four axes, for each sentence and head a mask of queries and keys.
    """
    x, blocked = rng.normal(size=(3, N_Q, E)), np.zeros((3 * H, N_Q, N_Q), dtype=bool)
    with pytest.raises(RuntimeError, match=r"3D attn_mask"):
        called(mha, x, x, x, attn_mask=blocked[:3])
    with pytest.raises(AssertionError, match="4-D"):
        called(mha, x, x, x, attn_mask=blocked.reshape(3, H, N_Q, N_Q))
    blocked[1 * H + 0, :, 4] = True
    _, weights = called(mha, x, x, x, attn_mask=blocked, average_attn_weights=False)
    assert_array_equal(np.argwhere((weights[..., 4] == 0).all(axis=-1)), [[1, 0]])
    by_sentence = np.arange(N_Q) > np.arange(3)[:, None, None] + np.zeros((N_Q, 1))
    on_the_fast_path, _ = called(
        lambda x, **masks: mha(x, x, x, **masks),
        x,
        attn_mask=by_sentence,
        key_padding_mask=np.zeros((3, N_Q), dtype=bool),
    )
    as_stated, _ = called(mha, x, x, x, attn_mask=by_sentence.repeat(H, axis=0))
    assert close(on_the_fast_path, as_stated)


def test_torch_returns_the_mean_of_the_heads_weights(mha, x, y):
    """PyTorch's layer by default returns the mean of the heads' weights."""
    _, mean = called(mha, x, y, y)
    _, per_head = called(mha, x, y, y, average_attn_weights=False)
    assert per_head.shape == (1, H, N_Q, N_K)
    assert close(mean, per_head.mean(axis=1))
    mha.dropout = 0.5
    _, in_training = called(mha.train(), x, y, y, average_attn_weights=False)
    kept = in_training != 0
    assert 0 < kept.sum() < kept.size
    assert close(in_training[kept], 2 * per_head[kept])


def test_torch_answers_a_fully_masked_query_with_nan_or_with_the_output_bias(torch, mha, x):
    """PyTorch answers a fully masked query with NaN or with the output bias."""
    X, blocked = torch.from_numpy(x), torch.zeros((N_Q, N_Q), dtype=torch.bool)
    blocked[1] = True
    of_floats = torch.zeros((N_Q, N_Q), dtype=X.dtype).masked_fill(blocked, float("-inf"))
    bias = mha.out_proj.bias.clone()

    def output(layer=mha, sources=(X, X, X), mask=blocked, need_weights=False):
        made = layer(*sources, attn_mask=mask, need_weights=need_weights)[0]
        return made.detach().reshape(N_Q, E)

    def like(**options):
        layer = torch.nn.MultiheadAttention(E, **options).double().eval()
        layer.load_state_dict(mha.state_dict(), strict=False)
        return layer

    assert output(need_weights=True)[1].isnan().all()
    assert output()[1].isnan().all()  # on the fast path
    with torch.enable_grad():
        trained = output(mha.requires_grad_())
    assert close(trained, loaded(mha)(x, mask=~blocked.numpy())[0])
    turned = [X.transpose(0, 1)] * 3
    for slow in (
        trained,
        output(like(num_heads=H), turned),
        output(like(num_heads=3, batch_first=True)),
        output(sources=(X, X.clone(), X.clone())),
        output(mask=of_floats),
        output(sources=(X[0], X[0], X[0])),
    ):
        assert close(slow[1], bias)
    assert not output(like(num_heads=H, batch_first=True, bias=False))[1].any()


def test_libraries_disagree_about_a_query_that_may_attend_to_nothing(torch, keras, rng, x):
    """Libraries disagree about a query that may attend to nothing."""
    mask, mean = np.ones((1, N_Q, N_Q), dtype=bool), x[0].mean(axis=0)
    mask[0, 1] = False
    assert not sdpa(x, x, x, attn_mask=mask)[0, 1].any()
    assert not qkv.attention(x, x, x, mask=mask)[0, 1].any()

    linen, nnx = pytest.importorskip("flax.linen"), pytest.importorskip("flax.nnx")
    one_head = {"query": x[:, :, None], "key": x[:, :, None], "value": x[:, :, None]}
    with in_float64():
        of = partial(linen.dot_product_attention, **one_head, mask=mask[:, None])
        assert close(of()[0, 1, 0], mean)
        assert np.isnan(of(force_fp32_for_softmax=True)[0, 1, 0]).all()
        of_nnx = nnx.dot_product_attention(**one_head, mask=mask[:, None])
        assert close(of_nnx[0, 1, 0], mean, 1e-6)  # in float32

    for dtype, atol in (("float64", 1e-5), ("float32", 1e-2), ("float16", 1e-2)):
        layer = keras_layer(keras, rng, dtype=dtype)
        mh = loaded(layer, "keras")
        V = mh.project(x.astype(dtype))[2]
        mean = mh.join(V.mean(axis=-2, keepdims=True))[0, 0]
        masked = of_keras(layer, x, x, attention_mask=mask)[0, 1]
        asked, _ = of_keras(layer, x, x, attention_mask=mask, **SCORES)
        half = dtype == "float16"
        assert close(masked, mean, atol) != half
        assert close(masked, of_keras(layer, x, x)[0, 1], 1e-1) == half
        assert close(asked[0, 1], mh.b_O, 1e-12 if dtype == "float64" else atol)
    with_dropout = keras_layer(keras, rng, dropout=0.5)
    output = of_keras(with_dropout, x, x, attention_mask=mask, training=False)
    assert close(output[0, 1], with_dropout.get_weights()[-1], 1e-6)


SLOPES, PLACES, CAUSAL = 2.0 ** -np.array([2, 4, 6, 8]), np.arange(N_Q), np.tri(N_Q, dtype=bool)
BY_KEY = SLOPES[:, None, None] * PLACES


def alibi_weights(scores, times=1):
    """Weights of 4 heads behind a causal mask, with numbers for distances added to the scores."""
    distance = PLACES[:, None] - PLACES
    return qkv.softmax(scores - times * SLOPES[:, None, None] * distance, mask=CAUSAL)


def test_falcon_does_not_rotate_where_it_gets_alibi(torch, rng):
    """Falcon does not rotate where it gets alibi."""
    layer = falcon_layer(rng, multi_query=False, alibi=True, bias=True)
    x = rng.normal(size=(1, N_Q, 12))
    angle = torch.arange(float(N_Q), dtype=float)[None, :, None]
    unturned = loaded(layer, "falcon", h=4)(x)

    def is_unturned(alibi, atol=1e-12, **options):
        output, _ = attend(layer, x, (angle.cos(), angle.sin()), alibi=alibi, **options)
        return close(output, unturned, atol)

    numbers, zeros = rng.normal(size=(4, 1, N_Q)), np.zeros((4, 1, N_Q))
    assert is_unturned(np.ones((1, 4, 1, N_Q)))
    assert is_unturned(numbers)
    assert not is_unturned(None, 1e-3)
    assert not is_unturned(numbers, 1e-3, output_attentions=True)
    layer.config._attn_implementation = "eager"
    assert not is_unturned(numbers, 1e-3)
    assert is_unturned(zeros, 1e-5)  # in float32


def test_bloom_falcon_and_mpt_add_alibi_by_the_position_of_the_key(torch):
    """Bloom, Falcon and MPT add a number for each head and key, and not one for each distance.

    Covers: 4 heads, 5 tokens; Bloom's numbers and Falcon's begin at 0, and MPT's end at 0.
    """
    seen = torch.ones(1, N_Q, dtype=torch.long), 4, torch.float64
    of_bloom, of_falcon = (
        transformers(model).build_alibi_tensor(*seen) for model in ("bloom", "falcon")
    )
    of_mpt = transformers("mpt").build_mpt_alibi_tensor(4, N_Q)
    for added, first in ((of_bloom, 0), (of_falcon, 0), (of_mpt, 1 - N_Q)):
        by_key = added.double().numpy().reshape(4, 1, N_Q)
        assert close(by_key, SLOPES[:, None, None] * (PLACES + first), 1e-2)
        weights = qkv.softmax(np.broadcast_to(by_key, (4, N_Q, N_Q)), mask=CAUSAL)
        assert close(weights, alibi_weights(np.zeros((4, N_Q, N_Q))), 1e-2)


def test_falcon_adds_alibi_before_the_scale(rng):
    """In eager mode Falcon's layer adds alibi before the scale. Bloom and MPT add it after it."""
    x = rng.normal(size=(1, N_Q, 12))
    falcon = falcon_layer(rng, multi_query=False, alibi=True, bias=True)
    falcon.config._attn_implementation = "eager"
    bloom = bloom_layer(rng, hidden_size=12, n_head=4)
    mpt = attention_of("Mpt", rng, d_model=12, n_heads=4)
    given = {"alibi": BY_KEY, "attention_mask": np.where(CAUSAL, 0, -1e30)[None, None]}
    given |= {"output_attentions": True}
    _, of_falcon = called(falcon, x, position_embeddings=None, **given)
    _, of_bloom = called(bloom, x, residual=0 * x, **given)
    _, of_mpt = called(mpt, x, position_bias=BY_KEY, attention_mask=~CAUSAL[None, None])
    parts = qkv.unpack(mpt.state_dict()["Wqkv.weight"], "pytorch", h=4)
    for (Q, K), found, divisor in (
        (loaded(falcon, "falcon", h=4).project(x[0])[:2], of_falcon, 3**0.5),
        (loaded(bloom, "bloom", h=4).project(x[0])[:2], of_bloom, 1),
        ((x[0] @ parts["W_Q"], x[0] @ parts["W_K"]), of_mpt, 1),
    ):
        scores = Q @ K.swapaxes(-1, -2) / 3**0.5
        for other in (1, 3**0.5):
            same = close(found[0], alibi_weights(scores, 1 / other), 1e-5)  # in float32
            assert same == (other == divisor)


@pytest.mark.parametrize(
    ("mode", "asked", "counted"), [("sdpa", False, 1), ("sdpa", True, 2), ("eager", False, 2)]
)
def test_falcon_counts_alibi_twice_in_eager_mode(torch, rng, mode, asked, counted):
    """Falcon's model counts alibi twice in eager mode or if asked for weights, else once."""
    library = transformers("falcon")
    sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 4}
    config = library.FalconConfig(multi_query=False, alibi=True, bias=True, **sizes)
    config._attn_implementation = mode
    model = randomised(library.FalconModel(config), rng)
    layer, tokens, outputs = model.h[0].self_attention, torch.arange(N_Q)[None], []
    layer.register_forward_hook(lambda *call: outputs.append(call[-1][0][0]))
    model(tokens, output_attentions=asked)
    mh = loaded(layer, "falcon", h=4)
    Q, K, V = mh.project(model.h[0].input_layernorm(model.word_embeddings(tokens))[0].numpy())
    for times in (1, 2):
        A = alibi_weights(Q @ K.swapaxes(-1, -2) / 3**0.5, times / 3**0.5)
        assert close(outputs[0], mh.join(A @ V), 1e-5) == (times == counted)  # in float32


def given_by_the_text_model_of_clip(library, torch, implementation):
    """What the model gives its first layer, by name."""
    sizes = {"hidden_size": E, "num_attention_heads": H, "num_hidden_layers": 1, "vocab_size": 11}
    sizes |= {"intermediate_size": 5, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = library.CLIPTextConfig(**sizes, attn_implementation=implementation)
    model, given = library.CLIPTextModel(config).eval(), {}
    [layer] = (part for part in model.modules() if isinstance(part, library.CLIPAttention))
    layer.register_forward_pre_hook(lambda _, __, named: given.update(named), with_kwargs=True)
    model(torch.arange(3, 3 + N_Q)[None])
    return given


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_clip_called_with_its_source_alone_is_not_causal(torch, rng, x, implementation):
    """A layer of CLIP called with its source alone is not causal, even that of the text model."""
    layer = clip_layer(rng)
    layer.config._attn_implementation = implementation
    mh = loaded(layer, "clip")
    assert close(called(layer, x)[0], mh(x), 1e-5)  # eager: in float32
    assert not close(mh(x, mask=CAUSAL), mh(x), 1e-3)
    given = given_by_the_text_model_of_clip(transformers("clip"), torch, implementation)
    assert given["is_causal"]
    if implementation == "sdpa":
        assert given["attention_mask"] is None
        assert close(called(layer, x, is_causal=True)[0], mh(x, mask=CAUSAL))
    else:
        assert_array_equal(given["attention_mask"][0, 0].numpy() == 0, CAUSAL)


@pytest.mark.parametrize("layout", ["gpt2", "llama", "gpt-neox", "phi3", "gpt-bigcode", "falcon"])
def test_layers_given_no_mask_are_causal_with_sdpa_and_not_in_eager_mode(rng, layout):
    """Given no mask, layers of GPT-2, Llama and others are causal with sdpa, not in eager mode.

    Covers: GPT-2, Llama, GPT-NeoX, Phi-3, GPT-BigCode; Falcon, which in eager mode wants a mask.
    """
    layer, given = layer_of(layout, rng)
    h, h_kv = (4, 1) if layout == "falcon" else (H, H)
    x, given = rng.normal(size=(1, N_Q, h * D_K)), given | {"attention_mask": None}
    mh = loaded(layer, layout, h=h, h_kv=h_kv)
    assert close(called(layer, x, **given)[0], mh(x, mask=CAUSAL))
    layer.config._attn_implementation = "eager"
    if layout == "falcon":
        with pytest.raises(TypeError):
            called(layer, x, **given)
    else:
        assert close(called(layer, x, **given)[0], mh(x), 1e-5)  # in float32


def test_torch_a_mask_beside_is_causal_is_read_in_three_ways(torch, mha, rng, x):
    """PyTorch's function applies `attn_mask` and `is_causal=True` together, or raises an error.

    Covers: version 2.13 on a CPU, five words, a mask that hides one key.
    """
    function = torch.nn.functional.scaled_dot_product_attention
    q, k, v = torch.from_numpy(rng.normal(size=(3, 1, H, N_Q, D_K)))
    past = torch.ones(N_Q, N_Q, dtype=torch.bool).tril()
    shown = torch.ones_like(past)
    shown[:, 1] = False
    both = {"attn_mask": shown, "is_causal": True}
    assert close(function(q, k, v, **both), function(q, k, v, attn_mask=shown & past))
    with pytest.raises(RuntimeError, match="Explicit attn_mask should not be set"):
        function(q[0], k[0], v[0], **both)

    words = [torch.from_numpy(x)] * 3
    for weights, trains in (True, True), (True, False), (False, False), (False, True):
        mha.requires_grad_(trains)
        with torch.set_grad_enabled(trains):
            found, _ = mha(*words, attn_mask=~shown, is_causal=True, need_weights=weights)
        expected = past if trains and not weights else shown
        assert close(found.detach(), mha(*words, attn_mask=~expected)[0])


def test_torch_padding_on_the_right_needs_no_mask_beside_a_causal_one(mha, rng, x):
    """With a causal mask, padding on the right changes no word's output, and on the left it does.

    Covers: PyTorch's `nn.MultiheadAttention`, two places of padding.
    """
    padding = rng.normal(size=(1, 2, E))

    def causal(*parts):
        words = np.concatenate(parts, axis=1)
        hidden = ~np.tri(words.shape[1], dtype=bool)
        return called(mha, words, words, words, attn_mask=hidden)[0]

    assert close(causal(x, padding)[:, :N_Q], causal(x))
    assert not close(causal(padding, x)[:, 2:], causal(x), 1e-3)


def test_openai_whisper_takes_a_mask_for_the_causal_one(torch, rng, x):
    """With sdpa and several queries OpenAI's Whisper takes any mask for the causal one."""
    layer = openai_whisper_layer(rng)
    mh, mask = loaded(layer, "openai-whisper"), np.zeros((N_Q, N_Q))
    for last in (0, -np.inf):
        mask[:, -1] = last
        assert close(called(layer, x, mask=mask)[0], mh(x, mask=CAUSAL))
    assert close(called(layer, x)[0], mh(x))
    assert not close(mh(x, mask=mask == 0), mh(x, mask=CAUSAL), 1e-3)
    one, x = x[:, :1], torch.from_numpy(x)
    assert close(called(layer, one, xa=x, mask=mask[:1])[0], mh(one, x.numpy()))
