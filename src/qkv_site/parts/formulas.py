"""A formula is a line of NumPy, shown in every source's notation.

A fenced block of the language `formula` holds lines that stand together. In a sentence, `{{...}}`
holds a symbol, a short formula or a size; `{{shape(W_Q[i])}}` is a shape, and `{{"rows"}}` a word
that says on which side something stands. Each is written for every source: in the site's own
letters where it stands, and in all of them in a template of the page, out of which a script takes
what a reader chooses. What is written alike is stored once. `in="paper-eq1"` on a fence, or
`{{paper-eq1: ...}}`, ties a formula to one source.
"""

import ast
import html
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, ClassVar

from markdown import Markdown
from markdown.inlinepatterns import InlineProcessor

from qkv import example, notation
from qkv.notation.tree import Expression, Glyph, Transpose, letters
from qkv_site.markdown.mathml import mark, to_mathml
from qkv_site.page import PAGE, Fence, Variants

if TYPE_CHECKING:
    from qkv_site.write.markdown import Writer

_KEYS = {role.key for role in notation.roles()}
INLINE = r"\{\{\s*(?:([\w-]+):\s)?\s*(.+?)\s*\}\}"
TOKENS = {"n": "word", "n_q": "query", "n_k": "key"}  # sizes that count them; what each is called
_PUNCTUATION = r"([.,:;)?!]*)"
_SHORT = 4  # nodes of a definition: a product of two letters, one of them transposed
BORROWED = "this site's letter"
BORROWED_BELOW = (
    "A letter with dots below it is this site's: the text has none for it, or one that we do not "
    "use."
)


@dataclass
class Line:
    """A formula of a block, as it was written.

    Attributes:
        number: Its line, counted from 0.
        formula: What it says; a line that begins with `==` goes on with the one before.
        notes: What stands after the `#` of each of its lines, empty where nothing does.
    """

    number: int
    formula: str
    notes: list[str]


def read(code: str) -> list[Line]:
    """The formulas of a block."""
    found: list[Line] = []
    for number, line in enumerate(code.splitlines()):
        formula, _, note = (part.strip() for part in line.partition("#"))
        if formula.startswith("==") and found:
            found[-1].formula += f" {formula}"
            found[-1].notes.append(note)
        elif formula:
            found.append(Line(number, formula, [note]))
    return found


def as_block(code: str) -> notation.Block:
    """The formulas of a block as the notation reads them: together."""
    return notation.Block(tuple(line.formula for line in read(code)))


@cache
def faults(code: str, sources: str = "") -> tuple[tuple[int, str], ...]:
    """Run the formulas of a block; say what is wrong with which line, counted from 0."""
    lines = read(code)
    found = [
        (lines[fault.line].number, f"formula `{lines[fault.line].formula}`: {fault.message}")
        for fault in as_block(code).faults()
    ]
    for source in sources.split():
        try:
            notation.source(source)
        except ValueError as error:
            found.append((-1, str(error)))
    if not found:
        shown = sources.split() or [source.id for source in notation.sources()]
        found += [(-1, message) for source in shown for message in _lost(code, source)][:1]
    return tuple(found)


def _lost(code: str, name: str) -> Iterator[str]:
    """What the letters of a source cannot say: which of two things, or which head's."""
    source, first = notation.source(name), {}
    expected = 'tie the formulas, in="site", and say whose letters these are'
    for entry in as_block(code).legend(source):
        other = first.setdefault(entry.latex, entry)
        if other.shape != entry.shape:
            two = " and ".join(f"{each.role.key}, {each.shape}," for each in (other, entry))
            yield f"{entry.latex} of {source.short} would be {two} in one legend: {expected}"
    for formula in as_block(code).formulas:
        for symbol in formula.symbols():
            if symbol.index == "g(i)" and "g(" not in notation.typeset(str(symbol), source):
                yield f"{source.short} has no letter that tells {symbol} from others: {expected}"


def block(code: str, sources: str = "") -> str:
    """HTML of a block of formulas: in every source's notation, or in those that are named."""
    return in_notations(partial(_display, code, tied=bool(sources)), sources)


def in_notations(render: Callable[[str], str], sources: str = "", kind: str = "formula") -> str:
    """HTML of what `render` makes for every source, or for each of those that are named."""
    if len(sources.split()) < 2:
        return variants(render, "div", sources, kind)
    page = PAGE.get()
    page.compares = True
    page.tied.update(sources.split())
    return "".join(
        f'<figure class="wq-in" data-of="{source}"><figcaption>'
        f"{html.escape(notation.source(source).short)}</figcaption>{render(source)}</figure>"
        for source in sources.split()
    )


def inline(content: str, source: str = "") -> str:
    """HTML of what stands between `{{` and `}}` in a sentence.

    Raises:
        ValueError: If it is no formula, shape or word of side, or does not hold.
    """
    check(content, source)
    if source:
        PAGE.get().tied.add(source)
        return _written(content, source, tied=True)
    return variants(partial(_written, content), "span")


@cache
def check(content: str, source: str = "") -> None:
    """Raise `ValueError` or `SyntaxError` unless this may stand between `{{` and `}}`."""
    plain(content, source or "site")
    alone = content in _KEYS or content.startswith(('"', "shape("))  # says nothing of others
    if not alone:
        notation.check(content)


def plain(content: str, source: str) -> str:
    """The same in Jupyter's Markdown."""
    return _side(content, source) if content.startswith('"') else f"${_latex(content, source)}$"


@cache
def written_alike(one: str, other: str) -> tuple[notation.Source, ...]:
    """The sources in which two contents of `{{...}}` look the same, if they do not on this site."""
    if plain(one, "site") == plain(other, "site"):
        return ()
    return tuple(
        source for source in notation.sources() if plain(one, source.id) == plain(other, source.id)
    )


def not_told_apart(symbol: str, others: set[str]) -> Iterator[str]:
    """Say which source writes a symbol and others of its paragraph, item or cell alike.

    Args:
        symbol: What stands between `{{` and `}}`.
        others: What stands so behind it.
    """
    for other in sorted(others) if symbol not in others else []:  # the last one is compared
        if sources := written_alike(symbol, other):
            yield (
                f"`{symbol}` and `{other}` stand together, and {sources[0].short} writes both "
                f"{plain(other, sources[0].id)}: tie both, {{{{site: {other}}}}}, or leave one"
            )


def variants(render: Callable[[str], str], tag: str, only: str = "", kind: str = "formula") -> str:
    """The site's own rendering, and the number of the set in which the others wait."""
    if only:
        PAGE.get().tied.add(only)
        return f'<{tag} data-of="{only}">{render(only)}</{tag}>'
    renderings = alike(render)
    own, *others = renderings
    if not others:
        return own
    found = Variants(
        "".join(
            f'<{tag} data-in="{sources}">{rendering}</{tag}>'
            for rendering, sources in renderings.items()
        ),
        "place" if tag == "span" else kind,
        frozenset(renderings[own].split()),
        own,
    )
    number = PAGE.get().add_variants(found)
    return f'<{tag} data-set="{number}" data-in="{renderings[own]}">{own}</{tag}>'


def alike(render: Callable[[str], str]) -> dict[str, str]:
    """What `render` makes for every source, each once, and the sources that have it alike."""
    found: dict[str, list[str]] = {}
    for source in notation.sources():  # the site's own comes first
        found.setdefault(render(source.id), []).append(source.id)
    return {rendering: " ".join(sources) for rendering, sources in found.items()}


def short(written: Expression) -> Expression:
    """What stands below a small rectangle: a long definition gives way to this site's letter."""
    match written:
        case Glyph(spelled=Expression() as spelled) if sum(1 for _ in spelled.walk()) > _SHORT:
            return replace(written, spelled=None, borrowed=True)
        case Transpose(of):
            return Transpose(short(of))
    return written


def _side(content: str, source: str) -> str:
    word, _, key = (part.strip() for part in content.partition(","))
    role = notation.role(key) if key else None
    return notation.side(word.strip('"'), source, role)


@cache
def _written(content: str, source: str, *, tied: bool = False) -> str:
    """What stands in a sentence, in the letters of a source; and whose they are, if it is tied."""
    if content.startswith('"'):
        return _side(content, source)
    of = source if tied else ""
    is_shape = content.startswith("shape(")
    mathml = to_mathml(_latex(content, source, mark=mark), of="" if is_shape else of)
    mathml = _with_note(mathml)
    return f'<span data-of="{of}">{mathml}</span>' if of and is_shape else mathml


def _latex(content: str, source: str, **options) -> str:
    """LaTeX of a formula, or of the shape in `shape(W_Q[i], d_model=512, d_k=64)`."""
    if not content.startswith("shape("):
        return notation.typeset(content, source, **options)
    match ast.parse(content, mode="eval").body:
        case ast.Call(ast.Name("shape"), [expression], sizes):
            numbers = {size.arg: ast.literal_eval(size.value) for size in sizes}
            return notation.shape(ast.unparse(expression), source, **options, **numbers)
    raise ValueError(f"`{content}` is no shape: expected shape(W_Q[i]) or shape(W_Q[i], d_k=64)")


def _with_note(mathml: str) -> str:
    """A formula in a sentence; where a letter is borrowed, it is said to a screen reader."""
    note = f'<span class="wq-unseen"> ({BORROWED})</span>' if "wq-borrowed" in mathml else ""
    return mathml + note


@cache
def _display(code: str, source: str, *, tied: bool) -> str:
    block = as_block(code)
    formulas = "".join(
        f'<div class="math-display">{to_mathml(latex, display=True)}</div>'
        for latex in block.typeset(source, mark=mark)
    )
    legend = sorted(block.legend(source, mark=mark), key=_place)
    where = "".join(map(_explain, legend))
    vectors = [entry for entry in legend if TOKENS.keys() & {*entry.role.shape}]
    note = ""
    if tied and vectors and notation.source(source).one_token:
        note = f'<p class="wq-vectors">{one_token(vectors[0], notation.source(source))}</p>'
    return f'{formulas}<ul class="wq-where">{where}</ul>{note}'


def _place(entry: notation.Entry) -> tuple[int, int]:
    """Where an entry stands in a legend: beside those of its colour, as in the key of colours."""
    return notation.GROUPS.index(entry.role.group), notation.roles().index(entry.role)


def one_token(entry: notation.Entry, source: notation.Source) -> str:
    """A sentence about a source whose letters, such as this one, are one token's vectors."""
    line = notation.side("row", source, entry.role)
    return (
        f"In this source {to_mathml(entry.latex)} is one word's vector. In our formulas it has all "
        f"words, one in each {line}. The same holds for what is made of them. The source may write "
        "all words otherwise."
    )


def of_example(letter: str) -> str:
    """A sentence about a letter for both widths of a head, which differ in the example."""
    return (
        f"{to_mathml(letter)} is {example.layer.d_k} for the worked example's queries and keys, "
        f"and {example.layer.d_v} for its values."
    )


def _explain(entry: notation.Entry) -> str:
    shape = f", {to_mathml(entry.shape)}" if entry.shape else ""
    note = f" ({BORROWED})" if entry.borrowed else ""
    return (
        f'<li tabindex="0" data-role="{entry.role.key}">{to_mathml(entry.latex)} '
        f"{html.escape(entry.role.meaning)}{shape}{note}</li>"
    )


class _Inline(InlineProcessor):
    def handleMatch(self, match: re.Match, data: str):
        source, line, punctuation = match[1] or "", match[2], match[3]
        try:
            rendered = inline(line, source)
            if not source:
                self._tell_apart(match, data)
        except (SyntaxError, ValueError) as error:
            _report("formula", f"formula `{line}`: {error}", match[0], match[0])
            rendered = f"<code>{html.escape(line)}</code>"
        if line in _KEYS and punctuation:  # a longer formula may need the line's end for itself
            rendered = f'<span class="wq-together">{rendered}{punctuation}</span>'
        else:
            rendered += punctuation
        return self.md.htmlStash.store(rendered), match.start(0), match.end(0)

    def _tell_apart(self, match: re.Match, data: str) -> None:
        """Report symbols of a paragraph, item or cell that some source writes alike."""
        later = self.compiled_re.finditer(data, match.end(0))
        with suppress(SyntaxError, ValueError):  # of another symbol, and said there
            for message in not_told_apart(match[2], {other[2] for other in later if not other[1]}):
                near = re.match(r"[^\x02\n]+", data[match.start(0) :])[0]
                _report("letters", message, match[0], near)


def _report(rule: str, message: str, formula: str, near: str) -> None:
    """Report what a block printed: what the page itself says was checked before."""
    page = PAGE.get()
    own = [page.prose(), *(fence.given.get("title", "") for fence in page.fences())]
    if not any(formula in text for text in own):
        page.report(rule, message, line=page.line_of(near))


def register(md: Markdown) -> None:
    """Typeset sentences after code spans, and before anything that knows brackets or stars."""
    md.inlinePatterns.register(_Inline(INLINE + _PUNCTUATION, md), "wq-formula", 187)


class Formula(Fence):
    """Lines of the language `formula`: they hold together."""

    languages = ("formula",)
    options: ClassVar = {"in": None}
    rule = "formula"

    @property
    def sources(self) -> str:
        """The sources that it names; empty if it is shown in the letters that a reader chooses."""
        return self.given.get("in", "")

    def inside(self) -> Iterable[tuple[int, str]]:
        """What is wrong with which of its lines."""
        return faults(self.code, self.sources)

    def as_text(self, writer: "Writer") -> str:
        """The formulas as whoever reads the text needs them."""
        return writer.formulas(self.code, self.sources)

    def groups(self, source: str) -> set[str]:
        """The colours of its letters, and of those that it explains, in a source's notation."""
        explained = {entry.role.group for entry in as_block(self.code).legend(source)}
        return self.letters(source) | explained

    def letters(self, source: str) -> set[str]:
        """The colours of its letters in a source's notation."""
        return {glyph.role.group for side in self.sides(source) for glyph in letters(side)}

    def sides(self, source: str) -> Iterator[Expression]:
        """What its lines say is equal, as a source writes it."""
        for line in as_block(self.code).write(notation.source(source)):
            yield from line.sides

    def html(self) -> str:
        """The formulas, and below them what their letters stand for."""
        return f'<div class="wq-formula">{block(self.code, self.sources)}</div>'
