"""The table of models says what is so: each model, built small, is asked for every line of it."""

import inspect
import sys
import tomllib
from dataclasses import replace

import numpy as np
import pytest
from real_layers import randomised

import qkv
from qkv.layouts import layouts
from support import ROOT

ROWS = tomllib.loads((ROOT / "docs" / "libraries" / "models.toml").read_text())["model"]
BUILT = {model["type"]: model for model in ROWS if "type" in model}
LOADED = {name: model for name, model in BUILT.items() if "layout" in model}

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
    "gptj": {"rotary_dim": 4},
    "phi": {"partial_rotary_factor": 2 / 3},
    "mpt": {"d_model": D_MODEL, "n_heads": H, "n_layers": 2},
    "whisper": {"num_key_value_heads": H, "decoder_attention_heads": H},
}
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
        with pytest.raises(ValueError, match="cannot express"):
            qkv.load(stored, model["layout"], h=H)
        del stored[name]
    h_kv = {"fewer heads": H_KV, "one head": 1}.get(model.get("keys"), H)
    return qkv.load(stored, model["layout"], h=H, h_kv=h_kv)


def rotates(model):
    return model.get("rotates", layouts()[model["layout"]].rotary)


@pytest.mark.parametrize("model", LOADED.values(), ids=LOADED)
def test_a_models_first_layer_loads_as_the_table_says(model):
    """A model's first layer loads under the layout that the table of models gives it.

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


@pytest.mark.parametrize("model", LOADED.values(), ids=LOADED)
def test_a_models_first_layer_computes_what_the_loaded_one_computes(model):
    """A model's first layer computes what the layer computes that `qkv.load` makes of its weights.

    Rotation, norms of queries and keys, ALiBi and gpt-oss's sinks are taken out of the real one.

    Covers: the models of Transformers in the table, each built small, to 1e-5, because some
    compute in float32.
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
        output = call(module, X)
    scale = eval(model["scale"], vars(built.config)) if "scale" in model else mh.scale
    expected = replace(mh, rotary=False, scale=scale)(X.numpy())
    np.testing.assert_allclose(output.numpy(), expected, rtol=0, atol=1e-5)


def call(module, X):
    """The output of a layer that neither rotates nor hides nor adds anything."""
    if hasattr(module, "self"):  # BERT's, which goes on with a residual connection and a norm
        return module.output.dense(module.self(X)[0])
    zeros, angle = X.new_zeros(1, 1, N, N), X.new_zeros(1, 1, 1)
    given = {
        "position_embeddings": (angle.cos(), angle.sin()),
        "position_ids": X.new_zeros(1, N).long(),
        "position_bias": X.new_zeros(H, N, N),
        "attention_mask": zeros,
        "mask": zeros,
        "residual": X.new_zeros(1),
        "alibi": X.new_zeros(H, 1, N),
    }
    if type(module).__name__ == "Llama4TextAttention":  # it takes one array of complex numbers
        given["position_embeddings"] = (angle + 1).to(X.dtype.to_complex())
    if type(module).__name__ == "MptAttention":  # it takes truth values, True where hidden
        given["attention_mask"] = None
    wanted = inspect.signature(module.forward).parameters.keys() & given.keys()
    output = module(X, **{name: given[name] for name in wanted})
    return output[0] if isinstance(output, tuple) else output


@pytest.mark.parametrize("model", LOADED.values(), ids=LOADED)
def test_a_model_rotates_if_the_table_says_so(model):
    """A model's first layer rotates if its layout says so, or the table of models does.

    It is given angles then, or looks them up.

    Covers: the models of Transformers in the table.
    """
    module = build(model).get_submodule(model["layer"].removesuffix("."))
    parameters = inspect.signature(module.forward).parameters
    turned = "position_embeddings" in parameters or hasattr(module, "embed_positions")
    assert turned == rotates(model)


@pytest.mark.parametrize(
    "model", [m for m in LOADED.values() if rotates(m)], ids=lambda model: model["type"]
)
def test_a_model_turns_the_pairs_that_the_table_names(model):
    """A model's rotation turns neighbours as pairs if the table of models says so, or else halves.

    A quarter turn takes one coordinate to the place of the other one of its pair.

    Covers: the models of Transformers in the table that rotate.
    """
    torch = pytest.importorskip("torch")
    module = build(model).get_submodule(model["layer"].removesuffix("."))
    library = sys.modules[type(module).__module__]
    first = torch.eye(4)[0][None, None, None]
    if hasattr(library, "rotate_half"):
        turned = library.rotate_half(first)
    elif hasattr(library, "rotate_every_two"):
        turned = library.rotate_every_two(first)
    elif hasattr(library, "_apply_rotary_emb"):  # gpt-oss: cos and sin of half a head
        turned = library._apply_rotary_emb(first, torch.zeros(1, 1, 2), torch.ones(1, 1, 2))
    else:  # Llama 4 multiplies by complex numbers
        turned, _ = library.apply_rotary_emb(first, first, torch.full((1, 1, 2), 1j))
    place = turned.flatten().tolist().index(1)
    assert place == (1 if model.get("pairs") == "neighbours" else 2)


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
