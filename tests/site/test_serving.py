"""While `mkdocs serve` runs, a saved change shows, and shows what a clean build would."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from qkv_site.engine.serving import Rebuild
from support import EPOCH, make_project, mkdocs_build

PATIENCE = 60  # seconds; on an idle machine a change shows within two

PAGE = """# A page

```python exec="on"
kept = 41
```

```python exec="on"
import qkv.maps

print(f"kept is {kept}, the answer is {getattr(qkv.maps, 'ANSWER', 'unknown')}.")
```

See [home](index.md#there) and [the reference](reference.md).
"""
OTHERS = {
    "index.md": "# Home { #there }\n\n```formula\nQ[i] = X_Q @ W_Q[i]\n```\n\n{{X_Q}} goes in.\n\n"
    '```python exec="on"\nimport qkv.maps\n\nprint("home", hasattr(qkv.maps, "ANSWER"))\n```\n',
    "reference.md": "# Reference\n\n::: qkv.maps\n\n[merge][qkv.maps.merge] is there, in $W$.\n",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project of three pages."""
    project = tmp_path_factory.mktemp("serving") / "project"
    make_project(project, {"page.md": PAGE} | OTHERS)
    return project


@pytest.fixture(scope="module")
def read(project):
    """Serve the project; what it returns reads a page."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    environment = os.environ | {"PYTHONPATH": str(project / "src"), "NO_MKDOCS_2_WARNING": "1"}
    environment["SOURCE_DATE_EPOCH"] = EPOCH  # as in a build of the tests: pages have its date
    server = subprocess.Popen(
        [sys.executable, "-m", "mkdocs", "serve", "--dev-addr", address],
        cwd=project,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def read(path):
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{address}/{path}") as it:
            return it.read().decode()
        return ""

    read.address, read.server = address, server
    yield read
    server.terminate()
    server.wait()


def shows(read, text, page="page/"):
    return comes(lambda: text in read(page))


def comes(holds):
    """Whether something holds in the end."""
    deadline = time.monotonic() + PATIENCE
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return held


def save(path: Path, text: str) -> None:
    """Write a file, later than all before, whatever the clock of the file system tells apart."""
    path.write_text(text)
    save.time = max(time.time_ns(), getattr(save, "time", 0) + 10**9)
    os.utime(path, ns=(save.time, save.time))


class Server:
    """What a rebuild needs of MkDocs' server."""

    mount_path = "/attention/"

    def watch(self, path, recursive=True):
        pass

    def set_app(self, app):
        self.app = app

    def serve_request(self, environ, start_response):
        return [b"a page"]


@pytest.fixture
def rebuild(tmp_path):
    """What MkDocs' server calls after a change in a folder, with processes that only note it."""
    processes = []

    class Noting:
        def __init__(self, configuration):
            self.name = f"process {sum(said.endswith('starts') for said in processes)}"
            processes.append(f"{self.name} starts")

        def build(self, folder, address, *pages, done=None):
            processes.append(f"{self.name} builds {', '.join(pages) or 'all'}")
            (folder / "index.html").write_text(f"by {self.name}")
            self.done = done

        def succeeds(self):
            return True

        def stop(self):
            processes.append(f"{self.name} is stopped")

    for folder in ("docs", "src", "served"):
        (tmp_path / folder).mkdir()
    config = SimpleNamespace(
        docs_dir=str(tmp_path / "docs"),
        config_file_path=str(tmp_path / "mkdocs.yml"),
        watch=[str(tmp_path / "src")],
        site_dir=str(tmp_path / "served"),
        site_url="http://127.0.0.1/attention/",
    )
    for name in ("docs/page.md", "src/module.py", "mkdocs.yml"):
        save(tmp_path / name, "")
    rebuild = Rebuild(Server(), config, Noting)
    rebuild.processes = processes  # what was asked of each, in order
    rebuild._server.app({"PATH_INFO": "/attention/how-to/masks/"}, None)
    rebuild._server.app({"PATH_INFO": "/attention/assets/site.css"}, None)
    yield rebuild
    rebuild.stop()


def test_the_page_that_is_looked_at_is_built_before_the_whole_site(rebuild, tmp_path):
    save(tmp_path / "docs" / "page.md", "saved")
    rebuild()
    rebuild()  # nothing has changed, such as when an editor writes a file of its own
    assert rebuild.processes == [
        "process 0 starts",  # before anything is saved, and so the page shows at once
        "process 0 builds how-to/masks/",
        "process 1 starts",
        "process 2 starts",
        "process 2 builds all",
    ]
    served = tmp_path / "served" / "index.html"
    assert served.read_text() == "by process 0"
    rebuild._whole.done.touch()
    rebuild()
    assert served.read_text() == "by process 2"
    assert len(rebuild.processes) == 5


@pytest.mark.parametrize("name", ["src/module.py", "mkdocs.yml"])
def test_a_process_that_has_loaded_what_changed_builds_nothing(rebuild, tmp_path, name):
    save(tmp_path / name, "saved")
    rebuild()
    assert rebuild.processes[:4] == [
        "process 0 starts",
        "process 0 is stopped",
        "process 1 starts",
        "process 1 builds how-to/masks/",
    ]


def test_what_is_saved_while_the_site_is_built_does_not_wait_for_it(rebuild, tmp_path):
    for text in ("saved", "saved again"):
        save(tmp_path / "docs" / "page.md", text)
        rebuild()
    assert rebuild.processes[4:7] == [
        "process 2 builds all",
        "process 2 is stopped",
        "process 1 builds how-to/masks/",
    ]


def test_a_saved_page_shows_and_the_server_keeps_nothing_of_it(project, read):
    page, server = project / "docs" / "page.md", psutil.Process(read.server.pid)
    assert shows(read, "kept is 41, the answer is unknown.")
    before = server.memory_info().rss
    for number in range(2):
        page.write_text(PAGE.replace("kept = 41", f"kept = {number}\nlarge = b'x' * 100_000_000"))
        assert shows(read, f"kept is {number}, the answer is unknown.")
    assert server.memory_info().rss - before < 50_000_000
    page.write_text(PAGE)


@pytest.mark.thorough
def test_a_change_shows_and_nothing_is_left_over(project, read):
    page = project / "docs" / "page.md"
    module = project / "src" / "qkv" / "maps.py"

    assert shows(read, "kept is 41, the answer is unknown.")

    module.write_text(module.read_text() + "\nANSWER = 42\n")
    assert shows(read, "kept is 41, the answer is 42.")
    assert shows(read, "home True", "")

    module.write_text(module.read_text().replace("\nANSWER = 42\n", ""))
    assert shows(read, "kept is 41, the answer is unknown.")

    page.write_text(PAGE.replace("kept = 41", "pass"))
    assert shows(read, "NameError")
    assert "kept is 41" not in read("page/index.md")  # its copy has no output of before

    page.write_text(PAGE.replace("kept = 41", "kept = 43"))
    assert shows(read, "kept is 43, the answer is unknown.")

    page.write_text(PAGE.replace("kept = 41", "kept = 44"))
    assert shows(read, "kept is 44, the answer is unknown.")
    built = mkdocs_build(project, project / "built", SITE_URL=f"http://{read.address}/")
    assert built.returncode == 0, built.stdout
    # A served page has no policy, and a script that reloads it. The saved page comes first.
    policy = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
    script = re.compile(r"<script>[^<]*livereload.*?</script>", re.DOTALL)
    for name in ("", "page/", "reference/"):
        expected = policy.sub("", (project / "built" / name / "index.html").read_text())
        assert comes(lambda n=name, e=expected: script.sub("", read(n)) == e), name
