"""The reference holds every public module of qkv, and every public name."""

import importlib
import inspect
import pkgutil
import re
import zlib

import pytest

import qkv
from qkv_site.write import reference
from support import ROOT

PAGES = {page.name: page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md")}
MODULES = [m.name for m in pkgutil.iter_modules(qkv.__path__) if not m.name.startswith("_")]


def public_names(module):
    """The names that a module lists, or the classes and functions that it defines."""
    return getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]


@pytest.fixture(scope="module")
def inventory(site):
    """Every object that other projects can link to."""
    *_, packed = (site / "objects.inv").read_bytes().split(b"\n", 4)
    return {line.split()[0] for line in zlib.decompress(packed).decode().splitlines()}


@pytest.mark.parametrize("name", MODULES)
def test_each_public_module_has_a_page_and_each_public_name_is_in_the_reference(name, inventory):
    names = public_names(importlib.import_module(f"qkv.{name}"))
    assert names
    assert [each for each in names if f"qkv.{name}.{each}" not in inventory] == []
    asked = re.compile(rf"^::: qkv\.({name}|({name}\.)?({'|'.join(names)}))$", re.MULTILINE)
    having = [page for page, text in PAGES.items() if asked.search(text)]
    assert any(re.search(rf"\]\({page}(#[\w.]+)?\)", PAGES["index.md"]) for page in having)


def test_each_name_of_the_package_is_in_the_reference(inventory):
    assert {*MODULES}.isdisjoint(qkv.__all__)  # no public name is hidden by a module
    homes = {n.rpartition(".")[2] for n in inventory if n.startswith("qkv.")}
    assert [n for n in qkv.__all__ if n not in homes] == []


def test_the_copy_of_the_reference_says_how_methods_are_called_and_what_values_are(site):
    [layer] = [
        each for each in reference.split(PAGES["equation_1.md"]) if getattr(each, "methods", ())
    ]
    said = {method.title: method for method in layer.methods}
    assert {"random", "project", "attend", "join", "__call__", "d_k"} <= {*said}
    assert all(method.docstring for method in layer.methods)
    assert "mask" in said["__call__"].signature
    for page, shown in {
        "equation_1": "project(self, X_Q",
        "masks": "a name for each argument, to its form",
    }.items():
        assert shown in (site / "reference" / page / "index.md").read_text()
