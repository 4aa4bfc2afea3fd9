r"""What was typed, as a tree: LaTeX, Unicode, plain text and Python are read by one grammar.

A node is a tuple that begins with its kind: `("leaf", "W|1Q")`, a letter with its scripts in order;
`("mul", a, b)`, `("add", a, b)`, `("div", a, b)`, `("dot", a, b)`, `("t", a)`, `("sqrt", a)`,
`("num", "8")`, `("fn", name, *arguments)`, `("eq", *sides)`; of code `("cut", a)`, a reshape into
heads, `("join", a)`, one back, `("part", a)`, a piece of three, and `("wrong", a, fault, said)`.
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


class RefusedError(ValueError):
    """What was typed has a mistake in it that can be named."""


def parse(text: str) -> tuple[list[tuple], dict[str, str], list[str], bool]:
    """The trees of all lines, how each letter was typed, what was left, and whether it is code."""
    code = bool(re.search(DATA["code"], text)) and not re.search(DATA["formula"], text)
    pieces = re.split(r"\n|;", text if code else normal(text))
    if not code:
        pieces = [it for one in pieces for it in re.split(DATA["between"], one)]
    lines, shown, left = [], {}, []
    for piece in filter(str.strip, pieces):
        piece, _, sizes = piece.partition("∈")
        parser = Parser(piece, code)
        tree = parser.line()
        if tree and sizes:  # of R^{d_model × d_k}
            names = [
                Parser(each, code=False).product()
                for each in re.split(r"[*x]", sizes.split("^", 1)[-1].strip()[1:-1])
            ]
            tree = ("shape", tree, *names)
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
            word = len(token) > 3 and not re.fullmatch("[QKVWXTOA]+", token)
            for part in [token] if word else re.findall(DATA["token"]["parts"], token):
                out += [part] if word or len(part) == 1 else [part[0], "_", part[1]]
    return out


class Parser:
    """Recursive descent over one line. What it cannot place is kept in `left`."""

    def __init__(self, text: str, code: bool):
        self.tokens, self.at, self.code, self.left = _tokens(text, code), 0, code, []
        self.shown: dict[str, str] = {}
        awaited: list[str] = []
        for token in self.tokens:
            if token in PAIRS:
                awaited.append(token)
            elif token in PAIRS.values() and (not awaited or PAIRS[awaited.pop()] != token):
                raise RefusedError(DATA["refused"]["closes"].format(text.strip(), token))
        if awaited:
            raise RefusedError(DATA["refused"]["open"].format(text.strip(), awaited[-1]))

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
        if any(not side or side[0][0] in ("num", "made") for side in sides):
            return None  # of a size, or of a layer that is only made
        names, values = sides[0], sides[-1]
        if len(names) == len(values) > 1:  # q, k, v = x, x, x
            return ("lines", *(("eq", *pair) for pair in zip(names, values, strict=True)))
        first, value = names[0], values[0]
        if self.code and len(names) > 2 and value[0] != "part":
            value = ("part", value)
        if self.code and len(sides) == 2 and first in walk(value):
            return value  # q = q.view(...): the letter is another thing afterwards
        between = [side[0] for side in sides[1:-1]]
        return ("eq", first, *between, value)

    def product(self) -> Node:
        """Factors, multiplied: with a sign, or side by side."""
        node, dot = None, False
        while self._next() and self._next() not in ENDS:
            token = self._next()
            if token in ("*", "@", "."):
                dot = self._take() != "@"
            elif token == "/":
                self._take()
                if self._next() == r"\sum":
                    self._take()
                    self._scripts()
                node = _divided(node or ("num", "1"), self._factor())
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
            self._take()
            other = self.product()
            node = ("add", node, other) if node and other else node or other
        return node

    def _factor(self) -> Node:
        """One thing with its scripts, and in code what is called on it."""
        if not self._next():
            return None
        token = self._take()
        if token in PAIRS:
            inside = self._several()
            depth = 1
            while depth and self._next():
                depth += (self._next() in PAIRS) - (self._next() in PAIRS.values())
                self.left += [self._take()][: depth > 0]
            node = inside[0] if len(inside) == 1 else ("several", *inside) if inside else None
        elif token == r"\frac":
            node = _divided(self._factor(), self._factor())
        elif token.lstrip("\\") == "sqrt":
            node = ("sqrt", self._factor())
        elif token == r"\sum":
            self._scripts()
            node = self.product()
            return ("dot", *node[1:]) if node and node[0] == "mul" else node
        elif token[0].isdigit() or token[0] in "\"'":
            node = ("num", token)
        elif token[0] == "\\" or token.isidentifier():
            return self._name(token.lstrip("\\"))
        else:
            self.left.append(token)
            return None
        return self._after(node)

    def _name(self, name: str) -> Node:
        """A letter, a function of what stands behind it, or in code a module or a call."""
        low = name.lower()
        if self.code and low in WORDS["modules"]:
            return self._member(None)
        if self.code and self._next() == "(":
            return self._call(name, None)
        three = name in "fAa" and self._next() == "(" and len(self._arguments()) == 3
        if not self.code and (low in FUNCTIONS or three):
            self._scripts()
            inside = self._factor() if self._next() in (*PAIRS, r"\frac") else self.product()
            given = inside[1:] if inside and inside[0] == "several" else (inside,)
            op = "attention" if three else FUNCTIONS[low]
            return self._after(_applied(op, [each for each in given if each]))
        return self._after(self._letter(name))

    def _letter(self, name: str) -> Node:
        """A leaf: a base, and its scripts in order."""
        began = self.at
        scripts, turned = self._scripts()
        typed = name + "".join(self.tokens[began : self.at])
        typed = re.sub(r"\^(T|{T})$", "", re.sub(r"\{(\w)\}", r"\1", typed))
        if self.code and (parts := re.fullmatch(DATA["token"]["short"], name)):
            name, scripts = parts[1], [parts[2], *scripts]
        marks = "".join(sorted(re.sub(r"\W|_", "", "".join(scripts))))
        self.shown.setdefault(f"{name}|{marks}", typed)
        if not self.code and name.lower() in WORDS["of"] and self._next() in ("[", "("):
            self._factor()
        node = ("leaf", f"{name}|{marks}")
        return ("t", node) if turned else node

    def _scripts(self) -> tuple[list[str], bool]:
        """What stands above and below, and whether a T among it transposes."""
        found, turned = [], False
        while self._next() == "^" or (self._next() == "_" and not self.code):
            above, text, depth = self._take() == "^", "", 0
            while self._next():
                token = self._take()
                depth += (token in PAIRS) - (token in PAIRS.values())
                text += token
                if depth <= 0:
                    break
            text = re.sub(r"[{}()\\,<>]", "", text)
            if above and text.endswith("T") and text != "DT":
                turned, text = True, text[:-1]
            found += [text] if text else []
        return found, turned

    def _after(self, node: Node) -> Node:
        """What follows a thing: a script, a member, an index, a power, a call."""
        while token := self._next():
            if token == "^" or (token == "_" and not self.code):
                found, turned = self._scripts()
                node = ("t", node) if turned and node else node
                self.left += [] if turned else found
            elif self.code and token == "." and self._next(1).isidentifier():
                self._take()
                node = self._member(node)
            elif self.code and token == "[":
                node = self._indexed(node)
            elif self.code and token == "**":
                self._take()
                self.at += self._next() == "-"
                self._factor()
                node = ("sqrt", node)
            elif self.code and token == "(" and node == ("made",):
                node = self._call("multihead", None)
            else:
                break
        return node

    def _indexed(self, node: Node) -> Node:
        """A piece of an array: of one head, of three weights in one, or by its name."""
        index = ",".join(self._arguments())
        self._skip()
        if not node and index[:1] in ("'", '"'):
            return self._letter(index[1:-1])
        if node and node[0] == "leaf" and re.fullmatch(r"i|h|head|\d", index):
            if "qkv" in node[1]:
                return ("part", node)
            key = _marked(node[1], index[0])
            self.shown.setdefault(key, f"{self.shown[node[1]]}[{index}]")
            return ("leaf", key)
        return ("part", node) if node and re.match(r"[\w*]*:", index) else node

    def _member(self, owner: Node) -> Node:
        """What stands behind a point: a transpose, a call, or a name of a module."""
        if not owner and self._next() != ".":
            return self._after(None)
        self.at += self._next() == "."
        name = self._take() if self._next() else ""
        if name in ("T", "mT") and owner:
            return ("t", owner)
        if self._next() == "(":
            return self._call(name, owner)
        if owner:
            return ("num", name) if name == "shape" else owner
        if self._next() == "." and self._next(1) not in WORDS["methods"]:
            return self._member(None)
        return self._after(self._letter(name))

    def _arguments(self) -> list[str]:
        """The arguments in the bracket that opens here, as they were typed."""
        found, depth = [""], 0
        for token in self.tokens[self.at :]:
            depth += (token in PAIRS) - (token in PAIRS.values())
            if not depth:
                break
            if token == "," and depth == 1:
                found.append("")
            elif depth > 1 or token not in PAIRS or found[-1]:
                found[-1] += token
        return [each for each in found if each]

    def _skip(self) -> None:
        depth = 0
        while self._next():
            token = self._take()
            depth += (token in PAIRS) - (token in PAIRS.values())
            if not depth:
                break

    def _call(self, name: str, owner: Node) -> Node:
        """A call, as what it does to arrays; batches are left out."""
        said = self._arguments()
        began = self.at
        self._skip()
        ended = self.at
        values, named, self.at = [], {}, began + 1
        while self.at < ended - 1:
            key = self._next() if self._next(1) == "=" else ""
            self.at += 2 * bool(key)
            kept = len(self.left)
            named[key or len(values)] = value = self._sum()
            values += [value] if value and not key else []
            del self.left[kept:]
            depth = 0
            while self.at < ended - 1 and (depth or self._next() != ","):
                depth += (self._next() in PAIRS) - (self._next() in PAIRS.values())
                self.at += 1
            self.at += 1
        self.at = ended
        values += [named[key] for key in WORDS["arguments"] if named.get(key)]
        return self._after(self._called(name, said, [owner] * bool(owner) + values, bool(owner)))

    def _called(self, name: str, said: list[str], values: list, owned: bool) -> Node:
        """What a function of this name makes of its arguments."""
        op = FUNCTIONS.get(name.lower(), "")
        first = values[0] if values else None
        if op == "einsum":
            arrays = values[1][1:] if len(values) == 2 and values[1][0] == "several" else values[1:]
            return _einsum(said, arrays, self.shown)
        if op == "linear" and len(values) < 2 + (first[0] == "num" if first else 1):
            self.shown["new()|"] = name
            return ("leaf", "new()|")  # a layer that is made here has no name yet
        if op == "made" or (op == "multihead" and first and first[0] == "num"):
            tensors = any(each[0] == "leaf" for each in values)
            return ("fn", "multihead", *values[:3]) if tensors else ("made",)
        if op in ("view", "permute", "transpose", "rearrange") and first:
            return _moved(op, [each for each in said if "=" not in each][not owned :], first)
        if op == "split" and first:
            return ("part", first)
        if op in ("product", "linear") and len(values) > 1:
            flip = op == "linear" or "transpose_b=True" in said
            return ("mul", first, ("t", values[1]) if flip else values[1])
        if op == "softmax" and first:
            axis = next((each for each in said if re.fullmatch(r"(dim|axis)=(0|-2)", each)), "")
            node = ("fn", "softmax", first)
            return ("wrong", node, "softmax", axis) if axis else node
        if op and values:
            return _applied(op, values)
        if name == "size":
            return ("num", name)
        if owned or name in WORDS["methods"]:
            return first
        if len(values) == 1:  # self.q_proj(x): a layer of weights, by its name
            self.shown.setdefault(f"{name}()|", name)
            return ("mul", first, ("leaf", f"{name}()|"))
        self.left.append(name)
        return None


def _marked(leaf: str, mark: str) -> str:
    base, marks = leaf.split("|")
    return f"{base}|{''.join(sorted(marks + mark))}"


def _divided(a: Node, b: Node) -> Node:
    """A fraction; an exponential over a sum of such is a softmax."""
    softmax = a and a[:2] == ("fn", "softmax") and any(each[:2] == a[:2] for each in walk(b))
    return a if softmax else ("div", a, b)


def _times(a: Node, b: Node, dot: bool) -> Node:
    if not (a and b):
        return a or b
    vectors = dot and all(each[0] == "leaf" and each[1][0] in "qk" for each in (a, b))
    return ("dot" if vectors else "mul", a, b)


def _applied(op: str, values: list) -> Node:
    if op == "product" and len(values) > 1:
        return ("mul", *values[:2])
    if op == "sqrt":
        return ("sqrt", values[0])
    if op == "same":
        return values[0] if values else None
    return ("fn", op, *values[:3])


def _moved(op: str, said: list[str], node: tuple) -> Node:
    """A reshape, or axes in another order."""
    if op == "rearrange":
        return ("cut" if "(" in "".join(said).partition("->")[0] else "join", node)
    if op == "transpose":
        return ("t", node) if {*said[-2:]} in ({"-1", "-2"}, {"2", "3"}) else node
    if op == "permute":
        return ("t", node) if said[-2:] in (["3", "2"], ["2", "1"]) else node
    heads = [n for n, each in enumerate(said) if re.fullmatch(DATA["token"]["heads"], each)]
    length = [n for n, each in enumerate(said) if n and re.fullmatch(DATA["token"]["length"], each)]
    if (heads and length and heads[0] < length[0]) or re.search(
        r"\*.*(heads?|h)$", "".join(said[:1])
    ):
        return ("wrong", node, "view", ", ".join(said))
    return ("cut", node) if heads and len(said) > 3 else ("join", node) if len(said) == 3 else node


def _einsum(said: list[str], arrays: list, shown: dict[str, str]) -> Node:
    """Two operands; what is summed tells which of them is turned. Shared letters are batches."""
    left, _, out = re.sub(r"[^A-Za-z,>]", "", said[0]).partition(">")
    parts = left.split(",")
    if len(parts) != len(arrays):
        raise RefusedError(DATA["refused"]["einsum"].format(said[0], len(parts), len(arrays)))
    for letter in out:
        if letter not in left:
            raise RefusedError(DATA["refused"]["letter"].format(letter, out, left))
    if len(parts) != 2:
        return arrays[0]
    (a, b), (one, two) = parts, arrays
    summed = [x for x in a if x in b and x not in out]
    own_a, own_b = [x for x in a if x not in b], [x for x in b if x not in a]
    if summed and two[0] == "leaf" and len(own_b) == 2:  # heads have an axis of their own
        key = _marked(two[1], "i")
        shown[key] = shown[two[1]]
        two = ("leaf", key)
    if summed and own_a and a.index(summed[0]) < a.index(own_a[-1]):
        one = ("t", one)
    if summed and own_b and b.index(summed[0]) > b.index(own_b[-1]):
        two = ("t", two)
    return ("mul", one, two)
