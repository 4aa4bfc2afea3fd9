r"""At the shell: `qkv PATH` prints the attention layers of a checkpoint."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qkv.layouts._find import FoundLayer, find_layers


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the attention layers of a checkpoint; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="qkv",
        description="Print the attention layers of a checkpoint: names, sizes, heads, layout, what "
        "stands between the maps, and what is not known.",
    )
    parser.add_argument("path", type=Path, help="a .safetensors file, or a folder with such files")
    parser.add_argument(
        "--config", type=Path, help="the model's config.json; by default the one beside the files"
    )
    parser.add_argument(
        "--heads", type=int, metavar="H", help="the number of heads, if there is no config"
    )
    parser.add_argument("--json", action="store_true", help="print a list of objects, for programs")
    given = parser.parse_args(arguments)
    try:
        if not given.path.exists():
            raise ValueError(f"there is no file or folder {str(given.path)!r}.")
        config = _read_config(given.path, given.config)
        found = find_layers(given.path, h=given.heads, config=config)
    except (OSError, TypeError, ValueError) as error:
        print(f"qkv: {error}", file=sys.stderr)
        return 1
    print(json.dumps([*map(_as_object, found)], indent=1) if given.json else found)
    return 0


def _read_config(path: Path, config: Path | None) -> dict | None:
    beside = (path if path.is_dir() else path.parent) / "config.json"
    if config is None and not beside.exists():
        return None
    try:
        return json.loads((config or beside).read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"{str(config or beside)!r} is no JSON: {error}.") from None


def _as_object(layer: FoundLayer) -> dict[str, Any]:
    """A layer as JSON has it; null where something is not known."""
    between = layer.between
    return {
        "prefix": layer.prefix,
        "layouts": layer.layouts,
        "sizes": layer.sizes,
        "heads": [heads._asdict() for heads in layer.heads],
        "biases": layer.biases,
        "refused": layer.refused or None,
        "between": between and [*map(repr, between.all_steps)],
        "scale": between and between.scale,
        "causal": between and between.causal,
        "window": between and between.window,
        "chunk": between and between.chunk,
    }
