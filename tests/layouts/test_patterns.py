"""The pattern language of layouts: a fault is named, and the pattern is quoted."""

from importlib.resources import files

import pytest

from qkv.layouts import Stored
from qkv.layouts._patterns import Pattern
from qkv.layouts._registry import _read
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
        ("(h d_k d_model", "'(h d_k d_model' has a bracket that is not closed"),
        ("", "'' names no axis"),
        ("(h d_k) d_modell", "has 'd_modell', which is no size of a layer: expected one of h,"),
    ],
)
def test_a_stored_array_with_a_faulty_pattern_is_refused_where_it_is_written(pattern, fault):
    with refuses("Pattern ", fault):
        Stored("x", "W_Q", pattern)


@pytest.mark.parametrize(
    ("holds", "pattern", "paper_axes"),
    [
        ("W_Q", "(h d_k) d_model", (("h",), ("d_model",), ("d_k",))),
        ("W_Q W_K W_V", "d_model (3 h d_k)", (("3", "h"), ("d_model",), ("d_k",))),
        ("W_V", "h_kv d_v d_source_v", (("h_kv",), ("d_source_v",), ("d_v",))),
        ("W_O", "d_out (h d_v)", (("h",), ("d_v",), ("d_out",))),
        ("b_K", "(h_kv d_k)", (("h_kv",), ("d_k",))),
        ("b_O", "d_model", (("d_model",),)),
    ],
)
def test_a_part_has_heads_then_what_goes_in_then_what_comes_out(holds, pattern, paper_axes):
    assert Stored("x", holds, pattern).paper_axes == paper_axes


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('holds = "W_O", axes = "d_model (h d_k)"', 'holds = "W_O"', "argument: 'axes'"),
        ("{scaled_here_or_by_sdpa}", "{scaled}", "{scaled} is none of the phrases '{qk_"),
        ("square", "sqare", "nanogpt.toml: Layout.__init__() got an unexpected keyword"),
        ('"c_proj.weight"', '"c_proj.w"', "'c_proj.w' ends in no weight or kernel: bias must be"),
        ("[forms.always]", 'notes.never = ""\n[forms.always]', "notes has 'never', which is none"),
    ],
)
def test_a_fault_in_a_file_is_named_with_the_file(tmp_path, old, new, fault):
    text = (files("qkv.layouts") / "libraries" / "nanogpt.toml").read_text("utf-8")
    assert text.count(old) == 1
    (tmp_path / "nanogpt.toml").write_text(text.replace(old, new))
    with refuses(fault):
        _read(tmp_path / "nanogpt.toml")
