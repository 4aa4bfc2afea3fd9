"""The trees of formulas: of roles, as a line is parsed, and of glyphs, as a source writes it.

All that is done with a formula (check, typeset, explain, draw) is a function of such a tree. The
values are frozen; `match` takes them apart.
"""

from qkv.notation._expressions import (
    Apply,
    Arithmetic,
    Expression,
    Formula,
    Number,
    OverHeads,
    OverRoot,
    Product,
    Root,
    Sum,
    Symbol,
    Transpose,
    parse,
    parse_size,
)
from qkv.notation._latex import latex, letters, sum_sign
from qkv.notation._settings import Setting
from qkv.notation._written import (
    Added,
    Applied,
    Bracketed,
    Glyph,
    Joined,
    OwnSize,
    Spread,
    Written,
    axes,
)

__all__ = [
    "Added",
    "Applied",
    "Apply",
    "Arithmetic",
    "Bracketed",
    "Expression",
    "Formula",
    "Glyph",
    "Joined",
    "Number",
    "OverHeads",
    "OverRoot",
    "OwnSize",
    "Product",
    "Root",
    "Setting",
    "Spread",
    "Sum",
    "Symbol",
    "Transpose",
    "Written",
    "axes",
    "latex",
    "letters",
    "parse",
    "parse_size",
    "sum_sign",
]
