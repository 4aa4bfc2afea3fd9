"""Lines that stand together are about one layer: what its roles are follows from all of them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property

from qkv.notation._roles import Role
from qkv.notation.tree import Apply, Expression, Formula, OverHeads, Symbol

# That of a layer which is not the paper's: `multihead` does not compute it.
_OUTPUT = "sum(head[i] @ W_O[i] for i in heads)"


@dataclass(frozen=True)
class Setting:
    """What lines take for granted.

    Attributes:
        definitions: For the key of a role, the expression that makes it, where it is not the
            paper's.
        sizes: For a size, the one that it equals.
        grouped: Whether several heads share keys and values.
    """

    definitions: Mapping[str, str]
    sizes: Mapping[str, str]
    grouped: bool = False

    @classmethod
    def of(cls, formulas: Iterable[Formula]) -> "Setting":
        """The layer that all the lines are about.

        Lines with `X` are about self-attention, where `X` is the source of all three; with `P_Q`
        as well, about a map that stands between the two. With a bias all maps have one; with
        `W_DKV` keys and values come out of a latent; with `rotate` or `norm` that is done to
        queries and keys before they meet; with `g(i)` heads share keys and values.
        """
        formulas = tuple(formulas)
        nodes = [node for formula in formulas for node in formula.walk()]
        keys = {node.role.key for node in nodes if isinstance(node, Symbol)}
        functions = {node.function for node in nodes if isinstance(node, Apply)}
        grouped = "h_kv" in keys or any(map(_shares, nodes))
        definitions = _sources(keys) | _projections(keys) | _heads(keys, functions, grouped)
        sizes = {"n_q": "n", "n_k": "n"} if "X" in keys else {}
        return cls(definitions, sizes if grouped else sizes | {"h_kv": "h"}, grouped)

    def define(self, role: Role) -> Role:
        """The role as it is made and sized here."""
        return _define(self, role)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:  # mappings have none, and caches ask for it often
        return hash((*sorted(self.definitions.items()), *sorted(self.sizes.items()), self.grouped))

    def is_mapped(self, role: Role) -> bool:
        """Whether a map stands between `X` and this source."""
        return role.key.startswith("X_") and "@ P_" in self.definitions.get(role.key, "")


@cache  # a page names few roles, and each of them many times
def _define(setting: Setting, role: Role) -> Role:
    definition = setting.definitions.get(role.key, role.definition)
    if definition and not setting.grouped:
        definition = definition.replace("kv_heads", "heads")
    shape = tuple(
        re.sub(r"\w+", lambda size: setting.sizes.get(size[0], size[0]), axis)
        for axis in role.shape
    )
    return replace(role, shape=shape, definition=definition)


def _shares(node: Expression) -> bool:
    """Whether it says that heads share keys and values."""
    match node:
        case Symbol(index="g(i)") | OverHeads(heads="kv_heads"):
            return True
    return False


def _sources(keys: set[str]) -> dict[str, str]:
    if "X" not in keys:
        return {}
    mapped = keys & {"P_Q", "P_K", "P_V", "M[i]", "M_K[i]", "M_V[i]"}
    return {f"X_{letter}": f"X @ P_{letter}" if mapped else "X" for letter in "QKV"}


def _projections(keys: set[str]) -> dict[str, str]:
    made = {}
    if keys & {"C_Q", "W_DQ", "W_UQ[i]", "Q_R[i]"}:
        made["Q[i]"] = "C_Q @ W_UQ[i]"
    if keys & {"C_KV", "W_DKV", "W_UK[i]", "W_UV[i]"}:
        made |= {"K[i]": "C_KV @ W_UK[i]", "V[i]": "C_KV @ W_UV[i]"}
    if made:
        made["Y"] = _OUTPUT
    if keys & {"b_Q[i]", "b_K[i]", "b_V[i]", "b_O"}:
        for letter in "QKV":
            plain = made.get(f"{letter}[i]", f"X_{letter} @ W_{letter}[i]")
            made[f"{letter}[i]"] = f"{plain} + b_{letter}[i]"
    return made


def _heads(keys: set[str], functions: set[str], grouped: bool) -> dict[str, str]:
    shared = "g(i)" if grouped else "i"
    query, key, value = "Q[i]", f"K[{shared}]", f"V[{shared}]"
    changed = [function for function in ("norm", "rotate") if function in functions]
    if keys & {"Q_R[i]", "K_R"}:  # a part of the query is rotated, beside the rest of it
        changed = [function for function in changed if function != "rotate"]
    for function in changed:
        query, key = f"{function}({query})", f"{function}({key})"
    if keys & {"Q_R[i]", "K_R"}:
        return {
            "S[i]": f"{query} @ {key}.T + Q_R[i] @ K_R.T",
            "A[i]": "softmax(S[i] / sqrt(d_k + d_r))",
            "head[i]": f"A[i] @ {value}",
            "Y": _OUTPUT,
        }
    if changed:
        return {
            "S[i]": f"{query} @ {key}.T",
            "head[i]": f"attention({query}, {key}, {value})",
            "Y": _OUTPUT,
        }
    if grouped:
        return {"S[i]": f"{query} @ {key}.T", "head[i]": f"attention({query}, {key}, {value})"}
    return {}
