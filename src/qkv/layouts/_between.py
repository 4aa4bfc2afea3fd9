r"""What a model's config says of what stands between the maps of a layer, and of its mask.

What a type of model does besides is data, a `Type` in its layout. A type that no layout knows is
not read: its layers would be computed, and wrong.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from qkv import between
from qkv._arrays import as_floats, from_bfloat16
from qkv.layouts._layout import Type

# Arrays behind a layer's prefix that belong to a step, and not to a map.
STEPS = re.compile(
    r"(?P<norm>[qk]_norm|[qk]_layernorm|query_(layer)?norm|key_(layer)?norm)\.(weight|bias)"
    r"|(?P<sinks>sinks)|(?P<table>relative_attention_bias\.weight)"
)


def crosses(prefix: str) -> bool:
    """Whether a layer with this prefix takes its keys from an encoder."""
    return bool(re.search(r"(?i)enc\w*_?attn|encdec|cross", prefix))


# Options that have such a name and change nothing here, or are read elsewhere.
_ELSEWHERE = re.compile(
    r"dropout|_pdrop|probs|implementation|attn_impl|attn_type|_bias$|num_attention_heads|_in_fp32|reorder"
    r"|max_position_embeddings|^scale_embedding|initializer|rms_norm|layer_scale|use_cache|^logit"
    r"|^offset_alibi$|final_|parallel_|attn_layer_|expert|rout|embedding_mult|residual_mult|mlp_|ssm_|mamba_|attention_heads"
)
_ACTS = re.compile(
    r"attn|attention|rope|rotary|window|softcap|clip_qkv|alibi|qk_|_scal|sink|local_|chunk"
    r"|position_embedding_type|relative|multiplier"
)
_OF_ROTATIONS = {
    *("rope_type", "type", "factor", "original_max_position_embeddings", "mrope_section"),
    *("low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow", "truncate"),
    *("mscale", "mscale_all_dim", "attention_factor", "max_position_embeddings"),
}


class Options:
    """A config that notes which of its options were read."""

    def __init__(self, config: Mapping[str, Any]):
        self._all = {**config, **(config.get("attn_config") or {})}
        self.read = {"attn_config"}

    def __call__(self, *names: str, default: Any = None) -> Any:
        """The first of these options that says something."""
        self.read |= {*names}
        return next((self._all[n] for n in names if self._all.get(n) is not None), default)

    def of_layer(self, name: str, layer: int) -> Any:
        """An option that has an entry for each layer."""
        return dict(enumerate(self(name) or ())).get(layer)

    def unread(self) -> Iterator[str]:
        """Options that may act on attention and were not read."""
        for name, value in self._all.items():
            acts = _ACTS.search(name) and not _ELSEWHERE.search(name)
            says = value is True or value not in (None, False, 0, 1.0, "", [], {}, "absolute")
            if acts and says and name not in self.read:
                yield name


@dataclass(frozen=True)
class Between:
    """What a config says of a layer beside its heads.

    Attributes:
        steps: What stands between its maps.
        scale: What its scores are multiplied by; None where the layout's is right.
        causal: Whether a query sees no later keys; None where that is not known.
        window: How many keys before a query it sees, itself not counted; None is all.
        chunk: How long the chunks are outside of which a query sees nothing; None is no chunks.
        unread: Options that may act and are not read, by their names.
    """

    steps: tuple[between.Step, ...] = ()
    scale: float | None = None
    causal: bool | None = None
    window: int | None = None
    chunk: int | None = None
    unread: tuple[str, ...] = ()

    @property
    def all_steps(self) -> tuple[between.Step, ...]:
        """The steps, and one that is not known where an option may act that was not read."""
        names = ", ".join(map(repr, self.unread))
        why = f"The config says {names}, which may act and is not computed."
        return (*self.steps, between.Unknown(why)) if self.unread else self.steps

    def mask(self, n_q: int, n_k: int) -> np.ndarray:
        """True where the last n_q of n_k tokens may attend to each of them."""
        i, j = np.arange(n_k - n_q, n_k)[:, None], np.arange(n_k)
        may = (i >= j) | np.full((n_q, n_k), not self.causal)
        if self.window is not None:
            may &= i - j <= self.window
        return may if self.chunk is None else may & (i // self.chunk == j // self.chunk)


def read_between(
    config: Mapping[str, Any],
    kind: Type,
    prefix: str,
    arrays: Mapping[str, Any],
    sizes: Mapping[str, int],
    scale: float | None,
) -> Between:
    """Read what stands in one layer.

    Args:
        config: The config of the part of the model that the layer belongs to.
        kind: What its type does besides.
        prefix: The layer's.
        arrays: Those of its steps: names below the prefix to arrays.
        sizes: The layer's "h", "h_kv" and "d_k".
        scale: The layout's.
    """
    arrays = {name: as_floats(name, from_bfloat16(a), "of its step") for name, a in arrays.items()}
    option, layer = Options(config), int((re.search(r"\d+", prefix) or "0")[0])
    layer_type = option.of_layer("layer_types", layer)
    one_way = {
        "causal": True,
        "none": bool(option("is_decoder")),  # BERT and others can be told
        "sides": "decoder" in prefix,
    }[kind.mask] and not crosses(prefix)
    # False opens the mask of any type, and leaves T5's buckets as they are.
    causal = one_way and bool(option("is_causal", default=True))
    window = _window(option, kind, layer_type)
    norm = _norm(option, kind, arrays, sizes)
    rotation = _rotation(option, kind, layer, layer_type, window, sizes["d_k"])
    clip = [between.Clip(float(c)) for c in [option("clip_qkv")] if c]
    steps = [*clip, *norm] if kind.clip_first else [*norm, *clip]
    steps = [*steps, *rotation] if kind.norm_first else [*rotation, *steps]
    steps += [between.Unknown(why) for why in _missing(option, kind)]
    if kind.bare_norm and option(kind.bare_norm) and rotation:
        steps.append(between.QKNorm(eps=option("rms_norm_eps")))
    rope = option("rope_parameters") or {}
    if beta := rope.get("llama_4_scaling_beta"):  # Ministral 3
        length = rope.get("original_max_position_embeddings") or option("max_position_embeddings")
        steps.append(between.Temperature(float(beta), float(length), p_0=0))
    tuned, a, f = map(option, ("attn_temperature_tuning", "attn_scale", "floor_scale"))
    if tuned and not rotation:
        steps.append(between.Temperature(float(a), float(f)))
    scale = _scale(option, layer, sizes["d_k"], scale)
    if (cap := option("attn_logit_softcapping")) and kind.capped:
        steps.append(between.SoftCap(float(cap)))
    if kind.alibi or option("alibi"):
        by = (sizes["d_k"] ** -0.5 if scale is None else scale) if kind.scaled_bias else 1.0
        steps.append(between.ALiBi(by * between.ALiBi.of(sizes["h"]).slopes))
        if (largest := option("alibi_bias_max", default=8)) != 8:
            steps.append(between.Unknown(f"alibi_bias_max is {largest} in the config, not 8."))
    farthest = option("relative_attention_max_distance", default=128)
    option("relative_attention_num_buckets")  # a call marks it as read: the table is as long
    if (table := arrays.get("relative_attention_bias.weight")) is not None:
        steps.append(between.DistanceBias(table, farthest, both_ways=not one_way))
    if "sinks" in arrays:
        steps.append(between.Sinks(arrays["sinks"]))
    chunk = {"chunked_attention": option("attention_chunk_size")}.get(layer_type)
    if one_way and not causal and (window or chunk):
        why = "The config says is_causal=False beside a window or chunks, which is not computed."
        steps.append(between.Unknown(why))
    return Between(tuple(steps), scale, causal, window, chunk, tuple(option.unread()))


def _missing(option, kind) -> Iterator[str]:
    """Options that Transformers would fill in, and that say what each layer does."""
    slides = option("sliding_window") and option("use_sliding_window", default=True)
    windowed = (slides and kind.windows == "by config") or option("attention_chunk_size")
    for name, needed in (("layer_types", windowed), ("no_rope_layers", kind.rotates == "by layer")):
        if needed and option(name) is None:
            yield (
                f"The config has no {name}, which says what each layer does: pass one that "
                "AutoConfig has completed."
            )


def _norm(option, kind, arrays, sizes) -> list[between.Step]:
    """The arrays tell that there is a norm, and what it is over; the type tells which it is."""
    stored, together = {}, False
    for name, array in arrays.items():
        if (found := STEPS.fullmatch(name)) and found["norm"]:
            part = ("b_" if name.endswith("bias") else "g_") + name[0].upper()
            heads = sizes["h"] if name[0] == "q" else sizes["h_kv"]
            array = array + kind.gains_from if part[0] == "g" else array
            alone = array.size == sizes["d_k"]
            stored[part] = array.reshape(-1 if alone else (heads, sizes["d_k"]))
            together |= np.ndim(arrays[name]) == 1 and not alone
    if not stored:
        return []
    eps = option("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps", default=1e-6)
    # Stored gains say so already, so these are marked as read and no more.
    option("use_qk_norm", "qk_layernorm", "qk_norm_type")
    return [between.QKNorm(**stored, eps=eps, centre=kind.norm == "LayerNorm", all_heads=together)]


def _rotation(option, kind, layer, layer_type, window, d_k) -> list[between.Step]:
    """The rotation of a layer, if it has one."""
    turned = option.of_layer("no_rope_layers", layer)  # 1 where it rotates, whatever its name
    option("no_rope_layer_interval")
    rope, width = option("rope_parameters"), option("rotary_dim")
    base = option("rope_theta", "rotary_emb_base")
    older = {"rope_theta": kind.base if base is None else base}
    older |= option("rope_scaling") or {}
    if kind.rotates == "never" or option("alibi") or turned == 0:
        return []
    if kind.rotates == "in windows" and option("sliding_window") and window is None:
        return []
    if width and rope is None and base is None:  # GPT-J and CodeGen
        option("rotary")  # what GPT-J's config says besides
        return [between.Rotation.of(10000.0, width, kind.pairs)]
    if width and rope is None:  # MiniMax M2 makes a share of it, and MiniMax passes over it
        why = "The config has rotary_dim and rope_theta: pass one that AutoConfig has completed."
        return [between.Unknown(why)]
    rope = dict((older if rope is None else rope.get(layer_type, rope)) or {})
    base = rope.pop("rope_theta", None)
    if option("layer_rope_theta") and not (base := option.of_layer("layer_rope_theta", layer)):
        return []
    if base is None:
        return [between.Unknown("The config has no rope_theta, which is the base of the rotation.")]
    rope.pop("llama_4_scaling_beta", None)  # read beside the temperature
    share = rope.pop("partial_rotary_factor", None)
    share = option("partial_rotary_factor", "rotary_pct", default=1.0) if share is None else share
    rule = rope["rope_type"] = rope.get("rope_type") or rope.get("type") or "default"
    if layer not in option("rope_scaling_layers", default=(layer,)):
        rule = rope["rope_type"] = "default"
    rope.setdefault("original_max_position_embeddings", option("max_position_embeddings"))
    if rule not in between.SCALINGS:
        return [between.Unknown(f"The config has rope_type {rule!r}, which is not computed here.")]
    if others := rope.keys() - _OF_ROTATIONS:
        return [between.Unknown(f"The config's rotation has {min(others)}, not read here.")]
    try:
        return [between.Rotation.of(float(base), int(d_k * share), kind.pairs, rope)]
    except ValueError as error:
        return [between.Unknown(f"The config's rotation is not computed here: {error}")]


def _window(option, kind, layer_type) -> int | None:
    width, on = option("sliding_window"), option("use_sliding_window", default=True)
    if width is not None:
        option("sliding_window_size")  # Gemma 2 has both, and Transformers reads the other one
    # Transformers has made `layer_types` of these.
    option("max_window_layers", "sliding_window_pattern", "_sliding_window_pattern")
    sliding = on and layer_type in (None, "sliding_attention")
    slides = {"by config": sliding, "never": False, "always": True}[kind.windows]
    return width - 1 if width and slides else None


def _scale(option, layer, d_k, scale) -> float | None:
    if per := option("query_pre_attn_scalar"):
        scale = per**-0.5
    scale = option("attention_multiplier", "softmax_scale", default=scale)
    if option("scale_attn_weights", default=True) is False:
        scale = 1.0
    if option("scale_attn_by_inverse_layer_idx"):
        scale = (d_k**-0.5 if scale is None else scale) / (layer + 1)
    return scale
