"""From a library's stored weights to the paper's per-head matrices, and back.

Each library has one module here, which holds what the library stores as data: names, shapes in
the paper's symbols, conventions, and where that was read.
"""

from qkv.layouts._dump import dump
from qkv.layouts._layout import Form, Layout, Stored
from qkv.layouts._load import load
from qkv.layouts._registry import layouts

__all__ = ["Form", "Layout", "Stored", "dump", "layouts", "load"]
