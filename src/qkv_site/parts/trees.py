"""Trees of formulas as data, which docs/assets/evaluate.js computes in a reader's browser.

A node is a list: its kind, then what it is made of. `["Product", left, right]` is a product, and
`["Symbol", "W_Q[i]"]` the weight of head i. The script parses nothing. It has no vectors, and
heads that share nothing.
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
        ['Product', ['Symbol', 'X_Q'], ['Symbol', 'W_Q[i]']]
    """
    kind = type(node).__name__
    match node:
        case Number(value):
            return [kind, value]
        case Symbol(role) if str(node) == role.key and len(role.shape) != 1:
            return [kind, role.key]
        case Arithmetic(operator, left, right):
            return [kind, operator, as_data(left), as_data(right)]
        case Product(left, right) | Sum(left, right) | OverRoot(left, right):
            return [kind, as_data(left), as_data(right)]
        case Root(of) | Transpose(of):
            return [kind, as_data(of)]
        case Apply(function, arguments) if function in FUNCTIONS:
            return [kind, function, *map(as_data, arguments)]
        case OverHeads(how, each, "heads"):
            return [kind, how, as_data(each)]
    raise ValueError(
        f"`{node}` is a node {kind} that docs/assets/evaluate.js does not compute: "
        f"{_expected(node)}."
    )


def _expected(node: Expression) -> str:
    """What may stand in the place of a node that the script does not compute."""
    match node:
        case Symbol(role) if len(role.shape) == 1:
            return "it is a vector, and a matrix is expected"
        case Symbol(role):
            return f"{role.key} is expected"
        case OverHeads(heads=heads):
            return f"it goes over {heads}, and heads are expected"
    return f"of functions it knows {' and '.join(FUNCTIONS)}"
