r"""What was typed, as a tree: LaTeX, Unicode, plain text and Python are read by one grammar.

A node is a tuple that begins with its kind: `("leaf", "W|1Q")` is a letter with its scripts in
order, `("dot", a, b)` a product of two vectors, `("inner", axes, a, b)` an einsum, in whose axes
the sign 1 is that of a, and 2 that of b, `("times", a, b)` number by number, `("call", leaf, a)` a
layer by its name; in code `("swap", a)` exchanges heads and tokens, `("flip", a)` axes 1 and 2,
`("moved", a)` others; `("cut", a)` is a reshape into heads, `("three", a)` into three and heads,
`("join", a)` one back, `("part", a)` a piece of three. `("pass", a)` leaves what a is, in
`("lost", a)` it is not known, `("wrong", fault, a, said)` is a mistake, `("note", …)` a remark.
"""

from qkv.reading._data import DATA
from qkv.reading._patterns import cut, findall, fullmatch, normalize, search, sub

WORDS = {name: said.split() for name, said in DATA["words"].items()}
FUNCTIONS = {name: op for op, names in DATA["functions"].items() for name in names.split()}
PAIRS = {"(": ")", "[": "]", "{": "}"}
CALLS = [
    (sub(r"<(\w+)>", lambda it: DATA["token"][it[1]], pattern), meaning.split())
    for pattern, meaning in DATA["calls"].items()
]
ENDS = [*")]},;+-=|:", "for", "->", *WORDS["ends"]]
WIDTH, COUNT = ("leaf", "d_k|"), ("leaf", "shape[0]|")
ONE = ("num", "1")
DEEP, LONG = 20, 300  # brackets in brackets, and signs in a line


class RefusedError(ValueError):
    """What was typed has a mistake in it that can be named."""


def parse(text: str) -> tuple:
    """The trees of all lines, how each letter was typed, what was left, and whether it is code."""
    code = bool(search(DATA["code"], text, lines=True)) and not search(DATA["formula"], text)
    typed = whole_lines(normalize(sub(r"#.*", "", text)) if code else normal(text))
    one = fullmatch(DATA["lines"]["names"], typed)
    pieces = [typed] if one else cut(DATA["lines"]["code" if code else "formula"], typed)
    if not code and any(sum(map(deeper, it)) for it in pieces):  # MultiHead(Q=X, K=Y)
        pieces = cut("\n", typed)
    if pieces[1:] and "=" not in pieces[0] and " ".join(pieces[:2]) in typed:  # q_m^T k_n = …
        pieces = [" ".join(pieces[:2]), *pieces[2:]]
    lines, shown, left = [], {}, []
    aside = DATA["aside"] if code else DATA["prose"] if pieces[1:] else "^$"
    for piece in [it.strip() for it in pieces]:
        said, space = [*(unfolded(piece) if code else piece).split("∈"), ""][:2]
        if sum(map(deeper, said)):  # i ∈ heads, as a script
            said, space = piece, ""
        if code and search(DATA["branch"], said):
            left.append(said)
        elif not search(aside, piece):
            parser = Parser(said, code, text if len(pieces) == 1 else said, text)
            tree = parser.line()
            if tree and space:  # of R^{d_model × d_k}
                sizes = cut("[*x]", sub(r"^[^^]*\^?\s*.|.\s*$", "", space))
                named = [leaves(Parser(it, typed=it).product()) for it in sizes]
                tree = ("shape", tree, *(" ".join(each) for each in named if each))
            shown, left, tree = parser.shown | shown, left + parser.left, sized(tree)
            if tree:
                lines += tree[1:] if tree[0] == "lines" else [tree]
    return lines, shown | {f"{it}√": said for it, said in shown.items()}, left, code


def sized(node: object) -> object:
    """The same, with a mark at a letter that stands alone below a root or a line: it is a size."""
    if not isinstance(node, tuple):
        return node
    end = node[-1] if node[0] in ("sqrt", "div") else None
    node = tuple(map(sized, node))
    return (*node[:-1], ("leaf", f"{end[1]}√")) if end and end[0] == "leaf" else node


def walk(node: object) -> list:
    """A node and all within it."""
    if not isinstance(node, tuple):
        return []
    return [node, *(each for part in node[1:] for each in walk(part))]


def leaves(*nodes: tuple) -> list:
    """The letters in some nodes, in order."""
    return [each[1] for node in nodes for each in walk(node) if each[0] == "leaf"]


def normal(text: str) -> str:
    """Unicode and LaTeX in one spelling; scripts keep their place, for K² is not K2."""
    for letter in findall(r"([A-Z])['′]\s*=", text):  # A' = …: it is no transpose
        text = sub(f"{letter}['′]", f"{letter}_{{ʹ}}", text)
    for sign, written in DATA["scripts"].items():
        text = sub(written, sign + r"{\g<0>}", text)
    for pattern, plain in DATA["spelling"].items():
        text = sub(pattern, plain, text)
    text = normalize(text).strip()
    return text if search(DATA["token"]["time"], text) else sub(DATA["token"]["turn"], "^T", text)


def whole_lines(text: str) -> str:
    """Lines that end where their brackets are closed."""
    said, depth = "", 0
    for sign in text:
        depth += deeper(sign)
        said += " " if sign == "\n" and depth > 0 else sign
    return text if depth else said


def unfolded(line: str) -> str:
    """A line of code without +=, and with what a lambda does to each of some written out."""
    for pattern, written in DATA["unfolded"].items():
        line = sub(pattern, written, line)
    found = search(DATA["lines"]["each"], line)
    if not found:
        return line
    every = cut(",", found[4].strip("([])"))
    said = ", ".join(sub(rf"\b{found[2]}\b", it.strip(), found[3]) for it in every)
    return f"{found[1]}= {said}"


def tokens(text: str, code: bool) -> list:
    """Words and signs; in a formula letters side by side are a product."""
    if code:
        return findall(DATA["token"]["code"], sub(r"^\s*(return|>>>)\s", "", text))
    found = []
    for token in findall(DATA["token"]["formula"], text):
        after_sign = found[-1:] in (["_"], ["^"])
        known = token.lower() in FUNCTIONS or token.lower() in WORDS["whole"] + WORDS["of"]
        lost = fullmatch(DATA["token"]["lost"], token)
        known = known or (not lost and fullmatch(DATA["token"]["word"], token))
        above = found[-1:] == ["^"] and token in ("QK", "OV", "KV")
        if above or (after_sign and fullmatch(DATA["token"]["run"], token)):
            found += [*token]  # a script without braces is one sign
        elif known or after_sign or not fullmatch("[A-Za-z]{2,}", token):
            found.append(token)
        elif lost:  # Wq, dk: a script on the line
            found += [lost[1], "_", "(", lost[2], ")"]
        else:
            for part in findall(DATA["token"]["parts"], token):
                found += [part] if len(part) == 1 else [part[0], "_", part[1]]
    return found


def deeper(token: str) -> int:
    """How much deeper in brackets a token leads."""
    return 1 if token in PAIRS else -1 if token in PAIRS.values() else 0


class Parser:
    """Recursive descent over one line. What it cannot place is kept in `left`."""

    def __init__(self, text: str, code: bool = False, typed: str = "", whole: str = ""):
        self.tokens, self.at, self.code, self.left = tokens(text, code), 0, code, []
        self.shown, self.depth = {}, 0
        self.order = "QVK" if search(DATA["keras"], whole) else "QKV"
        self.arrows, awaited = "\\vec" in whole, []
        for token in self.tokens:
            if token in PAIRS:
                awaited.append(token)
            elif deeper(token) < 0 and (not awaited or PAIRS[awaited.pop()] != token):
                raise RefusedError(DATA["refused"]["closes"].format(typed.strip(), token))
        if awaited:
            raise RefusedError(DATA["refused"]["open"].format(typed.strip(), awaited[-1]))
        if len(self.tokens) > LONG:
            raise RefusedError(DATA["refused"]["deep"])

    def line(self) -> tuple | None:
        """An expression, or several with = between them."""
        sides = [self._several()]
        while self._next():
            if self._take() == "=":
                sides.append(self._several())
            else:
                self.left.append(self.tokens[self.at - 1])
        for side in sides if sides[1:] and not self.code else []:  # [q_1; q_2] = q is not read
            apart = side and (side[0][0] == "list" or side[0][:2] == ("fn", "concat"))
            parts = leaves(*side) if apart else []
            others = [it[0][1][0] for it in sides if it and it[0][0] == "leaf"]
            alike = parts[1:] and len({it[0] for it in parts}) == 1
            alike = alike and not any("R" in it for it in parts)  # DeepSeek's: one is rotated
            if alike and (side == sides[0] or parts[0][0] in others):
                self.left += [self.shown[it] for it in parts]
                sides = [it for it in sides if it != side]
                if len(sides) == 1 and others:
                    return None
        names, values = sides[0], sides[-1]
        while names[1:] and names[-1] == ("leaf", "_|"):
            names.pop()
        if values and values[0][0] == "each":  # q, k = apply_rotary(q, k, cos)
            its = values[0][1:]  # by name, or by place
            taken = [it if it in its else its[n % len(its)] for n, it in enumerate(names)]
            values = [("pass", it) for it in taken]
            sides[-1] = values
        if len(sides) < 2:
            return ("lines", *names) if names[1:] else names[0] if names else None
        if any(not it or it[0][0] in ("num", "made") or it[0] in (WIDTH, COUNT) for it in sides):
            return None  # of a size, or of a layer that is only made
        if len(names) == len(values) > 1:  # q, k, v = x, x, x
            return ("lines", *(("eq", a, b) for a, b in zip(names, values, strict=True)))
        first = names[0] if len(names) == 1 else ("list", *names)
        if not self.code and first[0] == "leaf" and first in walk(values[0]):
            return values[0]  # Q = Q W: on the left it is another thing
        more = [] if self.code or names[1:] else values[1:]  # Q = X W, softmax(Q K) V
        self.left += [self.shown[it[1]] for it in more if it[0] == "leaf"]
        more = [it for it in more if it[0] != "leaf"]
        whole = ("eq", first, *(side[0] for side in sides[1:]))
        return ("lines", whole, *more) if more else whole

    def product(self, end: str = "") -> tuple | None:
        """Factors, multiplied: with a sign, or side by side."""
        node, sign = None, ""
        while self._next() and self._next() not in (*ENDS, end):
            token = self._next()
            if token in ("*", "@", ".", "⊙"):
                sign = self._take()
                if sign in ("*", ".") and not self.code and node and node[0] == "mul":
                    other = self.product("/")  # W_q x · W_k x, and both are divided
                    vectors = other and other[0] == "mul" and len(node) == len(other) == 3
                    node = ("dot", node, other) if vectors else multiplied(node, other, "")
            elif token in ("/", "//"):
                floor = self._take() == "//"
                node = divided(node or ONE, self._factor())
                node = ("fn", "floor", node) if floor else node
            elif token == "T" and node and not self.code:  # QKT lost its sign
                self._take()
                node = (*node[:-1], ("t", node[-1])) if node[0] == "mul" else ("t", node)
            elif node and (sign == "⊙" or (sign == "*" and self.code)):
                node, sign = ("times", node, self._factor()), ""
            else:
                dot = "" if self.code or sign == "@" else "qkQK" if sign and self.arrows else "qk"
                node, sign = multiplied(node, self._factor(), dot), ""  # of two vectors: q k
        return node

    def _next(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def _take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def _several(self) -> list:
        """Sums with a comma between them."""
        found = [self._sum()]
        while self._next() == "," or (self._next() == ";" and not self.code):
            self._take()
            found.append(self._sum())
        return [each for each in found if each]

    def _sum(self) -> tuple | None:
        node = self.product()
        while self._next() in ("+", "-"):
            minus = self._take() == "-"
            other = self.product()
            if minus:
                fills = node and other and node[0] == "times" and node[2] in walk(other)
                node = node[1] if fills else node  # w * b - 1e9 * (1 - b)
                both = (other, node) if node and node[0] == "num" and other else (node, other)
                node = ("pass", *both) if node else other and ("neg", other)
            else:
                node = ("add", node, other) if node and other else node or other
        return node

    def _factor(self) -> tuple | None:
        """One thing with its scripts, and in code what is called on it."""
        self.depth += 1
        if self.depth > DEEP:
            raise RefusedError(DATA["refused"]["deep"])
        began = self.tokens[self.at - 1] if self.at else ""
        token, node = self._take() if self._next() and self._next() not in ENDS else "", None
        if token in PAIRS:
            inside = self._several()
            while deeper(self._next()) >= 0:
                self.left.append(self._take())
            self._take()
            node = inside[0] if len(inside) == 1 else ("list", *inside) if inside else None
            row = inside[0][1:] if inside and inside[0][0] == "mul" else inside  # [Z_1 Z_2]
            if all(it[0] == "leaf" and it[1][0] == row[0][1][0] for it in row):
                inside = row
            if token == "[" and inside[1:] and not self.code and self._next() != "=":
                node = ("fn", "concat", *inside)  # side by side
        elif token == r"\frac":
            above = self._factor()
            node = divided(above, self._factor())
        elif token.replace("\\", "") == "sqrt":
            node = ("sqrt", self._factor())
        elif token == r"\sum":
            index, _, shared = self._scripts()  # of N(i) no index is known
            below = began == "/" and self._next().replace("\\", "") == "exp"  # exp(a) / ∑ exp(b) v
            node = ("sum", self._factor() if below else self.product())
            node = node if shared else self._over(index, node)
        elif search(r"^[\d'\x22]", token):
            node = ("num", token)
        elif token[:1] == "\\" or token.isidentifier():
            node = self._name(token.replace("\\", ""))
        elif token:
            self.left.append(token)
        node = self._after(node)
        self.depth -= 1
        return node

    def _name(self, name: str) -> tuple | None:
        """A letter, a function of what stands behind it, or in code a module or a call."""
        low = name.lower()
        called = FUNCTIONS.get(self._next(1).lower(), "same") if self._next() == "." else "same"
        if self.code and (low in WORDS["modules"] or called in WORDS["own"]):
            return self._member(None)
        if self.code:
            return self._call(name, None) if self._next() == "(" else self._letter(name)
        if low in FUNCTIONS and (FUNCTIONS[low] != "same" or self._next() in PAIRS):
            index, _, _ = self._scripts()
            bracket = self._next() in PAIRS or self._next() == r"\frac"
            inside = items(self._factor() if bracket else self.product())
            row = inside[0] if inside and not bracket and low == "softmax" else ("", "")
            if row[0] == "mul" and row[-1][0] == "leaf" and row[-1][1][0] in "vV":  # softmax S V
                return ("mul", applied(low, [row[:-1]]), row[-1])
            node = applied("attention" if low in WORDS["attn"] else FUNCTIONS[low], inside)
            return self._over(index, node) if FUNCTIONS[low] == "softmax" else node
        if low == "score" and self._next() == "^":  # of one head
            self._scripts()
        two = self._next() == "[" and low in WORDS["score"]
        if two or (self._next() == "(" and low not in WORDS["whole"] + WORDS["of"]):
            began, kept = self.at, len(self.left)
            inside = items(self._factor())
            if name in "fAa" and len(inside) == 3:
                return ("fn", "attention", *inside)
            if low in WORDS["score"] and len(inside) == 2:
                score = ("fn", "score", *(inside[::-1] if two else inside))  # a[x_m, x_n]: x_n asks
                return ("fn", "softmax", score) if low == "alpha" else score
            if not fullmatch("[A-Za-z]{1,2}", name):
                self.left.append(name)
                return ("fn", "unread", *inside)
            self.at, self.left = began, self.left[:kept]
        return self._letter(name)

    def _over(self, scripts: list, node: tuple) -> tuple:
        """A softmax, or a sum of exponentials; over the queries it is a mistake."""
        index = search("^[A-Za-z]ʹ?", "".join(scripts[:1]))
        marked_so = [it for it in leaves(node) if index and index[0][0] in it.split("|")[1]]
        has = " ".join(leaves(node))
        named = search("^[A-Za-z]ʹ?(?=$|[=∈])", "".join(scripts[:1]))
        mixes = named and search(r"^(alpha|[awpAP])\|", has) and node[1][0] == "mul"
        rest = leaves(*node[1][2:]) if mixes else []
        rest = [it for it in rest if search(r"\|\w*[ijmnrst]", it)]
        if marked_so and rest and not any(it in marked_so for it in rest):
            return ("wrong", "same", node, index[0], self.shown[rest[-1]])
        if not index or not any(it[1:2] in (("exp",), ("softmax",)) for it in walk(node)):
            return node
        named = named and index[0][0] not in has
        if node[0] == "sum" and named and search(r"\|\w*[ijmnrst]", has):
            return ("wrong", "summed", node, index[0])
        queries = fullmatch("[^kKvVxX]*[qQ][^kKvVxX]*", "".join(it[0] for it in marked_so))
        scores = (sub("[^A-Za-zʹ]", "", self.shown[it][1:]) for it in marked_so if it[0] in "es")
        wrong = queries or any(fullmatch(f"{index[0]}[A-Za-z]ʹ?", it) for it in scores)
        return ("wrong", "softmax", node, index[0]) if wrong else node

    def _letter(self, name: str) -> tuple:
        """A leaf: a base, and its scripts in order."""
        began = self.at
        scripts, turned, shared = self._scripts()
        above = self.tokens[began : self.at]
        typed = name + "".join(f"{it} " if len(it) > 1 and it[0] == "\\" else it for it in above)
        typed = sub(r"_\((\w+)\)", r"\1", sub(r"\{(\w)\}", r"\1", typed))
        typed = sub(r"\^(T|\{T\})$", "", typed).replace("_{ʹ}", "ʹ")
        typed = sub(r"\^\{(\w+) *T\}$", r"^{\1}", typed) if turned else typed
        parts = fullmatch(DATA["token"]["short"], name) if self.code else None
        if parts:
            name, scripts = parts[1], [parts[2], *scripts]
        leaf = marked(f"{name}|", sub(r"[^A-Za-z\dʹ]", "", "".join(scripts)))
        self.shown.setdefault(leaf, typed)
        of = name.lower() in WORDS["of"] or (name in "QKV" and self._next() == "[")
        if not self.code and of and self._next() in ("[", "("):
            turned = (self._factor() or " ")[0] == "t" or turned
        elif not self.code and name in WORDS["maps"] and self._next() == "(":  # tau(y)
            self.left.append(typed)
            return ("lost", self._factor())
        elif not self.code and began == 1 and self._next() == "(":  # a_t(s) = …
            began, kept = self.at, len(self.left)
            self._factor()
            if self._next() != "=":
                self.at, self.left = began, self.left[:kept]
        node = ("note", "shared", ("leaf", leaf), typed) if shared else ("leaf", leaf)
        return ("t", node) if turned else node

    def _scripts(self) -> tuple[list, bool, bool]:
        """What stands above and below, whether a T transposes, and whether heads share it: g(i)."""
        found, turned, shared = [], False, False
        while self._next() == "^" or (self._next() == "_" and not self.code):
            above, text, depth = self._take() == "^", "", 0
            while self._next() and (depth or deeper(self._next()) >= 0):
                token = self._take()
                depth += deeper(token)
                text += token
                if depth <= 0:
                    break
            if search(DATA["token"]["shared"], text):
                text, shared = "i", True
            text = sub(r"[{}()\\,<>]", "", text)
            if above and text.endswith("T") and text != "DT":
                turned, text = True, text[:-1]
            if above and text[:1] == "-":  # an inverse
                self.left.append(text)
            found += [text] if text else []
        return found, turned, shared

    def _after(self, node: tuple | None) -> tuple | None:
        """What follows a thing: a script, a member, an index, a power, a call."""
        while self._next():
            token = self._next()
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
                node = to_power(node, self._sum() if self._next() == "-" else self._factor())
            elif self.code and token == "(" and node and node[0] == "made":
                node = self._call(node[1], None)
            else:
                break
        return node

    def _indexed(self, node: tuple | None) -> tuple | None:
        """A piece of an array: of one head, of three weights in one, or by its name."""
        index = ",".join(said for _, _, said in self._arguments())
        if not node:
            return self._letter(index[1:-1]) if index[:1] in ("'", '"') else None
        if node == WIDTH:
            return {"-1": node, "0": COUNT}.get(index, ("pass", node))
        if node[0] == "leaf" and fullmatch(r"[hij]|head|\d", index) and "qkv" not in node[1]:
            key = marked(node[1], "123456789i"[int(index)] if index.isdigit() else index[0])
            self.shown.setdefault(key, f"{self.shown[node[1]]}[{index}]")
            return ("leaf", key)
        return ("part" if fullmatch(r"\d|\w*:\w*", index) else "pass", node)

    def _member(self, owner: tuple | None) -> tuple | None:
        """What stands behind a point: a transpose, a call, or a name of a module."""
        self.at += 1 if self._next() == "." else 0
        name = self._take() if self._next().isidentifier() else ""
        if name in ("T", "mT") and owner:
            return ("t", owner, name)
        if self._next() == "(" and name:
            return self._call(name, owner)
        if owner and name == "shape":
            return WIDTH
        known = owner and owner[0] == "leaf" and name.lower() in WORDS["fused"]
        if (owner and not known) or not name:
            return owner
        method = fullmatch(DATA["token"]["methods"], self._next(1))
        module = name.lower() in WORDS["modules"] or not method
        return self._member(None) if self._next() == "." and module else self._letter(name)

    def _arguments(self) -> list:
        """Of each argument in the bracket that opens here: its name, its tree, and its text."""
        found = []
        self._take()
        while deeper(self._next()) >= 0:
            named = self._next(1) == "=" and self._next() not in PAIRS
            key = self._take() if named else ""
            self.at += 1 if named else 0
            began, kept = self.at, len(self.left)
            node = self._sum()
            whole, depth = len(self.left) == kept and self._next() in (",", *PAIRS.values()), 0
            while depth or (self._next() != "," and deeper(self._next()) >= 0):
                depth += deeper(self._take())
            self.left = self.left[:kept]
            node = node if whole or not node else ("pass", node)
            found.append((key, node, "".join(self.tokens[began : self.at])))
            self.at += 1 if self._next() == "," else 0
        self._take()
        return found

    def _call(self, name: str, owner: tuple | None) -> tuple | None:
        """What a call makes of arrays: `calls` in the data has its meaning. No batch is left."""
        if owner and owner[0] == "leaf" and fullmatch(DATA["token"]["map"], name):
            owner = None  # attn.to_q(x) takes x alone
        given = ([("", owner, "")] if owner else []) + self._arguments()
        arrays = [node for key, node, _ in given if node and not key]
        strip = r"^[(\[](.*)[)\]]$"
        said = [f"{key}={it}" if key else sub(strip, r"\1", it) for key, _, it in given]
        signature = f"{name.lower()}({','.join(['_', *said[1:]]).lower()})"
        op, *ways = next((it for pattern, it in CALLS if fullmatch(pattern, signature)), [""])
        op = op or FUNCTIONS.get(name.lower(), "")
        its = items(("list", *(node for node in arrays if node[0] != "num")))
        if op in ("attention", "fused", "multihead"):
            return layer(name, op, self.order, its, {key: it for key, it, _ in given if key})
        if op == "einsum":
            equation = next((text for _, _, text in given if text[:1] in ("'", '"')), "{")
            if "{" not in equation:
                return einsum(equation, its, self.shown)
            op = ""
        if op == "width":
            return ("pass", WIDTH) if ways else WIDTH
        if op == "made" or (op == "linear" and len(arrays) < 2):
            return ("made", name)
        if not arrays or (not op and (owner or len(arrays) > 1)):
            self.left.append(name)
            return ("lost", *arrays)
        first = arrays[1] if name == "where" and not owner and arrays[1:] else arrays[0]
        if op == "lost":
            self.left.append(f"{name}({', '.join(said[1:])})")
            return ("lost", *arrays)
        if op == "each":  # of cache.update(k, v) the arrays
            return ("each", *(arrays[1:] if owner and arrays[1:] else arrays))
        if op in ("mul", "linear") and len(arrays) > 1:
            first = ("t", first) if ways == ["a"] else first
            second = ("t", arrays[1]) if ways == ["t"] or op == "linear" else arrays[1]
            node = multiplied(first, second, "qk" if name == "dot" else "")
            return ("add", node, arrays[2]) if len(arrays) > 2 else node
        if op == "view":
            return ("wrong", "view", first, ", ".join(said[1:]))
        if op in WORDS["moves"]:
            for way in [op, *ways]:
                first = (way, first)
            return first
        if op in ("as", "same"):
            return first if op == "as" else ("pass", first)
        if op == "softmax":
            axis = search(DATA["token"]["axis"], ",".join(said[1:]))
            return ("axis", axis[1] if axis else "-1", first)
        if op:
            return applied(op, items(("list", *arrays)))
        self.shown.setdefault(f"{name}()|", name)  # self.q_proj(x): a layer of weights, by its name
        return ("call", ("leaf", f"{name}()|"), first)


def turned(role: str) -> str:
    """The transpose of a role, or of its transpose."""
    return role[:-2] if role.endswith(".T") else role and f"{role}.T"


def bare(role: str) -> str:
    """A role, transposed or not."""
    return role.removesuffix(".T")


def items(node: tuple | None) -> list:
    """The arguments in a bracket, those of a list of one among them."""
    if node and node[:2] == ("fn", "concat"):
        return [*node[2:]]
    if node and node[0] == "list":
        return items(node[1]) if len(node) == 2 else [*node[1:]]
    return [node] if node else []


def marked(leaf: str, mark: str) -> str:
    """A letter with another script."""
    base, marks = leaf.split("|")
    return f"{base}|{''.join(sorted(marks + mark))}"


def raised(shown: str) -> str:
    """What stands above and below a letter, without numbers of words and heads."""
    parts = findall(r"[_^][^_^]+", sub(r"[{}\\ ,\dijhnmtspgʹ]|<[^<>]*>", "", shown))
    return "".join(sorted(it for it in parts if it[1:] != "()"))


def divided(a: tuple | None, b: tuple | None) -> tuple:
    """A fraction; an exponential over the sum of such is a softmax."""
    if a and b and a[0] == "sum" and a[1] and a[1][0] == "mul" and a[1][1][:2] == ("fn", "exp"):
        return ("sum", ("mul", divided(a[1][1], b), *a[1][2:]))
    if b == ("leaf", "h|") and a in (("leaf", "d|"), ("leaf", "d|delmo")):
        return WIDTH
    if not (a and b and a[:2] == ("fn", "exp")):
        return ("div", a, b)
    if b[0] in ("mul", "times") and b[1][0] == "sqrt":  # √d_k stands before the sum
        return ("div", divided(a, b[2]), b[1])
    inside = b
    while inside and inside[0] in ("sum", "pass", "wrong"):
        inside = inside[1 + (inside[0] == "wrong")]
    alike = {it[0] for it in leaves(a)} == {it[0] for it in leaves(inside)}
    if b[0] == "fn" or not inside or inside[:2] != ("fn", "exp") or not alike:
        return ("div", a, b)
    node = ("fn", "softmax", *a[2:])
    return (*b[:2], node, *b[3:]) if b[0] == "wrong" else node


def multiplied(a: tuple | None, b: tuple | None, dot: str) -> tuple | None:
    """A product, of two vectors in any order if their letters are those of queries and keys."""
    if not (a and b):
        return a or b
    vectors = all(each[0] == "leaf" and each[1][0] in dot for each in (a, b))
    if vectors or a[0] != "mul":
        return ("dot" if vectors else "mul", a, b)
    return (*a, b)


def to_power(node: tuple | None, power: tuple | None) -> tuple:
    """A root, or one over it; no other power is read."""
    minus = bool(power) and power[0] == "neg"
    half = (power[1] if minus else power) in (("num", "0.5"), ("div", ONE, ("num", "2")))
    node = ("sqrt", node) if half else ("pass", node)
    return ("div", ONE, node) if minus else node


def applied(op: str, arrays: list) -> tuple:
    """A function of arrays; of some only that they leave what an array is."""
    if op in ("sqrt", "dot", "t"):
        return (op, *(arrays or [None]))
    if op == "concat" and len(arrays) == 1 and arrays[0][0] == "mul":  # head_1 … head_h
        return ("fn", op, *arrays[0][1:])
    return ("pass", *arrays) if op == "same" else ("fn", op, *arrays)


def layer(name: str, op: str, order: str, arrays: list, named: dict) -> tuple:
    """A function or a layer that takes queries, keys and values, in the order of its library."""
    given = dict(zip(order, arrays, strict=False))
    for key in WORDS["arguments"]:
        if key in named:
            given[search("[qkv]", key)[0].upper()] = named[key]
    if not given:
        return ("made", name)
    own = name.lower() not in WORDS["known"] and order == "QKV"  # another order may be its own
    letters = [search("^x?([QKVqkv])", (leaves(it) or [""])[0]) for it in arrays[:3]]
    letters = [it[1].upper() if it else "" for it in letters]
    if own and sorted(letters) == ["K", "Q", "V"]:
        given = dict(zip(letters, arrays, strict=False))
    op = "fused" if own and op == "attention" else op
    given.setdefault("V", given.get("K"))
    given.setdefault("K", given["V"])
    node = ("fn", op, *(given[letter] for letter in "QKV" if given.get(letter)))
    masked = arrays[3:] or [key for key in named if search("mask|causal|bias", key)]
    keras = order == "QVK" and name == "Attention"  # it does not divide the scores
    return ("pass", node) if masked or keras else node


def einsum(equation: str, arrays: list, shown: dict) -> tuple:
    """Two operands, whichever of them is turned. Shared letters are batches."""
    words = [*dict.fromkeys(findall(r"\w+", equation))] if search(r"\w\w \w", equation) else []
    named = {word: "abcdefghijklm"[n] for n, word in enumerate(words[:13])}  # of einops
    short = sub(r"\w+", lambda it: named.get(it[0], it[0]), equation)
    left, out = [*sub(r"[^A-Za-z,>]", "", short).split(">"), ""][:2]
    parts = left.split(",")
    if len(parts) != len(arrays):
        raise RefusedError(DATA["refused"]["einsum"].format(equation, len(parts), len(arrays)))
    for letter in out:
        if letter not in left:
            raise RefusedError(DATA["refused"]["letter"].format(letter, out, left))
    own = [[x for x in part if len(left.split(x)) == 2] for part in parts]
    lost = [x for each in own for x in each if x not in out]
    if lost:
        return ("wrong", "einsum", ("pass", *arrays), lost[0])
    if len(parts) != 2 or not any(x not in out for x in parts[0]):
        return ("pass", *arrays)
    one, two = arrays
    if two[0] == "leaf" and len(own[1]) == 2:  # heads have an axis of their own
        key = marked(two[1], "i")
        shown[key] = shown[two[1]]
        two = ("leaf", key)
    if not (own[0] and own[1]):
        return ("dot", one, two)
    shared = [x for x in parts[0] if x in parts[1]]
    heads = "h" in (own[0][-1], own[1][-1]) and "w" not in shared  # h beside w is a height
    if heads and shared[2:] and not named:
        return ("wrong", "axes", ("pass", *arrays))  # heads are compared, at one token
    met = next(x for x in parts[0] if x in parts[1] and x not in out)
    a, b = own[0][-1], own[1][-1]
    one = one if parts[0].index(a) < parts[0].index(met) else ("t", one)
    two = two if parts[1].index(met) < parts[1].index(b) else ("t", two)
    if out.index(a) > out.index(b):  # of the transposes the product
        one, two, a, b = ("t", two), ("t", one), b, a
    axes = "".join({a: "1", b: "2"}.get(letter, ".") for letter in out)
    return ("inner", f".{axes}" if "..." in equation else axes, one, two)
