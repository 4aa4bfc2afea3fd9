"""While `mkdocs serve` runs, a saved change shows, and shows what a clean build would."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

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

    read.address = address
    yield read
    server.terminate()
    server.wait()


def shows(read, text, page="page/"):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if text in read(page):
            return True
        time.sleep(0.1)
    return False


def comes_to(read, page, expected):
    """A served page has no policy, and a script that reloads it."""
    expected = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", expected)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        served = re.sub(r"<script>[^<]*livereload.*?</script>", "", read(page), flags=re.DOTALL)
        if served == expected:
            return True
        time.sleep(0.1)
    return False


def test_a_saved_page_shows_within_three_seconds(project, read):
    page = project / "docs" / "page.md"
    assert shows(read, "kept is 41, the answer is unknown.")
    time.sleep(3)  # the first build is over, and so is what follows it
    page.write_text(PAGE.replace("kept = 41", "kept = 40"))
    saved = time.monotonic()
    assert shows(read, "kept is 40, the answer is unknown.")
    assert time.monotonic() - saved < 3 or os.getloadavg()[0] > os.cpu_count()
    page.write_text(PAGE)
    assert shows(read, "kept is 41, the answer is unknown.")


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

    page.write_text(PAGE.replace("kept = 41", "kept = 43"))
    assert shows(read, "kept is 43, the answer is unknown.")

    page.write_text(PAGE.replace("kept = 41", "kept = 44"))
    assert shows(read, "kept is 44, the answer is unknown.")
    built = mkdocs_build(project, project / "built", SITE_URL=f"http://{read.address}/")
    assert built.returncode == 0, built.stdout
    for name in ("", "page/", "reference/"):
        expected = (project / "built" / name / "index.html").read_text()
        assert comes_to(read, name, expected), name  # the saved page comes first, the rest follows
