"""The pattern language of layouts: a fault is named, and the pattern is quoted."""

import pytest

from qkv.layouts import Stored
from qkv.layouts._patterns import Pattern
from support import refuses


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("d_model", (("d_model",),)),
        (" (3 h d_k)  d_model ", (("3", "h", "d_k"), ("d_model",))),
        ("( h d_k )d_model", (("h", "d_k"), ("d_model",))),
        ("(h+h_kv+h_kv d_k) 2", (("h+h_kv+h_kv", "d_k"), ("2",))),
        ("(h_kv h/h_kv+1+1 d_k)", (("h_kv", "h/h_kv+1+1", "d_k"),)),
    ],
)
def test_brackets_hold_the_sizes_that_share_an_axis(text, axes):
    assert Pattern.parse(text).axes == axes


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("(h d_k d_model", "has a bracket that is not closed"),
        ("h d_k) d_model", "closes a bracket that is not open"),
        (")h(", "closes a bracket that is not open"),
        ("((h d_k) x", "has a bracket within brackets"),
        ("(h (d_k)) x", "has a bracket within brackets"),
        ("() d_model", "has a pair of brackets without a size"),
        ("", "names no axis"),
        ("  ", "names no axis"),
        ("h·d_k", "has 'h·d_k', which is no size: a name, a number, or a sum"),
        ("(h, d_k)", "has 'h,', which is no size"),
        ("*batch h", "has '*batch', which is no size"),
        ("h+ d_k", "has 'h+', which is no size"),
        ("h//h_kv", "has 'h//h_kv', which is no size"),
        ("-1", "has '-1', which is no size"),
        ("h->d_k", "has 'h->d_k', which is no size"),
    ],
)
def test_a_fault_is_named_and_the_pattern_quoted(text, fault):
    with refuses(f"Pattern {text!r} {fault}"):
        Pattern.parse(text)


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("(h d_k d_model -> h d_model d_k", "'(h d_k d_model' has a bracket that is not closed"),
        ("(h d_k) d_model -> h d_model d_k)", "'h d_model d_k)' closes a bracket that is not"),
        ("(h d_k) d_model", "'(h d_k) d_model' has no ' -> ' between its two sides"),
        ("(h d_k) d_model -> ", "'' names no axis"),
        (
            "(h d_k) d_model -> h d_modell d_k",
            "must have the same sizes on both sides, but has d_k, d_model, h on the left and "
            "d_k, d_modell, h on the right",
        ),
    ],
)
def test_a_stored_array_with_a_faulty_pattern_is_refused_where_it_is_written(pattern, fault):
    with refuses("Pattern ", fault):
        Stored("x", "W_Q", pattern)
