"""The reader in JavaScript: a browser's test compares what it reads; here is how it is written."""

import re

import pytest

from qkv_site import finish
from qkv_site.tables import exports
from qkv_site.tables.javascript import translate
from support import ROOT

PYTHON = (ROOT / "src/qkv_site/tables/python.js").read_text()


def test_what_the_reader_has_of_python_is_there_and_nothing_else():
    has = {*re.findall(r"(?:const|function|,) py_(\w+)", PYTHON)}
    uses = {*re.findall(r"\bpy_(\w+)", exports.reader().replace(PYTHON, "")), "mapped"}
    assert has == uses


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    try:\n        pass\n    finally:\n        pass",
        "with open(x) as y:\n    pass",
        "del x",
        "def f(a):\n    return a[:0:-1]",
    ],
)
def test_what_has_no_translation_fails(source):
    with pytest.raises((SyntaxError, KeyError)):
        translate([source], "DATA", "f")


def test_a_name_stands_in_one_module():
    with pytest.raises(SyntaxError, match="two modules"):
        translate(["a = 1", "a = 2"], "DATA", "a")


def test_an_empty_list_is_false_and_methods_of_python_are_named():
    written = translate(["def f(a):\n    return a.strip() if a else DATA"], "DATA", "f")
    assert "py_truth(a)?py_strip(a):DATA" in written


def test_what_is_kept_is_kept_there_too_and_what_is_assigned_is_a_parameter():
    source = "@cache\ndef f(a):\n    b = a\n    return [b, b]"
    assert "const f=py_cache((a,b)=>{b=a;return [b,b];});" in translate([source], "DATA", "f")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("a, b = 1, 2", "a=1;b=2;"),
        ("a, b = b, a", "[a,b]=[b,a];"),
        ("a, b = 1, a + 2", "[a,b]=[1,(a + 2)];"),
        ("self.a, b = 1, self.c", "[self.a,b]=[1,self.c];"),
        ("a, *b = 1, c", "[a,...b]=[1,c];"),
    ],
)
def test_values_that_need_each_other_are_assigned_at_once(source, said):
    wanted = f"def f(a, b, c, self):\n    {source}"
    assert said in translate([wanted], "DATA", "f").replace("this.", "self.")


def test_no_more_is_asked_than_in_python():
    written = translate(["def f(a):\n    return all(c for b in a if b for c in b)"], "DATA", "f")
    wanted = "py_list(a).filter((b)=>py_truth(b)).every((b)=>py_list(b).every((c)=>py_truth(c)))"
    assert wanted in written


@pytest.mark.parametrize(
    ("source", "asks"),
    [
        ("def f(a: str):\n    return 1 if a else 2", False),
        ("def f(a: list):\n    return 1 if a else 2", True),
        ("def f(a: str):\n    a = [a]\n    return 1 if a else 2", True),
        ("def f(a):\n    b = a.strip()\n    return 1 if b else 2", False),
        ("def f(a):\n    b = a.strip()\n    b = [a]\n    return 1 if b else 2", True),
        ("def f(a):\n    b, c = a.strip(), a\n    return 1 if b else 2", False),
        ("def f(a):\n    for b in a:\n        b = 'x'\n    return 1 if b else 2", True),
        ("class A:\n    b: str\n\n\ndef f(a):\n    return 1 if a.b else 2", False),
        ("class A:\n    b: list\n\n\ndef f(a):\n    return 1 if a.b else 2", True),
        ("def g(a) -> str:\n    return a\n\n\ndef f(a):\n    return g(a) or a", False),
        ("def g(a) -> list:\n    return a\n\n\ndef f(a):\n    return g(a) or a", True),
    ],
)
def test_only_what_may_be_an_empty_list_is_asked(source, asks):
    assert ("py_truth(" in translate([source], "DATA", "f")) is asks


SCRIPT = """// Why it is there.
export function said(one, other) {
  return `${one}${other ? ` = ${other}` : ""}`
}
"""


def test_what_is_loaded_has_no_comments_and_says_the_same():
    pytest.importorskip("minify")
    short = finish._short(SCRIPT)
    assert len(short) < 100
    assert "Why" not in short
    assert "` = ${" in short


def test_where_no_minifier_is_a_script_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(finish, "minify", None)
    assert finish._short(SCRIPT) == SCRIPT
