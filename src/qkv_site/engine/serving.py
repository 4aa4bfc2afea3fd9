"""While MkDocs serves, each build has a process of its own.

It imports the packages as they are by then, remembers nothing of a build before, and gives its
memory back. To a change answer two of them: the first writes again the page that is looked at and
the pages that were saved, the second the whole site, beside the one that is served.
"""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from watchdog.observers.polling import PollingObserver

_INTERVAL = 0.1  # seconds between two looks at the files; MkDocs looks twice a second


class Process:
    """A process that has loaded all it needs, and builds once, when it is told what.

    Args:
        configuration: MkDocs' file.
    """

    def __init__(self, configuration: str):
        command = [sys.executable, "-m", __name__, configuration]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)

    def build(self, folder: Path, address: str, *pages: str, done: Path | None = None) -> None:
        """Begin to build.

        Args:
            folder: Where.
            address: Of the site while it is served.
            pages: Addresses below it. These pages are written again, and those that were saved
                since; without any, the whole site.
            done: A file to write when all is built.
        """
        wanted = json.dumps([str(folder), address, pages, done and str(done)])
        with suppress(BrokenPipeError):  # it ended with an error, which `succeeds` tells
            self._process.stdin.write(wanted)
            self._process.stdin.close()

    def succeeds(self) -> bool:
        """Wait for its end."""
        return self._process.wait() == 0

    def stop(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()


class Rebuild:
    """What MkDocs' server calls after a change; it returns when the page looked at is new.

    Args:
        server: MkDocs' server.
        config: What it serves.
        process: What builds.
    """

    def __init__(self, server, config, process=Process):
        self._server, self._config, self._process = server, config, process
        self._site = Path(config.site_dir)
        self._beside = tempfile.TemporaryDirectory(prefix="which-q-")
        self._look_more_often()
        server.watch(self._beside.name, recursive=False)
        server.set_app(self._answer)
        self._looked_at = ""
        self._whole, self._next = None, None
        self._seen = self._stamps()
        self._start_ahead()

    def __call__(self) -> None:
        """Build what changed, or serve the site that was built beside.

        Raises:
            RuntimeError: If the build failed.
        """
        before, self._seen = self._seen, self._stamps()
        if before == self._seen:
            self._take_over()
            return
        self._stop_whole()
        first = self._ahead
        if self._code(before) != self._code(self._seen):  # it has loaded what is out of date
            first.stop()
            first = self._process(self._config.config_file_path)
        first.build(self._site, self._config.site_url, self._looked_at)
        succeeded = first.succeeds()
        self._start_ahead()
        if not succeeded:
            raise RuntimeError("the site was not built; why is said above")
        self._start_whole()

    def stop(self) -> None:
        """End what still waits or builds."""
        self._ahead.stop()
        self._stop_whole()
        self._beside.cleanup()

    def _look_more_often(self) -> None:
        """Give the server an observer of its own: MkDocs has no option for the interval."""
        watched = [self._config.docs_dir, self._config.config_file_path]
        for path in watched:
            self._server.unwatch(path)
        self._server.observer = PollingObserver(timeout=_INTERVAL)
        for path in watched:
            self._server.watch(path)

    def _answer(self, environ, start_response):
        """Note which page is looked at."""
        path = environ["PATH_INFO"]
        if path.startswith(self._server.mount_path) and path.endswith("/"):
            self._looked_at = path.removeprefix(self._server.mount_path)
        return self._server.serve_request(environ, start_response)

    def _start_ahead(self) -> None:
        """Start what waits for the next change: a saved page then shows within a second."""
        self._ahead = self._process(self._config.config_file_path)

    def _start_whole(self) -> None:
        self._next = Path(tempfile.mkdtemp(dir=self._beside.name))
        self._whole = self._process(self._config.config_file_path)
        self._whole.build(self._next, self._config.site_url, done=self._done)

    @property
    def _done(self) -> Path:
        return self._next.with_suffix(".done")

    def _stop_whole(self) -> None:
        if self._whole:
            self._whole.stop()
            shutil.rmtree(self._next, ignore_errors=True)
            self._whole = None

    def _take_over(self) -> None:
        if self._whole and self._done.exists():
            self._whole = None
            shutil.rmtree(self._site)
            self._next.rename(self._site)

    def _stamps(self) -> dict[Path, int]:
        """Of each file that the site is made of, when it was written."""
        named = [self._config.docs_dir, self._config.config_file_path, *self._config.watch]
        files = [
            file
            for path in map(Path, named)
            for file in ([path] if path.is_file() else path.rglob("*"))
            if file.is_file() and file.suffix != ".pyc"
        ]
        return {file: file.stat().st_mtime_ns for file in files}

    def _code(self, stamps: dict[Path, int]) -> dict[Path, int]:
        """Of these, what a process has loaded before it is told what to build."""
        docs = Path(self._config.docs_dir)
        return {file: stamp for file, stamp in stamps.items() if docs not in file.parents}


def main(configuration: str) -> None:
    """Load everything, wait for one line, build what it says."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends it
    logging.basicConfig(format="%(levelname)-7s -  %(message)s")
    logging.getLogger("mkdocs").setLevel(logging.INFO)
    import mkdocstrings_handlers.python  # noqa: F401, which a page of the reference asks for
    from mkdocs.commands import build
    from mkdocs.config import load_config

    from qkv_site.page import Site

    # Python would write what it compiled beside the sources, and the server would see a change.
    sys.pycache_prefix = str(Path(configuration).parent / ".cache" / "compiled")
    config = load_config(configuration)
    _remember(Site(Path(config.docs_dir)))
    wanted = sys.stdin.read()
    if not wanted:  # the server has ended
        return
    folder, config.site_url, pages, done = json.loads(wanted)
    config.site_dir = folder
    config.plugins.on_startup(command="serve", dirty=bool(pages))
    for page in pages:  # what is older than its source is what MkDocs builds again
        if (built := Path(folder, page, "index.html")).exists():
            os.utime(built, (0, 0))
    build.log.addFilter(lambda record: "'dirty' build" not in record.getMessage())
    build.build(config, serve_url=config.site_url, dirty=bool(pages))
    if done:
        Path(done).touch()


def _remember(site) -> None:
    """Do while nobody waits what is the same for each page, and is then remembered."""
    from qkv_site import front_matter
    from qkv_site.markdown import claims
    from qkv_site.page import PAGE, Page
    from qkv_site.tables import labels, wheel

    PAGE.set(Page("mkdocs.yml", site=site))
    claims.traps()
    labels.labels()
    wheel.built()
    for name in site.names():
        front_matter.read((site.docs / name).read_text())


if __name__ == "__main__":
    main(sys.argv[1])
