r"""The arrays of a safetensors file, by name: shapes at once, numbers when they are asked for."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class OnDisk:
    """An array in a file. NumPy reads it when it converts it."""

    file: Path
    name: str
    shape: tuple[int, ...]
    stored_as: str  # its dtype, as the file calls it

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        with _opened(self.file) as tensors:
            try:
                return np.asarray(tensors.get_tensor(self.name), dtype)
            except TypeError:
                raise TypeError(
                    f"{str(self.file)!r} holds it as {self.stored_as}, which NumPy has not; "
                    "safetensors.torch.load_file reads it"
                ) from None


def read_shapes(path: str | os.PathLike) -> dict[str, OnDisk]:
    """The arrays of a file, or of all files of a folder: a model may be cut into several."""
    path = Path(path)
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"The folder {str(path)!r} has no file that ends in .safetensors.")
    arrays = {array.name: array for file in files for array in _arrays(file)}
    return {name: arrays[name] for name in sorted(arrays, key=_in_order)}


def _in_order(name: str) -> list[str | int]:
    """Order names as a model has them, layers.2 before layers.10; a file has them in any order."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _arrays(file: Path) -> Iterator[OnDisk]:
    if file.suffix != ".safetensors":
        raise ValueError(
            f"weights must be a mapping, or the path of a .safetensors file or of a folder with "
            f"such files, but is {str(file)!r}. Of a file of PyTorch pass "
            "torch.load(path, weights_only=True), of a .npz file dict(np.load(path))."
        )
    with _opened(file) as tensors:
        for name in tensors.keys():  # noqa: SIM118, it is no mapping
            array = tensors.get_slice(name)
            yield OnDisk(file, name, tuple(array.get_shape()), array.get_dtype())


def _opened(file: Path) -> Any:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise ImportError(
            f"To read {str(file)!r} the package safetensors is needed: pip install safetensors. "
            "Or pass a mapping from names to arrays."
        ) from None
    try:
        return safe_open(file, framework="numpy")
    except SafetensorError as error:
        raise ValueError(f"{str(file)!r} is no whole safetensors file: {error}.") from None
