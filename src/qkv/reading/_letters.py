"""Which roles a letter may have, and whose letters these are."""

from functools import cache

from qkv.reading._data import DATA, MESSAGES
from qkv.reading._patterns import cut, fullmatch, search, sub
from qkv.reading._tables import tables
from qkv.reading._tree import WORDS, bare, raised

INDEX = DATA["token"]["index"]
MEANING, SHAPE_IN, BEHIND = 0, 1, 2  # of a role in words
USUAL = [
    (kind, letter, pattern.format(q=q, query=query, queries=queries))
    for kind, pattern in DATA["usual"].items()
    for letter, words in MESSAGES["fit"]["letters"].items()
    for q, query, queries in [words.split()]
]


def shape_of(role: str) -> list:
    """The names of the sizes that a role has."""
    shape = tables()["role"].get(bare(role), [0, []])[SHAPE_IN]
    return shape[::-1] if role.endswith(".T") else shape


def letter_of(role: str) -> str:
    """Whether a role is of queries, keys or values."""
    found = search(r"(?:^|_)([QKV])(?:\[i\])?$", bare(role))
    return found[1] if found else ""


@cache
def number(leaf: str) -> str:
    """The size that a letter is, or the name of a scale."""
    its, every = leaf.removesuffix("√"), DATA["sizes"].items()
    sizes = (size for each in (leaf, its) for size, it in every if fullmatch(it, each.lower()))
    return next(sizes, its.split("|")[0] if fullmatch(DATA["token"]["scale"], its) else "")


def plain(leaf: str) -> str:
    """A letter without the number of a word or of a head."""
    base, marks = leaf.split("|")
    return f"{base}|{''.join(mark for mark in marks if mark not in INDEX)}"


def is_indexed(leaf: str) -> bool:
    """Whether a letter has the number of a word or of a head."""
    return plain(leaf) != leaf


def is_packed(leaf: str) -> bool:
    """Whether its name says that it is of all heads together, as in BERT's code."""
    return bool(fullmatch(DATA["token"]["packed"], leaf))


@cache
def usual(leaf: str) -> tuple[str, str, list]:
    """What people mean by a letter: a kind and Q, K or V, or else the roles it may have."""
    forms = (leaf.lower(), plain(leaf.lower()), plain(leaf))
    for kind, letter, pattern in USUAL:
        if any(fullmatch(pattern, each) for each in forms):
            return kind, letter, []
    other = DATA["other"].items()
    fits = [may for pattern, may in other if any(fullmatch(pattern, it) for it in forms)]
    fits.append(tables()["own"].get(forms[1], []))
    return "", "", [role for may in fits for role in may]


def roles_of(name: str) -> list:
    """The roles that a name may have, by its last part; of heads together."""
    kind, letter, roles = usual(sub(r"_?i?\^", "_", f"{cut('[.]', name)[-1]}|"))  # W_i^Q
    forms = [it.format(letter) for it in DATA["forms"].get(kind, [])[:3]]
    return [it.replace("[i]", "") for it in [*forms, *roles]]


def choices(letters: list, sources: list, shaped: bool, shown: dict) -> list:
    """The roles that letters may have together, and how unusual they are.

    Queries, keys and values are of one kind, and so are their weights. What a layer takes is a
    source, whatever it is called.
    """
    meant = {leaf: usual(leaf) for leaf in letters}
    for leaf in sources:
        kind, letter, may = meant.get(leaf, ("", "", ["X"]))
        if kind == "activation" or not (kind or any(it[0] == "X" for it in may)):
            meant[leaf] = ("", "", [f"X_{letter}" if letter else "X"])
    kinds = [kind for kind, _, _ in meant.values()]
    packed = any(map(is_packed, letters))
    layers = packed or any("()" in leaf for leaf in letters)  # in code, of all heads
    weights = DATA["forms"]["weight"] if "weight" in kinds else [""]
    weights = weights[:: -1 if layers else 1][: 1 if packed else 2]
    acts = DATA["forms"]["activation"] if "activation" in kinds else [""]
    large = sum(it == "activation" for it in kinds) > 1 and any(it[0] in "QKV" for it in letters)
    beside = large and any("X" in may for _, _, may in meant.values())
    if "weight" in kinds or not (beside or shaped):
        acts = acts[:3]  # X Q, with Q as a weight, is known by its source or its shape
    others = {}  # Z_0 and Z_7 are the same
    for leaf in [leaf for leaf, (_, _, may) in meant.items() if may]:
        said = " ".join([plain(leaf), str(is_indexed(leaf)), *meant[leaf][2]])
        others.setdefault(said, []).append(leaf)
    one_of_each, found = [[]], []
    for its in others.values():
        roles = [[(leaf, role) for leaf in its] for role in meant[its[0]][2]]
        one_of_each = [[*some, *it] for some in one_of_each for it in roles][: DATA["choices"]]
    for n, weight in enumerate(weights):
        for m, act in enumerate(acts):
            for chosen in one_of_each:
                role_of = dict(chosen)
                for leaf, (its, letter, _) in meant.items():
                    if its:
                        role_of[leaf] = _form(leaf, meant, act, weight, shown).format(letter)
                found.append((role_of, 3 * n + m))
    return found


def _form(leaf: str, meant: dict, act: str, weight: str, shown: dict) -> str:
    """The role of queries, keys or values or of their weight, as far as it is free."""
    kind, indexed = meant[leaf][0], is_indexed(leaf)
    alike = [it for it in meant if meant[it] == meant[leaf] and is_indexed(it) != indexed]
    others = [it for it in alike if "<" not in shown.get(it, "") + shown.get(leaf, "")]  # a word's
    # Q_i is made of q, but q_i may be a row of Q
    twin = any(it[0] == leaf[0] or (leaf if indexed else it)[0] in "QKV" for it in others)
    if kind == "activation":
        act = act if act[:1] != "W" or leaf[0] in "QKV" else "{}[i]"
        act = "{}" if is_packed(leaf) else act
        return ("{}[i]" if indexed else "X_{}") if twin else act
    if kind == "bias":
        return "b_{}[i]" if "[i]" in weight or not weight else "b_{}"
    return "W_{}[i]" if indexed else "P_{}" if twin else weight


def texts_of(role_of: dict, widths: list, columns: bool, shown: dict) -> list:
    """The texts that write all these roles with these letters."""
    typed = [(plain(it), is_indexed(it), bare(role), shown[it]) for it, role in role_of.items()]
    typed += [(it, False, "d_k", shown.get(it, "d_k")) for it in widths]
    sided = [name for name, it in tables()["texts"].items() if it["columns"] == columns]
    return [name for name in sided if all(_writes(name, it) for it in typed)]


def _writes(name: str, typed: tuple) -> bool:
    """Whether a text has this letter for a role; a vector may have the number of a word."""
    (leaf, indexed, role, shown), text = typed, tables()["texts"][name]
    for key, theirs, its_index, scripts in [it.split(" ") for it in text["letters"].split(",")]:
        if key == role or (role == "X" and key[:2] == "X_"):
            vector = (text["one"] or search("^[a-z]", leaf)) and role[0] not in "WPbM"
            free = name in WORDS["single"] if its_index else vector
            same = theirs == leaf and (not search("[_^]", shown) or raised(shown) == scripts)
            if same and (indexed == (its_index == "i") or free):
                return True
    return False
