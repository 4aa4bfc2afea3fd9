"""Environments of Python that hold what a test names, made without a network."""

import importlib.metadata
import os
import subprocess
import venv
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def with_needs(*names: str) -> set[str]:
    """These distributions and all that they need."""
    found, left = set(), [*names]
    while left:
        name = canonicalize_name(left.pop())
        if name in found:
            continue
        found.add(name)
        for line in importlib.metadata.requires(name) or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                left.append(needed.name)
    return found


def make(folder: Path, *names: str) -> Path:
    """An environment with these distributions, links to those installed here; its Python."""
    venv.create(folder, symlinks=os.name != "nt")
    [python] = [*folder.glob("bin/python"), *folder.glob("Scripts/python.exe")]
    show = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(subprocess.check_output([python, "-c", show], text=True).strip())
    for name in names:
        tops = {path.parts[0] for path in importlib.metadata.files(name)}
        for top in tops - {"..", "__pycache__"}:
            installed = importlib.metadata.distribution(name).locate_file(top)
            (packages / top).symlink_to(installed, target_is_directory=installed.is_dir())
    return python


def run(*command: str | Path, cwd: Path, **settings: str) -> str:
    """What a command prints, without the packages of this project; it has to succeed."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [*command], cwd=cwd, env=kept | settings, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
