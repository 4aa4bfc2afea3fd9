"""The library pages say what was run, on which version and when: here is why they may."""

import re
import tomllib

from real_layers import CASES, LIBRARIES
from record import LAST_RUN

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
    assert RUN["versions"].keys() == {
        used for libraries in LIBRARIES.values() for used in libraries
    }
