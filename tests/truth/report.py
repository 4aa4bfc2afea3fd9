"""Say which statements about libraries no longer hold, and on which pages they stand.

    python tests/truth/report.py

runs the tests in this folder on the libraries that are installed, and prints a report in Markdown:
the versions, and for each test that failed the statement and its pages. It ends with 1 if one
failed. Other arguments, such as `-k keras`, go to pytest.
"""

import contextlib
import datetime
import importlib.metadata
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@dataclass(frozen=True)
class Failure:
    """A test that failed.

    Attributes:
        test: Its name, without parameters.
        where: Its file and line, and its name with parameters.
        statement: The first line of its docstring, or its name in words.
        layout: The layout that it is about, where it is about one.
        seen: What it saw, in a line.
    """

    test: str
    where: str
    statement: str
    layout: str
    seen: str


class Seen:
    """A plugin of pytest that keeps what failed, and counts what passed and what was skipped."""

    def __init__(self):
        self.items = {}
        self.failures = []
        self.count = Counter()

    def pytest_collection_modifyitems(self, items):
        self.items |= {item.nodeid: item for item in items}

    def pytest_collectreport(self, report):
        if report.failed:
            statement = "A module of tests cannot be imported, so none of its statements was run"
            self._add(report.nodeid or "a module", report, statement=statement)

    def pytest_runtest_logreport(self, report):
        if report.failed:
            item = self.items[report.nodeid]
            test = getattr(item, "originalname", item.name)
            said = (getattr(getattr(item, "function", None), "__doc__", None) or "").strip()
            words = test.removeprefix("test_").replace("_", " ").capitalize()
            parameters = item.callspec.params if hasattr(item, "callspec") else {}
            case = parameters.get("case")
            self._add(
                test,
                report,
                statement=said.partition("\n")[0].rstrip(".") or words,
                layout=case.layout if case else parameters.get("layout", ""),
            )
        elif report.skipped or report.when == "call":
            self.count[report.outcome] += 1

    def _add(self, test: str, report, statement: str, layout: str = ""):
        crash = getattr(report.longrepr, "reprcrash", None)
        said = (crash.message if crash else report.longreprtext).splitlines()
        lines = [line.strip() for line in said if line.strip()]
        # An assertion says first what it saw; what cannot be imported says it last.
        seen = "; ".join(lines[:5] if crash else lines[-1:])
        file, line, name = getattr(report, "location", (test, None, test))
        where = f"{file}, line {line + 1}, {name}" if line is not None else test
        self.failures.append(Failure(test, where, statement, layout, seen[:300]))


def markdown(
    failures: list[Failure],
    count: Mapping[str, int],
    versions: Mapping[str, str],
    before: Mapping[str, str],
    docs: Path,
    day: datetime.date,
) -> str:
    """The report.

    Args:
        failures: The tests that failed.
        count: How many tests "passed" and how many were "skipped".
        versions: The version of each library.
        before: Its version in the last run that was written down.
        docs: The folder of the pages.
        day: When they ran.
    """
    passed, skipped = count.get("passed", 0), count.get("skipped", 0)
    return "\n".join(
        (
            f"# {len(failures)} of {passed + len(failures)} tests on libraries failed",
            "",
            f"Run on {day.day} {day:%B %Y}. Skipped: {skipped}.",
            "",
            *(
                f"- {library} {version}"
                + (f" (last run: {before[library]})" if before.get(library) != version else "")
                for library, version in versions.items()
            ),
            *(line for failure in failures for line in _section(failure, docs)),
        )
    )


def pages(failure: Failure, docs: Path) -> list[str]:
    """Where the pages name a test, as file and line; first the page of its layout."""
    named = re.compile(rf"#{failure.test.replace('_', '-')}(?![\w-])|\b{failure.test}\b")
    found = [
        f"{path.relative_to(docs.parent).as_posix()}, line {number}"
        for path in sorted([*docs.rglob("*.md"), *docs.rglob("layouts.toml")])
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if named.search(line)
    ]
    of_layout = docs / "libraries" / f"{failure.layout}.md"
    if failure.layout and not of_layout.exists():
        of_layout = of_layout.with_name("layouts.toml")
    return ([of_layout.relative_to(docs.parent).as_posix()] if failure.layout else []) + found


def _section(failure: Failure, docs: Path) -> Iterator[str]:
    yield f"\n## {failure.statement}{f' ({failure.layout})' if failure.layout else ''}\n"
    yield from (f"- Page: {page}" for page in pages(failure, docs) or ["none names it"])
    yield f"- Test: `{failure.where}`"
    yield f"- Seen: `{failure.seen.replace('`', chr(39))}`"


def installed(libraries: Mapping[str, str]) -> dict[str, str]:
    """The versions that are installed of some libraries."""
    found = {}
    for library in libraries:
        found[library] = "is not installed"
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[library] = importlib.metadata.version(library).partition("+")[0]
    return found


def main(arguments: list[str]) -> int:
    """Run the tests, print the report, and return the exit code."""
    seen = Seen()
    before = tomllib.loads((HERE / "last_run.toml").read_text())["versions"]
    folder = [] if any(Path(each).exists() for each in arguments) else [str(HERE)]
    with contextlib.redirect_stdout(sys.stderr):
        code = pytest.main(
            ["-q", "--tb=line", "-p", "no:cacheprovider", f"--rootdir={ROOT}", *folder, *arguments],
            plugins=[seen],
        )
    today = datetime.date.today()
    print(markdown(seen.failures, seen.count, installed(before), before, ROOT / "docs", today))
    return 1 if seen.failures else int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
