"""While `mkdocs serve` runs, a saved change shows, and shows what a clean build would."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
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


class Server:
    """What a rebuild needs of MkDocs' server."""

    mount_path = "/attention/"

    def watch(self, path, recursive=True):
        pass

    def unwatch(self, path):
        pass

    def set_app(self, app):
        self.app = app

    def serve_request(self, environ, start_response):
        return [b"a page"]


@pytest.mark.parametrize(
    ("saved", "first"), [("docs/page.md", 0), ("src/module.py", 1), ("mkdocs.yml", 1)]
)
def test_after_a_change_what_is_new_builds_the_page_and_then_the_site(tmp_path, saved, first):
    """A process has started before anything is saved; one that has loaded what changed ends."""
    processes = []

    class Noting:
        def __init__(self, configuration):
            self.name = sum(each.endswith("starts") for each in processes)
            processes.append(f"{self.name} starts")

        def build(self, folder, address, *pages, done=None):
            processes.append(f"{self.name} builds {', '.join(pages) or 'all'}")
            (folder / "index.html").write_text(f"by {self.name}")
            self.done = done

        def succeeds(self):
            return True

        def stop(self):
            processes.append(f"{self.name} is stopped")

    def save(name):
        """Later than all before, whatever the clock of the file system tells apart."""
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
        times.append(times[-1] + 10**9)
        os.utime(tmp_path / name, ns=(times[-1], times[-1]))

    times = [time.time_ns()]
    for name in ("docs/page.md", "src/module.py", "mkdocs.yml", "served/index.html"):
        save(name)
    config = SimpleNamespace(
        docs_dir=str(tmp_path / "docs"),
        config_file_path=str(tmp_path / "mkdocs.yml"),
        watch=[str(tmp_path / "src")],
        site_dir=str(tmp_path / "served"),
        site_url="http://127.0.0.1/attention/",
    )
    rebuild = Rebuild(Server(), config, Noting)
    for path in ("how-to/masks/", "assets/site.css"):
        rebuild._server.app({"PATH_INFO": f"/attention/{path}"}, None)
    save(saved)
    rebuild()
    rebuild()  # nothing has changed, such as when an editor writes a file of its own
    served, whole = tmp_path / "served" / "index.html", first + 2
    assert ("0 is stopped" in processes) == (first > 0)
    assert processes[-4:] == [
        f"{first} builds how-to/masks/",
        f"{first + 1} starts",
        f"{whole} starts",
        f"{whole} builds all",
    ]
    assert served.read_text() == f"by {first}"
    # What is saved while the site is built does not wait for it.
    save("docs/page.md")
    rebuild()
    assert processes[-5:-3] == [f"{whole} is stopped", f"{first + 1} builds how-to/masks/"]
    rebuild._whole.done.touch()
    rebuild()
    assert served.read_text() == f"by {whole + 2}"
    rebuild.stop()


def test_a_saved_page_and_a_saved_module_show_and_the_server_keeps_nothing_of_them(project, read):
    page, module = project / "docs" / "page.md", project / "src" / "qkv" / "maps.py"
    server, before = psutil.Process(read.server.pid), module.read_text()
    assert shows(read, "kept is 41, the answer is unknown.")
    memory = server.memory_info().rss
    page.write_text(PAGE.replace("kept = 41", "kept = 1\nlarge = b'x' * 100_000_000"))
    assert shows(read, "kept is 1, the answer is unknown.")
    assert server.memory_info().rss - memory < 50_000_000
    module.write_text(f"{before}\nANSWER = 42\n")
    assert shows(read, "kept is 1, the answer is 42.")
    module.write_text(before)
    page.write_text(PAGE)


@pytest.mark.thorough
def test_a_change_shows_on_each_page_and_nothing_is_left_over(project, read):
    page, module = project / "docs" / "page.md", project / "src" / "qkv" / "maps.py"
    before = module.read_text()
    assert shows(read, "kept is 41, the answer is unknown.")
    module.write_text(f"{before}\nANSWER = 42\n")
    assert shows(read, "home True", "")
    module.write_text(before)
    assert shows(read, "home False", "")

    page.write_text(PAGE.replace("kept = 41", "pass"))
    assert shows(read, "NameError")
    assert "kept is 41" not in read("page/index.md")  # its copy has no output of before

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
