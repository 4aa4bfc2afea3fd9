"""The worked examples of CONTRIBUTING.md are followed, step by step, in a copy of this project.

A file is written, lines are put below or above a line, and commands run, in the environment of
these tests.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import ROOT, thorough

TEXT = (ROOT / "CONTRIBUTING.md").read_text()
MADE = {".git", ".venv", ".cache", ".pytest_cache", ".ruff_cache", ".hypothesis", "site", "build"}
STEP = re.compile(
    r"(?P<said>(?:^(?!```|#)[^\n]+\n)+)\n(?P<ticks>^`{3,})(?P<language>\w+)\n(?P<code>.*?)^(?P=ticks)$",
    re.MULTILINE | re.DOTALL,
)
WRITE = re.compile(r"Write `([^`]+)`:$")
PUT = re.compile(r"In `([^`]+)`, (below|above) the line with `([^`]+)`:$")


def section(title: str) -> str:
    """What stands below a heading, up to the next heading of its level or a higher one."""
    mark, _, _ = title.partition(" ")
    fences = re.compile(r"^(`{3,})\w+[^`\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)
    outside = fences.sub(lambda fence: re.sub(r"[^\n]", " ", fence[0]), TEXT)
    _, found, _ = outside.partition(f"\n{title}\n")
    assert found, f"CONTRIBUTING.md has no heading {title!r}"
    start = outside.index(f"\n{title}\n") + len(title) + 2
    following = re.compile(rf"^#{{1,{len(mark)}}} ", re.MULTILINE).search(outside, start)
    return TEXT[start : following.start() if following else None]


def steps(text: str) -> list[re.Match]:
    """Each block of a text, with the paragraph before it."""
    found = [*STEP.finditer(text)]
    fences = re.findall(r"^(`{3,})\w+\n.*?^\1$", text, re.MULTILINE | re.DOTALL)
    assert len(found) == len(fences) > 0, "a block has no words before it"
    return found


@dataclass
class Newcomer:
    """Does what the text says, in a folder."""

    folder: Path

    def follow(self, text: str) -> str:
        """Do all steps of a text, and say what the commands said."""
        said = [
            self.do(" ".join(step["said"].split()), step["language"], step["code"])
            for step in steps(text)
        ]
        return "\n".join(filter(None, said))

    def do(self, said: str, language: str, code: str) -> str | None:
        """Do one step."""
        if language == "console":
            return self.run(code)
        if written := WRITE.search(said):
            path = self.folder / written[1]
            if path.exists():
                raise ValueError(f"{written[1]} is there already.")
            path.write_text(code)
        elif put := PUT.search(said):
            self.put(code, *put.groups())
        else:
            raise ValueError(f"No step is known that begins: {said!r}")
        return None

    def put(self, code: str, name: str, side: str, words: str) -> None:
        """Put lines below or above the one line of a file that has these words."""
        lines = (self.folder / name).read_text().splitlines(keepends=True)
        having = [n for n, line in enumerate(lines) if words in line]
        if len(having) != 1:
            raise ValueError(f"{name} has {len(having)} lines with {words!r}, expected 1.")
        lines.insert(having[0] + (side == "below"), code)
        (self.folder / name).write_text("".join(lines))

    def run(self, code: str) -> str:
        """Run commands in the folder, with its modules and nothing of the tests that run."""
        outside = {name: each for name, each in os.environ.items() if name[:7] != "PYTEST_"}
        ran = subprocess.run(
            ["bash", "-ec", code.replace(".venv/bin/", f"{Path(sys.executable).parent}/")],
            cwd=self.folder,
            env=outside | {"PYTHONPATH": f"{self.folder}/src", "NO_MKDOCS_2_WARNING": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert ran.returncode == 0, f"{code}\n{ran.stdout}"
        return ran.stdout


@dataclass(frozen=True)
class Example:
    """A worked example, and what is seen after it, in a file of the built site or on the screen."""

    heading: str
    words: tuple[str, ...]
    file: str = ""


EXAMPLES = {
    "page": Example(
        "### Worked example: a page",
        ('id="claim-a-head-stays-between-its-values"', "(5, 4) numbers of the head"),
        "site/explanation/between-the-values/index.html",
    ),
    "notation": Example(
        "### Worked example: a notation",
        ('value="my-notes"', '<h3 id="my-notes">', "Notes on attention"),
        "site/notation/index.html",
    ),
    "role": Example("### Worked example: a role", ("G_i = X_Q W_i^G",)),
    "library": Example("### Worked example: a library", ("tests/site/test_libraries.py .",)),
}


def left_out(folder, _):
    """What stands in the project's own folder and is no part of it."""
    return MADE if Path(folder) == ROOT else set()


@pytest.mark.parametrize("name", ["role", *thorough(*sorted(EXAMPLES.keys() - {"role"}))])
def test_an_example_is_followed(name, tmp_path):
    example = EXAMPLES[name]
    newcomer = Newcomer(tmp_path / "copy")
    shutil.copytree(ROOT, newcomer.folder, ignore=left_out)
    said = newcomer.follow(section(example.heading))
    seen = (newcomer.folder / example.file).read_text() if example.file else said
    assert [words for words in example.words if words not in seen] == [], said


def test_each_example_is_followed():
    headings = re.findall(r"^### Worked example: .*$", TEXT, re.MULTILINE)
    assert sorted(headings) == sorted(example.heading for example in EXAMPLES.values())


def test_lines_go_below_and_above_the_line_that_is_named(tmp_path):
    newcomer = Newcomer(tmp_path)
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    newcomer.follow(
        "In `a.txt`, below the line with `one`:\n\n```text\nB\n```\n\n"
        "Then. In `a.txt`, above the line\nwith `one`:\n\n```text\nA\n```\n"
    )
    assert (tmp_path / "a.txt").read_text() == "A\none\nB\ntwo\n"
