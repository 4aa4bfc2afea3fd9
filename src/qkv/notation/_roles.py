"""The things attention has. A role has one name, one meaning and as many letters as authors."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

GROUPS = ("source", "weight", "query", "key", "value", "score", "output", "size")
"""What a role has its colour from."""


@dataclass(frozen=True)
class Role:
    """One thing that attention has, whatever letter stands for it.

    Attributes:
        key: Its name in a formula: `X_Q`, `W_Q[i]`, `d_k`. `[i]` marks what each head has.
        meaning: What it is, in a phrase.
        shape: Its sizes where tokens are rows, `("n_q", "d_k")`; none for a size. A size may be
            an expression: `"h * d_k"`.
        group: What it has its colour from; one of `GROUPS`.
        definition: The expression it stands for, or None where it is given.
        named: Whether it keeps this site's letter where a source has none, and is not spelled out.

    Examples:
        >>> role("Q[i]").definition
        'X_Q @ W_Q[i]'
    """

    key: str
    meaning: str
    shape: tuple[str, ...]
    group: str
    definition: str | None = None
    named: bool = False

    def __post_init__(self):
        if self.group not in GROUPS:
            raise ValueError(
                f"{self.key}: group must be one of {', '.join(GROUPS)}, but is {self.group!r}."
            )

    @property
    def per_head(self) -> bool:
        """Whether each head has its own."""
        return self.key.endswith("[i]")

    @property
    def per_kv_head(self) -> bool:
        """Whether heads of queries may share it."""
        return self.per_head and self.key[:-3] in {
            f"{prefix}{letter}" for prefix in ("", "W_", "M_", "b_") for letter in "KV"
        }


def roles() -> tuple[Role, ...]:
    """All roles.

    Returns:
        Sources first, sizes last.

    Examples:
        >>> [role.key for role in roles()][:4]
        ['X', 'X_Q', 'X_K', 'X_V']
    """
    return tuple(_ROLES.values())


def role(key: str) -> Role:
    """The role with this key.

    Raises:
        ValueError: If there is none.
    """
    if key in _ROLES:
        return _ROLES[key]
    if f"{key}[i]" in _ROLES:
        hint = f"Each head has its own: write {key}[i]."
        if f"X_{key}" in _ROLES:
            hint += f" The source, before the map, is X_{key}."
    elif key.endswith("[i]") and key[:-3] in _ROLES:
        hint = f"It is the same for all heads: write {key[:-3]}."
    else:
        hint = f"The roles are {', '.join(_ROLES)}."
    raise ValueError(f"{key} is not a role. {hint}")


def _read() -> Iterator[Role]:
    """The roles of `roles.toml`."""
    table = tomllib.loads((files("qkv.notation") / "roles.toml").read_text("utf-8"))
    for key, (group, sizes, meaning, *more) in table.items():
        shape = tuple(sizes.split(", ")) if sizes else ()
        definition = more[0] if more else None
        yield Role(key, meaning, shape, group, definition, named="named" in more)


_ROLES = {role.key: role for role in _read()}
