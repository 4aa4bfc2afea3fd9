r"""What is known of a layer's heads beside its weights: by the caller, or by a config.json."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from qkv._arrays import check_sizes, quote
from qkv.layouts._layout import Type
from qkv.layouts._registry import layouts

# Of each size the names that configurations have for it; "{}" is "encoder" or "decoder".
_NAMES = {
    "h": (
        "{}_attention_heads",
        "num_attention_heads",
        "n_head",
        "num_heads",
        "n_heads",
        "attention_heads",
    ),
    "h_kv": ("num_key_value_heads", "num_kv_heads"),
    "d_k": ("head_dim", "d_kv"),
}


@dataclass(frozen=True)
class Known:
    """What is known beforehand of a layer.

    Attributes:
        sizes: Its number of heads and the like, as far as they are known.
        config: The config of the part of the model that it belongs to; None if there is none.
        kind: What the config's `model_type` does besides; None where no layout knows that type.
        layout: The layout that knows the type.
        asked: Whether there was a config for the model, be it of other parts.
    """

    sizes: Mapping[str, int]
    config: Mapping[str, Any] | None = None
    kind: Type | None = None
    layout: str | None = None
    asked: bool = False

    @property
    def model_type(self) -> str:
        """What the config calls the model; empty where it does not."""
        return str((self.config or {}).get("model_type") or "")

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
            'config must be a mapping, such as json.load(open("config.json")), or have a method '
            f"to_dict, but is a {type(config).__name__}."
        )
    return config


def read_config(config: Mapping[str, Any], prefix: str, given: Mapping[str, int]) -> Known:
    """What a configuration says of the layer with a prefix; what is given counts before it.

    A model of several parts has a configuration for each, and a part takes nothing from another's.
    Of a part that has none, the heads are left open.
    """
    parts = {name: part for name, part in config.items() if isinstance(part, Mapping)}
    parts.pop("attn_config", None)  # MPT's options of its attention, and no part of a model
    own = [
        part for name, part in parts.items() if any(each in prefix for each in _in_prefixes(name))
    ]
    several = [part for part in parts.values() if part.get("model_type")]
    if own:
        config = own[-1]  # of parts within parts the innermost comes last
    elif several:
        return Known(given, asked=True)
    sizes = dict(_sizes(config, _side(prefix)))
    if config.get("multi_query") and not config.get("new_decoder_architecture"):
        sizes["h_kv"] = 1  # Falcon and GPT-BigCode, whatever else they say
    kind, layout = find_type(str(config.get("model_type") or ""))
    return Known(sizes | given, config, kind, layout, asked=True)


def find_type(model_type: str) -> tuple[Type | None, str | None]:
    """What a type of model does besides, and the layout that knows it."""
    for layout in layouts().values():
        if model_type in layout.types:
            return layout.types[model_type], layout.name
    return None, None


def renamed(names: Iterable[str], config: Mapping[str, Any]) -> Iterator[str]:
    """The names that a layout has for a model's, where the model's type is known to have others."""
    of_parts = (part for part in config.values() if isinstance(part, Mapping))
    kinds = [find_type(str(part.get("model_type")))[0] for part in (config, *of_parts)]
    pairs = [pair for kind in kinds if kind for pair in kind.rename.items()]
    for name in names:
        for own, known in pairs:
            name = name.replace(own, known)
        yield name


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


def _sizes(config: Mapping, side: str) -> Iterator[tuple[str, int]]:
    for size, names in _NAMES.items():
        if any(isinstance(config.get(f"{name}_per_stage"), list) for name in names):
            continue  # stages differ, and the layer's prefix does not tell which it is in
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
