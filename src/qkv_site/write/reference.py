"""What the reference says of a name, as Markdown: its docstrings, where mkdocstrings renders them.

A page asks for it with a line `::: qkv.attention`, and options below it.
"""

import inspect
import pydoc
import re
import textwrap
from collections.abc import Callable
from types import ModuleType

import yaml

from qkv_site.write.markdown import fenced

_ASKED = re.compile(r"^::: ([\w.]+)\n((?: {4}.*\n|\n(?= {4}))*)", re.MULTILINE)


def documented(markdown: str) -> str:
    """A page with what the docstrings say in the places where it asks for them."""
    return _ASKED.sub(lambda asked: _documented(asked[1], asked[2]), markdown)


def _documented(name: str, settings: str) -> str:
    thing = pydoc.locate(name)
    options = (yaml.safe_load(textwrap.dedent(settings)) or {}).get("options", {})
    if not isinstance(thing, ModuleType):
        return _described(name, thing)
    names = options.get("members") or getattr(thing, "__all__", None) or _public(thing)
    described = (_described(f"{name}.{each}", getattr(thing, each)) for each in names)
    return "\n".join([_docstring(thing), *described])


def _public(module: ModuleType) -> list[str]:
    return [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(thing) or inspect.isclass(thing))
        and thing.__module__.startswith(module.__name__)
    ]


def _described(name: str, thing: object) -> str:
    said = [f"## {name} {{ #{name} }}\n"]
    if callable(thing):
        said.append(fenced("python", f"{name.rpartition('.')[2]}{_signature(thing)}\n"))
    said.append(_docstring(thing))
    if inspect.isclass(thing):
        for method, function in vars(thing).items():
            function = getattr(function, "__func__", function)
            if not method.startswith("_") and getattr(function, "__doc__", None):
                said.append(f"**{method}**\n")
                said.append(_docstring(function))
    return "\n".join(said) + "\n"


def _signature(thing: Callable) -> str:
    try:
        # A default that is a function is shown by its name, not by where it lies in memory.
        return re.sub(r"<function (\w+) at 0x\w+>", r"\1", str(inspect.signature(thing)))
    except (TypeError, ValueError):
        return ""


def _docstring(thing: object) -> str:
    said = inspect.getdoc(thing) if not isinstance(thing, (int, float, str, tuple, dict)) else None
    return fenced("text", said) if said else ""
