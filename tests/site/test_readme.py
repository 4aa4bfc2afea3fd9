"""What the README tells everyone to run is what CI runs."""

import re

from support import ROOT


def test_ci_runs_the_readmes_test_command():
    commands = re.findall(r"^```console\n(.*)\n```", (ROOT / "README.md").read_text(), re.MULTILINE)
    [command] = [command for command in commands if "pytest" in command]
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == command
