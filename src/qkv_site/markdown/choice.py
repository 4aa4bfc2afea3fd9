"""The line that says what a reader's choice of letters changed on a page, or why nothing did.

It is written for every source as a formula is, so it changes with them, before anything is drawn.
"""

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from qkv import notation
from qkv_site import run
from qkv_site.markdown import letters
from qkv_site.markdown.mathml import to_mathml
from qkv_site.page import Fence, Page, Variants
from qkv_site.parts import formulas
from qkv_site.parts.asked import Asked
from qkv_site.parts.live import Live
from qkv_site.parts.map import Map, href
from qkv_site.parts.python import Python

_BORROWED = "wq-borrowed"
# The sources that write a letter, whether it is this site's, and its role.
_OF_A_LETTER = re.compile(rf'data-(in|role)="([^"]*)"|({_BORROWED})(?:" data-role="([^"]*))?')
# What follows a choice, one and many.
_KINDS = {
    "formula": ("formula", "formulas"),
    "drawing": ("drawing", "drawings"),
    "picture": ("picture of numbers", "pictures of numbers"),
    "place": ("place in the text", "places in the text"),
}
_VIDEOS_STAY = "The picture of the two videos keeps Ng's letters."
# What a letter is on this site, where it did not change and some text has it for something else.
_OURS = {
    "d_k": "one head's width",
    "d_v": "the width of one head's values",
    "h": "the number of heads",
}
_CHANGING = re.compile(r"\{\{(?!site:).*?\}\}")
_EXAMPLE = re.compile(
    r"\bexample\.(?:layer|heads|[QKV])\b|\bqkv\.example import\b.*\b(?:layer|heads|[QKV])\b"
)
# What a text of vectors writes for one word, the sources first.
_VECTORS = ("X_Q", "X", "X_K", "X_V", "Q[i]", "K[i]", "V[i]", "head[i]", "Y")
_AS_WIDE = {"Y", "W_O[i]", "W_O", "W_VO[i]", "b_O"}  # as the output
_TYPED = '"wq-typed role-weight"'
# Formulas that stay, in which Q, K and V are not what enters a layer.
_PROJECTED = re.compile(r"\bQ ?K[ᵀ^]|\$[^$\n]*\b(?<!\^)[QKV]\b")
PLACE = "\x0etold\x0f"  # where the line will stand; no page has control characters in its text
_BUTTONS = (
    '<button type="button" data-wq-back>Back to this site\'s letters</button> '
    '<button type="button" data-wq-copy>Copy a link<span> in these letters</span></button>'
)


@dataclass(frozen=True)
class _Seen:
    """What of a page the line speaks of.

    Attributes:
        page: The page.
        times: How often each set of variants is shown; letters in a picture are counted with it.
        within: Of each set those in it, as of a picture its letters.
        at_top: The sets in the small picture of the layer.
        typed: What is typed and printed, without what follows the reader's choice.
        has_weights: Whether W^Q or the like is typed in a sentence.
    """

    page: Page
    times: Counter[Variants]
    within: Mapping[Variants, list[Variants]]
    at_top: list[Variants]
    typed: str
    has_weights: bool


def line(page: Page, html: str, small: str = "") -> str:
    """The line of a page, once all else is written, its small picture of the layer, too."""
    shown = _numbers(html) - sum(map(_numbers, page.uncounted), Counter())
    for each in page.variants:
        shown -= _numbers(each.site)
    at_top = _numbers(small)
    numbered = {str(number): each for each, number in page.variants.items()}
    times = {each: shown[n] for n, each in numbered.items() if shown[n] or n not in at_top}
    seen = _Seen(
        page,
        Counter(times),
        within={each: [numbered[n] for n in _numbers(each.site)] for each in times},
        at_top=[numbered[n] for n in at_top],
        typed=_typed(page),
        has_weights=_TYPED in html,
    )
    render = partial(_in, seen)
    return (
        f'<div class="wq-told"><div role="status">'
        f"{formulas.variants(render, 'div')}</div>{_BUTTONS}"
        f'<a href="{href("notation.md")}#all">See all letters in a table</a></div>'
    )


def _numbers(html: str) -> Counter[str]:
    """How often each set of variants is shown."""
    return Counter(re.findall(r'data-set="(\d+)"', html))


def _in(seen: _Seen, source: str) -> str:
    """What the line says to a reader who has chosen the letters of a source."""
    if source == "site":
        return ""
    page, chosen = seen.page, notation.source(source)
    changed = Counter()
    for variants, times in seen.times.items():
        if any(source not in each.own for each in (variants, *seen.within[variants])):
            changed[variants.kind] += times
    text = (
        f"the letters of <strong>{html.escape(chosen.short)}</strong> (words are {chosen.tokens}). "
    )
    begin = f"{'Shown in' if changed.total() else 'You chose'} {text}"
    stay = [_VIDEOS_STAY] if _has_map(page) else []
    pictured = bool(stay) or "map" in page.meta  # large, or small at the page's top
    which = "Other" if changed["place"] else ""
    said = f"{which} {letters.set_in('W^Q')} and the like in the text stay.".strip()
    ours = [said] if seen.has_weights else []
    roles, lent = _roles(seen.times, source)
    ours += [*_one_for_two(page, roles, lent, chosen), *_ours(seen.typed, roles, chosen)]
    own = [it for it in _VECTORS if it in roles and it in chosen.letters]
    if chosen.one_token and (own or _has_live(page)):
        ours.append(formulas.one_token(notation.legend([*own, "X_Q"][0], chosen)[0], chosen))
    if not changed.total():
        picture = f"Changed: {_listed(changed, with_map=True)}. " if pictured else ""
        why = _why_nothing_changed(seen, pictured)
        return f"{begin}{picture}{why}{_folded([*stay, *ours])}"
    stay += ["Formulas under a source's name stay."] if page.compares else []
    stay += [_stays(tied) for tied in dict.fromkeys(page.pictures) if tied != source]
    _, at_top = _roles(seen.at_top, source)
    marked = ", or marked as this site's" * bool(lent | at_top)
    counts = f"Changed{marked}: {_listed(changed, with_map=pictured)}."
    return f"{begin}{counts}{_folded([*stay, *ours])}"


def _folded(said: list[str]) -> str:
    """Sentences that a reader opens who asks about a letter."""
    summary = "What stays, and what letters mean here"
    return f"<details><summary>{summary}</summary>{' '.join(said)}</details>" if said else ""


def _typed(page: Page) -> str:
    """What is typed and printed on a page, without what follows the reader's choice."""
    printed = (each.written(lambda figure: figure.searched()) for each in run.printed(page))
    shown = (
        fence.code
        for fence in page.fences()
        if not isinstance(fence, formulas.Formula | Asked) and _is_shown(fence)
    )
    said = "\n".join([run.fill_in(page, page.prose()), *shown, *printed])
    return _CHANGING.sub("", said)


def _is_shown(fence: Fence) -> bool:
    return not isinstance(fence, Python) or fence.shown


def _ours(typed: str, roles: set[str], chosen: notation.Source) -> list[str]:
    """What letters of sizes that stay mean, where the text has them for something else."""
    written = [chosen.index, *(f"{it.latex} {it.shape}" for it in chosen.letters.values())]
    words = {word for each in written for word in re.findall(r"[a-zA-Z]+(?:_\w+)?", each)}
    meant = [
        f"{letters.set_in(size)} is {what}"
        for size, what in _OURS.items()
        if size in words and chosen.letter(notation.role(size)) != size
        if re.search(rf"\b{size}\b|^:::", typed, re.MULTILINE)  # or in a docstring, not seen here
    ]
    sources = chosen.letters.get("X_Q")
    lent = "d_model" in roles and not chosen.names(notation.role("d_model"))
    if lent and sources and sources.shape:
        output = ", and of the output" * chosen.names(notation.role("d_out"))
        meant.append(
            f"{letters.set_in('d_model')} is the width of each source{output}, as if all were equal"
        )
    if sources and sources.latex == "Q" and _PROJECTED.search(typed):
        meant.append("QKᵀ or the like has projected Q, K and V")
    both = chosen.letters.get("W_VO[i]")
    if both and "W_VO[i]" in roles and both.latex == "W_V":  # 3Blue1Brown's
        meant.append(f"{letters.set_in('W^V')} and <code>W_V</code> are a head's value weight")
    named = f"Where no text is named, an unchanged {', and '.join(meant)}."
    return [named] if meant else []


def _roles(shown: Iterable[Variants], source: str) -> tuple[set[str], set[str]]:
    """The roles of what changes for a reader of a source, and of what has this site's letters."""
    changed = "".join(each.html for each in shown if source not in each.own)
    roles, lent, writers = set(), set(), ""
    for name, value, borrowed, role in _OF_A_LETTER.findall(changed):
        if name == "in":
            writers = value.split()
        elif source in writers:
            roles.add(value or role)
            lent |= {role} if borrowed else set()
    return roles, lent


def _one_for_two(page: Page, roles: set[str], lent: set[str], chosen: notation.Source) -> list[str]:
    """What a letter of the text stands for here, where the text has another one or one width."""
    sizes = {key: notation.role(key) for key in ("d_model", "d_out", "d_k", "d_v")}
    own = [key for key, size in sizes.items() if chosen.names(size)]
    source, head, value = (
        to_mathml(chosen.letter(sizes[key])) for key in ("d_model", "d_k", "d_v")
    )
    said = []
    output_shown = roles & _AS_WIDE or (page.compares and "d_model" in roles)  # or its shape alone
    if output_shown and "d_model" in own and "d_out" in own:
        output = to_mathml(chosen.letter(sizes["d_out"]))
        said.append(f"Here {source} is the width of the output, too (in this text {output}).")
    if "d_k" in own and head == value and _has_example(page):
        said.append(formulas.of_example(chosen.letter(sizes["d_k"])))
    drawn = roles | {"Q[i]", "K[i]", "V[i]", "head[i]"} if _has_live(page) else roles
    twice = [it for key, it in chosen.letters.items() if key in drawn and "; in " in it.where]
    said += [  # as in DeepSeek's layer, whose queries and keys have a rotated part
        f"{to_mathml(it.latex)} is that of {letters.set_in(it.where)}." for it in twice
    ]
    theirs = {it.latex: notation.role(key).group for key, it in chosen.letters.items()}
    for role in notation.roles():
        letter = chosen.letter(role)
        unnamed = role.key in roles and not chosen.names(role)
        group = theirs.get(letter.replace("_i", ""), role.group)  # of A, beside A_i
        other = group != role.group and role.key in lent
        if unnamed and (letter.replace("_{i}", "") in theirs or other):
            said.append(f"With dots below, {to_mathml(letter)} is this site's, for another thing.")
    return said


def _has_example(page: Page) -> bool:
    """Whether it shows numbers of one of the example's heads."""
    seen = (fence for fence in page.fences() if _is_shown(fence) or fence.printed)
    return _has_live(page) or any(_EXAMPLE.search(fence.code) for fence in seen)


def _has_map(page: Page) -> bool:
    return any(isinstance(part, Map) for part in page.fences())


def _has_live(page: Page) -> bool:
    return any(isinstance(part, Live) for part in page.fences())


def _stays(tied: str) -> str:
    """What is said of pictures that keep one source's letters, and its rows or columns."""
    source = notation.source(tied)
    return (
        f"The picture of <strong>{html.escape(source.short)}</strong> stays "
        f"(words are {source.tokens})."
    )


def _listed(changed: Counter[str], *, with_map: bool) -> str:
    parts = ["the picture of the layer"] if with_map else []
    parts += [
        f"{changed[kind]} {names[changed[kind] > 1]}"
        for kind, names in _KINDS.items()
        if changed[kind]
    ]
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def _why_nothing_changed(seen: _Seen, pictured: bool) -> str:
    page = seen.page
    if _has_live(page):
        return "The layer is written in these letters."
    if seen.times.total():
        nothing = "Nothing else changes" if pictured else "Nothing changes here"
        return f"{nothing}: letters are the same in this text, or stay."
    if len(page.tied) > 1:
        return "This page compares sources, so its formulas stay."
    return "No other letter changes." if pictured else "No letter changes on this page."
