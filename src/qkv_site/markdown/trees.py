"""Trees of formulas as data, which docs/assets/evaluate.js computes in a reader's browser.

A node is a list: its kind, then what it is made of. `["Product", left, right]` is a product, and
`["Symbol", "W_Q[i]", "i"]` the weight of head i. The script parses nothing.
"""

from qkv.notation.tree import (
    Apply,
    Arithmetic,
    Expression,
    Number,
    OverHeads,
    OverRoot,
    Product,
    Root,
    Sum,
    Symbol,
    Transpose,
)

# What the script computes; multihead, rotate and norm are not among it.
FUNCTIONS = ("softmax", "attention")

Tree = list


def as_data(node: Expression) -> Tree:
    """A node and what it is made of, as lists.

    Raises:
        ValueError: If the script does not compute it; the message names the node.

    Examples:
        >>> from qkv.notation.tree import parse
        >>> as_data(parse("X_Q @ W_Q[i]").sides[0])
        ['Product', ['Symbol', 'X_Q', ''], ['Symbol', 'W_Q[i]', 'i']]
    """
    kind = type(node).__name__
    match node:
        case Number(value):
            return [kind, value]
        case Symbol(role, index):
            return [kind, role.key, index]
        case Arithmetic(operator, left, right):
            return [kind, operator, as_data(left), as_data(right)]
        case Product(left, right) | Sum(left, right) | OverRoot(left, right):
            return [kind, as_data(left), as_data(right)]
        case Root(of) | Transpose(of):
            return [kind, as_data(of)]
        case Apply(function, arguments) if function in FUNCTIONS:
            return [kind, function, *map(as_data, arguments)]
        case OverHeads(how, each, heads):
            return [kind, how, as_data(each), heads]
    raise ValueError(
        f"`{node}` is a node {kind} that docs/assets/evaluate.js does not compute: of functions it "
        f"knows {' and '.join(FUNCTIONS)}."
    )
