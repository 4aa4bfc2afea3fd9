r"""A layout of a reader's own: the names of the maps, and how they are stored."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from qkv._arrays import check_one_of, quote
from qkv.layouts._layout import BIASES, Form, Layout, Stored

OWN = "your own"
_MAPS = ("W_Q", "W_K", "W_V", "W_O")
# Of each map its heads, what it takes and what it gives.
_AXES = {
    "W_Q": ("h", "d_model", "d_k"),
    "W_K": ("h_kv", "d_source_k", "d_k"),
    "W_V": ("h_kv", "d_source_v", "d_v"),
    "W_O": ("h", "d_v", "d_out"),
}


def check_names(names: Mapping[str, str], stored: str | None) -> None:
    """Raise unless each map has a name, each name a map, and `stored` is one of two words."""
    if missing := [part for part in _MAPS if part not in names]:
        raise ValueError(f"names must have {quote(_MAPS)}, but lacks {quote(missing)}.")
    for part in names:
        check_one_of("a key of names", part, (*_MAPS, *BIASES))
    check_one_of("stored", stored, ("(out, in)", "(in, out)"))


def own_layout(names: Mapping[str, str], stored: str, arrays: Mapping[str, Any]) -> Layout:
    """The layout of arrays whose names and convention are given."""
    form = tuple(
        Stored(name, part, _pattern(part, np.ndim(arrays[name]), stored))
        for part, name in names.items()
    )
    return Layout(
        name=OWN,
        title="A layer of your own",
        order=0,
        read_in="names",
        call="layer",
        arguments={},
        scaling="",
        forms=(Form("", form),),
    )


def _pattern(part: str, axes: int, stored: str) -> str:
    """How an array of so many axes is stored, and what it is in the paper's notation."""
    h, takes, gives = _AXES[part.replace("b_", "W_")]
    if part == "b_O":
        return "d_out -> d_out"
    if part in BIASES:
        return f"({h} {gives}) -> {h} {gives}" if axes == 1 else f"{h} {gives} -> {h} {gives}"
    packed = axes == 2
    if part == "W_O":
        takes = f"({h} {takes})" if packed else takes
    else:
        gives = f"({h} {gives})" if packed else gives
    pair = f"{gives} {takes}" if stored == "(out, in)" else f"{takes} {gives}"
    return f"{pair if packed else f'{h} {pair}'} -> {' '.join(_AXES[part])}"
