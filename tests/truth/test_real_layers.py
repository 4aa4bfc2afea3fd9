"""Every layout against the layer it describes, as that layer's own library computes it."""

from dataclasses import replace
from functools import cache

import masked_layers
import numpy as np
import pytest
from arrays import sdpa
from real_layers import (
    CASES,
    Case,
    Layer,
    keras_library,
    torch_layer,
    transformers,
    vit_pytorch_code,
)
from record import flat, read, record
from small_models import built, configured

import qkv
from qkv.layouts import convert_mask, layouts
from qkv.masks import causal


@cache
def recorded_anew(name: str) -> dict[str, np.ndarray]:
    """What is to be recorded of a case: its layer is built and called once for all tests."""
    return record(CASES[name])


def stored_by(name: str) -> dict[str, np.ndarray]:
    """The arrays of a case's layer, by path."""
    arrays = recorded_anew(name).items()
    return {path.removeprefix("weights/"): w for path, w in arrays if path.startswith("weights/")}


each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@each_case
def test_loaded_weights_compute_what_the_real_layer_computes(case: Case):
    """What `qkv.load` makes of a layer's weights computes what the layer computes.

    Covers: each layer of `real_layers.CASES`, in float64, to 1e-12. Where a layer would take its
    softmax in float32, it runs with float64 instead, or with an option that avoids float32.
    """
    mh = case.load(stored_by(case.name))
    for form, (*sources, mask) in case.problems().items():
        expected = recorded_anew(case.name)[f"{form}/output"]
        np.testing.assert_allclose(
            mh(*sources, mask=mask), expected, rtol=0, atol=1e-12, err_msg=form
        )


# One value does for self- and cross-attention, and GPT-2 stores the two under different names.
@pytest.mark.parametrize(
    "case",
    [case for name, case in CASES.items() if name != "gpt2-cross"],
    ids=lambda case: case.name,
)
def test_dumped_weights_are_what_the_real_layer_stores(case: Case):
    """What `qkv.dump` writes has the names, the shapes and the numbers that the layer stores.

    Covers: each layer of `real_layers.CASES` but GPT-2's cross-attention.
    """
    stored = stored_by(case.name)
    mh = qkv.load(stored, case.layout, h=case.h, h_kv=case.h_kv, prefix=case.prefix)
    dumped = qkv.dump(mh, case.layout, prefix=case.prefix)
    assert dumped.keys() == stored.keys()
    for name, array in stored.items():
        np.testing.assert_array_equal(dumped[name], array, err_msg=name, strict=True)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [(name, "key", "value") for name in ("keras", "flax-linen", "haiku", "bert")]
    + [(name, "k_proj", "v_proj") for name in ("llama-bias", "clip")]
    + [("diffusers-bias", "to_k", "to_v")],
)
def test_a_key_bias_is_read_as_a_value_bias_is(name, key, value):
    """`qkv.load` takes the numbers of a key bias in the order of those of a value bias.

    Covers: layers of Keras, Flax linen, Haiku, BERT, Llama, CLIP and diffusers.
    """
    case = CASES[name]
    stored = stored_by(case.name)
    stored |= {path.replace(value, key): w for path, w in stored.items() if value in path}
    mh = case.load(stored)
    np.testing.assert_array_equal(mh.b_K, mh.b_V)


@each_case
def test_the_recording_is_what_the_library_still_computes(case: Case):
    """A library's layer, built again, has the weights and the outputs that this site recorded."""
    recorded = read(case)
    assert recorded.pop("made with").keys() == {case.library}
    recorded = dict(flat(recorded))
    fresh = recorded_anew(case.name)
    assert recorded.keys() == fresh.keys()
    for name, array in fresh.items():
        np.testing.assert_allclose(recorded[name], array, rtol=0, atol=1e-12, err_msg=name)


def stored_with(what):
    """What a layer stores that does more than multi-head attention."""
    if what == "an extra token":
        nn = pytest.importorskip("torch").nn
        return nn.MultiheadAttention(6, 2, add_bias_kv=True).state_dict()
    if what == "QK-norm":
        library, sizes = transformers("qwen3"), {"hidden_size": 6, "num_attention_heads": 2}
        config = library.Qwen3Config(**sizes, num_key_value_heads=2)
        return library.Qwen3Attention(config, layer_idx=0).state_dict()
    if what == "relative positions":
        library = transformers("t5")
        config = library.T5Config(d_model=6, num_heads=2, d_kv=3)
        return library.T5Attention(config, has_relative_attention_bias=True).state_dict()
    if what == "normalised queries":
        jax, linen = pytest.importorskip("jax"), pytest.importorskip("flax.linen")
        layer = linen.MultiHeadDotProductAttention(2, normalize_qk=True)
        return layer.init(jax.random.key(0), np.ones((5, 6), dtype=np.float32))["params"]
    layer = keras_library().layers.MultiHeadAttention(2, 3, use_gate=True)
    layer.build((None, None, 6), (None, None, 6))
    return {weight.path.removeprefix(f"{layer.name}/"): weight for weight in layer.weights}


@pytest.mark.parametrize(
    ("what", "layout", "message"),
    [
        ("an extra token", "pytorch", "bias_k.*extra token"),
        ("QK-norm", "llama", "q_norm.*QK-norm"),
        ("relative positions", "t5", "relative_attention_bias.*added to the scores"),
        ("normalised queries", "flax", "query_ln.*QK-norm"),
        ("a gate", "keras", "gate.*fourth projection"),
    ],
)
def test_what_a_real_layer_does_beyond_multi_head_attention_is_refused(
    what, layout, message, unchecked
):
    """`qkv.load` refuses five layers whose weights show more than multi-head attention."""
    with pytest.raises(ValueError, match=message):
        qkv.load(stored_with(what), layout, h=2)


def unscaled(case: Case, rng: np.random.Generator) -> Layer:
    """GPT-2 with options of its configuration that change the scale."""
    library = transformers("gpt2")
    config = library.GPT2Config(
        n_embd=case.widths[0], n_head=case.h, attn_implementation="eager", **case.options
    )

    def forward(module, X_Q, X_K, X_V, mask):
        return module(X_Q)[0]

    return torch_layer(library.GPT2Attention(config, layer_idx=1), forward, rng)


def uniform(query, key, value, **options):
    """An attention function for Flax in which all weights are equal."""
    return value.mean(axis=-3, keepdims=True) + 0 * query


def with_option(name: str, **options) -> Case:
    return replace(CASES[name], options=CASES[name].options | options)


SCALED = Case("gpt2", unscaled, {"scale_attn_weights": False})


SCALED_BY_LAYER = Case("gpt2", unscaled, {"scale_attn_by_inverse_layer_idx": True})


@pytest.mark.parametrize(
    ("case", "named"),
    [
        (with_option("pytorch", add_zero_attn=True), "add_zero_attn"),
        (with_option("keras", sliding_window=2), "sliding_window"),
        (with_option("flax-linen", attention_fn=uniform), "another attention_fn"),
        (SCALED, "scale_attn_weights=False"),
        (SCALED_BY_LAYER, "scale_attn_by_inverse_layer_idx"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_option_that_stores_nothing_changes_the_output_unseen(case: Case, named: str):
    """An option that stores nothing changes the output, and the loaded layer does not know of it.

    Covers: `add_zero_attn` of PyTorch, `sliding_window` of Keras, `attention_fn` of Flax, and two
    scales of GPT-2. Their names are in the layout's `cannot`.
    """
    assert any(named in words for words in layouts()[case.layout].cannot)
    layer, plain = case.layer(), CASES[case.name].layer()
    assert dict(flat(layer.weights)).keys() == dict(flat(plain.weights)).keys()
    X_Q, *_ = case.problems()["self"]
    computed = layer.call(X_Q, None, None, None)
    assert not np.allclose(case.load(layer.weights)(X_Q), computed, atol=1e-3)


# Whole models

LINES = {
    "llama": "layers.0-3.self_attn.  llama   none    h=4, h_kv=2, d_model=32, d_k=8",
    "gpt_neox": "layers.0-3.attention.  gpt-neox  b_Q b_K b_V b_O  h=4, d_model=32, d_k=8",
    "whisper": "encoder.layers.0-1.self_attn.     whisper  b_Q b_V b_O  h=4, d_model=32, d_k=8",
}


@pytest.mark.parametrize("kind", LINES)
def test_whole_models_get_a_table_and_their_layers_are_loaded(kind, tmp_path):
    """A whole model of Transformers gets a table, and its layers are loaded, from its file too.

    Covers: a small Llama, GPT-NeoX and Whisper, each as a state_dict and as a safetensors file;
    encoder, decoder and cross-attention.
    """
    config = configured(kind)
    model = built(config)
    model.save_pretrained(tmp_path)
    found, in_file = (
        qkv.find_layers(weights, config=config) for weights in (model.state_dict(), tmp_path)
    )
    assert LINES[kind] in str(found).splitlines()
    assert f"{len(found)} attention layers." in str(found)
    loaded = {layer.prefix: layer.load() for layer in found}
    assert {layer.prefix: layer.load() for layer in in_file} == loaded
    assert len(loaded) == 2 + 2 * 2 if kind == "whisper" else 4


def test_a_whole_vit_of_vit_pytorch_gets_a_table_and_its_layers_are_loaded(tmp_path):
    """A whole ViT of vit-pytorch gets a table, and its layers are loaded, from a file too."""
    sizes = {"image_size": 4, "patch_size": 2, "num_classes": 3, "dim": 14, "depth": 3}
    weights = vit_pytorch_code().ViT(**sizes, heads=2, mlp_dim=11, dim_head=5).state_dict()
    pytest.importorskip("safetensors.torch").save_file(weights, tmp_path / "model.safetensors")
    found = qkv.find_layers(weights, h=2)
    line = "transformer.layers.0-2.0.  vit-pytorch  b_O     h=2, d_model=14, d_k=5"
    assert line in str(found).splitlines()
    in_file = qkv.find_layers(tmp_path / "model.safetensors", h=2)
    assert [layer.load() for layer in in_file] == [layer.load() for layer in found]


def test_vit_of_transformers_has_the_names_of_llama_in_memory_and_others_in_a_file(tmp_path):
    """The ViT of Transformers 5.23 has the names of Llama's layer in memory, others in a file."""
    config = configured("vit")
    model = built(config)
    model.save_pretrained(tmp_path)
    said = " ".join(str(qkv.find_layers(model.state_dict(), h=4)).split())
    assert "do not tell what stands between the maps (a rotation," in said
    found = qkv.find_layers(model.state_dict(), config=config)
    assert str(found).splitlines()[1].startswith("layers.0-3.attention.  llama ")
    assert {layer.load().between for layer in found} == {()}
    in_file = qkv.find_layers(tmp_path, config=config)
    assert str(in_file).splitlines()[1].startswith("encoder.layer.0-3.attention.  bert ")
    assert [layer.load() for layer in in_file] == [layer.load() for layer in found]


def test_a_model_with_qk_norm_is_listed_with_why_it_is_refused():
    """Without its configuration Qwen 3, a model with QK-norm, is listed and refused."""
    config = configured("qwen3")
    weights = built(config).state_dict()
    refused = qkv.find_layers(weights, h=4, h_kv=2)
    assert {layer.layouts for layer in refused} == {()}
    assert "refused          weights holds 'q_norm.weight': it belongs to" in str(refused)
    for layer in qkv.find_layers(weights, config=config):
        assert [type(step).__name__ for step in layer.load().between] == ["QKNorm", "Rotation"]


# Masks


@pytest.mark.parametrize("dtype", [None, np.float64], ids=["boolean", "added"])
@pytest.mark.parametrize("form", ["attn_mask", "key_padding_mask", "sdpa"])
def test_torch_masks_that_are_converted_hide_what_the_boolean_mask_hides(torch, form, dtype):
    """PyTorch masks that `qkv` converts hide what the boolean mask hides.

    Covers: `attn_mask` and `key_padding_mask` of nn.MultiheadAttention and `attn_mask` of
    scaled_dot_product_attention, boolean and added; padding, causal and both; in float64, to 1e-12.
    """
    masks = {"masks": [masked_layers.PADDING]} if form == "key_padding_mask" else {}
    masked_layers.check(*masked_layers.layer_with(form, dtype), **masks)


@pytest.mark.parametrize(
    "library",
    [
        pytest.param("keras"),
        pytest.param("flax.linen"),
        pytest.param("flax.nnx"),
        pytest.param("haiku"),
        pytest.param("transformers"),
    ],
)
def test_masks_that_are_converted_hide_what_the_boolean_mask_hides(library):
    """Masks that `qkv` converts for Keras, Flax, Haiku and BERT hide what the boolean mask hides.

    Covers: linen and nnx, and BERT's layer in eager mode; padding, causal and both; in float64, to
    1e-12.
    """
    dtype = np.float64 if library == "transformers" else None
    masked_layers.check(*masked_layers.layer_with(library.replace(".", "-"), dtype))


@pytest.mark.parametrize("aligned", ["start", "end"])
def test_is_causal_of_torch_is_aligned_at_the_start_and_causal_lower_right_at_the_end(aligned, rng):
    """PyTorch's function aligns `is_causal` at the start; `causal_lower_right` is at the end."""
    lower_right = pytest.importorskip("torch.nn.attention.bias").causal_lower_right
    Q, K, V = (rng.normal(size=(1, 2, n, 3)) for n in (3, 5, 5))
    options = {"start": {"is_causal": True}, "end": {"attn_mask": lower_right(3, 5)}}[aligned]
    expected = qkv.attention(Q, K, V, mask=causal(3, 5, aligned=aligned))
    np.testing.assert_allclose(sdpa(Q, K, V, **options), expected, rtol=0, atol=1e-12)


def test_the_least_number_of_float32_is_minus_infinity_in_bfloat16():
    """In PyTorch the least number of float32 is minus infinity in bfloat16, float16's is not."""
    torch = pytest.importorskip("torch")
    for dtype, finite in ((np.float32, False), (np.float16, True)):
        added = torch.from_numpy(convert_mask(causal(2), "sdpa", dtype=dtype))
        assert bool(added.bfloat16().isfinite().all()) == finite
