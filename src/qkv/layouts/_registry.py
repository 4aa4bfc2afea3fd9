r"""Every layout, by name: each is a file of the folder `libraries`.

A file has the fields of `Layout`, and gives it its name. The arrays of a form stand in a table,
`[forms.always]`: for each, what it `holds`, its `axes`, which are the pattern of a `Stored`, and
`bias`, true or a name, if the map has one. `notes.always` is what else to know of that form. One
key of `outside` and of `refused` may be several names with a space between, and `types` has a line
for those that do the same.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from qkv._arrays import check_one_of, quote
from qkv.layouts._layout import Form, Layout, Stored, Type

# What many files say alike.
_PHRASES = {
    "{qk_norm}": "it belongs to QK-norm, a norm between the projection and the dot product; "
    "qkv.between has such a norm",
    "{scaled_here_or_by_sdpa}": "The scores are multiplied by 1/sqrt(d_k), in the layer or inside "
    "`scaled_dot_product_attention`.",
    "{causal_by_sdpa}": "the causal mask, which the layer applies with sdpa if it is given none: "
    "pass it to MultiHead as mask",
}


@cache
def _found() -> dict[str, Layout]:
    """The layout of each file in the folder `libraries`."""
    files = Path(__file__).with_name("libraries").glob("*.toml")
    found = sorted(map(_read, files), key=lambda layout: layout.order)
    return {layout.name: layout for layout in found}


def _read(file: Path) -> Layout:
    """The layout in a file, which has the file's name."""
    text = file.read_text("utf-8")
    for short, phrase in _PHRASES.items():
        text = text.replace(short, phrase)
    try:
        if unknown := re.search(r"\{\w+\}", text):
            raise ValueError(f"{unknown[0]} is none of the phrases {quote(_PHRASES)}.")
        entries = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in tomllib.loads(text).items()
        }
        notes = entries.pop("notes", {})
        entries["forms"] = tuple(
            Form(when, _arrays(stored), notes.pop(when, ""))
            for when, stored in entries["forms"].items()
        )
        if notes:
            raise ValueError(f"notes has {min(notes)!r}, which is none of its forms.")
        for key in ("outside", "refused"):  # one reason may be that of several names
            reasons = entries.get(key, {}).items()
            entries[key] = {name: why for names, why in reasons for name in names.split()}
        types = {}
        for facts in entries.get("types", ()):
            types |= dict.fromkeys(facts.pop("names").split(), Type(**facts))
        return Layout(name=file.stem, **entries | {"types": types})
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file.name}: {error}") from error


def _arrays(stored: Mapping[str, Mapping]) -> tuple[Stored, ...]:
    return tuple(each for name, array in stored.items() for each in _array(name, **array))


def _array(name: str, holds: str, axes: str, bias: str | bool = False) -> Iterator[Stored]:
    """An array of a form, and behind it its bias, if it has one: of the usual name, or of another.

    The bias has the axes of its weight but the one that goes in. That of W_O has no heads.
    """
    weight = Stored(name, holds, axes)
    yield weight
    if bias:
        _, (takes,), (gives,) = weight.paper_axes
        axes = gives if holds == "W_O" else re.sub(rf"\b{takes}\b", "", axes)
        named = re.sub("(weight|kernel)$", "bias", name) if bias is True else bias
        if named == name:
            raise ValueError(f"{name!r} ends in no weight or kernel: bias must be a name.")
        yield Stored(named, holds.replace("W_", "b_"), " ".join(axes.split()))


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
