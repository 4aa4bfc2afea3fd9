"""Attention in NumPy, in the notation of *Attention Is All You Need*, with one name for each thing.

Rows are tokens, and a map is always `X @ W`. `Q`, `K` and `V` are only ever what enters
equation (1); what enters multi-head attention is a source, `X_Q`, `X_K` or `X_V`.

This package is the paper's layer. What serves other needs stands in rooms beside it, which are
loaded when they are first used: `layouts`, `notation`, `mistakes`, `shapes`, `costs` and `reading`.
"""

import importlib
from typing import TYPE_CHECKING

from qkv import masks as masks
from qkv.equation_1 import attention, softmax
from qkv.maps import fold, merge, w_qk, w_vo
from qkv.multi_head import MultiHead

if TYPE_CHECKING:
    from qkv.layouts import dump, find_layers, load, unpack
    from qkv.mistakes import diagnose
    from qkv.reading import read
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
    "read",
    "softmax",
    "unpack",
    "w_qk",
    "w_vo",
    "which",
]

_MODULES = ("costs", "example", "layouts", "mistakes", "notation", "reading", "shapes")
_MODULE_OF = {
    "diagnose": "mistakes",
    "dump": "layouts",
    "find_layers": "layouts",
    "load": "layouts",
    "read": "reading",
    "unpack": "layouts",
    "which": "shapes",
}


def __getattr__(name: str) -> object:
    """Load a room when it, or a function of it, is first used."""
    if name in _MODULES:
        return importlib.import_module(f"qkv.{name}")
    if name in _MODULE_OF:
        return getattr(importlib.import_module(f"qkv.{_MODULE_OF[name]}"), name)
    if name == "__version__":
        return _version()
    raise AttributeError(f"module 'qkv' has no attribute {name!r}")


def _version() -> str:
    """The version that was installed; of a checkout that is only on the path there is none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("which-q")
    except PackageNotFoundError:
        return "0+not-installed"


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_MODULE_OF, "__version__"})
