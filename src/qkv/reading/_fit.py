"""What letters are together: each choice of their roles is computed with names of sizes."""

import itertools
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from qkv.reading._data import DATA
from qkv.reading._letters import BASE, bare, everybody, in_text, number, tables, turned, usual
from qkv.reading._tree import leaves

_MOST = 300  # assignments that are computed
NUMBER = "#"


class Value(NamedTuple):
    """A role, the names of its sizes, and what writes it: as typed, and in NumPy both ways round.

    What is not read whole has no line. What is `free` may be turned: axes that change places.
    """

    role: str = ""
    shape: tuple[str, ...] = ()
    typed: str = ""
    line: str = ""
    turned: str = ""
    free: bool = False

    @property
    def other(self) -> "Value":
        """The transpose."""
        typed = f"({self.typed})" if " " in self.typed else self.typed
        typed = typed[:-1] if typed.endswith("ᵀ") else f"{typed}ᵀ"
        return Value(turned(self.role), self.shape[::-1], typed, self.turned, self.line, self.free)

    @property
    def upright(self) -> "Value":
        """With words as rows."""
        return self.other if self.role.endswith(".T") else self

    def both(self) -> tuple["Value", ...]:
        """As it is and, if it is one vector or its axes were swapped, turned."""
        return (self, self.other) if self.free or "1" in self.shape else (self,)

    def unread(self) -> "Value":
        """The same, of which not all was read."""
        return self._replace(line="", turned="")

    def with_number(self, sign: str, number: "Value") -> "Value":
        """Multiplied or divided by a number."""
        line, other = (
            each and f"{_wrapped(each)}{sign}{_wrapped(number.line, '+@*/')}"
            for each in (self.line, self.turned)
        )
        typed = f"{self.typed}{sign}{number.typed}"
        return self._replace(typed=typed, line=line, turned=other)


def _meet(a: str, b: str) -> bool:
    """Whether two sizes may be equal: in self-attention all words are queries and keys."""
    return a == b or {a, b} <= {"n", "n_q", "1"} or {a, b} <= {"n", "n_k", "1"}


def _alike(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    return len(a) == len(b) and all(map(_meet, a, b))


def _wrapped(line: str, signs: str = "+") -> str:
    """A line in brackets, if one of these signs stands in it outside of brackets."""
    plain = line
    while (shorter := re.sub(r"[(\[][^()\[\]]*[)\]]", "", plain)) != plain:
        plain = shorter
    return f"({line})" if re.search(f" [{signs}] ", plain) else line


@dataclass
class World:
    """One choice of a role for each letter: it computes trees with roles and names of sizes."""

    role_of: dict[str, str]
    shown: dict[str, str]
    columns: bool = False
    code: bool = False
    one: frozenset[str] = frozenset()  # letters that are one vector
    names: list[str] = field(default_factory=list)  # of the texts that write so
    key: tuple = ()
    loose: int = 0
    steps: int = 0
    faults: dict[str, str] = field(default_factory=dict)  # a sentence to its name
    notes: dict[str, str] = field(default_factory=dict)
    made: dict[str, Value] = field(default_factory=dict)  # what code has assigned
    read: set[str] = field(default_factory=set)
    results: list[Value] = field(default_factory=list)
    ours: bool = False  # whether it calls attention by its name
    near: bool = False  # whether a transpose or another order mends a product
    open: bool = False  # whether words may be rows as well as columns

    def lines(self) -> list[str]:
        """NumPy in roles, with words as rows; empty where a line is not read whole."""
        if self.loose:
            return [""]
        return [self.natural(it).line for it in self.results]

    def natural(self, value: Value) -> Value:
        """With words as rows: what was written so stays, and one vector has no side."""
        if not value.role:
            return value.other if self.columns and value.shape[:1] != ("n_q",) else value
        return value.upright if self.columns or "1" in value.shape else value

    def _fault(self, name: str, *said: str) -> None:
        self.faults[DATA["faults"][name].format(*said)] = name

    def _note(self, name: str, *said: str) -> None:
        self.notes[DATA["notes"][name].format(*said)] = name

    def _of(self, role: str, typed: str, line: str = "") -> Value:
        """A role with its shape."""
        shape = tuple(tables()["role"].get(bare(role), {"shape": ()})["shape"])
        line, other = line or bare(role), turned(line or bare(role))
        value = Value(bare(role), shape, typed, line, other if len(shape) > 1 else line)
        return value.other._replace(typed=typed) if role.endswith(".T") else value

    def value(self, node: tuple | None) -> Value:
        """What a node is."""
        kind, *parts = node or ("num", "…")
        if kind == "num":
            return Value(NUMBER, (), parts[0], parts[0], parts[0])
        if kind == "leaf":
            return self._leaf(parts[0])
        if kind == "eq":
            return self._equal(parts)
        if kind == "call" and self.role_of.get(parts[0][1]):
            return self.value(("mul", parts[1], parts[0]))
        if kind == "sum" and parts[0] and parts[0][0] == "mul":
            return self._summed(self.value(("dot", *parts[0][1:])))
        values = [self.value(part) for part in parts if part is None or isinstance(part, tuple)]
        first = values[0] if values else Value()
        if kind == "sqrt" and first.role == NUMBER and first.line:
            line = f"sqrt({first.line})"
            return Value(NUMBER, (), f"√{first.typed}", line, line)
        if kind in ("mul", "dot"):
            return self._product(values, kind == "dot")
        if kind in ("add", "div"):
            return (self._sum if kind == "add" else self._ratio)(*values)
        if kind == "fn":
            return self._function(parts[0], values)
        if kind in ("cut", "join", "part"):
            return self._moved(kind, first)
        if kind == "t":
            return first.other
        if kind == "free":
            return first._replace(free=True)
        if kind == "shape":
            sizes = zip(map(number, parts[1:]), first.shape, strict=False)
            self.loose += sum(bool(a) and a != b for a, b in sizes)
            return first
        if kind == "swap":  # of heads and tokens, or of the last two axes
            batched = bare(first.role) == "head[i]" or parts[0][1] in self.made
            return first if batched else first._replace(free=True)
        if kind == "note":
            self._note(*parts[1:])
        if kind == "wrong":
            self._fault(*parts[1:])
        if kind in ("pass", "note", "wrong"):
            return first.unread()
        self.loose += 1
        return Value(typed=first.typed)

    def _leaf(self, leaf: str) -> Value:
        """A letter: a number, what it was assigned, or its role with its head's number."""
        typed = self.shown.get(leaf, leaf.split("|")[0])
        if size := number(leaf):
            return Value(NUMBER, (), typed, size, size)
        if leaf in self.made:
            return self.made[leaf]
        self.read.add(leaf)
        role = self.role_of.get(leaf, "")
        heads = [n for n in re.findall("[1-9]", leaf.split("|")[1]) if n in self._heads()]
        line = bare(role).replace("[i]", f"[{heads[0]}]") if len(heads) == 1 else bare(role)
        value = self._of(role, typed, line) if role else Value(typed=typed)
        if leaf in self.one:
            self._note("one", typed)
            value = value._replace(shape=tuple(re.sub("n_.", "1", it) for it in value.shape))
        return value

    def _heads(self) -> set[str]:
        """The heads that weights have by number; elsewhere a number may be a word's."""
        return {
            n for leaf, role in self.role_of.items() if role[:1] == "W" for n in leaf.split("|")[1]
        }

    def _product(self, values: list[Value], dot: bool) -> Value:
        """Factors in a row: a step that attention has is taken first, wherever it stands."""
        numbers = [each for each in values if each.role == NUMBER]
        row = [each for each in values if each.role != NUMBER]
        while len(row) > 1:
            made = [self._step(*pair, dot) for pair in pairwise(row)]
            n = next((n for n, step in enumerate(made) if step), 0)
            row[n : n + 2] = [self._times(*(made[n] or self._unknown(*row[n : n + 2])))]
            self.steps += bool(made[n])
        value, numbers = (row[0], numbers) if row else (numbers[0], numbers[1:])
        for scale in numbers:
            if bare(value.role) == "S[i]" and re.match(r"sqrt|d_", scale.line):
                self._fault("times", scale.typed)
            value = value.with_number(" * ", scale)
        return value

    def _step(self, a: Value, b: Value, dot: bool) -> tuple[str, Value, Value] | None:
        """The role of a product, and its factors; of two vectors in any order."""
        ways = [(x, y) for x in a.both() for y in b.both()]
        if dot:
            ways = [(x, y) for x in (a, a.other) for y in (b, b.other)]
            ways += [(y, x) for x, y in ways]
        steps = tables()["steps"]
        found = [(steps.get(f"{x.role} {y.role}", ""), x, y) for x, y in ways]
        found = [each for each in found if each[0] and not (dot and each[0].endswith(".T"))]
        if found and {found[0][1].role, found[0][2].role} == {"X", "X.T"}:
            self._note("toy")
        return found[0] if found else None

    def _times(self, role: str, a: Value, b: Value) -> Value:
        shape = (a.shape[0], b.shape[1]) if len(a.shape) == len(b.shape) == 2 else ()
        line = turn = ""
        if shape and a.line and b.line:
            line = f"{_wrapped(a.line)} @ {_wrapped(b.line, '+*/')}"
            turn = f"{_wrapped(b.turned)} @ {_wrapped(a.turned, '+*/')}"
        return Value(role, shape, f"{a.typed} {b.typed}", line, turn)

    def _unknown(self, a: Value, b: Value) -> tuple[str, Value, Value]:
        """A product that is no step: do its sizes meet?"""
        self.loose += 1 + ("X_" in a.role and "X_" in b.role)
        if len(a.shape) != 2 or len(b.shape) != 2:
            return "", a, b
        steps, faults = tables()["steps"], DATA["faults"]
        core = " ".join(
            re.sub(r"^(?:X_)?([QKV])(\[i\])?(?=$|\.)", r"\1[i]", each.role) for each in (a, b)
        )
        other = core.translate(str.maketrans("KV", "VK"))
        if other in steps and core not in steps:
            wrong = next(each for each in (b, a) if _letter(each.role) in ("K", "V"))
            self._fault("swap", wrong.typed, "KV"[_letter(wrong.role) == "K"])
        elif DATA["faults"]["keys"] not in self.faults and not any(
            _meet(x.shape[1], y.shape[0]) for x in a.both() for y in b.both()
        ):
            ways = [(x, y) for x in (a, a.other) for y in (b, b.other)]
            fits = [(x, y) for x, y in ways if f"{x.role} {y.role}" in steps]
            hint = faults["turn"].format(f"{fits[0][0].typed} {fits[0][1].typed}") if fits else ""
            if fits and "A[i]" in (
                bare(x.role) for x, y in zip((a, b), fits[0], strict=True) if x != y
            ):
                hint = faults["keys"]
            hint = faults["side"] if f"{b.role} {a.role}" in steps else hint
            self.near = self.near or bool(hint)
            said = faults["meet"].format(a.typed, b.typed, a.shape[1], b.shape[0])
            self.faults[f"{said} {hint}".strip()] = "meet"
        return "", a, b

    def _summed(self, value: Value) -> Value:
        """A sum over words is a product of matrices; that of all heads' outputs is not."""
        if bare(value.role) == "Y":
            line = f"sum({value.upright.line} for i in heads)"
            value = value.upright._replace(line=line, turned=f"{line}.T")
        return value if bare(value.role) in ("Y", "S[i]", "head[i]") else value.unread()

    def _sum(self, a: Value, b: Value) -> Value:
        """A bias or a mask leaves what it is added to what it is."""
        one, two = ([DATA["alike"].get(size, size) for size in each.shape] for each in (a, b))
        if one and two and not (one == two or (len(two) == 1 and two[0] in one)):
            self._fault("add", a.typed, b.typed)
        extra = [not each.role or re.match("b|mask", each.role) for each in (a, b)]
        main = b if extra[0] and not extra[1] else a
        same = any(extra) or a.role == b.role
        self.loose += not same
        whole = same and (a.line != b.line or a.typed == b.typed)  # not two heads in one letter
        line, turn = (
            f"{x} + {y}" if x and y and whole else ""
            for x, y in ((a.line, b.line), (a.turned, b.turned))
        )
        return Value(main.role if same else "", main.shape, f"{a.typed} + {b.typed}", line, turn)

    def _ratio(self, a: Value, b: Value) -> Value:
        """Scores, divided by the root of a width."""
        if b.role != NUMBER or not b.line:
            self.loose += 1
            return a.unread()
        if bare(a.role) in ("A[i]", "head[i]") or "softmax(" in a.line:
            self._fault("outside", b.typed)
        elif b.line == "sqrt(d_model)":
            self._note("scale", b.typed[1:])
        elif b.line.isdigit():
            self._note("number", b.line, str(int(b.line) ** 2))
        elif b.line in BASE:
            self._note("root", b.typed)
        return a.with_number(" / ", b)

    def _function(self, name: str, values: list[Value]) -> Value:
        """What a function makes; of columns it makes the same, turned."""
        x = values[0] if values else Value()
        up = [self.natural(each) for each in values]
        typed = f"{name}({', '.join(each.typed for each in values)})"
        lines = [each.line for each in up] if all(each.line for each in up) else []
        self.steps += name in ("softmax", "attention", "multihead", "score")
        role, shape, line = "", up[0].shape if up else (), ""
        if name == "softmax":
            role, line = "A[i]", f"softmax({lines[0]})" if lines else ""
            if up and up[0].role == "S[i].T" and DATA["notes"]["toy"] in self.notes:
                self.loose += 1  # X Xᵀ is its own transpose
            elif up and up[0].role == "S[i].T":
                self._fault("keys")
                role = "A[i].T"
            if not {*shape} <= {"n", "n_q", "n_k", "1"}:
                self.loose += 1
                self._fault("scores", x.typed)
            if " @ " in "".join(lines) and not re.search(" [*/] ", lines[0]):
                self._note("bare")
        elif name in ("attention", "multihead"):
            self.ours = True
            role = "head[i]" if name == "attention" else "Y"
            got = [each.role for each in up]
            letters = [_letter(each) for each in got]
            if sorted(letters) == ["K", "Q", "V"] and letters != [*"QKV"]:
                self._fault("order", typed)
            own = "{}[i]" if name == "attention" else "X_{}"
            fits = [
                it in (own.format(q), "X" * (name == "multihead"))
                or {it, own.format(q)} == {"X_K", "X_V"}
                for it, q in zip(got, "QKV", strict=False)
            ]
            self.loose += sum(bool(it) and not fit for it, fit in zip(got, fits, strict=False))
            line = f"{name}({', '.join(lines)})" if lines[2:] and all(fits) else ""
        elif name == "concat":
            role = _joined(x.upright.role)
            one = {re.sub(r"\d", "i", each) for each in lines}
            line = f"concat({one.pop()} for i in heads)" if len(one) == 1 and role else ""
        elif name == "score":
            role = line = "S[i]"
        elif name in ("rotate", "exp"):
            role = up[0].role if up and name == "rotate" else ""
            line = f"{name}({lines[0]})" if lines else ""
        else:
            self.loose += 1
        if role and name != "softmax":
            shape = self._of(role, "").shape
        value = Value(role, shape, typed, line, line and f"{line}.T")
        flip = name != "score" and up and up[0] is not x
        return value.other._replace(typed=typed) if flip else value

    def _moved(self, kind: str, value: Value) -> Value:
        """A reshape into heads or back, or a cut into three."""
        role, line = value.upright.role, value.upright.line
        made = {"cut": f"{role}[i]", "join": _joined(role), "part": role}[kind]
        if kind == "cut" and role in ("Q", "K", "V"):
            line = line and f"split({line}, h, axis=-1)[i]"
        elif kind == "cut" and role == "QKV":
            line = line and f"[split(x, h, axis=-1)[i] for x in split({line}, 3, axis=-1)]"
        elif kind == "join" and made:
            line = line and f"concat({line} for i in heads)"
        elif kind == "part" and "QKV" in role:
            line = line if "[i]" in role or not line else f"split({line}, 3, axis=-1)"
        else:
            self.loose += kind == "cut"
            return value.unread()
        self.steps += 1
        if kind != "part":
            self._note(kind)
        made = self._of(made, value.typed)._replace(line=line, turned=line and f"{line}.T")
        return made.other._replace(typed=value.typed) if value.role.endswith(".T") else made

    def _equal(self, nodes: list[tuple]) -> Value:
        """The sides of an equation; in code the left side gets a value."""
        values = [self.value(node) for node in nodes[1:]]
        last, names = values[-1], nodes[0][1:] if nodes[0][0] == "list" else nodes[:1]
        letters = [_letter(self.role_of.get(each[1], "")) for each in names]
        parts = [last] * len(names)
        if "QKV" in last.role and all(letters):
            parts = [self._of(bare(last.role).replace("QKV", each), "") for each in letters]
            last = last if names[1:] else last.unread()
        elif names[1:]:  # what a layer returns: the output and the weights
            self.loose += bare(last.role) != "Y"
            parts, last = [last, self._of("A", "")], last.unread()
        if self.code and all(each[0] == "leaf" for each in names):
            lefts = [self._assigned(*each) for each in zip(leaves(*names), parts, strict=False)]
            compared = values
        else:
            lefts = [self.value(nodes[0])]
            compared = [*lefts, *values]
        for a, b in pairwise(compared):
            self._compare(a, b)
        sides = [", ".join(self.natural(it).line for it in lefts)]
        sides += [self.natural(it).line for it in (*values[:-1], last)]
        first, second = (self.natural(it).shape for it in (lefts[0], values[-1]))
        whole = all(sides) and len({*sides}) > 1 and (names[1:] or _alike(first, second))
        named = nodes[0][0] in ("leaf", "list") or nodes[0][1] == "score"
        line = (" = " if named else " == ").join(sides) if whole else ""
        if "attention(" in line and DATA["notes"]["bare"] in self.notes:
            line = ""  # equation (1) has a scale
        role = lefts[0].role if names[1:] else last.role or lefts[0].role
        return Value(role, last.shape, last.typed, line, line)

    def _assigned(self, leaf: str, value: Value) -> Value:
        """A letter of code, which from now on has this value."""
        mine = self.role_of.get(leaf, "")
        letters = [_letter(mine), _letter(value.role)]
        if all(letters) and letters[0] != letters[1]:
            self._fault("letters", *letters)
        elif mine and leaf not in self.made and leaf not in self.read:
            self._compare(self._leaf(leaf), value)
        role = value.role or mine
        named = self._of(role, self.shown[leaf])._replace(free=value.free)
        self.made[leaf] = named._replace(shape=value.shape or named.shape) if role else value
        return self.made[leaf]

    def _compare(self, a: Value, b: Value) -> None:
        """Whether two sides of an equation can be the same thing."""
        known = tables()["role"]
        pair = [bare(a.role), bare(b.role)]
        letters = [_letter(role) for role in pair]
        upright = pair[0] == pair[1] and known.get(pair[0], {}).get("group") in ("score", "output")
        alike = sorted(pair) in (["X", "X_Q"], ["Y", "joined"]) or (
            "made[i]" in pair and any(letters)
        )
        self.loose += not all(pair) or NUMBER in pair
        if alike and a.role != b.role:
            self.loose += a.shape[1:] != b.shape[1:]
        elif NUMBER in pair or upright:
            return
        elif all(pair) and a.role != b.role and not any(letters) and "(" not in a.typed:
            self.loose += 1  # another letter than this one is usual
        elif all(pair) and a.role != b.role:
            if all(letters) and letters[0] != letters[1]:
                self._fault("letters", *letters)
            else:
                self._fault("equal", self._meaning(a.role, pair), self._meaning(b.role, pair))
        elif a.shape and b.shape and not _alike(a.shape, b.shape):
            self._fault("equal", " × ".join(a.shape), " × ".join(b.shape))

    def _meaning(self, role: str, pair: list[str]) -> str:
        said = tables()["role"][bare(role)]["meaning"]
        return f"{said}, transposed" if pair[0] == pair[1] and role.endswith(".T") else said


def _letter(role: str) -> str:
    """Whether a role is of queries, keys or values."""
    found = re.search(r"(?:^|_)([QKV])(?:\[i\])?$", bare(role))
    return found[1] if found else ""


def _joined(role: str) -> str:
    """What is made of one head's array by putting those of all heads side by side."""
    return {"head[i]": "joined", "Q[i]": "Q", "K[i]": "K", "V[i]": "V"}.get(bare(role), "")


def fit(lines: list[tuple], shown: dict[str, str], code: bool) -> list[World]:
    """All readings of some lines, the likeliest first: `data.toml` says in which order."""
    letters = _read_first(lines, code)
    tried = []
    for name, text in tables()["texts"].items() if not code else ():
        tried += [(world, text["columns"], name, off, 0) for world, off in in_text(letters, text)]
    for role_of, kind in everybody(letters):
        for columns, stored in itertools.product((False, True), repeat=2):
            flipped = {
                leaf: turned(role)
                if columns != (stored and role[:2] in ("W_", "P_", "W[") and "()" not in leaf)
                else role
                for leaf, role in role_of.items()
            }
            tried.append((flipped, columns, "", 50, 6 * stored + kind))
    unknown = [sum(not each[0].get(leaf) for leaf in letters) for each in tried]
    fewest = min(unknown, default=0)
    tried = [each for each, n in zip(tried, unknown, strict=True) if n == fewest][:_MOST]
    large = any(leaf[0] in "QKV" for leaf in letters)  # beside matrices a small letter is a vector
    one = frozenset(leaf for leaf in letters if large and re.match(r"[qkv]\|", leaf))
    worlds = []
    for role_of, columns, name, off, kind in tried:
        own = {leaf: role_of.get(leaf, "") for leaf in letters}
        world = World(own, shown, columns, code, one)
        world.results = [world.value(line) for line in lines]
        faults = len(world.faults)
        world.key = (fewest, faults + world.loose, -world.steps, faults, off, kind, columns)
        world.names = [name] if name and not fewest else []
        worlds.append(world)
    best = min((world.key[:2] for world in worlds), default=())
    found: dict[tuple, World] = {}
    for world in sorted(worlds, key=lambda each: each.key):
        if world.key[:2] == best:
            said = (*world.lines(), *map(bare, world.role_of.values()), world.columns)
            first = found.setdefault(said, world)
            if first is not world and first.key[:5] == world.key[:5]:
                first.names += world.names
    return [*found.values()]


def _read_first(lines: list[tuple], code: bool) -> list[str]:
    """The letters whose roles are to be found: what code has assigned before has its value."""
    found, made = {}, set()
    for line in lines:
        named = code and line[0] == "eq"
        own, read = (leaves(line[1]), leaves(*line[2:])) if named else ([], leaves(line))
        kept = [leaf for leaf in own if isinstance(usual(leaf), tuple)]
        found |= dict.fromkeys(it for it in (*kept, *read) if it not in made and not number(it))
        made |= {*own} - {*kept}
    return [*found]
