"""Diagrams to scale: each matrix of a formula is a rectangle, its sides as long as its sizes.

A fenced block of the language `diagram` holds formulas as one of the language `formula` does, and
takes the same option `in`. `sizes="d_model=16 h=4"` says what to draw; what it leaves out has the
size in `SIZES`. Where the formulas say that heads share keys and values, there are `h_kv` of those.

A line that begins with `==` goes on with the line before it and is drawn below it. What a line says
after `#` is written beside its drawing.

A line crosses a rectangle between two tokens. Between two heads it is cut, and each block has the
number of its head, or the numbers of those that share it.
"""

import html
import re
from dataclasses import dataclass, replace
from functools import cache, partial

from qkv import notation
from qkv.notation import Role, Source
from qkv.notation.tree import (
    Added,
    Applied,
    Arithmetic,
    Bracketed,
    Expression,
    Glyph,
    Joined,
    OverRoot,
    OwnSize,
    Product,
    Sum,
    Transpose,
    Written,
    latex,
    sum_sign,
)
from qkv_site.markdown import formulas, matrices
from qkv_site.markdown.mathml import mark, to_mathml

SIZES = {"n": 5, "n_q": 5, "n_k": 7, "d_model": 16, "h": 4, "h_kv": 2, "d_k": 4, "d_v": 4}
SIZES |= {"d_c": 6, "d_cq": 6, "d_r": 2}

_TOKENS = {"n", "n_q", "n_k"}


@dataclass(frozen=True)
class Axis:
    """One side of a rectangle.

    Attributes:
        length: How long it is drawn, in units.
        latex: What its length is called; empty where it is 1.
        blocks: What is written into each block that it is cut into.
        tokens: Whether tokens stand along it.
    """

    length: int
    latex: str = ""
    blocks: tuple[str, ...] = ("",)
    tokens: bool = False


@dataclass(frozen=True)
class Drawing:
    """An expression, drawn.

    Attributes:
        html: The drawing.
        words: What it shows, to be read aloud.
        rows: The vertical side of the value.
        columns: Its horizontal side.
        units: What of its width grows with the unit that sizes are drawn in.
        ems: What of its width grows with the letters, roughly.
        axes: The sides of all its rectangles.
        loose: Whether it is put into parentheses inside a product.
    """

    html: str
    words: str
    rows: Axis
    columns: Axis
    units: int
    ems: float
    axes: tuple[Axis, ...]
    loose: bool = False


def read_sizes(text: str) -> dict[str, int]:
    """Read the option `sizes`.

    Raises:
        ValueError: If it names what is no size, or gives one that cannot be drawn.
    """
    sizes = dict(SIZES)
    for word in text.split():
        name, _, value = word.partition("=")
        if name not in SIZES or not re.fullmatch(r"[1-9]\d?", value):
            raise ValueError(
                f"sizes has {word!r}: expected name=number, the number from 1 to 99 and the name "
                f"one of {', '.join(SIZES)}"
            )
        sizes[name] = int(value)
    if sizes["h"] % sizes["h_kv"]:
        raise ValueError(f"h={sizes['h']} heads cannot share h_kv={sizes['h_kv']} evenly")
    return sizes


def faults(code: str, options: dict[str, str]) -> list[tuple[int, str]]:
    """Say what is wrong with which line of a block, counted from 0; its fence is line -1."""
    found = [*formulas.faults(code, options.get("in", ""))]
    try:
        read_sizes(options.get("sizes", ""))
    except ValueError as error:
        found.append((-1, str(error)))
    return found


def block(code: str, sources: str = "", sizes: str = "") -> str:
    """HTML of a block of formulas, drawn: in every source's notation, or in those named."""
    return formulas.in_notations(partial(_figure, code, sizes), sources)


@cache
def draw(code: str, source: str, sizes: str = "") -> tuple[Drawing, ...]:
    """Draw the formulas of a block in a source's letters and orientation."""
    chosen = notation.source(source)
    drawer = _Drawer.of(chosen, read_sizes(sizes))
    block = notation.Block(tuple(formulas.lines(code)))
    return tuple(map(drawer.line, block.write(chosen), _notes(code)))


def _notes(code: str) -> list[list[str]]:
    """What is written beside each side of each formula, empty where nothing is."""
    notes: list[list[str]] = []
    for line in code.splitlines():
        formula, _, note = (part.strip() for part in line.partition("#"))
        if formula.startswith("==") and notes:
            notes[-1].append(note)
        elif formula:
            notes.append([note])
    return notes


def _figure(code: str, sizes: str, source: str) -> str:
    drawn = draw(code, source, sizes)
    widest = [each for other in notation.sources() for each in draw(code, other.id, sizes)]
    pictures = "".join(
        f'<div role="img" aria-label="{_sentence(each.words)}">'
        f'<div class="wq-drawn" aria-hidden="true">{each.html}</div></div>'
        for each in drawn
    )
    return (
        f'<figure class="wq-diagram" data-search-exclude style="--units:'
        f'{max(each.units for each in widest)};--ems:{max(each.ems for each in widest):g}">'
        f"{pictures}<figcaption>{_caption(drawn, pictures)}</figcaption></figure>"
    )


def _caption(drawn: tuple[Drawing, ...], pictures: str) -> str:
    lengths = {axis.latex: axis.length for each in drawn for axis in each.axes if axis.latex}
    scale = ", ".join(to_mathml(f"{latex} = {length}") for latex, length in lengths.items())
    parts = [f"Drawn to scale for {scale}."]
    if any(axis.tokens for each in drawn for axis in each.axes):
        parts.append("Lines separate tokens.")
    if "wq-borrowed" in pictures:
        parts.append(formulas.BORROWED_BELOW)
    return " ".join(parts)


def _sentence(words: str) -> str:
    return html.escape(f"{words[0].upper()}{words[1:]}.")


@dataclass(frozen=True)
class _Drawer:
    """Draws what is written: a role is one rectangle, also where its definition is spelled out."""

    source: Source
    sizes: dict[str, int]

    @classmethod
    def of(cls, source: Source, sizes: dict[str, int]) -> "_Drawer":
        """Draw for a source: if it has one letter for X_Q and X_K, as many keys as queries."""
        if source.letter(notation.role("X_Q")) == source.letter(notation.role("X_K")):
            sizes = sizes | {"n_q": sizes["n"], "n_k": sizes["n"]}
        return cls(source, sizes)

    def line(self, written: Written, notes: list[str]) -> Drawing:
        """Draw a line: its sides, one below the other if each of them has a line of its own."""
        sides = list(map(self.draw, written.sides))
        said = [side.words for side in sides]
        if len(notes) < len(sides):  # all in one row
            first, *others = sides
            sides = [_row([first, *(part for other in others for part in ("=", other))])]
        else:
            pairs = zip(said, notes, strict=True)
            said = [f"{words} ({note})" if note else words for words, note in pairs]
        words = ", equals ".join(said[1:] if written.defines else said)
        if written.defines:
            words = f"{words}, gives {said[0]}"
        return (
            _below_each_other(sides, notes, words)
            if any(notes) or len(sides) > 1
            else replace(sides[0], words=words)
        )

    def draw(self, node: Expression) -> Drawing:
        """Draw an expression."""
        match node:
            case Glyph():
                return self._glyph(node)
            case Product(left, right):
                first, second = _tight(self.draw(left)), _tight(self.draw(right))
                words = f"{first.words}, times {second.words}"
                return _row([first, r"\times", second], words=words, columns=second.columns)
            case Bracketed(of):
                return _parentheses(self.draw(of))
            case Sum(left, right):
                first, second = self.draw(left), self.draw(right)
                words = f"{first.words}, plus {second.words}"
                return _row([first, "+", second], words=words, loose=True)
            case OverRoot(above, size):
                drawn, root = _tight(self.draw(above)), rf"/\; \sqrt{{{latex(size, mark)}}}"
                words = f"{drawn.words}, divided by the root of the {_words(size)}"
                return _row([drawn, root], words=words)
            case Transpose(of):
                drawn = _parentheses(self.draw(of))
                return _row(
                    [drawn, r"{}^\top"],
                    words=f"{drawn.words}, transposed",
                    rows=drawn.columns,
                    columns=drawn.rows,
                )
            case Applied(name, sign, borrowed, arguments):
                return self._applied(
                    name, mark(None, sign, borrowed), list(map(self.draw, arguments))
                )
            case Added(each):
                drawn = _tight(self.draw(each))
                words = f"the sum over {self.sizes['h']} heads of {drawn.words}"
                return _row([sum_sign(node, mark), drawn], words=words, loose=True)
            case Joined():
                return self._joined(node)
        raise TypeError(f"{node!r} cannot be drawn.")

    def _glyph(self, glyph: Glyph) -> Drawing:
        axes = [Axis(1)] * (2 - len(glyph.shape)) + [self._axis(size) for size in glyph.shape]
        if len(glyph.shape) == 1 and self.source.tokens == "columns":
            axes.reverse()
        words, _, _ = glyph.role.meaning.partition(":")  # how heads stand is said with the shape
        return _matrix(
            *axes,
            latex(glyph, mark),
            words + (", transposed" if glyph.turned else ""),
            glyph.role,
        )

    def _applied(self, name: str, sign: str, drawn: list[Drawing]) -> Drawing:
        first, last = drawn[0], drawn[-1]
        rows, columns = first.rows, last.columns
        if len(drawn) > 1 and self.source.tokens == "columns":
            rows, columns = last.rows, first.columns
        parts = [part for each in drawn for part in (",", each)][1:]
        words = "; ".join(each.words for each in drawn)
        inside = _row(parts, words=words, rows=rows, columns=columns)
        group = _parentheses(inside)
        call = _span("wq-call", _sign(sign) + group.html)
        return replace(group, html=call, words=f"{name} of {group.words}", ems=group.ems + 4.5)

    def _joined(self, node: Joined) -> Drawing:
        drawn = self.draw(node.each)
        rows, columns = drawn.rows, drawn.columns
        if node.vertical:
            rows = self._of_heads(rows, "h_kv" if node.shared else "h")
        else:
            columns = self._of_heads(columns, "h_kv" if node.shared else "h")
        items = [each for each in (node.first, node.second) if each]
        letters = [*(latex(each, mark) for each in items), r"\ldots"]
        letters += [latex(node.last, mark)] if node.last else []
        role = node.each.role if isinstance(node.each, Glyph) else None
        return _matrix(rows, columns, r",\, ".join(letters), f"{drawn.words}, of all heads", role)

    def _axis(self, size: Expression) -> Axis:
        match size:
            case OwnSize(_, of):
                return replace(self._axis(of), latex=latex(size, mark))
            case Arithmetic("*", Glyph(count), each) if count.key in ("h", "h_kv"):
                return replace(self._of_heads(self._axis(each), count.key), latex=latex(size, mark))
            case Glyph(role):
                return Axis(self.sizes[role.key], latex(size, mark), tokens=role.key in _TOKENS)
        raise TypeError(f"{size!r} cannot be drawn.")

    def _of_heads(self, one: Axis, count: str) -> Axis:
        """The side along which all heads stand that have this one."""
        heads, stand = self.sizes["h"], self.sizes[count]
        served, names = heads // stand, [str(head) for head in range(1, heads + 1)]
        letter = notation.typeset(count, self.source, mark=mark)
        return Axis(
            one.length * stand,
            rf"{letter} \, {one.latex}",
            tuple(" ".join(names[first : first + served]) for first in range(0, heads, served)),
        )


def _words(size: Expression) -> str:
    return " plus the ".join(node.role.meaning for node in size.walk() if isinstance(node, Glyph))


def _row(parts: list[Drawing | str], **changes) -> Drawing:
    """Drawings, and signs as LaTeX, in a row; with the shape of the first but for `changes`.

    A line is never broken after a sign.
    """
    drawings = [part for part in parts if isinstance(part, Drawing)]
    pieces, sign = [], ""
    for part in parts:
        if isinstance(part, str):
            sign = _sign(part)
        else:
            pieces.append(_span("wq-part", sign + part.html) if sign else part.html)
            sign = ""
    together = {
        "html": "".join([*pieces, sign]),
        "units": sum(each.units for each in drawings),
        "ems": sum(each.ems for each in drawings) + 2 * (len(parts) - len(drawings)),
        "axes": tuple(axis for each in drawings for axis in each.axes),
        "loose": False,
    }
    return replace(drawings[0], **(together | changes))


def _below_each_other(sides: list[Drawing], notes: list[str], words: str) -> Drawing:
    """The sides of an equation, each with what is written beside it; the signs in one column."""
    equals = _sign("=") if len(sides) > 1 else ""
    rows = [
        _span("wq-side", equals + side.html + (_span("wq-note", html.escape(note)) if note else ""))
        for side, note in zip(sides, notes, strict=True)
    ]
    return replace(
        sides[0],
        html="".join(rows),
        words=words,
        units=max(side.units for side in sides),
        ems=max(side.ems for side in sides) + 2,
        axes=tuple(axis for side in sides for axis in side.axes),
    )


def _sign(latex: str) -> str:
    return _span("wq-sign", to_mathml(latex))


def _span(css_class: str, content: str) -> str:
    return f'<span class="{css_class}">{content}</span>'


def _parentheses(inside: Drawing) -> Drawing:
    return replace(
        inside,
        html=_span("wq-group", inside.html),
        words=f"(in brackets: {inside.words})",
        ems=inside.ems + 2,
        loose=False,
    )


def _tight(drawing: Drawing) -> Drawing:
    return _parentheses(drawing) if drawing.loose else drawing


def _matrix(rows: Axis, columns: Axis, letters: str, words: str, role: Role | None) -> Drawing:
    """One rectangle, with its sizes at its edges and its letter below it."""
    stacked, blocks = len(rows.blocks) > 1, max(len(rows.blocks), len(columns.blocks))
    return Drawing(
        html=matrices.matrix(
            _side(rows, "wq-rows"),
            _side(columns, "wq-columns"),
            to_mathml(letters),
            classes=f"role-{role.group if role else 'output'}",
            of_blocks=f' data-role="{role.key}"' if role else "",
        ),
        words=f"{words}, {rows.length} by {columns.length}{_in_blocks(blocks, stacked)}",
        rows=rows,
        columns=columns,
        units=columns.length,
        ems=_room(rows) + 0.8,
        axes=(rows, columns),
    )


def _side(axis: Axis, css_class: str) -> matrices.Side:
    label = to_mathml(axis.latex) if axis.latex else ""
    return matrices.Side(
        axis.length, f'<span class="{css_class}">{label}</span>', axis.blocks, axis.tokens
    )


def _in_blocks(count: int, stacked: bool) -> str:
    where = "one below the other" if stacked else "side by side"
    return f" in {count} blocks {where}" if count > 1 else ""


def _room(axis: Axis) -> float:
    """How wide a size is, roughly, in ems."""
    letters = re.sub(r"\\color\[HTML\]\{\w+\}|\\text|[\\{}_, ]", "", axis.latex)
    return 0.6 + 0.3 * len(letters) if letters else 0


def fence(source, language, css_class, options, md, **_) -> str:
    """Format a fenced block of formulas as diagrams, for `pymdownx.superfences`."""
    if faults(source, options):  # reported, with its line, when the page began
        return f"<pre><code>{html.escape(source)}</code></pre>"
    drawn = block(source, options.get("in", ""), options.get("sizes", ""))
    return f'<div class="wq-diagrams">{drawn}</div>'


def validate(language, inputs, options, attrs, md) -> bool:
    """Take the options of a fence, for `pymdownx.superfences`."""
    options.update(inputs)
    return set(inputs) <= {"in", "sizes"}
