"""Which roles a letter may have: in each text, and with everybody else."""

import itertools
import math
import re
from collections.abc import Iterator
from functools import cache

from qkv.notation import Source, roles, sources
from qkv.notation.tree import Product, Symbol, Transpose
from qkv.notation.tree import parse as parse_formula
from qkv.reading._data import DATA
from qkv.reading._tree import Parser, normal

BASE = {"d_model": 512, "h": 8, "h_kv": 8, "d_k": 64, "d_v": 64, "3": 3}  # the paper's base model
_WORDS = {"Q": ("q", "query", "queries"), "K": ("k", "key", "keys"), "V": ("v", "value", "values")}
_INDEX = {*DATA["token"]["index"]}
_MANY = 64  # assignments of one kind that are tried


@cache
def tables() -> dict:
    """What fitting goes by beside `DATA`: roles, products, patterns and the letters of texts."""
    known = {
        role.key: {"meaning": role.meaning, "shape": [*role.shape], "group": role.group}
        for role in roles()
    }
    steps: dict[str, str] = {}
    for role in roles():
        side = parse_formula(role.definition).sides[0] if role.definition else None
        if isinstance(side, Product) and all(
            isinstance(e, Symbol | Transpose) for e in side.parts()
        ):
            _add(steps, role.key, str(side.left), str(side.right))
    for made, products in DATA["steps"].items():
        for letter, each in itertools.product("QKV" if "{}" in made else "Q", products):
            _add(steps, made.replace("{}", letter), *each.replace("{}", letter).split())
    usual = [
        (kind, letter, pattern.format(q=q, query=word, queries=many))
        for kind, pattern in DATA["usual"].items()
        for letter, (q, word, many) in _WORDS.items()
    ]
    texts = {source.id: _letters(source) for source in sources()}
    known |= DATA["role"]
    for key, role in known.items():
        shape = [size.replace("h_kv", "h") for size in role["shape"]]
        known[key] = {**role, "shape": shape, "says": _in_words(role)}
    return {"role": known, "steps": steps, "usual": usual, "texts": texts}


def _in_words(role: dict) -> str:
    """What a role is, with its numbers in the paper's base model."""
    names = [size.split(" * ") for size in role["shape"]]
    sizes = [math.prod(BASE.get(name, 0) for name in each) or each[0] for each in names]
    says = DATA["says"]
    if role["group"] == "score" or not sizes:
        return says["score"].format(role["meaning"]) if sizes else role["meaning"]
    if role["group"] == "weight":
        return says["weight" if sizes[1:] else "vector"].format(role["meaning"], *sizes)
    return says["word"].format(role["meaning"], sizes[-1])


def _add(steps: dict[str, str], made: str, a: str, b: str) -> None:
    """A product, and that of the transposes the other way round."""
    steps[f"{a} {b}"] = made
    steps[f"{turned(b)} {turned(a)}"] = turned(made)


def turned(role: str) -> str:
    """The transpose of a role, or of its transpose."""
    return role[:-2] if role.endswith(".T") else role and f"{role}.T"


def bare(role: str) -> str:
    """A role, transposed or not."""
    return role.removesuffix(".T")


def _letters(source: Source) -> dict:
    """A text's letters, as the grammar of what is typed reads them."""
    index = f"{{{source.index}}}"
    letters = [(key, letter.latex) for key, letter in source.letters.items()]
    found = []
    for key, latex in [*DATA["packed"].get(source.id, ()), *letters]:
        again = key[:2] == "X_" and ("X", latex) in letters
        if again or latex.startswith((r"\tilde", "{")):
            continue
        indexed = bool(source.index) and index in latex
        node = Parser(normal(latex.replace(index, "{}", 1) if indexed else latex), False).product()
        if node and node[0] == "leaf":
            found.append([key, node[1], indexed])
    return {
        "where": source.short
        if source.where in (*source.short.split(", "), "everywhere")
        else f"{source.short}, {source.where}",
        "columns": source.tokens == "columns",
        "one": source.one_token,
        "upright": [*source.upright],
        "index": source.index,
        "letters": found,
    }


def _near(typed: str, theirs: str, indexed: bool, one: bool, token: bool) -> int | None:
    """How far a letter is from a text's own: 0 is the same; None is another letter."""
    (base, marks), (their_base, their_marks) = typed.split("|"), theirs.split("|")
    if base != their_base and not (one and len(base) == 1 and base.lower() == their_base.lower()):
        return None
    off, rest = int(base != their_base), [*marks]
    for mark in their_marks:
        same = mark if mark in rest else mark.swapcase()
        if same not in rest:
            return None
        rest.remove(same)
        off += same != mark
    if len(rest) > 1 + token or not {*rest} <= {*_INDEX}:
        return None
    if indexed or not rest:
        return off + (indexed and not rest)
    return (off + 2 * (not one)) if token else None


def in_text(leaves: list[str], text: dict) -> Iterator[tuple[dict[str, str], int]]:
    """The roles that the letters may have in a text, and how far they are from its own."""
    options = []
    for leaf in leaves:
        fits = {}
        for key, theirs, indexed in text["letters"]:
            group = tables()["role"][key]["group"]
            off = _near(leaf, theirs, indexed, text["one"], group not in ("weight", "size"))
            if group != "size" and off is not None:
                fits[turned(key) if text["columns"] and key not in text["upright"] else key] = off
        options.append([*fits.items()] or [("", 0)])
    for chosen in itertools.islice(itertools.product(*options), _MANY):
        yield (
            dict(zip(leaves, (role for role, _ in chosen), strict=True)),
            sum(off for _, off in chosen),
        )


def source_of(leaf: str) -> str:
    """A letter without a word's number: x_1 and x_2 are of one source, X_1 is another source."""
    base, marks = leaf.split("|")
    return leaf if base.isupper() else f"{base}|{''.join(it for it in marks if it not in _INDEX)}"


def usual(leaf: str) -> tuple[str, str] | list[str]:
    """What everybody else means by a letter: a kind and Q, K or V, or the roles it may have."""
    base, marks = leaf.lower().split("|")
    plain = "".join(mark for mark in marks if mark not in _INDEX)
    both = dict.fromkeys((f"{base}|{marks}", f"{base}|{plain}"))
    for kind, letter, pattern in tables()["usual"]:
        if any(re.fullmatch(pattern, each) for each in both):
            return kind, letter
    other = DATA["other"].items()
    return [
        role
        for pattern, may in other
        if any(re.fullmatch(pattern, each) for each in both)
        for role in may
    ]


def everybody(leaves: list[str]) -> Iterator[tuple[dict[str, str], int]]:
    """What others may mean: queries, keys and values are of one kind, and so are weights."""
    meant = {leaf: usual(leaf) for leaf in leaves}
    indexed = {leaf: bool({*leaf.split("|")[1]} & {*_INDEX}) for leaf in leaves}
    layers = any("()" in leaf for leaf in leaves)
    _forms = DATA["forms"]

    def forms(kind: str) -> list[str]:
        return _forms[kind] if any(each[:1] == (kind,) for each in meant.values()) else [""]

    weights = forms("weight")[:: -1 if layers else 1]
    others = [
        [(leaf, role) for role in may]
        for leaf, may in meant.items()
        if may and isinstance(may, list)
    ]
    for (n, weight), (m, act) in itertools.product(
        enumerate(weights), enumerate(forms("activation"))
    ):
        bias = _forms["bias"][_forms["weight"].index(weight) if weight else 0]
        for chosen in itertools.islice(itertools.product(*others), _MANY):
            role_of = dict(chosen)
            for leaf, each in meant.items():
                if isinstance(each, list):
                    continue
                twin = any(
                    meant[it] == each and indexed[it] != indexed[leaf] and it[0] == leaf[0]
                    for it in leaves
                )
                form = {"activation": act, "weight": weight, "bias": bias}[each[0]]
                if each[0] == "weight" and (indexed[leaf] or twin):
                    form = "W_{}[i]" if indexed[leaf] else "P_{}"
                elif each[0] == "activation" and twin:
                    form = "{}[i]" if indexed[leaf] else "X_{}"
                role_of[leaf] = form.format(each[1])
            yield role_of, 3 * n + m


def number(leaf: str) -> str:
    """The size that a letter is, or the name of a scale."""
    found = (size for size, pattern in DATA["sizes"].items() if re.fullmatch(pattern, leaf.lower()))
    scale = re.fullmatch(DATA["token"]["scale"], leaf)
    return next(found, leaf.split("|")[0] if scale else "")
