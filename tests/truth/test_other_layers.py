"""What the layers of vit-pytorch, timm, diffusers and OpenAI's Whisper do."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from arrays import D_K, N_Q, E, H, called, close, diffusers_layer, loaded, openai_whisper_layer
from real_layers import (
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
    """`vit.py` of vit-pytorch normalises what it receives: the source of its maps is norm(x)."""
    layer = vit_attention(rng, heads=H, dim_head=D_K)
    mh = loaded(layer, "vit-pytorch")
    output = called(layer, x)
    assert close(output, mh(called(layer.norm, x)))
    assert not close(output, mh(x), 1e-3)


def test_vit_pytorch_one_head_as_wide_as_the_token_has_no_output_map(torch, rng, x):
    """In `vit-pytorch` one head as wide as the token has no output map."""
    layer = vit_attention(rng, heads=1, dim_head=E)
    assert not any(name.startswith("to_out") for name in layer.state_dict())
    source = layer.norm(torch.from_numpy(x))
    Q, K, V = (part.numpy() for part in layer.to_qkv(source).chunk(3, dim=-1))
    assert close(called(layer, x), qkv.attention(Q, K, V))
    for heads, dim_head in ((H, D_K), (1, D_K)):
        stored = vit_attention(rng, heads=heads, dim_head=dim_head).state_dict()
        assert stored["to_out.0.weight"].shape == (E, heads * dim_head)


def test_vit_pytorch_heads_are_64_wide_whatever_dim_is(rng):
    """In `vit-pytorch` heads are 64 wide unless told otherwise; dim does not set their width."""
    assert vit_attention(rng).to_qkv.weight.shape == (3 * 8 * 64, E)
    assert vit_attention(rng, heads=H, dim_head=5).to_qkv.weight.shape == (3 * H * 5, E)


def test_siglip_probe_takes_w_q_into_itself(rng, torch, x):
    """SigLIP's pooling head in Transformers has the same output with W_Q folded into its probe."""
    library, sizes = transformers("siglip"), {"hidden_size": E, "num_attention_heads": H}
    config = library.SiglipVisionConfig(**sizes, intermediate_size=11, num_hidden_layers=1)
    head = randomised(library.SiglipMultiheadAttentionPoolingHead(config), rng)
    before, W, b = called(head, x)[0], head.attention.in_proj_weight, head.attention.in_proj_bias
    head.probe.copy_(head.probe @ W[:E].T + b[:E])
    W[:E], b[:E] = torch.eye(E, dtype=W.dtype), 0
    assert close(called(head, x)[0], before)


def test_timm_norm_stands_between_the_heads_and_the_output_map(torch, rng, x):
    """In timm with scale_norm=True, `norm` normalises the joined heads before the output map."""
    layer = timm_code().Attention(E, H, scale_norm=True, norm_layer=torch.nn.LayerNorm)
    state = randomised(layer, rng).state_dict()
    with pytest.raises(ValueError, match=r"norm.weight.*between the heads and the output map"):
        qkv.load(state, "timm", h=H)
    maps = {name: array for name, array in state.items() if not name.startswith("norm.")}
    mh = qkv.load(maps, "timm", h=H)
    heads = replace(mh, W_O=np.eye(E).reshape(H, D_K, E), b_O=None)(x)
    assert close(called(layer, x), layer.proj(layer.norm(torch.from_numpy(heads))))
    assert not close(called(layer, x), mh(x), 1e-3)


def test_timm_has_no_qkv_bias_unless_asked_for():
    """In timm Attention has no bias of queries, keys and values unless asked for."""
    library = timm_code()
    assert [*library.Attention(E, H).state_dict()] == ["qkv.weight", "proj.weight", "proj.bias"]
    assert "qkv.bias" in library.Attention(E, H, qkv_bias=True).state_dict()


def test_timm_qk_norm_without_weights_loads_and_changes_the_output(torch, rng, x):
    """In timm a norm of queries and keys without weights loads, and changes the output."""
    norm = partial(torch.nn.LayerNorm, elementwise_affine=False)
    Attention = timm_code().Attention
    layer = randomised(Attention(E, H, qk_norm=True, norm_layer=norm), rng)
    plain = randomised(Attention(E, H), rng)
    plain.load_state_dict(layer.state_dict())
    mh = loaded(layer, "timm")
    assert close(called(plain, x), mh(x))
    assert not close(called(layer, x), mh(x), 1e-3)


def test_timm_latent_query_takes_its_projection_into_itself(torch, rng, x, monkeypatch):
    """`AttentionPoolLatent` of timm without `q_proj` gives the same output from a folded latent."""
    AttentionPoolLatent = timm_code("attention_pool").AttentionPoolLatent
    sizes = {"in_features": E, "num_heads": H, "latent_len": 3, "pool_type": ""}
    whole = randomised(AttentionPoolLatent(**sizes), rng)
    folded = AttentionPoolLatent(**sizes, q_proj=False).to(torch.float64).eval()
    weights = whole.state_dict() | {"latent": whole.q(whole.latent)}
    folded.load_state_dict({name: w for name, w in weights.items() if not name.startswith("q.")})
    output, queries = called(whole, x)[0], []
    attend = torch.nn.functional.scaled_dot_product_attention

    def seen(q, k, v, **options):
        queries.append(q)
        return attend(q, k, v, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", seen)
    assert close(called(folded, x)[0], output)
    assert torch.equal(queries[0][0].transpose(0, 1).flatten(1), folded.latent[0])


@pytest.mark.parametrize("adds", [True, False])
def test_diffusers_may_add_the_source_and_divide(rng, x, adds):
    """In diffusers Attention may add the source to its output, and divide."""
    options = {"residual_connection": adds, "rescale_output_factor": 2.0}
    layer = diffusers_layer(rng, dim_head=D_K, **options)
    assert close(called(layer, x), (loaded(layer, "diffusers")(x) + adds * x) / 2)


def test_diffusers_with_pre_only_has_no_output_map(rng):
    """In diffusers Attention made with pre_only=True has no output map, and is refused."""
    stored = diffusers_layer(rng, dim_head=D_K, pre_only=True).state_dict()
    assert not any(name.startswith("to_out") for name in stored)
    with pytest.raises(ValueError, match="to_out"):
        qkv.load(stored, "diffusers", h=H)


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize(
    ("context", "more"), [(None, ""), (True, "add_q_proj"), (False, "add_q_proj to_add_out")]
)
def test_diffusers_with_added_kv_proj_dim_holds_second_matrices(rng, cross, context, more):
    """In diffusers a layer made with added_kv_proj_dim holds second matrices of keys and values."""
    options = {"added_kv_proj_dim": 12, "context_pre_only": context}
    layer = diffusers_layer(rng, only_cross_attention=cross, **options)
    stored = {name.removesuffix(".weight") for name in layer.state_dict() if "bias" not in name}
    first, second = {"to_q", "to_out.0"}, {"add_k_proj", "add_v_proj", *more.split()}
    assert stored == first | second | (set() if cross else {"to_k", "to_v"})


def test_diffusers_unets_take_the_number_of_heads_as_attention_head_dim():
    """In UNet2DConditionModel `attention_head_dim` is the number of heads of CrossAttnDownBlock2D.

    In UNet2DModel, of diffusers too, it is the width of one head.
    """
    library = pytest.importorskip("diffusers")
    sizes = {"block_out_channels": [32], "layers_per_block": 1, "norm_num_groups": 8}

    def first_attentions(kind, block, **options):
        blocks = {f"{way.lower()}_block_types": [block.format(way)] for way in ("Down", "Up")}
        model = kind(**blocks, **sizes, attention_head_dim=4, **options)
        return model.down_blocks[0].attentions[0]

    cross = first_attentions(
        library.UNet2DConditionModel, "CrossAttn{}Block2D", cross_attention_dim=E
    )
    of_words, of_pixels = (
        cross.transformer_blocks[0].attn1,
        first_attentions(library.UNet2DModel, "Attn{}Block2D"),
    )
    assert (of_words.heads, of_pixels.heads) == (4, 32 // 4)
    assert of_words.to_q.weight.shape == of_pixels.to_q.weight.shape == (32, 32)


def test_diffusers_heads_are_64_wide_unless_told_otherwise(rng):
    """In diffusers heads are 64 wide unless told otherwise."""
    assert diffusers_layer(rng).to_q.weight.shape == (H * 64, E)
    assert diffusers_layer(rng, dim_head=5).to_q.weight.shape == (H * 5, E)


def test_keras_and_diffusers_have_classes_with_fewer_heads_of_keys(torch, keras, rng, x):
    """Keras' GroupQueryAttention and diffusers' `kv_heads` hold fewer heads of keys and values."""
    grouped = keras.layers.GroupQueryAttention(D_K, 4, 2)
    assert grouped(x, x).shape == x.shape
    shapes = {weight.path.partition("/")[2]: weight.shape for weight in grouped.weights}
    assert shapes["query/kernel"] == (E, 4, D_K)
    assert shapes["key/kernel"] == shapes["value/kernel"] == (E, 2, D_K)

    library = pytest.importorskip("diffusers.models.attention_processor")
    made = {"dim_head": D_K, "processor": library.StableAudioAttnProcessor2_0()}
    layer = library.Attention(E, heads=4, kv_heads=2, **made)
    assert layer(torch.from_numpy(x).float()).shape == x.shape
    assert layer.to_q.weight.shape == (4 * D_K, E)
    assert layer.to_k.weight.shape == layer.to_v.weight.shape == (2 * D_K, E)
    for weights, layout in (grouped.get_weights(), "keras"), (layer.state_dict(), "diffusers"):
        with pytest.raises(ValueError, match="as many heads"):
            qkv.load(weights, layout, h=4, h_kv=2)


def test_diffusers_without_scale_qk_does_not_scale(rng, x):
    """In diffusers Attention made with scale_qk=False does not scale."""
    plain = diffusers_layer(rng, dim_head=D_K)
    layer = diffusers_layer(rng, dim_head=D_K, scale_qk=False)
    mh = loaded(layer, "diffusers")
    assert close(called(layer, x), replace(mh, scale=1.0)(x))
    assert not close(called(layer, x), mh(x), 1e-3)
    assert layer.state_dict().keys() == plain.state_dict().keys()
    layer.set_processor(plain.processor)
    assert close(called(layer, x), mh(x))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"qk_norm": "l2"},
        {"qk_norm": "fp32_layer_norm"},
        {"qk_norm": "layer_norm", "elementwise_affine": False},
        {"qk_norm": "rms_norm", "elementwise_affine": False},
    ],
)
def test_diffusers_qk_norms_without_weights_load_and_change_the_output(rng, x, options):
    """In diffusers a norm of queries and keys without weights loads, and changes the output."""
    layer = diffusers_layer(rng, dim_head=D_K, **options)
    layer.load_state_dict(diffusers_layer(rng, dim_head=D_K).state_dict())
    assert close(called(layer, x), loaded(layer, "diffusers")(x), 1e-3) == (not options)


def test_openai_whisper_computes_the_same_with_and_without_sdpa(rng, x, monkeypatch):
    """Without a mask OpenAI's Whisper computes the same with and without sdpa, but for rounding."""
    library = openai_whisper_code()
    layer = openai_whisper_layer(rng)
    mh = loaded(layer, "openai-whisper")
    mask = np.tri(N_Q, dtype=bool) | (np.arange(N_Q) == 1)
    added = np.where(mask, 0, -np.inf)
    assert close(called(layer, x)[0], mh(x))
    monkeypatch.setattr(library.MultiHeadAttention, "use_sdpa", False)
    for given, expected in ((None, mh(x)), (added, mh(x, mask=mask))):
        real, _ = called(layer, x, mask=given)
        assert close(real, expected, 1e-5)
        assert not close(real, expected)
