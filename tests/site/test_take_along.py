"""The built site is enough: what it serves installs, and its notebooks run on that alone."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import environments
from qkv_site import run
from qkv_site.page import parse
from qkv_site.tables import wheel
from qkv_site.write import notebooks
from support import ROOT, make_project, mkdocs_build, served

HOME = {"index.md": "# Home\n", "threads/index.md": "# Threads\n\n[One](one.md)\n"}
SUBPATH = "below/which-q"
# These run in Jupyter's kernel: a short one, one with drawings, one of a symptom.
IN_A_KERNEL = "explanation/widths", "explanation/scaling", "symptoms/nan"
RUN_ALL = """
import contextlib, io, json, sys

for name, codes in json.load(open(sys.argv[1])).items():
    names, printed = {"__name__": "__main__"}, []
    for code in codes:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(compile(code, name, "exec"), names)
        printed.append(said.getvalue())
    print(json.dumps([name, printed]))
"""


@pytest.fixture(scope="module")
def address(site, tmp_path_factory):
    """The address of the site, served below a sub-path."""
    root = tmp_path_factory.mktemp("served")
    (root / SUBPATH).parent.mkdir(parents=True)
    (root / SUBPATH).symlink_to(site, target_is_directory=True)
    with served(root) as host:
        yield f"{host}/{SUBPATH}/"


@pytest.fixture
def jupyter(tmp_path):
    """Python with Jupyter's kernel, NumPy and pip, in a folder that is not the project's."""
    needed = environments.with_needs("ipykernel", "numpy", "pip")
    assert not {"jaxtyping", "which-q"} & needed
    return environments.make(tmp_path / "environment", *needed)


def install(python, what, folder):
    """Without an index: NumPy is there, and the package needs no more."""
    environments.run(python, "-m", "pip", "install", "--no-index", what, cwd=folder)


def blocks_of_the_path():
    name = "start/which-q.md"
    page = parse(name, (ROOT / "docs" / name).read_text())
    return [block.code for block in run.blocks_of(page) if "source" in block.given]


@pytest.mark.thorough
def test_what_the_served_site_installs_runs_the_blocks_of_the_path(address, tmp_path):
    """In an environment that holds pip and NumPy, without an index: it needs nothing else."""
    python = environments.make(tmp_path / "fresh", "numpy", "pip")
    install(python, f"{address}assets/{wheel.name()}", tmp_path)
    blocks = blocks_of_the_path()
    assert len(blocks) > 3
    environments.run(python, "-c", "\n".join(["import qkv", *blocks]), cwd=tmp_path)


def test_the_package_in_the_wheel_says_its_version(tmp_path):
    name, content = wheel.built()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(tmp_path)
    code = "import qkv; print(qkv.__file__, qkv.__version__)"
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    file, version = subprocess.check_output(
        [sys.executable, "-c", code], env=environment, text=True
    ).split()
    assert Path(file).is_relative_to(tmp_path)
    assert version == name.split("-")[1]


def test_later_files_are_a_later_version(tmp_path):
    """So pip does not take what is installed for what the site has now."""
    names = []
    for name, source in ("one", "A = 1\n"), ("same", "A = 1\n"), ("other", "A = 2\n"):
        shutil.copytree(ROOT / "src", tmp_path / name / "src")
        for each in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / each, tmp_path / name)
        (tmp_path / name / "src" / "qkv" / "later.py").write_text(source)
        names.append(wheel.built(tmp_path / name)[0])
    before, same, after = names
    assert before == same != after
    assert before.partition("+")[0] == after.partition("+")[0]


def alone(site, name, folder):
    """A copy of a notebook and, where it looks for it, of the package; nothing else of the site."""
    shutil.copy(site / f"{name}.ipynb", folder / "page.ipynb")
    shutil.copy(site / "assets" / wheel.name(), folder)
    return nbformat.read(folder / "page.ipynb", as_version=4)


def without_first(notebook):
    return [cell for cell in notebook.cells[2:] if cell.cell_type == "code"]


def said(cell):
    """What a cell printed, and what it drew."""
    return "".join(output.get("text") or output.data["text/html"] for output in cell.outputs)


def printed(cell):
    return "".join(output.get("text", "") for output in cell.outputs)


@pytest.mark.thorough
@pytest.mark.parametrize("name", IN_A_KERNEL)
def test_a_downloaded_notebook_runs_from_its_first_cell(site, jupyter, name, tmp_path, monkeypatch):
    """In Jupyter's kernel with NumPy and no network; its first cell installs the package."""
    kernel = tmp_path / "jupyter" / "kernels" / "alone"
    kernel.mkdir(parents=True)
    command = [str(jupyter), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    about = {"argv": command, "display_name": "alone", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(about))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    shown, ran = alone(site, name, tmp_path), alone(site, name, tmp_path)
    where = {"metadata": {"path": str(tmp_path)}}
    client = NotebookClient(ran, timeout=120, kernel_name="alone", resources=where)
    client.execute(env=os.environ | {"PYTHONPATH": "", "PIP_NO_INDEX": "1"})
    shown_by = environments.run(jupyter, "-c", "import qkv; print(qkv.__file__)", cwd=tmp_path)
    assert shown_by.startswith(str(tmp_path / "environment"))
    assert [said(cell) for cell in without_first(ran)] == [
        said(cell) for cell in without_first(shown)
    ]


@pytest.mark.thorough
def test_every_notebook_prints_what_it_shows_on_numpy_and_the_wheel_alone(site, jupyter, tmp_path):
    """Their code, one after the other, in one Python and each with names of its own."""
    install(jupyter, site / "assets" / wheel.name(), tmp_path)
    shown = {
        str(path.relative_to(site)): without_first(nbformat.read(path, as_version=4))
        for path in site.rglob("*.ipynb")
    }
    codes = {name: [cell.source for cell in cells] for name, cells in shown.items()}
    (tmp_path / "codes.json").write_text(json.dumps(codes))
    run = jupyter, "-c", RUN_ALL, "codes.json"
    lines = environments.run(*run, cwd=tmp_path).splitlines()
    ran = dict(map(json.loads, lines))
    assert ran.keys() == shown.keys()
    for name, cells in shown.items():
        assert ran[name] == [printed(cell) for cell in cells], name


def test_a_published_page_shows_the_line_and_its_notebook_in_colab(build, monkeypatch):
    """They stand there without a script."""
    monkeypatch.setenv("SITE_URL", "https://site.example/below/")
    monkeypatch.setenv("NOTEBOOKS_URL", "https://github.com/owner/name/blob/built")
    block = '```python exec="on" source="above"\nassert True\n```\n'
    built = build({"threads/one.md": f"# One\n\n{block}"} | HOME)
    assert built.returncode == 0, built.stdout
    page = (built.site / "threads" / "one" / "index.html").read_text()
    [line] = re.findall("<code>(pip install .*?)</code>", page)
    where = "https://site.example/below/assets/"
    assert line.startswith(f"pip install {where}")
    assert built.site / "assets" / line.removeprefix(f"pip install {where}").replace("%2B", "+")
    colab = "https://colab.research.google.com/github/owner/name/blob/built/threads/one.ipynb"
    assert f'<a href="{colab}">' in page
    assert "pip install" not in (built.site / "index.html").read_text()


def test_without_an_address_the_line_names_the_downloaded_file():
    assert f"\npip install ./{wheel.name()}\n" in wheel.install()


@pytest.mark.parametrize(
    "folder", ["https://gitlab.com/o/n/blob/b", "https://github.com/o/n", "o/n"]
)
def test_colab_reads_github_alone(folder, caplog):
    assert notebooks.colab(folder, "https://site.example/") == ""
    assert f"mkdocs.yml: notebooks is {folder!r}: expected https://github.com/" in caplog.text


@pytest.mark.parametrize(
    "site",
    [
        "",
        "http://127.0.0.1:8000/",
        "http://[::1]:8000/",
        "http://LOCALHOST/q/",
        "http://docs.local:8000/",
        "http://169.254.1.1/",
        "http://172.16.0.5/",
        "http://192.168.0.7/",
    ],
)
def test_colab_gets_the_package_from_a_public_address_alone(site, caplog):
    folder = "https://github.com/owner/name/blob/built"
    assert notebooks.colab("", site) == ""
    assert not caplog.text
    assert notebooks.colab(folder, site) == ""
    said = f"mkdocs.yml: notebooks is {folder!r}, but the site's address is {site!r}: expected a"
    assert said in caplog.text


@pytest.mark.parametrize("site", ["https://localhost-docs.example/", "https://10.example.com/q/"])
def test_a_name_that_begins_like_an_address_at_home_is_public(site, caplog):
    folder = "https://github.com/owner/name/blob/built"
    assert notebooks.colab(folder, site).endswith("/github/owner/name/blob/built")
    assert not caplog.text


def test_without_a_branch_of_notebooks_no_page_leads_to_colab(site):
    pages = (site / "explanation").rglob("index.html")
    assert not [page for page in pages if "Colab" in page.read_text()]


def test_a_wheel_of_another_build_is_named(build):
    other = "which_q-0.1.0+01234567-py3-none-any.whl"
    built = build({"index.md": f"# Home\n\nRun `pip install {other}`.\n"})
    assert built.returncode == 1, built.stdout
    assert f"index.md:3: this build has no wheel {other}" in built.stdout


def test_a_page_whose_blocks_run_another_package_is_named(tmp_path):
    block = '```python exec="on" source="above"\nassert True\n```\n'
    make_project(tmp_path / "project", {"index.md": f"# Home\n\n{block}"})
    changed = tmp_path / "project" / "qkv"  # Python finds it before the one below src
    shutil.copytree(ROOT / "src" / "qkv", changed)
    (changed / "later.py").write_text("LATER = True\n")
    built = mkdocs_build(tmp_path / "project", tmp_path / "site")
    assert built.returncode == 1, built.stdout
    assert re.search(rf"index\.md:1: its blocks run {re.escape(str(changed))}", built.stdout)


def test_a_notebook_without_all_its_outputs_is_named(build):
    blocks_of_page = (
        '```python exec="on" source="above"\nprint(1)\n```\n\n```python exec="on"\nassert 0\n```\n'
    )
    built = build({"threads/one.md": f"# One\n\n{blocks_of_page}"} | HOME)
    assert built.returncode == 1, built.stdout
    expected = "threads/one.md: its notebook has not all outputs: 1 blocks ran to their end, of 2"
    assert expected in built.stdout
