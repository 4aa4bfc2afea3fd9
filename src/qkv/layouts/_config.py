r"""What is said of a layer's heads beside its weights: by the caller, or by a config.json."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from qkv._shapes import check_sizes, quote

# Of each size the names that configurations have for it; "{}" is "encoder" or "decoder".
_NAMES = {
    "h": ("{}_attention_heads", "num_attention_heads", "n_head", "num_heads", "n_heads"),
    "h_kv": ("num_key_value_heads", "num_kv_heads"),
    "d_k": ("head_dim", "d_kv"),
}


@dataclass(frozen=True)
class Said:
    """Sizes that are known beforehand, and the layout if that is; None for what is not."""

    sizes: Mapping[str, int]
    layout: str | None = None

    def allows(self, sizes: Mapping[str, int]) -> bool:
        """Whether sizes that shapes allow are those that were said."""
        return all(sizes[name] == size for name, size in self.sizes.items())

    def __str__(self):
        return ", ".join(f"{name} = {size}" for name, size in self.sizes.items())


def read_config(config: object, prefix: str, given: Mapping[str, int]) -> Said:
    """What a configuration says of the layer with a prefix; what is given counts before it."""
    if config is None:
        return Said(given)
    config = config.to_dict() if hasattr(config, "to_dict") else config
    if not isinstance(config, Mapping):
        raise TypeError(
            "config must be a mapping, such as json.load gives of a config.json, or have a method "
            f"to_dict, but is a {type(config).__name__}."
        )
    side = "decoder" if "decoder" in prefix else "encoder"
    said = dict(_sizes(config, side))
    for name, part in config.items():  # a model of several parts has a configuration for each
        if isinstance(part, Mapping) and name.removesuffix("_config") in prefix:
            said |= dict(_sizes(part, side))
    if config.get("multi_query") and not config.get("new_decoder_architecture"):
        said["h_kv"] = 1  # Falcon and GPT-BigCode, whatever else they say
    if not said and not given:
        known = [name.format(side) for names in _NAMES.values() for name in names]
        raise ValueError(
            f"config says nothing of the heads of the layer with prefix {prefix!r}: it has none of "
            f"{quote(known)}. It has {quote(config, 16)}. Leave config out, and pass h to load."
        )
    return Said(said | given, str(config.get("model_type", "")).replace("_", "-"))


def _sizes(config: Mapping, side: str) -> Iterator[tuple[str, int]]:
    for size, names in _NAMES.items():
        for name in names:
            value = config.get(name.format(side))
            if value is not None:
                check_sizes(**{f"config[{name.format(side)!r}]": value})
                yield size, value
                break
