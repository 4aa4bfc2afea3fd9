"""What a layer of each model costs, as Markdown: computed from the models' sizes."""

import math
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal

from qkv.costs import LayerCost, Sizes, layer_cost
from qkv_site.markdown.tables import table
from qkv_site.page import PAGE

TOKENS = 8192  # for which the operations are counted
_WIDTHS = ("d_model", "h", "h_kv", "d_k", "d_v")


def models() -> list[dict]:
    """The models of `docs/explanation/model-sizes.toml`."""
    file = PAGE.get().site.data("explanation/model-sizes.toml")
    return [model["sizes"] | model for model in file["model"]]


def of(name: str, n_q: int = 1, n_k: int | None = None) -> LayerCost:
    """What a layer of a model costs, for so many tokens."""
    (model,) = (each for each in models() if each["name"] == name)
    return cost_of(model, n_q, n_k)


def cost_of(model: dict, n_q: int, n_k: int | None = None) -> LayerCost:
    """What a layer of a row of the file costs."""
    sizes = Sizes(**{key: model[key] for key in _WIDTHS if key in model}, n_q=n_q, n_k=n_k)
    counted = layer_cost(
        sizes, model.get("d_ff"), gated=model.get("gated", False), causal=model.get("causal", True)
    )
    if "maps" in model:
        weights = sum(math.prod(shape) for shape in model["maps"])
        counted = replace(
            counted,
            attention_parameters=weights,
            projections=weights * n_q,
            cached_per_token=model["cached"],
        )
    return counted


def weights() -> str:
    """For each model the weights of a layer, and of all layers."""
    return table(
        ("model and sizes", "attention, one layer", "MLP, one layer", "all layers"),
        (
            (f"**{model['name']}**<br>{_sizes(model)}", *_weights(model, cost_of(model, 1)))
            for model in models()
        ),
    )


def operations() -> str:
    """For each model the FLOPs of a layer over a text, by what needs them."""
    return table(
        ("model", "projections", "scores and averages, all", "the causal half", "MLP"),
        (_operations(model) for model in models()),
    )


def cache() -> str:
    """For each model what the cache holds of a token, and of a text."""
    return table(
        ("model", "numbers, a token and layer", "bytes, a token, all layers", "32,768 tokens"),
        (_cache(model) for model in models() if model.get("causal", True)),
    )


def read() -> str:
    """Where the sizes were read, and what else to know."""
    return "\n".join(
        f"- **{model['name']}**: {model['read']}.{' ' + model['note'] if 'note' in model else ''}"
        for model in models()
    )


def _sizes(model: dict) -> str:
    named = [f"{model['layers']} layers", f"width {model['d_model']}", f"{model['h']} heads"]
    if "h_kv" in model:
        named.append(f"{model['h_kv']} of keys")
    width = model.get("d_k", model["d_model"] // model["h"])
    named.append(f"each {width}")
    if "d_ff" in model:
        named.append(f"MLP {model['d_ff']}{' gated' if model.get('gated') else ''}")
    return ", ".join(named)


def _weights(model: dict, counted: LayerCost) -> tuple[str, str, str]:
    attention, mlp = counted.attention_parameters, counted.mlp_parameters
    if not mlp:
        return f"{attention:,}", "–", f"{attention * model['layers']:,}, attention alone"
    return f"{attention:,}", f"{mlp:,}", f"{(attention + mlp) * model['layers']:,}"


def _operations(model: dict) -> tuple[str, ...]:
    every = cost_of(model | {"causal": False}, TOKENS)
    half = cost_of(model | {"causal": True}, TOKENS)
    return (
        f"**{model['name']}**",
        _billions(every.projections),
        _billions(every.scores_and_averages),
        _billions(half.scores_and_averages) if model.get("causal", True) else "–",
        _billions(every.mlp) if every.mlp else "–",
    )


def _billions(multiply_adds: int) -> str:
    return f"{2 * multiply_adds / 1e9:,.0f}"


def _cache(model: dict) -> tuple[str, ...]:
    numbers = cost_of(model, 1).cached_per_token
    token = 2 * model["layers"] * numbers  # 16 bits are two bytes
    return (
        f"**{model['name']}**",
        f"{numbers:,}",
        f"{token:,}",
        f"{Decimal(token * 32_768 / 2**30).quantize(Decimal('.01'), ROUND_HALF_UP)} GiB",
    )
