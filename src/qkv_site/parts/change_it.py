"""A panel in which a reader changes a layer: other sizes, no map, a second one, two put into one.

A fenced block of the language `change-it` holds formulas, each of which says what a role is, as
`Q[i] = X_Q @ W_Q[i]`. From their trees follow those of a layer with another map of the queries. The
trees, and the letters of each source, are a file that docs/assets/change-it.js asks for when a
reader opens the panel. It computes them on the numbers of the worked example.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from qkv import example, notation
from qkv.notation import Block, Role
from qkv.notation.tree import (
    Expression,
    Formula,
    OverHeads,
    Product,
    Setting,
    Symbol,
    axes,
    latex,
    parse,
    parse_size,
)
from qkv_site.markdown.mathml import mark, to_mathml
from qkv_site.page import PAGE, Fault, Fence, Page
from qkv_site.parts import formulas, trees

if TYPE_CHECKING:
    from qkv_site.write.markdown import Writer

# The maps that queries may have, and what a choice says before the letters.
MAPS = {
    "one": "one matrix",
    "none": "no matrix",
    "two": "two matrices in a row",
    "merged": "the two, multiplied into one",
}
# What the example has. Sources are one and the same.
GIVEN = {
    **dict.fromkeys(("X", "X_Q", "X_K", "X_V"), example.X),
    "W_Q[i]": example.layer.W_Q,
    "W_K[i]": example.layer.W_K,
    "W_V[i]": example.layer.W_V,
    "W_O[i]": example.layer.W_O,
    "W_O": np.concatenate(example.layer.W_O),
}
FIXED = dict.fromkeys(formulas.TOKENS, len(example.words))
# A reader may change them.
SIZES = {name: getattr(example.layer, name) for name in ("d_model", "h", "d_k", "d_v")}
MOST = 8
_QUERIES, _EXTRA, _MERGED = "Q[i]", "P_Q", "M[i]"
_WIDTH = "width"  # of what the extra map gives, for which no text has a letter


class Said(tuple):
    """What each source writes: pairs of HTML and the sources that have it."""


class Panel(Fence):
    """Lines of the language `change-it`: a layer that a reader changes."""

    languages = ("change-it",)
    rule = "panel"

    def faults(self, page: Page) -> Iterator[Fault]:
        """What is wrong with it; a page has one panel, for its data are one file."""
        yield from super().faults(page)
        first = next(part for part in page.fences() if isinstance(part, Panel))
        if self.line > first.line:
            yield self.fault("a page has one panel, and this is another one")

    def inside(self) -> Iterable[tuple[int, str]]:
        """What is wrong with which of its lines."""
        return faults(self.code)

    def as_text(self, writer: "Writer") -> str:
        """The lines that a reader can change."""
        return writer.panel(self.code)

    def html(self) -> str:
        """What a script opens, with the data that it asks for then."""
        page = PAGE.get()
        page.panel = data(self.code)
        return (
            f'<details class="wq-change" data-wq-change="{address(page.name)}" data-search-exclude>'
            "<summary>Change it here: other sizes, no matrix, or two in a row</summary>"
            "<noscript><p>This part needs JavaScript. The pictures on this page do not.</p>"
            "</noscript></details>"
        )


def address(page: str) -> str:
    """Where the data of a page's panel are, below the folder of the scripts."""
    return f"change-it/{page.removesuffix('.md')}.json"


@cache
def faults(code: str) -> tuple[tuple[int, str], ...]:
    """Say what is wrong with which line of a block, counted from 0; its fence is line -1."""
    if found := formulas.faults(code):
        return found
    lines = formulas.read(code)
    found, made = [], {*GIVEN, *SIZES, *FIXED}
    for line in lines:
        formula = parse(line.formula)
        found += [
            (line.number, f"formula `{line.formula}`: {why}")
            for why in _faults_of_line(formula, made)
        ]
        if formula.defined:
            made.add(formula.defined.role.key)
    if not any(map(_is_projection, (parse(line.formula) for line in lines))):
        found.append((-1, f"a panel changes the map of {_QUERIES}: no line is {_QUERIES} = X @ W"))
    return tuple(found)


def _faults_of_line(formula: Formula, made: set[str]) -> Iterator[str]:
    """What the panel cannot do with a line, where these roles and sizes are known."""
    if formula.defined is None or len(formula.sides) != 2:
        yield f"a line of a panel says what a role is, as in {_QUERIES} = X_Q @ W_Q[i]"
        return
    if formula.defined.role.key in made:
        yield f"{formula.defined} is already known: a line of a panel says what a new role is"
    for side in formula.sides:
        try:
            trees.as_data(side)
        except ValueError as error:
            yield str(error)
    for node in formula.sides[-1].walk():
        if isinstance(node, Symbol) and node.role.key not in made:
            yield f"{node} is no part of the worked example, and no line above says what it is"


def versions(lines: Sequence[str]) -> dict[str, Block]:
    """The formulas with each map that queries may have, made from the trees of those with one."""
    parsed = [*map(parse, lines)]
    place = next(number for number, line in enumerate(parsed) if _is_projection(line))
    before, after = lines[:place], lines[place + 1 :]
    query, product = parsed[place].sides
    extra, merged = Symbol(notation.role(_EXTRA)), Symbol(notation.role(_MERGED), "i")
    two = Product(Product(product.left, extra), product.right)
    return {
        "one": _block(lines),
        "none": _block(
            [*before, *(_line(each, query, product.left) for each in map(parse, after))]
        ),
        "two": _block([*before, f"{query} = {two}", *after]),
        "merged": _block(
            [
                *before,
                f"{merged} = {Product(extra, product.right)}",
                f"{query} = {Product(product.left, merged)}",
                *after,
            ]
        ),
    }


def _is_projection(formula: Formula) -> bool:
    """Whether a line says that queries are the product of a source and a weight."""
    match formula:
        case Formula(defined=Symbol(index="i") as query, sides=(_, Product(Symbol(), Symbol()))):
            return str(query) == _QUERIES
    return False


def _block(lines: Sequence[str]) -> Block:
    """Lines that say themselves how roles are made, also where that is not the paper's way."""
    parsed = [*map(parse, lines)]
    made = {str(line.defined): str(line.sides[-1]) for line in parsed}
    setting = Setting.of(parsed)
    return Block(tuple(lines), replace(setting, definitions={**setting.definitions, **made}))


def _line(formula: Formula, old: Expression, new: Expression) -> str:
    return f"{formula.defined} = {_put(new, old, formula.sides[-1])}"


def _put(new: Expression, old: Expression, within: object) -> object:
    """An expression, or a part of one, with another one in the place of `old`."""
    if within == old:
        return new
    if isinstance(within, tuple):
        return tuple(_put(new, old, each) for each in within)
    if not isinstance(within, Expression):
        return within
    parts = {field.name: _put(new, old, getattr(within, field.name)) for field in fields(within)}
    return replace(within, **parts)


def data(code: str) -> dict:
    """What the script computes with: the formulas with each map, their letters, and the example."""
    blocks = versions(formulas.as_block(code).lines)
    roles = {role.key: role for block in blocks.values() for role in _roles(block)}
    given = {key: role for key, role in roles.items() if key in GIVEN or key == _EXTRA}
    pool: dict[Said, int] = {}
    found = {
        "words": example.words,
        "tokens": formulas.TOKENS,
        "most": MOST,
        "open": [_MERGED, _QUERIES],
        "sizes": {**FIXED, **SIZES, _WIDTH: SIZES["d_model"]},
        "fields": _fields(given.values(), blocks["two"]),
        "source": _in_each_source(partial(_math, str(_source(blocks["one"])))),
        "extra": _in_each_source(partial(_math, _EXTRA)),
        "roles": {key: [role.group, role.meaning] for key, role in roles.items()},
        "given": {key: _given(role, blocks["two"].setting) for key, role in given.items()},
        "letters": _letters_of_sizes(blocks.values()),
        "maps": {
            name: {
                "said": _in_each_source(partial(_choice, name)),
                "lines": _lines(block),
            }
            for name, block in blocks.items()
        },
    }
    return _pooled(found, pool) | {"said": [*pool]}


def _roles(block: Block) -> Iterator[Role]:
    symbols = (symbol for line in block.formulas for symbol in line.symbols())
    return (symbol.role for symbol in symbols if not symbol.is_size)


def _given(role: Role, setting: Setting) -> dict:
    """A role's shape, and its numbers in the example, if it is there."""
    shape = [trees.as_data(parse_size(size)) for size in setting.define(role).shape]
    if role.key == _EXTRA:
        shape[1] = ["Symbol", _WIDTH]
    values = GIVEN[role.key].tolist() if role.key in GIVEN else None
    return {"shape": shape, "values": values}


def _source(block: Block) -> Expression:
    """What the queries are made from."""
    return next(filter(_is_projection, block.formulas)).sides[-1].left


def _fields(given: Iterable[Role], block: Block) -> dict[str, str]:
    """The sizes that a reader may change, as something shown follows them; and what each is."""
    used = {
        size.role.key
        for role in given
        for text in block.setting.define(role).shape
        for size in parse_size(text).walk()
        if isinstance(size, Symbol)
    }
    if any(isinstance(node, OverHeads) for line in block.formulas for node in line.walk()):
        used.add("h")
    return {size: notation.role(size).meaning for size in SIZES if size in used} | {
        _WIDTH: "(if empty, the matrix is square)"
    }


def _letters_of_sizes(blocks: Iterable[Block]) -> dict[str, Said]:
    """What each size that a shape may have is called, in each source."""
    sizes = {
        side
        for block in blocks
        for line in block.formulas
        for part in (*line.sides, *_operands(line.sides[-1]))
        for side in axes(part, block.setting)
    }
    named = {str(side): side for side in (*sizes, *map(parse_size, SIZES))}
    letters = {name: _in_each_source(partial(_math, name)) for name in sorted(named)}
    return letters | {_WIDTH: _in_each_source(_width)}


def _width(source: str) -> str:
    """What the side of the extra map is called that the next one meets."""
    side = notation.side("columns", source, notation.role(_EXTRA))
    return f"number of {side} of {_math(_EXTRA, source)}"


def _choice(name: str, source: str) -> str:
    """What a choice says: words, and the letters that a source has for these maps."""
    letters = {
        "one": "W_Q[i]",
        "two": Product(Symbol(notation.role(_EXTRA)), parse("W_Q[i]").sides[0]),
        "merged": _MERGED,
    }
    return MAPS[name] + (f", {_math(str(letters[name]), source)}" if name in letters else "")


@cache
def _math(line: str, source: str) -> str:
    return to_mathml(notation.typeset(line, source, mark=mark))


def _lines(block: Block) -> list[dict]:
    written = {source.id: block.typeset(source, mark=mark) for source in notation.sources()}
    return [
        _as_data(block, formula, lambda source, number=number: to_mathml(written[source][number]))
        for number, formula in enumerate(block.formulas)
    ]


def _as_data(block: Block, formula: Formula, write: Callable[[str], str]) -> dict:
    """A line: its tree, and in each source the line, its parts, and on which side tokens stand."""
    result, right = formula.sides
    return {
        "defines": result.role.key,
        "tree": trees.as_data(right),
        "written": _in_each_source(write),
        "turned": [each.id for each in notation.sources() if each.transposes(result.role)],
        "result": _in_each_source(partial(_part, block, result, result)),
        "parts": [
            [trees.as_data(part), _in_each_source(partial(_part, block, result, part))]
            for part in dict.fromkeys(_operands(right))
        ],
    }


def _operands(expression: Expression) -> Iterator[Expression]:
    """The parts whose shapes have to fit."""
    for node in expression.walk():
        if isinstance(node, Product):
            yield from node.parts()


def _part(block: Block, result: Symbol, part: Expression, source: str) -> str:
    """A part of a line as the line has it: turned where the line is."""
    (written,) = Block((f"{result} = {part}",), block.setting).write(source)
    return to_mathml(latex(formulas.short(written.sides[-1]), mark))


def _in_each_source(write: Callable[[str], str]) -> Said:
    """What is written in each source; what several of them write alike stands there once."""
    return Said(formulas.alike(write).items())


def _pooled(part: object, pool: dict[Said, int]) -> object:
    """Data with a number in the place of what sources write: maps have lines in common."""
    match part:
        case Said():
            return pool.setdefault(part, len(pool))
        case dict():
            return {key: _pooled(each, pool) for key, each in part.items()}
        case list():
            return [_pooled(each, pool) for each in part]
    return part
