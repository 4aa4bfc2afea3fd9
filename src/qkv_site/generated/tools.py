"""The interactive pages as HTML: their forms, and what the explorer shows for each reading.

A page holds all that its script can show, and shows its first state without the script. A number
that follows from the sizes is a `<data data-sum="2 n h d_k + 1 n n">`: the script puts the sum's
value in, and draws each matrix as tall and as wide as its two numbers say.
"""

import html
import json
import math

from qkv_site.generated import exports
from qkv_site.generated.exports import Terms
from qkv_site.markdown import matrices
from qkv_site.markdown.mathml import to_mathml

# The first state: the base model of "Attention Is All You Need".
SIZES = {"n": 100, "d_model": 512, "h": 8, "d_k": 64, "h_kv": 8}
_FIRST = "paper"

# What is said about each size, and what is in its field when the page is opened.
_EXPLORER_FIELDS = {
    "n": ("tokens", "100"),
    "d_model": ("width of the source", "512"),
    "h": ("heads", "8"),
    "d_k": ("width of one head, of its values too", ""),
    "h_kv": ("heads of keys and values", "2"),
}
_SHAPE_FIELDS = {
    "d_model": ("width of the source", "512"),
    "h": ("number of heads", "8"),
    "d_k": ("width of one head; d_model / h if empty", ""),
    "h_kv": ("heads of keys and values; h if empty", ""),
}
_OF_A_STEP = {
    "count": "products",
    "parameters": "parameters",
    "multiply_adds": "multiply-adds",
}
_MOST_BLOCKS = 16  # as in explorer.js


def explorer() -> str:
    """The explorer: a form, and what it says about each reading."""
    data = exports.explorer()
    readings = "".join(
        f'<label><input type="radio" name="reading" value="{reading}"'
        f"{' checked' * (reading == _FIRST)}> {html.escape(each['name'])}</label>"
        for reading, each in data["readings"].items()
    )
    fields = "".join(
        _field(name, data["sizes"][name], *said, slider=True)
        for name, said in _EXPLORER_FIELDS.items()
    )
    first = _summary(data, _FIRST)
    results = "".join(_results(data, reading) for reading in data["readings"])
    return (
        '<div class="wq-tool" data-wq-explorer><form class="wq-controls">'
        f'<fieldset class="wq-readings"><legend>Reading</legend>{readings}</fieldset>'
        f'<div class="wq-fields">{fields}</div></form>'
        f'<p role="status">{first}</p><div data-output>{results}</div></div>'
    )


def shape_form() -> str:
    """The form for shapes, with the rules that its script goes by."""
    fields = "".join(
        _field(name, f"<code>{name}</code>", *said) for name, said in _SHAPE_FIELDS.items()
    )
    shapes = (
        '<div class="wq-field"><label for="wq-shape">Shapes <span>one on each line, as in 512, 64 '
        'or torch.Size([8, 512, 64])</span></label><textarea id="wq-shape" data-size="shape" '
        'rows="3" autocomplete="off" spellcheck="false" aria-describedby="wq-shape-fault">512, 512'
        '</textarea><p class="wq-fault" id="wq-shape-fault"></p></div>'
    )
    data = exports.shapes()
    data["sizes"] = {symbol: _sum(terms) for symbol, terms in data["sizes"].items()}
    rules = html.escape(json.dumps(data, ensure_ascii=False, separators=(",", ":")), quote=False)
    return (
        f'<div class="wq-tool" data-wq-which-shape><form class="wq-controls">'
        f'<div class="wq-fields">{shapes}{fields}</div></form><p role="status"></p>'
        f"<div data-output></div><template>{rules}</template></div>"
    )


def _field(name: str, letter: str, meaning: str, value: str, *, slider: bool = False) -> str:
    slide = (
        f'<input type="range" data-slides="{name}" min="0" aria-label="{name}, {meaning}: slider">'
    )
    left_out = f' placeholder="{SIZES[name]}"' if not value else ""
    return (
        f'<div class="wq-field"{" hidden" * (name == "h_kv" and slider)}>'
        f'<label for="wq-{name}">{letter} <span>{meaning}</span></label>'
        f'<input id="wq-{name}" data-size="{name}" value="{value}"{left_out} inputmode="numeric" '
        f'autocomplete="off" aria-describedby="wq-{name}-fault">{slide if slider else ""}'
        f'<p class="wq-fault" id="wq-{name}-fault"></p></div>'
    )


def _results(data: dict, reading: str) -> str:
    """What the explorer shows for a reading; for all but the first, for the script to take."""
    counts, paper = (data["readings"][each]["counts"] for each in (reading, _FIRST))
    cards = "".join(
        f'<div data-count="{name}"><dt>{meaning}</dt>'
        f'<dd class="wq-number">{_number(counts[name]["terms"])}</dd>'
        f"{_comparison(counts[name]['terms'], paper[name]['terms']) if reading != _FIRST else ''}"
        f'<dd class="wq-sum">{counts[name]["formula"]}</dd></div>'
        for name, meaning in data["counts"].items()
    )
    steps = data["readings"][reading]["steps"]
    longest = max(
        _value(matrix[side])
        for step in steps
        for matrix in step["matrices"]
        for side in ("rows", "columns")
    )
    drawn = "".join(map(_step, steps))
    results = (
        f'<div data-reading="{reading}"><p hidden>{_summary(data, reading)}</p>'
        f'<dl class="wq-counts">{cards}</dl>'
        f'<ol class="wq-steps" style="--longest:{longest}">{drawn}</ol>'
        '<p class="wq-scale">Drawn to one scale. No side is drawn shorter than 3 pixels.</p></div>'
    )
    return results if reading == _FIRST else f"<template>{results}</template>"


def _summary(data: dict, reading: str) -> str:
    name, _, _ = data["readings"][reading]["name"].partition(":")
    counts = data["readings"][reading]["counts"]
    paper = data["readings"][_FIRST]["counts"]
    said = []
    for each in ("parameters", "multiply_adds", "cached_per_token"):
        said.append(f"{_number(counts[each]['terms'])} {data['counts'][each]}")
        if reading != _FIRST:
            said[-1] += f" ({_ratio(counts[each]['terms'], paper[each]['terms'])})"
    return f"{html.escape(name)}: {', '.join(said)}."


def _comparison(here: Terms, paper: Terms) -> str:
    return f"<dd><b>{_ratio(here, paper)}</b> the paper's {_number(paper)}</dd>"


def _ratio(here: Terms, paper: Terms) -> str:
    return f'<span data-sum="{_sum(here)}" data-to="{_sum(paper)}"></span>'


def _step(step: dict) -> str:
    first, second, result = (_matrix(**matrix) for matrix in step["matrices"])
    second, result = _part(r"\times", second), _part("=", result)
    numbers = [
        f"{label}: " + _number(step[name], "data-step", name)
        for name, label in _OF_A_STEP.items()
        if step[name]
    ]
    return (
        f'<li><p class="wq-step">{step["formula"]} <span>{" · ".join(numbers)}</span></p>'
        f'<div class="wq-drawn">{first}{second}{result}</div></li>'
    )


def _part(sign: str, matrix: str) -> str:
    signed = f'<span class="wq-sign" aria-hidden="true">{to_mathml(sign)}</span>{matrix}'
    return f'<span class="wq-part">{signed}</span>'


def _matrix(
    *, symbol: str, group: str, shape: str, rows: Terms, columns: Terms, count: Terms
) -> str:
    """One rectangle, with its sizes at its edges and its letter below it."""
    return matrices.matrix(
        _side(rows, "wq-rows"),
        _side(columns, "wq-columns"),
        f'{symbol}<span class="wq-shape">{shape}</span>',
        classes=f"role-{group}{' wq-many' * (_value(count) > 1)}",
        data=f' data-many="{_sum(count)}"',
        of_blocks=' aria-hidden="true"',
    )


def _side(terms: Terms, css_class: str) -> matrices.Side:
    label = _number(terms, "class", css_class)
    return matrices.Side(_value(terms), label, (matrices.Block(),) * _heads(terms))


def _heads(side: Terms) -> int:
    """Into how many blocks a side is cut: one for each head that stands along it."""
    ((_, *sizes),) = side
    heads = next((SIZES[size] for size in sizes if size in ("h", "h_kv")), 1)
    return heads if heads <= _MOST_BLOCKS else 1


def _number(terms: Terms, attribute: str = "class", value: str = "") -> str:
    """A number that follows from the sizes, with the sum that it is the value of."""
    number = _value(terms)
    mark = f' {attribute}="{value}"' if value else ""
    return f'<data{mark} data-sum="{_sum(terms)}" value="{number}">{number:,}</data>'


def _value(terms: Terms) -> int:
    return sum(count * math.prod(SIZES[name] for name in names) for count, *names in terms)


def _sum(terms: Terms) -> str:
    return " + ".join(" ".join(map(str, term)) for term in terms)
