"""What the layers of vit-pytorch, timm, diffusers and OpenAI's Whisper do.

The first line of a test's docstring is the claim. Pages that state it name the test.
"""

import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from arrays import D_K, N_Q, E, H, called, close, diffusers_layer, loaded, openai_whisper_layer
from real_layers import (
    alone,
    openai_whisper_code,
    randomised,
    timm_code,
    transformers,
    vit_pytorch_code,
)

import qkv


def vit_attention(rng, **options):
    """vit-pytorch's Attention with random weights, the norm's too."""
    return randomised(vit_pytorch_code().Attention(E, **options), rng)


def test_vit_pytorch_normalises_what_it_receives(torch, rng, x):
    """`vit-pytorch` normalises what it receives, so the source of its maps is norm(x).

    The norm is a part of the module, and stands before to_qkv.
    """
    layer = vit_attention(rng, heads=H, dim_head=D_K)
    mh = loaded(layer, "vit-pytorch")
    output = called(layer, x)
    assert close(output, mh(called(layer.norm, x)))
    assert not close(output, mh(x), 1e-3)


def test_cait_of_vit_pytorch_mixes_heads_after_the_softmax(torch, rng, x):
    """CaiT of `vit-pytorch` mixes the heads' weights after the softmax, so some are negative.

    What is multiplied with the values does not sum to 1. The scores are mixed before it, too.
    """
    layer = randomised(alone("vit_pytorch.cait").Attention(E, heads=H, dim_head=D_K), rng)
    source = layer.norm(torch.from_numpy(x))
    q, k, v = (
        made.reshape(N_Q, H, D_K).transpose(0, 1)
        for made in (layer.to_q(source), *layer.to_kv(source).chunk(2, dim=-1))
    )
    before, after = layer.mix_heads_pre_attn, layer.mix_heads_post_attn
    scores = torch.einsum("hij,hg->gij", q @ k.mT / D_K**0.5, before)
    weights = torch.einsum("hij,hg->gij", scores.softmax(dim=-1), after)
    joined = (weights @ v).transpose(0, 1).reshape(1, N_Q, H * D_K)
    assert close(called(layer, x), layer.to_out(joined))
    assert weights.min() < 0
    assert not close(weights.sum(dim=-1), 1, 0.1)


def test_vit_pytorch_one_head_as_wide_as_the_token_has_no_output_map(torch, rng, x):
    """In `vit-pytorch` one head as wide as the token has no output map.

    What it returns is the head itself. Two heads, or a head of another width, have one.
    """
    layer = vit_attention(rng, heads=1, dim_head=E)
    assert not any(name.startswith("to_out") for name in layer.state_dict())
    source = layer.norm(torch.from_numpy(x))
    Q, K, V = (part.numpy() for part in layer.to_qkv(source).chunk(3, dim=-1))
    assert close(called(layer, x), qkv.attention(Q, K, V))
    for heads, dim_head in ((H, D_K), (1, D_K)):
        stored = vit_attention(rng, heads=heads, dim_head=dim_head).state_dict()
        assert stored["to_out.0.weight"].shape == (E, heads * dim_head)


def test_vit_pytorch_heads_are_64_wide_whatever_dim_is(rng):
    """In `vit-pytorch` heads are 64 wide unless told otherwise; dim does not set their width.

    `dim_head` is the width of one head, and heads need not fill dim.
    """
    assert vit_attention(rng).to_qkv.weight.shape == (3 * 8 * 64, E)
    assert vit_attention(rng, heads=H, dim_head=5).to_qkv.weight.shape == (3 * H * 5, E)


def test_siglip_probe_takes_w_q_into_itself(torch, rng, x):
    """SigLIP's pooling head in Transformers gives the same output with its probe folded into W_Q.

    The probe becomes its projected queries, W_Q the identity, and the bias of the queries zero.
    """
    library = transformers("siglip")
    config = library.SiglipVisionConfig(
        hidden_size=E, num_attention_heads=H, intermediate_size=11, num_hidden_layers=1
    )
    head = randomised(library.SiglipMultiheadAttentionPoolingHead(config), rng)
    before = called(head, x)[0]
    W, b = head.attention.in_proj_weight, head.attention.in_proj_bias
    head.probe.copy_(head.probe @ W[:E].T + b[:E])
    W[:E], b[:E] = torch.eye(E, dtype=W.dtype), 0
    assert close(called(head, x)[0], before)


def test_timm_norm_stands_between_the_heads_and_the_output_map(torch, rng, x):
    """In timm with scale_norm=True, `norm` normalises the joined heads before the output map.

    `qkv.load` refuses it.
    """
    library = timm_code()
    layer = library.Attention(E, H, scale_norm=True, norm_layer=torch.nn.LayerNorm)
    state = randomised(layer, rng).state_dict()
    with pytest.raises(ValueError, match=r"norm.weight.*between the heads and the output map"):
        qkv.load(state, "timm", h=H)
    maps = {name: array for name, array in state.items() if not name.startswith("norm.")}
    mh = qkv.load(maps, "timm", h=H)
    heads = replace(mh, W_O=np.eye(E).reshape(H, D_K, E), b_O=None)(x)
    expected = layer.proj(layer.norm(torch.from_numpy(heads))).numpy()
    real = called(layer, x)
    assert close(real, expected)
    assert not close(real, mh(x), 1e-3)


def test_timm_has_no_qkv_bias_unless_asked_for():
    """In timm Attention has no bias of queries, keys and values unless asked for.

    The output map has one.
    """
    library = timm_code()
    assert [*library.Attention(E, H).state_dict()] == ["qkv.weight", "proj.weight", "proj.bias"]
    assert "qkv.bias" in library.Attention(E, H, qkv_bias=True).state_dict()


def test_timm_qk_norm_without_weights_loads_and_changes_the_output(torch, rng, x):
    """In timm a norm of queries and keys without weights loads, and changes the output.

    With qk_norm=True the names of the weights are the same then.
    """
    library = timm_code()
    norm = partial(torch.nn.LayerNorm, elementwise_affine=False)
    layer = randomised(library.Attention(E, H, qk_norm=True, norm_layer=norm), rng)
    plain = randomised(library.Attention(E, H), rng)
    plain.load_state_dict(layer.state_dict())
    mh = loaded(layer, "timm")
    assert close(called(plain, x), mh(x))
    assert not close(called(layer, x), mh(x), 1e-3)


def test_timm_latent_query_takes_its_projection_into_itself(torch, rng, x, monkeypatch):
    """`AttentionPoolLatent` of timm without `q_proj` gives the same output from a folded latent.

    `scaled_dot_product_attention` gets this latent as its query, cut into heads.
    """
    AttentionPoolLatent = timm_code("attention_pool").AttentionPoolLatent
    sizes = {"in_features": E, "num_heads": H, "latent_len": 3, "pool_type": ""}
    whole = randomised(AttentionPoolLatent(**sizes), rng)
    folded = AttentionPoolLatent(**sizes, q_proj=False).to(torch.float64).eval()
    weights = whole.state_dict()
    weights["latent"] = whole.q(whole.latent)
    del weights["q.weight"], weights["q.bias"]
    folded.load_state_dict(weights)
    assert folded.latent.shape == whole.latent.shape
    output, queries = called(whole, x)[0], []
    attend = torch.nn.functional.scaled_dot_product_attention

    def seen(q, k, v, **options):
        queries.append(q)
        return attend(q, k, v, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", seen)
    assert close(called(folded, x)[0], output)
    (query,) = queries
    assert torch.equal(query[0].transpose(0, 1).flatten(1), folded.latent[0])


def test_diffusers_may_add_the_source_and_divide(torch, rng, x):
    """In diffusers Attention may add the source to its output, and divide.

    residual_connection adds, and rescale_output_factor divides the sum, or the output alone. No
    weight shows them.
    """
    for adds in (True, False):
        options = {"residual_connection": adds, "rescale_output_factor": 2.0}
        layer = diffusers_layer(rng, dim_head=D_K, **options)
        mh = loaded(layer, "diffusers")
        real = called(layer, x)
        assert close(real, (mh(x) + adds * x) / 2)


def test_diffusers_with_pre_only_has_no_output_map(rng):
    """In diffusers Attention made with pre_only=True has no output map, and is refused."""
    stored = diffusers_layer(rng, dim_head=D_K, pre_only=True).state_dict()
    assert not any(name.startswith("to_out") for name in stored)
    with pytest.raises(ValueError, match="to_out"):
        qkv.load(stored, "diffusers", h=H)


def test_diffusers_with_added_kv_proj_dim_holds_second_matrices(rng):
    """In diffusers a layer made with added_kv_proj_dim holds second matrices of keys and values.

    With context_pre_only True or False it holds one of queries too, and with False one for the
    output. With only_cross_attention=True it holds no first ones of keys and values.
    """
    first, keys, values = {"to_q", "to_out.0"}, {"to_k", "add_k_proj"}, {"to_v", "add_v_proj"}
    second = {None: set(), True: {"add_q_proj"}, False: {"add_q_proj", "to_add_out"}}
    for context, more in second.items():
        options = {"added_kv_proj_dim": 12, "context_pre_only": context}
        for cross in (False, True):
            layer = diffusers_layer(rng, only_cross_attention=cross, **options)
            stored = {name.removesuffix(".weight") for name in layer.state_dict()}
            stored -= {f"{name}.bias" for name in ("to_out.0", "to_add_out")}
            stored -= {f"add_{letter}_proj.bias" for letter in "qkv"}
            assert stored == (first | keys | values | more) - ({"to_k", "to_v"} if cross else set())


def test_diffusers_unets_take_the_number_of_heads_as_attention_head_dim():
    """In UNet2DConditionModel `attention_head_dim` is the number of heads of CrossAttnDownBlock2D.

    In UNet2DModel, of diffusers too, it is the width of one head.
    """
    library = pytest.importorskip("diffusers")
    sizes = {"layers_per_block": 1, "attention_head_dim": 4, "norm_num_groups": 8}
    model = library.UNet2DConditionModel(
        block_out_channels=(32,),
        down_block_types=("CrossAttnDownBlock2D",),
        up_block_types=("CrossAttnUpBlock2D",),
        cross_attention_dim=E,
        **sizes,
    )
    layer = model.down_blocks[0].attentions[0].transformer_blocks[0].attn1
    assert layer.heads == 4
    assert layer.to_q.weight.shape == (32, 32)

    model = library.UNet2DModel(
        block_out_channels=(32,),
        down_block_types=("AttnDownBlock2D",),
        up_block_types=("AttnUpBlock2D",),
        **sizes,
    )
    layer = model.down_blocks[0].attentions[0]
    assert layer.heads == 32 // 4
    assert layer.to_q.weight.shape == (32, 32)


def test_diffusers_heads_are_64_wide_unless_told_otherwise(rng):
    """In diffusers heads are 64 wide unless told otherwise.

    query_dim does not set their width.
    """
    assert diffusers_layer(rng).to_q.weight.shape == (H * 64, E)
    assert diffusers_layer(rng, dim_head=5).to_q.weight.shape == (H * 5, E)


def test_keras_and_diffusers_have_classes_with_fewer_heads_of_keys(torch, keras, rng, x):
    """Keras and diffusers have classes that hold fewer heads of keys and values than of queries.

    They are Keras' GroupQueryAttention, and diffusers' Attention made with kv_heads and a processor
    that computes them. qkv.load refuses both.
    """
    grouped = keras.layers.GroupQueryAttention(D_K, 4, 2)
    assert grouped(x, x).shape == x.shape
    shapes = {weight.path.partition("/")[2]: weight.shape for weight in grouped.weights}
    assert shapes["query/kernel"] == (E, 4, D_K)
    assert shapes["key/kernel"] == shapes["value/kernel"] == (E, 2, D_K)
    with pytest.raises(ValueError, match="as many heads"):
        qkv.load(grouped.get_weights(), "keras", h=4, h_kv=2)

    library = pytest.importorskip("diffusers.models.attention_processor")
    processor = library.StableAudioAttnProcessor2_0()
    layer = library.Attention(E, heads=4, kv_heads=2, dim_head=D_K, processor=processor)
    assert layer(torch.from_numpy(x).float()).shape == x.shape
    assert layer.to_q.weight.shape == (4 * D_K, E)
    assert layer.to_k.weight.shape == layer.to_v.weight.shape == (2 * D_K, E)
    with pytest.raises(ValueError, match="as many heads"):
        qkv.load(layer.state_dict(), "diffusers", h=4, h_kv=2)


def test_diffusers_without_scale_qk_does_not_scale(torch, rng, x):
    """In diffusers Attention made with scale_qk=False does not scale.

    It has another processor then, and the same names of weights. Given AttnProcessor2_0 it scales.
    """
    layer = diffusers_layer(rng, dim_head=D_K, scale_qk=False)
    mh = loaded(layer, "diffusers")
    real = called(layer, x)
    assert close(real, replace(mh, scale=1.0)(x))
    assert not close(real, mh(x), 1e-3)
    plain = diffusers_layer(rng, dim_head=D_K)
    assert layer.state_dict().keys() == plain.state_dict().keys()
    assert type(layer.processor) is not type(plain.processor)
    layer.set_processor(sys.modules[type(layer).__module__].AttnProcessor2_0())
    assert close(called(layer, x), mh(x))


def test_diffusers_qk_norms_without_weights_load_and_change_the_output(torch, rng, x):
    """In diffusers a norm of queries and keys without weights loads, and changes the output.

    "l2" and "fp32_layer_norm" have none, nor have "layer_norm" and "rms_norm" with
    elementwise_affine=False. Those across heads have weights in spite of it.
    """
    plain = diffusers_layer(rng, dim_head=D_K)
    affine = {"elementwise_affine": False}
    for options in (
        {},
        {"qk_norm": "l2"},
        {"qk_norm": "fp32_layer_norm"},
        affine | {"qk_norm": "layer_norm"},
        affine | {"qk_norm": "rms_norm"},
    ):
        layer = diffusers_layer(rng, dim_head=D_K, **options)
        layer.load_state_dict(plain.state_dict())
        mh = loaded(layer, "diffusers")
        real = called(layer, x)
        assert close(real, mh(x), 1e-3) == (not options)
    for norm in ("layer_norm_across_heads", "rms_norm_across_heads"):
        layer = diffusers_layer(rng, dim_head=D_K, kv_heads=1, qk_norm=norm, **affine)
        assert {"norm_q.weight", "norm_k.weight"} <= {*layer.state_dict()}


def test_openai_whisper_computes_the_same_with_and_without_sdpa(rng, x, monkeypatch):
    """OpenAI's Whisper computes the same with and without sdpa, but for rounding.

    Without it, queries and keys are each multiplied by the fourth root of 1/d_k, and the softmax is
    taken in float32. Then the layer reads the mask.
    """
    library = openai_whisper_code()
    layer = openai_whisper_layer(rng)
    mh = loaded(layer, "openai-whisper")
    mask = np.tri(N_Q, dtype=bool) | (np.arange(N_Q) == 1)
    added = np.where(mask, 0, -np.inf)
    monkeypatch.setattr(library.MultiHeadAttention, "use_sdpa", False)
    for given, expected in ((None, mh(x)), (added, mh(x, mask=mask))):
        real, _ = called(layer, x, mask=given)
        assert close(real, expected, 1e-5)
        assert not close(real, expected)
