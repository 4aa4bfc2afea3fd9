"""The interactive pages as HTML: their forms, and what the explorer shows for each version.

A page holds all that its script can show, and shows its first state without the script. A number
that follows from the sizes is a `<data data-sum="2 n h d_k + 1 n n">`: the script puts the sum's
value in, and draws each matrix as tall and as wide as its two numbers say.
"""

import html
import math
from urllib.parse import quote

from qkv_site.figures import Tool
from qkv_site.markdown import matrices
from qkv_site.markdown.mathml import to_mathml
from qkv_site.page import PAGE
from qkv_site.parts import formulas
from qkv_site.parts import map as layer_map
from qkv_site.parts.layer import BASE_MODEL
from qkv_site.tables import exports
from qkv_site.tables.exports import Terms

# The first state: the base model of "Attention Is All You Need", with 100 tokens.
SIZES = {"n": 100} | BASE_MODEL
_FIRST = "paper"

# What is said about each size, and what is in its field when the page is opened.
_EXPLORER_FIELDS = {
    "n": ("tokens", "100"),
    "d_model": ("width of the source", "512"),
    "h": ("heads", "8"),
    "d_k": ("width of one head (values have the same width)", ""),
    "h_kv": ("heads of keys and values", "2"),
}
_OF_A_STEP = {
    "count": "products",
    "parameters": "parameters",
    "multiply_adds": "multiply-adds",
}
_MOST_BLOCKS = 16  # more could not be seen


# Which products are drawn in one row: two matrices in a row, where there are two.
_ROWS = {"two-step": ((0, 3), (1, 4), (2, 5), (6,), (7,), (8,))}
_TWO, _ONE = "two-step", "two-step-merged"


def explorer() -> Tool:
    """The explorer: a form, and what it says about each version."""
    return Tool(_explorer)


def _explorer() -> str:
    data = exports.explorer()
    merge = (
        '<label class="wq-merge" hidden><input type="checkbox" name="merged">'
        "<span>Multiply the two matrices into one, for keys and values too: "
        f"{formulas.inline('P_Q @ W_Q[i] == M[i]')}</span></label>"
    )
    versions = "".join(
        f'<label><input type="radio" name="version" value="{version}"'
        f"{' checked' * (version == _FIRST)}><span>{_name(version, data)}</span></label>"
        f"{merge if version == _TWO else ''}"
        for version in data["versions"]
        if version != _ONE
    )
    fields = "".join(
        _field(name, data["sizes"][name], *said) for name, said in _EXPLORER_FIELDS.items()
    )
    results = "".join(_results(data, version) for version in data["versions"])
    return (
        '<div class="wq-tool" data-wq-explorer'
        f' data-most-blocks="{_MOST_BLOCKS}">'
        '<form class="wq-controls" id="wq-explorer">'
        f'<fieldset class="wq-choices"><legend>Version</legend>{versions}</fieldset>'
        f'<p class="wq-here" aria-hidden="true" data-here>{_summary(data, _FIRST)}</p>'
        f'<div class="wq-fields">{fields}</div></form>'
        f'<div class="wq-shown"><p role="status">{_summary(data, _FIRST)}</p>'
        f"<div data-output>{results}</div></div></div>"
    )


def _name(version: str, data: dict) -> str:
    name = html.escape(data["versions"][version]["name"])
    return f"{name}, {formulas.inline('W_Q[i] @ W_K[i].T')}" if version == "w_qk" else name


def box(says: str, *examples: str) -> Tool:
    """The box, large, with what stands in it, and lines to try."""
    return Tool(lambda: _box(says, examples))


def _box(says: str, examples: tuple[str, ...]) -> str:
    links = "".join(
        f'<li><a data-wq-example href="?q={quote(each)}">{html.escape(each)}</a></li>'
        for each in examples
    )
    tried = f'<ul class="wq-examples">{links}</ul>' if links else ""
    return (
        '<div class="wq-box wq-box-large" data-wq-box="large">'
        f'<a href="{layer_map.href("questions.md")}">{html.escape(says)}</a>{tried}</div>'
    )


def _field(name: str, letter: str, meaning: str, value: str) -> str:
    slide = (
        f'<input type="range" data-slides="{name}" min="0" aria-label="{name}, {meaning}: slider">'
    )
    left_out = f' placeholder="= {SIZES[name]}"' if not value else ""
    return (
        f'<div class="wq-field"{" hidden" * (name == "h_kv")}>'
        f'<label for="wq-{name}">{letter} <span>{meaning}</span></label>'
        f'<input id="wq-{name}" data-size="{name}" value="{value}"{left_out} inputmode="numeric" '
        f'autocomplete="off" aria-describedby="wq-{name}-fault">{slide}'
        f'<p class="wq-fault" id="wq-{name}-fault"></p></div>'
    )


def _results(data: dict, version: str) -> str:
    """What the explorer shows for a version; for all but the first, for the script to take."""
    steps = data["versions"][version]["steps"]
    longest = max(
        _value(matrix[side])
        for step in steps
        for matrix in step["matrices"]
        for side in ("rows", "columns")
    )
    rows = _ROWS.get(version, [(number,) for number in range(len(steps))])
    drawn = "".join(
        _row([steps[number] for number in row], wide=version in (_TWO, _ONE) and place < 3)
        for place, row in enumerate(rows)
    )
    results = (
        f'<div data-version="{version}"><p hidden>{_summary(data, version)}</p>'
        f'<dl class="wq-counts">{_cards(data, version)}</dl>{_note(version)}'
        f'<ol class="wq-steps" style="--longest:{longest}">{drawn}</ol>'
        '<p class="wq-scale">Drawn to one scale. No side is drawn shorter than 3 pixels.</p></div>'
    )
    if version == _FIRST:
        return results
    PAGE.get().uncounted.append(results)
    return f"<template>{results}</template>"


def _note(version: str) -> str:
    """What a letter stands for in a version, where that is another thing than on other pages."""
    if version != _TWO:
        return ""
    return (
        "<p>Some hear an extra matrix before the heads in the two videos. "
        f"{formulas.inline('P_Q')} is this site's letter for it. The paper's layer has none. "
        f'Your matrices have other shapes? <a href="{layer_map.href("which-shape.md")}">Try your '
        "own</a>.</p>"
    )


def _cards(data: dict, version: str) -> str:
    """Each count: the number, a bar as long as it is beside other versions, and its formula."""
    counts, paper = (data["versions"][each]["counts"] for each in (version, _FIRST))
    return "".join(
        f'<div data-count="{name}"><dt>{meaning}</dt>'
        f'<dd class="wq-number">{_number(counts[name]["terms"])}</dd>'
        f'<dd class="wq-bar" aria-hidden="true">{_bar(data, version, name)}</dd>'
        f"{_comparison(counts[name]['terms'], paper[name]['terms']) if version != _FIRST else ''}"
        f'<dd class="wq-sum">{counts[name]["formula"]}</dd></div>'
        for name, meaning in data["counts"].items()
    )


def _bar(data: dict, version: str, name: str) -> str:
    every = {key: _value(each["counts"][name]["terms"]) for key, each in data["versions"].items()}
    here, paper = (every[each] / max(every.values()) for each in (version, _FIRST))
    return f'<span style="--here:{here:.4f};--paper:{paper:.4f}"></span>'


def _summary(data: dict, version: str) -> str:
    name, _, _ = data["versions"][version]["name"].partition(":")
    counts = data["versions"][version]["counts"]
    paper = data["versions"][_FIRST]["counts"]
    said = []
    for each in ("parameters", "multiply_adds", "cached_per_token"):
        said.append(f"{_number(counts[each]['terms'])} {data['counts'][each]}")
        if version != _FIRST:
            whose = "" if len(said) > 1 else " the paper's"
            said[-1] += f" ({_ratio(counts[each]['terms'], paper[each]['terms'])}{whose})"
    return f"{html.escape(name)}: {', '.join(said)}."


def _comparison(here: Terms, paper: Terms) -> str:
    return f"<dd><b>{_ratio(here, paper)}</b> the paper's {_number(paper)}</dd>"


def _ratio(here: Terms, paper: Terms) -> str:
    return f'<span data-sum="{_sum(here)}" data-to="{_sum(paper)}"></span>'


def _row(steps: list[dict], *, wide: bool) -> str:
    """One product, or two whose result is the other's factor: X P_Q W_Q is drawn in one row."""
    first, *_ = steps[0]["matrices"]
    factors = [step["matrices"][1] for step in steps]
    *_, result = steps[-1]["matrices"]
    drawn = _matrix(first) + "".join(_part(r"\times", each) for each in factors)
    said = "".join(map(_step_row, steps))
    return (
        f'<li{" class=wq-chain" * wide}><div class="wq-said">{said}</div>'
        f'<div class="wq-drawn" data-turned="{" ".join(steps[0]["turned"])}">'
        f"{drawn}{_part('=', result)}</div></li>"
    )


def _step_row(step: dict) -> str:
    numbers = [
        f"{label}: " + _number(step[name], "data-step", name)
        for name, label in _OF_A_STEP.items()
        if step[name]
    ]
    return f'<div class="wq-step">{step["formula"]} <span>{" · ".join(numbers)}</span></div>'


def _part(sign: str, matrix: dict) -> str:
    signed = f'<span class="wq-sign" aria-hidden="true">{to_mathml(sign)}</span>{_matrix(matrix)}'
    return f'<span class="wq-part">{signed}</span>'


def _matrix(matrix: dict) -> str:
    """One rectangle, with its sizes at its edges and its letter below it."""
    count = matrix["count"]
    return matrices.matrix(
        _side(matrix["rows"], "wq-rows"),
        _side(matrix["columns"], "wq-columns"),
        f'{matrix["letter"]}<span class="wq-shape">{matrix["shape"]}</span>',
        classes=f"role-{matrix['group']}{' wq-many' * (_value(count) > 1)}",
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
