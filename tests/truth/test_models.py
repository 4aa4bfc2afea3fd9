"""The table of models says what is so: each model, built small, is asked for every line of it."""

import inspect
import tomllib
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from real_layers import randomised

import qkv
from qkv.layouts import layouts
from support import ROOT

ROWS = tomllib.loads((ROOT / "docs" / "libraries" / "models.toml").read_text())["model"]
BUILT = {model["type"]: model for model in ROWS if "type" in model}
LOADED = {name: model for name, model in BUILT.items() if "layout" in model}
SAVED = {name: model for name, model in BUILT.items() if "file" in model}

H, H_KV, D_MODEL, N = 4, 2, 24, 7
SIZES = {
    "vocab_size": 13,
    "hidden_size": D_MODEL,
    "intermediate_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": H,
    "num_key_value_heads": H_KV,
    "max_position_embeddings": 16,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
OWN = {  # sizes that a model calls otherwise, or that do not fit unless they are given
    "bart": {"encoder_attention_heads": H, "decoder_attention_heads": H},
    "codegen": {"rotary_dim": 4},
    "falcon": {"num_kv_heads": H_KV, "new_decoder_architecture": True},
    "gpt_neox": {"rotary_pct": 2 / 3},
    "gptj": {"rotary_dim": 4},
    "jamba": {
        "num_key_value_heads": 2,
        "num_hidden_layers": 8,
        "attn_layer_period": 8,
        "attn_layer_offset": 4,
        "num_experts": 2,
        "mamba_d_state": 4,
    },
    "phi": {"partial_rotary_factor": 2 / 3},
    "mpt": {"d_model": D_MODEL, "n_heads": H, "n_layers": 2},
    "vivit": {"num_frames": 2, "tubelet_size": [2, 16, 16]},
    "whisper": {"num_key_value_heads": H, "decoder_attention_heads": H},
}
# How many coordinates of a head are turned, where a part of it may be.
TURNED = {"codegen": 4, "gpt_neox": 4, "gptj": 4, "phi": 4, "phi3": D_MODEL // H}
OFF = {  # what a model has by default and MultiHead has not
    "gemma2": {"attn_logit_softcapping": None},
    "llama4_text": {"use_qk_norm": False},
}


def build(model, **options):
    """A small model with random weights in float64, in eager mode: all options count there."""
    library = pytest.importorskip("transformers")
    sizes = SIZES | OWN.get(model["type"], {}) | options
    config = library.AutoConfig.for_model(model["type"], **sizes)
    built = library.AutoModel.from_config(config, attn_implementation="eager")
    return randomised(built, np.random.default_rng(0))


def weights_of(model, built):
    """The arrays of its first layer, under the layout's names."""
    stored = {
        name.removeprefix(model["layer"]): array
        for name, array in built.state_dict().items()
        if name.startswith(model["layer"])
    }
    for own, known in model.get("rename", {}).items():
        stored = {name.replace(own, known): array for name, array in stored.items()}
    return stored


def loaded(model, built):
    """Its first layer, as a reader of the table loads it."""
    stored = weights_of(model, built)
    for name in model.get("left_out", ()):
        with pytest.raises(ValueError, match=r"qkv\.between has such"):
            qkv.load(stored, model["layout"], h=H)
        del stored[name]
    h_kv = {"fewer heads": H_KV, "one head": 1}.get(model.get("keys"), H)
    return qkv.load(stored, model["layout"], h=H, h_kv=h_kv)


def rotates(model):
    return model.get("rotates", layouts()[model["layout"]].rotary)


@pytest.mark.parametrize("model", LOADED.values(), ids=LOADED)
def test_a_models_layer_loads_as_the_table_says(model):
    """A model's layer loads under the layout and the prefix that the table of models gives it.

    Its biases are those of the table, and its heads are as wide as the table's option says.

    Covers: the models of Transformers in the table, each built small.
    """
    mh = loaded(model, build(model))
    biases = {b for b in ("b_Q", "b_K", "b_V", "b_O") if getattr(mh, b) is not None}
    assert biases == {*model.get("biases", "").split()}
    if "width" in model:
        mh = loaded(model, build(model, **{model["width"]: 10}))
        assert mh.d_k == 10
    else:
        assert mh.d_k == D_MODEL // H


def test_the_first_layer_of_t5_is_refused_and_its_second_one_loads():
    """The first layer of T5 is refused, and its second one loads.

    The first stores the bias by relative position.
    """
    model = BUILT["t5"]
    first = model | {"layer": model["layer"].replace("block.1", "block.0")}
    built = build(model)
    assert loaded(model, built)
    with pytest.raises(ValueError, match="relative_attention_bias"):
        loaded(first, built)


@pytest.mark.parametrize("model", SAVED.values(), ids=SAVED)
def test_a_saved_models_layer_loads_under_the_names_of_its_file(model, tmp_path):
    """A layer of ViT or of DINOv2 has other names in a file, and loads under the layout of BERT.

    It is the same layer.

    Covers: ViT and DINOv2 as Transformers saves them.
    """
    safetensors = pytest.importorskip("safetensors.numpy")
    built = build(model)
    built.save_pretrained(tmp_path)
    weights = safetensors.load_file(tmp_path / "model.safetensors")
    saved, kept = model["file"], loaded(model, built)
    read = qkv.load(weights, saved["layout"], h=H, prefix=saved["layer"])
    X = np.random.default_rng(1).normal(size=(N, D_MODEL))
    np.testing.assert_array_equal(read(X), replace(kept, between=())(X))


@pytest.mark.parametrize("model", LOADED.values(), ids=LOADED)
def test_a_models_layer_computes_what_the_loaded_one_computes(model):
    """A model's layer computes what the layer computes that `qkv.load` makes of its weights.

    Rotation, norms of queries and keys, ALiBi, Gemma 2's bound, gpt-oss's sinks and masks are taken
    out of the real one.

    Covers: the models of Transformers in the table, each built small, to 1e-5, because some
    compute in float32.
    """
    mh, output, X = plain(model, angles=0)
    np.testing.assert_allclose(output, replace(mh, between=())(X), rtol=0, atol=1e-5)


@pytest.mark.parametrize("model", LOADED.values(), ids=LOADED)
def test_a_model_turns_the_pairs_that_the_table_names(model):
    """A model's layer turns the pairs that the table of models names, or does not rotate.

    Each token has an angle of its own, by which the loaded layer's projected queries and keys are
    turned, with neighbours or halves as pairs. Then both compute the same. A model that does not
    rotate computes what it computes without angles.

    Covers: the models of Transformers in the table, each built small, without norms of queries and
    keys, ALiBi, bounds, sinks and masks.
    """
    angles = np.arange(float(N)) / 3
    mh, output, X = plain(model, angles)
    unturned = replace(mh, between=())(X)
    if not rotates(model):
        np.testing.assert_allclose(output, unturned, rtol=0, atol=1e-5)
        return
    Q, K, V = mh.project(X)
    how = {"angles": angles, "width": TURNED.get(model["type"], mh.d_k)}
    Q, K = (turned(part, neighbours="pairs" in model, **how) for part in (Q, K))
    K, V = (np.repeat(part, H // part.shape[-3], axis=-3) for part in (K, V))
    expected = (qkv.attention(Q, K, V, scale=mh.scale) @ mh.W_O).sum(axis=-3)
    expected += 0 if mh.b_O is None else mh.b_O
    np.testing.assert_allclose(output, expected, rtol=0, atol=1e-5)
    assert not np.allclose(expected, unturned, atol=1e-3)


@pytest.mark.parametrize(
    "model", [model for model in BUILT.values() if "layout" not in model], ids=lambda m: m["type"]
)
def test_the_rotation_of_deepseek_turns_neighbours(model, monkeypatch):
    """The rotation of DeepSeek-V2 and V3 turns neighbours as pairs.

    Two coordinates are a pair if the rotation mixes them.

    Covers: the function that a small model with the default options calls, at one position.
    """
    torch = pytest.importorskip("torch")
    built = build(model, num_key_value_heads=H, first_k_dense_replace=2)  # no experts
    module = inspect.getmodule(type(built))
    called = []

    def kept(rotate, *given):
        called.append((rotate, given))
        return rotate(*given)

    for name in [name for name in vars(module) if name.startswith("apply_rotary")]:
        monkeypatch.setattr(module, name, partial(kept, getattr(module, name)))
    built(torch.arange(3, 3 + N)[None])
    rotate, (Q, _, *angles) = called[0]
    each = torch.eye(Q.shape[-1], dtype=Q.dtype)[None, :, None].expand(1, -1, N, -1)
    turned_ones = rotate(each, each, *angles)[0][0, :, 1]  # at position 1
    mixed = (turned_ones @ turned_ones.mT).detach().numpy().round(6)
    assert np.array_equal(mixed, np.eye(len(mixed)))  # it is a rotation
    goes_to = np.abs(turned_ones.detach().numpy()) > 1e-12
    pairs = {(int(i), int(j)) for i, j in np.argwhere(goes_to @ goes_to.T) if i < j}
    neighbours = {(i, i + 1) for i in range(0, len(mixed), 2)}
    assert model["pairs"] == "neighbours"
    assert pairs == neighbours


def test_llama_4_rotates_in_three_layers_of_four():
    """Llama 4 rotates in three layers of four by default.

    The weights do not show which.
    """
    built = build(BUILT["llama4_text"], num_hidden_layers=8, num_local_experts=1)
    assert [bool(layer.self_attn.use_rope) for layer in built.layers] == [
        True,
        True,
        True,
        False,
    ] * 2


def plain(model, angles):
    """A model's layer as loaded, what the real one computes with these angles, and its source.

    What `MultiHead` has no place for is taken out of the real one.
    """
    torch = pytest.importorskip("torch")
    built = build(model, **OFF.get(model["type"], {}))
    mh = loaded(model, built)
    module = built.get_submodule(model["layer"].removesuffix("."))
    for name in {name.partition(".")[0] for name in model.get("left_out", ())} - {"sinks"}:
        setattr(module, name, torch.nn.Identity())
    X = torch.from_numpy(np.random.default_rng(1).normal(size=(1, N, D_MODEL)))
    with torch.no_grad():
        if "sinks" in model.get("left_out", ()):
            module.sinks.fill_(float("-inf"))
        angles = torch.from_numpy(np.broadcast_to(angles, N).astype(float))
        output = call(module, X, angles, TURNED.get(model["type"]))
    if "scale" in model:
        mh = replace(mh, scale=eval(model["scale"], vars(built.config)))
    return mh, output.numpy(), X.numpy()


def call(module, X, angles, width=None):
    """The output of a layer that turns each token by an angle, and neither hides nor adds."""
    if hasattr(module, "self"):  # BERT's, which goes on with a residual connection and a norm
        return module.output.dense(module.self(X)[0])
    zeros, angle = X.new_zeros(1, 1, N, N), angles[None, :, None]
    given = {
        "position_embeddings": (angle.cos(), angle.sin()),
        "position_ids": X.new_zeros(1, N).long(),
        "position_bias": X.new_zeros(H, N, N),
        "attention_mask": zeros,
        "mask": zeros,
        "residual": X.new_zeros(1),
        "alibi": X.new_zeros(H, 1, N),
    }
    if width:  # it turns as many coordinates as it is given
        given["position_embeddings"] = [
            part.expand(-1, -1, width) for part in (angle.cos(), angle.sin())
        ]
    name = type(module).__name__
    if name == "Llama4TextAttention":  # it takes one array of complex numbers
        given["position_embeddings"] = angle.cos() + 1j * angle.sin()
    elif name == "FalconAttention":  # it turns where it gets no alibi
        given["alibi"] = None
    elif name == "MptAttention":  # it takes truth values, True where hidden
        given["attention_mask"] = None
    if hasattr(module, "embed_positions"):  # a table: sines of each pair, then cosines
        pairs = module.embed_positions.shape[-1] // 2
        table = [part[0].expand(-1, pairs) for part in (angle.sin(), angle.cos())]
        module.embed_positions[:N] = pytest.importorskip("torch").cat(table, dim=-1)
        given["position_ids"] = X.new_ones(1, N).cumsum(-1).long() - 1
    wanted = inspect.signature(module.forward).parameters.keys() & given.keys()
    output = module(X, **{name: given[name] for name in wanted})
    return output[0] if isinstance(output, tuple) else output


def turned(vectors, *, angles, width, neighbours):
    """Vectors of tokens with the pairs of their first coordinates turned by each token's angle."""
    first, second = (
        (np.s_[..., 0:width:2], np.s_[..., 1:width:2])
        if neighbours
        else (np.s_[..., : width // 2], np.s_[..., width // 2 : width])
    )
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    result = vectors.copy()
    result[first] = vectors[first] * cos - vectors[second] * sin
    result[second] = vectors[first] * sin + vectors[second] * cos
    return result


@pytest.mark.parametrize(
    "model", [model for model in BUILT.values() if "layout" not in model], ids=lambda m: m["type"]
)
def test_a_model_without_a_layout_is_refused(model):
    """A model's first layer is refused by each layout if the table of models gives it none.

    Its names are missing from all of them.

    Covers: DeepSeek-V2 and V3, with each layout.
    """
    stored = weights_of(model, build(model))
    assert stored
    for layout in layouts():
        with pytest.raises(ValueError, match="missing: "):
            qkv.load(stored, layout, h=H)


UNSEEN = [
    pytest.param(model, each, id=f"{name}-{each['option']}")
    for name, model in BUILT.items()
    for each in model.get("unseen", ())
]


@pytest.mark.parametrize(("model", "unseen"), UNSEEN)
def test_an_option_in_the_table_changes_the_output_and_no_name(model, unseen):
    """An option in the table of models changes the output, and no name and no shape of a weight.

    So weights do not show it.

    Covers: each option of each model in the table, with one value.
    """
    torch = pytest.importorskip("torch")
    plain, other = build(model), build(model, **{unseen["option"]: unseen["value"]})
    stored = plain.state_dict()
    shapes = {name: array.shape for name, array in stored.items()}
    assert {name: array.shape for name, array in other.state_dict().items()} == shapes
    other.load_state_dict(stored)
    tokens = torch.arange(3, 3 + N)[None]
    with torch.no_grad():
        states = [m.float()(input_ids=tokens).last_hidden_state for m in (plain, other)]
    assert not np.allclose(*states, rtol=0, atol=1e-4)


UNROTATED = [name for name, kind in layouts()["llama"].types.items() if kind.rotates == "never"]


@pytest.mark.parametrize("kind", UNROTATED)
def test_models_that_do_not_rotate_and_have_names_of_those_that_do(kind):
    """ViT, DeiT, DINOv2, I-JEPA, AST, ViViT and Jamba have Llama's names and do not rotate.

    `find_layers` takes that from `model_type` in the configuration.
    """
    library = pytest.importorskip("transformers")
    known = library.models.auto.configuration_auto.CONFIG_MAPPING_NAMES
    name = kind if kind in known else kind.replace("-", "_")
    of_pictures = {"image_size": 32, "patch_size": 16, "max_length": 64, "num_mel_bins": 32}
    sizes = {"num_key_value_heads": H, "num_hidden_layers": 1} | of_pictures | OWN.get(name, {})
    model = build({"type": name}, **sizes)
    [found] = qkv.find_layers(model.state_dict(), config=model.config)
    assert found.layouts == ("llama",)
    assert layouts()["llama"].rotary
    X = np.random.default_rng(1).normal(size=(2, N, D_MODEL))
    layer = model.get_submodule(found.prefix.rstrip("."))
    torch = pytest.importorskip("torch")
    output = layer(torch.from_numpy(X), attention_mask=None)[0]
    off = np.abs(found.load()(X) - output.detach().numpy()).max()
    assert off < 1e-5 * np.abs(output.detach().numpy()).max()
