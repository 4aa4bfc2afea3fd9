"""May these two be merged? What the tables say, against the merged array that each page derives."""

import html
import re

import numpy as np
import pytest

from qkv import merge
from qkv_site.tables import merges
from qkv_site.tables.merges import EXACT, GROUPS, HEAD

PAIRS = {pair.name: pair for pairs in GROUPS.values() for pair in pairs}
# Of each pair: y, n, or - where there is no answer, in the order of the table's columns.
SAID = {
    "a map before the heads, with W^Q": "yyynny",
    "a norm's gain and shift, with the maps that read it": "yyy-yy",
    "a whole norm, with its division, with W^Q": "nn---n",
    "LoRA's two factors, with their base": "yyynny",
    "the table of embeddings, with W^Q": "yy-yn-",
    "embeddings plus learned positions, with W^Q": "yy-nn-",
    "W^Q with W^K": "yynnyn",
    "W^V with W^O": "yyynyn",
    "QK-norm's gain of queries, with that of keys": "yyn---",
    "W^K with W^V, one weight for both": "nn---n",
    "the value bias, with the output bias": "y-ynny",
    "the key bias, with nothing: left out": "y-nnyy",
    "W^Q, W^K, W^V in one product, one source": "yyyyyy",
    "W^Q, W^K, W^V in one product, cross-attention": "nn---n",
    "W^K, W^V in one product, cross-attention": "yyyyyy",
    "W^O with a linear layer that follows at once": "yyynny",
    "W^O with the next layer, the residual added between": "nnnnnn",
}


def test_each_pair_has_its_answers():
    answers = {"yes": "y", "**no**": "n", "—": "-"}
    said = {
        name: "".join(answers[cell.partition(",")[0]] for cell in [*pair.cells()][1:])
        for name, pair in PAIRS.items()
    }
    assert said == SAID


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_no_answer_is_near_the_border(pair):
    """What is not exact misses by some percent, so no rounding and no luck decides."""
    for extra in pair.extras:
        miss = pair.case(extra).miss()
        assert miss < EXACT / 1000 or miss > 0.05, extra


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_a_fit_has_more_to_give_than_it_has_numbers(pair):
    """With as many numbers as equations anything could be fitted."""
    for extra in pair.extras:
        case = pair.case(extra)
        assert len(case.reads) >= 1.5 * case.reads.shape[1]


def best(name, extra=""):
    return PAIRS[name].case(extra).best()


def test_what_is_found_is_the_product_that_the_pages_derive():
    W_Q, W_K, W_V, W_O = merges.W_Q, merges.W_K, merges.W_V, merges.W_O
    before, b = merge(merges.P, W_Q[0], b_first=merges.B_FIRST, b_second=np.ones(len(W_Q[0].T)))
    expected = {
        ("a map before the heads, with W^Q", ""): before,
        ("a map before the heads, with W^Q", "biases"): np.vstack([before, b]),
        ("a norm's gain and shift, with the maps that read it", ""): merges.GAIN[:, None] * W_Q[0],
        ("a norm's gain and shift, with the maps that read it", "dropout"): merges.GAIN[:, None]
        * W_Q[0],
        ("LoRA's two factors, with their base", ""): W_Q[0] + merges.DOWN @ merges.UP,
        ("the table of embeddings, with W^Q", ""): merges.E_WORDS @ W_Q[0],
        ("W^Q with W^K", ""): (W_Q[0] @ W_K[0].T).reshape(-1, 1),
        ("W^V with W^O", ""): W_V[0] @ W_O[0],
        ("W^V with W^O", "RoPE"): W_V[0] @ W_O[0],
        ("W^V with W^O", "dropout"): W_V[0] @ W_O[0],
        ("the value bias, with the output bias", ""): [merges.B_V[0] @ W_O[0]],
        ("the key bias, with nothing: left out", ""): [[1]],
        ("W^K, W^V in one product, cross-attention", ""): np.hstack([W_K[0], W_V[0]]),
        ("W^O with a linear layer that follows at once", ""): np.vstack([*W_O]) @ merges.NEXT,
    }
    for (name, extra), array in expected.items():
        assert np.allclose(best(name, extra), array, rtol=0, atol=1e-9), (name, extra)


def test_the_page_shows_each_pair_and_counts_its_cases(site):
    page = (site / "explanation" / "may-i-merge" / "index.html").read_text()
    shown = html.unescape(re.sub(r"<[^>]+>", "", page))
    assert all(name in shown for name in PAIRS)
    assert all(head in shown for head in HEAD.values())
    assert f"{merges.cases()} cases" in shown
