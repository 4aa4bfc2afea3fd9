"""The Content-Security-Policy of each page."""

import base64
import hashlib
import re

from qkv_site.finish import policy
from support import ROOT

SAID = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')


def test_the_readme_says_what_the_policy_allows():
    rows = re.findall(
        r"^\| `([a-z-]+)` \| `([^`|]+)`.* \| .+ \|$", (ROOT / "README.md").read_text(), re.M
    )
    assert dict(rows) == policy.ALLOWED


def test_each_page_says_its_policy_once_before_its_scripts(site):
    for path in site.rglob("*.html"):
        html = path.read_text()
        [said] = SAID.finditer(html)
        assert said.start() < html.index("<script"), path
        directives = dict(each.split(" ", 1) for each in said[1].split("; "))
        assert directives.keys() == policy.ALLOWED.keys()
        assert "unsafe" not in directives["script-src"]


def test_a_hash_is_of_the_script_as_it_stands():
    html = f"<head>{policy.EMPTY}<script>run(1)\n</script><script src=a.js></script></head>"
    [said] = SAID.findall(policy.put_into(html))
    digest = base64.b64encode(hashlib.sha256(b"run(1)\n").digest()).decode()
    assert f"script-src 'self' 'sha256-{digest}'; " in said
    assert said.count("sha256") == 1


def test_data_need_no_hash_and_a_module_does():
    data, module = '<script type="application/json">{}</script>', '<script type="module">a</script>'
    assert "sha256" not in policy.of(data)
    assert policy.of(data + module).count("sha256") == 1


def test_a_served_page_has_no_policy():
    assert policy.leave_out_of(f"<head>{policy.EMPTY}</head>") == "<head></head>"
