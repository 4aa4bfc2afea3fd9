"""The things attention has. A role has one name, one meaning and as many letters as authors."""

from dataclasses import dataclass

GROUPS = ("source", "weight", "query", "key", "value", "score", "output", "size")
"""What a role has its colour from, in the order of legends."""


@dataclass(frozen=True)
class Role:
    """One thing that attention has, whatever letter stands for it.

    Attributes:
        key: Its name in a formula: `X_Q`, `W_Q[i]`, `d_k`. `[i]` marks what each head has.
        meaning: What it is, in a phrase.
        shape: Its sizes where tokens are rows, `("n_q", "d_k")`; none for a size. A size may be
            an expression: `"h * d_k"`.
        group: What it has its colour from; one of `GROUPS`.
        definition: The expression it stands for in the paper, or None where it is given.
        named: Whether it keeps this site's letter where a source has none, and is not spelled out:
            a formula is there to show that letter.

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
        """Whether heads of queries may share it: it belongs to keys or values."""
        return self.per_head and self.key[:-3] in {
            f"{prefix}{letter}" for prefix in ("", "W_", "M_", "b_") for letter in "KV"
        }


def roles() -> tuple[Role, ...]:
    """All roles, in the order in which attention uses them.

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
        ValueError: If there is none; the message names what may have been meant.
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


def _sources() -> list[Role]:
    return [
        Role(
            "X", "source of queries, keys and values in self-attention", ("n", "d_model"), "source"
        ),
        Role("X_Q", "source of the queries", ("n_q", "d_model"), "source"),
        Role("X_K", "source of the keys", ("n_k", "d_model"), "source"),
        Role("X_V", "source of the values", ("n_k", "d_model"), "source"),
    ]


def _maps_before_the_heads() -> list[Role]:
    square = ("d_model", "d_model")
    return [
        Role("P_Q", "extra map before the heads, for queries (not in the paper)", square, "weight"),
        Role("P_K", "extra map before the heads, for keys (not in the paper)", square, "weight"),
        Role("P_V", "extra map before the heads, for values (not in the paper)", square, "weight"),
    ]


def _weights() -> list[Role]:
    packed = "{} weight for {}: all heads together"
    return [
        Role("W_Q[i]", "one head's weight for queries", ("d_model", "d_k"), "weight"),
        Role("W_K[i]", "one head's weight for keys", ("d_model", "d_k"), "weight"),
        Role("W_V[i]", "one head's weight for values", ("d_model", "d_v"), "weight"),
        Role(
            "M[i]",
            "the map before the heads and one head's weight for queries, multiplied once",
            ("d_model", "d_k"),
            "weight",
            "P_Q @ W_Q[i]",
            named=True,
        ),
        Role(
            "M_K[i]",
            "the map before the heads and one head's weight for keys, multiplied once",
            ("d_model", "d_k"),
            "weight",
            "P_K @ W_K[i]",
            named=True,
        ),
        Role(
            "M_V[i]",
            "the map before the heads and one head's weight for values, multiplied once",
            ("d_model", "d_v"),
            "weight",
            "P_V @ W_V[i]",
            named=True,
        ),
        Role("b_Q[i]", "one head's bias for queries", ("d_k",), "weight"),
        Role("b_K[i]", "one head's bias for keys", ("d_k",), "weight"),
        Role("b_V[i]", "one head's bias for values", ("d_v",), "weight"),
        Role(
            "W_Q",
            packed.format("packed", "queries"),
            ("d_model", "h * d_k"),
            "weight",
            "concat(W_Q[i] for i in heads)",
        ),
        Role(
            "W_K",
            packed.format("packed", "keys"),
            ("d_model", "h_kv * d_k"),
            "weight",
            "concat(W_K[i] for i in kv_heads)",
        ),
        Role(
            "W_V",
            packed.format("packed", "values"),
            ("d_model", "h_kv * d_v"),
            "weight",
            "concat(W_V[i] for i in kv_heads)",
        ),
    ]


def _latent() -> list[Role]:
    return [
        Role("W_DQ", "weight into the latent of the queries", ("d_model", "d_cq"), "weight"),
        Role("W_DKV", "weight into the latent of keys and values", ("d_model", "d_c"), "weight"),
        Role("C_Q", "latent of the queries", ("n_q", "d_cq"), "query", "X_Q @ W_DQ"),
        Role("C_KV", "latent of keys and values", ("n_k", "d_c"), "key", "X_K @ W_DKV"),
        Role(
            "W_UQ[i]", "one head's weight out of the latent, for queries", ("d_cq", "d_k"), "weight"
        ),
        Role("W_UK[i]", "one head's weight out of the latent, for keys", ("d_c", "d_k"), "weight"),
        Role(
            "W_UV[i]", "one head's weight out of the latent, for values", ("d_c", "d_v"), "weight"
        ),
        Role("W_QR[i]", "one head's weight for rotated queries", ("d_cq", "d_r"), "weight"),
        Role("W_KR", "weight for rotated keys, shared by all heads", ("d_model", "d_r"), "weight"),
        Role(
            "Q_R[i]",
            "rotated part of one head's queries",
            ("n_q", "d_r"),
            "query",
            "rotate(C_Q @ W_QR[i])",
        ),
        Role(
            "K_R",
            "rotated part of the keys, shared by all heads",
            ("n_k", "d_r"),
            "key",
            "rotate(X_K @ W_KR)",
        ),
    ]


def _attention() -> list[Role]:
    scores = ("n_q", "n_k")
    return [
        Role("Q[i]", "projected queries of one head", ("n_q", "d_k"), "query", "X_Q @ W_Q[i]"),
        Role("K[i]", "projected keys of one head", ("n_k", "d_k"), "key", "X_K @ W_K[i]"),
        Role("V[i]", "projected values of one head", ("n_k", "d_v"), "value", "X_V @ W_V[i]"),
        Role(
            "S[i]", "scores of one head: each query with each key", scores, "score", "Q[i] @ K[i].T"
        ),
        Role(
            "A[i]",
            "weights of one head: they sum to one over the keys",
            scores,
            "score",
            "softmax(S[i] / sqrt(d_k))",
        ),
        Role(
            "head[i]",
            "what one head returns",
            ("n_q", "d_v"),
            "output",
            "attention(Q[i], K[i], V[i])",
        ),
        Role("W_O[i]", "output weight of one head", ("d_v", "d_model"), "weight"),
        Role(
            "W_O",
            "packed output weight: all heads together",
            ("h * d_v", "d_model"),
            "weight",
            "stack(W_O[i] for i in heads)",
        ),
        Role("b_O", "bias of the output", ("d_model",), "weight"),
        Role(
            "Y",
            "output of multi-head attention",
            ("n_q", "d_model"),
            "output",
            "multihead(X_Q, X_K, X_V)",
        ),
        Role(
            "W_QK[i]",
            "one head's query and key weights as one matrix",
            ("d_model", "d_model"),
            "weight",
            "W_Q[i] @ W_K[i].T",
        ),
        Role(
            "W_VO[i]",
            "one head's value and output weights as one matrix",
            ("d_model", "d_model"),
            "weight",
            "W_V[i] @ W_O[i]",
        ),
    ]


def _sizes() -> list[Role]:
    meanings = {
        "n": "number of tokens",
        "n_q": "number of queries",
        "n_k": "number of keys and values",
        "d_model": "width of the sources and of the output",
        "h": "number of heads",
        "h_kv": "number of heads of keys and values",
        "d_k": "width of one head's queries and keys",
        "d_v": "width of one head's values",
        "d_c": "width of the latent of keys and values",
        "d_cq": "width of the latent of the queries",
        "d_r": "width of the rotated part of a query",
        "d_out": "width of the output",
        "d_source": "width of the source of keys and values",
        "d_source_k": "width of the source of the keys",
        "d_source_v": "width of the source of the values",
    }
    return [Role(key, meaning, (), "size") for key, meaning in meanings.items()]


_ROLES = {
    role.key: role
    for role in (
        *_sources(),
        *_maps_before_the_heads(),
        *_weights(),
        *_latent(),
        *_attention(),
        *_sizes(),
    )
}
