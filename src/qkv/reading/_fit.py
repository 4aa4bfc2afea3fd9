"""What letters are together: each choice of their roles is computed, step by step of attention.

A step is a line of a table, such as "mul Q[i] K[i].T" = "S[i]"; a role that ends with ! is an array
whose heads do not stand before its words. What is printed of a value, `out`, is a tree as well, of
roles in the order in which they were typed: `("role", "Q[i]")`, `("mul", a, b)`, `("softmax", a)`.
"""

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from qkv.reading._data import DATA
from qkv.reading._letters import MEANING, choices, letter_of, number, shape_of, texts_of, usual
from qkv.reading._patterns import findall, fullmatch, search, sub
from qkv.reading._tables import tables
from qkv.reading._tree import bare, leaves, turned, walk

FAULTS, SIGNS = DATA["faults"], DATA["signs"]
SAYS = FAULTS | DATA["notes"]


class Value(NamedTuple):
    """A role, what is printed of it, and how it was typed; what is not read whole has no `out`."""

    role: str = ""
    out: tuple | None = None
    typed: str = ""
    free: str = ""  # why its last two axes may have changed places
    lost: bool = False  # whether something that is not known has made it
    axes: str = ""  # a sign for each, where they can be seen: the rows are 1, the columns 2


def transposed(value: Value) -> Value:
    """The transpose."""
    typed = f"({value.typed})" if " " in value.typed else value.typed
    typed = typed[:-1] if typed.endswith("ᵀ") else f"{typed}ᵀ"
    out = value.out and (value.out[1] if value.out[0] == "t" else ("t", value.out))
    return value._replace(role=turned(value.role), out=out, typed=typed)


def scores_of(a: Value, b: Value) -> list:
    """The scores of two values with words as rows, and the two, as they were typed."""
    names = [it.typed.strip("ᵀ") for it in (a, b)]
    return [f"{' '.join(names)}ᵀ", *names]


def written(out: tuple, flip: bool, role: Callable, size: Callable, signs: dict) -> str:
    """A tree of roles as a line, or as the line of its transpose."""
    op, *parts = out
    if op == "role":
        return role(turned(parts[0]) if flip else parts[0])
    if op == "size":
        return size(parts[0])
    if op == "t":
        return written(parts[0], not flip, role, size, signs)
    inside = flip and op in SIGNS["numpy"]
    parts = parts[::-1] if flip and op == "mul" else parts
    said = [written(each, inside, role, size, signs) for each in parts]
    if op in SIGNS["numpy"]:
        ops = [(it[1] if it[0] == "t" else it)[0] for it in parts]
        weak = SIGNS["weak"].get(op, "")  # of the first part a sum alone
        for n, each in enumerate(ops):
            if signs.get(each, "").strip() in [*(weak if n else weak[:1])]:
                said[n] = f"({said[n]})"
        assigned = op == "=" and ops[0] in ("role", "list") and said[0][-2:] != ".T"
        return (" = " if assigned else signs[op]).join(said)
    around = signs.get(op, SIGNS["around"].get(op, f"{op}({{}})"))
    whole = around.format(", ".join(said))
    return f"{whole}.T" if flip and op != "sqrt" else whole


class World:
    """One choice of a role for each letter."""

    def __init__(self, role_of: dict, shown: dict, columns: bool, code: bool, kinds: list):
        self.role_of, self.shown, self.columns, self.code = role_of, shown, columns, code
        self.kinds = kinds  # of the nodes of all lines, and the names of their functions
        self.raw = not ("sqrt" in kinds or "num" in kinds)  # nothing may divide the scores
        self.loose, self.steps = 0, 0  # what is no step of attention, and what is one
        self.faults, self.notes = {}, {}  # of each sentence its name
        self.made, self.read, self.results = {}, [], []  # what code has assigned, and read
        self.last, self.again = [], []  # what it has assigned and not read again, or twice
        self.open, self.names, self.turned = False, [], False
        self.sure, self.hidden, self.uses = [], [], {}  # letters that were read, not, and what for
        self.narrow = False  # whether three weights in one array are one head's
        self.plain = code or "W_QKV" in map(bare, role_of.values())  # of one head or of all
        self.large = any(leaf[0] in "QKV" for leaf in role_of)  # so a small letter is one vector

    def run(self, lines: list, most: int) -> None:
        """Read all lines; a letter that only meets what is not known has no role.

        Another choice that leaves no more than `most` unread is known, so what leaves more is not
        read to its end.
        """
        self.single = all(line[0] == "eq" for line in lines[:-1])  # the last line makes all of it
        self.several = len(lines) > 1 and not self.code
        for line in lines:
            if self.loose > most:
                return
            self.hidden = []
            result = self.value(line)
            tops = [line[0], *(it[0] for it in line[1:2] if it)]  # a root of nothing has one alone
            if "eq" not in tops:  # a shape may stand behind an equation
                self.turned = result.role.endswith(".T")
            self.results.append(result)
            self.sure += [it for it in leaves(line) if not (result.lost or it in self.hidden)]
        if "linear" in self.said():  # without a softmax factors of scores are no mistake
            self.forget("mask", "times", "outside")
        self.open = "sides" in self.said()
        self.role_of = {it: its for it, its in self.role_of.items() if it in self.sure or not its}
        self.made = {it: its for it, its in self.made.items() if it in self.sure or not its.role}

    def trees(self) -> list:
        """Each line with words as rows; of what is not read whole none."""
        outs = [] if self.loose else [self._rows(it) for it in self.results]
        told = [it for it in outs if it and it[0] != "role"]  # and not W of W ∈ R^{d × d_k}
        return (told or outs) if all(outs) else []

    def value(self, node: tuple | None) -> Value:
        """What a node is."""
        kind, *parts = node or ("num", "…")
        if kind == "num":
            return Value("#", ("size", parts[0]), parts[0])
        if kind == "leaf":
            return self._leaf(parts[0])
        if kind == "eq":
            return self._equal(parts)
        if kind == "call" and self.role_of.get(parts[0][1]):
            return self.value(("mul", parts[1], parts[0]))
        if kind in ("call", "lost"):  # by its name nothing that is known
            self.hidden += leaves(node)
            return Value(lost=True)
        if kind == "fn" and parts[0] == "score":
            for it, letter in zip(parts[1:], "QK", strict=True):
                self.loose += self._used(self.value(it), letter).role[:1] not in ("X", "Q", "K")
            return Value("S[i]", ("role", "S[i]"), parts[0])
        if kind == "sum" and parts[0] and parts[0][0] == "mul":  # over words: a matrix product
            value = self.value(("dot", *parts[0][1:]))
            over_heads = bare(value.role) == "Y"
            return self._step("sum", [value]) if over_heads else value._replace(free="one")
        name = parts[0] if kind in ("fn", "wrong", "note") else kind
        values = [self.value(part) for part in parts if part is None or isinstance(part, tuple)]
        first = values[0] if values else Value()
        if self.code and name in ("fused", "attention") and {it.role for it in values} == {"X"}:
            name = "multihead"  # of words themselves a layer makes its own
        if name == "multihead":  # what enters a layer is a source
            values = [*values, *values, *values] if len(values) == 1 else values
            values = [self._used(*each) for each in zip(values, "QKV", strict=False)]
        elif kind in ("mul", "dot"):
            return self._product(values, kind)
        elif kind == "inner":
            if len(parts[0]) == 4:
                self.remark("each")
            value = self._product(values, kind)._replace(axes=parts[0])
            late = value.role == "head[i]" and parts[0][3:] and "1." in parts[0]  # heads are last
            return value._replace(role="head[i]!") if late else value
        elif any(it.lost for it in values):
            return Value(typed=first.typed, lost=True)
        if name == "view" and (not first.out or self._is_bare(first)):
            name = "words"  # of a name alone nothing is known
        if kind in ("note", "wrong"):
            self.remark(name, *parts[2:])
        if kind == "moved" or (name == "floor" and first.role in ("", "#")):
            return first._replace(role=first.role.replace("!", ""), out=None, free="moved", axes="")
        if kind == "flip":
            value = self._step("swap", values)
            return value if first.role[-1:] == "!" else value._replace(free="swap")
        if kind in ("note", "wrong", "pass", "each"):
            return first._replace(out=None)
        if kind == "shape":  # of R^{d_model × d_k}
            sizes = zip(parts[1:], shape_of(first.role), strict=False)
            for its, size in sizes:  # h d_v is a product, and d any width
                narrow = number(its) == "d_k" and size[:1] == "3"  # three of one head, side by side
                wide = size.replace("d_v", "d_k")  # few texts write another letter
                other = "*" not in size if " " in its else number(its) not in ("", wide, size)
                self.narrow = self.narrow or narrow
                rows = len(parts) > 2 and size[:1] == "n"
                self.loose += other and (its != "d|" or rows) and not narrow
            return first
        if kind == "sqrt" and first.role == "#" and first.out:
            return Value("#", ("sqrt", first.out), f"√{first.typed}")
        if kind == "t":
            if parts[1:] == ["T"] and first.axes[2:]:
                self.remark("reversed")
            return transposed(first)._replace(axes="12" if parts[1:] == ["T"] else first.axes)
        if kind == "axis":
            return self._softmax(int(parts[0]), first)
        if kind == "join" and bare(first.role) == "head[i]" and not self._is_bare(first):
            self.remark("join" if first.axes else "mixed")
        if name == "concat" and len({it.role for it in values}) == 1:  # heads side by side
            alike = len(values) == 1 or (first.out and first.out[0] == "role")
            values = [first if alike else first._replace(out=None)]
        return self._step(name, values)

    def _softmax(self, axis: int, value: Value) -> Value:
        """A softmax over an axis, which is that of the keys or a mistake."""
        sides, last = value.axes, axis == -1 or (axis > 1 and not value.axes)
        its = sides[axis] if -len(sides) <= axis < len(sides) else ""
        if its == "1" and value.role == "S[i].T":
            return transposed(self._step("softmax", [transposed(value)]))
        turned = value.role.endswith(".T")
        right = its == ("1" if turned else "2") if its else (axis == -2 if turned else last)
        if bare(value.role) == "S[i]" and not right:
            made = value.out and value.out[0] != "role"
            several = self.large and "one" not in self.said()  # or two axes may be a query's
            if sides[2:] or (sides and several) or (axis < 0 and made):
                self.remark("softmax", f"axis {axis}")
            else:
                self.remark("over", f"axis {axis}")
                return self._step("softmax", [value])._replace(out=None)
        return self._step("softmax", [value])

    def _is_bare(self, value: Value) -> bool:
        """Whether all that is known of it is its name in code."""
        named = [self.shown.get(it, "") for it in self.role_of if it not in self.made]
        return self.code and value.typed.removesuffix("ᵀ") in named

    def remark(self, name: str, *said: str) -> None:
        """Say what is a mistake, or what else there is to say."""
        its = self.faults if name in FAULTS else self.notes
        its[SAYS[name].format(*said)] = name

    def forget(self, *names: str) -> None:
        """Take back what was said by these names."""
        self.faults = {it: name for it, name in self.faults.items() if name not in names}
        self.notes = {it: name for it, name in self.notes.items() if name not in names}

    def _rows(self, value: Value) -> tuple | None:
        """What is printed of a value with words as rows."""
        flip = self.columns and (value.role.endswith(".T") or not value.role)
        return ("t", value.out) if flip and value.out else value.out

    def _leaf(self, leaf: str) -> Value:
        """A letter: a number, what it was assigned, or its role with its head's number."""
        typed, size = self.shown.get(leaf, leaf.split("|")[0]), number(leaf)
        if size:
            return Value("#", ("size", size), typed)
        if leaf in self.made:
            self.last = [it for it in self.last if it != leaf]
            return self.made[leaf]
        self.read.append(leaf)
        role, marks = self.role_of.get(leaf, ""), leaf.split("|")[1]
        weights = [it for it, its in self.role_of.items() if its[:1] == "W"]
        heads = [n for n in findall("[1-9]", marks) if any(n in it.split("|")[1] for it in weights)]
        name = role.replace("[i]", f"[{heads[0]}]") if len(heads) == 1 else role
        vector = self.large and bool(search(r"^[qkv]\|", leaf))
        either = self.columns and not self.code and bare(role) in ("S[i]", "A[i]")  # α_ij
        if vector and "sum" not in self.kinds:
            self.remark("one", typed)
        one = vector or (either and search("^[a-z]", leaf))
        free = "one" if one else "turn" if either else ""  # A may have either side, but its place
        return Value(role, ("role", name, typed) if role else None, typed, free)

    def _step(self, op: str, values: list) -> Value:
        """What a step of attention makes, or a scale; what is no step may be a mistake."""
        arrays = [it for it in values if it.role != "#"]
        scales = [it for it in values if it.role == "#"]
        said, between = [it.typed for it in values], SIGNS["typed"].get(op)
        typed = between.join(said) if between else f"{op}({', '.join(said)})"
        scale = bool(scales) and (op == "times" or (op == "div" and values[1].role == "#"))
        numbers = [numpy(it.out) for it in scales if scale and it.out]
        roles = [bare(it.role) if scale else it.role for it in arrays]
        key = " ".join([op, *roles, *numbers])
        made = made_by(key)
        outs = [it.out if op in SIGNS["numpy"] else self._rows(it) for it in [*arrays, *scales]]
        out = (op, *outs) if values and all(outs) else None
        if out and op not in SIGNS["numpy"] and self.columns and made.endswith(".T"):
            out = ("t", out)
        if op == "softmax" and self.raw and values and values[0].out and values[0].out[0] == "mul":
            self.remark("bare")
        out = None if fullmatch(DATA["token"]["unsure"], key) else out
        if made or (scale and arrays):
            self.steps += 1 if made and op != "add" else 0
            if op != "add" or out:  # what is added may hold another thing than its letter
                self._judge(key, said)
            heads = op in ("attention", "fused") and all(it.free == "swap" for it in arrays)
            axes = "...." if heads or op in ("cut", "three") else arrays[0].axes
            axes = "" if op == "join" else axes
            return Value(made or arrays[0].role, out, typed, axes=axes)
        if scale:
            return Value("#", out, typed)
        return self._no_step(key, op, arrays, typed)

    def _judge(self, key: str, said: list) -> None:
        """What there is to say of a step: it is unusual, or a mistake."""
        for pattern, name in DATA["remarks"].items():
            other = self.columns if name == "keys" else name == "across" and not self.code
            if fullmatch(pattern, key) and not other:
                self.remark(name, *said)

    def _no_step(self, key: str, op: str, arrays: list, typed: str) -> Value:
        """What is no step: a mistake that people make, something that is not read, or neither."""
        first = next((it for it in arrays if it.role), Value())
        if op == "swap":  # of an array in which heads stand before words it is a mistake
            return first._replace(role=f"{first.role}!" if len(first.axes) == 4 else first.role)
        if op in ("part", "join") or (op == "add" and not all(it.role for it in arrays)):
            return first._replace(out=None, typed=typed)
        if op == "add" and all(it.role == "head[i]" and " " in it.typed for it in arrays):
            return Value("head[i]", None, typed)  # one word after another
        its = key.replace(".T", "") if self.columns else key
        for pattern, (name, made) in DATA["mistakes"].items():
            if fullmatch(pattern, its) and not (name == "heads" and self.code):  # by name alone
                self.remark(name, typed, *(it.typed for it in arrays))
                return Value(made, None, typed)
        self.loose += 2
        return Value("", None, typed)

    def _used(self, value: Value, letter: str) -> Value:
        """A source, as that of the queries, keys or values."""
        if not letter or not (value.lost or bare(value.role) == "X"):
            return value
        self.uses.setdefault(value.typed.removesuffix("ᵀ"), {}).setdefault(letter, "")
        return Value(f"X_{letter}", value.out, value.typed)

    def said(self) -> list:
        """The names of what is wrong, and of what there is to say."""
        return [*self.faults.values(), *self.notes.values()]

    def _product(self, values: list, kind: str) -> Value:
        """Factors in a row: a step that attention has is taken first, wherever it stands."""
        row = [each for each in values if each.role != "#"]
        if any(it.lost for it in row):  # what a weight takes is a source
            roles = " ".join(it.role for it in row)  # of one of two nothing is known
            if len(row) != 2 or not fullmatch(r"( [WP]_Q?K?[QKV](\[i\])?|[WP]_\S*\.T )", roles):
                return Value(typed=row[0].typed, lost=True)
            source = "X" if row[0].lost else "X.T"
            row = [it._replace(role=source, lost=False) if it.lost else it for it in row]
        scales = [each for each in values if each.role == "#"]
        while len(row) > 1:
            made = [self._pair(a, b, kind) for a, b in pairwise(row)]
            n = next((n for n, step in enumerate(made) if step), 0)
            row = [*row[:n], made[n] or self._unknown(row[n], row[n + 1]), *row[n + 2 :]]
        value = row[0] if row else scales.pop() if scales else Value()
        for scale in scales:
            value = self._step("times", [value, scale])
        return value

    def _pair(self, a: Value, b: Value, kind: str) -> Value | None:
        """A product that attention has; of two vectors in any order."""
        dot, free = kind != "mul", a.free or b.free
        any_way = dot or any(it.free not in ("", "turn") for it in (a, b))
        firsts = [a, transposed(a)] if any_way or a.free else [a]
        seconds = [b, transposed(b)] if any_way or b.free else [b]
        ways = [(x, y) for x in firsts for y in seconds]
        others = [(y, x) for x, y in ways if kind == "dot" or (free and any_way)]
        for n, (x, y) in enumerate([*ways, *others]):
            key = f"mul {x.role} {y.role}"
            role = made_by(key.replace("!", ""))
            other = n > 0 and role[:1] != "S" if kind == "inner" else role.endswith(".T")
            if role and not (other and any_way):
                self.steps += 1
                its = DATA["uses"].get(role) or [letter_of(role), letter_of(role)]
                for it, letter in zip((x, y), its, strict=True):
                    self._used(it, letter)
                self._judge(key.replace("!", "") if dot else key, [x.typed, y.typed])
                out = ("mul", x.out, y.out) if x.out and y.out else None
                scores = self.code and self.columns and role == "S[i]"  # Q.T @ K
                if scores and not search("W_", " ".join(self.role_of.values())):
                    self.remark("turned", *scores_of(a, b))
                axes = max(a.axes, b.axes, key=len)
                if not (axes or n) and a.free == b.free == "swap":  # each has its heads first
                    axes = "...."
                elif not axes and "swap" in (a.free, b.free):  # k.transpose(1, 2) has three
                    axes = "..."
                    self.remark("flipped")
                axes = f"{axes[:-2]}12" if axes else ""
                return Value(role, out, f"{a.typed} {b.typed}", axes=axes)
        return None

    def _unknown(self, a: Value, b: Value) -> Value:
        """A product that is no step: is another letter, side or transpose meant?"""
        typed = f"{a.typed} {b.typed}"
        for pattern, wanted, made in DATA["places"]:
            its_side = self.columns == made.endswith(".T")
            if its_side and fullmatch(pattern, f"{a.role} {b.role}"):
                if wanted in FAULTS and a.typed != "score" and not self._is_bare(a):
                    self.remark(wanted)
                for it, letter in zip((a, b), wanted, strict=False):
                    if letter in ("Q", "K", "V") and letter != letter_of(it.role):
                        self.remark("swap", it.typed, letter)
                return Value(made, None, typed)
        letters = [letter_of(a.role), letter_of(b.role)]
        kinds = sorted(it.role[:2] for it in (a, b))
        if kinds == ["W_", "X_"] and all(letters) and letters[0] != letters[1]:
            self.remark("pair", a.typed, letters[0], b.typed, letters[1])
            return Value("", None, typed)
        self.loose += 1
        if kinds[1:] == ["W_"] and letters[0]:
            return Value("", None, typed)  # of one more map nothing is known
        other = made_by(f"mul {turned(a.role)} {turned(b.role)}")  # with words on the other side
        if self.several and other and other.endswith(".T") != self.columns:
            self.remark("sides")
            return Value(turned(other), None, typed)
        guess = [it.typed for it in (a, b) if it.role in ("head[i]", "S[i]") and it.out]
        if guess:
            self.hidden += [it for it, shown in self.shown.items() if shown in guess]
        one, two = shape_of(a.role), shape_of(b.role)
        met = [*one[1:], *two[:1]]  # in self-attention all words are queries and keys
        meets = len({*met}) == 1 or sorted(met) in (["n", "n_q"], ["n", "n_k"])
        if len(one) != 2 or len(two) != 2 or meets or guess or "keys" in self.said():
            return Value("", None, typed)
        ways = [(transposed(a), b), (a, transposed(b))]
        scores = a.role[:2] + b.role[:2] in ("Q[K[", "K[Q[")
        ways += [(transposed(a), transposed(b))] if scores else []  # Qᵀ K
        x, y = next(((x, y) for x, y in ways if made_by(f"mul {x.role} {y.role}")), (a, b))
        both = x.role != a.role and y.role != b.role
        made, meant = made_by(f"mul {x.role} {y.role}"), f"{x.typed} {y.typed}"
        hint = FAULTS["turn"].format(meant) if made and not both else ""
        side = "" if both else made_by(f"mul {b.role} {a.role}")
        if side:
            self.loose, hint = self.loose + 1, FAULTS["side"]
        weights = bare((b if x.role == a.role else a).role) == "A[i]"  # are to be turned
        if made and weights and not side:
            hint = FAULTS["keys"]
        if side or not (self._is_bare(a) or self._is_bare(b)):
            said = FAULTS["meet"].format(a.typed, b.typed, one[1], two[0])
            self.faults[f"{said} {hint}".strip()] = "near" if hint else "meet"
        elif made:
            right, *names = scores_of(a, b)
            self.remark("queries" if weights else "turned", right if scores else meant, *names)
            self.steps += 1
        return Value(bare(made), None, typed)

    def _equal(self, nodes: list) -> Value:
        """The sides of an equation; in code the left side gets a value."""
        values = [self.value(node) for node in nodes[1:]]
        last, names = values[-1], nodes[0][1:] if nodes[0][0] == "list" else nodes[:1]
        letters = [letter_of(self.role_of.get(each[-1], "")) for each in names]
        parts = [last for _ in names]
        if names[2:] and any(it[0] == "cut" for it in walk(nodes[1])[:2]):  # each is cut by itself
            self.forget("inside")
        if "QKV" in last.role and all(letters):
            own = [bare(self.role_of.get(each[1], "")) for each in names]
            roles = [sub(r"\[\d", "[i", last.role).replace("QKV", each) for each in letters]
            if not self.code and all(it[-3:] == "[i]" for it in own):  # one head's
                self.loose, roles = self.loose + 1, own
            parts = [Value(role, ("role", role)) for role in roles]
            last = last if names[1:] and self.code else last._replace(out=None)
        elif last.out and last.out[0] == "part":  # three arrays that are not taken apart
            last = last._replace(out=None)
        elif names[1:]:  # what a layer returns: the output and the weights
            self.loose += bare(last.role) != "Y"
            other = Value("A", ("role", "A")) if bare(last.role) == "Y" else Value(lost=True)
            parts, last = [last, other], last._replace(out=None)
        assigns = self.code and all(each[0] == "leaf" for each in names)
        if assigns:
            lefts = [self._assigned(a[1], b) for a, b in zip(names, parts, strict=False)]
        else:
            lefts = [self.value(each) for each in (names if names[1:] else nodes[:1])]
        if nodes[0][0] == "fn":  # Attention(K, Q, V) = … tells what it calls which
            self.forget("order")
        pairs = zip(lefts, parts, strict=False) if names[1:] else pairwise([*lefts, *values])
        before = self.loose
        for a, b in pairwise(values) if assigns else pairs:
            self._compare(a, b)
        if self.loose > before:  # nothing tells what it is
            self.hidden += [it[1] for it in names if it[0] == "leaf"]
        left = [self._rows(it) for it in lefts]
        sides = [("list", *left) if names[1:] else left[0]]
        sides += [self._rows(it) for it in (*values[:-1], last)]
        called = nodes[0][:2] == ("fn", "attention") and SAYS["bare"] in self.notes
        whole = all(sides) and all(left) and not called
        whole = whole and (sides[2:] or numpy(sides[0]) != numpy(sides[1]))
        role = lefts[0].role if names[1:] else last.role or lefts[0].role
        self.turned = role.endswith(".T")
        if last.lost:
            return last
        return Value(bare(role), ("=", *sides) if whole else None, last.typed)

    def _assigned(self, leaf: str, value: Value) -> Value:
        """A letter of code, which from now on has this value."""
        mine = self.role_of.get(leaf, "")
        letters = [letter_of(mine), letter_of(value.role)]
        if all(letters) and letters[0] != letters[1]:
            self.remark("letters", *letters)
        elif value.role and mine and leaf not in self.made and leaf not in self.read:
            self.role_of[leaf] = value.role.replace("!", "")
        role = value.role or (mine if usual(leaf)[0] or not value.lost else "")
        made = ("role", role.replace("!", "")) if role and not value.lost else None
        lost = value.lost and not role  # q is taken by its name
        self.last += [leaf] if value.role not in ("", "A") else []
        self.again += [leaf] if leaf in self.made else []
        self.made[leaf] = Value(role, made, self.shown[leaf], value.free, lost, value.axes)
        return self.made[leaf]

    def _compare(self, a: Value, b: Value) -> None:
        """Whether two sides of an equation can be the same thing."""
        one, two = bare(a.role).replace("!", ""), bare(b.role).replace("!", "")
        letters = [letter_of(one), letter_of(two)]
        if a.lost or b.lost:
            return
        if not (one and two) or "#" in (one, two) or {one, two} == {"Y", "joined"}:
            self.loose += 1
        elif one[0] == two[0] == "X" or a.role == b.role or (one == two and not letters[0]):
            return
        elif all(letters) and letters[0] != letters[1]:
            self.remark("letters", *letters)
        elif not (any(letters) or "(" in a.typed):
            self.loose += 1  # another letter than this one is usual
        elif self.faults or "toy" in self.said():  # what follows is not blamed again
            self.loose += 1
        else:
            known = tables()["role"]
            ends = [", transposed" if one == two and ".T" in it.role else "" for it in (a, b)]
            said = (known[it][MEANING] + end for it, end in zip((one, two), ends, strict=True))
            self.remark("equal", *said)


def numpy(out: tuple) -> str:
    """What is printed of a number or of a value, as a line of NumPy: head 1 is at 0."""
    counted = lambda role: sub(r"\d(?=\])", lambda it: f"{int(it[0]) - 1}", role)  # noqa: E731
    return written(out, False, counted, lambda size: size, SIGNS["numpy"])


@cache
def made_by(step: str) -> str:
    """What a step makes; of arrays that are all transposed it makes the transpose."""
    op, *parts = step.split()
    other = " ".join([op, *map(turned, parts[::-1] if op == "mul" else parts)])
    made = tables()["steps"]
    return made.get(step, "") or turned(made.get(other, ""))


def fit(lines: list, shown: dict, code: bool) -> list:
    """All readings of some lines, the likeliest first: `data.toml` says in which order."""
    letters, worlds, kept = read_first(lines, code), [], {}
    every = [node for line in lines for node in walk(line)]
    kinds = [("num" if number(it[1]) else "leaf") if it[0] == "leaf" else it[0] for it in every]
    kinds += [it[1] for it in every if it[0] == "fn"]
    most = 10**9  # no choice is known yet
    # code has rows, unless it writes W @ x.T
    either = not code or any(it[0] == "mul" and it[1][0] == "t" and it[1][2:] for it in every)
    sources = [it for it in entering(every) if it in letters]
    firsts = [node[2] for node in every if node[0] == "shape" and node[2:]]  # rows of weights
    shaped = any(it == "d|" or number(it) == "d_model" for it in firsts)
    for role_of, kind in choices(letters, sources, shaped, shown):
        weights = [it for it, its in role_of.items() if search("^[WP][_[]", its) and "()" not in it]
        for columns in (False, True) if weights or either else (False,):
            for stored in (False, True) if weights else (False,):  # a weight as nn.Linear has it
                flipped = {leaf: role_of.get(leaf, "") for leaf in letters}
                for leaf in letters:
                    if columns != (stored and leaf in weights):
                        flipped[leaf] = turned(flipped[leaf])
                world = World(flipped, shown, columns, code, kinds)
                world.run(lines, most)
                faults = len(world.faults)
                said = [it for leaf in letters for it in world.uses.get(shown.get(leaf), {})]
                sided = len(said) + (said == ["K", "Q"])  # s W h: s asks
                named = [sided, 6 * int(stored) + kind, int(columns)]
                world.key = [faults + world.loose, -world.steps, faults, 1, *named]
                most = min(most, world.key[0])
                worlds.append(world)
    worlds = [it for it in sorted(worlds, key=lambda it: it.key) if it.key[0] == most][:40]
    widths = [it.removesuffix("√") for it in leaves(*lines) if number(it) == "d_k"]
    for world in worlds:
        upright = world.key[5] < 6  # no text stores a weight as nn.Linear does
        whole = world.key[1] == worlds[0].key[1] and all(world.role_of.values())
        if upright and whole and not code:
            names = texts_of(world.role_of, widths, world.columns, shown)
            sided = "dot" in kinds or world.columns == world.turned  # as it was typed
            world.names = [it for it in names if sided or tables()["texts"][it]["upright"]]
            world.key[3] = 0 if world.names else 1
    for world in sorted(worlds, key=lambda world: world.key):
        said = " ".join([*map(bare, world.role_of.values()), str(world.columns)])
        kept.setdefault(said, world)
    return [*kept.values()]


def entering(nodes: list) -> list:
    """The letters that a layer takes, or in code a layer of weights."""
    given = [it for node in nodes if node[:2] == ("fn", "multihead") for it in node[2:]]
    given += [node[2] for node in nodes if node[0] == "call" and usual(node[1][1])[0]]
    given = [it[1] if it[0] == "pass" else it for it in given]
    scored = [it for node in nodes if node[:2] == ("fn", "score") for it in node[2:]]
    given += [it for it in scored if it[0] == "leaf" and not usual(it[1])[0]]
    alike = [it[1:] for it in nodes if it[0] == "eq" and all(x[0] == "leaf" for x in it[1:])]
    for its in alike:  # Q = K = V
        given += its if all(usual(it[1])[0] == "activation" for it in its) else ()
    pairs = [node[1:] for node in nodes if node[0] == "mul" and len(node) == 3]
    pairs += [node[2:] for node in nodes if node[0] == "inner"]
    for pair in [it for it in pairs if [each[0] for each in it] == ["leaf", "leaf"]]:
        meant = [usual(it[1]) for it in pair]
        free = [it[0] == "" and "W_O" not in it[2] for it in meant]
        weight = any(it[0] == "weight" for it in meant)
        given += [it for it, its in zip(pair, free, strict=True) if weight and its]
    return [it[1] for it in given if it[0] == "leaf"]


def read_first(lines: list, code: bool) -> list:
    """The letters whose roles are to be found: what code has assigned before has its value."""
    found, made = [], []
    for line in lines:
        named = code and line[0] == "eq"
        left, read = (leaves(line[1]), leaves(*line[2:])) if named else ([], leaves(line))
        kept = [leaf for leaf in left if usual(leaf)[0]]
        found += [it for it in [*kept, *read] if it not in made and not number(it)]
        made += [leaf for leaf in left if leaf not in kept]
    return [*dict.fromkeys(found)]
