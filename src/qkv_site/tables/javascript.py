"""Python as JavaScript: what reads in `qkv.read` reads in the browser, and is written once.

It takes what the modules of `qkv.reading` are made of, functions and classes of values, and fails
the build at what it does not know or would lose, with the file and the line. Lists and tuples are
arrays, dicts are maps. A name or a method that no translated module has is Python's own:
`python.js`, which stands before what is translated, has it with `py_` before its name.
"""

import ast
import itertools
import json
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from pathlib import Path

_SIGNS = {ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Mod: "%", ast.Pow: "**"}
_NAMED = {ast.Add: "add", ast.BitOr: "union", ast.FloorDiv: "floor"}
_ORDER = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_COMPREHENSIONS = (ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
# What these give is true in both languages or in none, as text, numbers and values of classes are;
# an empty array or map, which is false in Python alone, is asked with `truth`.
_PLAIN = {
    *("any", "all", "search", "fullmatch", "isdigit", "isidentifier", "endswith", "isinstance"),
    *("sub", "join", "format", "strip", "lower", "replace", "removesuffix", "len", "sum"),
}
_ARRAYS = {  # what these give is an array
    *("cut", "enumerate", "findall", "items", "map", "pairwise", "sorted", "split", "values", "zip")
}
_OPTIONS = {"key", "lines", "case", None}  # names of arguments that Python's own may have here
_PLAIN_TYPES = {"bool", "str", "int", "float", "None"}
_ARRAY_TYPE = re.compile(r"(list|tuple)(\[.*\])?")
_KINDS, _UNKNOWN = frozenset({"plain", "array"}), frozenset()


_PYTHON = Path(__file__).with_name("python.js")


def translate(sources: Mapping[str, str], given: str, wanted: str) -> str:
    """Write modules, by their names, as one function of data, JSON, that returns what is wanted.

    All names are local to it, so a minifier shortens them. Members of classes are shortened here,
    but not those of a dataclass, which is read outside.
    """
    trees = [_placed(_OneByOne().visit(ast.parse(it)), name, 1) for name, it in sources.items()]
    every = [node for tree in trees for node in tree.body]
    body = [node for node in every if not isinstance(node, ast.Import | ast.ImportFrom)]
    writer = _Writer(body, given.split(", "))
    lines = "\n".join(filter(None, map(writer.write, body)))
    inside = f"return (({given}) => {{\n{lines}\nreturn {{ {wanted} }}\n}})(...data.map(py_mapped))"
    return f"export function reader(...data) {{\n{_PYTHON.read_text('utf-8')}{inside}\n}}\n"


class _OneByOne(ast.NodeTransformer):
    """Several names that are assigned at once get their values in a row, if no value needs one."""

    def visit_Assign(self, node: ast.Assign) -> ast.Assign | list[ast.Assign]:
        match node:
            case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)):
                names = [*map(ast.unparse, targets)]
            case _:
                return node
        if len(names) != len(values):  # some are put into a list
            return node
        for n, each in enumerate(values):
            has = {ast.unparse(it) for it in ast.walk(each)}
            asks = "self" in has and any("." in it for it in names[:n])  # a method may need it
            if asks or has & {*names[:n]} or "*" in (names[n][0], ast.unparse(each)[0]):
                return node
        pairs = zip(targets, values, strict=True)
        return [ast.copy_location(ast.Assign([it], each), each) for it, each in pairs]


def _placed(node: ast.AST, name: str, line: int) -> ast.AST:
    """A tree each of whose nodes knows its file and its line."""
    node.file, node.lineno = name, getattr(node, "lineno", line)
    for each in ast.iter_child_nodes(node):
        _placed(each, name, node.lineno)
    return node


def _error(node: ast.AST, what: str) -> SyntaxError:
    return SyntaxError(f"{node.file}, line {node.lineno}: {what} has no translation.")


def _lost(node: ast.AST) -> str:
    """What of a node its translation would lose."""
    return next((said for said, loses in _LOSSES.items() if loses(node)), "")


def _has_odd_parameters(node: ast.AST) -> bool:
    """Whether a function takes what is no plain parameter, or a lambda has a default."""
    its = getattr(node, "args", None)
    if not isinstance(its, ast.arguments):
        return False
    odd = its.posonlyargs or its.kwonlyargs or its.kwarg
    return bool(odd or (its.defaults and (its.vararg or isinstance(node, ast.Lambda))))


def _has_odd_decorator(node: ast.AST) -> bool:
    """Whether something else stands before a function than `cache`, which keeps one value's."""
    if not isinstance(node, ast.FunctionDef):
        return False
    known = {*map(ast.unparse, node.decorator_list)} <= {"cache"}
    several = len(_parameters(node)) > 1 or node.args.vararg
    return bool(node.decorator_list) and not (known and not several)


def _has_odd_member(node: ast.AST) -> bool:
    """Whether a class has more than fields, and methods that are called by their names."""
    if not isinstance(node, ast.ClassDef):
        return False
    methods = [it for it in node.body if isinstance(it, ast.FunctionDef)]
    names = {it.name for it in methods if it.name.startswith("__")}
    others = [it for it in node.body if not isinstance(it, ast.FunctionDef | ast.AnnAssign)]
    odd = any(not isinstance(getattr(it, "value", 0), ast.Constant) for it in others)
    decorated = any(it.decorator_list for it in methods)
    return odd or decorated or not names <= {"__init__", "__str__", "__repr__"}


def _is_odd_number(node: ast.AST) -> bool:
    """Whether a constant is none of JSON's, or a number that JavaScript rounds."""
    match node:
        case ast.Constant(value=bool() | str() | float() | None):
            return False
        case ast.Constant(value=int() as value):
            return abs(value) >= 2**53
    return isinstance(node, ast.Constant)


def _is_repeated(node: ast.AST) -> bool:
    """Whether a text or a list is repeated, or a text is filled, by a sign of numbers."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Mod)):
        return False
    lists = ast.List | ast.Tuple | ast.ListComp | ast.JoinedStr
    return any(isinstance(it, lists) or _is_text(it) for it in (node.left, node.right))


def _is_not_as_many(node: ast.AST) -> bool:
    """Whether several names get another number of values."""
    match node:
        case ast.Assign([ast.Tuple(names)], ast.Tuple(values)):
            starred = any(isinstance(it, ast.Starred) for it in [*names, *values])
            return not starred and len(names) != len(values)
    return False


def _is_other_step(node: ast.AST) -> bool:
    """Whether a slice has a step and ends, or another step than 1 or -1."""
    match node:
        case ast.Subscript(slice=ast.Slice(lower=lower, upper=upper, step=ast.expr() as step)):
            steps = [step.body, step.orelse] if isinstance(step, ast.IfExp) else [step]
            return bool(lower or upper) or not {*map(ast.unparse, steps)} <= {"1", "-1"}
    return False


_LOSSES: dict[str, Callable[[ast.AST], object]] = {
    "else of a loop": lambda it: isinstance(it, ast.For | ast.While) and it.orelse,
    "a format in an f-string": lambda it: (
        isinstance(it, ast.FormattedValue) and (it.conversion != -1 or it.format_spec)
    ),
    "this sign": lambda it: (
        (isinstance(it, ast.UnaryOp) and not isinstance(it.op, ast.Not | ast.USub))
        or (isinstance(it, ast.BinOp | ast.AugAssign) and type(it.op) not in {*_SIGNS, *_NAMED})
    ),
    "a text or a list that is repeated or filled": _is_repeated,
    "is, but with None": lambda it: (
        isinstance(it, ast.Compare)
        and any(isinstance(op, ast.Is | ast.IsNot) for op in it.ops)
        and any(ast.unparse(each) != "None" for each in it.comparators)
    ),
    "this parameter": _has_odd_parameters,
    "this decorator": _has_odd_decorator,
    "this member of a class": _has_odd_member,
    "this constant": _is_odd_number,
    "a number of values that is not that of names": _is_not_as_many,
    "several = in a row": lambda it: isinstance(it, ast.Assign) and it.targets[1:],
    "a sign and = behind a place or a call": lambda it: (
        isinstance(it, ast.AugAssign)
        and (
            not isinstance(it.target, ast.Name | ast.Attribute)
            or any(isinstance(each, ast.Call) for each in ast.walk(it.target))
        )
    ),
    "a step with ends, or another than 1 and -1,": _is_other_step,
    "this raise": lambda it: isinstance(it, ast.Raise) and (it.cause or not it.exc),
    "** in a dict": lambda it: isinstance(it, ast.Dict) and None in it.keys,
    "async": lambda it: any(each.is_async for each in getattr(it, "generators", [])),
    "* beside names of arguments": lambda it: (
        isinstance(it, ast.Call)
        and any(isinstance(each, ast.Starred) for each in it.args)
        and any(each.arg for each in it.keywords)
    ),
}


class _Writer:
    """Writes statements and expressions. `own` are the names that the modules define."""

    def __init__(self, body: list[ast.stmt], given: list[str]):
        self.own: dict[str, list[str]] = {name: [] for name in given}
        self.methods: dict[str, list[str]] = {}
        self.scopes: list[dict[str, Set[str]]] = []  # of each name its kinds
        self.kept = 0  # values of `or` and `and` that are looked at twice
        self.classes = {node.name for node in body if isinstance(node, ast.ClassDef)}
        for node in body:
            for name, parameters in _defined(node):
                if name in self.own:
                    raise _error(node, f"{name}, defined in two modules,")
                self.own[name] = parameters
            for each in getattr(node, "body", []):
                if isinstance(node, ast.ClassDef) and isinstance(each, ast.FunctionDef):
                    self.methods[each.name] = _parameters(each)[1:]
        self.short = _short(body)
        self.kinds: dict[str, Set[str]] = {}
        for name, type_ in _annotated(body):
            self.kinds[name] = self.kinds.get(name, _KINDS) & self._kinds_of_type(type_)

    def write(self, node: ast.AST) -> str:
        """A statement, or an expression."""
        write = getattr(self, f"_{type(node).__name__.lower()}", None)
        if lost := _lost(node) if write else type(node).__name__:
            raise _error(node, lost)
        return write(node)

    def _is_own(self, called: ast.expr | None) -> bool:
        """Whether a function or a method is of the modules, and not Python's."""
        return _called(called) in (self.own if isinstance(called, ast.Name) else self.methods)

    def _kinds_of_type(self, annotation: ast.expr | None) -> Set[str]:
        said = ast.unparse(annotation) if annotation else "object"
        plain = {*said.split(" | ")} <= _PLAIN_TYPES | self.classes
        return {"plain"} if plain else {"array"} if _ARRAY_TYPE.fullmatch(said) else _UNKNOWN

    def _kinds(self, node: ast.expr) -> Set[str]:
        """Whether a value is plain, true where Python's is, or an array; or neither is known."""
        match node:
            case ast.Name(id=name):
                return next((it[name] for it in reversed(self.scopes) if name in it), _UNKNOWN)
            case ast.Attribute(attr=name):
                return self.kinds.get(name, _UNKNOWN)
            case ast.Call(func=called) if self._is_own(called):
                return self.kinds.get(_called(called), _UNKNOWN)
            case ast.Call(func=called):
                its = {"plain": _PLAIN, "array": _ARRAYS}
                return {kind for kind, names in its.items() if _called(called) in names}
            case ast.IfExp(body=one, orelse=other):
                return self._kinds(one) & self._kinds(other)
            case ast.BoolOp(values=values):
                return _KINDS.intersection(*map(self._kinds, values))
            case ast.BinOp(left=its) | ast.Subscript(value=its, slice=ast.Slice()):
                return self._kinds(its)  # a sum of texts or of lists, or a piece
            case ast.List() | ast.Tuple() | ast.ListComp() | ast.GeneratorExp():
                return {"array"}
            case ast.Compare() | ast.Constant() | ast.JoinedStr() | ast.UnaryOp():
                return {"plain"}
        return _UNKNOWN

    def _locals(self, node: ast.FunctionDef, assigned: set[str]) -> None:
        """Names that a function assigns: one is plain, or an array, if all that it gets is."""
        walked, known = [*ast.walk(node)], self.scopes[-1]
        given = (it for it in walked if isinstance(it, ast.Assign))
        values = [(name, it.value) for it in given if (name := _name(it.targets[0])) in assigned]
        alone = Counter(name for name, _ in values)
        alone += Counter(_name(it.target) for it in walked if isinstance(it, ast.AugAssign))
        every = Counter(
            map(_name, (it for it in walked if isinstance(getattr(it, "ctx", 0), ast.Store)))
        )
        for it in assigned:
            known[it] = known.get(it, _KINDS) if alone[it] == every[it] else _UNKNOWN
        for name, value in values * len(assigned):  # until nothing changes
            known[name] = known[name] & self._kinds(value)

    def _several(self, nodes: Iterable[ast.AST]) -> str:
        return ",".join(map(self.write, nodes))

    def _block(self, nodes: list[ast.stmt]) -> str:
        return f"{{{''.join(map(self.write, nodes))}}}"

    def _truth(self, node: ast.expr) -> str:
        """A condition: an empty list is false, as in Python."""
        if isinstance(node, ast.BoolOp):
            sign = "&&" if isinstance(node.op, ast.And) else "||"
            return f"({sign.join(map(self._truth, node.values))})"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return f"!{self._truth(node.operand)}"
        said = self.write(node)
        return said if "plain" in self._kinds(node) else f"py_truth({said})"

    def _functiondef(self, node: ast.FunctionDef, method: bool = False) -> str:
        names = _parameters(node)
        inner = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
        assigned = _assigned(node) - {*names, *inner}
        again = _assigned(node) & {*names}
        types = {it.arg: self._kinds_of_type(it.annotation) for it in node.args.args}
        self.scopes.append(dict.fromkeys([*names, *inner], _UNKNOWN) | types)
        self._locals(node, assigned | again)
        began, self.kept = self.kept, 0
        ends = node.args.defaults
        defaults = dict(zip(names[len(names) - len(ends) :], ends, strict=True)) if ends else {}
        ends = [f"={self.write(defaults[name])}" if name in defaults else "" for name in names]
        if node.args.vararg:
            names[-1] = f"...{names[-1]}"
        given = [*map("".join, zip(names[method:], ends[method:], strict=True))]
        body = self._block(node.body)
        uses = Counter(re.findall(r"[\w$]+", body))
        local = [*assigned, *(f"$_{n}" for n in range(self.kept))]
        local.sort(key=lambda it: (-uses[it], it))
        if node.args.vararg:
            body = f"{{let {','.join(local)};{body[1:]}" if local else body
        else:  # a parameter that nothing is given for: shorter than to declare it
            given += local
        self.scopes.pop()
        self.kept = began
        said = f"({','.join(given)})"
        if method:
            return f"{self._member(node.name)}{said}{body}"
        made = f"{said}=>{body}"
        for each in node.decorator_list:
            made = f"{self.write(each)}({made})"
        return f"const {node.name}={made};"

    def _classdef(self, node: ast.ClassDef) -> str:
        fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
        called = [self._member(each.target.id) for each in fields]
        said = [
            f"{name}={self._default(it.value)}" if it.value else name
            for name, it in zip(called, fields, strict=True)
        ]
        names = ",".join(called)
        made = f"constructor({','.join(said)}) {{ Object.assign(this, {{ {names} }}) }}\n"
        functions = (each for each in node.body if isinstance(each, ast.FunctionDef))
        methods = "\n".join(
            self._functiondef(each, method=True).replace("__init__", "constructor", 1)
            for each in functions
            if each.name in ("__init__", *self.methods) and each.name not in ("__str__", "__repr__")
        )
        fails = any("Error" in ast.unparse(base) for base in node.bases)
        return f"class {node.name}{' extends Error' * fails} {{\n{made * bool(fields)}{methods}\n}}"

    def _default(self, value: ast.expr) -> str:
        """A default; what `field` makes is made anew."""
        made = value.keywords[0].value if isinstance(value, ast.Call) else None
        return f"{self.write(made)}()" if made else self.write(value)

    def _return(self, node: ast.Return) -> str:
        return f"return {self.write(node.value)};" if node.value else "return null;"

    def _expr(self, node: ast.Expr) -> str:
        docstring = isinstance(node.value, ast.Constant)
        return "" if docstring else f"{self.write(node.value)};"

    def _assign(self, node: ast.Assign) -> str:
        (target,) = node.targets
        value = (self._every if isinstance(target, ast.Tuple) else self.write)(node.value)
        if isinstance(target, ast.Subscript):
            return f"py_put({self.write(target.value)},{self.write(target.slice)},{value});"
        return f"{'' if self.scopes else 'const '}{self._target(target)}={value};"

    def _augassign(self, node: ast.AugAssign) -> str:
        if isinstance(node.op, ast.Add) and _is_single(node.value):
            return f"{self.write(node.target)}+={self.write(node.value)};"
        return self._assign(ast.Assign([node.target], ast.BinOp(node.target, node.op, node.value)))

    def _target(self, node: ast.expr) -> str:
        if isinstance(node, ast.Tuple):
            blank = ("" if getattr(it, "id", "") == "_" else self._target(it) for it in node.elts)
            return f"[{','.join(blank)}]"
        starred = isinstance(node, ast.Starred)
        return f"...{self.write(node.value)}" if starred else self.write(node)

    def _if(self, node: ast.If) -> str:
        again = len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)
        other = self.write(node.orelse[0]) if again else self._block(node.orelse)
        other = f"else {other}" if node.orelse else ""
        return f"if({self._truth(node.test)}){self._block(node.body)}{other}"

    def _while(self, node: ast.While) -> str:
        return f"while({self._truth(node.test)}){self._block(node.body)}"

    def _for(self, node: ast.For) -> str:
        every = self._every(node.iter)
        return f"for({self._target(node.target)} of {every}){self._block(node.body)}"

    def _break(self, _: ast.Break) -> str:
        return "break;"

    def _continue(self, _: ast.Continue) -> str:
        return "continue;"

    def _raise(self, node: ast.Raise) -> str:
        return f"throw {self.write(node.exc)};"

    def _name(self, node: ast.Name) -> str:
        if any(node.id in scope for scope in self.scopes):
            return "this" if node.id == "self" else node.id
        return node.id if node.id in self.own else f"py_{node.id}"

    def _constant(self, node: ast.Constant) -> str:
        return json.dumps(node.value)

    def _joinedstr(self, node: ast.JoinedStr) -> str:
        parts = (
            json.dumps(each.value)[1:-1].replace('\\"', '"').replace("`", "\\`").replace("$", "\\$")
            if isinstance(each, ast.Constant)
            else self.write(each)
            for each in node.values
        )
        return f"`{''.join(parts)}`"

    def _formattedvalue(self, node: ast.FormattedValue) -> str:
        return f"${{{self.write(node.value)}}}"

    def _tuple(self, node: ast.Tuple | ast.List | ast.Set) -> str:
        return f"[{self._several(node.elts)}]"

    _list = _tuple

    def _set(self, node: ast.Set) -> str:
        return f"new Set({self._tuple(node)})"

    def _dict(self, node: ast.Dict) -> str:
        pairs = zip(node.keys, node.values, strict=True)
        said = (f"[{self.write(key)},{self.write(value)}]" for key, value in pairs)
        return f"new Map([{','.join(said)}])" if node.keys else "new Map"

    def _starred(self, node: ast.Starred) -> str:
        return f"...{self._every(node.value)}"

    def _every(self, node: ast.expr) -> str:
        """What is gone through, as an array."""
        said = self.write(node)
        return said if "array" in self._kinds(node) else f"py_list({said})"

    def _attribute(self, node: ast.Attribute) -> str:
        return f"{self.write(node.value)}.{self._member(node.attr)}"

    def _member(self, name: str) -> str:
        return self.short.get(name, name)

    def _subscript(self, node: ast.Subscript) -> str:
        value, place = self.write(node.value), node.slice
        if not isinstance(place, ast.Slice):
            its, said = ast.unparse(place), self.write(place)
            if its.isdigit():
                return f"{value}[{said}]"
            if its[0] == "-":
                return f"{value}.at({said})"
            return f"py_at({value},{said})"
        if place.step:  # 1, or -1 from the end
            return f"py_turned({value},{self.write(place.step)})"
        ends = [self.write(place.lower) if place.lower else "0"]
        ends += [self.write(place.upper)] if place.upper else []
        return f"{value}.slice({','.join(ends)})"

    def _ifexp(self, node: ast.IfExp) -> str:
        one, other = self.write(node.body), self.write(node.orelse)
        return f"({self._truth(node.test)}?{one}:{other})"

    def _boolop(self, node: ast.BoolOp) -> str:
        """The first value that decides, as in Python."""
        *first, last = node.values
        said = self.write(last)
        for each in reversed(first):
            value, known = self.write(each), isinstance(each, ast.Name | ast.Attribute)
            if "plain" in self._kinds(each):
                said = f"({value}{'||' if isinstance(node.op, ast.Or) else '&&'}{said})"
                continue
            kept = value if known else f"$_{self.kept}"
            self.kept += not known
            both = (kept, said) if isinstance(node.op, ast.Or) else (said, kept)
            asked = value if known else f"{kept}={value}"
            said = f"(py_truth({asked})?{both[0]}:{both[1]})"
        return said

    def _unaryop(self, node: ast.UnaryOp) -> str:
        return self._truth(node) if isinstance(node.op, ast.Not) else f"-{self.write(node.operand)}"

    def _binop(self, node: ast.BinOp) -> str:
        left, right, op = self.write(node.left), self.write(node.right), type(node.op)
        if op in _SIGNS or (op is ast.Add and any(map(_is_single, (node.left, node.right)))):
            return f"({left} {_SIGNS.get(op, '+')} {right})"
        return f"py_{_NAMED[op]}({left},{right})"

    def _compare(self, node: ast.Compare) -> str:
        sides = [node.left, *node.comparators]
        return f"({'&&'.join(map(self._compared, sides, node.ops, sides[1:]))})"

    def _compared(self, a: ast.expr, op: ast.cmpop, b: ast.expr) -> str:
        left, right = self.write(a), self.write(b)
        if type(op) in _ORDER:
            return f"{left}{_ORDER[type(op)]}{right}"
        no = "!" * isinstance(op, ast.NotIn | ast.NotEq | ast.IsNot)
        contains = isinstance(op, ast.In | ast.NotIn)
        if contains and isinstance(b, ast.Tuple | ast.List) and all(map(_is_text, b.elts)):
            return f"{no}{right}.includes({left})"
        if not contains and any(map(_is_single, (a, b))):
            return f"{left}{no or '='}=={right}"
        return f"{no}py_has({right},{left})" if contains else f"{no}py_same({left},{right})"

    def _call(self, node: ast.Call) -> str:
        called, name = node.func, _called(node.func)
        match node:
            case ast.Call(ast.Name("any" | "all"), [ast.GeneratorExp() as each]):
                way = ".some(" if name == "any" else ".every("  # no more of them than Python asks
                return self._comprehension(each, lambda: self._truth(each.elt), way)
        given = [*map(self.write, node.args)]
        said, first = self.write(called), []
        order = self.own.get(name, []) if isinstance(called, ast.Name) else self.methods.get(name)
        if order is None:  # a method of Python's
            said, first = f"py_{name}", [self.write(called.value)]
        named = {it.arg: self.write(it.value) for it in node.keywords if it.arg != "strict"}
        odd = {it.arg for it in node.keywords} - {*(order or _OPTIONS), "strict" * (name == "zip")}
        if odd and name not in ("format", "_replace"):  # which take any
            raise _error(node, f"{name} with {', '.join(map(str, odd))}")
        if named and order:
            every = dict(zip(order, given, strict=False)) | named
            last = max(map(order.index, every))
            given = [every.get(it, "undefined") for it in order[: last + 1]]
        elif None in named:
            given.append(f"Object.fromEntries({named[None]})")
        elif named:
            given.append(
                f"{{{','.join(f'{self._member(key)}:{value}' for key, value in named.items())}}}"
            )
        return f"{'new ' * (name in self.classes)}{said}({','.join([*first, *given])})"

    def _lambda(self, node: ast.Lambda) -> str:
        names = _parameters(node)
        self.scopes.append(dict.fromkeys(names, _UNKNOWN))
        said = f"({','.join(names)})=>{self.write(node.body)}"
        self.scopes.pop()
        return said

    def _generatorexp(self, node: ast.GeneratorExp | ast.ListComp | ast.SetComp) -> str:
        return self._comprehension(node, lambda: self.write(node.elt))

    _listcomp = _generatorexp

    def _setcomp(self, node: ast.SetComp) -> str:
        return f"new Set({self._generatorexp(node)})"

    def _dictcomp(self, node: ast.DictComp) -> str:
        pair = lambda: f"[{self.write(node.key)},{self.write(node.value)}]"  # noqa: E731
        return f"new Map({self._comprehension(node, pair)})"

    def _comprehension(self, node: ast.AST, element: Callable[[], str], asks: str = "") -> str:
        """An array: the innermost loop makes its elements, the others join what is made."""
        said, depth = "", len(self.scopes)
        for each in node.generators:
            every = self._every(each.iter)
            targets = (it.id for it in ast.walk(each.target) if isinstance(it, ast.Name))
            self.scopes.append(dict.fromkeys(targets, _UNKNOWN))
            given = self._target(each.target)
            tests = (f".filter(({given})=>{self._truth(test)})" for test in each.ifs)
            way = asks or (".map(" if each is node.generators[-1] else ".flatMap(")
            said += "".join([every, *tests, way, f"({given})=>"])
        said += element() + ")" * len(node.generators)
        del self.scopes[depth:]
        return said.replace(f".map(({given})=>{given})", "")  # of each what it is


def _name(node: ast.AST) -> str:
    return getattr(node, "id", "")


def _called(node: ast.AST | None) -> str:
    """The name of a function or of a method."""
    return getattr(node, "id", getattr(node, "attr", ""))


def _is_single(node: ast.AST) -> bool:
    """Whether it is a text, a number or a truth: no list, whose parts are compared."""
    length = isinstance(node, ast.Call) and _name(node.func) == "len"
    return length or (isinstance(node, ast.Constant) and node.value is not None)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _parameters(node: ast.FunctionDef | ast.Lambda) -> list[str]:
    args = node.args
    return [each.arg for each in [*args.args, *([args.vararg] if args.vararg else [])]]


def _defined(node: ast.stmt) -> list[tuple[str, list[str]]]:
    """The names that a statement defines, with what they take."""
    if isinstance(node, ast.FunctionDef):
        return [(node.name, _parameters(node))]
    if isinstance(node, ast.ClassDef):
        made = [_parameters(it)[1:] for it in node.body if getattr(it, "name", "") == "__init__"]
        fields = [each.target.id for each in node.body if isinstance(each, ast.AnnAssign)]
        return [(node.name, made[0] if made else fields)]
    targets = getattr(node, "targets", [])
    return [(it.id, []) for each in targets for it in ast.walk(each) if isinstance(it, ast.Name)]


def _members(node: ast.ClassDef) -> Iterator[str]:
    """The fields and methods of a class, and what it keeps in itself."""
    for each in ast.walk(node):
        match each:
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.FunctionDef(name=name):
                yield name
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name


def _short(body: list[ast.stmt]) -> dict[str, str]:
    """Short names of members of undecorated classes; the most used get the shortest."""
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    outside = {it for node in classes if node.decorator_list for it in _members(node)}
    own = {it for node in classes for it in _members(node) if it[:2] != "__"} - outside
    every = (each for node in body for each in ast.walk(node))
    uses = Counter(it.attr for it in every if isinstance(it, ast.Attribute) and it.attr in own)
    letters = string.ascii_letters
    short = (*letters, *map("".join, itertools.product(letters, letters)))
    return dict(zip([name for name, _ in uses.most_common()], short, strict=False))


def _annotated(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr | None]]:
    """What functions return and what the fields of classes are, by their names."""
    for node in body:
        if isinstance(node, ast.AnnAssign):
            yield node.target.id, node.annotation
        elif isinstance(node, ast.FunctionDef):
            yield node.name, node.returns
            if node.name == "__init__":  # which keeps what it takes
                yield from ((it.arg, it.annotation) for it in node.args.args[1:])
        elif isinstance(node, ast.ClassDef):
            yield from _annotated(node.body)


def _assigned(node: ast.AST) -> set[str]:
    """What a function assigns; not what functions and comprehensions in it do."""
    found = set()
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            found.add(each.id)
        elif not isinstance(each, (*_COMPREHENSIONS, ast.FunctionDef)):
            found |= _assigned(each)
    return found - {"_"}
