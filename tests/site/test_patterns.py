"""Nothing of the site's own is printed as HTML and read back: patterns over markup are few.

Counted are calls of `re` whose pattern has a tag or an attribute with its quote in it; methods of
text and `in` that look for such a thing; and classes that read HTML. What is left reads what others
write: Python-Markdown's and mkdocstrings' tables, the theme's scripts, an author's own tags.
"""

import ast
import re

import pytest

from support import ROOT

METHODS = {"replace", "partition", "rpartition", "split", "find", "index", "count"}
METHODS |= {"startswith", "endswith"}
MOST = 12
# In a pattern: a tag, once what belongs to the pattern itself, as in (?P<name>...), is put aside.
TAG = re.compile(r"""<[/(!?\[]?\w*|\w=\\?["']|data-""")
_GROUP = re.compile(r"\(\?(P?<\w+>|<[=!]|P=\w+\))")


def text(node):
    """The text of a literal, without what is put into it."""
    match node:
        case ast.Constant(str(value)):
            return value
        case ast.JoinedStr(parts):
            return "".join(map(text, parts))
        case ast.BinOp(left, ast.Add(), right):
            return text(left) + text(right)
    return ""


def looks_for_markup(node):
    """Whether code reads markup here."""
    match node:
        case ast.ClassDef(bases=bases):
            return any(isinstance(base, ast.Name) and base.id == "HTMLParser" for base in bases)
        case ast.Call(ast.Attribute(ast.Name("re"), name), [pattern, *_]) if name != "escape":
            return bool(TAG.search(_GROUP.sub("(", text(pattern))))
        case ast.Call(ast.Attribute(_, name), [sought, *_]) if name in METHODS:
            return bool(re.search(r"</?\w|\w=\"|data-", text(sought)))
        case ast.Compare(sought, [ast.In() | ast.NotIn()]):
            return bool(re.search(r"</?\w|\w=\"", text(sought)))
    return False


def found(code):
    return [node.lineno for node in ast.walk(ast.parse(code)) if looks_for_markup(node)]


def test_markup_is_read_in_few_places():
    places = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "src" / "qkv_site").rglob("*.py"))
        for line in found(path.read_text())
    ]
    assert len(places) <= MOST, places


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ('re.sub(r"<b>(.*?)</b>", "", page)', 1),
        ('re.compile(r"(?P<code>`+)(?<=x)")', 0),
        ("re.findall(r'data-set=\"(\\\\d+)\"', page)", 1),
        ('page.replace("</h1>", said)', 1),
        ('"<math" in page', 1),
        ('page.replace("a < b", "")', 0),
        ("class Reader(HTMLParser): ...", 1),
        ('f"<b>{said}</b>"', 0),
    ],
)
def test_a_place_that_reads_markup_is_counted(code, count):
    assert len(found(code)) == count
