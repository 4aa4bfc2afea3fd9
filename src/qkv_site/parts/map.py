"""The map: the whole layer in one figure, and where the letter Q stands in it.

A bar is as wide as there are numbers for one word, and a weight is the funnel from one bar to the
next. Which there are, and how wide, follows from the formulas of `layer`; their letters are
those of the notation that a reader chooses. A fenced block of the language `map` draws it in a
page, in three states: two videos, as they sound; the paper; and code, which packs the heads'
weights into one array. `state="sound"` says which is shown first. A page whose front matter has
`map: W_Q[i] Q[i]` shows the map small, with these parts lit.
"""

import html
import posixpath
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from qkv import notation
from qkv.notation import Role
from qkv_site.markdown.mathml import mark, to_mathml
from qkv_site.page import PAGE, Fence
from qkv_site.parts import formulas, layer

if TYPE_CHECKING:
    from qkv_site.write.markdown import Writer

STATES = {"sound": "the two videos", "paper": "the paper's layer", "code": "as code stores it"}
HOME = "index.md"
PLACE = "\x0emap\x0f"  # where the small map will stand; no page has control characters in its text
ARGUMENT = "start/how-many-matrices.md"
# Which page explains a part.
PAGES = {
    "X_Q": "start/same-or-different.md",
    "W_Q[i]": ARGUMENT,
    "Q[i]": "start/which-q.md",
    "K[i]": "start/same-or-different.md",
    "V[i]": "start/same-or-different.md",
    "attention": "start/one-head.md",
    "head[i]": "start/one-head.md",
    "W_O": "start/heads-together.md",
    "Y": "start/heads-together.md",
    "W_Q": "start/square-in-code.md",
}
# What the paper calls Q: where, and as the argument of what.
EQUATION = "equation (1)"
FLAGS = {"X_Q": ("paper-3-2-2", "multihead(X_Q, X_K, X_V)"), "Q[i]": ("paper-eq1", EQUATION)}
OF_THE_PAPER = ("site", "paper-3-2-2", "paper-eq1")
VIDEOS = ("ng-self-attention", "ng-multi-head")
_ROLES = {role.key: role for role in notation.roles()}
_WORDS = {
    "source": "input",
    "weight": "matrix",
    "query": "queries",
    "key": "keys",
    "value": "values",
    "output": "output",
}


class Map(Fence):
    """A fence of the language `map`, without lines."""

    languages = ("map",)
    options: ClassVar = {"state": frozenset(STATES)}
    rule = "map"

    def inside(self) -> Iterable[tuple[int, str]]:
        """Lines in it."""
        if self.code.strip():
            yield 0, "a map has no lines: it draws those of the layer"

    def html(self) -> str:
        """The map, in the state that is shown first."""
        drawn = figure(self.given.get("state", "paper"))
        PAGE.get().uncounted.append(drawn)
        return drawn

    def as_text(self, writer: "Writer") -> str:
        """The formulas of the layer, or what the map shows."""
        return writer.drawn(
            partial(words, self.given.get("state", "paper")), "\n".join(layer.LINES)
        )


def unknown(lit: str) -> list[str]:
    """Say which of some parts the map does not have."""
    return [
        f"the map has no part {key!r}: expected some of {', '.join(layer.PARTS)}"
        for key in str(lit).split()
        if layer.part(key) not in layer.PARTS
    ]


def figure(state: str = "paper") -> str:
    """The map, in the state that is shown first, with a choice of all three."""
    choices = "".join(
        f'<label><input type="radio" name="map-{state}" value="{name}"'
        f"{' checked' if name == state else ''}><span>{label}</span></label>"
        for name, label in STATES.items()
    )
    drawn = "".join(
        f'<div class="wq-map-state" data-state="{name}" data-name="{label}">'
        f"{_unseen(words(name))}{_DRAWN[name]()}</div>"
        for name, label in STATES.items()
    )
    anchor = ' id="map"' if PAGE.get().name == HOME else ""
    return (
        f'<figure class="wq-map"{anchor} aria-label="Picture of the layer">'
        f'<fieldset><legend class="wq-unseen">Show the layer</legend>{choices}</fieldset>'
        f"{drawn}<figcaption>The wider a bar, the more numbers one word has there."
        "</figcaption></figure>"
    )


def words(state: str = "paper") -> str:
    """What the map shows in a state, as a screen reader says it."""
    return _IN_WORDS[state]()


def mini(lit: str) -> str:
    """The map, small: one link to the whole, with the parts of a page lit."""
    words = "; ".join(_meaning(key) for key in lit.split())
    return (
        f'<a class="wq-mini" href="{href(HOME)}#map">'
        f'<span class="wq-unseen">The parts of the layer on this page: {html.escape(words)}.</span>'
        f'<span class="wq-mini-drawn" aria-hidden="true">{_small(lit.split())}</span>'
        '<span class="wq-mini-name" aria-hidden="true"><span>On this page</span>'
        "<span>This page is about the framed parts</span></span></a>"
    )


def _paper() -> str:
    """The layer of the paper, with a flag at each of its two Q's."""
    (source, weight, query), *others = layer.PROJECTIONS
    call, head = layer.CALL, layer.HEAD
    output, result = layer.OUTPUT, layer.RESULT
    heads, numbers = layer.count(head), layer.numbers(head)
    chips = "".join(_chip(role) for _, _, role in others)
    return (
        _note(f"one word, {_as_a(weight)}, as it comes in", source)
        + _bar(source)
        + _flag(source)
        + _funnel(weight, f"{_named(weight)}<br>one matrix per head")
        + _bars(query)
        + _flag(query)
        + _note(
            f"{_math(query.key)} in each of {layer.count(query)} heads{_of_one(query)}",
            query,
        )
        + _link(call.function, "wq-map-call", f"<b>{EQUATION}</b> {_math(str(call))}")
        + f'<div class="wq-map-others">{chips}<span>by own matrices</span></div>'
        + _bars(head)
        + _note(f"all heads: {heads} · {numbers} = {heads * numbers}", head)
        + _funnel(output, f"{_named(output)}<br>after the heads, not for queries")
        + _bar(result)
        + _note("the same word, as it goes out", result)
    )


def _sound() -> str:
    """Two videos, taken for one: what the second matrix wants is not what the first gives."""
    source, weight, query = layer.PROJECTIONS[0]
    first, second = VIDEOS
    has, wants = layer.numbers(query), layer.takes(weight)
    matrix_1 = _in_video(1, weight, _math(weight.key, first))
    matrix_2 = _in_video(2, weight, _first_head(weight, second))
    word = " = ".join(notation.typeset(source.key, video, mark=mark) for video in reversed(VIDEOS))
    heard = (
        _bar(source, _math(source.key, first), of=first)
        + _funnel(weight, matrix_1, of=first)
        + _bars(query, 1, _math(query.key, first), of=first)
        + f'<a class="wq-map-misfit" href="{href(ARGUMENT)}#two-in-a-row">'
        f"<b>a second matrix?</b> it needs {wants}, but gets {has}</a>"
        + _funnel(weight, matrix_2, of=second)
        + '<span class="wq-map-nothing" aria-hidden="true">?</span>'
    )
    meant = (
        _bar(source, to_mathml(word), of=second)
        + _funnel(weight, matrix_2, of=second)
        + _bars(query, 1, _first_head(query, second), of=second)
        + f"<p>As in the paper, {_math(source.key, second)} is the word that enters the layer, "
        "and the product is its query.</p>"
    )
    return (
        f'<div class="wq-map-heard"><p><b>What you hear</b></p>{heard}</div>'
        + f'<div class="wq-map-meant"><p><b>How we read it</b></p>{meant}</div>'
        + '<p class="wq-map-sizes">'
        "The sizes are the paper's base model's; we do not know the videos'.</p>"
    )


def _code() -> str:
    """One array, as wide as all heads, and cut into what each of them has."""
    source, weight, query = layer.PROJECTIONS[0]
    packed = _ROLES[weight.key.removesuffix("[i]")]
    heads, numbers = layer.count(query), layer.numbers(query)
    slices = "".join(f"<span>{_of_head(weight, head)}</span>" for head in range(1, heads + 1))
    return (
        _note(f"one word, {_as_a(weight)}, as it comes in", source)
        + _bar(source)
        + _link(packed.key, "wq-map-slices", slices, says=_takes(packed))
        + _note(
            f"{heads} matrices of {_math(layer.shape(weight))}, {_packed(weight)}: "
            f"{_math(layer.shape(packed))}. No extra matrix",
            packed,
        )
        + _bars(query)
        + _note(f"cut into {heads} pieces of {numbers}: the same queries", query)
    )


def _sound_in_words() -> str:
    """How the two videos do not fit together, and how they do."""
    _, weight, query = layer.PROJECTIONS[0]
    has, wants = layer.numbers(query), layer.takes(weight)
    return (
        "If you follow his words, video 2 goes on with the q of video 1. The paper has no second "
        "matrix there, and we read the q of video 2 as the word. At the paper's sizes video 1 "
        f"turns the {wants} numbers of a word into {has}, and the matrix of video 2 wants {wants}: "
        "the two do not fit. At sizes at which they fit, the two can be multiplied into one."
    )


def _code_in_words() -> str:
    """How one array holds the matrices of all heads."""
    _, weight, query = layer.PROJECTIONS[0]
    heads, numbers = layer.count(query), layer.numbers(query)
    packed = _ROLES[weight.key.removesuffix("[i]")]
    return (
        f"One array holds the matrices of {heads} heads. {_takes(packed)}, which are cut "
        f"into {heads} pieces of {numbers}."
    )


def _small(lit: list[str]) -> str:
    """Each part as a picture with its letter: three projections beside each other, the rest."""
    rows = zip(*layer.PROJECTIONS, strict=True)
    keys = [role.key for row in rows for role in row]
    keys += [layer.CALL.function, layer.HEAD.key, layer.OUTPUT.key, layer.RESULT.key]
    parts = set(map(layer.part, lit))
    return "".join(_small_part(key, lit=key in parts) for key in keys)


def _paper_in_words() -> str:
    """The way of one word through the layer, and where the letter Q stands in it."""
    (source, weight, query), *others = layer.PROJECTIONS
    same = " and ".join(role.meaning for _, _, role in others)
    return (
        f"One word comes in as {layer.numbers(source)} numbers, the {source.meaning}: the "
        f"Q of MultiHead. There are {layer.count(weight)} heads, and each has one matrix "
        f"for queries. {_takes(weight)}, the {query.meaning}: the Q of equation (1). "
        f"The {same} are made in the same way. Equation (1) gives {layer.numbers(layer.HEAD)} "
        f"numbers in each head. {_takes(layer.OUTPUT)}, the {layer.RESULT.meaning}."
    )


def _takes(weight: Role) -> str:
    what, _, _ = weight.meaning.partition(":")
    takes, numbers = layer.takes(weight), layer.numbers(weight)
    return f"{what[0].upper()}{what[1:]} takes {takes} numbers to {numbers}"


def _named(weight: Role) -> str:
    return f"{_math(weight.key)} {_math(layer.shape(weight))}"


def _in_video(number: int, weight: Role, letter: str) -> str:
    takes, numbers = layer.takes(weight), layer.numbers(weight)
    return f"{letter} {takes} → {numbers}<br>video {number}"


def _bar(role: Role, letter: str = "", of: str = "") -> str:
    """What there is once for one word."""
    numbers = layer.numbers(role)
    content = f"{letter or _math(role.key)} <b>{numbers}</b>"
    says = _numbers(role, numbers)
    return _link(role.key, "wq-map-bar", content, numbers, says=says, of=of)


def _bars(role: Role, count: int = 0, letter: str = "", of: str = "") -> str:
    """What each head has for one word, or `count` of them, with a letter beside them."""
    numbers, count = layer.numbers(role), count or layer.count(role)
    content = f"<span><b>{numbers}</b></span>" * count
    content += f'<i class="wq-map-letter">{letter}</i>' if letter else ""
    says = _numbers(role, numbers)
    return _link(role.key, "wq-map-bars", content, numbers * count, says=says, of=of)


def _chip(role: Role) -> str:
    numbers = layer.numbers(role)
    content = f"{_math(role.key)} {numbers}"
    return _link(role.key, "wq-map-chip", content, says=_numbers(role, numbers))


def _funnel(weight: Role, words: str, of: str = "") -> str:
    """The way through the weight of each head, or of the one that a source shows."""
    content = f"{_picture(_ways(weight, one=bool(of)))}<span>{words}</span>"
    return _link(weight.key, "wq-map-funnel", content, says=_takes(weight), of=of)


def _ways(weight: Role, one: bool = False) -> Iterable[str]:
    wide, ends = layer.widest(), layer.numbers(weight)
    left = (wide - layer.takes(weight)) / 2
    for start in _starts(ends, 1 if one else layer.count(weight)):
        yield f"M{left:g} 0H{wide - left:g}L{start + ends:g} 100H{start:g}Z"


def _starts(each: int, count: int) -> list[float]:
    first = (layer.widest() - each * count) / 2
    return [first + each * place for place in range(count)]


def _picture(paths: Iterable[str]) -> str:
    drawn = "".join(f'<path d="{path}"/>' for path in paths)
    return (
        f'<svg viewBox="0 0 {layer.widest()} 100" preserveAspectRatio="none" '
        f'aria-hidden="true">{drawn}</svg>'
    )


def _small_part(key: str, *, lit: bool) -> str:
    role = _ROLES.get(key)
    group = role.group if role else "score"
    letter = _math(key) if role else _meaning(key)
    css_class = f"wq-{group} role-{group}{' wq-lit' * lit}"
    return (
        f'<span class="{css_class}">{_picture(_outline(role))}'
        f"<span>{letter}{_word(role)}</span></span>"
    )


def _outline(role: Role | None) -> Iterable[str]:
    if role and role.group == "weight":
        return _ways(role)
    count = layer.count(role) if role else 1
    each = layer.numbers(role) if role else layer.widest()
    gap = each / 8 if count > 1 else 0
    return [
        f"M{start + gap / 2:g} 0h{each - gap:g}v100h{gap - each:g}Z"
        for start in _starts(each, count)
    ]


def _link(
    key: str,
    css_class: str,
    content: str,
    numbers: int = 0,
    *,
    says: str = "",
    of: str = "",
) -> str:
    """A part, which leads to the page that explains it; its shape is that of a source."""
    role = _ROLES.get(key)
    styles = [f"color:var(--role-{role.group})"] if role else []
    styles += [f"--part:{numbers / layer.widest():.4g}"] if numbers else []
    attributes = {
        "class": css_class,
        "href": href(PAGES[key]),
        "data-role": role and key,
        "data-of": of,
        "aria-label": says,
        "style": ";".join(styles),
    }
    written = "".join(
        f' {name}="{html.escape(value)}"' for name, value in attributes.items() if value
    )
    return f"<a{written}>{content}</a>"


_DRAWN = {"sound": _sound, "paper": _paper, "code": _code}
_IN_WORDS = {"sound": _sound_in_words, "paper": _paper_in_words, "code": _code_in_words}


def _flag(role: Role) -> str:
    says = formulas.variants(partial(_flag_of, role.key), "span")
    return f'<span class="wq-map-flag role-{role.group}"><span>{says}</span></span>'


def _flag_of(key: str, source: str) -> str:
    """Whose Q a part is; or what another author writes there."""
    where, caller = FLAGS[key]
    if source in OF_THE_PAPER:
        named = caller if caller == EQUATION else _typeset(caller, where)
        return f"{named}<br><b>this is its {_typeset(key, where)}</b>"
    chosen = notation.source(source)
    (written,) = notation.Block((key,)).write(chosen)
    borrowed = written.sides[0].borrowed
    says = "has no letter here" if borrowed else f"writes {_typeset(key, source)} here"
    return f"{html.escape(chosen.short)}<br><b>{says}</b>"


def _of_one(role: Role) -> str:
    """Says so where a source has the same letter for what each head has."""

    def say(source: str) -> str:
        chosen = notation.source(source)
        if not chosen.names(role) or chosen.tells_heads_apart(role):
            return ""
        return f"<br>{html.escape(chosen.short)} shows one head with this letter"

    return formulas.variants(say, "span")


def _packed(weight: Role) -> str:
    """How all heads' weights are one array; they are not drawn so where a word is a column."""

    def say(source: str) -> str:
        return "in one array" if notation.source(source).transposes(weight) else "side by side"

    return formulas.variants(say, "span")


def _as_a(weight: Role) -> str:
    """A word is a row or a column, as the shape of the weight below it says."""

    def say(source: str) -> str:
        return "a column" if notation.source(source).transposes(weight) else "a row"

    return formulas.variants(say, "span")


def _first_head(role: Role, source: str) -> str:
    return _typeset(role.key.replace("[i]", "[1]"), source)


def _of_head(role: Role, head: int) -> str:
    """The letter of one head; this site's where a source does not tell heads apart."""

    def write(source: str) -> str:
        chosen = notation.source(source)
        own = chosen.names(role) and chosen.tells_heads_apart(role)
        owner = chosen if own else notation.source("site")
        return to_mathml(mark(role, owner.letter(role, head=str(head)), not own))

    return formulas.variants(write, "span")


def _meaning(key: str) -> str:
    return _ROLES[key].meaning if key in _ROLES else EQUATION


def _word(role: Role | None) -> str:
    """What a part is, in a word; a phone has room for it where few parts are lit."""
    word = _WORDS.get(role.group) if role else None
    return f' <small class="wq-mini-word">{word}</small>' if word else ""


def _numbers(role: Role, numbers: int) -> str:
    return f"{role.meaning[0].upper()}{role.meaning[1:]}: {numbers} numbers"


def _math(content: str, source: str = "") -> str:
    return formulas.inline(content, source)


def _typeset(content: str, source: str) -> str:
    return to_mathml(notation.typeset(content, source, mark=mark))


def _note(words: str, role: Role) -> str:
    return f'<span class="wq-map-note role-{role.group}">{words}</span>'


def _unseen(words: str) -> str:
    return f'<p class="wq-unseen">{html.escape(words)}</p>'


def href(target: str) -> str:
    """The address of a page, as seen from the one that is being rendered."""
    return posixpath.relpath(_folder(target) or ".", _folder(PAGE.get().name) or ".") + "/"


def _folder(page: str) -> str:
    return page.removesuffix(".md").removesuffix("index").rstrip("/")
