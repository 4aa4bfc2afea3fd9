"""What the reference says of a name: its docstrings, where mkdocstrings renders them.

A page asks for it with a line `::: qkv.attention`, and options below it.
"""

import ast
import inspect
import itertools
import pkgutil
import pydoc
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType

import yaml

_ASKED = re.compile(r"^::: ([\w.]+)\n((?: {4}.*\n|\n(?= {4}))*)", re.MULTILINE)


@dataclass(frozen=True)
class Documented:
    """A name of the package.

    Attributes:
        name: In full, as it is imported.
        title: As a heading has it: what a page asks for by itself is named in full.
        thing: What it names.
        said: What stands below a value in its module, which no value keeps itself.
        methods: Its methods and properties, where it is a class.
    """

    name: str
    title: str
    thing: object
    said: str = ""
    methods: tuple["Documented", ...] = ()

    @property
    def docstring(self) -> str:
        """What is said of it; a value itself has what its class says, which is of no use."""
        described = self.is_module or callable(self.thing) or self.is_property
        return self.said or (described and inspect.getdoc(self.thing)) or ""

    @property
    def is_module(self) -> bool:
        """Whether it is a module, whose names follow."""
        return isinstance(self.thing, ModuleType)

    @property
    def is_property(self) -> bool:
        """Whether it is a property of a class."""
        return isinstance(self.thing, property | cached_property)

    @property
    def source(self) -> str:
        """Its code, if it has some."""
        thing = getattr(self.thing, "fget", None) or getattr(self.thing, "func", self.thing)
        try:
            return "" if self.is_module else inspect.getsource(thing)
        except (OSError, TypeError):  # a value, or what NumPy wrote in C
            return ""

    @property
    def signature(self) -> str:
        """How it is called, if it can be."""
        if not callable(self.thing):
            return ""
        try:
            # A default that is a function is shown by its name, not by where it lies in memory.
            said = str(inspect.signature(self.thing))
            return re.sub(r"<function (\w+) at 0x\w+>", r"\1", said)
        except (TypeError, ValueError):
            return ""


def split(prose: str) -> Iterator[str | Documented]:
    """Text, and the names that stand between it; where a module is asked for, it comes first."""
    done = 0
    for asked in _ASKED.finditer(prose):
        yield prose[done : asked.start()]
        options = (yaml.safe_load(textwrap.dedent(asked[2])) or {}).get("options", {})
        yield from _documented(asked[1], options.get("members"))
        done = asked.end()
    yield prose[done:]


def _documented(name: str, members: list[str] | None) -> Iterator[Documented]:
    thing = pydoc.locate(name)
    if not isinstance(thing, ModuleType):
        yield _named(name, name, thing, "" if callable(thing) else _below(name, thing))
        return
    yield Documented(name, name, thing)
    said = _below_values(thing)
    for each in members or getattr(thing, "__all__", None) or [*said, *_public(thing)]:
        yield _named(f"{name}.{each}", each, getattr(thing, each), said.get(each, ""))


def _named(name: str, title: str, thing: object, said: str = "") -> Documented:
    if not inspect.isclass(thing):
        return Documented(name, title, thing, said)
    found = (
        Documented(f"{name}.{method}", method, getattr(function, "__func__", function))
        for method, function in vars(thing).items()
        if method == "__call__" or not method.startswith("_")
    )
    return Documented(name, title, thing, said, tuple(each for each in found if each.docstring))


def _below(name: str, value: object) -> str:
    """The string below a value, in the module of its package that makes it."""
    package, _, own = name.rpartition(".")
    parts = pkgutil.iter_modules(pydoc.locate(package).__path__, f"{package}.")
    found = (module for module in map(pydoc.locate, (each.name for each in parts)))
    of_value = (each for each in found if getattr(each, own, None) is value)
    return next(filter(None, (_below_values(each).get(own) for each in of_value)), "")


def _below_values(module: ModuleType) -> dict[str, str]:
    """Of each name that a module gives to a value, the string that stands below it."""
    found = {}
    for one, other in itertools.pairwise(ast.parse(inspect.getsource(module)).body):
        match one, other:
            case (
                (ast.Assign([ast.Name(name)]) | ast.AnnAssign(ast.Name(name))),
                ast.Expr(ast.Constant(str(said))),
            ):
                found[name] = inspect.cleandoc(said)
    return {name: said for name, said in found.items() if not name.startswith("_")}


def _public(module: ModuleType) -> list[str]:
    return [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(thing) or inspect.isclass(thing))
        and thing.__module__.startswith(module.__name__)
    ]
