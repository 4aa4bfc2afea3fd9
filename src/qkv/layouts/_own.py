r"""A layout of a reader's own: the names of the maps, and how they are stored."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from qkv._arrays import check_one_of, quote
from qkv.layouts._layout import BIASES, Form, Layout, Stored

OWN = "your own"
_MAPS = ("W_Q", "W_K", "W_V", "W_O")
# Of each map its heads, the width of one, and that of a token.
_AXES = {
    "W_Q": ("h", "d_k", "d_model"),
    "W_K": ("h_kv", "d_k", "d_source_k"),
    "W_V": ("h_kv", "d_v", "d_source_v"),
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
        arguments={},
        scaling="",
        forms=(Form("", form),),
    )


def _pattern(part: str, axes: int, stored: str) -> str:
    """How an array of so many axes is stored."""
    h, of_a_head, of_a_token = _AXES[part.replace("b_", "W_")]
    if part == "b_O":
        return of_a_token
    packed = axes == (1 if part in BIASES else 2)
    widths = [f"({h} {of_a_head})" if packed else of_a_head]
    if part not in BIASES:
        # What a map takes comes first in (in, out): for W_O what a head returns, else a token.
        token_first = (part == "W_O") == (stored == "(out, in)")
        widths.insert(0 if token_first else 1, of_a_token)
    return " ".join([h] * (not packed) + widths)
