"""What the README says: CI runs its commands, and what it names is there."""

import importlib
import re
import shlex

import qkv
from support import ROOT

TEXT = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"^```console\n(.*)\n```", TEXT, re.MULTILINE)


def test_ci_runs_the_readmes_test_commands():
    commands = [command for command in COMMANDS if "pytest" in command]
    assert len(commands) == 2
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-2:] == commands


def test_the_built_site_has_one_file_to_install_and_the_line_for_it(site):
    [command] = [command for command in COMMANDS if command.startswith("pip install")]
    folder, _, pattern = shlex.split(command)[-1].partition("/")
    assert folder == "site"
    [wheel] = site.glob(pattern)
    page = (site / "reference" / "index.html").read_text()
    _, found, after = page.partition('id="run"')
    assert found
    assert "pip install" in after
    assert wheel.name in after


def test_each_name_of_the_table_is_a_public_name_or_a_module():
    rows = re.findall(r"^\| (`qkv\..+?) \|", TEXT, re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`qkv\.(\w+)`", row)]
    assert {"attention", "MultiHead", "load", "dump", "which", "diagnose"} <= {*names}
    for name in {*names} - {*qkv.__all__}:
        assert importlib.import_module(f"qkv.{name}").__doc__


def test_the_line_of_python_runs():
    [code] = [shlex.split(command)[-1] for command in COMMANDS if "python -c" in command]
    exec(code, {})


def test_the_order_of_reading_names_each_file_of_the_small_module():
    order = re.findall(r"^\| `(\w+\.py)` \|", TEXT, re.MULTILINE)
    files = [path.name for path in (ROOT / "src" / "qkv").glob("*.py")]
    assert sorted(order) == sorted(files)
    assert len(files) <= 9
    small = [path for path in order if path != "between.py"]
    lines = sum(len((ROOT / "src" / "qkv" / name).read_text().splitlines()) for name in small)
    assert lines <= 1650


def test_each_room_beside_the_small_module_is_named():
    rooms = [path.parent.name for path in (ROOT / "src" / "qkv").glob("*/__init__.py")]
    assert len(rooms) == 6
    assert [room for room in rooms if f"`{room}`" not in TEXT] == []
