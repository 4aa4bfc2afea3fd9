r"""What is known of a layer's heads beside its weights: by the caller, or by a config.json."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from qkv._arrays import check_sizes, quote

# Of each size the names that configurations have for it; "{}" is "encoder" or "decoder".
_NAMES = {
    "h": ("{}_attention_heads", "num_attention_heads", "n_head", "num_heads", "n_heads"),
    "h_kv": ("num_key_value_heads", "num_kv_heads"),
    "d_k": ("head_dim", "d_kv"),
}

# What Transformers 5 stores under a layout's names and rotates otherwise than the layout says.
ROTATES = {"roformer": True} | dict.fromkeys(
    (
        "audio-spectrogram-transformer",
        "deit",
        "dinov2",
        "dinov2-with-registers",
        "ijepa",
        "jamba",
        "vit",
        "vit-mae",
        "vit-msn",
        "vivit",
    ),
    False,
)


@dataclass(frozen=True)
class Known:
    """What is known beforehand of a layer: sizes, the layout, and whether the model rotates."""

    sizes: Mapping[str, int]
    layout: str | None = None
    rotates: bool | None = None

    def allows(self, sizes: Mapping[str, int]) -> bool:
        """Whether sizes that shapes allow are those that were said."""
        return all(sizes[name] == size for name, size in self.sizes.items())

    def __str__(self):
        return ", ".join(f"{name} = {size}" for name, size in self.sizes.items())


def as_mapping(config: object) -> Mapping[str, Any]:
    """A configuration by name."""
    config = config.to_dict() if hasattr(config, "to_dict") else config
    if not isinstance(config, Mapping):
        raise TypeError(
            "config must be a mapping, such as json.load gives of a config.json, or have a method "
            f"to_dict, but is a {type(config).__name__}."
        )
    return config


def read_config(config: Mapping[str, Any], prefix: str, given: Mapping[str, int]) -> Known:
    """What a configuration says of the layer with a prefix; what is given counts before it.

    Of a model of several parts it may say nothing of a layer: then its heads are left open.
    """
    side = _side(prefix)
    sizes, model_type, rotates = dict(_sizes(config, side)), _model_type(config), _rotates(config)
    for name, part in config.items():  # a model of several parts has a configuration for each
        if isinstance(part, Mapping) and any(each in prefix for each in _in_prefixes(name)):
            sizes |= dict(_sizes(part, side))
            model_type, rotates = _model_type(part) or model_type, _rotates(part)
    if config.get("multi_query") and not config.get("new_decoder_architecture"):
        sizes["h_kv"] = 1  # Falcon and GPT-BigCode, whatever else they say
    return Known(sizes | given, model_type, rotates)


def _side(prefix: str) -> str:
    return "decoder" if "decoder" in prefix else "encoder"


def no_number_of_heads(config: Mapping[str, Any], prefix: str) -> ValueError:
    """A configuration that has no number of heads, for this layer or for any other."""
    known = [name.format(_side(prefix)) for names in _NAMES.values() for name in names]
    content = f"It has {quote(config, 16)}" if config else "It is empty"
    return ValueError(
        f"config says nothing of the heads of the layer with prefix {prefix!r}: it has none of "
        f"{quote(known)}. {content}. Leave config out, and pass h to load."
    )


def _in_prefixes(name: str) -> tuple[str, ...]:
    """What a part of a configuration is called in prefixes: "text_config" is a language_model."""
    part = name.removesuffix("_config")
    return part, *{"text": ("language_model",), "vision": ("visual",)}.get(part, ())


def _model_type(config: Mapping) -> str:
    return str(config.get("model_type", "")).replace("_", "-")


def _rotates(config: Mapping) -> bool | None:
    """Whether a configuration tells that queries and keys are rotated; None where it does not."""
    if config.get("position_embedding_type") in ("rotary", "rope"):
        return True  # ESM
    if config.get("alibi") is True:
        return False  # Falcon adds a number to the scores instead
    return ROTATES.get(_model_type(config))


def _sizes(config: Mapping, side: str) -> Iterator[tuple[str, int]]:
    for size, names in _NAMES.items():
        for name in names:
            value = config.get(name.format(side))
            if value is not None:
                _check_size(name.format(side), value)
                yield size, value
                break


def _check_size(name: str, value: object) -> None:
    """Refuse a size that is none, and say what to do: stages may have a list of sizes."""
    try:
        check_sizes(**{f"config[{name!r}]": value})
    except ValueError as error:
        raise ValueError(f"{error} Leave config out, and pass h to load.") from None
