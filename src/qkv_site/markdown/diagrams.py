"""Diagrams to scale: each matrix of a formula is a rectangle, its sides as long as its sizes.

A fenced block of the language `diagram` holds formulas as one of the language `formula` does, and
takes the same option `in`. `sizes="d_model=16 h=4"` says what to draw; what it leaves out has the
size in `SIZES`. With `h_kv=2`, heads share keys and values.

A line crosses a rectangle between two tokens. Between two heads it is cut, and each block has the
number of its head, or the numbers of those that share it.
"""

import ast
import html
import re
from dataclasses import dataclass, replace
from functools import cache, partial

from qkv import notation
from qkv.notation import Role, Source
from qkv.notation._grammar import Formula, Grammar, as_role, parse
from qkv.notation._typeset import Writer
from qkv_site.markdown import formulas
from qkv_site.markdown.mathml import mark, to_mathml

SIZES = {"n": 5, "n_q": 5, "n_k": 7, "d_model": 16, "h": 4, "d_k": 4, "d_v": 4}

_TOKENS = {"n", "n_q", "n_k"}
_OF_KEYS_AND_VALUES = {f"{letter}{name}" for letter in ("", "W_", "b_") for name in "KV"}


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
        if name not in {*SIZES, "h_kv"} or not re.fullmatch(r"[1-9]\d?", value):
            raise ValueError(
                f"sizes has {word!r}: expected name=number, the number from 1 to 99 and the name "
                f"one of {', '.join(SIZES)}, h_kv"
            )
        sizes[name] = int(value)
    sizes.setdefault("h_kv", sizes["h"])
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
def draw(line: str, source: str, sizes: str = "") -> Drawing:
    """Draw a formula in a source's letters and orientation."""
    formula = parse(line)
    drawer = _Drawer.of(formula, notation.source(source), read_sizes(sizes))
    first, *others = (drawer.visit(side) for side in formula.sides)
    words = ", equals ".join(other.words for other in others)
    words = f"{words}, gives {first.words}" if formula.left else f"{first.words}, equals {words}"
    equal = [part for other in others for part in ("=", other)]
    return _row([first, *equal], words=words if others else first.words)


def _figure(code: str, sizes: str, source: str) -> str:
    lines = formulas.lines(code)
    drawn = [draw(line, source, sizes) for line in lines]
    every = [draw(line, each.id, sizes) for line in lines for each in notation.sources()]
    pictures = "".join(
        f'<div role="img" aria-label="{_sentence(each.words)}">'
        f'<div class="wq-drawn" aria-hidden="true">{each.html}</div></div>'
        for each in drawn
    )
    lengths = {axis.latex: axis.length for each in drawn for axis in each.axes if axis.latex}
    scale = ", ".join(to_mathml(f"{latex} = {length}") for latex, length in lengths.items())
    tokens = any(axis.tokens for each in drawn for axis in each.axes)
    caption = f"Drawn to scale for {scale}.{' Lines separate tokens.' if tokens else ''}"
    return (
        f'<figure class="wq-diagram" data-search-exclude style="--units:'
        f'{max(each.units for each in every)};--ems:{max(each.ems for each in every):g}">'
        f"{pictures}<figcaption>{caption}</figcaption></figure>"
    )


def _sentence(words: str) -> str:
    return html.escape(f"{words[0].upper()}{words[1:]}.")


@dataclass(frozen=True)
class _Drawer(Grammar[Drawing]):
    """Draws an expression, or its transpose: in the order in which the writer writes it.

    A role is one rectangle, also where the source has no letter for it and writes what it is.
    """

    writer: Writer
    sizes: dict[str, int]

    @classmethod
    def of(cls, formula: Formula, source: Source, sizes: dict[str, int]) -> "_Drawer":
        """Draw for a source: if it has one letter for X_Q and X_K, as many keys as queries."""
        if source.letter(notation.role("X_Q")) == source.letter(notation.role("X_K")):
            sizes = sizes | {"n_q": sizes["n"], "n_k": sizes["n"]}
        return cls(Writer.of(formula, source, mark), sizes)

    def role(self, role: Role) -> Drawing:
        rows, columns = self._axes(role)
        turned = self.writer.transposed != self.writer.source.transposes(role)
        words, _, _ = role.meaning.partition(":")  # how heads stand is said with the shape
        if turned and len(role.shape) == 2:
            words += ", transposed"
        return _matrix(rows, columns, self.writer.role(role).latex, words, role)

    def product(self, left: ast.expr, right: ast.expr) -> Drawing:
        first, second = (_tight(self.visit(each)) for each in (left, right))
        if isinstance(right, ast.BinOp) and isinstance(right.op, ast.MatMult):
            second = _parentheses(second)
        if self.writer.transposed:
            first, second = second, first
        return _row(
            [first, r"\times", second],
            words=f"{first.words}, times {second.words}",
            columns=second.columns,
        )

    def plus(self, left: ast.expr, right: ast.expr) -> Drawing:
        first, second = self.visit(left), self.visit(right)
        return _row([first, "+", second], words=f"{first.words}, plus {second.words}", loose=True)

    def over_root(self, above: ast.expr, size: Role) -> Drawing:
        drawn = _tight(self.visit(above))
        root = rf"/\; \sqrt{{{self.writer.role(size).latex}}}"
        return _row(
            [drawn, root], words=f"{drawn.words}, divided by the root of the {size.meaning}"
        )

    def transpose(self, value: ast.expr) -> Drawing:
        return replace(self, writer=self.writer.flipped()).visit(value)

    def softmax(self, scores: ast.expr) -> Drawing:
        return self._applied("softmax", self.visit(scores))

    def call(self, name: str, arguments: list[ast.expr]) -> Drawing:
        queries, keys, values = (self.visit(argument) for argument in arguments)
        rows, columns = queries.rows, values.columns
        if self.writer.transposed:
            rows, columns = values.rows, queries.columns
        words = f"{queries.words}; {keys.words}; {values.words}"
        inside = _row([queries, ",", keys, ",", values], words=words, rows=rows, columns=columns)
        return self._applied(name, inside)

    def over_heads(self, name: str, each: ast.expr) -> Drawing:
        drawn = self.visit(each)
        if name == "sum":
            drawn = _tight(drawn)
            words = f"the sum over {self.sizes['h']} heads of {drawn.words}"
            return _row([self.writer.sum_over_heads, drawn], words=words, loose=True)
        names = {role.key[:-3] for role in parse(ast.unparse(each)).roles if role.per_head}
        shared = names <= _OF_KEYS_AND_VALUES
        vertical = (name == "stack") != self.writer.transposed
        rows, columns = drawn.rows, drawn.columns
        if vertical:
            rows = self._of_heads(rows, shared)
        else:
            columns = self._of_heads(columns, shared)
        letters = r",\, ".join(self.writer.of_heads(each))
        return _matrix(rows, columns, letters, f"{drawn.words}, of all heads", as_role(each))

    def _axes(self, role: Role) -> list[Axis]:
        defined = self.writer.reading.define(role)
        letters = self.writer.source.shape(defined).split(r" \times ")
        if self.writer.source.transposes(role):
            letters.reverse()
        axes = [self._axis(*named, role) for named in zip(defined.shape, letters, strict=True)]
        axes = [Axis(1)] * (2 - len(axes)) + axes
        return axes[::-1] if self.writer.transposed else axes

    def _axis(self, size: str, latex: str, role: Role) -> Axis:
        if not size.startswith("h*"):
            return Axis(self.sizes[size], latex, tokens=size in _TOKENS)
        width = size.removeprefix("h*")
        one = Axis(self.sizes[width], self.writer.source.letter(notation.role(width)))
        return self._of_heads(one, role.key in _OF_KEYS_AND_VALUES, latex)

    def _of_heads(self, one: Axis, shared: bool, latex: str = "") -> Axis:
        """The side along which all heads stand that have this one."""
        heads, stand = self.sizes["h"], self.sizes["h_kv" if shared else "h"]
        served, names = heads // stand, [str(head) for head in range(1, heads + 1)]
        if served > 1:
            count, latex = r"h_{\text{kv}}", ""
        else:
            count = self.writer.source.letter(notation.role("h"))
        return Axis(
            one.length * stand,
            latex or f"{count} {one.latex}",
            tuple(" ".join(names[first : first + served]) for first in range(0, heads, served)),
        )

    def _applied(self, name: str, inside: Drawing) -> Drawing:
        known = self.writer.source.functions
        function = known.get(name) or notation.source("site").functions[name]
        group = _parentheses(inside)
        call = _span("wq-call", _sign(function) + group.html)
        return replace(group, html=call, words=f"{name} of {group.words}", ems=group.ems + 4.5)


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
    block = _rectangle(
        replace(rows, length=rows.length // len(rows.blocks)),
        replace(columns, length=columns.length // len(columns.blocks)),
    )
    stacked = len(rows.blocks) > 1
    names = rows.blocks if stacked else columns.blocks
    blocks = "".join(
        f'<span class="wq-block">{block}<b>{name}</b></span>' if name else block for name in names
    )
    return Drawing(
        html=(
            f'<span class="wq-matrix role-{role.group if role else "output"}"'
            f' style="padding-left:{_room(rows):.1f}em">'
            f'<span class="wq-columns">{_size(columns)}</span>'
            f'<span class="wq-blocks{" wq-stacked" if stacked else ""}"{_data(role)}>'
            f'<span class="wq-rows">{_size(rows)}</span>{blocks}</span>'
            f'<span class="wq-letter">{to_mathml(letters)}</span></span>'
        ),
        words=f"{words}, {rows.length} by {columns.length}{_in_blocks(len(names), stacked)}",
        rows=rows,
        columns=columns,
        units=columns.length,
        ems=_room(rows) + 0.8,
        axes=(rows, columns),
    )


def _in_blocks(count: int, stacked: bool) -> str:
    where = "one below the other" if stacked else "side by side"
    return f" in {count} blocks {where}" if count > 1 else ""


def _data(role: Role | None) -> str:
    return f' data-role="{role.key}"' if role else ""


def _size(axis: Axis) -> str:
    return to_mathml(axis.latex) if axis.latex else ""


def _room(axis: Axis) -> float:
    """How wide a size is, roughly, in ems."""
    letters = re.sub(r"\\text|[\\{}_ ]", "", axis.latex)
    return 0.6 + 0.3 * len(letters) if letters else 0


def _rectangle(rows: Axis, columns: Axis) -> str:
    """A rectangle whose unit is the size of its font."""
    high, wide = rows.length, columns.length
    lines = "".join(f"M0 {y}h{wide}" for y in range(1, high) if rows.tokens)
    lines += "".join(f"M{x} 0v{high}" for x in range(1, wide) if columns.tokens)
    return (
        f'<svg width="{wide}em" height="{high}em" viewBox="0 0 {wide} {high}">'
        f'<rect width="{wide}" height="{high}"/>'
        + (f'<path d="{lines}"/>' if lines else "")
        + "</svg>"
    )


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
