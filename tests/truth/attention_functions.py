"""The attention functions of the libraries, each called as its own documentation says.

`call(function, Q, K, V, ...)` takes projected queries, keys and values as this site has them,
(batch, h, n, d_k), and brings them into the order and the axes that the table of the site,
docs/libraries/attention-functions.toml, gives. So a wrong line of the table gives wrong numbers.
"""

import inspect
import re
from collections.abc import Callable

import numpy as np
import pytest
from real_layers import in_float64, keras_library

from qkv_site.tables import functions

FUNCTIONS = {each["name"]: each for each in functions.functions()}
RUN = {name: each for name, each in FUNCTIONS.items() if "package" in each}
PACKAGES = {each["package"] for each in RUN.values()}


def call(entry: dict, Q, K, V, **options) -> np.ndarray:
    """What a function gives, as (batch, h, n_q, d_v); `options` go to it by name."""
    h, axes = Q.shape[-3], entry["axes"]
    sources = {"query": Q, "key": K, "value": V}
    given = [_to(axes, sources[name]) for name in entry["order"]]
    output = _CALLS[entry["name"]](given, h, options)
    return _back(axes, np.asarray(output), h)


def causal(entry: dict) -> dict:
    """The options that ask for a causal mask."""
    name, said = re.fullmatch(r"(\w+)=(.+)", entry["ask"]).groups()
    return {name: {"True": True, "1": 1, '"causal"': "causal"}[said]}


def is_layer(axes: str) -> bool:
    """Whether what comes in is as wide as all heads together, or as weights make it."""
    return not axes.endswith("d")


def arguments_of(layer: dict) -> set[str]:
    """The names of the arguments with which a layer is made."""
    made_by = {
        "nn.MultiheadAttention": lambda: pytest.importorskip("torch").nn.MultiheadAttention,
        "keras.layers.MultiHeadAttention": lambda: keras_library().layers.MultiHeadAttention,
    }[layer["name"]]()
    return {*inspect.signature(made_by).parameters}


def _to(axes: str, array: np.ndarray) -> np.ndarray:
    """An array (batch, h, n, d) with a function's axes."""
    if axes == "batch h n d":
        return array
    tokens_first = array.swapaxes(1, 2)  # (batch, n, h, d)
    if axes == "batch n h d":
        return np.ascontiguousarray(tokens_first)
    joined = tokens_first.reshape(*tokens_first.shape[:2], -1)
    return {"batch n any": joined, "n batch width": joined.swapaxes(0, 1)}[axes]


def _back(axes: str, array: np.ndarray, h: int) -> np.ndarray:
    """The inverse of `_to`."""
    if axes == "batch h n d":
        return array
    if axes == "n batch width":
        array = array.swapaxes(0, 1)
    if is_layer(axes):
        array = array.reshape(*array.shape[:2], h, -1)
    return array.swapaxes(1, 2)


def _sdpa(given, h, options):
    torch = pytest.importorskip("torch")
    tensors = {
        name: torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value
        for name, value in options.items()
    }
    attend = torch.nn.functional.scaled_dot_product_attention
    return attend(*map(torch.from_numpy, given), **tensors)


def _torch_layer(given, h, options):
    """With identities for weights, so that the sources are what the heads get."""
    torch = pytest.importorskip("torch")
    sizes = {"embed_dim": given[0].shape[-1], "kdim": given[1].shape[-1]}
    layer = torch.nn.MultiheadAttention(num_heads=h, bias=False, **sizes).double().eval()
    identity = torch.eye(sizes["embed_dim"], dtype=torch.float64)
    with torch.no_grad():
        layer.in_proj_weight.copy_(identity.repeat(3, 1))
        layer.out_proj.weight.copy_(identity)
        tensors = {
            name: torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value
            for name, value in options.items()
        }
        return layer(*map(torch.from_numpy, given), **tensors)[0]


def _of_jax(attend: Callable) -> Callable:
    def call(given, h, options):
        with in_float64():
            return np.asarray(attend()(*given, **options))

    return call


def _keras(given, h, options):
    library = keras_library()
    attend = library.ops.dot_product_attention
    return library.ops.convert_to_numpy(attend(*given, **options))


def _keras_layer(given, h, options):
    library = keras_library()
    query, value, _ = given
    width = query.shape[-1]
    layer = library.layers.MultiHeadAttention(h, width // h, use_bias=False)
    layer.build(query.shape, value.shape)
    identity = np.eye(width).reshape(width, h, -1)
    layer.set_weights([identity] * 3 + [np.eye(width).reshape(h, -1, width)])
    return library.ops.convert_to_numpy(layer(*given, **options))


def _mlx(given, h, options):
    mx = pytest.importorskip("mlx.core")
    arrays = {
        name: mx.array(value.astype(value.dtype if value.dtype == bool else np.float32))
        if isinstance(value, np.ndarray)
        else value
        for name, value in options.items()
    }
    arrays.setdefault("scale", given[0].shape[-1] ** -0.5)
    if arrays["scale"] is None:
        del arrays["scale"]
    given = [mx.array(array.astype(np.float32)) for array in given]
    return np.array(mx.fast.scaled_dot_product_attention(*given, **arrays))


def _onnx(given, h, options, opset: int = 23):
    """The reference implementation of the operator, which comes with its definition."""
    onnx = pytest.importorskip("onnx")
    reference = pytest.importorskip("onnx.reference")
    arrays = dict(zip(("Q", "K", "V"), given, strict=True))
    for name in ("attn_mask", "past_key", "past_value"):
        if name in options:
            arrays[name] = options.pop(name)
    slots = ("Q", "K", "V", "attn_mask", "past_key", "past_value")
    used = [name if name in arrays else "" for name in slots]
    outputs = ["Y", "present_key", "present_value"] if "past_key" in arrays else ["Y"]
    node = onnx.helper.make_node("Attention", used, outputs, **options)
    to_type = onnx.helper.np_dtype_to_tensor_dtype
    inputs = [
        onnx.helper.make_tensor_value_info(name, to_type(array.dtype), array.shape)
        for name, array in arrays.items()
    ]
    output = onnx.helper.make_tensor_value_info("Y", to_type(given[0].dtype), None)
    graph = onnx.helper.make_graph([node], "attention", inputs, [output])
    opsets = [onnx.helper.make_opsetid("", opset)]
    model = onnx.helper.make_model(graph, opset_imports=opsets)
    return reference.ReferenceEvaluator(model).run(None, arrays)[0]


_CALLS = {
    "F.scaled_dot_product_attention": _sdpa,
    "nn.MultiheadAttention": _torch_layer,
    "jax.nn.dot_product_attention": _of_jax(
        lambda: pytest.importorskip("jax").nn.dot_product_attention
    ),
    "nnx.dot_product_attention": _of_jax(
        lambda: pytest.importorskip("flax.nnx").dot_product_attention
    ),
    "linen.dot_product_attention": _of_jax(
        lambda: pytest.importorskip("flax.linen").dot_product_attention
    ),
    "keras.ops.dot_product_attention": _keras,
    "keras.layers.MultiHeadAttention": _keras_layer,
    "mx.fast.scaled_dot_product_attention": _mlx,
    "Attention, versions 23 to 25": _onnx,
}
