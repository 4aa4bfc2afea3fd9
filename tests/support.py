"""What tests share."""

import html
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ADDRESS = "https://which-q.example/attention/"  # below a path, as GitHub Pages has it
EPOCH = "1700000000"  # when a test's build takes place
ENVIRONMENT = {"NO_MKDOCS_2_WARNING": "1", "SOURCE_DATE_EPOCH": EPOCH}
CI = os.environ.get("CI", "").lower() == "true"


def refuses(*parts: str, error: type[Exception] = ValueError):
    """Expect an error whose message has these parts in this order; a gap is written " … "."""
    words = " … ".join(parts).split(" … ")
    return pytest.raises(error, match="(?s)" + ".*".join(map(re.escape, words)))


def thorough(*values) -> list:
    """Parameters that a test is tried with if the thorough tests are asked for."""
    each = (value if isinstance(value, tuple) else (value,) for value in values)
    return [pytest.param(*value, marks=pytest.mark.thorough) for value in each]


class Quiet(SimpleHTTPRequestHandler):
    """A host of files that does not print what it is asked for."""

    protocol_version = "HTTP/1.1"  # one connection for many files

    def log_message(self, *_):
        pass


@contextmanager
def served(folder: Path, handler: type[Quiet] = Quiet) -> Iterator[str]:
    """The address of a folder that is served, without a slash at its end."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def mkdocs_build(project: Path, site: Path, **environment: str) -> subprocess.CompletedProcess:
    """Run `mkdocs build --strict` as a user would; never with -q, which hides failures."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", site],
        cwd=project,
        env=os.environ | ENVIRONMENT | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def is_redirect(page: Path) -> bool:
    """Whether a page only leads to another one."""
    return 'http-equiv="refresh"' in page.read_text()


def html_of(site: Path, name: str) -> str:
    """The HTML of a page of a built site, by the name of its file."""
    return (site / name.removesuffix(".md").removesuffix("index") / "index.html").read_text()


def tabs_of(markup: str) -> list[str]:
    """Where the tabs of a page lead."""
    return re.findall(r'<a href="([^"]*)" class="md-tabs__link">', markup)


def words_of(markup: str) -> str:
    """What HTML says, without its tags."""
    return html.unescape(re.sub(r"<[^>]+>", "", markup))


def make_project(project: Path, pages: dict[str, str]) -> None:
    """Write a project of the given pages, with this project's configuration but for `nav`."""
    shutil.copytree(ROOT / "docs" / "assets", project / "docs" / "assets")
    shutil.copytree(ROOT / "src", project / "src")
    truth = project / "tests" / "truth"
    truth.mkdir(parents=True)
    # What blocks of libraries printed.
    shutil.copy(ROOT / "tests" / "truth" / "last_run.toml", truth)
    for name in ("pyproject.toml", "README.md", "LICENSE"):  # what the wheel is built from
        shutil.copy(ROOT / name, project)
    (ROOT / ".cache").mkdir(exist_ok=True)
    (project / ".cache").symlink_to(ROOT / ".cache")  # compiled templates
    before, _, after = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")
    (project / "mkdocs.yml").write_text(before + "\n\n" + after.partition("\n\n")[2])
    for name, text in pages.items():
        page = project / "docs" / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text)


def self_test(*questions: str) -> dict[str, str]:
    """The files of a self-test with these questions."""
    page = (
        '# Test\n\n```python exec="on"\nfrom qkv_site.tables import self_test\n\n'
        "print(self_test.markdown())\n```\n"
    )
    groups = '[groups]\ncourse = "The course"\n\n'
    return {"index.md": page, "self-test.toml": groups + "\n".join(questions)}


def question(name: str = "two", ask: str = "How many?", page: str = "page.md#two") -> str:
    """A question of a self-test, as its file has it."""
    return f"""[[course]]
id = "{name}"
ask = "{ask}"
page = "{page}"
code = "print(1 + 1)"
why = "Count."

[course.wrong]
"{{{{= 1 }}}}" = "This is one of {{{{= 1 + 1 }}}}."
"{{{{= 3 }}}}" = "One more."
"""
