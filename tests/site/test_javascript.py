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
    "line",
    [
        "try:\n        pass\n    finally:\n        pass",
        "with a as b:\n        pass",
        "del a",
        "return a[:0:-1]",
        "return a[::2]",
        "a[0] += 1",
        "g(a).b += 1",
        "for b in a:\n        pass\n    else:\n        pass",
        "while a:\n        pass\n    else:\n        pass",
        "return f'{a:.2f}'",
        "return f'{a!r}'",
        "return a << 1",
        "a |= b\n    a >>= 1",
        "return ~a",
        "return +a",
        "return a @ a",
        "return [0] * a",
        "return 'a' * a",
        "return '%s' % a",
        "return a is b",
        "return sorted(a, reverse=True)",
        "return a.split(maxsplit=1)",
        "return sorted(a, strict=True)",
        "return f(c=a)",
        "return f(*a, b=a)",
        "return lambda b=1: b",
        "b = c = a",
        "b, c = a, a, a",
        "raise",
        "raise a from b",
        "return b'a'",
        "return 9007199254740993",
        "return {**a}",
        "return [b async for b in a]",
        "yield a",
        "return (b := a)",
        "nonlocal a",
        "import a",
    ],
)
def test_what_has_no_translation_fails(line):
    """With the file and the line, and not at last in a browser, with another result."""
    with pytest.raises(SyntaxError, match=r"^f\.py, line [23]: .* has no translation\.$"):
        translate({"f.py": f"def f(a, b):\n    {line}"}, "DATA", "f")


@pytest.mark.parametrize(
    "source",
    [
        "@cache\ndef f(a, b):\n    return a",
        "@cache\ndef f(*a):\n    return a",
        "@staticmethod\ndef f(a):\n    return a",
        "def f(a, *, b):\n    return a",
        "def f(a, /, b):\n    return a",
        "def f(**a):\n    return a",
        "class A:\n    @property\n    def a(self):\n        return 1",
        "class A:\n    def __len__(self):\n        return 1",
        "class A:\n    a = []",
    ],
)
def test_a_function_or_a_class_that_has_no_translation_fails(source):
    with pytest.raises(SyntaxError, match=r"^f\.py, line [12]: .* has no translation\.$"):
        translate({"f.py": source}, "DATA", "f")


def test_what_is_text_stays_text():
    written = translate({"f.py": "def f(a):\n    return f'`${a}${{a}}'"}, "DATA", "f")
    assert "return `\\`\\$${a}\\${a}`;" in written


def test_a_name_stands_in_one_module():
    with pytest.raises(SyntaxError, match=r"b\.py, line 1: a, defined in two modules"):
        translate({"a.py": "a = 1", "b.py": "a = 2"}, "DATA", "a")


def test_an_empty_list_is_false_and_methods_of_python_are_named():
    written = translate({"f.py": "def f(a):\n    return a.strip() if a else DATA"}, "DATA", "f")
    assert "py_truth(a)?py_strip(a):DATA" in written


def test_what_is_kept_is_kept_there_too_and_what_is_assigned_is_a_parameter():
    source = "@cache\ndef f(a):\n    b = a\n    return [b, b]"
    assert "const f=py_cache((a,b)=>{b=a;return [b,b];});" in translate(
        {"f.py": source}, "DATA", "f"
    )


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
    assert said in translate({"f.py": wanted}, "DATA", "f").replace("this.", "self.")


def test_no_more_is_asked_than_in_python():
    written = translate(
        {"f.py": "def f(a):\n    return all(c for b in a if b for c in b)"}, "DATA", "f"
    )
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
    assert ("py_truth(" in translate({"f.py": source}, "DATA", "f")) is asks


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
