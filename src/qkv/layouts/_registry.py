r"""Every layout, by name."""

import importlib
import pkgutil
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from qkv._arrays import check_one_of
from qkv.layouts._layout import Layout


@cache
def _found() -> dict[str, Layout]:
    """The layout of each module beside this one that is not private."""
    modules = [
        importlib.import_module(f"qkv.layouts.{module.name}")
        for module in pkgutil.iter_modules([str(Path(__file__).parent)])
        if not module.name.startswith("_")
    ]
    found = sorted((module.LAYOUT for module in modules), key=lambda layout: layout.order)
    return {layout.name: layout for layout in found}


def layouts() -> dict[str, Layout]:
    r"""Every layout that `load` and `dump` know, by name.

    Returns:
        Name to layout: what the library stores, as data.

    Examples:
        >>> layout = layouts()["gpt2"]
        >>> layout.convention, layout.biases
        ('(in, out)', 'always')
        >>> for stored in layout.forms[0].stored:
        ...     print(stored.name, stored.shape, "holds", stored.holds)
        c_attn.weight (d_model, 3·h·d_k) holds W_Q W_K W_V
        c_attn.bias (3·h·d_k,) holds b_Q b_K b_V
        c_proj.weight (h·d_k, d_model) holds W_O
        c_proj.bias (d_model,) holds b_O

    Source:
        Each layout's `read_in`.
    """
    return dict(_found())


def succeeds(attempt: Callable[..., object], *arguments: object) -> bool:
    """Whether a call refuses nothing."""
    with suppress(TypeError, ValueError):
        attempt(*arguments)
        return True
    return False


def find_layout(layout: str) -> Layout:
    """The layout of that name."""
    check_one_of("layout", layout, _found())
    return _found()[layout]
