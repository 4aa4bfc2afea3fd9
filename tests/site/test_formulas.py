"""Formulas in pages: what is wrong with one fails the build; what is right is stored once."""

import re

import pytest

from qkv import notation
from qkv_site.markdown import blocks, formulas
from support import ROOT

FENCE = "# A page\n\n```formula\n{}\n```\n"
WRONG = {
    "shapes that do not fit": (
        FENCE.format("\nQ[i] = X_Q @ W_Q[i]\nQ[i] = W_Q[i] @ X_Q"),
        r"page\.md:6: formula `Q\[i\] = W_Q\[i\] @ X_Q`: .*\(13, 3\).*\(7, 13\)",
    ),
    "two sides that differ": (
        FENCE.format("X_Q @ W_Q[i] == X_K @ W_K[i]"),
        r"page\.md:4: formula .*has shape \(7, 3\).*has shape \(11, 3\)",
    ),
    "an unknown role": (FENCE.format("Z @ W_Q[i]"), r"page\.md:4: formula .*Z is not a role"),
    "something that is no formula": (
        FENCE.format("__import__('os')"),
        r"page\.md:4: formula .*is not part of a formula",
    ),
    "an unknown source": (
        '# A page\n\n```formula in="nobody"\nX_Q\n```\n',
        r"page\.md:4: formula .*'nobody' is not a source",
    ),
    "a wrong formula in a sentence": (
        "# A page\n\nSo {{Q[i] @ K[i]}} is\n",
        r"page\.md:3: formula `Q\[i\] @ K\[i\]`: .*\(7, 3\).*\(11, 3\)",
    ),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_formula_fails_the_build_and_is_named(build, fault):
    text, message = WRONG[fault]
    built = build({"index.md": "# Home\n", "page.md": text})
    assert built.returncode == 1, built.stdout
    assert re.search(message, built.stdout), built.stdout


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: path.stem)
def test_every_formula_of_every_page_holds(path):
    for block in blocks.find(path.read_text()):
        if block.language == "formula":
            assert formulas.faults(block.code, block.options.get("in", "")) == ()


def test_equal_renderings_are_stored_once():
    rendered = formulas.block("head[i] = attention(Q[i], K[i], V[i])")
    variants = re.findall(r'<div data-in="([^"]+)">(.*?)</ul></div>', rendered, re.DOTALL)
    assert sorted(" ".join(ids for ids, _ in variants).split()) == sorted(
        source.id for source in notation.sources()
    )
    assert len({html for _, html in variants}) == len(variants) > 1


def test_a_symbol_carries_its_role_in_every_source():
    for source in notation.sources():
        assert 'class="role-weight" data-role="W_Q[i]"' in formulas.inline("W_Q[i]", source.id)
