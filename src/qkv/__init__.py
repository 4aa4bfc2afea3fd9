"""Attention in NumPy, in the notation of *Attention Is All You Need*, with one name for each thing.

Rows are tokens, and a map is always `X @ W`. `Q`, `K` and `V` are only ever what enters
equation (1); what enters multi-head attention is a source, `X_Q`, `X_K` or `X_V`.

This package is the paper's layer. What serves other needs stands in rooms beside it, which are
loaded when they are first used: `layouts`, `notation`, `mistakes`, `shapes` and `costs`.
"""

import importlib
from typing import TYPE_CHECKING

from qkv import example as example
from qkv import maps as maps
from qkv import masks as masks
from qkv.equation_1 import attention, softmax
from qkv.maps import fold, merge, w_qk, w_vo
from qkv.multi_head import MultiHead

if TYPE_CHECKING:
    from qkv.layouts import dump, find_layers, load, unpack
    from qkv.mistakes import diagnose
    from qkv.shapes import which

__all__ = [
    "MultiHead",
    "attention",
    "diagnose",
    "dump",
    "find_layers",
    "fold",
    "load",
    "merge",
    "softmax",
    "unpack",
    "w_qk",
    "w_vo",
    "which",
]

_ROOMS = ("costs", "layouts", "mistakes", "notation", "shapes")
_ROOM_OF = {
    "diagnose": "mistakes",
    "dump": "layouts",
    "find_layers": "layouts",
    "load": "layouts",
    "unpack": "layouts",
    "which": "shapes",
}


def __getattr__(name: str) -> object:
    """Load a room when it, or a function of it, is first used."""
    if name in _ROOMS:
        return importlib.import_module(f"qkv.{name}")
    if name in _ROOM_OF:
        return getattr(importlib.import_module(f"qkv.{_ROOM_OF[name]}"), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("which-q")
    raise AttributeError(f"module 'qkv' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS, *_ROOM_OF, "__version__"})
