"""Diagrams to scale: each matrix of a formula is a rectangle, its sides as long as its sizes.

A fenced block of the language `diagram` holds formulas as one of the language `formula` does, and
takes the same option `in`. `sizes="d_model=16 h=4"` says what to draw; what it leaves out has the
size in `SIZES`. Where the formulas say that heads share keys and values, there are `h_kv` of those.
`sizes="grouped: h_kv=2; multi-query: h_kv=1"` draws the same formulas several times, under titles.

A line that begins with `==` goes on with the line before it and is drawn below it. What a line says
after `#` is written beside its drawing.

A line crosses a rectangle between two tokens. Between two heads it is cut, and each block has the
number of its head, or the numbers of those that share it, and its own shade. `heads="apart"` draws
what all heads have as one rectangle for each, and a sum over heads as its terms.
`kept="K[i] V[i]"` gives these roles a thick edge: what a model keeps for the next tokens.

`words="numbered"` cuts rectangles between tokens instead, and writes the number of its word into
each block. The queries are then those of the last words, and `kept` marks what the words before
them have.
"""

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from typing import TYPE_CHECKING, ClassVar

from qkv import notation
from qkv.notation import Role, Source
from qkv.notation.latex import latex, sum_sign
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
    Spread,
    Sum,
    Transpose,
    Written,
)
from qkv_site.markdown import matrices
from qkv_site.markdown.mathml import mark, to_mathml
from qkv_site.parts import formulas

if TYPE_CHECKING:
    from qkv_site.write.markdown import Writer

SIZES = {"n": 5, "n_q": 5, "n_k": 7, "d_model": 16, "h": 4, "h_kv": 2, "d_k": 4, "d_v": 4}
SIZES |= {"d_c": 6, "d_cq": 6, "d_r": 2}


@dataclass(frozen=True)
class Axis:
    """One side of a rectangle.

    Attributes:
        length: How long it is drawn, in units.
        latex: What its length is called; empty where it is 1.
        blocks: What it is cut into.
        tokens: Whether tokens stand along it.
    """

    length: int
    latex: str = ""
    blocks: tuple[matrices.Block, ...] = (matrices.Block(),)
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


def read_cases(text: str) -> dict[str, str]:
    """Read the option `sizes` of one drawing, without a title, or of several: a title for each."""
    cases = [case.rpartition(":") for case in text.split(";")]
    return {title.strip(): sizes.strip() for title, _, sizes in cases}


def faults(code: str, options: dict[str, str]) -> list[tuple[int, str]]:
    """Say what is wrong with which line of a block, counted from 0; its fence is line -1."""
    found = [*formulas.faults(code, options.get("in", ""))]
    try:
        for sizes in read_cases(options.get("sizes", "")).values():
            found += [(-1, message) for message in _faults_of_sizes(code, sizes, options)]
        for key in options.get("kept", "").split():
            notation.role(key)
    except ValueError as error:
        found.append((-1, str(error)))
    return found


def _faults_of_sizes(code: str, text: str, options: dict[str, str]) -> Iterator[str]:
    """Say which sizes of a drawing cannot be drawn, or not in the letters of each source."""
    sizes, numbered = read_sizes(text), options.get("words") == "numbered"
    n_q, n_k = sizes["n_q"], sizes["n_k"]
    if numbered and n_q > n_k:
        yield (
            f"n_q={n_q} queries cannot be those of the last of n_k={n_k} words, as "
            'words="numbered" says'
        )
    yield from _two_lengths(code, sizes, options)
    one = next((each for each in _shown(options.get("in", "")) if each.has_one_source), None)
    if one and n_q != n_k and "n_q=" in text and "n_k=" in text and not numbered:
        yield (
            f"n_q={n_q} and n_k={n_k} are not drawn in the letters of {one.short}, where X_Q and "
            'X_K are one letter: tie the diagram, in="site"'
        )


def _two_lengths(code: str, sizes: dict[str, int], options: dict[str, str]) -> Iterator[str]:
    """Say which letter would have two values in the caption, in which source."""
    numbered = options.get("words") == "numbered"  # its caption has no number of words
    for source in _shown(options.get("in", "")):
        drawn = _Drawer.of(source, sizes, numbered=numbered).sizes
        sides = (side for line in formulas.as_block(code).write(source) for side in line.sides)
        found: dict[str, dict[int, str]] = {}
        for size in (each for side in sides for each in _sizes(side)):
            if size.role.key in drawn and not (numbered and size.role.key in formulas.TOKENS):
                found.setdefault(size.latex, {})[drawn[size.role.key]] = size.role.key
        for letter, lengths in found.items():
            if len(lengths) > 1:
                said = " and ".join(f"{key}={length}" for length, key in lengths.items())
                yield (
                    f"{letter} of {source.short} would be {said} in one caption: draw them "
                    'equally long, or tie the diagram, in="site", and say why'
                )
                return


def _sizes(node: Expression) -> Iterator[Glyph]:
    """The sizes of what is drawn for a node: one rectangle for a role, spelled out or not."""
    if isinstance(node, Glyph):
        yield from (part for size in node.shape for part in size.walk() if isinstance(part, Glyph))
    else:
        for part in node.parts():
            yield from _sizes(part)


def _shown(named: str) -> Iterator[Source]:
    """The texts in whose letters a diagram is shown."""
    return (each for each in notation.sources() if not named or each.id in named.split())


def block(code: str, sources: str = "", sizes: str = "", **options: str) -> str:
    """HTML of a block of formulas, drawn: in every source's notation, or in those named."""
    draw_in = partial(_figure, code, read_cases(sizes), **options)
    return formulas.in_notations(draw_in, sources, "drawing")


def words(code: str, sources: str = "", sizes: str = "", **options: str) -> str:
    """What a block of formulas draws, as a screen reader says it."""
    named = sources.split() or ["site"]
    said = [
        (f"{notation.source(source).short}: " if len(named) > 1 else "")
        + (f"{title}: " if title else "")
        + " ".join(_sentence(each.words) for each in draw(code, source, case, **options))
        for source in named
        for title, case in read_cases(sizes).items()
    ]
    return " ".join(said)


@cache
def draw(
    code: str, source: str, sizes: str = "", *, heads: str = "", kept: str = "", words: str = ""
) -> tuple[Drawing, ...]:
    """Draw the formulas of a block in a source's letters and orientation."""
    chosen = notation.source(source)
    drawer = _Drawer.of(chosen, read_sizes(sizes), numbered=words == "numbered")
    drawer = replace(drawer, apart=heads == "apart", kept=frozenset(kept.split()))
    notes = [line.notes for line in formulas.read(code)]
    return tuple(map(drawer.line, formulas.as_block(code).write(chosen), notes))


def _figure(code: str, cases: dict[str, str], source: str, **options: str) -> str:
    drawn = {title: draw(code, source, sizes, **options) for title, sizes in cases.items()}
    widest = [
        each
        for other in notation.sources()
        for sizes in cases.values()
        for each in draw(code, other.id, sizes, **options)
    ]
    pictures = "".join(_case(title, lines) for title, lines in drawn.items())
    together = tuple(line for lines in drawn.values() for line in lines)
    numbered = options.get("words") == "numbered"
    return (
        f'<figure class="wq-diagram{" wq-numbered" * numbered}" style="--units:'
        f'{max(each.units for each in widest)};--ems:{max(each.ems for each in widest):g}">'
        f"{pictures}<figcaption>{_caption(together, pictures, numbered)}</figcaption></figure>"
    )


def _case(title: str, drawn: tuple[Drawing, ...]) -> str:
    """The lines of a block, drawn with the same sizes; below their title, if they have one."""
    pictures = "".join(
        f'<div role="img" aria-label="{html.escape(_sentence(each.words))}">'
        f'<div class="wq-drawn" aria-hidden="true">{each.html}</div></div>'
        for each in drawn
    )
    if not title:
        return pictures
    return f'<div class="wq-case"><p>{html.escape(title)}</p><div>{pictures}</div></div>'


def _caption(drawn: tuple[Drawing, ...], pictures: str, numbered: bool) -> str:
    axes = (axis for each in drawn for axis in each.axes if axis.latex)
    sizes = {(_letters(axis.latex), axis.length): axis.latex for axis in axes}
    scale = [to_mathml(f"{size} = {length}") for (_, length), size in sizes.items()]
    said = ',</span> <span class="wq-together">'.join(scale)
    parts = [f'Drawn to scale for <span class="wq-together">{said}.</span>']
    if numbered:
        parts.append("The numbers in the blocks count the words.")
    elif any(axis.tokens for each in drawn for axis in each.axes):
        parts.append("Lines separate words.")
    if "--shade" in pictures:
        parts.append("Each head has its number and its shade.")
    if "wq-kept" in pictures:
        parts.append(
            "A thick edge marks what is kept from earlier steps. The rest is computed now."
            if numbered
            else "A thick edge marks what is kept for the next tokens."
        )
    if "wq-borrowed" in pictures:
        parts.append(formulas.BORROWED_BELOW)
    return " ".join(parts)


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


@dataclass(frozen=True)
class _Drawer:
    """Draws what is written: a role is one rectangle, also where its definition is spelled out.

    Attributes:
        source: Whose letters and orientation it draws in.
        sizes: How long each size is drawn.
        apart: Whether each head has a rectangle of its own.
        kept: The keys of roles that have a thick edge.
        numbered: Whether rectangles are cut between tokens, and blocks have the numbers of words.
        head: Which head's it draws, as a block to be put into its rectangle; or None.
    """

    source: Source
    sizes: dict[str, int]
    apart: bool = False
    kept: frozenset[str] = frozenset()
    numbered: bool = False
    head: matrices.Block | None = None

    @classmethod
    def of(cls, source: Source, sizes: dict[str, int], *, numbered: bool = False) -> "_Drawer":
        """Draw for a source: if it has one letter for X_Q and X_K, as many keys as queries.

        Numbered words need no letter for how many there are.
        """
        if source.has_one_source and not numbered:
            sizes = sizes | {"n_q": sizes["n"], "n_k": sizes["n"]}
        return cls(source, sizes, numbered=numbered)

    def line(self, written: Written, notes: list[str]) -> Drawing:
        """Draw a line: its sides, one below the other if each of them has a line of its own."""
        sides = list(map(self.draw, written.sides))
        together = len(sides) - len(notes)  # so many more than one stand in the first row
        said = [
            f"{side.words} ({note})" if note else side.words
            for side, note in zip(sides, [""] * together + notes, strict=True)
        ]
        words = ", equals ".join(said[1:] if written.defines else said)
        if written.defines:
            words = f"{words}, gives {said[0]}"
        first, *others = sides[: together + 1]
        row = _row([first, *(part for other in others for part in ("=", other))], words=words)
        rows = [row, *sides[together + 1 :]]
        return _below_each_other(rows, notes, words) if any(notes) or len(rows) > 1 else row

    def draw(self, node: Expression) -> Drawing:
        """Draw an expression."""
        match node:
            case Glyph():
                return self._glyph(node)
            case Product(left, right):
                first, second = _tight(self.draw(left)), _tight(self.draw(right))
                words = f"{first.words}, times {second.words}"
                return _row([first, r"\times", second], words=words, columns=second.columns)
            case Spread(of):
                return self.draw(of)  # which is drawn for each token
            case Bracketed(of):
                return _parentheses(self.draw(of))
            case Sum(left, right):
                first = self.draw(left)
                second = _for_each_token(self.draw(right), first)
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
            case Applied(name, sign, borrowed, arguments, _):
                return self._applied(
                    name, mark(None, sign, borrowed), list(map(self.draw, arguments))
                )
            case Added(each) if self.apart:
                first, *others = (
                    _tight(replace(self, head=block).draw(_for_head(each, number, self.source)))
                    for number, block in enumerate(self._blocks("h"), start=1)
                )
                words = ", plus ".join(term.words for term in (first, *others))
                parts = [first, *(part for term in others for part in ("+", term))]
                return _row(parts, words=words, loose=True)
            case Added(each):
                drawn = _tight(self.draw(each))
                words = f"the sum over {self.sizes['h']} heads of {drawn.words}"
                return _row([sum_sign(node, mark), drawn], words=words, loose=True)
            case Joined(first=Glyph()) if self.apart:
                return self._apart(node)
            case Joined():
                return self._joined(node)
        raise TypeError(f"{node!r} cannot be drawn.")

    def _glyph(self, glyph: Glyph) -> Drawing:
        axes = [Axis(1)] * (2 - len(glyph.shape)) + [self._axis(size) for size in glyph.shape]
        if len(glyph.shape) == 1 and self.source.tokens == "columns":
            axes.reverse()
        if self.head and glyph.role.per_head:
            axes[1] = replace(axes[1], blocks=(self.head,))
        words, _, _ = glyph.role.meaning.partition(":")  # how heads stand is said with the shape
        kept = glyph.role.key in self.kept
        words += ", transposed" * glyph.turned
        if self.numbered:
            axes, numbers = _numbers(axes, glyph.shape, kept)
            return _matrix(*axes, latex(glyph, mark), words + numbers, glyph.role)
        words += ", kept" * kept
        return _matrix(*axes, latex(glyph, mark), words, glyph.role, kept)

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

    def _apart(self, node: Joined) -> Drawing:
        """One rectangle for each head: one of keys has the room of the heads that it serves."""
        count = "h_kv" if node.shared else "h"
        heads = [
            replace(self, head=block).draw(_for_head(node.first, number, self.source))
            for number, block in enumerate(self._blocks(count), start=1)
        ]
        one, served = heads[0], self.sizes["h"] // len(heads)
        along, across = (one.rows, 1) if node.vertical else (one.columns, len(heads))
        many = len(heads) > 1
        words = f"{one.words}, for each of {len(heads)} heads" if many else one.words
        if served > 1:
            words += f", {'each of them ' if many else ''}for {served} heads of queries"
        slots = "".join(_span("wq-slot", head.html) for head in heads)
        return replace(
            one,
            html=f'<span class="wq-heads{" wq-down" * node.vertical}" '
            f'style="--served:{served};--one:{along.length};--label:{_room(one.rows):g}">'
            f"{slots}</span>",
            words=words,
            **{"rows" if node.vertical else "columns": self._of_heads(along, count)},
            units=across * one.units,
            ems=across * (one.ems + 0.6),
        )

    def _axis(self, size: Expression) -> Axis:
        match size:
            case OwnSize(_, of):
                return replace(self._axis(of), latex=latex(size, mark))
            case Arithmetic("*", Glyph(count), each) if count.key in ("h", "h_kv"):
                return replace(self._of_heads(self._axis(each), count.key), latex=latex(size, mark))
            case Glyph(role) if self.numbered and role.key in formulas.TOKENS:
                return Axis(self.sizes[role.key], blocks=self._words(role.key), tokens=True)
            case Glyph(role):
                return Axis(
                    self.sizes[role.key], latex(size, mark), tokens=role.key in formulas.TOKENS
                )
        raise TypeError(f"{size!r} cannot be drawn.")

    def _words(self, count: str) -> tuple[matrices.Block, ...]:
        """The blocks of words, which end with the last one; those before the queries are old."""
        old = self.sizes["n_k"] - self.sizes["n_q"]
        last = self.sizes["n_k"]
        return tuple(
            matrices.Block(str(number), kept=number <= old)
            for number in range(last - self.sizes[count] + 1, last + 1)
        )

    def _of_heads(self, one: Axis, count: str) -> Axis:
        """The side along which all heads stand that have this one."""
        letter = notation.typeset(count, self.source, mark=mark)
        blocks = self._blocks(count)
        return Axis(one.length * len(blocks), rf"{letter} \, {one.latex}", blocks)

    def _blocks(self, count: str) -> tuple[matrices.Block, ...]:
        """The blocks of all heads: the numbers of the heads that each serves, and its shade."""
        heads, stand = self.sizes["h"], self.sizes[count]
        return tuple(
            matrices.Block(
                f"{served[0]}–{served[-1]}" if len(served) > 2 else " ".join(map(str, served)),
                (sum(served) / len(served) - 1) / max(heads - 1, 1),
            )
            for served in (
                range(first, first + heads // stand)
                for first in range(1, heads + 1, heads // stand)
            )
        )


def _for_head(node: Expression, head: int, source: Source) -> Expression:
    """What one head has, in the letters of the head with this number."""
    parts = {field.name: getattr(node, field.name) for field in fields(node)}
    changed = {
        name: _for_head(part, head, source)
        for name, part in parts.items()
        if isinstance(part, Expression)
    }
    if isinstance(node, Applied):
        changed["arguments"] = tuple(_for_head(part, head, source) for part in node.arguments)
    if isinstance(node, Glyph) and node.role.per_head:
        owner = notation.source("site") if node.borrowed else source
        changed["latex"] = owner.letter(node.role, str(head))
    return replace(node, **changed)


def _for_each_token(added: Drawing, to: Drawing) -> Drawing:
    """What is added, and where it is one vector, that it is added for each token."""
    across = added.columns.length < to.columns.length
    if not across and added.rows.length == to.rows.length:
        return added
    more, one = to.rows.length - 1, added.columns.length
    if across:
        more, one = to.columns.length - 1, added.rows.length
    how = "wq-each" if across else "wq-each wq-down"
    return replace(
        added,
        html=f'<span class="{how}" style="--more:{more};--one:{one}">{added.html}</span>',
        words=f"{added.words}, for each token",
        units=added.units + more * across,
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


def _matrix(
    rows: Axis, columns: Axis, letters: str, words: str, role: Role | None, kept: bool = False
) -> Drawing:
    """One rectangle, with its sizes at its edges and its letter below it."""
    return Drawing(
        html=matrices.matrix(
            _side(rows, "wq-rows"),
            _side(columns, "wq-columns"),
            to_mathml(letters),
            classes=f"role-{role.group if role else 'output'}" + " wq-kept" * kept,
            of_blocks=f' data-role="{role.key}"' if role else "",
        ),
        words=f"{words}, {rows.length} by {columns.length}{_in_blocks(rows, columns)}",
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


def _numbers(axes: list[Axis], sizes: Sequence[Glyph], kept: bool) -> tuple[list[Axis], str]:
    """Sides whose blocks are kept only if this is; and in words, which words stand there.

    A score has the number of its key.
    """
    if all(axis.tokens for axis in axes):
        query = next(at for at, size in enumerate(sizes) if size.role.key != "n_k")
        axes[query] = replace(axes[query], blocks=(matrices.Block(),) * axes[query].length)
    marked = [
        replace(axis, blocks=tuple(replace(each, kept=each.kept and kept) for each in axis.blocks))
        for axis in axes
    ]
    named = [each for axis in marked for each in axis.blocks if axis.tokens and each.name]
    told = f", words {named[0].name} to {named[-1].name}" if named[1:] else ""
    old = [each.name for each in named if each.kept]
    return marked, told + (f", kept {old[0]} to {old[-1]}" if old else "")


def _in_blocks(rows: Axis, columns: Axis) -> str:
    down, across = len(rows.blocks), len(columns.blocks)
    if min(down, across) > 1:
        return f" in {down} by {across} blocks"
    where = "one below the other" if down > 1 else "side by side"
    return f" in {max(down, across)} blocks {where}" if max(down, across) > 1 else ""


def _room(axis: Axis) -> float:
    """How wide a size is, roughly, in ems."""
    letters = _letters(axis.latex)
    return 0.6 + 0.3 * len(letters) if letters else 0


def _colours(node: Expression) -> set[str]:
    """The colours of the rectangles of a node; one of no role has that of an output."""
    match node:
        case Glyph(role) | Joined(each=Glyph(role)):
            return {role.group}
        case Joined():
            return {"output"}
    return set().union(*map(_colours, node.parts()))


class Diagram(formulas.Formula):
    """Lines of the language `diagram`, drawn."""

    languages = ("diagram",)
    options: ClassVar = {
        "in": None,
        "sizes": None,
        "heads": frozenset({"apart"}),
        "kept": None,
        "words": frozenset({"numbered"}),
    }
    rule = "diagram"

    def inside(self) -> Iterable[tuple[int, str]]:
        """What is wrong with which of its lines."""
        return faults(self.code, self.given)

    def groups(self, source: str) -> set[str]:
        """The colours of its letters and of its rectangles."""
        return self.letters(source).union(*map(_colours, self.sides(source)))

    def html(self) -> str:
        """A drawing in each source's letters, or in those that it names."""
        drawn = block(self.code, self.sources, **self._how())
        return f'<div class="wq-diagrams">{drawn}</div>'

    def as_text(self, writer: "Writer") -> str:
        """The formulas that it draws, or what it shows."""
        drawn = partial(words, self.code, self.sources, **self._how())
        return writer.drawn(drawn, self.code, self.sources)

    def _how(self) -> dict[str, str]:
        return {name: value for name, value in self.given.items() if name != "in"}


def _letters(latex: str) -> str:
    """What a size is written with, whatever role it has."""
    return re.sub(r"\\color\[HTML\]\{\w+\}|\\text|[\\{}_, ]", "", latex)
