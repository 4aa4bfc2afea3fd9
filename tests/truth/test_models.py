"""The table of models says what is so: each model, built small, is asked for every line of it."""

import inspect
from functools import partial

import numpy as np
import pytest
from small_models import built, called, configured

import qkv
from qkv.layouts import layouts
from qkv_site.tables import models

BUILT = {model["type"]: model for model in models.models() if "type" in model}
LOADED = {name: model for name, model in BUILT.items() if "layout" in model}
SAVED = {name: model for name, model in BUILT.items() if "file" in model}

COMPUTED = [name for name in BUILT if models.is_computed(BUILT[name])]
RENAMED = [name for name in LOADED if name not in COMPUTED]


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


def first_layer(name, **options):
    grouped = {"new_decoder_architecture": True} if name == "falcon" else {}
    config = configured(name, **grouped | options)
    return qkv.find_layers(built(config).state_dict(), config=config)[0]


@pytest.mark.parametrize("name", COMPUTED)
def test_a_models_first_layer_is_as_the_table_says(name):
    """The first layer of a model is found under the layout and the prefix that the table gives it.

    Covers: the models of Transformers in the table that are computed, each built small.
    """
    model, found = BUILT[name], first_layer(name)
    mh = found.load()
    assert (found.prefix, found.layouts) == (model["layer"], (model["layout"],))
    assert found.biases == tuple(model.get("biases", "").split())
    assert [type(step).__name__ for step in mh.between] == model.get("between", "").split()
    assert mh.h_kv == {"fewer heads": 2, "one head": 1}.get(model.get("keys"), 4)
    if "width" in model:
        assert first_layer(name, **{model["width"]: 12}).load().d_k == 12


@pytest.mark.parametrize("name", RENAMED)
def test_a_model_that_is_not_computed_loads_under_the_layouts_names(name):
    """A layer of ModernBERT loads, once its names are those of the table's layout.

    Covers: one layer, built small.
    """
    model = BUILT[name]
    mh = qkv.load(weights_of(model, built(configured(name))), model["layout"], h=4)
    biases = {b for b in ("b_Q", "b_K", "b_V", "b_O") if getattr(mh, b) is not None}
    assert biases == {*model.get("biases", "").split()}


@pytest.mark.parametrize("name", SAVED)
def test_a_saved_models_layer_loads_under_the_names_of_its_file(name, tmp_path):
    """A layer of ViT or of DINOv2 has other names in a file, and loads under the layout of BERT.

    Covers: ViT and DINOv2 as Transformers saves them.
    """
    pytest.importorskip("safetensors")
    saved, config = BUILT[name]["file"], configured(name)
    model = built(config)
    model.save_pretrained(tmp_path)
    [kept, *_] = qkv.find_layers(model.state_dict(), config=config)
    [read, *_] = qkv.find_layers(tmp_path, h=kept.load().h)
    assert (read.prefix, read.layouts) == (saved["layer"], (saved["layout"],))
    assert read.load() == kept.load()


DENSE = {"num_key_value_heads": 4, "first_k_dense_replace": 4, "qk_rope_head_dim": 8}


without_a_layout = pytest.mark.parametrize(
    "model", [model for model in BUILT.values() if "layout" not in model], ids=lambda m: m["type"]
)


@without_a_layout
def test_the_rotation_of_deepseek_turns_neighbours(torch, model, monkeypatch):
    """The rotation of DeepSeek-V2 and V3 turns neighbours as pairs.

    Covers: the function that a small model with the default options calls, at one position.
    """
    small, calls = built(configured(model["type"], **DENSE)), []
    module = inspect.getmodule(type(small))

    def kept(rotate, *given):
        calls.append((rotate, given))
        return rotate(*given)

    for name in [name for name in vars(module) if name.startswith("apply_rotary")]:
        monkeypatch.setattr(module, name, partial(kept, getattr(module, name)))
    called(small)
    rotate, (Q, _, *angles) = calls[0]
    words, width = Q.shape[-2:]
    each = torch.eye(width, dtype=Q.dtype)[None, :, None].expand(len(Q), -1, words, -1)
    turned_ones = rotate(each, each, *angles)[0][0, :, 1].numpy()  # at position 1
    mixed = (turned_ones @ turned_ones.T).round(6)
    assert np.array_equal(mixed, np.eye(width))  # it is a rotation
    goes_to = np.abs(turned_ones) > 1e-12  # two coordinates are a pair if the rotation mixes them
    pairs = {(int(i), int(j)) for i, j in np.argwhere(goes_to @ goes_to.T) if i < j}
    assert model["pairs"] == "neighbours"
    assert pairs == {(i, i + 1) for i in range(0, width, 2)}


def test_llama_4_rotates_in_three_layers_of_four():
    """Llama 4 rotates in three layers of four by default."""
    model = built(configured("llama4_text", num_hidden_layers=8))
    rotates = [bool(layer.self_attn.use_rope) for layer in model.layers]
    assert rotates == 2 * [True, True, True, False]


@without_a_layout
def test_a_model_without_a_layout_is_refused(model):
    """A model's first layer is refused by each layout if the table of models gives it none.

    Covers: DeepSeek-V2 and V3, with each layout.
    """
    stored = weights_of(model, built(configured(model["type"], **DENSE)))
    assert stored
    for layout in layouts():
        with pytest.raises(ValueError, match="missing: "):
            qkv.load(stored, layout, h=4)


UNSEEN = [
    pytest.param(model, each, id=f"{name}-{each['option']}")
    for name, model in BUILT.items()
    for each in model.get("unseen", ())
]


@pytest.mark.parametrize(("model", "unseen"), UNSEEN)
def test_an_option_in_the_table_changes_the_output_and_no_name(torch, model, unseen):
    """An option "Not in the weights" changes the output, and no name and no shape of a weight.

    Covers: each such option of each model in the table, with one value.
    """
    options = {"num_hidden_layers": 2, "new_decoder_architecture": True}
    plain, other = (
        built(configured(model["type"], **options | more))
        for more in ({}, {unseen["option"]: unseen["value"]})
    )
    stored = plain.state_dict()
    shapes = {name: array.shape for name, array in stored.items()}
    assert {name: array.shape for name, array in other.state_dict().items()} == shapes
    other.load_state_dict(stored)
    tokens = torch.arange(3, 10)[None]
    states = [m.float()(input_ids=tokens).last_hidden_state for m in (plain, other)]
    assert not np.allclose(*states, rtol=0, atol=1e-4)
