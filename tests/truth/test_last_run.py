"""The library pages say what was run, on which version and when: here is why they may."""

import importlib.metadata
import re
import tomllib

import pytest
from attention_functions import PACKAGES
from real_layers import CASES, LIBRARIES, RAN_ONCE
from record import LAST_RUN

from qkv.layouts import layouts
from support import ROOT

RUN = tomllib.loads(LAST_RUN.read_text())


def test_the_last_run_was_on_the_versions_that_the_project_installs():
    """A library that constraints.txt raises needs a new run: python tests/truth/record.py."""
    constraints = (ROOT / "constraints.txt").read_text()
    for library, version in RUN["versions"].items():
        assert version in re.findall(rf"^{library}==(\S+)", constraints, re.MULTILINE), library


def test_the_last_run_was_of_every_layout_that_has_a_real_layer():
    ran = {case.layout for case in CASES.values()}
    assert {name: tuple(used) for name, used in RUN["layouts"].items()} == LIBRARIES
    assert ran == LIBRARIES.keys()
    assert RUN["once"] == RAN_ONCE
    of_layers = {used for libraries in LIBRARIES.values() for used in libraries}
    assert RUN["versions"].keys() == of_layers | PACKAGES


@pytest.mark.parametrize("name", RUN["layouts"])
def test_a_layout_was_read_in_the_version_that_ran(name):
    """The lines that a layout names begin classes, in the version that last ran.

    A version that is newer than that may have moved them, and proves nothing about the statement.
    """
    library, *_ = RUN["layouts"][name]
    version, read_in = RUN["versions"][library], layouts()[name].read_in
    assert read_in.startswith(f"{library} {version}, ")
    try:
        distribution = importlib.metadata.distribution(library)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{library} is not installed")
    if distribution.version.partition("+")[0] != version:
        return
    named = re.findall(r"([\w/]+\.py), lines? (\d+)", read_in)
    assert named
    for path, line in named:
        folder = "transformers/" if library == "transformers" else ""
        code = distribution.locate_file(folder + path).read_text().splitlines()
        assert code[int(line) - 1].startswith("class "), f"{path}, line {line}"
