"""The trees of formulas: of roles, as a line is parsed, and of glyphs, as a source writes it.

A formula is a line of Python of a small grammar, which is parsed and never executed. All that is
done with it (check, typeset, explain, draw) is a function of a tree. The values are frozen; `match`
takes them apart.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from qkv.notation._roles import Role, role

# Functions of a formula, and how many arguments each takes.
FUNCTIONS = {"softmax": 1, "attention": 3, "multihead": 3, "rotate": 1, "norm": 1}
OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}


class Expression:
    """A node of a formula's tree. `str` gives the line of Python that it was parsed from."""

    def parts(self) -> Iterator["Expression"]:
        """The expressions that this one is made of, from left to right."""
        for value in vars(self).values():
            yield from (each for each in _tuple(value) if isinstance(each, Expression))

    def walk(self) -> Iterator["Expression"]:
        """This expression and all within it, from left to right."""
        yield self
        for part in self.parts():
            yield from part.walk()

    @property
    def is_size(self) -> bool:
        """Whether it is a number, and not an array."""
        match self:
            case Symbol(role) | Glyph(role):
                return role.group == "size"
        return isinstance(self, Number | Arithmetic | Root)


@dataclass(frozen=True)
class Symbol(Expression):
    """A role: of all heads, of head `i`, or of the head of keys and values that head i uses.

    Where the index is a number, the first head is head 1, as texts count.
    """

    role: Role
    index: str = ""

    def __str__(self):
        return self.role.key.removesuffix("[i]") + (f"[{self.index}]" if self.index else "")


@dataclass(frozen=True)
class Number(Expression):
    """A whole number in the arithmetic of sizes."""

    value: int

    def __str__(self):
        return str(self.value)


@dataclass(frozen=True)
class Arithmetic(Expression):
    """Sizes, added, subtracted, multiplied, divided, or raised to a power."""

    operator: str
    left: Expression
    right: Expression

    def __str__(self):
        left = _within(self.left, LEVELS[self.operator])
        right = _within(self.right, LEVELS[self.operator] + (self.operator in "-/**"))
        return f"{left}**{right}" if self.operator == "**" else f"{left} {self.operator} {right}"


@dataclass(frozen=True)
class Root(Expression):
    """`sqrt(of)`, of a size."""

    of: Expression

    def __str__(self):
        return f"sqrt({self.of})"


@dataclass(frozen=True)
class Product(Expression):
    """`left @ right`, a product of two matrices."""

    left: Expression
    right: Expression

    def __str__(self):
        return f"{_within(self.left, PRODUCT)} @ {_within(self.right, PRODUCT + 1)}"


@dataclass(frozen=True)
class Sum(Expression):
    """`left + right`, where `right` may be a bias."""

    left: Expression
    right: Expression

    def __str__(self):
        return f"{self.left} + {_within(self.right, SUM + 1)}"


@dataclass(frozen=True)
class OverRoot(Expression):
    """`above / sqrt(size)`."""

    above: Expression
    size: Expression

    def __str__(self):
        return f"{_within(self.above, PRODUCT)} / sqrt({self.size})"


@dataclass(frozen=True)
class Transpose(Expression):
    """`of.T`."""

    of: Expression

    def __str__(self):
        return f"{_within(self.of, ATOM)}.T"


@dataclass(frozen=True)
class Apply(Expression):
    """A function of `FUNCTIONS`, applied: `softmax(S[i])`, `attention(Q[i], K[i], V[i])`."""

    function: str
    arguments: tuple[Expression, ...]

    def __str__(self):
        return f"{self.function}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True)
class OverHeads(Expression):
    """What all heads have: added (`sum`), side by side (`concat`), or stacked (`stack`).

    `heads` is "heads", or "kv_heads" for the heads of keys and values alone.
    """

    how: str
    each: Expression
    heads: str = "heads"

    def __str__(self):
        return f"{self.how}({self.each} for i in {self.heads})"


SUM, PRODUCT, POWER, ATOM = range(4)
LEVELS = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "**": POWER}


def level(expression: Expression) -> int:
    """How tightly an expression holds together; one that is looser than its place is bracketed."""
    match expression:
        case Arithmetic(operator):
            return LEVELS[operator]
        case Sum():
            return SUM
        case Product() | OverRoot():
            return PRODUCT
    return ATOM


def _within(expression: Expression, place: int) -> str:
    return f"{expression}" if level(expression) >= place else f"({expression})"


def _tuple(value: object) -> tuple:
    return value if isinstance(value, tuple) else (value,)


@dataclass(frozen=True)
class Formula:
    """A line: expressions that it says are equal, or one expression alone.

    Attributes:
        text: The line.
        sides: The expressions.
        defined: The symbol that `=` defines, in `Q[i] = X_Q @ W_Q[i]`; or None.
    """

    text: str
    sides: tuple[Expression, ...]
    defined: Symbol | None

    @property
    def roles(self) -> dict[str, Role]:
        """The roles that the line mentions, by key."""
        return {symbol.role.key: symbol.role for symbol in self.symbols()}

    def symbols(self) -> Iterator[Symbol]:
        """The symbols of all sides, from left to right."""
        return (node for node in self.walk() if isinstance(node, Symbol))

    def walk(self) -> Iterator[Expression]:
        """All nodes of all sides, from left to right."""
        for side in self.sides:
            yield from side.walk()


@dataclass(frozen=True)
class Glyph(Expression):
    """A role as a source writes it.

    Attributes:
        role: The role.
        latex: The letter, of the head that is meant here.
        general: The letter of a head in general, which a legend explains.
        shape: Its sizes as they stand here; none for a size.
        turned: Whether a transpose of the letter stands here.
        borrowed: Whether the source has no letter for the role, so that this site's stands here.
        spelled: The definition that stands here in place of a letter; or None.
    """

    role: Role
    latex: str
    general: str
    shape: tuple[Expression, ...] = field(repr=False)
    turned: bool = False
    borrowed: bool = False
    spelled: Expression | None = None

    def parts(self) -> Iterator[Expression]:
        """The definition that stands in place of the letter, if one does."""
        return iter((self.spelled,) if self.spelled else ())


@dataclass(frozen=True)
class OwnSize(Expression):
    """What a source calls a size that it tells apart from others, as the width of one source."""

    latex: str
    of: Expression


@dataclass(frozen=True)
class Applied(Expression):
    """A function as a source writes it, applied to arguments; `square` says in which brackets."""

    name: str
    latex: str
    borrowed: bool
    arguments: tuple[Expression, ...]
    square: bool


@dataclass(frozen=True)
class Bracketed(Expression):
    """A product that was written in brackets, `A @ (B @ C)`, and keeps them."""

    of: Expression


@dataclass(frozen=True)
class Spread(Expression):
    """A bias times a row of ones: a matrix with the bias in each column."""

    of: Expression


@dataclass(frozen=True)
class Added(Expression):
    """A sum over all heads: `index` runs to `last`, where the source names the number of heads."""

    each: Expression
    index: str
    last: Expression | None


@dataclass(frozen=True)
class Joined(Expression):
    """What all heads have, one beside the other or one below the other.

    Attributes:
        each: What one head has.
        first: What the first head has.
        second: What the second head has, where the last one cannot be named; or None.
        last: What the last head has; or None.
        vertical: Whether they stand one below the other.
        latex: The function that joins them where they stand one beside the other.
        borrowed: Whether the source has no name for that function.
        shared: Whether only heads of keys and values are meant.
    """

    each: Expression
    first: Expression
    second: Expression | None
    last: Expression | None
    vertical: bool
    latex: str
    borrowed: bool
    shared: bool


@dataclass(frozen=True)
class Written:
    """A line as a source writes it; `transposed`: with the factors the other way round."""

    sides: tuple[Expression, ...]
    defines: bool
    transposed: bool


def letters(node: Expression) -> Iterator[Glyph]:
    """The letters that are written for a node; not those of what is spelled out, or only meant."""
    match node:
        case Glyph(spelled=None):
            yield node
        case Glyph(spelled=spelled):
            yield from letters(spelled)
        case Joined(first=first, second=second, last=last):
            for each in filter(None, (first, second, last)):
                yield from letters(each)
        case _:
            for part in node.parts():
                yield from letters(part)


@cache
def parse(line: str) -> Formula:
    """Parse a line: `lhs = rhs` defines a role, `lhs == rhs` states an identity.

    Raises:
        ValueError: If the line is not one statement of this form.
    """
    try:
        statements = ast.parse(line.strip()).body
    except SyntaxError as error:
        raise ValueError(f"`{line}` is no Python: {error.msg}.") from None
    if len(statements) != 1:
        raise ValueError(f"A formula is one statement, but `{line}` has {len(statements)}.")
    match statements[0]:
        case ast.Assign([left], right):
            symbol = _expression(left)
            if not isinstance(symbol, Symbol):
                raise ValueError(f"On the left of = stands a role, not `{ast.unparse(left)}`.")
            return Formula(line.strip(), (symbol, *map(_expression, _equal(right))), symbol)
        case ast.Expr(value):
            sides = tuple(map(_expression, _equal(value)))
            return Formula(line.strip(), sides, None)
    raise _refused(statements[0])


def parse_size(text: str) -> Expression:
    """Parse a size: `d_k`, `h * d_k`, `2 * d_model * d_k - d_k**2`.

    Raises:
        ValueError: If it is no expression of sizes.
    """
    (size,) = parse(text).sides
    if not size.is_size:
        raise ValueError(f"`{text}` is no size.")
    return size


def _equal(node: ast.expr) -> tuple[ast.expr, ...]:
    if isinstance(node, ast.Compare) and all(isinstance(each, ast.Eq) for each in node.ops):
        return (node.left, *node.comparators)
    return (node,)


def _expression(node: ast.expr) -> Expression:
    match node:
        case ast.Name() | ast.Subscript():
            return _symbol(node)
        case ast.Constant(int(value)) if not isinstance(value, bool):
            return Number(value)
        case ast.UnaryOp(ast.USub(), ast.Constant(int(value))):
            return Number(-value)
        case ast.Call(ast.Name("sqrt"), [size], []):
            return Root(_size(size))
        case ast.BinOp(left, ast.MatMult(), right):
            return Product(_array(left), _array(right))
        case ast.BinOp(left, operator, right) if type(operator) in OPERATORS:
            return _arithmetic(node, _expression(left), OPERATORS[type(operator)], right)
        case ast.Attribute(value, "T"):
            return Transpose(_array(value))
        case ast.Call(ast.Name(name), arguments, []) if FUNCTIONS.get(name) == len(arguments):
            return Apply(name, tuple(map(_array, arguments)))
        case ast.Call(
            ast.Name("sum" | "concat" | "stack" as how),
            [
                ast.GeneratorExp(
                    each,
                    [ast.comprehension(ast.Name("i"), ast.Name("heads" | "kv_heads" as of), [], 0)],
                )
            ],
            [],
        ):
            return OverHeads(how, _array(each), of)
    raise _refused(node)


def _symbol(node: ast.Name | ast.Subscript) -> Symbol:
    text = ast.unparse(node)
    name, _, index = text.removesuffix("]").partition("[")
    if index not in ("", "i", "g(i)") and not re.fullmatch("[1-9]", index):
        raise ValueError(
            f"The index of a head is i, a number from 1 to 9, or g(i) for the keys and values that "
            f"head i uses, but the formula has `{text}`."
        )
    found = role(f"{name}[i]" if index else name)
    if index == "g(i)" and not found.per_kv_head:
        raise ValueError(
            f"g(i) is the head of keys and values that head i uses, and {name} belongs to neither: "
            f"write {name}[i], not `{text}`."
        )
    return Symbol(found, index)


def _arithmetic(node: ast.BinOp, left: Expression, operator: str, right: ast.expr) -> Expression:
    second = _expression(right)
    if left.is_size and second.is_size:
        return Arithmetic(operator, left, second)
    if operator == "+" and not (left.is_size or second.is_size):
        return Sum(left, second)
    if operator == "/" and isinstance(second, Root):
        return OverRoot(left, second.of)
    raise _refused(node)


def _array(node: ast.expr) -> Expression:
    expression = _expression(node)
    if expression.is_size:
        raise ValueError(
            f"`{expression}` is a size, where an array is expected: a size stands only in sqrt, or "
            "among sizes."
        )
    return expression


def _size(node: ast.expr) -> Expression:
    expression = _expression(node)
    if not expression.is_size:
        raise ValueError(f"sqrt takes a size such as d_k, but `{expression}` is an array.")
    return expression


def _refused(node: ast.AST) -> ValueError:
    return ValueError(
        f"`{ast.unparse(node)}` is not part of a formula. A formula has roles, @, .T, +, "
        "/ sqrt(size), softmax(S), attention(Q, K, V), multihead(X_Q, X_K, X_V), rotate(Q), "
        "norm(Q), and sum, concat or stack(... for i in heads); among sizes also -, *, / and **."
    )
