"""Files that hosts, package indexes and search engines read: they say what the project says."""

import inspect
import io
import os
import re
import subprocess
import tomllib
import zipfile
from datetime import date
from functools import cache

import pytest
import yaml

import qkv
from qkv_site.tables import wheel
from support import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
JOBS = [
    pytest.param(path, name, id=f"{path.stem}-{name}")
    for path in WORKFLOWS
    for name in yaml.safe_load(path.read_text())["jobs"]
]
RELEASE = re.compile(r"^## (\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)$", re.MULTILINE)
# What a step runs must not hold what others can write; it comes as a variable.
PUT_IN = re.compile(r"\$\{\{")


@cache
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
    assert said["cff-version"] == "1.2.0"
    assert (said["version"], str(said["date-released"])) == releases()[0]
    assert said["license"] == "MIT"
    page = (ROOT / "docs" / "cite.md").read_text()
    assert said["title"] in page
    assert said["authors"] == [{"name": "The contributors of Which Q?"}]
    assert said["authors"][0]["name"] in page
    assert said["message"].removesuffix(".") in page


def test_the_wheel_says_that_the_package_is_typed():
    names = zipfile.ZipFile(io.BytesIO(wheel.built()[1])).namelist()
    assert "qkv/py.typed" in names


def test_each_public_function_says_the_types_of_all_it_takes_and_returns():
    functions = [getattr(qkv, name) for name in qkv.__all__]
    functions = [each for each in functions if inspect.isfunction(each)]
    assert len(functions) > 10
    for function in functions:
        signature = inspect.signature(inspect.unwrap(function))
        said = [signature.return_annotation]
        said += [parameter.annotation for parameter in signature.parameters.values()]
        assert inspect.Signature.empty not in said, function.__name__


@pytest.mark.parametrize(("path", "name"), JOBS)
def test_a_job_is_pinned_and_may_do_little(path, name):
    workflow = read(path)
    job = workflow["jobs"][name]
    assert workflow["permissions"] == {}
    assert set(job["permissions"].values()) <= {"read", "write"}
    assert job["timeout-minutes"] <= 60
    assert not job["runs-on"].endswith("latest")
    for step in job["steps"]:
        if "uses" in step:
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", step["uses"])
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
        assert not PUT_IN.search(step.get("run", ""))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_each_pin_names_its_version_and_one_action_has_one(path):
    uses = [line.strip("- ") for line in path.read_text().splitlines() if "uses:" in line]
    assert uses
    for line in uses:
        assert re.fullmatch(r"uses: \S+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)
    everywhere = "".join(each.read_text() for each in WORKFLOWS)
    for action in {line.split("@")[0] for line in uses}:
        assert len(set(re.findall(rf"{action}@.*", everywhere))) == 1


def test_who_may_write_is_known():
    allowed = {
        (path.stem, name): {what for what, how in job["permissions"].items() if how == "write"}
        for path in WORKFLOWS
        for name, job in read(path)["jobs"].items()
    }
    assert {job: what for job, what in allowed.items() if what} == {
        ("site", "publish"): {"pages", "id-token"},
        ("site", "notebooks"): {"contents"},
        ("release", "publish"): {"id-token"},
        ("weekly", "newest"): {"issues"},
    }


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


def test_the_site_leads_colab_to_the_branch_that_the_workflow_writes():
    jobs = read(ROOT / ".github/workflows/site.yml")["jobs"]
    [build] = [step for step in jobs["check"]["steps"] if "mkdocs build" in step.get("run", "")]
    private, _, address = build["env"]["NOTEBOOKS_URL"].partition(" && ")
    assert private == "${{ !github.event.repository.private"
    assert address.startswith("format('{0}/{1}/blob/notebooks', github.server_url, github.repos")
    assert jobs["notebooks"]["if"] == f"{private} }}}}"
    assert jobs["notebooks"]["needs"] == "publish"


def test_the_package_is_tested_on_each_python_and_on_both_numpys():
    matrix = read(ROOT / ".github/workflows/site.yml")["jobs"]["package"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    oldest = re.search(r">=(\d+\.\d+)", project()["requires-python"])[1]
    assert matrix["python"][0] == oldest
    needed = next(each for each in project()["dependencies"] if each.startswith("numpy"))
    oldest_numpy = re.search(r">=(\d+\.\d+)", needed)[1]
    assert {each["numpy"] for each in matrix["include"]} == {f"numpy=={oldest_numpy}.*"}


def test_both_hosts_build_strictly_and_with_the_date_of_the_commit():
    files = ".readthedocs.yaml", ".github/workflows/site.yml"
    for text in [(ROOT / name).read_text() for name in files]:
        dated = r"SOURCE_DATE_EPOCH=\$\(git log -1 --format=%ct\) \S*mkdocs build --strict"
        assert len(re.findall(dated, text)) == 1
    assert "SITE_URL, READTHEDOCS_CANONICAL_URL" in (ROOT / "mkdocs.yml").read_text()
