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


def test_a_signature_shows_the_shapes_as_the_site_does():
    """Without jaxtyping too, as whoever installs the package has it."""
    shown = (
        "import inspect, qkv; print(inspect.signature(qkv.MultiHead), inspect.signature(qkv.fold))"
    )
    ran = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    assert 'W_Q: Float[ndarray, "h d_model d_k"], ' in ran.stdout
    assert 'P_Q: Float[ndarray, "d_in d_model"] | None = None' in ran.stdout
