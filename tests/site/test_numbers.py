"""Numbers in sentences are computed by the page, and no other number comes out."""

import ast
import re

import pytest

from qkv_site.markdown import blocks
from qkv_site.markdown.run import NUMBER, say
from support import ROOT

# Numbers of these forms follow from others: a shape, a count, a product, a ratio.
TYPED = re.compile(
    r"\d+ × \d+|\(\d+(?:, \d+)+\)|(?<!\d)\d{1,3}(?:,\d{3})+|[·/+] \d+\)? = \d+"
    r"|\d+(?:\.\d+)? times\b|\d+ ?%"
)
# Not sentences: front matter, headings, what an exercise or a link asks, code, mathematics.
ASKED = re.compile(
    r"\A---\n.*?\n---\n|^#.*?$|^\?\?\? .*?$|`[^`\n]*`|!?\[[^\]]*\]\([^)]*\)|\{\{.*?\}\}",
    re.DOTALL | re.MULTILINE,
)
# Typed as their source gives them, which the sentence names.
GIVEN = {
    "explanation/square-or-rectangular.md": ["(512, 8, 64)", "(8, 64, 512)"],
    "explanation/values-and-output.md": ["768 × 768", "768 × 768"],
    "threads/why-both-matrices.md": ["768 × 768"],
}


def typed(markdown):
    return TYPED.findall(ASKED.sub("", blocks.FENCE.sub("", markdown)))


def test_no_sentence_types_a_number_that_can_be_computed():
    pages = {path.relative_to(ROOT / "docs"): path for path in (ROOT / "docs").rglob("*.md")}
    found = {page.as_posix(): typed(path.read_text()) for page, path in pages.items()}
    del found["corrections.md"]  # quotes what was wrong
    assert {page: numbers for page, numbers in found.items() if numbers} == GIVEN


@pytest.mark.parametrize(
    "typed_number",
    ["786,432", "64 × 512", "(2304, 768)", "8 · 64 = 512", "2.5 times", "75 %", "100%"],
)
def test_a_typed_number_is_found(typed_number):
    assert typed(f"{{{{= W.size }}}} weights, and {typed_number} as `1,024`.")


def bound(code):
    """The names that a block binds for the blocks after it."""
    return {
        name.id
        for statement in ast.parse(code).body
        if not isinstance(statement, (ast.FunctionDef, ast.ClassDef))
        for name in ast.walk(statement)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }


def rebound(markdown):
    """Numbers of a page with a name that two blocks bind: they are computed after the last one."""
    found = [name for each in blocks.find(markdown) if each.executed for name in bound(each.code)]
    return [
        number
        for number in NUMBER.findall(blocks.FENCE.sub("", markdown))
        for name in ast.walk(ast.parse(number, mode="eval"))
        if isinstance(name, ast.Name) and found.count(name.id) > 1
    ]


@pytest.mark.parametrize("page", [*(ROOT / "docs").rglob("*.md")], ids=lambda path: path.name)
def test_a_number_is_of_one_block(page):
    assert rebound(page.read_text()) == []


def test_a_number_of_two_blocks_is_found():
    block = '```python exec="on"\nx = 7\n```\n'
    assert rebound(f"{block}{{{{= 2 * x }}}} wide\n\n{block}") == ["2 * x"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (786432, "786,432"),
        (-3, "-3"),
        ("75 %", "75 %"),
        (f"{8 / 3:.2f}", "2.67"),
        ((1536, 512), "1536 × 512"),
        ((128, 12288), "128 × 12,288"),
    ],
)
def test_a_number_is_said_as_a_sentence_has_it(value, said):
    assert say(value) == said


@pytest.mark.parametrize("value", [2.5, True, None, [3]])
def test_what_has_no_number_of_digits_is_refused(value):
    with pytest.raises(TypeError, match="whole, or a text"):
        say(value)


def test_no_expression_is_left_in_the_built_site(site):
    for page in site.rglob("*.html"):
        assert not NUMBER.search(page.read_text()), page
