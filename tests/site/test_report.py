"""The weekly report names the statement that fails on a library, and its pages."""

import re
import subprocess
import sys
import tomllib

from support import ROOT

PLANTED = '''
def test_keras_takes_query_value_key_in_this_order():
    """Keras takes query, value, key, in this order.

    Planted.
    """
    assert 6 * 7 == 43


def test_that_holds():
    pass
'''


def test_a_planted_failure_is_reported_with_its_statement_and_its_pages(tmp_path):
    (tmp_path / "test_planted.py").write_text(PLANTED)
    command = [sys.executable, "tests/truth/report.py", str(tmp_path / "test_planted.py")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 1, ran.stderr
    head, statement = ran.stdout.split("\n## ")
    assert head.startswith("# 1 of 2 tests on libraries failed\n")
    assert re.search(r"^- keras \d", head, re.MULTILINE) or "- keras is not installed" in head
    assert statement.startswith("Keras takes query, value, key, in this order\n")
    assert re.search(r"^- Page: docs/libraries/keras\.md, line \d+$", statement, re.MULTILINE)
    assert "test_planted.py, line 2, test_keras_takes_query_value_key_in_this_order`" in statement
    assert "- Seen: `assert (6 * 7) == 43`" in statement


def test_the_weekly_run_takes_the_newest_of_every_library():
    workflow = (ROOT / ".github" / "workflows" / "weekly.yml").read_text()
    taken = re.findall(r"--upgrade \\?\s*([\w -]+)", workflow)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    libraries = project["optional-dependencies"]["libraries"]
    assert sorted(taken[0].split()) == [re.match(r"[\w-]+", each)[0] for each in libraries]
