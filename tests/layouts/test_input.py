from dataclasses import replace

import numpy as np
import pytest

from qkv import MultiHead, dump, load
from qkv.layouts import layouts


@pytest.fixture
def mh():
    return MultiHead.random(6, 2, bias=True)


def nested(weights):
    tree = {}
    for name, array in weights.items():
        module, _, parameter = name.rpartition("/")
        tree.setdefault(module, {})[parameter] = array
    return tree


def test_nested_parameters(mh):
    assert load(nested(dump(mh, "haiku")), "haiku", h=2) == mh


def test_nested_parameters_behind_a_prefix(mh):
    params = {"params": {"encoder": nested(dump(mh, "flax")), "head": {"kernel": np.ones((2, 3))}}}
    assert load(params, "flax", h=2, prefix="params/encoder/") == mh


def test_paths_as_tuples(mh):
    flat = {tuple(name.split("/")): array for name, array in dump(mh, "flax").items()}
    assert load(flat, "flax", h=2) == mh


@pytest.mark.parametrize("bias", [True, False])
def test_keras_list(bias):
    mh = MultiHead.random(6, 2, bias=bias)
    assert load(list(dump(mh, "keras").values()), "keras", h=2) == mh


def test_anything_numpy_can_convert(mh):
    weights = {name: array.tolist() for name, array in dump(mh, "gpt2").items()}
    assert load(weights, "gpt2", h=2) == mh


def test_a_tensor_that_requires_its_gradient(mh):
    torch = pytest.importorskip("torch")
    weights = {
        name: torch.nn.Parameter(torch.tensor(array)) for name, array in dump(mh, "gpt2").items()
    }
    assert load(weights, "gpt2", h=2) == mh


def test_a_safetensors_file(mh, tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    safetensors.save_file(dump(mh, "bert", prefix="layer.0."), tmp_path / "model.safetensors")
    weights = safetensors.load_file(tmp_path / "model.safetensors")
    assert load(weights, "bert", h=2, prefix="layer.0.") == mh


def test_names_of_other_layers_are_left_alone_behind_a_prefix(mh):
    weights = dump(mh, "gpt2", prefix="h.0.attn.") | dump(mh, "bert", prefix="h.1.")
    assert load(weights, "gpt2", h=2, prefix="h.0.attn.") == mh


@pytest.mark.parametrize(
    ("layout", "outside"),
    [
        ("gpt2", {"bias": np.ones((1, 1, 5, 5), dtype=bool), "masked_bias": -1e4}),
        ("nanogpt", {"bias": np.ones((1, 1, 5, 5))}),
        ("bert", {"output.LayerNorm.weight": np.ones(6), "output.LayerNorm.bias": np.ones(6)}),
        ("bert-tf", {"output/LayerNorm/gamma": np.ones(6), "output/LayerNorm/beta": np.ones(6)}),
        (
            "bert-tf",
            {f"self/query/{slot}": np.ones(6) for slot in ("kernel/adam_m", "bias/adam_v")},
        ),
        ("megatron", {"linear_qkv.layer_norm_weight": np.ones(6), "linear_qkv._extra_state": 0}),
        ("diffusers", {"group_norm.weight": np.ones(6), "group_norm.bias": np.ones(6)}),
        ("transformerlens", {"mask": np.ones((5, 5), dtype=bool), "IGNORE": -np.inf}),
        ("flax", {"rngs": {"count": 0, "key": 1}}),
    ],
)
def test_what_stands_before_or_after_is_passed_over(mh, layout, outside):
    mh = replace(mh, between=layouts()[layout].between)
    assert load(dump(mh, layout) | outside, layout, h=2) == mh
