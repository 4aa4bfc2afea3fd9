"""What all tests share."""

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from subprocess import CompletedProcess

import hypothesis
import pytest
from filelock import FileLock
from jaxtyping import config

from support import ADDRESS, CI, ROOT, make_project, mkdocs_build

for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # of NumPy, and of PyTorch
    os.environ.setdefault(threads, "1")  # each worker, and what it starts, has one core
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # the builds that it starts need not compile anew

# `.ci/zensical` has what it needs, and no other environment.
collect_ignore = [] if find_spec("zensical") else ["with_zensical"]

# The same examples on every run, and no verdict by the clock of a busy machine.
hypothesis.settings.register_profile("steady", deadline=None, derandomize=True, max_examples=30)
hypothesis.settings.load_profile("steady")


@pytest.fixture
def unchecked():
    """Switch the shape checks off, so that a test sees what a user who has none installed sees."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


# `.ci/package` has nothing of what builds the site: what asks for a page imports it.


@pytest.fixture
def written() -> Iterator:
    """A page that is being written, as parts of it ask for it."""
    from qkv_site.page import Page, writing

    with writing(Page()) as page:
        yield page


@pytest.fixture
def faults(tmp_path):
    """Check pages, as a folder beside what was recorded of the libraries."""
    from qkv_site import check
    from qkv_site.page import Site

    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "truth").symlink_to(ROOT / "tests" / "truth")

    def check_pages(pages: dict[str, str]) -> list[str]:
        folder = tmp_path / "docs"
        shutil.rmtree(folder, ignore_errors=True)
        for name, text in pages.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        return [str(fault) for fault in check.site(Site(folder))]

    return check_pages


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The site as it is published at `ADDRESS`, built once, by the first worker that needs it."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder, said = shared / "site", shared / "said.txt"
    with FileLock(shared / "site.lock"):
        if not said.exists():
            built = mkdocs_build(ROOT, folder, SITE_URL=ADDRESS)
            said.write_text(built.stdout if built.returncode else "")
    assert said.read_text() == ""
    return folder


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """Build a site of the given pages, with this project's configuration."""

    def run(pages: dict[str, str], **environment: str) -> CompletedProcess:
        folder = tmp_path_factory.mktemp("built")
        make_project(folder / "project", pages)
        built = mkdocs_build(folder / "project", folder / "site", **environment)
        built.site = folder / "site"
        return built

    return run


def pytest_collection_modifyitems(items):
    """Begin with the longest file, which needs the built site, and with what needs no site."""
    items.sort(key=lambda item: (item.path.name != "test_every_page.py", _needs_the_site(item)))


def _needs_the_site(item) -> bool:
    return item.path.parent.name in ("browser", "site") or item.path.name == "test_contributing.py"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """In CI a skipped test is a failed one: whatever it needs must be installed there."""
    return _without_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """A module that is skipped while it is collected counts as well."""
    return _without_skip((yield))


def _without_skip(report):
    if CI and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped, which CI does not allow: {report.longrepr}"
    return report
