r"""Every layout, by name."""

from collections.abc import Iterable

from qkv.layouts import (
    annotated_transformer,
    bert,
    bert_tf,
    flax,
    gpt2,
    gpt_neox,
    haiku,
    keras,
    llama,
    nanogpt,
    pytorch,
    t5,
    tensor2tensor,
    transformerlens,
    vit_pytorch,
    whisper,
)
from qkv.layouts._layout import Layout

_LIBRARIES = (
    pytorch,
    keras,
    flax,
    haiku,
    bert,
    bert_tf,
    gpt2,
    gpt_neox,
    llama,
    t5,
    whisper,
    annotated_transformer,
    nanogpt,
    vit_pytorch,
    tensor2tensor,
    transformerlens,
)
_LAYOUTS = {library.LAYOUT.name: library.LAYOUT for library in _LIBRARIES}


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
    return dict(_LAYOUTS)


def find_layout(layout: str) -> Layout:
    """The layout of that name."""
    if layout not in _LAYOUTS:
        raise ValueError(f"layout must be one of {quoted(_LAYOUTS)}, but is {layout!r}.")
    return _LAYOUTS[layout]


def quoted(names: Iterable[str]) -> str:
    """Names as a list in a message."""
    return ", ".join(repr(name) for name in names)
