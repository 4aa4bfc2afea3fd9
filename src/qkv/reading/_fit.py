"""Whose letters a tree fits, and which role each letter has there."""

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from qkv.notation import Source, roles, sources
from qkv.notation.tree import Product, Symbol, Transpose
from qkv.notation.tree import parse as parse_formula
from qkv.reading._data import DATA
from qkv.reading._tree import Parser, normal, walk

_WORDS = {"Q": ("q", "query", "queries"), "K": ("k", "key", "keys"), "V": ("v", "value", "values")}
_INDEX = "0123456789ijhnmtspg"
_FORMS = {
    "activation": ("{}[i]", "X_{}", "{}"),
    "weight": ("W_{}[i]", "W_{}"),
    "bias": ("b_{}[i]",),
}
BASE = {"d_model": 512, "h": 8, "h_kv": 8, "d_k": 64, "d_v": 64, "3": 3}  # the paper's base model
_MANY = 64  # assignments of one kind that are tried
Value = tuple[str, list[str]]  # a role, and the names of its sizes


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
    known = {key: {**role, "says": _in_words(role)} for key, role in known.items()}
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
    letters = {key: letter.latex for key, letter in source.letters.items()}
    found = [
        [made, letter + "|", False]
        for made, letter in zip("QKV", DATA["packed"].get(source.id, ""), strict=False)
    ]
    for key, latex in letters.items():
        again = key[:2] == "X_" and letters.get("X") == latex
        if again or source.letters[key].latex.startswith((r"\tilde", "{")):
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


def _in_text(leaves: list[str], text: dict) -> Iterator[tuple[dict[str, str], int]]:
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


def _usual(leaf: str) -> tuple[str, str] | list[str]:
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


def _everybody(leaves: list[str]) -> Iterator[tuple[dict[str, str], int]]:
    """What others may mean: queries, keys and values are of one kind, and so are weights."""
    meant = {leaf: _usual(leaf) for leaf in leaves}
    indexed = {leaf: bool({*leaf.split("|")[1]} & {*_INDEX}) for leaf in leaves}
    layers = any("()" in leaf for leaf in leaves)

    def forms(kind: str) -> tuple[str, ...]:
        return _FORMS[kind] if any(each[:1] == (kind,) for each in meant.values()) else ("",)

    weights = forms("weight")[:: -1 if layers else 1]
    others = [
        [(leaf, role) for role in may]
        for leaf, may in meant.items()
        if may and isinstance(may, list)
    ]
    for (n, weight), (m, act) in itertools.product(
        enumerate(weights), enumerate(forms("activation"))
    ):
        for chosen in itertools.islice(itertools.product(*others), _MANY):
            role_of = dict(chosen)
            for leaf, each in meant.items():
                if isinstance(each, list):
                    continue
                twin = any(meant[it] == each and indexed[it] != indexed[leaf] for it in leaves)
                form = {"activation": act, "weight": weight}.get(each[0], _FORMS[each[0]][0])
                if each[0] == "weight" and (indexed[leaf] or twin):
                    form = "W_{}[i]" if indexed[leaf] else "P_{}"
                elif each[0] == "activation" and twin:
                    form = "{}[i]" if indexed[leaf] else "X_{}"
                role_of[leaf] = form.format(each[1])
            yield role_of, 3 * n + m


@dataclass
class World:
    """One choice of a role for each letter: it computes trees with roles and names of sizes."""

    role_of: dict[str, str]
    shown: dict[str, str]
    columns: bool = False
    names: list[str] = field(default_factory=list)  # of the texts that write so
    key: tuple = ()
    loose: int = 0
    steps: int = 0
    faults: dict[str, str] = field(default_factory=dict)  # a sentence to its name
    notes: dict[str, str] = field(default_factory=dict)
    results: list[Value] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)  # of NumPy, in roles
    near: bool = False  # whether a transpose or another order mends a product
    open: bool = False  # whether words may be rows as well as columns

    def _fault(self, name: str, *said: str) -> None:
        self.faults[DATA["faults"][name].format(*said)] = name

    def _of(self, role: str) -> Value:
        """A role with its shape; there are as many queries as keys."""
        known = tables()["role"].get(bare(role), {"shape": ()})
        shape = [re.sub("n_[qk]", "n", size) for size in known["shape"]]
        return role, shape[::-1] if role.endswith(".T") else shape

    def value(self, node: tuple | None) -> Value:
        """What a node is."""
        kind, *parts = node or ("num",)
        if kind == "leaf":
            return self._of(self.role_of.get(parts[0], ""))
        if kind in ("mul", "dot"):
            return self._product(
                [(self.value(it), self.said(it)) for it in chain(node) if not is_number(it)], kind
            )
        if kind == "div":
            root, size = bool(parts[1]) and parts[1][0] == "sqrt", size_of(parts[1])
            if size and (size == "d_model" or not root):
                name = "scale" if root else "root"
                self.notes[DATA["notes"][name].format(self.said(parts[1]).strip("√"))] = name
            return self.value(parts[0])
        if kind == "fn":
            return self._function(*parts)
        values = [self.value(part) for part in parts if isinstance(part, tuple)]
        first = values[0] if values else ("", [])
        if kind == "t":
            return turned(first[0]), first[1][::-1]
        if kind == "add":
            if len(first[1]) == len(values[1][1]) == 2 and first[1] != values[1][1]:
                self._fault("add", self.said(parts[0]), self.said(parts[1]))
            return first if first[0] else values[1]
        if kind == "shape":
            sizes = [size_of(part) for part in parts[1:]]
            self.loose += sum(bool(a) and a != b for a, b in zip(sizes, first[1], strict=False))
            return first
        if (
            kind == "eq"
            and parts[1][0] == "part"
            and values[1][0] in ("Q", "W_Q")
            and (bare(first[0]) in ("Q", "K", "V", "W_Q", "W_K", "W_V"))
        ):
            values[1] = first  # one of three: which, its name says
        if kind == "wrong":
            self._fault(*parts[1:])
        if kind in ("cut", "join", "part"):
            return self._moved(kind, first)
        return self._equal(values) if kind == "eq" else first if kind == "wrong" else ("", [])

    def _moved(self, kind: str, value: Value) -> Value:
        """A reshape, or a cut into three."""
        role = bare(value[0])
        made = {"part QKV": "Q", "part W_QKV": "W_Q", "join head[i]": "heads"}.get(f"{kind} {role}")
        if kind == "cut" and role in ("Q", "K", "V"):
            made = f"{role}[i]"
        self.steps += bool(made)
        self.loose += kind == "cut" and not made
        return self._of(made + ".T" * value[0].endswith(".T")) if made else value

    def _equal(self, values: list[Value]) -> Value:
        """The sides of an equation."""
        first, known = values[0], tables()["role"]
        for other in values[1:]:
            pair = [bare(first[0]), bare(other[0])]
            letters = [re.search(r"(?:^|_)([QKV])(?:\[i\])?$", role) for role in pair]
            upright = pair[0] == pair[1] and known.get(pair[0], {}).get("group") in (
                "score",
                "output",
            )
            if (
                all(pair)
                and first[0] != other[0]
                and not upright
                and sorted(pair) not in (["X", "X_Q"], ["Y", "heads"])
            ):
                if all(letters) and letters[0][1] != letters[1][1]:
                    self._fault("letters", letters[0][1], letters[1][1])
                else:
                    self._fault(
                        "equal", self._meaning(first[0], pair), self._meaning(other[0], pair)
                    )
            elif first[1] and other[1] and first[1] != other[1] and not upright:
                self._fault("equal", " × ".join(first[1]), " × ".join(other[1]))
            self.loose += not all(pair)
            first = first if first[0] else other
        return first

    def _meaning(self, role: str, pair: list[str]) -> str:
        said = tables()["role"].get(bare(role), {"meaning": role})["meaning"]
        return f"{said}, transposed" if pair[0] == pair[1] and role.endswith(".T") else said

    def _product(self, row: list[tuple[Value, str]], kind: str) -> Value:
        """Factors in a row: a step that attention has is taken first, wherever it stands."""
        while len(row) > 1:
            made = [self._step(row[n][0][0], row[n + 1][0][0], kind) for n in range(len(row) - 1)]
            n = next((n for n, role in enumerate(made) if role), 0)
            (a, left), (b, right) = row[n : n + 2]
            self.steps += bool(made[n])
            if {a[0], b[0]} == {"X", "X.T"}:
                self.notes[DATA["notes"]["toy"]] = "toy"
            value = self._of(made[n]) if made[n] else self._unknown(a, b, left, right)
            row[n : n + 2] = [(value, f"{left} {right}")]
        return row[0][0] if row else ("", [])

    def _step(self, a: str, b: str, kind: str) -> str:
        """What a product of two roles is; of the numbers of two vectors, in any order."""
        steps = tables()["steps"]
        if kind == "mul" or not (a and b):
            return steps.get(f"{a} {b}", "")
        made = (steps.get(f"{x} {y}", ".T") for x, y in vectors(a, b))
        return next((role for role in made if not role.endswith(".T")), "")

    def _unknown(self, a: Value, b: Value, left: str, right: str) -> Value:
        """A product that is no step: do its sizes meet?"""
        self.loose += 1
        if len(a[1]) != 2 or len(b[1]) != 2:
            return "", []
        if a[1][1] != b[1][0]:
            steps = tables()["steps"]
            fits = [
                f"{left}{'ᵀ' * (x != a[0])} {right}{'ᵀ' * (y != b[0])}"
                for x, y in vectors(a[0], b[0])[:4]
                if f"{x} {y}" in steps
            ]
            faults = DATA["faults"]
            hint = (
                faults["side"]
                if f"{b[0]} {a[0]}" in steps
                else faults["turn"].format(fits[0])
                if fits
                else ""
            )
            said = faults["meet"].format(left, right, a[1][1], b[1][0])
            self.near = self.near or bool(hint)
            self.faults[f"{said} {hint}".strip()] = "meet"
        return "", [a[1][0], b[1][1]]

    def _function(self, name: str, *nodes: tuple) -> Value:
        """What a function makes."""
        values = [self.value(node) for node in nodes]
        role, shape = values[0] if values else ("", [])
        flip = ".T" * role.endswith(".T")
        if name == "softmax":
            self.steps += 1
            if shape and {*shape} != {"n"}:
                self.loose += 1
                self._fault("scores", self.said(nodes[0]))
            return self._of("A[i]" + flip)
        if name in ("attention", "multihead"):
            self.steps += 1
            for letter, (got, _) in zip("QKV", values, strict=False):
                fits = (f"{letter}[i]",) if name == "attention" else ("X", "X_Q", "X_K", "X_V")
                self.loose += bool(got) and bare(got) not in fits
            return self._of(("head[i]" if name == "attention" else "Y") + flip)
        if name == "concat" and bare(role) == "head[i]":
            return self._of("heads" + flip)
        return role, shape

    def said(self, node: tuple | None) -> str:
        """A tree as a line, in the letters that were typed."""
        kind, *parts = node or ("num", "…")
        said = [self.said(part) for part in parts if isinstance(part, tuple)]
        if kind == "leaf":
            return self.shown.get(parts[0], parts[0].split("|")[0])
        if kind == "t":
            return f"{said[0]}ᵀ" if parts[0][0] == "leaf" else f"({said[0]})ᵀ"
        if kind == "fn":
            return f"{parts[0]}({', '.join(said)})"
        sign = {"mul": " ", "dot": " · ", "add": " + ", "div": " / ", "eq": " = "}.get(kind)
        return (
            sign.join(said)
            if sign
            else "√" * (kind == "sqrt") + "".join(said[:1] or map(str, parts[:1]))
        )

    def line(self, node: tuple | None, flip: bool) -> str:
        """A tree as a line of NumPy in roles, with words as rows."""
        kind, *parts = node or ("num", "1")
        said = [self.line(part, flip != (kind == "t")) for part in parts if isinstance(part, tuple)]
        first = said[0] if said else str(parts[0] if parts else "")
        if kind == "leaf":
            role = self.role_of.get(parts[0], "")
            heads = [n for n in re.findall("[1-9]", parts[0].split("|")[1]) if n in self._heads()]
            role = role.replace("[i]", f"[{heads[0]}]") if len(heads) == 1 else role
            return (turned(role) if flip else role) or parts[0].split("|")[0]
        if kind in ("mul", "dot"):
            numbers = [is_number(part) for part in parts]
            if any(numbers):
                return said[numbers[0]]
            roles_of = [self.value(part)[0] for part in parts]
            for x, y in vectors(*roles_of) if kind == "dot" and all(roles_of) else ():
                if f"{x} {y}" in tables()["steps"]:
                    return f"{x} @ {y}"
            kinds = [part[0] for part in parts]
            (left, right), (a, b) = (each[::-1] if flip else each for each in (said, kinds))
            left = f"({left})" if a == "add" else left
            return (
                f"{left} @ ({right})" if b in ("add", "mul", "dot", "div") else f"{left} @ {right}"
            )
        if kind == "div":
            name = size_of(parts[1]) or "d_k"
            return f"{first} / {f'sqrt({name})' if parts[1] and parts[1][0] == 'sqrt' else name}"
        if kind == "fn":
            inside = re.sub(r"\[\d\]", "[i]", first)
            return (
                f"concat({inside} for i in heads)"
                if parts[0] == "concat"
                else f"{parts[0]}({', '.join(said)})"
            )
        if kind == "eq":
            return (" = " if parts[0][0] == "leaf" and not said[0].endswith(".T") else " == ").join(
                said
            )
        return " + ".join(said) if kind == "add" else first

    def _heads(self) -> set[str]:
        """The heads that weights have by number; elsewhere a number may be a word's."""
        return {
            n for leaf, role in self.role_of.items() if role[:1] == "W" for n in leaf.split("|")[1]
        }


def vectors(a: str, b: str) -> list[tuple[str, str]]:
    """Two roles in both orders, each as it is and transposed."""
    return [
        (x, y)
        for one, two in ((a, b), (b, a))
        for x in (one, turned(one))
        for y in (two, turned(two))
    ]


def chain(node: tuple) -> list:
    """The factors of a product, in order."""
    return [*chain(node[1]), *chain(node[2])] if node and node[0] in ("mul", "dot") else [node]


def is_number(node: tuple | None) -> bool:
    """Whether a factor is a number, such as a scale."""
    if node and node[0] == "leaf":
        return bool(re.match(r"(scal(e|ing)|factor|norm_factor|tau)\|", node[1]))
    return not node or node[0] in ("num", "sqrt") or (node[0] == "div" and is_number(node[1]))


def size_of(node: tuple | None) -> str:
    """The size, or the number, that stands below a line."""
    for each in walk(node):
        if each[0] == "leaf":
            found = (
                size
                for size, pattern in DATA["sizes"].items()
                if re.fullmatch(pattern, each[1].lower())
            )
            return next(found, "")
        if each[0] == "num" and str(each[-1]).isdigit():
            return each[-1]
    return ""


def fit(lines: list[tuple], shown: dict[str, str], code: bool) -> list[World]:
    """All readings of some lines, the likeliest first: `data.toml` says in which order."""
    every = [each for line in lines for each in walk(line)]
    sizes = [each[2] for each in every if each[0] == "div"]
    sizes += [each for each in every if each[0] == "sqrt"]
    sizes += [size for each in every if each[0] == "shape" for size in each[2:]]
    below = {it for size in sizes for it in walk(size)}
    nodes = [
        each for line in lines for each in walk(line) if each[0] == "leaf" and each not in below
    ]
    leaves = [*dict.fromkeys(each[1] for each in nodes if not is_number(each))]
    tried = []
    for name, text in tables()["texts"].items() if not code else ():
        tried += [(world, text["columns"], name, off, 0) for world, off in _in_text(leaves, text)]
    for role_of, kind in _everybody(leaves):
        for columns, stored in itertools.product((False, True), repeat=2):
            flipped = {
                leaf: turned(role)
                if columns != (stored and role[:2] in ("W_", "P_", "W[") and "()" not in leaf)
                else role
                for leaf, role in role_of.items()
            }
            tried.append((flipped, columns, "", 50, 6 * stored + kind))
    fewest = min((_unknown(each[0], leaves) for each in tried), default=0)
    worlds = []
    for role_of, columns, name, off, kind in tried:
        if (unknown := _unknown(role_of, leaves)) == fewest:
            world = World({leaf: role_of.get(leaf, "") for leaf in leaves}, shown, columns)
            world.results = [world.value(line) for line in lines]
            world.key = (unknown, len(world.faults), world.loose, -world.steps, off, kind, columns)
            world.names = [name] if name and not unknown else []
            worlds.append(world)
    best = min((world.key[:3] for world in worlds), default=())
    found: dict[tuple, World] = {}
    for world in sorted(worlds, key=lambda each: each.key):
        if world.key[:3] == best:
            world.lines = [world.line(line, world.columns) for line in lines]
            first = found.setdefault(("; ".join(world.lines), world.columns), world)
            if first is not world and first.key[:5] == world.key[:5]:
                first.names += world.names
    return [*found.values()]


def _unknown(role_of: dict[str, str], leaves: list[str]) -> int:
    return sum(not role_of.get(leaf) for leaf in leaves)
