"""Python as JavaScript: what reads in `qkv.read` reads in the browser, and is written once.

It takes plain functions and classes of values: no keyword but of a function that is translated or
of one in `docs/assets/python.js`, no decorator but of a class, no order but of numbers. What it
does not take fails the build. Lists and tuples are arrays, dicts are maps; a name or a method that
no translated module has is Python's own, and `python.js` has it under the same name.
"""

import ast
import json
from collections.abc import Callable, Iterable

_SIGNS = {ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Mod: "%", ast.Pow: "**"}
_ORDER = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
# What these give is true or false in both languages.
_PLAIN = {"any", "all", "search", "fullmatch", "isdigit", "isidentifier", "endswith", "isinstance"}
_SCOPES = (ast.FunctionDef, ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
_RESERVED = {"new", "this", "function", "default", "var", "case", "delete", "const", "switch"}


def translate(sources: Iterable[str], given: str, wanted: str) -> str:
    """Write modules as one function of Python and of their data, which returns what is wanted."""
    trees = [ast.parse(source) for source in sources]
    body = [each for tree in trees for each in tree.body if not _is_left_out(each)]
    writer = _Writer(body, given.split(", "))
    lines = [writer.statement(each) for each in body]
    body = "\n".join(lines)
    return f"export function reader(py, {given}) {{\n{body}\nreturn {{ {wanted} }}\n}}\n"


def _is_left_out(node: ast.stmt) -> bool:
    imports = isinstance(node, ast.Import | ast.ImportFrom)
    return imports or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


class _Writer:
    """Writes statements and expressions; `own` are the names that the modules define."""

    def __init__(self, body: list[ast.stmt], given: list[str]):
        self.given = {*given}
        self.own: dict[str, list[str]] = {}
        self.methods: dict[str, list[str]] = {}
        self.classes: set[str] = set()
        self.scopes: list[set[str]] = []
        self.temporary = 0
        for node in body:
            for name, parameters in _defined(node):
                if name in self.own:
                    raise SyntaxError(f"{name} is defined in two modules that are translated.")
                self.own[name] = parameters
            if isinstance(node, ast.ClassDef):
                self.classes.add(node.name)
                functions = [each for each in node.body if isinstance(each, ast.FunctionDef)]
                self.methods |= {each.name: _parameters(each)[1:] for each in functions}

    def statement(self, node: ast.AST) -> str:
        write = getattr(self, f"_{type(node).__name__.lower()}", None)
        if not write:
            raise SyntaxError(f"line {node.lineno}: {type(node).__name__} has no translation.")
        return write(node)

    expression = statement

    def block(self, nodes: list[ast.stmt]) -> str:
        inner = "\n".join(self.statement(each) for each in nodes if not _is_left_out(each))
        return f"{{\n{inner}\n}}"

    def truth(self, node: ast.expr) -> str:
        """A condition: an empty list is false, as in Python."""
        if isinstance(node, ast.BoolOp):
            sign = " && " if isinstance(node.op, ast.And) else " || "
            return f"({sign.join(map(self.truth, node.values))})"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return f"!{self.truth(node.operand)}"
        said = self.expression(node)
        plain = isinstance(node, ast.Compare) or said.split("(")[0].removeprefix("py.") in _PLAIN
        return said if plain else f"py.truth({said})"

    def _functiondef(self, node: ast.FunctionDef, method: bool = False) -> str:
        names = _parameters(node)
        sign = "*" if _yields(node) else ""
        head = f"{sign}{_js(node.name)}" if method else f"function{sign} {_js(node.name)}"
        if any("property" in ast.unparse(each) for each in node.decorator_list):
            head = f"get {head}"
        assigned = _assigned(node) - {*names}
        inner = {it.name for it in node.body if isinstance(it, ast.FunctionDef)}
        self.scopes.append({*names} | assigned | inner)
        began, self.temporary = self.temporary, 0
        given = self._given(node.args, names, method)
        body = self.block(node.body)
        local = sorted(map(_js, assigned)) + [f"$_{n}" for n in range(self.temporary)]
        self.scopes.pop()
        self.temporary = began
        uses = method and "self" in body
        first = "const self = this;\n" * uses + (f"let {', '.join(local)};\n" if local else "")
        return f"{head}({given}) {{\n{first}{body[2:]}"

    def _given(self, args: ast.arguments, names: list[str], method: bool) -> str:
        defaults = dict(
            zip(names[len(args.args) - len(args.defaults) :], args.defaults, strict=False)
        )
        said = [
            f"{_js(name)} = {self.expression(defaults[name])}" if name in defaults else _js(name)
            for name in names[method : len(args.args)]
        ]
        return ", ".join([*said, *([f"...{args.vararg.arg}"] if args.vararg else [])])

    def _classdef(self, node: ast.ClassDef) -> str:
        fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
        functions = [each for each in node.body if isinstance(each, ast.FunctionDef)]
        fails = any("Error" in ast.unparse(base) for base in node.bases)
        given = [
            each.target.id + (f" = {self._default(each.value)}" if each.value else "")
            for each in fields
        ]
        names = ", ".join(each.target.id for each in fields)
        made = (
            f"constructor({', '.join(given)}) {{ Object.assign(this, {{ {names} }}) }}\n"
            if fields
            else ""
        )
        methods = "\n".join(
            self._functiondef(each, method=True).replace("__init__", "constructor", 1)
            for each in functions
            if each.name != "__str__"
        )
        return f"class {node.name}{' extends Error' * fails} {{\n{made}{methods}\n}}"

    def _default(self, value: ast.expr) -> str:
        """A default; a field that is made anew for each value is a call of `field`."""
        if isinstance(value, ast.Call):
            return self.expression(ast.Call(value.keywords[0].value, [], []))
        return self.expression(value)

    def _return(self, node: ast.Return) -> str:
        return f"return {self.expression(node.value)};" if node.value else "return null;"

    def _expr(self, node: ast.Expr) -> str:
        return f"{self.expression(node.value)};"

    def _assign(self, node: ast.Assign) -> str:
        (target,) = node.targets
        value = self.expression(node.value)
        if isinstance(target, ast.Tuple) and not isinstance(node.value, ast.Tuple):
            value = f"py.list({value})"
        if isinstance(target, ast.Subscript):
            place = f"{self.expression(target.value)}, {self.expression(target.slice)}"
            return f"py.put({place}, {value});"
        return f"{'' if self.scopes else 'const '}{self._target(target)} = {value};"

    def _annassign(self, node: ast.AnnAssign) -> str:
        return self._assign(ast.Assign([node.target], node.value)) if node.value else ""

    def _augassign(self, node: ast.AugAssign) -> str:
        value = ast.BinOp(node.target, node.op, node.value)
        return self._assign(ast.Assign([node.target], value))

    def _target(self, node: ast.expr) -> str:
        if isinstance(node, ast.Tuple | ast.List):
            blank = ("" if getattr(it, "id", "") == "_" else self._target(it) for it in node.elts)
            return f"[{', '.join(blank)}]"
        if isinstance(node, ast.Starred):
            return f"...{self._target(node.value)}"
        return self.expression(node)

    def _if(self, node: ast.If) -> str:
        other = f" else {self.block(node.orelse)}" if node.orelse else ""
        return f"if ({self.truth(node.test)}) {self.block(node.body)}{other}"

    def _while(self, node: ast.While) -> str:
        return f"while ({self.truth(node.test)}) {self.block(node.body)}"

    def _for(self, node: ast.For) -> str:
        every = f"py.list({self.expression(node.iter)})"
        return f"for ({self._target(node.target)} of {every}) {self.block(node.body)}"

    def _break(self, _: ast.Break) -> str:
        return "break;"

    def _continue(self, _: ast.Continue) -> str:
        return "continue;"

    def _raise(self, node: ast.Raise) -> str:
        return f"throw {self.expression(node.exc)};"

    def _name(self, node: ast.Name) -> str:
        known = (
            node.id in self.own
            or node.id in self.given
            or any(node.id in scope for scope in self.scopes)
        )
        return _js(node.id) if known or node.id == "self" else f"py.{node.id}"

    def _constant(self, node: ast.Constant) -> str:
        return json.dumps(node.value)

    def _joinedstr(self, node: ast.JoinedStr) -> str:
        parts = (
            json.dumps(each.value)[1:-1].replace('\\"', '"').replace("`", "\\`")
            if isinstance(each, ast.Constant)
            else f"${{{self.expression(each.value)}}}"
            for each in node.values
        )
        return f"`{''.join(parts)}`"

    def _tuple(self, node: ast.Tuple) -> str:
        return f"[{', '.join(map(self.expression, node.elts))}]"

    _list = _tuple

    def _set(self, node: ast.Set) -> str:
        return f"new Set({self._tuple(node)})"

    def _dict(self, node: ast.Dict) -> str:
        pairs = (
            f"[{self.expression(key)}, {self.expression(value)}]"
            if key
            else f"...{self.expression(value)}"
            for key, value in zip(node.keys, node.values, strict=True)
        )
        return f"new Map([{', '.join(pairs)}])"

    def _starred(self, node: ast.Starred) -> str:
        return f"...py.list({self.expression(node.value)})"

    def _attribute(self, node: ast.Attribute) -> str:
        return f"{self.expression(node.value)}.{_js(node.attr)}"

    def _subscript(self, node: ast.Subscript) -> str:
        value, at = self.expression(node.value), node.slice
        if not isinstance(at, ast.Slice):
            return f"py.at({value}, {self.expression(at)})"
        ends = (self.expression(each) if each else "null" for each in (at.lower, at.upper, at.step))
        return f"py.slice({value}, {', '.join(ends)})"

    def _namedexpr(self, node: ast.NamedExpr) -> str:
        return f"({self._target(node.target)} = {self.expression(node.value)})"

    def _ifexp(self, node: ast.IfExp) -> str:
        one, other = self.expression(node.body), self.expression(node.orelse)
        return f"({self.truth(node.test)} ? {one} : {other})"

    def _boolop(self, node: ast.BoolOp) -> str:
        *first, last = node.values
        said = self.expression(last)
        for each in reversed(first):
            value = self.expression(each)
            kept, self.temporary = f"$_{self.temporary}", self.temporary + 1
            both = (kept, said) if isinstance(node.op, ast.Or) else (said, kept)
            said = f"(py.truth({kept} = {value}) ? {both[0]} : {both[1]})"
        return said

    def _unaryop(self, node: ast.UnaryOp) -> str:
        if isinstance(node.op, ast.Not):
            return self.truth(node)
        return f"-{self.expression(node.operand)}"

    def _binop(self, node: ast.BinOp) -> str:
        left, right, op = self.expression(node.left), self.expression(node.right), type(node.op)
        named = {ast.Add: "add", ast.BitOr: "union", ast.FloorDiv: "floor"}
        if op in named:
            return f"py.{named[op]}({left}, {right})"
        return f"({left} {_SIGNS[op]} {right})"

    def _compare(self, node: ast.Compare) -> str:
        sides = [node.left, *node.comparators]
        each = map(self._compared, sides, node.ops, sides[1:])
        said = " && ".join(each)
        return said if said.startswith(("py.", "!py.")) and len(node.ops) == 1 else f"({said})"

    def _compared(self, a: ast.expr, op: ast.cmpop, b: ast.expr) -> str:
        left, right = self.expression(a), self.expression(b)
        if type(op) in _ORDER:
            return f"{left} {_ORDER[type(op)]} {right}"
        if isinstance(op, ast.In | ast.NotIn):
            return f"{'!' * isinstance(op, ast.NotIn)}py.has({right}, {left})"
        return f"{'!' * isinstance(op, ast.NotEq | ast.IsNot)}py.same({left}, {right})"

    def _call(self, node: ast.Call) -> str:
        given = [self.expression(each) for each in node.args]
        named = {each.arg: self.expression(each.value) for each in node.keywords}
        called, first = node.func, []
        if isinstance(called, ast.Attribute) and called.attr not in self.methods:
            said, first = f"py.{_js(called.attr)}", [self.expression(called.value)]
        else:
            said = self.expression(called)
        order = self.own.get(getattr(called, "id", "")) or self.methods.get(
            getattr(called, "attr", "")
        )
        if named and order and None not in named:
            every = dict(zip(order, given, strict=False)) | named
            last = max(map(order.index, every))
            given = [every.get(name, "undefined") for name in order[: last + 1]]
        elif named:
            pairs = (
                f"...py.plain({value})" if key is None else f"{key}: {value}"
                for key, value in named.items()
            )
            given.append(f"{{ {', '.join(pairs)} }}")
        is_class = isinstance(called, ast.Name) and called.id in self.classes
        return f"{'new ' * is_class}{said}({', '.join([*first, *given])})"

    def _lambda(self, node: ast.Lambda) -> str:
        names = _parameters(node)
        self.scopes.append({*names})
        said = f"(({', '.join(map(_js, names))}) => {self.expression(node.body)})"
        self.scopes.pop()
        return said

    def _generatorexp(self, node: ast.GeneratorExp) -> str:
        return self._comprehension(node, lambda: self.expression(node.elt))

    _listcomp = _generatorexp

    def _setcomp(self, node: ast.SetComp) -> str:
        return f"new Set({self._generatorexp(node)})"

    def _dictcomp(self, node: ast.DictComp) -> str:
        pair = lambda: f"[{self.expression(node.key)}, {self.expression(node.value)}]"  # noqa: E731
        return f"new Map({self._comprehension(node, pair)})"

    def _comprehension(self, node: ast.AST, element: Callable[[], str]) -> str:
        """An array: the innermost loop makes its elements, the others join what is made."""
        lists, names = [], set()
        for each in node.generators:
            self.scopes.append(names)
            every = f"py.list({self.expression(each.iter)})"
            names = {it.id for it in ast.walk(each.target) if isinstance(it, ast.Name)}
            self.scopes.append(names)
            given = f"({self._target(each.target)}) => "
            tests = (f".filter({given}{self.truth(test)})" for test in each.ifs)
            lists.append("".join([every, *tests, "|", given]))
        ways = [".flatMap("] * (len(lists) - 1) + [".map("]
        began = "".join(way.join(it.rsplit("|", 1)) for it, way in zip(lists, ways, strict=True))
        said = (began + element() + ")" * len(lists)).removesuffix(f".map({given}{given[1:-5]})")
        del self.scopes[-2 * len(lists) :]
        return said


def _js(name: str) -> str:
    return f"{name}_" if name in _RESERVED else name


def _parameters(node: ast.FunctionDef | ast.Lambda) -> list[str]:
    args = node.args
    return [each.arg for each in [*args.args, *([args.vararg] if args.vararg else [])]]


def _defined(node: ast.stmt) -> list[tuple[str, list[str]]]:
    if isinstance(node, ast.FunctionDef):
        return [(node.name, _parameters(node))]
    if isinstance(node, ast.ClassDef):
        made = [each for each in node.body if getattr(each, "name", "") == "__init__"]
        fields = [each.target.id for each in node.body if isinstance(each, ast.AnnAssign)]
        return [(node.name, _parameters(made[0])[1:] if made else fields)]
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return [(it.id, []) for each in targets for it in ast.walk(each) if isinstance(it, ast.Name)]


def _within(node: ast.AST, scopes: tuple) -> Iterable[ast.AST]:
    """All within a node, but not within scopes in it."""
    for each in ast.iter_child_nodes(node):
        yield each
        if not isinstance(each, scopes):
            yield from _within(each, scopes)


def _assigned(node: ast.FunctionDef) -> set[str]:
    """What a function assigns, also by := within a comprehension."""
    stored = (each for each in _within(node, _SCOPES) if isinstance(each, ast.Name))
    names = {each.id for each in stored if isinstance(each.ctx, ast.Store)}
    inner = {each.name for each in _within(node, _SCOPES) if isinstance(each, ast.FunctionDef)}
    walrus = (each for each in _within(node, (ast.FunctionDef,)) if isinstance(each, ast.NamedExpr))
    return (names | {each.target.id for each in walrus}) - inner - {"_"}


def _yields(node: ast.FunctionDef) -> bool:
    return any(isinstance(each, ast.Yield | ast.YieldFrom) for each in _within(node, _SCOPES))
