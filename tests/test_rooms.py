"""The drawing of the rooms in CONTRIBUTING.md, and what modules and pages import."""

import ast
import re
import sys
from collections.abc import Iterator

import pytest

from qkv_site.markdown import blocks
from support import ROOT

DRAWING = re.search(
    r"^```mermaid\n(.*?)^```", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE | re.DOTALL
)[1]
ROOMS = dict(re.findall(r'^ *([\w.]+)\["<b>(.+?)</b>', DRAWING, re.MULTILINE))
ARROWS = set(re.findall(r"^ *([\w.]+) --> ([\w.]+)$", DRAWING, re.MULTILINE))
OURS = ("qkv", "qkv_site")


def imports(code: str) -> Iterator[str]:
    """The full names that code imports when it runs, not those that only a type checker reads."""
    waiting = [ast.parse(code)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
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
    for path in sorted((ROOT / "docs").rglob("*.md")):
        for block in blocks.find(path.read_text()):
            for imported in imports(block.code) if block.executed else ():
                if imported.split(".")[0] in OURS:
                    pairs.setdefault(("docs", room_of(imported)), str(path))
    return {(here, there): path for (here, there), path in pairs.items() if here != there}


def test_an_arrow_stands_for_an_import_and_each_import_between_rooms_has_its_arrow():
    assert {*found()} == ARROWS, {pair: found()[pair] for pair in {*found()} - ARROWS}


def test_each_folder_of_modules_is_a_room():
    folders = {path.parent for path in (ROOT / "src").rglob("*.py")}
    drawn = {ROOT / folder for folder in ROOMS.values()}
    assert drawn == folders | {ROOT / "docs", ROOT / "tests"}
    assert drawn == {folder for folder in drawn if folder.is_dir()}


def test_a_room_says_what_it_is_for():
    purposes = dict(re.findall(r'^ *([\w.]+)\["<b>.+?</b><br>(.+?)"\]', DRAWING, re.MULTILINE))
    assert purposes.keys() == ROOMS.keys()
    assert len({*purposes.values()}) == len(purposes)


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
