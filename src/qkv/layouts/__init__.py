"""From a library's stored weights to the paper's per-head matrices, and back.

This room is for whoever has weights of a library, or has to write some: `load`, `dump`, `unpack`,
`find_layers`, and `convert_mask` for its masks. A layout is a file in the folder `libraries`:
names, shapes in the paper's symbols, conventions, and where that was read.
"""

from qkv.layouts._dump import dump
from qkv.layouts._find import FoundLayer, FoundLayers, find_layers
from qkv.layouts._layout import Form, Layout, Stored
from qkv.layouts._load import load
from qkv.layouts._masks import MASK_FORMS, MaskForm, convert_mask
from qkv.layouts._registry import layouts
from qkv.layouts._unpack import unpack

__all__ = [
    "MASK_FORMS",
    "Form",
    "FoundLayer",
    "FoundLayers",
    "Layout",
    "MaskForm",
    "Stored",
    "convert_mask",
    "dump",
    "find_layers",
    "layouts",
    "load",
    "unpack",
]
