"""The planted faults follow the code: each can be planted, and what is to catch it is there."""

import shlex
import tomllib

from mutants.run import MUTANTS, ROOT, cannot_stand

PLANTED = tomllib.loads(MUTANTS.read_text())["mutant"]


def test_each_fault_can_be_planted():
    assert [said for mutant in PLANTED if (said := cannot_stand(ROOT, mutant))] == []


def test_what_is_to_catch_a_fault_is_there():
    named = {
        part.partition("::")[0]
        for mutant in PLANTED
        for part in shlex.split(mutant["tests"])
        if part.startswith(("tests/", "src/"))
    }
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
