"""Files that hosts, package indexes and search engines read: they say what the project says."""

import inspect
import io
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from datetime import date

import pytest
import yaml

import qkv
from qkv_site.tables import wheel
from support import ROOT

RELEASE = re.compile(r"^## (\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)$", re.MULTILINE)


def read(path):
    return yaml.safe_load(path.read_text())


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def releases():
    return RELEASE.findall((ROOT / "CHANGELOG.md").read_text())


def test_each_heading_of_the_change_log_is_a_version_with_its_date_newest_first():
    headings = re.findall(r"^## .*", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert len(headings) == len(releases()) > 0
    days = [date.fromisoformat(day) for _, day in releases()]
    assert days == sorted(days, reverse=True)
    assert releases()[0][0] == project()["version"]


def test_the_citation_is_of_the_newest_release():
    said = read(ROOT / "CITATION.cff")
    assert (said["version"], str(said["date-released"])) == releases()[0]
    page = (ROOT / "docs" / "claims.md").read_text()
    for words in (said["title"], said["authors"][0]["name"], said["message"].removesuffix(".")):
        assert words in page


def paths_in(script):
    """The files and folders that a script of CI names."""
    for path in re.findall(r"(?<![\w/])(?:src|tests)/[\w/.{},]+", script.read_text()):
        before, _, rest = path.partition("{")
        inside, _, after = rest.partition("}")
        yield from (before + each + after for each in inside.split(","))


@pytest.mark.parametrize("script", sorted((ROOT / ".ci").iterdir()), ids=lambda it: it.name)
def test_the_files_and_folders_that_ci_names_are_there(script):
    assert [path for path in paths_in(script) if not (ROOT / path).exists()] == []


def test_what_ci_tests_of_the_package_needs_nothing_of_the_site():
    extras = project()["optional-dependencies"]
    docs, test = ({re.match(r"[\w-]+", it)[0] for it in extras[name]} for name in ("docs", "test"))
    blocked = ["qkv_site", "yaml", "markdown", *(it.replace("-", "_") for it in docs - test)]
    paths = [*paths_in(ROOT / ".ci" / "package")]
    code = f"import sys; sys.modules.update(dict.fromkeys({blocked})); import pytest; "
    code += f"sys.exit(pytest.main(['--collect-only', '-q', '-p', 'no:cacheprovider', *{paths}]))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-2000:]


def test_the_wheel_says_that_the_package_is_typed():
    names = zipfile.ZipFile(io.BytesIO(wheel.built()[1])).namelist()
    assert "qkv/py.typed" in names


def test_the_wheel_has_the_command():
    packed = zipfile.ZipFile(io.BytesIO(wheel.built()[1]))
    [entry] = [name for name in packed.namelist() if name.endswith("entry_points.txt")]
    assert "qkv = qkv.reading._shell:main" in packed.read(entry).decode()


def test_each_public_function_says_the_types_of_all_it_takes_and_returns():
    functions = [getattr(qkv, name) for name in qkv.__all__]
    functions = [each for each in functions if inspect.isfunction(each)]
    assert len(functions) > 10
    for function in functions:
        signature = inspect.signature(inspect.unwrap(function))
        said = [signature.return_annotation]
        said += [parameter.annotation for parameter in signature.parameters.values()]
        assert inspect.Signature.empty not in said, function.__name__


def git(*command, cwd):
    ran = subprocess.run(["git", *command], cwd=cwd, capture_output=True, text=True, check=True)
    return ran.stdout


def test_the_branch_with_notebooks_has_those_of_the_newest_site_and_nothing_else(tmp_path):
    """The step's own lines, with a folder in the place of GitHub."""
    [step] = [
        step
        for step in read(ROOT / ".github/workflows/site.yml")["jobs"]["notebooks"]["steps"]
        if "run" in step
    ]
    branch = tmp_path / "owner" / "name"
    git("init", "--quiet", "--bare", branch, cwd=tmp_path)
    there = {"GITHUB_SERVER_URL": tmp_path.as_uri(), "GITHUB_REPOSITORY": "owner/name"}
    for name in ("explanation/old.ipynb", "explanation/new.ipynb"):
        made = tmp_path / name.replace("/", "-") / step["working-directory"]
        (made / name).parent.mkdir(parents=True)
        (made / name).write_text("{}")
        shell = ["bash", "-e", "-c", step["run"]]
        subprocess.run(shell, cwd=made, env=os.environ | there | {"GITHUB_SHA": name}, check=True)
    assert git("branch", "--format=%(refname:short)", cwd=branch).split() == ["notebooks"]
    assert git("ls-tree", "-r", "--name-only", "notebooks", cwd=branch).split() == [name]
    assert git("log", "--format=%s", "notebooks", cwd=branch).strip() == f"The notebooks of {name}"


def test_the_package_is_tested_on_the_oldest_python_and_numpy_that_it_says():
    matrix = read(ROOT / ".github/workflows/site.yml")["jobs"]["package"]["strategy"]["matrix"]
    oldest = re.search(r">=(\d+\.\d+)", project()["requires-python"])[1]
    assert matrix["python"][0] == oldest
    needed = next(each for each in project()["dependencies"] if each.startswith("numpy"))
    oldest_numpy = re.search(r">=(\d+\.\d+)", needed)[1]
    assert {each["numpy"] for each in matrix["include"]} == {f"numpy=={oldest_numpy}.*"}
    assert f"if `{needed}` is installed" in (ROOT / "docs/reference/index.md").read_text()
