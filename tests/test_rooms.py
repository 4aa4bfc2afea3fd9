"""The drawing of the rooms in CONTRIBUTING.md, and what modules and pages import."""

import ast
import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter

import pytest

import qkv
from qkv_site.page import Site
from qkv_site.run import blocks_of
from support import ROOT

DRAWING = re.search(
    r"^```mermaid\n(.*?)^```", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE | re.DOTALL
)[1]
ROOMS = dict(re.findall(r'^ *(\w+)\["(.+?)"\]', DRAWING, re.MULTILINE))
ARROWS = {
    (room, imported)
    for room, all_imported in re.findall(r"^ *(\w+) --> ([\w &]+)$", DRAWING, re.MULTILINE)
    for imported in all_imported.split(" & ")
}
OURS = ("qkv", "qkv_site")


def imports(code: str, for_types: bool = False) -> Iterator[str]:
    """The full names that code imports when it runs, or those too that a type checker reads."""
    waiting = [ast.parse(code)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not for_types:
            continue
        waiting += ast.iter_child_nodes(node)
        match node:
            case ast.Import():
                yield from (each.name for each in node.names)
            case ast.ImportFrom():
                yield from (f"{node.module}.{each.name}" for each in node.names)


def room_of(name: str) -> str:
    """The room, as the drawing calls it, that a module or a name of it belongs to."""
    folders = {
        folder.removeprefix("src/").replace("/", "."): room for room, folder in ROOMS.items()
    }
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        if ".".join(parts[:n]) in folders:
            return folders[".".join(parts[:n])]
    raise AssertionError(f"{name} is in no room of the drawing")


def found() -> dict[tuple[str, str], str]:
    """From which room to which there is an import, and one file in which it stands."""
    pairs = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        for imported in imports(path.read_text()):
            if imported.split(".")[0] in OURS:
                pairs.setdefault((room_of(name), room_of(imported)), str(path))
    for name, page in Site().pages.items():
        for block in blocks_of(page):
            for imported in imports(block.code):
                if imported.split(".")[0] in OURS:
                    pairs.setdefault(("docs", room_of(imported)), name)
    return {(here, there): path for (here, there), path in pairs.items() if here != there}


def test_an_arrow_stands_for_an_import_and_each_import_between_rooms_has_its_arrow():
    assert {*found()} == ARROWS, {pair: found()[pair] for pair in {*found()} - ARROWS}


def test_each_folder_of_modules_is_a_room():
    folders = {path.parent for path in (ROOT / "src").rglob("*.py")}
    drawn = {ROOT / folder for folder in ROOMS.values()}
    assert drawn == folders | {ROOT / "docs"}
    assert drawn == {folder for folder in drawn if folder.is_dir()}


def test_a_room_says_what_it_is_for():
    rooms = [ROOT / folder / "__init__.py" for folder in {*ROOMS.values()} - {"docs"}]
    purposes = [ast.get_docstring(ast.parse(room.read_text())) for room in rooms]
    assert all(purposes)
    assert len({*purposes}) == len(rooms)


@pytest.mark.parametrize("path", sorted((ROOT / "src" / "qkv").rglob("*.py")), ids=lambda p: p.stem)
def test_the_package_is_imported_with_numpy_alone(path):
    """A function may ask for more, as `load` does for a file of safetensors."""
    at_once = "\n".join(
        ast.unparse(node)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Import | ast.ImportFrom)
    )
    needed = {name.split(".")[0] for name in imports(at_once)} - {*sys.stdlib_module_names}
    assert needed <= {"qkv", "numpy"}


def printed_by(code: str) -> str:
    """What code prints in a process of its own, for this one has loaded much already."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    run = [sys.executable, "-c", code]
    return subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout


CORE = [
    "qkv",
    "qkv._arrays",
    "qkv.between",
    "qkv.equation_1",
    "qkv.maps",
    "qkv.masks",
    "qkv.multi_head",
]


def test_the_package_alone_loads_numpy_and_the_core():
    ours, others = printed_by(
        "import sys, numpy\nbefore = {*sys.modules}\nimport qkv\nnew = {*sys.modules} - before\n"
        "print(*sorted(name for name in new if name.startswith('qkv')))\n"
        "print(*{name.split('.')[0] for name in new} - sys.stdlib_module_names)"
    ).splitlines()
    assert ours.split() == CORE
    assert others == "qkv"


@pytest.mark.parametrize(
    "used", ["masks", "example", "notation", "costs", "layouts", "mistakes", "shapes", "maps"]
)
def test_a_room_is_there_after_the_package_is_imported(used):
    assert printed_by(f"import qkv\nprint(qkv.{used}.__name__)").strip() == f"qkv.{used}"


@pytest.mark.parametrize(
    ("name", "room"), [("load", "layouts"), ("diagnose", "mistakes"), ("which", "shapes")]
)
def test_a_room_is_loaded_when_a_function_of_it_is_first_used(name, room):
    printed = printed_by(
        f"import sys, qkv\nprint('qkv.{room}' in sys.modules)\nqkv.{name}\n"
        f"print('qkv.{room}' in sys.modules)"
    )
    assert printed.split() == ["False", "True"]


def test_a_name_that_the_package_has_not_is_an_error_and_its_names_are_listed():
    with pytest.raises(AttributeError, match="module 'qkv' has no attribute 'wich'"):
        qkv.wich  # noqa: B018
    assert {*qkv.__all__, "costs", "example", "notation", "__version__"} <= {*dir(qkv)}
    assert len(qkv.__all__) <= 14


def test_the_version_is_that_of_the_distribution_and_a_checkout_has_none(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: {"which-q": "1.2"}[name])
    assert qkv.__version__ == "1.2"

    def not_installed(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", not_installed)
    assert qkv.__version__ == "0+not-installed"


def test_no_module_of_the_package_imports_itself_over_others():
    """The root's imports for a type checker are left out: it loads these rooms when asked."""
    names = {
        ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__"): {
            *imports(path.read_text(), for_types=path.parent.name != "qkv")
        }
        for path in (ROOT / "src" / "qkv").rglob("*.py")
    }

    def module_of(name):
        return name if name in names else module_of(name.rpartition(".")[0])

    graph = {
        module: {module_of(name) for name in imported if name.startswith("qkv.")}
        for module, imported in names.items()
    }
    assert graph["qkv.equation_1"] == {"qkv._arrays"}
    assert [module for module, imported in graph.items() if "qkv" in imported] == []
    TopologicalSorter(graph).prepare()  # it raises CycleError, with the modules of a circle
