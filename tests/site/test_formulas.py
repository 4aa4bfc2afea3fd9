"""Formulas in pages: each is stored once, and its symbols carry their roles."""

import re

import pytest

from qkv import notation
from qkv_site.parts import formulas


def test_equal_renderings_are_stored_once(written):
    for _ in range(2):
        shown = formulas.block("head[i] = attention(Q[i], K[i], V[i])")
    assert shown.startswith('<div data-set="0" data-in="site')
    (stored,) = (variants.html for variants in written.variants)
    sources = " ".join(re.findall(r'<div data-in="([^"]+)"', stored)).split()
    assert sorted(sources) == sorted(source.id for source in notation.sources())
    variants = re.findall(r'">(<div class="math-display">.*?</ul>)</div>', stored, re.DOTALL)
    assert len(set(variants)) == len(variants) == stored.count("data-in=") > 1


def test_a_symbol_carries_its_role_in_every_source():
    for source in notation.sources():
        borrowed = "" if source.names(notation.role("W_Q[i]")) else " wq-borrowed"
        shown = formulas.inline("W_Q[i]", source.id)
        assert f'class="role-weight{borrowed}" data-role="W_Q[i]"' in shown
        assert (formulas.BORROWED in shown) == bool(borrowed)


def test_a_shape_and_a_side_follow_the_notation():
    def shown(content, source):
        return re.sub("<[^>]+>", "", formulas.inline(content, source))

    assert shown("shape(W_Q[i], d_model=512, d_k=64)", "site") == "512×64"
    assert shown("shape(W_Q[i], d_model=512, d_k=64)", "ng-multi-head") == "64×512"
    assert shown('"rows"', "ng-multi-head") == "columns"
    assert shown('"rows", A[i]', "transformer-circuits") == "rows"


@pytest.mark.parametrize(
    ("one", "other", "sources"),
    [
        ("d_k", "d_v", {"vit", "transformer-circuits", "deepseek-v2"}),
        ("shape(K[i])", "shape(V[i])", {"vit", "transformer-circuits", "deepseek-v2"}),
        ("X_K", "X_K", set()),
        ("W_K[i]", "W_V[i]", set()),
    ],
)
def test_which_sources_write_two_symbols_alike(one, other, sources):
    assert {source.id for source in formulas.written_alike(one, other)} == sources


def test_a_legend_goes_from_what_goes_in_to_sizes_queries_before_keys_before_values():
    shown = formulas.block("head[i] = attention(X_Q @ W_Q[i], K[i], V[i])", "site")
    legend = re.findall(r'<li tabindex="0" data-role="([^"]+)"', shown)
    assert legend == ["X_Q", "W_Q[i]", "K[i]", "V[i]", "head[i]"]


def test_a_source_of_single_vectors_says_so_below_its_own_formula():
    for source in ("ng-multi-head", "ng-self-attention"):
        shown = formulas.block("X @ P_Q @ W_Q[i]", source)
        note = re.sub("<[^>]+>", "", shown.partition('<p class="wq-vectors">')[2])
        assert note.startswith("In this source x is one word's vector.")
        assert "In our formulas it has all words, one in each column." in note
    assert "wq-vectors" not in formulas.block("X @ P_Q @ W_Q[i]", "paper-3-2-2")
