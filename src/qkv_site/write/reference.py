"""What the reference says of a name: its docstrings, where mkdocstrings renders them.

A page asks for it with a line `::: qkv.attention`, and options below it.
"""

import inspect
import pydoc
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

import yaml

_ASKED = re.compile(r"^::: ([\w.]+)\n((?: {4}.*\n|\n(?= {4}))*)", re.MULTILINE)


@dataclass(frozen=True)
class Documented:
    """A name of the package.

    Attributes:
        name: In full, as it is imported.
        thing: What it names.
        methods: Its methods and properties, where it is a class.
    """

    name: str
    thing: object
    methods: tuple["Documented", ...] = ()

    @property
    def docstring(self) -> str:
        """What it says of itself; a value has what its class says, and that is of no use."""
        own = isinstance(self.thing, int | float | str | tuple | dict)
        return "" if own else inspect.getdoc(self.thing) or ""

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


def split(prose: str) -> Iterator[str | list[Documented]]:
    """Text, and the names that stand between it; where a module is asked for, it comes first."""
    done = 0
    for asked in _ASKED.finditer(prose):
        yield prose[done : asked.start()]
        options = (yaml.safe_load(textwrap.dedent(asked[2])) or {}).get("options", {})
        yield [*_documented(asked[1], options.get("members"))]
        done = asked.end()
    yield prose[done:]


def _documented(name: str, members: list[str] | None) -> Iterator[Documented]:
    thing = pydoc.locate(name)
    if not isinstance(thing, ModuleType):
        yield _named(name, thing)
        return
    yield Documented(name, thing)
    for each in members or getattr(thing, "__all__", None) or _public(thing):
        yield _named(f"{name}.{each}", getattr(thing, each))


def _named(name: str, thing: object) -> Documented:
    if not inspect.isclass(thing):
        return Documented(name, thing)
    found = (
        Documented(f"{name}.{method}", getattr(function, "__func__", function))
        for method, function in vars(thing).items()
        if not method.startswith("_")
    )
    return Documented(
        name, thing, tuple(each for each in found if getattr(each.thing, "__doc__", 0))
    )


def _public(module: ModuleType) -> list[str]:
    return [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(thing) or inspect.isclass(thing))
        and thing.__module__.startswith(module.__name__)
    ]
