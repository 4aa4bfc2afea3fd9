"""The attention layers of a whole model, made of names and shapes."""

import dataclasses
import json

import numpy as np
import pytest

from qkv import MultiHead, dump, find_layers
from qkv.between import Rotation, SoftCap
from qkv.layouts import FoundLayer, layouts
from support import refuses

pytestmark = pytest.mark.usefixtures("unchecked")

UNTOLD = layouts()["llama"].between
BIASED = MultiHead.random(6, 2, bias=True)
PLAIN = MultiHead.random(6, 2)
GROUPED = dataclasses.replace(MultiHead.random(12, 6, h_kv=2, d_k=5), between=UNTOLD)
OTHERS = {"embed.weight": np.ones((11, 6)), "layers.0.mlp.weight": np.ones((7, 6))}


def stacked(mh, layout, *prefixes, form=None):
    """A model with the same layer behind each prefix, and other arrays around them."""
    weights = dict(OTHERS)
    for prefix in prefixes:
        weights |= dump(mh, layout, prefix=prefix, form=form)
    return weights


def unwrapped(found):
    """The table as one line."""
    return " ".join(str(found).split())


def lines(found):
    """The first word of each line of the table."""
    return [line.split()[0] for line in str(found).splitlines()]


def expressible(layout):
    """A layer that a layout can hold, and its numbers of heads."""
    grouped = {"h_kv": 1 if layout.one_or_all else 2} if layout.grouped else {}
    mh = MultiHead.random(12, 4, **grouped, bias=layout.biases != "never")
    held = {part for stored in layout.forms[0].stored for part in stored.parts}
    biases = {f"b_{part}": None for part in "QKVO" if f"b_{part}" not in held}
    return dataclasses.replace(mh, **biases, scale=layout.scale, between=layout.between)


@pytest.mark.parametrize("layout", layouts().values(), ids=layouts())
def test_a_layer_of_each_layout_is_found_and_loaded(layout):
    mh = expressible(layout)
    form = None
    if mh.h_kv < mh.h:
        form = next(each.when for each in layout.forms if "h_kv" in each.symbols)
    slash = "/" if any("/" in stored.name for stored in layout.forms[0].stored) else "."
    prefixes = [f"model{slash}{i}{slash}attn{slash}" for i in range(3)]
    found = find_layers(stacked(mh, layout.name, *prefixes, form=form))
    assert [layer.prefix for layer in found] == prefixes
    for layer in found:
        assert layout.name in layer.layouts
        assert (4, mh.h_kv, 3) in layer.heads
        assert layer.refused == ""
        assert layer.load(h=4, h_kv=mh.h_kv, layout=layout.name) == mh
        assert {*layer.biases} == {f"b_{p}" for p in "QKVO" if getattr(mh, f"b_{p}") is not None}


@pytest.mark.parametrize("layout", ["keras", "flax", "transformerlens"])
def test_heads_with_an_axis_of_their_own_are_told(layout):
    [layer] = find_layers(dump(BIASED, layout, prefix="a."))
    assert layer.heads == ((2, 2, 3),)
    assert (layer.sizes["h"], layer.sizes["d_k"]) == (2, 3)
    assert layer.load() == BIASED


def test_packed_heads_are_not_told_and_their_ratio_is():
    [layer] = find_layers(dump(GROUPED, "llama"))
    assert layer.prefix == ""
    assert layer.sizes == {"d_model": 12, "h·d_k": 30, "h_kv·d_k": 10}
    assert layer.heads == ((3, 1, 10), (6, 2, 5), (15, 5, 2), (30, 10, 1))
    with refuses("prefix '' … h cannot be told … Pass h, one of 3, 6, 15, 30"):
        layer.load()
    assert layer.load(h=6) == GROUPED
    with refuses("k_proj.weight must have shape … The shapes fit h_kv = 2."):
        layer.load(h=6, h_kv=3)
    with refuses("h = 4 does not divide 30"):
        layer.load(h=4)


def test_heads_that_are_said_beforehand():
    weights = dump(GROUPED, "llama", prefix="a.")
    for said in ({"h": 6}, {"h_kv": 2}, {"config": {"num_attention_heads": 6}}):
        [layer] = find_layers(weights, **said)
        assert layer.heads == ((6, 2, 5),)
        assert layer.sizes["h_kv"] == 2
        assert layer.load() == GROUPED
    [layer] = find_layers(weights, config={"head_dim": 5})
    assert layer.load() == GROUPED
    falcon = {"num_attention_heads": 6, "num_kv_heads": 6, "multi_query": True}
    [layer] = find_layers(weights, config=falcon)
    assert layer.refused.startswith("h = 6, h_kv = 1 does not fit")
    [layer] = find_layers(weights, config=falcon | {"num_kv_heads": 2, "multi_query": False})
    assert layer.load() == GROUPED


@pytest.mark.parametrize(
    "config",
    [
        {"encoder_attention_heads": 3, "decoder_attention_heads": 2},
        {"num_attention_heads": 3, "decoder": {"n_head": 2}},
        {"encoder_config": {"num_heads": 3}, "decoder_config": {"num_heads": 2}},
    ],
)
def test_a_configuration_of_two_parts(config):
    weights = stacked(BIASED, "bert", "encoder.0.", "decoder.0.self.", "decoder.0.cross.")
    assert [layer.heads for layer in find_layers(weights, config=config)] == [
        ((3, 3, 2),),
        ((2, 2, 3),),
        ((2, 2, 3),),
    ]


def test_a_configuration_with_a_method():
    class Configuration:
        def to_dict(self):
            return {"num_attention_heads": 2, "num_key_value_heads": None, "head_dim": None}

    [layer] = find_layers(dump(BIASED, "bert"), config=Configuration())
    assert layer.load() == BIASED


def test_a_configuration_that_is_silent_about_a_part():
    weights = stacked(BIASED, "bert", "language_model.0.", "visual.0.", "head.0.")
    config = {"text_config": {"num_attention_heads": 3, "model_type": "bert"}}
    said = [layer.heads for layer in find_layers(weights, config=config)]
    assert [len(heads) for heads in said] == [1, 4, 4]
    config |= {"vision_config": {"num_heads": 2}}
    said = [layer.heads for layer in find_layers(weights, config=config)]
    assert said[:2] == [((3, 3, 2),), ((2, 2, 3),)]
    with refuses("config says nothing of the heads … It is empty. Leave config out"):
        find_layers(weights, config={})
    with refuses("config['num_heads'] must be … but is [2, 4]. Leave config out, and pass h"):
        find_layers(weights, config={"num_heads": [2, 4]})


def test_what_a_configuration_says_acts():
    """A rotation by its base, a scale, a cap and a window; and which mask the model applies."""
    said = {"num_attention_heads": 2, "model_type": "gemma2", "rope_theta": 500.0}
    said |= {"partial_rotary_factor": 0.7, "query_pre_attn_scalar": 4}
    said |= {"attn_logit_softcapping": 30.0, "sliding_window": 3}
    weights = dump(dataclasses.replace(BIASED, between=UNTOLD), "llama", prefix="layers.0.")
    [layer] = found = find_layers(weights, config=said | {"layer_types": ["sliding_attention"]})
    mh = layer.load()
    rotation = Rotation.of(500.0, 2)
    assert mh == dataclasses.replace(BIASED, between=(rotation, SoftCap(30.0)), scale=0.5)
    assert "SoftCap(c=30.0); scale=0.5; a window of 2 keys before; causal." in unwrapped(found)
    seen = np.tril(np.ones((5, 5), bool)) & np.triu(np.ones((5, 5), bool), -2)
    np.testing.assert_array_equal(layer.mask(5), seen)
    np.testing.assert_array_equal(layer.mask(2, 5), seen[3:])


def test_a_configuration_may_take_the_causal_mask_away():
    """`is_causal=False` opens the mask, and beside a window the mask is refused."""
    said = {"num_attention_heads": 2, "model_type": "gemma2", "rope_theta": 500.0}
    said |= {"partial_rotary_factor": 0.7, "sliding_window": 3, "is_causal": False}
    weights = dump(dataclasses.replace(BIASED, between=UNTOLD), "llama", prefix="layers.0.")
    [layer] = found = find_layers(weights, config=said | {"layer_types": ["full_attention"]})
    assert layer.mask(2, 5).all()
    assert "no causal mask." in unwrapped(found)
    [layer] = find_layers(weights, config=said | {"layer_types": ["sliding_attention"]})
    with refuses("The mask is not known. The config says is_causal=False beside a window"):
        layer.mask(5)


def test_positions_that_stand_in_the_embeddings_are_no_step():
    """BERT's own config says that its positions are absolute: nothing acts on the scores."""
    said = {"num_attention_heads": 2, "model_type": "bert", "position_embedding_type": "absolute"}
    [layer] = find_layers(dump(BIASED, "bert", prefix="encoder.layer.0.attention."), config=said)
    assert layer.mask(3).all()
    assert layer.load() == BIASED
    said["position_embedding_type"] = "relative_key"
    with refuses("The mask is not known. The config says 'position_embedding_type'"):
        find_layers(dump(BIASED, "bert", prefix="0."), config=said)[0].mask(3)


def test_a_width_of_the_rotation_beside_a_base_is_not_guessed():
    """GPT-J's `rotary_dim` says all; beside `rope_theta` it depends on the type what it means."""
    weights = dump(dataclasses.replace(BIASED, between=UNTOLD), "llama", prefix="layers.0.")
    said = {"num_attention_heads": 2, "model_type": "llama", "rope_theta": 500.0, "rotary_dim": 2}
    [layer] = find_layers(weights, config=said)
    with refuses(
        "The config has rotary_dim and rope_theta: pass one that AutoConfig has completed"
    ):
        layer.mask(2)


def test_a_type_of_model_that_no_layout_knows_is_refused():
    """Its names and shapes are those of Llama, and what it does between its maps is not known."""
    weights = dump(dataclasses.replace(BIASED, between=UNTOLD), "llama", prefix="layers.0.")
    heads = {"num_attention_heads": 2}
    [layer] = find_layers(weights, config=heads | {"model_type": "llama5"})
    with refuses("No layout knows the config's model_type, 'llama5' … leave config out"):
        layer.load()
    [untold] = found = find_layers(weights, config=heads)  # heads alone
    assert untold.load().between == UNTOLD
    assert "do not tell what stands between the maps" in unwrapped(found)
    with refuses("'layers.0.' may see: pass config"):
        untold.mask(5)


def test_an_option_that_is_not_computed_is_named():
    weights = dump(dataclasses.replace(BIASED, between=UNTOLD), "llama", prefix="layers.0.")
    said = {"num_attention_heads": 2, "model_type": "llama", "use_logn_attn": True}
    said |= {"rope_theta": 1e4, "partial_rotary_factor": 0.7}
    [layer] = found = find_layers(weights, config=said)
    assert "The config says 'use_logn_attn', which may act and is not computed." in unwrapped(found)
    with refuses("'use_logn_attn' … between=()"):
        layer.load()(np.ones((3, BIASED.d_model)))
    for scaling in ({"rope_type": "longrope"}, {"type": "dynamic", "factor": 2.0}):
        [layer] = find_layers(
            weights, config=said | {"use_logn_attn": False, "rope_scaling": scaling}
        )
        with refuses(f"rope_type {next(iter(scaling.values()))!r}"):
            layer.load()(np.ones((3, BIASED.d_model)))
    linear = {"rope_scaling": {"rope_type": "linear", "factor": None}, "use_logn_attn": False}
    [layer] = found = find_layers(weights, config=said | linear)
    assert "rotation is not computed here: No angles follow" in unwrapped(found)
    with refuses("No angles follow from base"):
        layer.load()(np.ones((3, BIASED.d_model)))


def test_a_part_of_a_model_takes_nothing_from_another_parts_configuration():
    weights = stacked(BIASED, "clip", "vision.layers.0.", "audio.layers.0.")
    outer = {"head_dim": 999, "num_key_value_heads": 1, "model_type": "both"}
    vision = {"model_type": "clip_vision_model", "num_attention_heads": BIASED.h}
    seen, heard = find_layers(weights, config=outer | {"vision_config": vision})
    assert seen.load() == BIASED
    assert len({heads.h for heads in heard.heads}) > 1  # of the audio part nothing was said


def test_heads_that_differ_by_stage_are_left_open():
    weights = dump(BIASED, "clip", prefix="blocks.0.")
    said = {"num_attention_heads": 1, "num_attention_heads_per_stage": [1, 2]}
    [layer] = find_layers(weights, config=said | {"head_dim": BIASED.d_k})
    assert layer.load().h == BIASED.h


def test_an_array_without_axes_is_refused():
    for array in (None, np.float64(1)):
        [layer] = find_layers({"a.in_proj_weight": array, "a.out_proj.weight": array})
        assert "must have shape" in layer.refused
        assert "but has shape ()" in layer.refused


def test_no_weights_at_all():
    with refuses("no attention layer … It is empty."):
        find_layers({})


def test_layouts_that_look_alike_are_told_apart_by_the_caller_or_the_model_type():
    """As GPT-NeoX and Falcon: the same names and shapes."""
    mh = dataclasses.replace(BIASED, between=UNTOLD)
    weights = dump(mh, "gpt-neox", prefix="a.")
    found = find_layers(weights, h=2)
    assert {"gpt-neox", "falcon"} <= {*found[0].layouts}
    assert " or ".join(found[0].layouts) in str(found)
    assert "pass layout to load" in unwrapped(found)
    with refuses("prefix 'a.' fits the layouts … pass layout"):
        found[0].load()
    assert found[0].load(layout="gpt-neox") == mh
    [layer] = find_layers(weights, config={"num_attention_heads": 2, "model_type": "gpt_neox"})
    assert layer.layouts == ("gpt-neox",)
    assert layer.load().W_Q.shape == mh.W_Q.shape
    with refuses("The config has no rope_theta"):
        layer.load()(np.ones((3, 6)))


def test_layers_that_are_alike_share_a_line():
    weights = stacked(BIASED, "bert", *(f"encoder.{i}.attn." for i in (0, 1, 2, 5)))
    weights |= stacked(PLAIN, "pytorch", "pool.")
    weights |= dump(BIASED, "bert", prefix="encoder.6.cross.")
    found = find_layers(weights)
    assert lines(found)[1:4] == ["encoder.0-2,5.attn.", "encoder.6.cross.", "pool."]
    assert "6 attention layers." in str(found)


def test_layers_of_other_sizes_have_lines_of_their_own():
    weights = stacked(BIASED, "bert", "a.0.", "a.2.")
    weights |= stacked(MultiHead.random(10, 2, bias=True), "bert", "a.1.")
    said = str(find_layers(weights, h=2))
    assert "a.0,2.  bert    b_Q b_K b_V b_O  h=2, d_model=6, d_k=3\n" in said
    assert "a.1.    bert    b_Q b_K b_V b_O  h=2, d_model=10, d_k=5\n" in said


def test_blocks_within_stages_are_counted_apart():
    places = [f"stage.{i}.block.{j}." for i in range(2) for j in range(3)]
    prefixes = [
        line.split()[0]
        for line in str(find_layers(stacked(PLAIN, "pytorch", *places))).splitlines()
    ]
    assert prefixes[1:3] == ["stage.0.block.0-2.", "stage.1.block.0-2."]


def test_the_table_says_what_is_not_told():
    mh = dataclasses.replace(MultiHead.random(512, 8, h_kv=2), between=UNTOLD)
    said = str(find_layers(dump(mh, "llama", prefix="layers.0.")))
    assert "layers.0.  llama   none    d_model=512, h·d_k=512, h_kv·d_k=128" in said
    said = " ".join(said.split())
    assert "pass h, or config. If d_k is 64, h is 8. If d_k is 128, h is 4." in said
    assert "do not tell what stands between the maps (a rotation," in said
    told = str(find_layers(dump(mh, "llama", prefix="layers.0."), h=8))
    assert "h=8, h_kv=2, d_model=512, d_k=64" in told
    assert "pass h" not in told


def test_what_is_refused_is_listed_with_why():
    weights = stacked(GROUPED, "llama", "layers.0.attn.", "layers.1.attn.")
    weights |= {f"layers.{i}.attn.q_norm.weight": np.ones(5) for i in range(2)}
    weights |= stacked(GROUPED, "llama", "layers.2.attn.")
    found = find_layers(weights, h=6)
    assert [bool(layer.refused) for layer in found] == [True, True, False]
    assert found[0].layouts == found[0].heads == ()
    assert "layers.0-1.attn.  refused          weights holds 'q_norm.weight': it belongs to" in str(
        found
    )
    with refuses("'layers.1.attn.' is refused … QK-norm … leave that name out"):
        found[1].load(h=6)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"gate.weight": np.ones((6, 6))}, "surplus: 'gate.weight'"),
        ({"self.key.bias": None}, "missing: 'self.key.bias'"),
        ({"self.key.bias": np.ones(5)}, "self.key.bias must have shape (h·d_k,)"),
    ],
)
def test_a_layer_that_fits_no_layout_is_listed(change, why):
    weights = dump(BIASED, "bert", prefix="a.")
    for name, array in change.items():
        weights["a." + name] = array
        if array is None:
            del weights["a." + name]
    found = find_layers(weights | dump(BIASED, "gpt2", prefix="b."))
    assert why in found[0].refused
    assert why in str(found)
    assert found[1].load(h=2) == BIASED


def test_heads_that_fit_one_layer_and_not_another():
    weights = stacked(BIASED, "bert", "a.") | dump(MultiHead.random(15, 3), "pytorch", prefix="b.")
    first, second = find_layers(weights, h=2)
    assert first.load() == BIASED
    assert second.refused == "h = 2 does not fit the shapes of the layer with prefix 'b.'."


def test_matrices_named_like_attention_are_not_passed_over_in_silence():
    weights = dump(BIASED, "bert", prefix="a.") | {"b.attn.qkv.weight": np.ones((18, 6))}
    found = find_layers(weights)
    assert found.others == ("b.attn.qkv.weight",)
    assert unwrapped(found).endswith("Named like attention, and not read: 'b.attn.qkv.weight'.")


def test_names_end_at_a_dot():
    """The wq, wk, wv and wo of Llama's own files are no q, k, v and o of T5."""
    weights = {f"layers.0.attention.w{part}.weight": np.ones((6, 6)) for part in "qkvo"}
    with refuses(
        "no attention layer … It has 'layers.0.attention.wq.weight' … named like attention"
    ):
        find_layers(weights)


def test_no_attention_layer_says_what_was_looked_for():
    with refuses(
        "weights has no attention layer that a layout describes. It has 'embed.weight' … "
        "these names were looked for: pytorch: in_proj_weight, out_proj.weight or q_proj_weight … "
        "llama: q_proj.weight, k_proj.weight, v_proj.weight, o_proj.weight;"
    ):
        find_layers(OTHERS)


def test_nested_parameters_and_what_stands_beside_them():
    training = {
        "model": stacked(BIASED, "bert", "a.0."),
        "optimizer": {"state": {0: {"step": 1.0}}, "param_groups": [{"lr": 1e-3}, [1, [2]]]},
        "epoch": 3,
    }
    [layer] = find_layers(training)
    assert layer.prefix == "model/a.0."
    assert layer.load(h=2) == BIASED


@pytest.mark.parametrize(
    ("weights", "said"),
    [([np.ones((6, 6))], "a list. If it holds pairs"), (None, "a NoneType"), (3, "a int")],
)
def test_weights_that_are_no_mapping(weights, said):
    with refuses("weights must be a mapping from names to arrays, but is", said, error=TypeError):
        find_layers(weights)


@pytest.mark.parametrize(
    ("said", "error", "parts"),
    [
        ({"h": 0}, ValueError, "h must be a positive whole number, but is 0"),
        ({"h_kv": 2.0}, ValueError, "h_kv must be a positive whole number, but is 2.0"),
        (
            {"config": "config.json"},
            TypeError,
            'config must be a mapping, such as json.load(open("config.json")), … but is a str',
        ),
        (
            {"config": {"hidden_size": 6}},
            ValueError,
            "config says nothing of the heads … 'num_attention_heads' … It has 'hidden_size'",
        ),
        (
            {"config": {"num_attention_heads": "2"}},
            ValueError,
            "config['num_attention_heads'] must be a positive whole number, but is '2'",
        ),
    ],
)
def test_heads_that_are_no_count(said, error, parts):
    with refuses(parts, error=error):
        find_layers(dump(BIASED, "bert"), **said)


def test_values_of_a_layer():
    [layer] = find_layers(dump(BIASED, "bert"))
    assert isinstance(layer, FoundLayer)
    assert layer.heads[1].h == 2
    assert {*layer.arrays} == {*dump(BIASED, "bert")}
    assert "array(" not in repr(layer)


# Files


@pytest.fixture
def saved(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "model.safetensors"
    safetensors.save_file(stacked(BIASED, "bert", "a.0.", "a.1."), path)
    return path


@pytest.mark.parametrize("as_path", [str, lambda path: path, lambda path: path.parent])
def test_a_safetensors_file_or_the_folder_of_it(saved, as_path):
    first, second = find_layers(as_path(saved))
    assert (first.prefix, second.prefix) == ("a.0.", "a.1.")
    assert first.sizes == {"d_model": 6, "h·d_k": 6, "h_kv·d_k": 6}
    assert second.load(h=2) == BIASED


def test_layers_of_a_file_are_in_the_order_of_their_numbers(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    prefixes = [f"layers.{i}." for i in range(12)]
    safetensors.save_file(stacked(PLAIN, "pytorch", *prefixes), tmp_path / "model.safetensors")
    assert [layer.prefix for layer in find_layers(tmp_path)] == prefixes
    loaded = safetensors.load_file(tmp_path / "model.safetensors")  # layers.10 before layers.2
    assert [layer.prefix for layer in find_layers(loaded)] == prefixes
    some = [f"layers.{i}.{'cross.' if i in (3, 8) else 'self.'}" for i in range(12)]
    by_name = stacked(PLAIN, "pytorch", *sorted(some))
    assert [layer.prefix for layer in find_layers(by_name)] == some
    own = ["encoder.10.", "decoder.2.", "encoder.9.", "decoder.1."]
    found = find_layers(stacked(PLAIN, "pytorch", *own))
    assert [layer.prefix for layer in found] == [own[at] for at in (2, 0, 3, 1)]


def test_a_layer_that_is_cut_over_two_files(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    names = list(weights := dump(BIASED, "bert", prefix="a."))
    for number, part in enumerate((names[:3], names[3:])):
        arrays = {name: weights[name] for name in part}
        safetensors.save_file(arrays, tmp_path / f"model-{number}.safetensors")
    [layer] = find_layers(tmp_path)
    assert layer.load(h=2) == BIASED


def test_shapes_are_read_without_numbers(saved, monkeypatch):
    from qkv.layouts._files import OnDisk

    def numbers_are_read(*_):
        raise AssertionError("numbers are read")

    monkeypatch.setattr(OnDisk, "__array__", numbers_are_read)
    first, _ = find_layers(saved)
    with pytest.raises(AssertionError, match="numbers are read"):
        first.load(h=2)


def test_a_file_that_cannot_be_opened(tmp_path):
    (tmp_path / "model.safetensors").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"model\.safetensors"):
        find_layers(tmp_path)


def test_a_norm_in_bfloat16_is_read_in_memory():
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4}
    sizes |= {"num_hidden_layers": 1, "intermediate_size": 8, "vocab_size": 8}
    config = transformers.Qwen3Config(**sizes)
    model = transformers.Qwen3Model(config).to(torch.bfloat16)
    found = find_layers(model.state_dict(), config=config)
    assert found[0].load().W_Q.dtype == np.float32
    assert found[0].mask(3).shape == (3, 3)
    assert "QKNorm(g_Q (4,)" in str(found)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_numbers_are_read(tmp_path, dtype):
    """Of bfloat16 NumPy has only the float32 that begins alike."""
    torch = pytest.importorskip("torch")
    save_file = pytest.importorskip("safetensors.torch").save_file
    tensors = {
        name: torch.tensor(array).to(getattr(torch, dtype))
        for name, array in dump(BIASED, "bert", prefix="a.").items()
    }
    save_file(tensors, tmp_path / "model.safetensors")
    [layer], [on_disk] = find_layers(tensors, h=2), find_layers(tmp_path, h=2)
    assert on_disk.load() == layer.load()
    assert on_disk.load().W_Q.dtype == {"bfloat16": np.float32, "float16": np.float16}[dtype]
    np.testing.assert_allclose(on_disk.load().W_Q, BIASED.W_Q, rtol=0.01)


def test_the_index_says_which_file_holds_a_name(tmp_path):
    save_file = pytest.importorskip("safetensors.numpy").save_file
    weights = dump(BIASED, "bert", prefix="a.")
    index = tmp_path / "model.safetensors.index.json"
    save_file(weights, tmp_path / "model-1.safetensors")
    stale = {name: np.zeros_like(array) for name, array in weights.items()}
    save_file(stale, tmp_path / "model.safetensors")
    with refuses("Two files of … 'model-1.safetensors' and 'model.safetensors'"):
        find_layers(tmp_path)
    index.write_text(json.dumps({"weight_map": dict.fromkeys(weights, "model-1.safetensors")}))
    assert find_layers(tmp_path)[0].load(h=2) == BIASED
    index.write_text(json.dumps({"weight_map": dict.fromkeys(weights, "model-2.safetensors")}))
    with refuses("says that 'a. … is in 'model-2.safetensors', which is not in the folder"):
        find_layers(tmp_path)
    index.write_text(json.dumps({"weight_map": dict.fromkeys(weights, 3)}))
    with refuses("says that 'a. … is in 3, which is not in the folder"):
        find_layers(tmp_path)
    index.write_text("[]")
    with refuses("has no weight_map"):
        find_layers(tmp_path)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("q_proj.qweight", "quantised by GPTQ or AWQ"),
        ("q_proj.weight.absmax", "quantised by bitsandbytes"),
        ("q_proj.lora_A.weight", "an adapter's (LoRA)"),
    ],
)
def test_weights_that_are_stored_otherwise_get_a_sentence(name, said):
    with refuses("no attention layer that can be read", said) as error:
        find_layers({f"layers.0.{name}": np.ones((2, 2))})
    assert len(str(error.value)) < 400


def test_files_that_are_none(tmp_path):
    pytest.importorskip("safetensors")
    with refuses("has no file that ends in .safetensors"):
        find_layers(tmp_path)
    with refuses("model.pt'. Of a file of PyTorch pass torch.load(path, weights_only=True)"):
        find_layers(tmp_path / "model.pt")
    with pytest.raises(FileNotFoundError):
        find_layers(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1")
    with refuses("model.safetensors' is no whole safetensors file: "):
        find_layers(tmp_path)
    header = json.dumps({"W": {"dtype": "F32", "shape": [2.5], "data_offsets": [0, 10]}}).encode()
    whole = len(header).to_bytes(8, "little") + header + bytes(10)
    (tmp_path / "model.safetensors").write_bytes(whole)
    with refuses("model.safetensors' is no whole safetensors file: 'float' object"):
        find_layers(tmp_path)


# What the review of libraries found


@pytest.mark.parametrize(
    ("layout", "model_type"),
    [
        ("clip", "mlcd_vision_model"),  # it rotates, and stores what CLIP stores
        ("timm", "qwen2_vl"),  # so does its vision tower
        ("gptj", "pegasus_x"),  # its decoder does not rotate
        ("llama", "nemotron_h"),
    ],
)
def test_a_type_that_is_not_known_is_never_loaded_as_one_that_is_near(layout, model_type):
    mh = dataclasses.replace(BIASED, between=layouts()[layout].between)
    biases = dict.fromkeys(("b_Q", "b_K", "b_V", "b_O"))
    mh = mh if layouts()[layout].biases != "never" else dataclasses.replace(mh, **biases)
    weights = dump(mh, layout, prefix="a.0.")
    [layer] = find_layers(weights, config={"model_type": model_type, "num_attention_heads": 2})
    with refuses("is refused", f"No layout knows the config's model_type, {model_type!r}"):
        layer.load()
    [untold] = found = find_layers(weights, h=2)  # without a config the table says what is open
    assert "do not tell what stands between the maps (a rotation," in unwrapped(found)
    if layouts()[layout].rotary:
        with refuses("Most models with such names rotate"):
            untold.load()(np.ones((3, 6)))


def test_what_a_config_does_not_say_is_not_asked_of_it():
    weights = dump(BIASED, "pytorch", prefix="image.") | dump(BIASED, "pytorch", prefix="text.")
    config = {"text_config": {"model_type": "x", "num_attention_heads": 2}}
    [image, _] = found = find_layers(weights, config=config)
    assert "do not show their number, and config does not say it: pass h." in unwrapped(found)
    with refuses("h cannot be told … ; config does not say it."):
        image.load()
    with refuses("h cannot be told … ; config.json says it."):
        find_layers(weights)[0].load()


def test_errors_quote_no_sizes_that_were_only_tried():
    weights = dump(BIASED, "bert", prefix="a.") | {"a.self.query.weight": np.ones((6, 5, 2))}
    [layer] = find_layers(weights)
    assert layer.refused == (
        "self.query.weight must have shape (h·d_k, d_model), but has shape (6, 5, 2)."
    )


def test_layers_on_an_axis_of_their_own():
    """As flax.linen.scan stacks them."""
    stacked_up = {name: np.stack([a] * 4) for name, a in dump(BIASED, "flax", prefix="a/").items()}
    [layer] = find_layers(stacked_up)
    assert layer.refused.endswith("stacked on the first axis: pass the arrays of one.")


def test_names_of_a_known_model_that_a_layout_calls_otherwise():
    """DistilBERT's; with its config they are changed."""
    weights = {
        name.replace("_proj", "_lin"): array
        for name, array in dump(BIASED, "clip", prefix="layer.0.attention.").items()
    }
    with refuses("The names are those of a model of type 'distilbert': pass its config"):
        find_layers(weights)
    [layer] = find_layers(weights, config={"model_type": "distilbert", "n_heads": 2})
    assert layer.load() == BIASED


def test_refused_layers_that_are_alike_share_a_line_whatever_their_prefix():
    weights = stacked(BIASED, "pytorch", "layers.0.attn.", "layers.1.attn.")
    found = find_layers(weights, h=4)
    assert lines(found)[1] == "layers.0-1.attn."
    assert "h = 4 does not fit the shapes" in str(found)
