"""What libraries do with masks, and with ALiBi.

The first line of a test's docstring is the claim. Pages that state it name the test.
"""

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
    close,
    falcon_layer,
    gpt_bigcode_layer,
    keras_layer,
    loaded,
    no_rotation,
    of_keras,
    openai_whisper_layer,
    rotary_layer,
    sdpa,
    torch_layer,
)
from numpy.testing import assert_array_equal
from real_layers import in_float64, randomised, transformers

import qkv


def test_torch_multihead_attention_and_scaled_dot_product_attention_read_masks_inversely(
    torch, mha, x, y, rng
):
    """PyTorch `MultiheadAttention` and `scaled_dot_product_attention` read True in opposite ways.

    In a boolean mask True forbids in nn.MultiheadAttention and allows in the function.
    """
    mask = rng.random((N_Q, N_K)) < 0.5
    mask[:, 0], mask[:, 1] = True, False
    assert close(called(mha, x, y, y, attn_mask=~mask)[0], loaded(mha)(x, y, mask=mask))

    Q, K, V = loaded(mha).project(x, y)
    assert close(sdpa(Q, K, V, attn_mask=mask), qkv.attention(Q, K, V, mask=mask))


def test_torch_adds_a_mask_of_floats_so_zero_allows(torch, mha, x, y, rng):
    """PyTorch adds a mask of floats to the scores, so 0.0 allows, and −∞ hides.

    So do attn_mask and key_padding_mask of nn.MultiheadAttention, and attn_mask of
    scaled_dot_product_attention.
    """
    added = rng.normal(size=(N_Q, N_K))
    added[:, 0], added[:, 1] = 0, -np.inf
    Q, K, V = loaded(mha).project(x, y)
    scores = Q @ K.swapaxes(-1, -2) / np.sqrt(D_K)

    per_head = called(mha, x, y, y, attn_mask=added, average_attn_weights=False)[1]
    assert close(per_head, qkv.softmax(scores + added))
    assert close(sdpa(Q, K, V, attn_mask=added), qkv.softmax(scores + added) @ V)

    padding = np.where(np.arange(N_K) == 1, -np.inf, 0.0)
    of_keys = np.broadcast_to(padding, (len(y), N_K)).copy()
    per_head = called(mha, x, y, y, key_padding_mask=of_keys, average_attn_weights=False)[1]
    assert close(per_head, qkv.softmax(scores + padding))


def test_torch_hides_a_key_that_either_of_two_masks_hides(mha, x, y, rng):
    """PyTorch's layer hides a key that `attn_mask` or `key_padding_mask` hides.

    Both are masks of True and False, and True hides in both.
    """
    of_pairs, of_keys = rng.random((N_Q, N_K)) < 0.5, np.zeros((len(y), N_K), dtype=bool)
    of_pairs[:, 0], of_pairs[:, 1], of_keys[:, 1] = False, False, True
    output, _ = called(mha, x, y, y, attn_mask=of_pairs, key_padding_mask=of_keys)
    hidden = of_pairs | of_keys
    assert close(output, loaded(mha)(x, y, mask=~hidden))
    assert not close(output, loaded(mha)(x, y, mask=~of_pairs))


def test_torch_mask_with_three_axes_is_per_head(mha, rng):
    """A mask with three axes for PyTorch's layer is per head.

    Its first axis is batch·h with the heads of one sentence together, not the batch.
    """
    batch = 3
    x = rng.normal(size=(batch, N_Q, E))
    per_sentence = np.zeros((batch, N_Q, N_Q), dtype=bool)
    with pytest.raises(RuntimeError, match=r"3D attn_mask"):
        called(mha, x, x, x, attn_mask=per_sentence)

    blocked = np.zeros((batch * H, N_Q, N_Q), dtype=bool)
    blocked[1 * H + 0, :, 4] = True
    _, weights = called(mha, x, x, x, attn_mask=blocked, average_attn_weights=False)
    assert_array_equal(np.argwhere((weights[..., 4] == 0).all(axis=-1)), [[1, 0]])


def test_torch_returns_the_mean_of_the_heads_weights(mha, x, y):
    """PyTorch's layer by default returns the mean of the heads' weights.

    Weights per head have to be asked for: average_attn_weights=False.
    """
    _, mean = called(mha, x, y, y)
    _, per_head = called(mha, x, y, y, average_attn_weights=False)
    assert mean.shape == (1, N_Q, N_K)
    assert per_head.shape == (1, H, N_Q, N_K)
    assert close(mean, per_head.mean(axis=1))
    mha.dropout = 0.5
    _, in_training = called(mha.train(), x, y, y, average_attn_weights=False)
    kept = in_training != 0
    assert 0 < kept.sum() < kept.size
    assert close(in_training[kept], 2 * per_head[kept])


def test_torch_answers_a_fully_masked_query_with_nan_or_with_the_output_bias(torch, mha, x):
    """PyTorch answers a fully masked query with NaN or with the output bias.

    NaN where weights are asked for and on the fast path of inference, b_O otherwise. The fast path
    takes neither batch_first=False nor an odd number of heads nor another source of keys, no mask
    of floats, no source without batch, no layer without biases. Such a layer gives zeros.
    """
    mha.requires_grad_()
    X = torch.from_numpy(x)
    blocked = torch.zeros((N_Q, N_Q), dtype=torch.bool)
    blocked[1] = True
    with_weights, _ = mha(X, X, X, attn_mask=blocked)
    without, _ = mha(X, X, X, attn_mask=blocked, need_weights=False)
    with torch.no_grad():
        fast, _ = mha(X, X, X, attn_mask=blocked, need_weights=False)
    assert with_weights[0, 1].isnan().all()
    assert fast[0, 1].isnan().all()
    assert close(without.detach()[0, 1], mha.out_proj.bias.detach())
    assert close(without.detach(), loaded(mha)(x, mask=~blocked.numpy()))

    tokens_first = torch.nn.MultiheadAttention(E, H).double().eval()
    odd = torch.nn.MultiheadAttention(E, 3, batch_first=True).double().eval()
    for layer, keys in ((tokens_first, X), (odd, X), (mha, X.clone())):
        layer.load_state_dict(mha.state_dict())
        sources = (X, keys, keys)
        if layer is tokens_first:
            sources = [source.transpose(0, 1) for source in sources]
        with torch.no_grad():
            slow, _ = layer(*sources, attn_mask=blocked, need_weights=False)
        assert close(slow.reshape(N_Q, E)[1], mha.out_proj.bias.detach())

    of_floats = torch.zeros((N_Q, N_Q), dtype=X.dtype).masked_fill(blocked, float("-inf"))
    for source, mask in ((X, of_floats), (X[0], blocked)):
        with torch.no_grad():
            slow, _ = mha(source, source, source, attn_mask=mask, need_weights=False)
        assert close(slow.reshape(N_Q, E)[1], mha.out_proj.bias.detach())
    unbiased = torch.nn.MultiheadAttention(E, H, bias=False, batch_first=True).double().eval()
    with torch.no_grad():
        output, _ = unbiased(X, X, X, attn_mask=blocked, need_weights=False)
    assert_array_equal(output[0, 1], 0)


def test_libraries_disagree_about_a_query_that_may_attend_to_nothing(torch, keras, rng, x):
    """Libraries disagree about a query that may attend to nothing.

    scaled_dot_product_attention gives zeros, Flax a mean of all values, Keras three answers. Linen
    in float64 with its softmax in float32 gives NaN.
    """
    mask = np.ones((1, N_Q, N_Q), dtype=bool)
    mask[0, 1] = False
    assert_array_equal(sdpa(x, x, x, attn_mask=mask)[0, 1], 0)
    assert_array_equal(qkv.attention(x, x, x, mask=mask)[0, 1], 0)

    linen, nnx = pytest.importorskip("flax.linen"), pytest.importorskip("flax.nnx")
    with in_float64():
        one_head = 3 * [x[:, :, None]]
        of_flax, by_float32, by_nnx = (
            attention(*one_head, mask=mask[:, None], **options)[0, 1, 0]
            for attention, options in (
                (linen.dot_product_attention, {}),
                (linen.dot_product_attention, {"force_fp32_for_softmax": True}),
                (nnx.dot_product_attention, {}),
            )
        )
    assert close(of_flax, x[0].mean(axis=0))
    assert np.isnan(by_float32).all()
    assert close(by_nnx, x[0].mean(axis=0), 1e-6)  # in float32

    for dtype, atol in (("float64", 1e-5), ("float32", 1e-2), ("float16", 1e-2)):
        layer = keras_layer(keras, rng, dtype=dtype)
        mh = loaded(layer, "keras")
        _, _, V = mh.project(x.astype(dtype))
        mean = (V.mean(axis=-2, keepdims=True) @ mh.W_O).sum(axis=1)[0, 0] + mh.b_O
        masked = of_keras(layer, x, x, attention_mask=mask)[0, 1]
        asked, _ = of_keras(layer, x, x, attention_mask=mask, **SCORES)
        half = dtype == "float16"
        assert close(masked, mean, atol) != half
        assert close(masked, of_keras(layer, x, x)[0, 1], 1e-1) == half
        assert close(asked[0, 1], mh.b_O, 1e-12 if dtype == "float64" else atol)
    with_dropout = keras_layer(keras, rng, dropout=0.5)
    output = of_keras(with_dropout, x, x, attention_mask=mask, training=False)
    assert close(output[0, 1], with_dropout.get_weights()[-1], 1e-6)


def test_falcon_does_not_rotate_where_it_gets_alibi(torch, rng):
    """Falcon does not rotate where it gets alibi.

    With sdpa the layer does not read the numbers of alibi, unless it is asked for its weights. In
    eager mode it adds them to the scores.
    """
    layer = falcon_layer(rng, multi_query=False, alibi=True, bias=True)
    x = rng.normal(size=(1, N_Q, 12))
    angle = torch.arange(float(N_Q), dtype=float)[None, :, None]
    angles, numbers = (angle.cos(), angle.sin()), rng.normal(size=(4, 1, N_Q))
    unturned = loaded(layer, "falcon", h=4)(x)
    for alibi in np.ones((1, 4, 1, N_Q)), numbers:
        assert close(attend(layer, x, angles, alibi=alibi)[0], unturned)
    assert not close(attend(layer, x, angles, alibi=None)[0], unturned, 1e-3)
    asked, _ = attend(layer, x, angles, alibi=numbers, output_attentions=True)
    assert not close(asked, unturned, 1e-3)
    layer.config._attn_implementation = "eager"
    assert not close(attend(layer, x, angles, alibi=numbers)[0], unturned, 1e-3)
    nothing = attend(layer, x, angles, alibi=np.zeros((4, 1, N_Q)))[0]
    assert close(nothing, unturned, 1e-5)  # in float32


def test_bloom_falcon_and_mpt_add_alibi_by_the_position_of_the_key(torch):
    """Bloom, Falcon and MPT add a number for each head and key, and not one for each distance.

    The numbers grow by the slope from key to key, so scores at distance 0 get them too. The softmax
    of the numbers behind a causal mask is that of −slope · distance.

    Covers: 4 heads, 5 tokens; Bloom's numbers and Falcon's begin at 0, and MPT's end at 0.
    """
    heads, n = 4, 5
    seen = torch.ones(1, n, dtype=torch.long)
    of_bloom = transformers("bloom").build_alibi_tensor(seen, heads, torch.float64)
    of_falcon = transformers("falcon").build_alibi_tensor(seen, heads, torch.float64)
    of_mpt = transformers("mpt").build_mpt_alibi_tensor(heads, n)
    slopes = 2.0 ** -np.array([2, 4, 6, 8])
    keys = np.arange(n)
    by_distance = -slopes[:, None, None] * (keys[:, None] - keys)
    causal = np.tri(n, dtype=bool)
    for added, first in ((of_bloom, 0), (of_falcon, 0), (of_mpt, 1 - n)):
        by_key = added.double().numpy().reshape(heads, 1, n)
        assert close(by_key[:, 0], slopes[:, None] * (keys + first), 1e-2)
        weights = qkv.softmax(np.broadcast_to(by_key, (heads, n, n)), mask=causal)
        assert close(weights, qkv.softmax(by_distance, mask=causal), 1e-2)


def test_falcon_adds_alibi_before_the_scale(rng):
    """In eager mode Falcon's layer adds alibi before the scale. Bloom and MPT add it after it.

    So behind a plain causal mask the weights of Falcon's layer are those of
    −slope · distance / √d_k.
    """
    h, d_k = 4, 3
    slopes = 2.0 ** -np.array([2, 4, 6, 8])
    by_key = slopes[:, None, None] * np.arange(N_Q)
    distance = np.arange(N_Q)[:, None] - np.arange(N_Q)
    causal = np.tri(N_Q, dtype=bool)
    x = rng.normal(size=(1, N_Q, h * d_k))

    falcon = falcon_layer(rng, multi_query=False, alibi=True, bias=True)
    falcon.config._attn_implementation = "eager"
    bloom = bloom_layer(rng, hidden_size=h * d_k, n_head=h)
    mpt = attention_of("Mpt", rng, d_model=h * d_k, n_heads=h)
    hidden = np.where(causal, 0, -1e30)[None, None]
    given = {"alibi": by_key, "attention_mask": hidden}
    _, of_falcon = called(falcon, x, position_embeddings=None, output_attentions=True, **given)
    _, of_bloom = called(bloom, x, residual=0 * x, output_attentions=True, **given)
    _, of_mpt = called(mpt, x, position_bias=by_key, attention_mask=~causal[None, None])

    parts = qkv.unpack(mpt.state_dict()["Wqkv.weight"], "pytorch", h=h)
    for Q_and_K, found, its_divisor in (
        (loaded(falcon, "falcon", h=h).project(x[0])[:2], of_falcon, d_k**0.5),
        (loaded(bloom, "bloom", h=h).project(x[0])[:2], of_bloom, 1),
        ((x[0] @ parts["W_Q"], x[0] @ parts["W_K"]), of_mpt, 1),
    ):
        Q, K = Q_and_K
        for divisor in (1, d_k**0.5):
            added = slopes[:, None, None] * distance / divisor
            expected = qkv.softmax(Q @ K.swapaxes(-1, -2) / d_k**0.5 - added, mask=causal)
            same = close(found[0], expected, 1e-5)  # in float32
            assert same == (divisor == its_divisor)


def test_falcon_counts_alibi_twice_in_eager_mode(torch, rng):
    """In eager mode Falcon's model counts the numbers of alibi twice, and with sdpa once.

    The model puts them over √d_k into the mask, and in eager mode the layer adds them before the
    scale, too. With sdpa it does so if it is asked for its weights.
    """
    h, d_k = 4, 3
    library = transformers("falcon")
    sizes = {"hidden_size": h * d_k, "num_hidden_layers": 1, "num_attention_heads": h}
    config = library.FalconConfig(multi_query=False, alibi=True, bias=True, **sizes)
    model = randomised(library.FalconModel(config), rng).eval()
    layer, tokens = model.h[0].self_attention, torch.arange(N_Q)[None]
    mh = loaded(layer, "falcon", h=h)
    x = model.h[0].input_layernorm(model.word_embeddings(tokens))[0].numpy()
    Q, K, V = mh.project(x)
    scores = Q @ K.swapaxes(-1, -2) / d_k**0.5
    slopes = 2.0 ** -np.array([2, 4, 6, 8])
    distance = np.arange(N_Q)[:, None] - np.arange(N_Q)

    outputs = []
    layer.register_forward_hook(lambda *call: outputs.append(call[-1][0][0].numpy()))
    for mode, asked, counted in (("sdpa", False, 1), ("sdpa", True, 2), ("eager", False, 2)):
        config._attn_implementation = mode
        model(tokens, output_attentions=asked)
        for times in (1, 2):
            by_distance = scores - times * slopes[:, None, None] * distance / d_k**0.5
            A = qkv.softmax(by_distance, mask=np.tri(N_Q, dtype=bool))
            expected = (A @ V @ mh.W_O).sum(axis=0) + mh.b_O
            same = close(outputs[-1], expected, 1e-5)  # in float32
            assert same == (times == counted), (mode, asked)


def given_by_the_text_model_of_clip(library, torch, implementation, words=N_Q):
    """What the model gives its first layer, by name, for a sentence that is then filled up."""
    config = library.CLIPTextConfig(
        hidden_size=E,
        num_attention_heads=H,
        num_hidden_layers=1,
        intermediate_size=5,
        vocab_size=11,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        attn_implementation=implementation,
    )
    model, given = library.CLIPTextModel(config).eval(), {}
    [layer] = (part for part in model.modules() if isinstance(part, library.CLIPAttention))
    layer.register_forward_pre_hook(lambda _, __, named: given.update(named), with_kwargs=True)
    tokens = torch.arange(N_Q)[None]
    model(tokens + 3, attention_mask=(tokens < words).long())
    return given


def test_clip_called_with_its_source_alone_is_not_causal(torch, rng, x):
    """A layer of CLIP called with its source alone is not causal, not even that of the text model.

    The text model passes its layers a causal mask in eager mode, and is_causal=True with sdpa. With
    sdpa a layer that gets it, and no mask, is causal. For a sentence with padding sdpa gets a mask.
    """
    library = transformers("clip")
    for implementation in ("sdpa", "eager"):
        config = library.CLIPTextConfig(
            hidden_size=E, num_attention_heads=H, attn_implementation=implementation
        )
        layer = randomised(library.CLIPAttention(config), rng)
        mh = loaded(layer, "clip")
        assert close(called(layer, x)[0], mh(x), 1e-5)  # eager: in float32
        causal = mh(x, mask=np.tri(N_Q, dtype=bool))
        assert not close(causal, mh(x), 1e-3)
        if implementation == "sdpa":
            assert close(called(layer, x, is_causal=True)[0], causal)

        given = given_by_the_text_model_of_clip(library, torch, implementation)
        assert given["is_causal"]
        if implementation == "sdpa":
            assert given["attention_mask"] is None
            padded = given_by_the_text_model_of_clip(library, torch, implementation, words=2)
            allowed = np.tri(N_Q, dtype=bool) & (np.arange(N_Q) < 2)
            assert_array_equal(padded["attention_mask"][0, 0].numpy(), allowed)
        else:
            assert_array_equal(given["attention_mask"][0, 0].numpy() == 0, np.tri(N_Q, dtype=bool))


def test_gpt2_given_no_mask_is_causal_in_one_implementation_and_not_in_the_other(rng, x):
    """GPT-2 given no mask is causal in one implementation and not in the other.

    With sdpa the layer hides later tokens by itself; in eager mode the model has to.
    """
    for implementation, mask in (("sdpa", np.tri(N_Q, dtype=bool)), ("eager", None)):
        layer = attention_of("GPT2", rng, n_embd=E, n_head=H, attn_implementation=implementation)
        assert close(called(layer, x)[0], loaded(layer, "gpt2")(x, mask=mask))


def test_llama_and_gpt_neox_given_no_mask_are_causal_with_sdpa_and_not_in_eager_mode(rng, x):
    """Llama and GPT-NeoX given no mask are causal with sdpa, and not in eager mode.

    In eager mode the model has to pass the causal mask.
    """
    for implementation, mask in (("sdpa", np.tri(N_Q, dtype=bool)), ("eager", None)):
        made = {"head_dim": D_K, "attn_implementation": implementation}
        for layout, model in (("llama", "Llama"), ("gpt-neox", "GPTNeoX")):
            layer = rotary_layer(model, rng, **made)
            output, _ = called(layer, x, position_embeddings=no_rotation(), attention_mask=None)
            assert close(output, loaded(layer, layout)(x, mask=mask), 1e-5)  # eager: in float32


def test_phi3_gpt_bigcode_and_falcon_given_no_mask_are_causal_with_sdpa(rng, x):
    """Phi-3, GPT-BigCode and Falcon given no mask are causal with sdpa.

    In eager mode Phi-3 and GPT-BigCode are not, and Falcon refuses to compute.
    """
    unturned = {"position_embeddings": no_rotation()}
    cases = (
        (rotary_layer("Phi3", rng, pad_token_id=0), x, "phi3", H, unturned),
        (gpt_bigcode_layer(rng, multi_query=False), x, "gpt-bigcode", H, {}),
        (falcon_layer(rng), rng.normal(size=(1, N_Q, 12)), "falcon", 4, {"alibi": None} | unturned),
    )
    for layer, source, layout, h, given in cases:
        h_kv = {"h_kv": 1} if layout == "falcon" else {}
        mh, given = loaded(layer, layout, h=h, **h_kv), given | {"attention_mask": None}
        output = called(layer, source, **given)[0]
        assert close(output, mh(source, mask=np.tri(N_Q, dtype=bool)))
        layer.config._attn_implementation = "eager"
        if layout == "falcon":
            with pytest.raises(TypeError):
                called(layer, source, **given)
        else:
            assert close(called(layer, source, **given)[0], mh(source), 1e-5)  # in float32


def test_torch_a_mask_beside_is_causal_is_read_in_three_ways(torch, rng, x):
    """PyTorch's function applies `attn_mask` and `is_causal=True` together, or raises an error.

    Where a fused kernel runs, as on a CPU with four axes, both hide. Its plain form raises a
    RuntimeError. `nn.MultiheadAttention` takes `attn_mask` alone; but if it returns no weights,
    and its parameters get gradients, the causal mask alone.

    Covers: version 2.13 on a CPU, five words, a mask that hides one key.
    """
    function = torch.nn.functional.scaled_dot_product_attention
    q, k, v = torch.from_numpy(rng.normal(size=(3, 1, H, 5, D_K)))
    shown = torch.ones(5, 5, dtype=torch.bool)
    shown[:, 1] = False
    past = torch.ones(5, 5, dtype=torch.bool).tril()
    both = {"attn_mask": shown, "is_causal": True}
    assert close(function(q, k, v, **both), function(q, k, v, attn_mask=shown & past))
    with pytest.raises(RuntimeError, match="Explicit attn_mask should not be set"):
        function(q[0], k[0], v[0], **both)

    layer, words = torch_layer(rng), torch.from_numpy(x)
    past = torch.ones(N_Q, N_Q, dtype=torch.bool).tril()
    shown = torch.ones_like(past)
    shown[:, 1] = False
    masks = {"attn_mask": ~shown, "is_causal": True}
    for weights, trains, expected in (
        (True, True, shown),
        (True, False, shown),
        (False, False, shown),
        (False, True, past),
    ):
        layer.requires_grad_(trains)
        found, _ = layer(words, words, words, **masks, need_weights=weights)
        with torch.no_grad():
            assert close(found.detach(), layer(words, words, words, attn_mask=~expected)[0])


def test_torch_padding_on_the_right_needs_no_mask_beside_a_causal_one(torch, rng, x):
    """With a causal mask, padding on the right changes no word's output, and on the left it does.

    Covers: PyTorch's `nn.MultiheadAttention`, two places of padding.
    """
    layer, words = torch_layer(rng), torch.from_numpy(x)
    padding = torch.from_numpy(rng.normal(size=(len(x), 2, E)))

    def causal(words):
        n = words.shape[1]
        return layer(words, words, words, attn_mask=~torch.ones(n, n, dtype=torch.bool).tril())[0]

    alone = causal(words)
    assert close(causal(torch.cat([words, padding], 1))[:, :N_Q], alone)
    assert not close(causal(torch.cat([padding, words], 1))[:, 2:], alone, 1e-3)


def test_decoders_of_bert_t5_and_whisper_given_no_mask_are_causal_with_sdpa(torch, rng, x):
    """Layers of BERT, T5 and Whisper made for a decoder, given no mask, are causal with sdpa.

    They are made with is_causal=True, and their weights do not show it.
    """
    made = {"is_causal": True, "layer_idx": 0}
    library = transformers("t5")
    sizes = {"d_model": E, "num_heads": H, "d_kv": D_K}
    config = library.T5Config(**sizes, is_decoder=True, attn_implementation="sdpa")
    t5 = library.T5Attention(config, **made)
    library = transformers("whisper")
    config = library.WhisperConfig(attn_implementation="sdpa")
    whisper = library.WhisperAttention(E, H, is_decoder=True, config=config, **made)
    for layout, layer in (("t5", t5), ("whisper", whisper)):
        mh = loaded(randomised(layer, rng), layout)
        assert close(called(layer, x)[0], mh(x, mask=np.tri(N_Q, dtype=bool)))
        assert not close(called(layer, x)[0], mh(x))

    library = transformers("bert")
    config = library.BertConfig(
        hidden_size=E, num_attention_heads=H, attn_implementation="sdpa", is_decoder=True
    )
    bert = randomised(library.BertAttention(config, **made), rng)
    mh = loaded(bert, "bert")
    heads, _ = called(bert.self, x)  # what follows the output map is not attention
    output = bert.output.dense(torch.from_numpy(heads))
    assert close(output, mh(x, mask=np.tri(N_Q, dtype=bool)))
    assert not close(output, mh(x))


def test_openai_whisper_takes_a_mask_for_the_causal_one(torch, rng, x):
    """OpenAI's Whisper with sdpa takes a mask for the causal one, and does not read its numbers.

    A mask that hides the last token does not hide it. One query alone attends to all keys.
    """
    layer = openai_whisper_layer(rng)
    mh = loaded(layer, "openai-whisper")
    hides_the_last = np.zeros((N_Q, N_Q))
    hides_the_last[:, -1] = -np.inf
    causal = mh(x, mask=np.tri(N_Q, dtype=bool))
    for mask in (hides_the_last, np.zeros((N_Q, N_Q))):
        assert close(called(layer, x, mask=mask)[0], causal)
    assert close(called(layer, x)[0], mh(x))
    assert not close(mh(x, mask=hides_the_last == 0), causal, 1e-3)
    one, hides = x[:, :1], np.full((1, N_Q), -np.inf)
    hides[0, 0] = 0
    assert close(called(layer, one, xa=torch.from_numpy(x), mask=hides)[0], mh(one, x))
