"""From each layout to each: what really converting a layer needs, and what it loses."""

from contextlib import suppress
from dataclasses import replace
from functools import cache
from string import ascii_uppercase

import numpy as np

from qkv import MultiHead, dump, load
from qkv.layouts import Layout, layouts
from qkv_site.markdown.tables import table

SIGNS = {
    "=": "the weights fit after reordering, and nothing is added or lost; if both "
    "rotate, compare [the rotations](#rotation)",
    "0": "add zeros for biases that the target stores",
    "k": "leave the key bias out; in equation (1) it has no effect",
    "s": "move the scale into the weight of the queries",
    "b": "a bias has no place in the target and is lost",
    "r": "one of the two [rotates queries and keys](#rotation), and the other does not",
}
_BIASES = ("b_Q", "b_K", "b_V", "b_O")


def typical(layout: Layout) -> MultiHead:
    """A layer of a layout's first form with the biases that it may have."""
    return _of_sizes(layout, {})


def signs(source: str, target: str) -> str:
    """What it takes to store a layer of one layout in another, as signs of `SIGNS`.

    The layer is converted, loaded again and called; where nothing is said to be lost, its output
    has to be the same.
    """
    return _signs(_first_with_the_same_layer(source), target)


@cache
def _signs(source: str, target: str) -> str:
    before = _stored_and_loaded(source)
    after, said = _fitted(before, layouts()[target])
    back = load(dump(after, target), target, h=4)
    assert back == after
    assert "b" in said or _equal(before, back), (source, target, said)
    return "".join(said) or "="


@cache
def _stored_and_loaded(name: str) -> MultiHead:
    return load(dump(typical(layouts()[name]), name), name, h=4)


@cache
def _first_with_the_same_layer(name: str) -> str:
    """The first layout of which the same layer comes out."""
    layer = _stored_and_loaded(name)
    return next(other for other in layouts() if _stored_and_loaded(other) == layer)


def _fitted(mh: MultiHead, layout: Layout) -> tuple[MultiHead, list[str]]:
    """A layer that a layout can store, and what was changed."""
    said = []
    if bool(mh.between) != layout.rotary:
        said.append("r")
    if mh.scale != layout.scale:
        said.append("s")
        paper = mh.d_k**-0.5
        factor = (mh.scale or paper) / (layout.scale or paper)
        b_Q = None if mh.b_Q is None else mh.b_Q * factor
        mh = replace(mh, W_Q=mh.W_Q * factor, b_Q=b_Q, scale=layout.scale)
    mh, biases = _with_biases(mh, layout)
    lost = "b" in biases
    return replace(mh, between=layout.between), said + [
        b for b in biases if not (lost and b == "k")
    ]


def _with_biases(mh: MultiHead, layout: Layout) -> tuple[MultiHead, list[str]]:
    """The layer with the biases that a layout stores with the least change."""
    given = {bias for bias in _BIASES if getattr(mh, bias) is not None}
    choices = [{*biases} for biases in layout.bias_sets]
    harmless = set() if mh.between or layout.between else {"b_K"}
    chosen = min(choices, key=lambda each: (len(given - each - harmless), len(each - given)))
    said = []
    for bias in _BIASES:
        W = getattr(mh, bias.replace("b_", "W_"))
        if bias in chosen - given:
            said.append("0")
            shape = W.shape[2:] if bias == "b_O" else W.shape[::2]
            mh = replace(mh, **{bias: np.zeros(shape)})
        elif bias in given - chosen:
            said.append("k" if bias in harmless else "b")
            mh = replace(mh, **{bias: None})
    return mh, sorted(dict.fromkeys(said))


def _equal(before: MultiHead, after: MultiHead) -> bool:
    """Whether two layers compute the same, a rotation left out in both."""
    X = np.random.default_rng(1).normal(size=(5, 24))
    outputs = [replace(mh, between=())(X) for mh in (before, after)]
    return np.allclose(*outputs, rtol=0, atol=1e-12)


def groups() -> tuple[tuple[str, ...], ...]:
    """Layouts that need the same, from and to each of the others; the largest group first."""
    names = [*layouts()]
    found: dict[tuple, list[str]] = {}
    for name in names:
        key = tuple((signs(name, other), signs(other, name)) for other in names)
        found.setdefault(key, []).append(name)
    return tuple(sorted(map(tuple, found.values()), key=len, reverse=True))


def letter(name: str) -> str:
    """The letter of a layout's group."""
    return next(sign for sign, group in _named() if name in group)


def _named() -> list[tuple[str, tuple[str, ...]]]:
    return [*zip(ascii_uppercase, groups(), strict=False)]


def matrix() -> str:
    """What each group of layouts needs to be stored as each other one."""
    named = _named()
    rows = (
        (f"**{sign}**", *(" ".join(signs(group[0], other[-1])) for other in groups()))
        for sign, group in named
    )
    pairs = table(("from", *(sign for sign, _ in named)), rows)
    members = "\n".join(f"- **{sign}** {', '.join(group)}" for sign, group in named)
    return f'{members}\n\n<div class="wq-pairs" markdown="1">\n\n{pairs}\n\n</div>'


def legend() -> str:
    """What the signs of the matrix mean."""
    return "\n".join(f"- **{sign}** {meaning}." for sign, meaning in SIGNS.items())


def holding(**sizes: int) -> list[str]:
    """The layouts that can store a layer with these sizes."""
    found = []
    for name, layout in layouts().items():
        with suppress(ValueError):
            dump(_of_sizes(layout, sizes), name)
            found.append(name)
    return found


def _of_sizes(layout: Layout, sizes: dict[str, int]) -> MultiHead:
    mh = MultiHead.random(24, **({"h": 4} | sizes), bias=True)
    absent = [bias for bias in _BIASES if bias not in layout.bias_sets[0]]
    return replace(mh, **dict.fromkeys(absent), scale=layout.scale, between=layout.between)
