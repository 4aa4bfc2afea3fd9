"""One boolean mask and its forms; `tests/truth/test_real_layers.py` asks the libraries."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.layouts import MASK_FORMS, convert_mask
from qkv.masks import causal, padding
from support import refuses

pytestmark = pytest.mark.usefixtures("unchecked")

LENGTHS = np.array([5, 3, 1])


def test_padding_shows_the_first_tokens():
    mask = padding(LENGTHS, 5)
    assert mask.shape == (3, 1, 1, 5)
    assert mask.dtype == bool
    assert mask.sum(axis=-1).ravel().tolist() == [5, 3, 1]
    assert mask[..., 0].all()


@given(st.integers(1, 7), st.integers(1, 7))
def test_causal_in_its_two_alignments(n_q, n_k):
    start, end = (causal(n_q, n_k, aligned=aligned) for aligned in ("start", "end"))
    for i in range(n_q):
        for j in range(n_k):
            assert start[i, j] == (j <= i)
            assert end[i, j] == (j - (n_k - 1) <= i - (n_q - 1))
    if n_q == n_k:
        np.testing.assert_array_equal(start, end)
        np.testing.assert_array_equal(start, causal(n_q))


def test_both_at_once():
    both = padding(LENGTHS, 5) & causal(5)
    assert both.shape == (3, 1, 5, 5)
    assert [mask.sum() for mask in both] == [15, 12, 5]


@pytest.mark.parametrize(
    ("mask", "form", "shape"),
    [
        (causal(5), "attn_mask", (5, 5)),
        (padding(LENGTHS, 5) & causal(5), "attn_mask", (6, 5, 5)),
        (np.ones((1, 2, 5, 5), bool), "attn_mask", (2, 5, 5)),
        (padding(LENGTHS, 5), "key_padding_mask", (3, 5)),
        (padding(LENGTHS, 5) & causal(5), "sdpa", (3, 1, 5, 5)),
        (causal(5), "sdpa", (1, 1, 5, 5)),
        (padding(LENGTHS, 5), "keras", (3, 1, 5)),
        (padding(LENGTHS, 5) & causal(5), "keras", (3, 5, 5)),
        (padding(LENGTHS, 5), "flax", (3, 1, 1, 5)),
        (causal(5), "haiku", (1, 1, 5, 5)),
    ],
)
def test_shapes_and_senses_of_the_forms(mask, form, shape):
    converted = convert_mask(mask, form, h=2)
    assert converted.shape == shape
    assert converted.dtype == bool
    hides = MASK_FORMS[form].true_means == "hide"
    repeated = 2 if form == "attn_mask" and len(shape) == 3 and mask.shape[1] == 1 else 1
    assert (~converted if hides else converted).sum() == mask.sum() * repeated


def test_the_heads_of_a_sentence_stand_together():
    mask = padding(LENGTHS, 5) & causal(5)
    per_head = convert_mask(mask, "attn_mask", h=2).reshape(3, 2, 5, 5)
    np.testing.assert_array_equal(per_head, ~np.broadcast_to(mask, (3, 2, 5, 5)))


def test_a_mask_of_two_axes_says_how_many_queries_there_are():
    step = causal(1, 5, aligned="end")
    np.testing.assert_array_equal(convert_mask(step, "attn_mask"), ~step)


@pytest.mark.parametrize(("lengths", "n_q"), [([2, 1], 3), ([2, 1], 1), ([2], 3)])
def test_pytorch_takes_padding_with_its_queries(lengths, n_q):
    torch = pytest.importorskip("torch")
    mask = padding(np.array(lengths), 3)
    converted = torch.from_numpy(convert_mask(mask, "attn_mask", h=2, n_q=n_q))
    X_Q, X_K = torch.ones(len(lengths), n_q, 6), torch.randn(len(lengths), 3, 6)
    layer = torch.nn.MultiheadAttention(6, 2, batch_first=True)
    output = layer(X_Q, X_K, X_K, attn_mask=converted)[0]
    hidden = layer(X_Q, X_K, X_K, key_padding_mask=torch.from_numpy(~mask[:, 0, 0]))[0]
    assert torch.allclose(output, hidden)


def test_a_form_is_an_array_of_its_own():
    mask = causal(5)
    convert_mask(mask, "sdpa")[:] = False
    assert mask.sum() == 15


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, "float32"])
@pytest.mark.parametrize("form", [name for name, form in MASK_FORMS.items() if form.adds])
def test_floats_that_are_added(form, dtype):
    mask = padding(LENGTHS, 5)
    added = convert_mask(mask, form, h=2, n_q=1, dtype=dtype)
    assert added.dtype == dtype
    assert np.isfinite(added).all()
    assert {*np.unique(added)} == {0, np.finfo(dtype).min}
    assert (added == 0).sum() == mask.sum() * (2 if form == "attn_mask" else 1)


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: padding(LENGTHS, 4), "from 0 to n_k = 4, but one is 5"),
        (lambda: padding([-1, 2], 4), "from 0 to n_k = 4, but one is -1"),
        (lambda: padding(LENGTHS, 0), "n_k must be a positive whole number"),
        (lambda: padding([1.0], 4), "shape (1,) and dtype float64"),
        (
            lambda: padding(np.ones((2, 4), bool), 4),
            "shape (2, 4) and dtype bool … array[:, None, None, :]",
        ),
        (lambda: causal(0), "n_q must be a positive whole number, but is 0"),
        (lambda: causal(2, 3), "n_q = 2 and n_k = 3 differ … 'start' … 'end'"),
        (lambda: causal(3, aligned="left"), "aligned must be one of 'start', 'end'"),
        (lambda: convert_mask(causal(3), "torch"), "form must be one of 'attn_mask'"),
        (
            lambda: convert_mask(causal(3), "pytorch"),
            "'attn_mask' (attn_mask of torch.nn.MultiheadAttention), … but is 'pytorch'.",
        ),
        (
            lambda: convert_mask(np.ones((2, 3, 3), bool), "sdpa"),
            "(n_q, n_k) or (batch, h, n_q, n_k) … shape (2, 3, 3) … pass mask[:, None]",
        ),
        (
            lambda: convert_mask(padding(LENGTHS, 5), "attn_mask", n_q=4),
            "shape (3, 1, 4, 5) … Pass h, the number of heads.",
        ),
        (
            lambda: convert_mask(padding(LENGTHS, 5), "attn_mask", n_q=4, h=0),
            "h must be a positive whole number, but is 0",
        ),
        (
            lambda: convert_mask(padding(LENGTHS, 5), "attn_mask", h=2),
            "(3, 1, 1, 5), with 1 for the queries … pass n_q … 'key_padding_mask'",
        ),
        (
            lambda: convert_mask(causal(3), "attn_mask", n_q=4),
            "an axis of n_q = 4 or 1, but has (1, 1, 3, 3)",
        ),
        (
            lambda: convert_mask(causal(3), "sdpa", dtype="bfloat16"),
            "dtype is bfloat16 … NumPy has no bfloat16: take float16",
        ),
        (
            lambda: convert_mask(np.ones((1, 3, 5, 5), bool), "attn_mask", h=2),
            "h = 2 heads or 1, but has (1, 3, 5, 5)",
        ),
        (
            lambda: convert_mask(causal(3), "key_padding_mask"),
            "from all queries and heads … (1, 1, 3, 3) … pass it as attn_mask",
        ),
        (
            lambda: convert_mask(np.ones((1, 3, 5, 5), bool), "keras"),
            "one mask for all heads … (1, 3, 5, 5), with 3 heads",
        ),
        (
            lambda: convert_mask(causal(3), "transformers"),
            "'transformers' adds a mask of floats: pass dtype, such as np.float32",
        ),
        (
            lambda: convert_mask(causal(3), "keras", dtype=np.float32),
            "'keras' is boolean, but dtype is … float32",
        ),
        (
            lambda: convert_mask(causal(3), "sdpa", dtype=int),
            "'sdpa' adds a mask of floats: pass dtype … int",
        ),
    ],
)
def test_what_is_refused(make, parts):
    with refuses(parts):
        make()


@pytest.mark.parametrize(
    ("make", "parts"), [(lambda: convert_mask(np.tri(3), "sdpa"), "mask must be boolean … float64")]
)
def test_a_mask_of_numbers_is_refused(make, parts):
    with refuses(parts, error=TypeError):
        make()
