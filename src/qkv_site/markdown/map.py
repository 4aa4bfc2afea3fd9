"""The map: the whole layer in one figure, and where the letter Q stands in it.

A bar is as wide as there are numbers for one word, and a weight is the funnel from one bar to the
next. Which bars and funnels there are, how wide they are and what letters they have follows from
the lines of `LAYER`, in every source's notation. A fenced block of the language `map` draws it in
a page, with a choice of three states: the paper; two videos, as they sound; and code, which packs
the heads' weights into one array. `state="sound"` says which of them is shown first. A page whose
front matter has `map: W_Q[i] Q[i]` shows the map small, with these parts lit.
"""

import html
import posixpath
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from qkv import notation
from qkv.notation import Role
from qkv.notation.tree import Apply, Formula, OverHeads, Product, Symbol, parse
from qkv_site.markdown import current, formulas
from qkv_site.markdown.mathml import mark, to_mathml

LAYER = (
    "Q[i] = X_Q @ W_Q[i]",
    "K[i] = X_K @ W_K[i]",
    "V[i] = X_V @ W_V[i]",
    "head[i] = attention(Q[i], K[i], V[i])",
    "Y = concat(head[i] for i in heads) @ W_O",
)
BASE_MODEL = {"d_model": 512, "h": 8, "h_kv": 8, "d_k": 64, "d_v": 64}
STATES = {
    "paper": "the paper",
    "sound": "as two videos sound",
    "code": "as code packs it",
}
HOME = "index.md"
# Which page explains a part. What a function returns is explained with the function.
PAGES = {
    "X_Q": "explanation/are-they-the-same.md",
    "X_K": "explanation/are-they-the-same.md",
    "X_V": "explanation/are-they-the-same.md",
    "W_Q[i]": "explanation/widths.md",
    "W_K[i]": "explanation/why-not-one-matrix.md",
    "W_V[i]": "explanation/values-and-output.md",
    "Q[i]": "explanation/which-q.md",
    "K[i]": "explanation/why-not-one-matrix.md",
    "V[i]": "explanation/values-and-output.md",
    "attention": "explanation/scaling.md",
    "head[i]": "explanation/values-and-output.md",
    "W_O": "explanation/values-and-output.md",
    "Y": "explanation/widths.md",
    "W_Q": "explanation/square-or-rectangular.md",
}
# What the paper calls Q: who says so, and the role that the letter stands for there.
FLAGS = {
    "X_Q": ("paper-3-2-2", "multihead(X_Q, X_K, X_V)"),
    "Q[i]": ("paper-eq1", "equation (1)"),
}
PAPER = ("site", "paper-3-2-2", "paper-eq1")
VIDEOS = ("ng-self-attention", "ng-multi-head")


@dataclass(frozen=True)
class Layer:
    """The lines of the layer, and how wide everything in them is.

    Attributes:
        sizes: The number that each size stands for.
        lines: The formulas, in the order in which the layer runs.
    """

    sizes: dict[str, int] = field(default_factory=BASE_MODEL.copy)
    lines: tuple[str, ...] = LAYER

    @property
    def formulas(self) -> tuple[Formula, ...]:
        """The lines, parsed."""
        return tuple(map(parse, self.lines))

    @property
    def projections(self) -> tuple[tuple[Role, Role, Role], ...]:
        """Source, weight and result of each line that is a product of two roles."""
        return tuple(
            (left.role, right.role, formula.defined.role)
            for formula in self.formulas
            for left, right in (_factors(formula),)
            if isinstance(left, Symbol)
        )

    @property
    def attention(self) -> tuple[Apply, Role]:
        """The call of equation (1), and the role of what it returns."""
        for formula in self.formulas:
            if isinstance(formula.sides[-1], Apply):
                return formula.sides[-1], formula.defined.role
        raise ValueError("No line of the map calls attention.")

    @property
    def output(self) -> tuple[OverHeads, Role, Role]:
        """What is put side by side, the weight that it is multiplied by, and the result."""
        for formula in self.formulas:
            left, right = _factors(formula)
            if isinstance(left, OverHeads):
                return left, right.role, formula.defined.role
        raise ValueError("No line of the map joins the heads.")

    @property
    def parts(self) -> tuple[str, ...]:
        """The keys of all that can be lit: the roles of the lines, and the function."""
        keys = [key for formula in self.formulas for key in formula.roles]
        return (*dict.fromkeys(keys), self.attention[0].function)

    def numbers(self, role: Role) -> int:
        """How many numbers a role has for one word."""
        return notation.size_of(role.shape[-1], self.sizes)

    def takes(self, weight: Role) -> int:
        """How many numbers a weight multiplies."""
        return notation.size_of(weight.shape[0], self.sizes)

    def count(self, role: Role) -> int:
        """How many of a role there are."""
        return self.sizes["h"] if role.per_head else 1

    @property
    def widest(self) -> int:
        """How many numbers stand side by side at most."""
        roles = [formula.defined.role for formula in self.formulas]
        roles += [source for source, _, _ in self.projections]
        return max(self.numbers(role) * self.count(role) for role in roles)

    def shape(self, role: Role) -> str:
        """What `formulas.inline` writes as the role's shape, in numbers."""
        sizes = ", ".join(f"{name}={number}" for name, number in self.sizes.items())
        return f"shape({role.key}, {sizes})"


def _factors(formula: Formula) -> tuple:
    match formula.sides[-1]:
        case Product(left, right):
            return left, right
    return None, None


def fence(source, language, css_class, options, md, **_) -> str:
    """Draw the map in a page, for `pymdownx.superfences`."""
    return figure(options.get("state", "paper"))


def validate(language, inputs, options, attrs, md) -> bool:
    """Take the options of a fence, for `pymdownx.superfences`."""
    options.update(inputs)
    return set(inputs) <= {"state"}


def faults(code: str, options: dict[str, str]) -> list[tuple[int, str]]:
    """Say what is wrong with which line of a block; its fence is line -1."""
    found = [(0, "a map has no lines: it draws those of the layer")] if code.strip() else []
    state = options.get("state", "paper")
    if state not in STATES:
        found.append((-1, f"state is {state!r}: expected one of {', '.join(STATES)}"))
    return found


def figure(state: str = "paper", layer: Layer | None = None) -> str:
    """The map, in the state that is shown first, with a choice of all three."""
    layer = layer or Layer()
    draw = {"paper": _paper, "sound": _sound, "code": _code}
    choices = "".join(
        f'<label><input type="radio" name="map-{state}" value="{name}"'
        f"{' checked' if name == state else ''}><span>{label}</span></label>"
        for name, label in STATES.items()
    )
    drawn = "".join(
        f'<div class="wq-map-state" data-state="{name}">{draw[name](layer)}</div>'
        for name in STATES
    )
    anchor = ' id="map"' if current.page == HOME else ""
    return (
        f'<figure class="wq-map"{anchor} data-search-exclude aria-label="Map of the layer">'
        f'<fieldset><legend class="wq-unseen">Show the layer</legend>{choices}</fieldset>'
        f"{drawn}<figcaption>Width: how many numbers there are for one word.</figcaption></figure>"
    )


def _paper(layer: Layer) -> str:
    (source, weight, query), *others = layer.projections
    call, head = layer.attention
    _, output, result = layer.output
    made = "".join(_chip(layer, role) for _, _, role in others)
    return (
        _unseen(_said(layer))
        + _note("one word, as it comes in", source)
        + _bar(layer, source)
        + _flag(source.key)
        + _funnel(layer, weight, f"one matrix per head: {_weight(layer, weight)}")
        + _bars(layer, query)
        + _flag(query.key)
        + _note(f"{_math(query.key)} in each of {layer.count(query)} heads", query)
        + _link(call.function, "wq-map-call", f"<b>equation (1)</b> {_math(str(call))}")
        + f'<div class="wq-map-others"><span>made the same way</span>{made}</div>'
        + _bars(layer, head)
        + _note("the heads, {side}", head).format(side=_math('"side by side"'))
        + _funnel(layer, output, _weight(layer, output))
        + _bar(layer, result)
        + _note("the same word, as it goes out", result)
    )


def _said(layer: Layer) -> str:
    (source, weight, query), *others = layer.projections
    _, head = layer.attention
    _, output, result = layer.output
    heads, wide, narrow = layer.count(query), layer.numbers(source), layer.numbers(query)
    same = " and ".join(role.meaning for _, _, role in others)
    return (
        f"One word enters as {wide} numbers, the {source.meaning}. MultiHead calls them Q. In each "
        f"of {heads} heads one matrix, {weight.meaning}, takes the {wide} numbers to {narrow}, the "
        f"{query.meaning}. Equation (1) calls those Q. The {same} are made in the same way. "
        f"Equation (1) gives {layer.numbers(head)} numbers, {head.meaning}. Those of {heads} heads "
        f"together are {layer.takes(output)} numbers. The {output.meaning}, takes them to the "
        f"{layer.numbers(result)} numbers of the {result.meaning}."
    )


def _sound(layer: Layer) -> str:
    (source, weight, query), *_ = layer.projections
    has, wants = layer.numbers(query), layer.takes(weight)
    if has == wants:
        raise ValueError(f"{has} numbers fit where {wants} are wanted: there is no misfit to show.")
    first, second = VIDEOS
    shape = _math(layer.shape(weight), second)
    named = {video: notation.typeset(source.key, video, mark=mark) for video in VIDEOS}
    first_head = to_mathml(mark(weight, notation.source(second).letter(weight, head="1"), False))
    heard = (
        _bar(layer, source, _math(source.key, first))
        + _funnel(layer, weight, f"{_math(weight.key, first)} {shape}<br>video 1", one=True)
        + _bars(layer, query, _math(query.key, first), count=1)
        + f'<strong class="wq-map-misfit">{has} is not {wants}</strong>'
        + _funnel(layer, weight, f"{first_head} {shape}<br>video 2", "wq-map-unmet", one=True)
        + '<span class="wq-map-nothing" aria-hidden="true">?</span>'
    )
    meant = (
        _bar(layer, source, to_mathml(rf"{named[second]} = {named[first]}"))
        + _funnel(layer, weight, f"{first_head} {shape}<br>video 2", one=True)
        + _bars(layer, query, "", count=1)
        + f"<p>In video 2 read {_math(source.key, second)} as the word itself: "
        f"{layer.numbers(source)} numbers.</p>"
    )
    words = (
        f"If both videos meant the same q, the second matrix would want {wants} numbers and get "
        f"{has}. That does not fit."
    )
    return (
        _unseen(words)
        + f'<div class="wq-map-heard"><p><b>What you hear</b></p>{heard}</div>'
        + f'<div class="wq-map-meant"><p><b>What is meant</b></p>{meant}</div>'
    )


def _code(layer: Layer) -> str:
    (source, weight, query), *_ = layer.projections
    packed = notation.role(weight.key.removesuffix("[i]"))
    heads = layer.count(query)
    slices = "".join(f"<span>{_letter(weight, head)}</span>" for head in range(1, heads + 1))
    words = (
        f"One array holds the matrices of {heads} heads. It takes {layer.takes(packed)} numbers to "
        f"{layer.numbers(packed)}, which are cut into {heads} pieces of {layer.numbers(query)}."
    )
    side = _math('"side by side"')
    return (
        _unseen(words)
        + _note("one word", source)
        + _bar(layer, source)
        + _link(packed.key, "wq-map-slices", slices)
        + _note(f"one array: {heads} matrices {side}, {_math(layer.shape(packed))}", packed)
        + _bars(layer, query)
        + _note(f"cut into {heads} pieces of {layer.numbers(query)}: the same queries", query)
    )


def _letter(role: Role, head: int) -> str:
    """The letter of one head, in every notation."""

    def write(source: str) -> str:
        chosen = notation.source(source)
        apart = chosen.names(role) and chosen.tells_heads_apart(role)
        owner = chosen if apart else notation.source("site")
        return to_mathml(mark(role, owner.letter(role, head=str(head)), not apart))

    return formulas.variants(write, "span")


def _flag(key: str) -> str:
    role = notation.role(key)
    says = formulas.variants(partial(_flag_of, key), "span")
    return f'<span class="wq-map-flag role-{role.group}"><span>{says}</span></span>'


def _flag_of(key: str, source: str) -> str:
    """Whose Q a part is; in another author's notation, what that author writes there."""
    where, caller = FLAGS[key]
    if source in PAPER:
        named = to_mathml(notation.typeset(caller, where)) if "(X" in caller else caller
        return f"{named}<br><b>this is its {to_mathml(notation.typeset(key, where))}</b>"
    chosen = notation.source(source)
    (written,) = notation.Block((key,)).write(chosen)
    if written.sides[0].borrowed:
        return f"{html.escape(chosen.short)}<br><b>has no letter here</b>"
    letter = to_mathml(notation.typeset(key, chosen))
    return f"{html.escape(chosen.short)}<br><b>writes {letter} here</b>"


def _chip(layer: Layer, role: Role) -> str:
    return _link(role.key, "wq-map-chip", f"{_math(role.key)} {layer.numbers(role)}")


def _bar(layer: Layer, role: Role, letter: str | None = None) -> str:
    """One bar: what there is for one word, before the heads or after them."""
    letter = _math(role.key) if letter is None else letter
    numbers = layer.numbers(role)
    return _link(
        role.key,
        "wq-map-bar",
        f"{letter} <b>{numbers}</b>",
        f"--part:{_part(layer, numbers)}",
    )


def _bars(layer: Layer, role: Role, letter: str = "", *, count: int = 0) -> str:
    """A bar for each head, or for one of them."""
    numbers, count = layer.numbers(role), count or layer.count(role)
    each = f"<span>{letter}<b>{numbers}</b></span>"
    return _link(
        role.key,
        "wq-map-bars",
        each * count,
        f"--part:{_part(layer, numbers * count)}",
    )


def _funnel(
    layer: Layer, weight: Role, words: str, css_class: str = "", *, one: bool = False
) -> str:
    """The way through a weight of each head, or of one, from all numbers to those of the head."""
    middle = [(layer.widest - layer.numbers(weight)) / 2] if one else []
    return _link(
        weight.key,
        f"wq-map-funnel {css_class}".rstrip(),
        f"{_picture(layer.widest, _funnel_paths(layer, weight, middle))}<span>{words}</span>",
    )


def _weight(layer: Layer, weight: Role) -> str:
    return f"{_math(weight.key)}, {_math(layer.shape(weight))}"


def _part(layer: Layer, numbers: int) -> str:
    return f"{numbers / layer.widest:.4g}"


def _note(words: str, role: Role) -> str:
    return f'<span class="wq-map-note role-{role.group}">{words}</span>'


def mini(lit: str, layer: Layer | None = None) -> str:
    """The map, small: one link to the whole, with the parts of a page lit.

    Args:
        lit: Keys of `Layer.parts`, with spaces between them.
        layer: The layer.
    """
    layer = layer or Layer()
    keys = lit.split()
    lit_parts = [_part_of(layer, key) for key in keys]
    call, head = layer.attention
    _, output, result = layer.output
    drawn = "".join(
        _small(layer, key, lit_parts)
        for row in zip(*layer.projections, strict=True)
        for key in (role.key for role in row)
    )
    drawn += "".join(
        _small(layer, key, lit_parts) for key in (call.function, head.key, output.key, result.key)
    )
    words = "; ".join(_named(key) for key in keys)
    return (
        f'<a class="wq-mini" href="{href(HOME)}#map" data-search-exclude>'
        f'<span class="wq-unseen">This page on the map of the layer: {html.escape(words)}.</span>'
        f'<span class="wq-mini-drawn" aria-hidden="true">{drawn}</span>'
        '<span class="wq-mini-name" aria-hidden="true">on the map</span></a>'
    )


def mini_faults(lit: str) -> list[str]:
    """Say which parts a front matter names that the map does not have."""
    layer = Layer()
    return [
        f"map has {key!r}: expected some of {', '.join(layer.parts)}"
        for key in str(lit).split()
        if _part_of(layer, key) not in layer.parts
    ]


def _part_of(layer: Layer, key: str) -> str:
    """The part that a key names; a packed weight and its heads' are one part."""
    single = key.removesuffix("[i]")
    return next((part for part in (key, single, f"{single}[i]") if part in layer.parts), key)


def _named(key: str) -> str:
    return notation.role(key).meaning if key in _ROLES else "equation (1)"


def _small(layer: Layer, key: str, lit: list[str]) -> str:
    group = notation.role(key).group if key in _ROLES else "score"
    shown = " wq-lit" if key in lit else ""
    return (
        f'<span class="wq-{group} role-{group}{shown}">{_shape(layer, key)}'
        f"<span>{_small_letter(key)}</span></span>"
    )


def _small_letter(key: str) -> str:
    return _math(key) if key in _ROLES else "equation (1)"


def _shape(layer: Layer, key: str) -> str:
    """A part as a picture without words: a bar, some bars, or funnels."""
    wide = layer.widest
    if key not in _ROLES:
        return _picture(wide, [f"M0 0H{wide}V100H0Z"])
    role = notation.role(key)
    if role.group == "weight":
        return _picture(wide, _funnel_paths(layer, role))
    each, count = layer.numbers(role), layer.count(role)
    left, gap = (wide - each * count) / 2, wide / 60 if count > 1 else 0
    starts = [left + each * head for head in range(count)]
    return _picture(
        wide, [f"M{x + gap / 2:g} 0h{each - gap:g}v100H{x + gap / 2:g}Z" for x in starts]
    )


def _funnel_paths(layer: Layer, weight: Role, starts: Iterable[float] = ()) -> list[str]:
    ends, count, wide = layer.numbers(weight), layer.count(weight), layer.widest
    left, first = (wide - layer.takes(weight)) / 2, (wide - ends * count) / 2
    starts = starts or [first + ends * head for head in range(count)]
    return [f"M{left:g} 0H{wide - left:g}L{start + ends:g} 100H{start:g}Z" for start in starts]


def _picture(wide: int, paths: Iterable[str]) -> str:
    drawn = "".join(f'<path d="{path}"/>' for path in paths)
    return (
        f'<svg viewBox="0 0 {wide} 100" preserveAspectRatio="none" aria-hidden="true">{drawn}</svg>'
    )


def _link(key: str, css_class: str, content: str, *style: str) -> str:
    role = ""
    if key in _ROLES:
        style = (f"color:var(--role-{notation.role(key).group})", *style)
        role = f' data-role="{key}"'
    styled = f' style="{";".join(style)}"' if style else ""
    return f'<a class="{css_class}" href="{href(PAGES[key])}"{role}{styled}>{content}</a>'


def _math(content: str, source: str = "") -> str:
    return formulas.inline(content, source)


def _unseen(words: str) -> str:
    return f'<p class="wq-unseen">{html.escape(words)}</p>'


def href(target: str) -> str:
    """The address of a page as seen from the one that is being rendered."""
    return posixpath.relpath(_folder(target) or ".", _folder(current.page) or ".") + "/"


def _folder(page: str) -> str:
    return page.removesuffix(".md").removesuffix("index").rstrip("/")


_ROLES = {role.key for role in notation.roles()}
