"""Every page's blocks run again, in order, in a fresh namespace; and their assertions bite."""

import ast
import contextlib
import io

import pytest

from qkv_site.markdown import blocks
from support import ROOT

# A page shows what a reader gets to see, and to a reader annotations are not enforced.
pytestmark = pytest.mark.usefixtures("unchecked")

DOCS = ROOT / "docs"
PAGES = {
    str(path.relative_to(DOCS)): [
        block for block in blocks.find(path.read_text()) if block.executed
    ]
    for path in sorted(DOCS.rglob("*.md"))
}
EXECUTED = {page: found for page, found in PAGES.items() if found}


def replay(page, codes):
    namespace = {"__name__": page}
    for block, code in zip(EXECUTED[page], codes, strict=True):
        lines = "\n" * block.line  # so that a traceback names the page's own lines
        compiled = compile(lines + code if isinstance(code, str) else code, DOCS / page, "exec")
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compiled, namespace)


@pytest.mark.parametrize("page", EXECUTED)
def test_blocks_run(page):
    replay(page, [block.code for block in EXECUTED[page]])


@pytest.mark.parametrize("page", PAGES)
def test_blocks_are_well_formed(page):
    found = blocks.find((DOCS / page).read_text())
    assert [(block.line, fault) for block in found for fault in blocks.faults(block)] == []


class _Increment(ast.NodeTransformer):
    """Add one to the n-th whole number that an assertion compares with `==`."""

    def __init__(self, n):
        self.left = n
        self.in_equality = False

    def visit_Compare(self, node):
        before, self.in_equality = self.in_equality, any(isinstance(o, ast.Eq) for o in node.ops)
        self.generic_visit(node)
        self.in_equality = before
        return node

    def visit_Assert(self, node):
        self.asserting = True
        self.generic_visit(node)
        self.asserting = False
        return node

    def visit_Constant(self, node):
        if getattr(self, "asserting", False) and self.in_equality and type(node.value) is int:
            self.left -= 1
            if self.left == -1:
                return ast.copy_location(ast.Constant(node.value + 1), node)
        return node


def asserted_numbers(page):
    for number, block in enumerate(EXECUTED[page]):
        counter = _Increment(-1)
        counter.visit(ast.parse(block.code))
        yield from ((number, n) for n in range(-1 - counter.left))


@pytest.mark.parametrize(
    ("page", "block", "number"),
    [(page, *place) for page in EXECUTED for place in asserted_numbers(page)],
)
def test_asserted_number_matters(page, block, number):
    codes = [block.code for block in EXECUTED[page]]
    codes[block] = ast.fix_missing_locations(_Increment(number).visit(ast.parse(codes[block])))
    with pytest.raises(AssertionError):
        replay(page, codes)
