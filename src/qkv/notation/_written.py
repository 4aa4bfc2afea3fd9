"""A formula as a source writes it: its letters, its orientation, and what it spells out.

`write` turns a tree of roles into a tree of glyphs, in the order in which they stand on the page.
LaTeX, the legend and drawings are made from that tree.
"""

from dataclasses import dataclass, replace
from functools import cache

from qkv.notation import tree
from qkv.notation._roles import Role, role, roles
from qkv.notation._sources import Source, source
from qkv.notation.settings import Setting
from qkv.notation.tree import Expression, Formula, Glyph, Joined, Written, parse, parse_size


def write(formula: Formula, chosen: Source, setting: Setting) -> Written:
    """Write a line in a source's letters, with tokens as rows or as columns as it has them."""
    made = formula.defined.role if formula.defined else _role_of(formula.sides[0], setting)
    transposed = chosen.transposes(made) if made else chosen.tokens == "columns"
    writer = Writer(chosen, setting, transposed)
    if formula.defined and formula.defined.role.group == "weight":
        defined = writer._symbol(formula.defined)
        if defined.borrowed and defined.role.per_head:  # W_VO[i]: so its factors are of this head
            writer = replace(writer, head=writer._index)
    sides = tuple(writer.write(side) for side in formula.sides)
    return Written(sides, formula.defined is not None, transposed)


def _role_of(side: Expression, setting: Setting) -> Role | None:
    """What an expression is, by its letter, its definition or the scores' sizes; or None."""
    if isinstance(side, tree.Symbol):
        return side.role
    if side in _definitions():
        return _definitions()[side]
    scores = role("S[i]")
    summed = isinstance(side, tree.OverHeads) and side.how == "sum"
    made = tree.Product | tree.Sum | tree.OverRoot | tree.Transpose | tree.Apply
    matrix = summed or isinstance(side, made)
    of_scores = matrix and axes(side, setting) == tuple(map(parse_size, scores.shape))
    return scores if of_scores else None


@cache
def _definitions() -> dict[Expression, Role]:
    return {parse(each.definition).sides[0]: each for each in roles() if each.definition}


def axes(expression: Expression, setting: Setting) -> tuple[Expression, ...]:
    """The sizes of an expression where tokens are rows."""
    match expression:
        case tree.Symbol(role):
            return tuple(map(parse_size, setting.define(role).shape))
        case tree.Product(left, right):
            return (axes(left, setting)[0], axes(right, setting)[-1])
        case tree.Sum(left, _) | tree.OverRoot(left, _):
            return axes(left, setting)
        case tree.Transpose(of):
            return axes(of, setting)[::-1]
        case tree.Apply("attention", (queries, _, values)):
            return (axes(queries, setting)[0], axes(values, setting)[-1])
        case tree.Apply("multihead", (queries, _, _)):
            return (axes(queries, setting)[0], parse_size("d_model"))
        case tree.Apply(_, (argument,)):
            return axes(argument, setting)
        case tree.OverHeads("sum", each):
            return axes(each, setting)
        case tree.OverHeads(how, each, heads):
            count = parse_size("h_kv" if heads == "kv_heads" and setting.grouped else "h")
            rows, columns = axes(each, setting)
            if how == "stack":
                return (tree.Arithmetic("*", count, rows), columns)
            return (rows, tree.Arithmetic("*", count, columns))
    raise ValueError(f"`{expression}` is a size, and has no shape.")


@dataclass(frozen=True)
class Writer:
    """Writes expressions, or their transposes, in one source's letters.

    Attributes:
        source: The source.
        setting: How roles are made.
        transposed: Whether it writes the transpose of what it is given.
        head: Which head it writes; a head in general where empty.
        shared: Whether it writes what belongs to the head of keys and values that a head uses.
    """

    source: Source
    setting: Setting
    transposed: bool
    head: str = ""
    shared: bool = False

    def write(self, node: Expression) -> Expression:
        match node:
            case tree.Number():
                return node
            case tree.Symbol():
                return self._symbol(node)
            case tree.Arithmetic(operator, left, right):
                return tree.Arithmetic(operator, self.write(left), self.write(right))
            case tree.Root(of):
                return tree.Root(self.write(of))
            case tree.Product(left, right):
                # Python reads A @ B @ C from the left, so brackets on the right were written.
                first, second = self.write(left), self.write(right)
                if isinstance(right, tree.Product):
                    second = tree.Bracketed(second)
                # (A B)^T is B^T A^T; each factor was written transposed already.
                factors = (second, first) if self.transposed else (first, second)
                return tree.Product(*factors)
            case tree.Sum(left, right):
                added = self.write(right)
                is_bias = isinstance(right, tree.Symbol) and len(right.role.shape) == 1
                if is_bias and self.transposed:
                    added = tree.Spread(added)  # NumPy would add it to rows
                return tree.Sum(self.write(left), added)
            case tree.OverRoot(above, size):
                return tree.OverRoot(self.write(above), self.write(size))
            case tree.Transpose(tree.Symbol() as symbol):
                # A letter that the source has for the transpose is written without a sign.
                return replace(self, transposed=not self.transposed)._symbol(symbol)
            case tree.Transpose(of) if self.source.tokens == "columns" and not self.transposed:
                # What is not turned has factors that are: two signs of a transpose are none.
                return replace(self, transposed=True).write(of)
            case tree.Transpose(of):
                return _transposed(self.write(of))
            case tree.Apply(name, arguments):
                return self._applied(name, arguments)
            case tree.OverHeads("sum", each):
                index = self._index
                return tree.Added(self._of_head(index, each), index, self._last(node.heads))
            case tree.OverHeads():
                return self._joined(node)
        raise TypeError(f"{node!r} is no expression of roles.")

    def _symbol(self, symbol: tree.Symbol) -> Glyph:
        return _glyph(self, symbol)

    def shape(self, role: Role) -> tuple[Expression, ...]:
        """The sizes of a role where tokens are rows, as the source calls them."""
        sizes = tuple(self.write(parse_size(size)) for size in role.shape)
        letter = self.source.letters.get(role.key)
        if not (letter and letter.shape):
            return sizes
        # A source gives its own sizes as it writes the role; here they stand as rows.
        own = letter.shape.split(r" \times ")[:: -1 if self.source.transposes(role) else 1]
        return tuple(
            size if text == "-" else tree.OwnSize(text, size)
            for text, size in zip(own, sizes, strict=True)
        )

    def _applied(self, name: str, arguments: tuple[Expression, ...]) -> Expression:
        # attention(Q, K, V) takes tokens as the source has them, so its transpose is that of all.
        # A softmax along the other axis is a softmax still, unless weights keep one query a row.
        softmax = name == "softmax"
        columns = self.source.tokens == "columns"
        native = self.source.transposes(role("A[i]")) if softmax else columns
        if self.transposed != native and (self.source.upright or not softmax):
            return _transposed(replace(self, transposed=native)._applied(name, arguments))
        latex, borrowed = self._function(name)
        square = name in self.source.functions and self.source.square
        return tree.Applied(name, latex, borrowed, tuple(map(self.write, arguments)), square)

    def _function(self, name: str) -> tuple[str, bool]:
        """What the source calls a function, and whether that is this site's name for it."""
        own = self.source.functions.get(name)
        return own or source("site").functions[name], own is None and name != "softmax"

    def _joined(self, node: tree.OverHeads) -> Joined:
        first, second = (self._of_head(head, node.each) for head in self.source.first_heads)
        count = self._last(node.heads)
        last = self._of_head(count.latex, node.each) if count else None
        latex, borrowed = self._function("concat")
        return Joined(
            each=self.write(node.each),
            first=first,
            second=None if last else second,
            last=last,
            vertical=(node.how == "stack") != self.transposed,
            latex=latex,
            borrowed=borrowed,
            shared=node.heads == "kv_heads" and self.setting.grouped,
        )

    @property
    def _index(self) -> str:
        return self.source.index or source("site").index

    def _last(self, heads: str) -> Glyph | None:
        count = role("h_kv" if heads == "kv_heads" and self.setting.grouped else "h")
        named = self.source.bounds and self.source.names(count)
        return self._symbol(tree.Symbol(count)) if named else None

    def _of_head(self, head: str, each: Expression) -> Expression:
        return replace(self, head=head).write(each)

    def _has_letter(self, role: Role) -> bool:
        """Whether the source has a letter for a role that says here what it has to."""
        if not self.source.names(role):
            return False
        # Who writes Q for each head alike has no letter for the queries of the first one.
        if self.head and role.per_head and not self.source.tells_heads_apart(role):
            return False
        return not self.setting.is_mapped(role) or self.source.names(self._map_to(role))

    def _map_to(self, source: Role) -> Role:
        """The map between `X` and this source: who does not write it does not write its result."""
        return role(source.key.replace("X_", "P_"))

    def _can_spell_out(self, role: Role) -> bool:
        """Whether the source has the letters and the function of a role's definition."""
        if role.definition is None or role.named:
            return False
        formula = parse(role.definition)
        match formula.sides[0]:
            case tree.Apply(name) if name != "softmax" and name not in self.source.functions:
                return False
        over_heads = any(isinstance(node, tree.OverHeads) for node in formula.walk())
        # A sum over heads is written with the first and the last head, so ask about one of them.
        writer = replace(self, head=self.head or "1") if over_heads else self
        parts = (self.setting.define(symbol.role) for symbol in formula.symbols())
        return all(
            writer._has_letter(part) or writer._can_spell_out(part) for part in parts if part.shape
        )


@cache  # few letters are written, and each of them many times
def _glyph(writer: Writer, symbol: tree.Symbol) -> Glyph:
    if symbol.index.isdigit():
        return replace(writer, head=symbol.index)._symbol(replace(symbol, index="i"))
    defined = writer.setting.define(symbol.role)
    shape = writer.shape(defined)[:: -1 if writer.transposed else 1]
    # A transpose of a letter that stands for the transpose is the letter itself.
    turned = len(shape) == 2 and writer.transposed != writer.source.transposes(symbol.role)
    shared = writer.shared or symbol.index == "g(i)"
    own = writer._has_letter(symbol.role)
    # A letter of this site stands in for the one that the source has not; it is marked as borrowed.
    owner = writer.source if own else source("site")
    head = writer.head or writer._index
    glyph = Glyph(
        role=symbol.role,
        latex=owner.letter(symbol.role, _index(head, shared)),
        general=owner.letter(symbol.role, _index(writer._index, shared)),
        shape=shape,
        turned=turned,
        borrowed=not own,
    )
    if own or not writer._can_spell_out(defined):
        return glyph
    (definition,) = parse(defined.definition).sides
    # A definition stands as its letter would: `turned` above transposes both, or neither.
    upright = writer.source.transposes(symbol.role)
    spelled = replace(writer, transposed=upright, shared=shared).write(definition)
    return replace(glyph, borrowed=False, spelled=spelled)


def _transposed(written: Expression) -> Expression:
    return written.of if isinstance(written, tree.Transpose) else tree.Transpose(written)


def _index(head: str, shared: bool) -> str:
    return f"g({head})" if shared else head
