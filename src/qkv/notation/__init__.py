"""Formulas of attention as lines of NumPy: checked, and read in the letters of any source.

This room is for whoever writes a formula, or reads one in a text's letters.

A *role* is a thing that attention has, such as the projected queries of one head. A *source* is a
text, and says which letter it uses for which role. A *formula* is one line of a small part of
Python, in roles' names. Python does not run it: `check` computes it with NumPy, and
other functions write it.

A formula has

- roles, of all heads, of head i, or of one: `X_Q`, `W_Q[i]`, `W_Q[1]`. Heads count from 1
  here, as in the paper, so `W_Q[1]` is `mh.W_Q[0]` of a `MultiHead`. Where heads share keys and
  values, `K[g(i)]` are the keys that head i uses;
- products, transposes, sums and division by a root: `Q[i] @ K[i].T / sqrt(d_k)`,
  `X_Q @ W_Q[i] + b_Q[i]`;
- `softmax(S[i])`, `attention(Q[i], K[i], V[i])`, `multihead(X_Q, X_K, X_V)`, and what some models
  do to queries and keys: `rotate(Q[i])` (RoPE) and `norm(Q[i])` (an RMS norm);
- what all heads have, added, side by side, or one below the other:
  `sum(head[i] @ W_O[i] for i in heads)`, `concat(head[i] for i in heads)`,
  `stack(W_O[i] for i in heads)`; `for i in kv_heads` where heads are shared;
- an equality of a role and an expression, `Q[i] = X_Q @ W_Q[i]`, or of expressions,
  `Q[i].T == W_Q[i].T @ X_Q.T`;
- sizes, with numbers, `+`, `-`, `*`, `/`, powers and roots: `2 * d_model * d_k - d_k**2`.
"""

from qkv.notation._block import Block, legend, shape, side, typeset
from qkv.notation._check import Fault, check, size_of
from qkv.notation._roles import GROUPS, Role, role, roles
from qkv.notation._sources import (
    Letter,
    Source,
    Unnamed,
    grouped_sources,
    parse_source,
    source,
    sources,
)
from qkv.notation.latex import Entry

__all__ = [
    "GROUPS",
    "Block",
    "Entry",
    "Fault",
    "Letter",
    "Role",
    "Source",
    "Unnamed",
    "check",
    "grouped_sources",
    "legend",
    "parse_source",
    "role",
    "roles",
    "shape",
    "side",
    "size_of",
    "source",
    "sources",
    "typeset",
]
