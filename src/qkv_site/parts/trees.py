"""Trees of formulas as data, which docs/assets/evaluate.js computes in a reader's browser.

A node is a list: its kind, then what it is made of. `["Product", left, right]` is a product, and
`["Symbol", "W_Q[i]"]` the weight of head i. The script parses nothing, and knows the kinds that
lines of the live layer are made of: it has no sums and no vectors, and heads that share nothing.
"""

from qkv.notation.tree import (
    Apply,
    Expression,
    OverHeads,
    OverRoot,
    Product,
    Symbol,
    Transpose,
)

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
    match node:
        case Symbol(role) if str(node) == role.key and len(role.shape) != 1:
            return ["Symbol", role.key]
        case Product(left, right):
            return ["Product", as_data(left), as_data(right)]
        case OverRoot(of, size):
            return ["OverRoot", as_data(of), as_data(size)]
        case Transpose(of):
            return ["Transpose", as_data(of)]
        case Apply("softmax", (scores,)):
            return ["Softmax", as_data(scores)]
        case OverHeads("concat", each, "heads"):
            return ["Concat", as_data(each)]
    raise ValueError(
        f"`{node}` is a node {type(node).__name__} that docs/assets/evaluate.js does not compute"
    )
