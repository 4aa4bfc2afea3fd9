"""The paper's layer, which the map draws: its formulas, and how many numbers one word has there.

What is drawn, and how wide, follows from these lines at the sizes of the paper's base model.
"""

from qkv import notation
from qkv.notation import Role
from qkv.notation.tree import parse

LINES = (
    "Q[i] = X_Q @ W_Q[i]",
    "K[i] = X_K @ W_K[i]",
    "V[i] = X_V @ W_V[i]",
    "head[i] = attention(Q[i], K[i], V[i])",
    "Y = concat(head[i] for i in heads) @ W_O",
)
# The base model of "Attention Is All You Need".
BASE_MODEL = {"d_model": 512, "h": 8, "h_kv": 8, "d_k": 64, "d_v": 64}

*_PROJECTED, _ATTENDED, _JOINED = map(parse, LINES)
# Source, weight and result of each line that multiplies a source by a weight.
PROJECTIONS = tuple(
    (line.sides[-1].left.role, line.sides[-1].right.role, line.defined.role) for line in _PROJECTED
)
CALL, HEAD = _ATTENDED.sides[-1], _ATTENDED.defined.role
OUTPUT, RESULT = _JOINED.sides[-1].right.role, _JOINED.defined.role
# The keys of what is drawn: the roles of the lines, and the function.
PARTS = (
    *dict.fromkeys(key for line in (*_PROJECTED, _ATTENDED, _JOINED) for key in line.roles),
    CALL.function,
)


def part(key: str) -> str:
    """The part that a key names; a packed weight and that of each head are one part."""
    name = key.removesuffix("[i]")
    return next((part for part in (key, name, f"{name}[i]") if part in PARTS), key)


def count(role: Role) -> int:
    """How many of a role there are."""
    return BASE_MODEL["h"] if role.per_head else 1


def numbers(role: Role) -> int:
    """How many numbers one of a role is for one word; what a weight makes of one word."""
    return notation.size_of(role.shape[-1], BASE_MODEL)


def takes(weight: Role) -> int:
    """How many numbers a weight is multiplied by."""
    return notation.size_of(weight.shape[0], BASE_MODEL)


def widest() -> int:
    """How many numbers stand side by side at most."""
    roles = [role for projection in PROJECTIONS for role in projection]
    return max(numbers(role) * count(role) for role in (*roles, HEAD, OUTPUT, RESULT))


def shape(role: Role) -> str:
    """What `formulas.inline` writes as a role's shape, in numbers."""
    sizes = ", ".join(f"{name}={number}" for name, number in BASE_MODEL.items())
    return f"shape({role.key}, {sizes})"
