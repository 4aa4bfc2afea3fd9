"""The layer that the map draws: its formulas, and how many numbers there are for one word."""

from dataclasses import dataclass, field
from functools import cached_property

from qkv import notation
from qkv.notation import Role
from qkv.notation.tree import Apply, Expression, Formula, OverHeads, Product, Symbol, parse

LINES = (
    "Q[i] = X_Q @ W_Q[i]",
    "K[i] = X_K @ W_K[i]",
    "V[i] = X_V @ W_V[i]",
    "head[i] = attention(Q[i], K[i], V[i])",
    "Y = concat(head[i] for i in heads) @ W_O",
)
# The base model of "Attention Is All You Need".
BASE_MODEL = {"d_model": 512, "h": 8, "h_kv": 8, "d_k": 64, "d_v": 64}


@dataclass(frozen=True)
class Layer:
    """The lines of a layer, and its sizes.

    Attributes:
        sizes: The number that each size stands for; the paper's base model.
        lines: The formulas, in the order in which the layer runs.
    """

    sizes: dict[str, int] = field(default_factory=BASE_MODEL.copy)
    lines: tuple[str, ...] = LINES

    @cached_property
    def formulas(self) -> tuple[Formula, ...]:
        """The lines, parsed."""
        return tuple(map(parse, self.lines))

    @cached_property
    def projections(self) -> tuple[tuple[Role, Role, Role], ...]:
        """Source, weight and result of each line that multiplies one role by another."""
        return tuple(
            (source.role, weight.role, formula.defined.role)
            for formula in self.formulas
            for source, weight in _factors(formula)
            if isinstance(source, Symbol)
        )

    @cached_property
    def attention(self) -> tuple[Apply, Role]:
        """The call of equation (1), and what it returns."""
        ((call, head),) = (
            (formula.sides[-1], formula.defined.role)
            for formula in self.formulas
            if isinstance(formula.sides[-1], Apply)
        )
        return call, head

    @cached_property
    def output(self) -> tuple[Role, Role]:
        """The weight that all heads are multiplied by, and the result."""
        ((weight, result),) = (
            (weight.role, formula.defined.role)
            for formula in self.formulas
            for heads, weight in _factors(formula)
            if isinstance(heads, OverHeads)
        )
        return weight, result

    @property
    def parts(self) -> tuple[str, ...]:
        """The keys of what is drawn: the roles of the lines, and the function."""
        keys = [key for formula in self.formulas for key in formula.roles]
        return (*dict.fromkeys(keys), self.attention[0].function)

    def part(self, key: str) -> str:
        """The part that a key names; a packed weight and that of each head are one part."""
        name = key.removesuffix("[i]")
        return next((part for part in (key, name, f"{name}[i]") if part in self.parts), key)

    def count(self, role: Role) -> int:
        """How many of a role there are."""
        return self.sizes["h"] if role.per_head else 1

    def numbers(self, role: Role) -> int:
        """How many numbers one of a role is for one word; what a weight makes of one word."""
        return notation.size_of(role.shape[-1], self.sizes)

    def takes(self, weight: Role) -> int:
        """How many numbers a weight is multiplied by."""
        return notation.size_of(weight.shape[0], self.sizes)

    @property
    def widest(self) -> int:
        """How many numbers stand side by side at most."""
        roles = [role for projection in self.projections for role in projection]
        return max(
            self.numbers(role) * self.count(role)
            for role in (*roles, self.attention[1], *self.output)
        )

    def shape(self, role: Role) -> str:
        """What `formulas.inline` writes as a role's shape, in numbers."""
        sizes = ", ".join(f"{name}={number}" for name, number in self.sizes.items())
        return f"shape({role.key}, {sizes})"


PAPERS = Layer()
"""The layer of the paper, at the sizes of its base model."""


def _factors(formula: Formula) -> list[tuple[Expression, Expression]]:
    match formula.sides[-1]:
        case Product(left, right):
            return [(left, right)]
    return []
