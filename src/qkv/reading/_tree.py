r"""What was typed, as a tree: LaTeX, Unicode, plain text and Python are read by one grammar.

A node is a tuple that begins with its kind: `("leaf", "W|1Q")`, a letter with its scripts in order;
`("num", "8")`, `("sqrt", a)`, `("mul", a, b)`, `("dot", a, b)` of two vectors, `("add", a, b)`,
`("div", a, b)`, `("sum", a)`, `("t", a)`, `("fn", name, *arguments)`, `("call", leaf, a)`, a layer
by its name, `("list", *items)`, `("eq", *sides)`; of code `("swap", a)`, axes that change places,
`("free", a)`, axes that an einsum names,
`("cut", a)`, a reshape into heads, `("join", a)`, one back, `("part", a)`, a piece of three. In
`("pass", a, *others)` something is done to a that is not read; `("wrong", a, fault, said)` is a
mistake, and `("note", a, name, said)` a remark.
"""

import re
import unicodedata
from collections.abc import Iterator

from qkv.reading._data import DATA

WORDS = {name: said.split() for name, said in DATA["words"].items()}
FUNCTIONS = {name: op for op, names in DATA["functions"].items() for name in names.split()}
PAIRS = {"(": ")", "[": "]", "{": "}"}
ENDS = (*")]},;+-=|:", "for", "->")
Node = tuple | None
_ONE, _HALF, _WIDTH = ("num", "1"), ("num", "0.5"), ("leaf", "d_k|")
_DEEP, _LONG = 20, 300  # brackets in brackets, and signs in a line


class RefusedError(ValueError):
    """What was typed has a mistake in it that can be named."""


def parse(text: str) -> tuple[list[tuple], dict[str, str], list[str], bool]:
    """The trees of all lines, how each letter was typed, what was left, and whether it is code."""
    code = bool(re.search(DATA["code"], text, re.MULTILINE))
    code = code and not re.search(DATA["formula"], text)
    pieces = re.split(r"\n|;(?![^\[\]]*\])", text if code else normal(text))
    if not code:
        pieces = [it for one in pieces for it in re.split(DATA["between"], one)]
    lines, shown, left = [], {}, []
    for piece in map(str.strip, pieces):
        if code and re.match(DATA["aside"], piece):
            continue
        if code and re.match(DATA["branch"], piece):
            left.append(piece)
            continue
        said, _, sizes = piece.partition("∈")
        parser = Parser(said, code, text if len(pieces) == 1 else said)
        tree = parser.line()
        if tree and sizes:  # of R^{d_model × d_k}
            names = re.split(r"[*x]", sizes.split("^", 1)[-1].strip()[1:-1])
            found = [leaves(Parser(each, code=False).product()) for each in names]
            tree = ("shape", tree, *(each[0] for each in found if each))
        shown, left = parser.shown | shown, left + parser.left
        if tree:
            lines += tree[1:] if tree[0] == "lines" else [tree]
    return lines, shown, left, code


def walk(node: object) -> Iterator[tuple]:
    """A node and all within it."""
    if isinstance(node, tuple):
        yield node
        for part in node[1:]:
            yield from walk(part)


def leaves(*nodes: Node) -> list[str]:
    """The letters in some nodes, in order."""
    return [each[1] for node in nodes for each in walk(node) if each[0] == "leaf"]


def normal(text: str) -> str:
    """Unicode and LaTeX in one spelling; scripts keep their place, for K² is not K2."""
    for sign, written in DATA["scripts"].items():
        text = re.sub(written, rf"{sign}{{\g<0>}}", text)
    for pattern, plain in DATA["spelling"].items():
        text = re.sub(pattern, plain, text)
    return unicodedata.normalize("NFKC", text)


def _tokens(text: str, code: bool) -> list[str]:
    """Words and signs; in a formula letters side by side are a product."""
    if code:
        return re.findall(DATA["token"]["code"], re.sub(r"#.*|^\s*(return|>>>)\s", "", text))
    out: list[str] = []
    for token in re.findall(DATA["token"]["formula"], text):
        if out[-1:] in (["_"], ["^"]) and re.fullmatch(DATA["token"]["run"], token):
            out += token  # a script without braces is one sign
            continue
        known = token.lower() in FUNCTIONS or token.lower() in WORDS["whole"] + WORDS["of"]
        if known or not re.fullmatch("[A-Za-z]{2,}", token) or out[-1:] in (["_"], ["^"]):
            out.append(token)
        elif parts := re.fullmatch(DATA["token"]["lost"], token):  # Wq, dk: a script on the line
            out += [parts[1], "_", "{", parts[2], "}"]
        else:
            word = re.fullmatch(DATA["token"]["word"], token)
            for part in [token] if word else re.findall(DATA["token"]["parts"], token):
                out += [part] if word or len(part) == 1 else [part[0], "_", part[1]]
    return out


def _deeper(token: str) -> int:
    return (token in PAIRS) - (token in PAIRS.values())


class Parser:
    """Recursive descent over one line. What it cannot place is kept in `left`."""

    def __init__(self, text: str, code: bool, typed: str = ""):
        self.tokens, self.at, self.code, self.left = _tokens(text, code), 0, code, []
        self.shown: dict[str, str] = {}
        self.depth = 0
        awaited: list[str] = []
        for token in self.tokens:
            if token in PAIRS:
                awaited.append(token)
            elif token in PAIRS.values() and (not awaited or PAIRS[awaited.pop()] != token):
                raise RefusedError(DATA["refused"]["closes"].format((typed or text).strip(), token))
        if awaited:
            raise RefusedError(DATA["refused"]["open"].format((typed or text).strip(), awaited[-1]))
        if len(self.tokens) > _LONG:
            raise RefusedError(DATA["refused"]["deep"])

    def line(self) -> Node:
        """An expression, or several with = between them."""
        sides = [self._several()]
        while self._next():
            if self._take() == "=":
                sides.append(self._several())
            else:
                self.left.append(self.tokens[self.at - 1])
        if len(sides) < 2:
            return sides[0][0] if sides[0] else None
        if any(not side or side[0][0] in ("num", "made") or side[0] == _WIDTH for side in sides):
            return None  # of a size, or of a layer that is only made
        names, values = sides[0], sides[-1]
        if len(names) == len(values) > 1:  # q, k, v = x, x, x
            return ("lines", *(("eq", *pair) for pair in zip(names, values, strict=True)))
        first = names[0] if len(names) == 1 else ("list", *names)
        if not self.code and first[0] == "leaf" and first in walk(values[0]):
            return values[0]  # Q = Q W: on the left it is another thing
        return ("eq", first, *(side[0] for side in sides[1:]))

    def product(self) -> Node:
        """Factors, multiplied: with a sign, or side by side."""
        node, dot = None, False
        while self._next() and self._next() not in ENDS:
            token = self._next()
            if token in ("*", "@", "."):
                dot = self._take() != "@"
            elif token == "/":
                self._take()
                node = _divided(node or _ONE, self._factor())
            elif token == "T" and node and not self.code:  # QKT lost its sign
                self._take()
                node = (*node[:-1], ("t", node[-1])) if node[0] == "mul" else ("t", node)
            else:
                node, dot = _times(node, self._factor(), dot), False
        return node

    def _next(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def _take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def _several(self) -> list[tuple]:
        """Sums with a comma between them."""
        found = [self._sum()]
        while self._next() == ",":
            self._take()
            found.append(self._sum())
        return [each for each in found if each]

    def _sum(self) -> Node:
        node = self.product()
        while self._next() in ("+", "-"):
            minus = self._take() == "-"
            other = self.product()
            if minus:
                node = ("pass", node, other) if node else other and ("neg", other)
            else:
                node = ("add", node, other) if node and other else node or other
        return node

    def _factor(self) -> Node:
        """One thing with its scripts, and in code what is called on it."""
        self.depth += 1
        if self.depth > _DEEP:
            raise RefusedError(DATA["refused"]["deep"])
        token = self._take() if self._next() not in ("", *ENDS) else ""
        if token in PAIRS:
            inside = self._several()
            while self._next() not in PAIRS.values():
                self.left.append(self._take())
            self._take()
            node = inside[0] if len(inside) == 1 else ("list", *inside) if inside else None
        elif token == r"\frac":
            node = _divided(self._factor(), self._factor())
        elif token.lstrip("\\") == "sqrt":
            node = ("sqrt", self._factor())
        elif token == r"\sum":
            self._scripts()
            node = ("sum", self.product())
        elif token[:1].isdigit() or token[:1] in ("'", '"'):
            node = ("num", token)
        elif token[:1] == "\\" or token.isidentifier():
            node = self._name(token.lstrip("\\"))
        else:
            node = None
            self.left += [token] if token else []
        node = self._after(node)
        self.depth -= 1
        return node

    def _name(self, name: str) -> Node:
        """A letter, a function of what stands behind it, or in code a module or a call."""
        low = name.lower()
        if self.code and low in WORDS["modules"]:
            return self._member(None)
        if self.code:
            return self._call(name, None) if self._next() == "(" else self._letter(name)
        if low in FUNCTIONS:
            self._scripts()
            inside = self._factor() if self._next() in (*PAIRS, r"\frac") else self.product()
            return _applied("attention" if low in WORDS["attn"] else FUNCTIONS[low], _items(inside))
        if self._next() == "(" and low not in WORDS["whole"] + WORDS["of"]:
            began, left = self.at, len(self.left)
            items = _items(self._factor())
            if name in "fAa" and len(items) == 3:
                return ("fn", "attention", *items)
            if low in WORDS["score"] and len(items) == 2:
                return ("fn", "score", *items)
            if len(name) > 2 or not name.isascii():
                self.left.append(name)
                return ("fn", "unread", *items)
            self.at = began
            del self.left[left:]
        return self._letter(name)

    def _letter(self, name: str) -> Node:
        """A leaf: a base, and its scripts in order."""
        began = self.at
        scripts, turned, shared = self._scripts()
        typed = name + "".join(
            f"{each} " if len(each) > 1 and each[0] == "\\" else each
            for each in self.tokens[began : self.at]
        )
        typed = re.sub(r"\^(T|{T})$", "", re.sub(r"\{(\w)\}", r"\1", typed))
        if self.code and (parts := re.fullmatch(DATA["token"]["short"], name)):
            name, scripts = parts[1], [parts[2], *scripts]
        leaf = _marked(f"{name}|", re.sub(r"\W|_", "", "".join(scripts)))
        self.shown.setdefault(leaf, typed)
        if not self.code and name.lower() in WORDS["of"] and self._next() in ("[", "("):
            self._factor()
        node = ("note", ("leaf", leaf), "shared", typed) if shared else ("leaf", leaf)
        return ("t", node) if turned else node

    def _scripts(self) -> tuple[list[str], bool, bool]:
        """What stands above and below, whether a T transposes, and whether heads share it: g(i)."""
        found, turned, shared = [], False, False
        while self._next() == "^" or (self._next() == "_" and not self.code):
            above, text, depth = self._take() == "^", "", 0
            while self._next() and (depth or self._next() not in PAIRS.values()):
                token = self._take()
                depth += _deeper(token)
                text += token
                if depth <= 0:
                    break
            if re.search(DATA["token"]["shared"], text):
                text, shared = "i", True
            text = re.sub(r"[{}()\\,<>]", "", text)
            if above and text.endswith("T") and text != "DT":
                turned, text = True, text[:-1]
            found += [text] if text else []
        return found, turned, shared

    def _after(self, node: Node) -> Node:
        """What follows a thing: a script, a member, an index, a power, a call."""
        while token := self._next():
            if token == "^" or (token == "_" and not self.code):
                found, turned, _ = self._scripts()
                node = ("t", node) if turned and node else node
                self.left += [] if turned else found
            elif self.code and token == "." and self._next(1).isidentifier():
                self._take()
                node = self._member(node)
            elif self.code and token == "[":
                node = self._indexed(node)
            elif self.code and token == "**":
                self._take()
                node = _power(node, self._sum() if self._next() == "-" else self._factor())
            elif self.code and token == "(" and node and node[0] == "made":
                node = self._call(node[1], None)
            else:
                break
        return node

    def _indexed(self, node: Node) -> Node:
        """A piece of an array: of one head, of three weights in one, or by its name."""
        index = ",".join(said for _, _, said in self._arguments())
        if not node and index[:1] in ("'", '"'):
            return self._letter(index[1:-1])
        if not node or node == _WIDTH:
            return node
        if node[0] == "leaf" and re.fullmatch(r"i|h|head|\d", index) and "qkv" not in node[1]:
            key = _marked(node[1], index[0])
            self.shown.setdefault(key, f"{self.shown[node[1]]}[{index}]")
            return ("leaf", key)
        return ("part" if re.fullmatch(r"\d|\w*:\w*", index) else "pass", node)

    def _member(self, owner: Node) -> Node:
        """What stands behind a point: a transpose, a call, or a name of a module."""
        self.at += self._next() == "."
        if not self._next().isidentifier():
            return owner
        name = self._take()
        if name in ("T", "mT") and owner:
            return ("t", owner)
        if self._next() == "(":
            return self._call(name, owner)
        if owner:
            if name != "shape":
                return owner
            other = self._next() == "[" and self.tokens[self.at + 1 : self.at + 3] != ["-", "1"]
            return ("pass", _WIDTH) if other else _WIDTH
        module = name.lower() in WORDS["modules"] or self._next(1) not in WORDS["methods"]
        if self._next() == "." and module:
            return self._member(None)
        return self._letter(name)

    def _arguments(self) -> list[tuple[str, Node, str]]:
        """Of each argument in the bracket that opens here: its name, its tree, and its text."""
        found = []
        self._take()
        while self._next() not in PAIRS.values():
            key = self._take() if self._next(1) == "=" and self._next() not in PAIRS else ""
            self.at += bool(key)
            began, kept, depth = self.at, len(self.left), 0
            node = self._sum()
            read = self.at, len(self.left)
            while depth or self._next() not in (",", *PAIRS.values()):
                depth += _deeper(self._take())
            if read != (self.at, kept):
                node = node and ("pass", node)
            del self.left[kept:]
            found.append((key, node, "".join(self.tokens[began : self.at])))
            self.at += self._next() == ","
        self._take()
        return found

    def _call(self, name: str, owner: Node) -> Node:
        """What a call makes of arrays; batches are left out."""
        op, given = FUNCTIONS.get(name.lower(), ""), self._arguments()
        values = [owner] * bool(owner) + [node for key, node, _ in given if node and not key]
        said = [text for key, _, text in given if not key]
        keys = {key: node for key, node, _ in given if key}
        first = values[0] if values else None
        if name == "size":
            return _WIDTH if said in ([], ["-1"]) else ("pass", _WIDTH)
        if op == "einsum":
            return _einsum(said, _items(("list", *values[1:])), self.shown)
        if op in ("attention", "multihead", "made"):
            return _layer(name, op, values, keys)
        if op == "linear" and len(values) < 2:
            return ("made", name)
        if not first:
            self.left.append(name)
            return None
        if op == "moved":
            said += [text for key, _, text in given if key in ("perm", "axes")]
            return _moved(name, said[not owner :], first)
        if op in ("product", "linear") and len(values) > 1:
            flip = op == "linear" or "transpose_b" in keys
            node = _times(first, ("t", values[1]) if flip else values[1], name == "dot")
            return ("add", node, values[2]) if op == "linear" and len(values) > 2 else node
        if op == "softmax":
            axis = [f"{key}={text}" for key, _, text in given if key in ("dim", "axis")]
            wrong = any(re.fullmatch(r"\w+=(0|-2)", each) for each in axis)
            node = ("fn", "softmax", first)
            return ("wrong", node, "softmax", axis[0]) if wrong else node
        if op:
            return _applied(op, _items(("list", *values)))
        if name in WORDS["methods"]:
            return first
        if len(values) == 1 and not owner:  # self.q_proj(x): a layer of weights, by its name
            self.shown.setdefault(f"{name}()|", name)
            return ("call", ("leaf", f"{name}()|"), first)
        self.left.append(name)
        return ("pass", *values)


def _items(node: Node) -> list[tuple]:
    """The arguments in a bracket, those of a list of one among them."""
    if node and node[0] == "list":
        return [it for each in node[1:] for it in (_items(each) if node[2:] == () else [each])]
    return [node] if node else []


def _marked(leaf: str, mark: str) -> str:
    base, marks = leaf.split("|")
    return f"{base}|{''.join(sorted(marks + mark))}"


def _divided(a: Node, b: Node) -> Node:
    """A fraction; an exponential over a sum of such is a softmax."""
    exps = [each for each in walk(b) if each[:2] == ("fn", "exp")]
    if a and a[:2] == ("fn", "exp") and exps:
        return ("fn", "softmax", *a[2:])
    return ("div", a, b)


def _times(a: Node, b: Node, dot: bool) -> Node:
    if not (a and b):
        return a or b
    vectors = dot and all(each[0] == "leaf" and each[1][0] in "qk" for each in (a, b))
    if vectors or a[0] not in ("mul", "dot"):
        return ("dot" if vectors else "mul", a, b)
    return (*a, b)


def _power(node: Node, power: Node) -> Node:
    """A root, or one over it; no other power is read."""
    minus = bool(power) and power[0] == "neg"
    half = (power[1] if minus else power) in (_HALF, ("div", _ONE, ("num", "2")))
    node = ("sqrt", node) if half else ("pass", node)
    return ("div", _ONE, node) if minus else node


def _applied(op: str, values: list) -> Node:
    if op == "sqrt":
        return ("sqrt", values[0] if values else None)
    return ("pass", *values) if op == "same" else ("fn", op, *values)


def _layer(name: str, op: str, values: list, keys: dict) -> Node:
    """A function or a layer that takes queries, keys and values, in the order of its library."""
    arrays = [each for each in values if each[0] != "num"]
    named = {key: keys.pop(key) for key in WORDS["arguments"] if key in keys}
    if op != "attention" and not (arrays or named):
        return ("made", name)
    given = dict(zip(DATA["order"].get(name, "QKV"), arrays, strict=False))
    given |= {key[0].upper(): node for key, node in named.items()}
    given.setdefault("V", given.get("K"))
    given.setdefault("K", given["V"])
    op = "attention" if op == "attention" else "multihead"
    node = ("fn", op, *(given[letter] for letter in "QKV" if given.get(letter)))
    more = arrays[3:] or [key for key in keys if re.search("mask|causal|bias", key)]
    return ("pass", node) if more else node


def _moved(name: str, said: list[str], node: tuple) -> Node:
    """A reshape, or axes in another order."""
    if name == "rearrange":
        left, _, right = "".join(said[:1]).strip("'\"").partition("->")
        group = re.search(r"\(([^()]*)\)", left)
        if group and not re.search("h|d", group[1]):
            return ("pass", node)
        if group:
            names = group[1].split()
            three = [each for each in names if each in WORDS["three"]]
            node = ("cut", node) if len(names) > len(three) + 1 else node
            return ("part", node) if three else node
        ends = left.split()[-2:], right.split()[-2:]
        return ("join", node) if "(" in right else ("t", node) if ends[0][::-1] == ends[1] else node
    if len(said) == 1 and said[0][:1] in PAIRS:
        said = said[0][1:-1].split(",")
    if name == "permute" or (name == "transpose" and len(said) > 2):
        return node if said[-1:] in ([], [max(said)]) else ("t", node)
    if name in ("transpose", "swapaxes", "t"):
        axes = {*said[-2:]}
        if axes in ({"-1", "-2"}, {"2", "3"}) or not axes:
            return ("t", node)
        return node if node[0] in ("cut", "wrong") or axes == {"-2", "-3"} else ("swap", node)
    if name in ("split", "chunk", "unbind"):
        return ("part", node)
    heads = [n for n, each in enumerate(said) if re.fullmatch(DATA["token"]["heads"], each)]
    length = [n for n, each in enumerate(said) if n and re.fullmatch(DATA["token"]["length"], each)]
    merged = node[0] != "swap" and re.search(r"\*.*(heads?|h)$", "".join(said[:1]))
    if (heads and length and heads[0] < length[0]) or merged:
        return ("wrong", node, "view", ", ".join(said))
    if len(said) > 3:  # heads before their width
        return ("cut" if heads in ([], [len(said) - 2]) else "pass", node)
    return ("join" if name == "flatten" or len(said) == 3 else "pass", node)


def _einsum(said: list[str], arrays: list, shown: dict[str, str]) -> Node:
    """Two operands; what is summed tells which of them is turned. Shared letters are batches."""
    equation = "".join(said[:1])
    left, _, out = re.sub(r"[^A-Za-z,>]", "", equation).partition(">")
    parts = left.split(",")
    if len(parts) != len(arrays):
        raise RefusedError(DATA["refused"]["einsum"].format(equation, len(parts), len(arrays)))
    for letter in out:
        if letter not in left:
            raise RefusedError(DATA["refused"]["letter"].format(letter, out, left))
    if len(parts) != 2:
        return ("pass", *arrays)
    (a, b), (one, two) = parts, arrays
    own_a, own_b = [x for x in a if x not in b], [x for x in b if x not in a]
    summed = [x for x in a if x in b and x not in out]
    lost = [x for x in own_a + own_b if x not in out]
    if lost:
        rest = "".join(x for x in a if x != a[-1]) + "".join(own_b)
        return ("wrong", ("pass", one, two), "einsum", lost[0], f"{left}->{rest}")
    if not summed:
        return ("pass", one, two)
    if two[0] == "leaf" and len(own_b) == 2:  # heads have an axis of their own
        key = _marked(two[1], "i")
        shown[key] = shown[two[1]]
        two = ("leaf", key)
    if own_a and a.index(summed[0]) < a.index(own_a[-1]):
        one = ("t", one)
    node = ("mul", one, ("free", two))  # whether it came turned, its letters do not tell
    other = own_a and own_b and out.index(own_a[-1]) > out.index(own_b[-1])
    return ("t", node) if other else node
