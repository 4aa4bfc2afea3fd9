"""Formulas in pages: each is stored once, and its symbols carry their roles."""

import re

from qkv import notation
from qkv_site.markdown import formulas


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
