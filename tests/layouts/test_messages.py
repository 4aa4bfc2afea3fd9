"""Every refusal says what came, what was expected, and what would fit."""

import dataclasses
import re

import numpy as np
import pytest

from qkv import MultiHead, dump, find_layers, load
from qkv.between import Rotation
from qkv.layouts import layouts
from support import refuses

pytestmark = pytest.mark.usefixtures("unchecked")

BIASED = MultiHead.random(6, 2, bias=True)
ROTATED = (Rotation.of(1e4, 2),)
PLAIN = MultiHead.random(6, 2)
GROUPED = dataclasses.replace(MultiHead.random(12, 4, h_kv=2, d_k=5), between=ROTATED)


def test_unknown_layout():
    for call in (lambda: load({}, "torch", h=2), lambda: dump(PLAIN, "torch")):
        with refuses(
            "layout must be one of 'pytorch', 'keras'", f"{[*layouts()][-1]!r}, but is 'torch'"
        ):
            call()


def test_missing_name():
    weights = dump(BIASED, "bert")
    del weights["self.key.bias"]
    with refuses("layout 'bert'; missing: 'self.key.bias'. … expected: … bias of zeros"):
        load(weights, "bert", h=2)


@pytest.mark.parametrize("lost", ["in_proj_bias", "out_proj.bias"])
def test_a_bias_that_was_lost_is_not_made_of_zeros(lost):
    """PyTorch stores all biases or none, so zeros would be another layer."""
    weights = dump(BIASED, "pytorch")
    del weights[lost]
    with refuses(f"missing: '{lost}'", "'pytorch' stores all biases or none", "was lost"):
        load(weights, "pytorch", h=2)


def test_maps_of_other_names_are_led_to_names():
    """An own layer's q, k, v and o have the names of T5, which has no biases."""
    weights = {f"{name}.weight": np.ones((6, 6)) for name in "qkvo"}
    weights |= {f"{name}.bias": np.ones(6) for name in "qkvo"}
    with refuses("surplus: 'k.bias' … A layer of your own loads with names and stored."):
        load(weights, "t5", h=2)
    [layer] = find_layers(weights, h=2)
    assert "A layer of your own loads with names and stored." in layer.refused
    names = {f"{what}_{name.upper()}": f"{name}.{stored}" for name in "qkvo"
             for what, stored in (("W", "weight"), ("b", "bias"))}  # fmt: skip
    assert load(weights, h=2, names=names, stored="(out, in)").b_K.shape == (2, 3)


def test_quantised_weights_beside_their_scales():
    weights = dump(BIASED, "bert")
    weights |= {"self.query.SCB": np.ones(6)}
    with refuses("surplus: 'self.query.SCB' … quantised by bitsandbytes"):
        load(weights, "bert", h=2)


def test_surplus_name():
    weights = dump(BIASED, "bert") | {"self.gate.weight": np.ones((6, 6))}
    with refuses("layout 'bert'; surplus: 'self.gate.weight'. … It has … expected:"):
        load(weights, "bert", h=2)


def test_names_of_another_layout():
    with refuses("missing:  … surplus:  … These names and shapes fit 'gpt2'."):
        load(dump(BIASED, "gpt2"), "bert", h=2)


@pytest.mark.parametrize(
    ("mh", "written", "asked", "modules"),
    [
        (dataclasses.replace(BIASED, b_K=None), "whisper", "whisper", {"_proj": "_linear"}),
        (MultiHead.random(6, 2, h_kv=1), "flax", "keras", {"out/": "attention_output/"}),
    ],
)
def test_modules_of_other_names(mh, written, asked, modules):
    """As in code that people write, and in Keras' GroupedQueryAttention."""
    weights = dump(mh, written)
    for known, other in modules.items():
        weights = {name.replace(known, other): array for name, array in weights.items()}
    names = {
        "whisper": "'q_proj.weight' for 'q_linear.weight'",
        "flax": "'out/kernel' for 'attention",
    }
    with refuses(f"The shapes fit {written!r}, which has other names: ", names[written]):
        load(weights, asked, h=2, h_kv=mh.h_kv)


def test_a_long_list_of_names_is_cut():
    weights = {f"layers.{i}": np.ones(2) for i in range(100)}
    with refuses("It has 'layers.0' … and 84 more; expected"):
        load(weights, "gpt2", h=2)


@pytest.mark.parametrize("prefix", ["", "decoder."])
def test_a_forgotten_prefix(prefix):
    weights = dump(BIASED, "pytorch", prefix="encoder.layers.0.self_attn.")
    with refuses("Layout 'pytorch' is there with prefix = 'encoder.layers.0.self_attn.'."):
        load(weights, "pytorch", h=2, prefix=prefix)


def test_a_prefix_that_stops_short():
    weights = dump(BIASED, "pytorch", prefix="layers.0.self_attn.")
    with refuses("is there with prefix = 'layers.0.self_attn.'"):
        load(weights, "pytorch", h=2, prefix="layers.0.")


@pytest.mark.parametrize("prefix", ["", "model.", "x."])
def test_of_a_prefix_that_is_missing_nothing_else_is_said(prefix):
    weights = {"lm_head.weight": np.ones((3, 12))}
    for i in range(6):
        weights |= dump(GROUPED, "llama", prefix=f"model.layers.{i}.self_attn.")
    each = ", ".join(f"'model.layers.{i}.self_attn.'" for i in range(4))
    with pytest.raises(ValueError, match="there with prefix") as raised:
        load(weights, "llama", h=4, h_kv=2, prefix=prefix)
    assert str(raised.value) == (
        f"Layout 'llama' is there with prefix = {each} and 2 more. But prefix is {prefix!r}."
    )


def test_gpt2_stored_as_nanogpt_and_the_reverse():
    for layout, other in (("gpt2", "nanogpt"), ("nanogpt", "gpt2")):
        with refuses(
            "must have shape", "but has shape", "These names and shapes fit", f"'{other}'."
        ):
            load(dump(BIASED, other), layout, h=2)


def test_transposed_matrices():
    weights = {name: array.T for name, array in dump(GROUPED, "llama").items()}
    with refuses("Every matrix looks transposed: layout 'llama' stores (out, in)."):
        load(weights, "llama", h=4, h_kv=2)


def test_fewer_heads_of_keys_where_a_layout_has_no_such():
    square, fewer = np.ones((8, 8)), np.ones((4, 8))
    weights = {"to_q.weight": square, "to_k.weight": fewer, "to_v.weight": fewer}
    weights |= {"to_out.0.weight": square, "to_out.0.bias": np.ones(8)}
    with refuses("looks transposed", "Or keys and values have fewer heads than queries"):
        load(weights, "diffusers", h=4)
    turned = {"to_q.weight": np.ones((12, 8)), "to_out.0.weight": np.ones((8, 12))}
    turned |= dict.fromkeys(("to_k.weight", "to_v.weight"), np.ones((5, 8)))
    with pytest.raises(ValueError, match=r"transposed: layout 'diffusers' stores \(out, in\)\.$"):
        load(weights | turned | {"to_out.0.bias": np.ones(12)}, "diffusers", h=4)


def test_heads_on_an_axis_of_their_own():
    weights = dump(BIASED, "gpt2")
    weights["c_attn.weight"] = weights["c_attn.weight"].reshape(6, 3, 6)
    with refuses(
        "c_attn.weight must have shape (d_model, 3·h·d_k) = (d_model, 6·d_k), "
        "but has shape (6, 3, 6)."
    ):
        load(weights, "gpt2", h=2)


def test_one_wrong_shape_behind_a_prefix():
    weights = dump(BIASED, "bert", prefix="x.") | {"x.self.key.bias": np.ones(5)}
    with refuses(
        "self.key.bias must have shape (h·d_k,) = (6,), but has shape (5,). … prefix = 'x.'"
    ):
        load(weights, "bert", h=2, prefix="x.")


def test_a_width_that_the_library_fixes():
    weights = {
        "to_qkv.weight": np.ones((18, 5)),
        "to_out.0.weight": np.ones((5, 6)),
        "to_out.0.bias": np.ones(5),
    }
    assert load(weights, "vit-pytorch", h=2).d_model == 5
    names = ("c_attn.weight", "c_proj.weight")
    with refuses("Layout 'nanogpt' has d_model = h·d_k … d_model = 5, h = 2, d_k = 3."):
        load(dict(zip(names, weights.values(), strict=False)), "nanogpt", h=2)


def test_heads_that_do_not_divide():
    with refuses("c_attn.weight must have shape … h = 4 does not divide 6."):
        load(dump(BIASED, "gpt2"), "gpt2", h=4)
    with refuses("h_kv must divide h, but h_kv = 3 and h = 4."):
        load(dump(GROUPED, "llama"), "llama", h=4, h_kv=3)


def test_parts_that_are_not_equally_long():
    weights = dump(GROUPED, "phi3")
    with refuses(
        "qkv_proj.weight must have shape ((h+2·h_kv)·d_k, d_model) = (9·d_k, d_model), but has … "
        "(40, 12). h+2·h_kv = 9 does not divide 40."
    ):
        load(weights, "phi3", h=3, h_kv=3)
    with refuses("h+2·h_kv = 6 does not divide 40. … The shapes fit h_kv = 2."):
        load(weights, "phi3", h=4, h_kv=1)


def test_heads_that_do_not_fill_four_blocks():
    mh = dataclasses.replace(MultiHead.random(6, 2), between=ROTATED)
    with refuses("4 must divide h, but h = 2."):
        dump(mh, "codegen")
    weights = dump(dataclasses.replace(MultiHead.random(12, 4), between=ROTATED), "codegen")
    with refuses("4 must divide h, but h = 6."):
        load(weights, "codegen", h=6)
    with refuses("4 must divide h, but h = 2."):
        layouts()["codegen"].shapes(d_model=6, h=2, d_k=3)


def test_another_number_of_heads_where_they_have_an_axis():
    with refuses(
        "W_Q must have shape (h, d_model, d_k) = (4, d_model, d_k), but has shape (2, 6, 3). … "
        "h = 4 does not divide 2."
    ):
        load(dump(BIASED, "transformerlens"), "transformerlens", h=4)


@pytest.mark.parametrize("h", [0, -2, 2.0, "2", None])
def test_heads_that_are_no_count(h):
    with refuses(f"h must be a positive whole number, but is {h!r}."):
        load(dump(BIASED, "gpt2"), "gpt2", h=h)


def test_grouped_heads_that_were_not_named():
    with refuses("k_proj.weight must have shape … The shapes fit h_kv = 2."):
        load(dump(GROUPED, "llama"), "llama", h=4)


def test_grouped_heads_where_the_library_has_none():
    with refuses("Layout 'gpt2' has as many heads … h = 2 and h_kv = 1."):
        load(dump(BIASED, "gpt2"), "gpt2", h=2, h_kv=1)


@pytest.mark.parametrize(
    ("layout", "name", "why"),
    [
        ("pytorch", "bias_k", "extra token"),
        ("pytorch", "bias_v", "extra token"),
        ("llama", "q_norm.weight", "QK-norm"),
        ("flax", "key_ln/scale", "QK-norm"),
        ("timm", "q_norm.weight", "QK-norm"),
        ("llama", "sinks", "sum in its softmax"),
        ("megatron", "q_layernorm.weight", "QK-norm"),
        ("timm", "norm.weight", "between the heads and the output map"),
        ("timm", "gate.weight", "sigmoid"),
        ("diffusers", "norm_k.weight", "QK-norm"),
        ("diffusers", "add_k_proj.weight", "second source"),
        ("keras", "gate/kernel", "sigmoid"),
        ("t5", "relative_attention_bias.weight", "added to the scores"),
        ("bert", "self.distance_embedding.weight", "added to the scores"),
        ("transformerlens", "q_norm.w", "QK-norm"),
        ("transformerlens", "rotary_sin", "pass between to load"),
    ],
)
def test_what_multihead_cannot_express(layout, name, why):
    with refuses(f"weights holds '{name}': ", why, "leave that name out"):
        load({name: np.ones((1, 1, 6))}, layout, h=2)


def test_no_mapping():
    with refuses("weights must be a mapping from names to arrays, but is a list", error=TypeError):
        load([np.ones((6, 6))], "pytorch", h=2)
    with refuses("but is a list. If it holds pairs, pass dict(weights).", error=TypeError):
        load(list(dump(BIASED, "gpt2").items()), "gpt2", h=2)


def test_a_module_in_place_of_its_state_dict():
    torch = pytest.importorskip("torch")
    with refuses("but is a MultiheadAttention. Pass its state_dict().", error=TypeError):
        load(torch.nn.MultiheadAttention(6, 2), "pytorch", h=2)


def test_a_list_of_another_length():
    with refuses("must have 8 (query/kernel … or 4 (query/kernel … arrays, but has 3."):
        load([np.ones((6, 2, 3))] * 3, "keras", h=2)
    with refuses("but has 10. A longer list may hold 'gate': use_gate=True"):
        load([np.ones((6, 2, 3))] * 10, "keras", h=2)


def test_quantised_weights():
    weights = {name: array.astype(np.int8) for name, array in dump(BIASED, "gpt2").items()}
    with refuses(
        "weights['c_attn.weight'] must hold floating-point numbers … int8", error=TypeError
    ):
        load(weights, "gpt2", h=2)


def test_float8():
    torch = pytest.importorskip("torch")
    weights = {
        name: torch.tensor(array).to(torch.float8_e4m3fn)
        for name, array in dump(BIASED, "gpt2").items()
    }
    with refuses("must be an array of shape ( … undo a quantisation first", error=TypeError):
        load(weights, "gpt2", h=2)


def test_dump_of_a_rotation():
    with refuses(
        "'gpt2' … does not rotate … between = (Rotation( … can hold this layer as it is: 'llama'"
    ):
        dump(GROUPED, "gpt2")
    with refuses(
        "'llama' … model that rotates … between = () … between=layouts()['llama'].between"
    ):
        dump(PLAIN, "llama")


def test_dump_of_another_scale_and_its_way_out():
    with refuses("'t5' has scale = 1.0", "scale = None", f"by {3**-0.5}, and set scale=1.0."):
        dump(PLAIN, "t5")
    moved = dataclasses.replace(PLAIN, W_Q=PLAIN.W_Q * 3**-0.5, scale=1.0)
    X = np.random.default_rng(0).normal(size=(5, 6))
    np.testing.assert_allclose(moved(X), PLAIN(X), rtol=1e-12)
    assert load(dump(moved, "t5"), "t5", h=2) == moved
    with refuses("'gpt2' has scale = None … scale = 1.0 … set scale=None."):
        dump(moved, "gpt2")


def test_dump_of_missing_biases_and_the_way_out():
    with refuses(
        "'gpt2' stores b_Q, b_K, b_V, b_O (always), but b_Q is None. … "
        "dataclasses.replace(mh, b_Q=np.zeros((2, 3), np.float64)) … "
        "can hold this layer as it is: 'pytorch'"
    ):
        dump(PLAIN, "gpt2")
    with refuses(
        "'pytorch' stores b_Q, b_K, b_V, b_O (all or none), but b_O is None … np.zeros((6,)"
    ):
        dump(dataclasses.replace(BIASED, b_O=None), "pytorch")


def test_dump_of_a_surplus_bias():
    with refuses("'tensor2tensor' has no place for b_Q."):
        dump(BIASED, "tensor2tensor")


def test_dump_of_a_key_bias_and_why_it_can_go():
    with refuses("'whisper' has no place for b_K. … softmax removes it … replace(mh, b_K=None)"):
        dump(BIASED, "whisper")
    X = np.random.default_rng(0).normal(size=(5, 6))
    without = dataclasses.replace(BIASED, b_K=None)
    np.testing.assert_allclose(without(X), BIASED(X), rtol=1e-12)
    assert load(dump(without, "whisper"), "whisper", h=2) == without


def test_dump_of_a_key_bias_that_a_rotation_makes_count():
    """Softmax does not remove it there, so the message does not say so."""
    rotated = dataclasses.replace(BIASED, b_Q=None, b_V=None, b_O=None, between=ROTATED)
    with pytest.raises(ValueError, match="'phi3' has no place for b_K") as raised:
        dump(rotated, "phi3")
    assert "softmax" not in str(raised.value)


def test_dump_of_grouped_heads():
    with refuses(
        "Layout 'haiku' has as many heads of keys and values as of queries, "
        "but h = 4 and h_kv = 2. … "
        "Layouts that can hold"
    ):
        dump(dataclasses.replace(GROUPED, between=()), "haiku")


@pytest.mark.parametrize("bias", [False, True])
def test_dump_of_grouped_heads_says_how_the_layer_fits(bias):
    mh = MultiHead.random(12, 4, h_kv=2, bias=bias)
    with pytest.raises(ValueError, match="the layer is the same: ") as raised:
        dump(mh, "pytorch")
    said = re.search(r"the layer is the same: (.*\))\.", str(raised.value))[1]
    full = eval(said, {"dataclasses": dataclasses, "mh": mh})
    X = np.random.default_rng(0).normal(size=(5, 12))
    np.testing.assert_allclose(load(dump(full, "pytorch"), "pytorch", h=4)(X), mh(X), rtol=1e-9)


def test_dump_without_what_stands_between_is_another_layer():
    rotated = dataclasses.replace(PLAIN, between=ROTATED)
    with refuses("all the same, for a layer that computes something else: dataclasses.replace"):
        dump(rotated, "pytorch")


def test_dump_of_a_number_of_key_heads_that_the_library_does_not_have():
    grouped = MultiHead.random(24, 4, h_kv=2, bias=True)
    with refuses(
        "'gpt-bigcode' has one head of keys and values, or as many as of queries, "
        "but h = 4 and h_kv = 2. … "
        "'flax', 'transformerlens'."
    ):
        dump(grouped, "gpt-bigcode")
    for h_kv in (1, 4):
        mh = MultiHead.random(24, 4, h_kv=h_kv, bias=True)
        assert load(dump(mh, "gpt-bigcode"), "gpt-bigcode", h=4, h_kv=h_kv) == mh


def test_dump_of_one_head_for_which_the_library_has_other_arrays():
    whole = dataclasses.replace(MultiHead.random(6, 1), b_O=np.ones(6))
    with refuses("'vit-pytorch' has other arrays … h = 1 and d_k = d_model = 6. … 'timm'"):
        dump(whole, "vit-pytorch")


def test_dump_of_other_widths():
    with refuses("'pytorch' has d_model = h·d_k … 'keras', 'flax', 'haiku', 'tensor2tensor'."):
        dump(MultiHead.random(6, 2, d_k=5), "pytorch")
    with refuses(
        "For layout 'pytorch' W_V must have shape (h, d_source_v, d_k) = (2, d_source_v, 3) … "
        "but has shape (2, 6, 5). … 'keras'"
    ):
        dump(MultiHead.random(6, 2, d_v=5), "pytorch")


def test_dump_in_a_form_of_another_name():
    with refuses("form must be one of 'self-attention', 'cross-attention', but is 'cross'."):
        dump(BIASED, "gpt2", form="cross")


def test_dump_in_a_form_that_cannot_hold_the_layer():
    wide = dataclasses.replace(PLAIN, W_K=np.ones((2, 5, 3)))
    with refuses("W_K must have shape (h, d_model, d_k) = (2, 6, 3), but has shape (2, 5, 3)."):
        dump(wide, "pytorch", form="kdim = vdim = embed_dim")


def test_dump_of_two_dtypes_in_one_array():
    mixed = dataclasses.replace(PLAIN, W_K=PLAIN.W_K.astype(np.float32))
    with refuses(
        "'pytorch' stores W_Q W_K W_V in one array … float32 and float64", error=TypeError
    ):
        dump(mixed, "pytorch")
