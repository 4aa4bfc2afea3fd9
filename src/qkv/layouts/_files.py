r"""The arrays of safetensors files, by name: shapes at once, numbers when they are asked for.

The format is a header in JSON and the numbers behind it. It is read here, and not by the package
safetensors, since NumPy has no bfloat16, in which most released weights are stored.
"""

import json
import operator
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"} | {
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?"
}  # fmt: skip


@dataclass(frozen=True)
class OnDisk:
    """An array in a file. NumPy reads it when it converts it."""

    file: Path
    name: str
    shape: tuple[int, ...]
    stored_as: str  # its dtype, as the file calls it
    start: int
    end: int

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self.stored_as not in _DTYPES:
            raise TypeError(
                f"{str(self.file)!r} holds it as {self.stored_as}, which NumPy has not: undo the "
                "quantisation first, with the library that made it"
            )
        with self.file.open("rb") as file:
            file.seek(self.start)
            stored = np.frombuffer(file.read(self.end - self.start), _DTYPES[self.stored_as])
        if self.stored_as == "BF16":  # the first half of a float32
            stored = (stored.astype(np.uint32) << 16).view(np.float32)
        return stored.reshape(self.shape).astype(dtype or stored.dtype, copy=False)


def read_shapes(path: str | os.PathLike) -> dict[str, OnDisk]:
    """The arrays of a file, or of all files of a folder: a model may be cut into several."""
    path = Path(path)
    arrays: dict[str, OnDisk] = {}
    for file in _files(path):
        for array in _arrays(file):
            other = arrays.setdefault(array.name, array)
            if other is not array:
                raise ValueError(
                    f"Two files of {str(path)!r} hold {array.name!r}: {other.file.name!r} and "
                    f"{file.name!r}. Pass the path of the one that is meant."
                )
    return {name: arrays[name] for name in sorted(arrays)}  # a file has them in any order


def _files(path: Path) -> list[Path]:
    """The files that an index names, where there is one; else all of a folder, or the one file."""
    if not path.is_dir():
        return [path]
    indexes = sorted(path.glob("*.safetensors.index.json"))
    if len(indexes) > 1:
        raise ValueError(
            f"The folder {str(path)!r} has {len(indexes)} indexes, "
            f"{' and '.join(repr(index.name) for index in indexes)}: pass a folder with one."
        )
    if not indexes:
        if files := sorted(path.glob("*.safetensors")):
            return files
        raise ValueError(f"The folder {str(path)!r} has no file that ends in .safetensors.")
    index = json.loads(indexes[0].read_text())
    named = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(named, dict):
        raise ValueError(
            f"{indexes[0].name!r} has no weight_map, which names a file for each array."
        )
    for name, file in named.items():
        if not (isinstance(file, str) and (path / file).exists()):
            raise ValueError(
                f"{indexes[0].name!r} says that {name!r} is in {file!r}, which is not in the "
                f"folder {str(path)!r}."
            )
    return [path / file for file in dict.fromkeys(named.values())]


def _arrays(file: Path) -> Iterator[OnDisk]:
    if file.suffix != ".safetensors":
        raise ValueError(
            f"weights must be a mapping, or the path of a .safetensors file or of a folder with "
            f"such files, but is {str(file)!r}. Of a file of PyTorch pass "
            "torch.load(path, weights_only=True), of a .npz file dict(np.load(path))."
        )
    size = file.stat().st_size
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        header = opened.read(length) if length < size else b""
    try:
        entries = json.loads(header)
        arrays = [
            OnDisk(file, name, _shape(each), each["dtype"], *_place(each, 8 + length))
            for name, each in entries.items()
            if name != "__metadata__"
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{str(file)!r} is no whole safetensors file: {error}.") from None
    if arrays and max(array.end for array in arrays) > size:
        raise ValueError(f"{str(file)!r} is no whole safetensors file: its end is missing.")
    yield from arrays


def _shape(entry: Mapping) -> tuple[int, ...]:
    return tuple(map(operator.index, entry["shape"]))  # it refuses what is no whole number


def _place(entry: Mapping, behind: int) -> tuple[int, int]:
    start, end = entry["data_offsets"]
    return behind + start, behind + end


# What stands beside or in place of a layer's arrays where its weights are not as a library trains
# them, and what to do.
_OTHERWISE = {
    r"\.(qweight|qzeros|g_idx)$": "They are quantised by GPTQ or AWQ: load the model with the "
    "library that made them, and pass the state_dict() of its dequantised copy.",
    r"\.(absmax|quant_map|nested_absmax|SCB|quant_state\.\S+)$": "They are quantised by "
    "bitsandbytes: call model.dequantize() in Transformers, and pass its state_dict().",
    r"\.weight_scale(_inv)?$": "They are quantised to float8, with scales beside: multiply each "
    "weight by its scale, as the library does, and pass the products.",
    r"\.weight_[gv]$|\.parametrizations\.": "They are parts of a weight (weight norm): "
    "call torch.nn.utils.parametrize.remove_parametrizations, and pass state_dict() then.",
    r"\blora_[AB]\b|\.base_layer\.": "They are an adapter's (LoRA): call model.merge_and_unload() "
    "of peft, and pass the merged model's state_dict().",
}


def stored_otherwise(names: Iterable[str]) -> str:
    """A sentence on weights that are quantised or belong to an adapter; empty for others."""
    names = tuple(names)
    return next(
        (said for pattern, said in _OTHERWISE.items() if any(re.search(pattern, n) for n in names)),
        "",
    )
