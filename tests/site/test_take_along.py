"""The built site is enough: what it serves installs, and its notebooks run on that alone."""

import json
import os
import shutil
import sys

import nbformat
import pytest
from nbclient import NotebookClient

import environments
import qkv
from qkv_site import run
from qkv_site.page import Site, parse
from qkv_site.rules import package
from qkv_site.tables import wheel
from support import ROOT, served

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


@pytest.fixture
def jupyter(tmp_path):
    """Python with Jupyter's kernel, NumPy and pip, in a folder that is not the project's."""
    needed = environments.with_needs("ipykernel", "numpy", "pip")
    assert not {"jaxtyping", "which-q"} & needed
    return environments.make(tmp_path / "environment", *needed)


def install(python, what, folder, *options):
    """Without an index: NumPy is there, and the package needs no more."""
    environments.run(python, "-m", "pip", "install", "--no-index", *options, what, cwd=folder)


def test_the_wheel_installs_without_a_network_and_is_the_package_with_its_version(site, tmp_path):
    [packed] = (site / "assets").glob("*.whl")
    install(sys.executable, packed, tmp_path, "--no-deps", "--target", tmp_path)
    ours = ROOT / "src" / "qkv"
    kept = {path.relative_to(ours) for path in ours.rglob("*") if path.suffix in (".py", ".toml")}
    assert kept
    for path in kept:
        assert (tmp_path / "qkv" / path).read_bytes() == (ours / path).read_bytes()
    code = "import sys; sys.path.insert(0, '.'); import qkv; print(qkv.__file__, qkv.__version__)"
    said = environments.run(sys.executable, "-c", code, cwd=tmp_path)
    assert said.split() == [str(tmp_path / "qkv" / "__init__.py"), packed.name.split("-")[1]]


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


def test_a_page_whose_blocks_run_another_package_is_named(monkeypatch):
    runs = parse("page.md", '```python exec="on" source="above"\nassert 1\n```\n')
    assert [*package.faults(runs)] == []
    monkeypatch.setattr(qkv, "__file__", "/elsewhere/qkv/__init__.py")
    [(line, said)] = package.faults(runs)
    assert line == 1
    assert said.startswith("its blocks run /elsewhere/qkv/__init__.py, which is another package")
    assert [*package.faults(parse("page.md", "# A page\n"))] == []


def codes_of(notebook):
    return [cell for cell in notebook.cells[2:] if cell.cell_type == "code"]


def said(cell):
    """What a cell printed, and what it drew."""
    return "".join(output.get("text") or output.data["text/html"] for output in cell.outputs)


@pytest.mark.thorough
@pytest.mark.parametrize("name", IN_A_KERNEL)
def test_a_downloaded_notebook_runs_from_its_first_cell(site, jupyter, name, tmp_path, monkeypatch):
    """In Jupyter's kernel with NumPy and no network; its first cell installs the package beside."""
    kernel = tmp_path / "jupyter" / "kernels" / "alone"
    kernel.mkdir(parents=True)
    command = [str(jupyter), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    about = {"argv": command, "display_name": "alone", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(about))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    shutil.copy(site / "assets" / wheel.name(), tmp_path)
    shown, ran = (nbformat.read(site / f"{name}.ipynb", as_version=4) for _ in range(2))
    where = {"metadata": {"path": str(tmp_path)}}
    client = NotebookClient(ran, timeout=120, kernel_name="alone", resources=where)
    client.execute(env=os.environ | {"PYTHONPATH": "", "PIP_NO_INDEX": "1"})
    shown_by = environments.run(jupyter, "-c", "import qkv; print(qkv.__file__)", cwd=tmp_path)
    assert shown_by.startswith(str(tmp_path / "environment"))
    assert [*map(said, codes_of(ran))] == [*map(said, codes_of(shown))]


@pytest.mark.thorough
def test_what_the_served_site_installs_runs_each_notebook_and_the_path(site, jupyter, tmp_path):
    """With NumPy alone, one after the other: each has names of its own and prints what it shows."""
    (tmp_path / SUBPATH).parent.mkdir()
    (tmp_path / SUBPATH).symlink_to(site, target_is_directory=True)
    with served(tmp_path) as host:
        install(jupyter, f"{host}/{SUBPATH}/assets/{wheel.name()}", tmp_path)
    shown = {
        str(path.relative_to(site)): codes_of(nbformat.read(path, as_version=4))
        for path in site.rglob("*.ipynb")
    }
    codes = {name: [cell.source for cell in cells] for name, cells in shown.items()}
    blocks = run.blocks_of(Site().pages["start/which-q.md"])
    codes["start"] = [block.code for block in blocks if block.shown]
    assert len(codes["start"]) > 3
    (tmp_path / "codes.json").write_text(json.dumps(codes))
    lines = environments.run(jupyter, "-c", RUN_ALL, "codes.json", cwd=tmp_path).splitlines()
    ran = dict(map(json.loads, lines))
    assert ran.keys() == codes.keys()
    for name, cells in shown.items():
        printed = ["".join(output.get("text", "") for output in cell.outputs) for cell in cells]
        assert ran[name] == printed, name


def test_without_an_address_the_line_names_the_downloaded_file():
    assert f"\npip install ./{wheel.name()}\n" in wheel.install()
