"""Plant faults, one at a time, in a copy of the project, and say which test catches each.

    python tests/mutants/run.py [WORD ...]

runs the faults of `mutants.toml` whose names contain one of the words, or all of them. It takes
minutes and is no part of the tests; they have to pass before it says anything.

A fault is a `name`, a `file`, the `old` text, which has to stand there exactly once, the `new` text
(where it is left out the file is deleted), and `tests`, what pytest is to run. `uncaught` says why
nothing can catch it yet.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
MUTANTS = Path(__file__).with_name("mutants.toml")
CAUGHT = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


def main() -> int:
    """Plant the faults that are asked for; 1 if a fault got through that should not have."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("words", nargs="*", help="only faults whose names contain one of these")
    arguments.add_argument("--mutants", type=Path, default=MUTANTS, help="another list of faults")
    arguments.add_argument("--at", metavar="COMMIT", help="another commit than the working tree")
    chosen = arguments.parse_args()
    mutants = [
        mutant
        for mutant in tomllib.loads(chosen.mutants.read_text())["mutant"]
        if not chosen.words or any(word in mutant["name"] for word in chosen.words)
    ]
    astray = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        copy_project(copy, chosen.at)
        if stale := [said for mutant in mutants if (said := cannot_stand(copy, mutant))]:
            print(*stale, sep="\n", file=sys.stderr)
            return 2
        print("| fault | caught by | seconds |\n| --- | --- | ---: |", flush=True)
        for mutant in mutants:
            began = time.monotonic()
            catcher = plant(copy, mutant)
            astray += (catcher == "") != ("uncaught" in mutant)
            said = f"`{catcher}`" if catcher else "**NOT CAUGHT**"
            if "uncaught" in mutant:
                said += f", expected: {mutant['uncaught']}"
            print(f"| {mutant['name']} | {said} | {time.monotonic() - began:.0f} |", flush=True)
    print(f"\n{len(mutants)} faults, {astray} not as expected")
    return astray > 0


def copy_project(copy: Path, commit: str | None) -> None:
    """Copy what git knows: the files of a commit, or those of the working tree."""
    if commit:
        archive = subprocess.run(
            ["git", "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE
        )
        subprocess.run(["tar", "x"], cwd=copy, check=True, input=archive.stdout)
        return
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in names.splitlines():
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())


def cannot_stand(copy: Path, mutant: dict[str, str]) -> str:
    """Say why a fault cannot be planted; nothing if it can."""
    file = copy / mutant["file"]
    if not file.is_file():
        return f"{mutant['name']}: there is no file {mutant['file']}."
    count = file.read_text().count(mutant["old"]) if "new" in mutant else 1
    if count == 1:
        return ""
    return (
        f"{mutant['name']}: {mutant['old']!r} stands {count} times in {mutant['file']}, "
        "expected once."
    )


def plant(copy: Path, mutant: dict[str, str]) -> str:
    """Plant one fault and take it out again.

    Returns:
        The test that caught it, or nothing.
    """
    file = copy / mutant["file"]
    whole = file.read_text()
    if "new" in mutant:
        file.write_text(whole.replace(mutant["old"], mutant["new"]))
    else:
        file.unlink()
    try:
        return catcher(copy, mutant["tests"])
    finally:
        file.write_text(whole)


def catcher(copy: Path, tests: str) -> str:
    """Run tests until one fails; return its name."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*command, *shlex.split(tests)],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    if ran.returncode == 0:
        return ""
    if found := CAUGHT.search(ran.stdout):
        return found[1]
    if ran.returncode == 4 and "conftest" in ran.stderr:  # nothing can be imported any more
        return ran.stderr.strip().splitlines()[-1].strip()
    raise RuntimeError(f"pytest {tests} said\n{ran.stdout}{ran.stderr}")


if __name__ == "__main__":
    sys.exit(main())
