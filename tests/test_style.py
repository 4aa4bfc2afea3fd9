"""ruff finds nothing, and would change nothing; annotated shapes are checked."""

import re
import subprocess
import sys

import jaxtyping
import pytest

from qkv import _arrays, masks
from support import ROOT


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=" ".join)
def test_ruff(command):
    ruff = [sys.executable, "-m", "ruff", *command, "src", "tests"]
    found = subprocess.run(ruff, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


def test_where_shapes_are_annotated_they_are_checked(pytestconfig):
    annotated = {
        ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        for path in (ROOT / "src" / "qkv").rglob("*.py")
        if re.search(r"from qkv._arrays import [^)]*?\b(Bool|Float|Int)\b", path.read_text())
    }
    (option,) = (each for each in pytestconfig.getini("addopts") if "--jaxtyping-packages" in each)
    assert {*option.partition("=")[2].split(",")} == {*annotated, "beartype.beartype"}
    assert _arrays.Float is jaxtyping.Float
    with pytest.raises(jaxtyping.TypeCheckError):
        masks.padding([2, 3], n_k=3)
