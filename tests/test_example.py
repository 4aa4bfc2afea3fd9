"""The worked example: its sizes differ, its numbers are those of plain NumPy, and stay."""

import math
import re
import textwrap

import numpy as np
import pytest

import oracle
from qkv import example

FIRST_WORD = [0.4, 1.5, -1.8, 1.7, 0.0, -0.8, -0.8]
FIRST_WEIGHTS = [-0.1, 0.1, 0.4, -0.4, 0.0, -0.1, -0.5]


def test_no_two_sizes_are_equal():
    layer, n = example.layer, len(example.words)
    sizes = [n, layer.d_model, layer.h, layer.d_k, layer.d_v, layer.h * layer.d_k]
    assert sorted([*sizes, layer.h * layer.d_v]) == [2, 3, 4, 5, 6, 7, 8]


def _lines_of_the_docstring():
    """What the lines of NumPy in the module's docstring draw."""
    shown = textwrap.dedent("\n".join(re.findall(r"^    \w+ = .*$", example.__doc__, re.M)))
    names = {"np": np}
    exec(shown, names)
    return names


def test_its_numbers_are_those_of_plain_numpy():
    plain = _lines_of_the_docstring()
    X, W_Q, W_K, W_V, W_O = (plain[name] for name in ("X", "W_Q", "W_K", "W_V", "W_O"))
    layer = example.layer
    for ours, theirs in ((layer.W_Q, W_Q), (layer.W_K, W_K), (layer.W_V, W_V), (layer.W_O, W_O)):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(example.X, X)
    for i in range(2):
        Q, K, V = X @ W_Q[i], X @ W_K[i], X @ W_V[i]
        S = Q @ K.T
        E = np.exp(S / np.sqrt(3))
        A = E / E.sum(axis=1, keepdims=True)
        for name, array in {"Q": Q, "K": K, "V": V, "S": S, "A": A, "heads": A @ V}.items():
            np.testing.assert_allclose(getattr(example, name)[i], array, rtol=0, atol=1e-12)


def test_the_output_is_that_of_a_loop_over_single_numbers():
    expected = oracle.multi_head(example.layer, example.X, example.X, example.X)
    np.testing.assert_allclose(example.Y, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(example.layer(example.X), expected, rtol=0, atol=1e-12)


def test_the_numbers_stay():
    """Pages speak of them, and an author may have copied a figure."""
    assert example.X[0].tolist() == FIRST_WORD
    assert example.layer.W_Q[0, :, 0].tolist() == FIRST_WEIGHTS
    by_hand = sum(x * w for x, w in zip(FIRST_WORD, FIRST_WEIGHTS, strict=True))
    assert math.isclose(example.Q[0, 0, 0], by_hand, abs_tol=1e-12)


@pytest.mark.parametrize("name", ["X", "Q", "K", "V", "S", "A", "heads", "Y"])
def test_a_page_cannot_change_the_example_of_another(name):
    array = getattr(example, name)
    assert array.dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        array[...] = 0


def test_no_zero_has_a_sign():
    layer = example.layer
    for drawn in (example.X, layer.W_Q, layer.W_K, layer.W_V, layer.W_O):
        assert not np.signbit(drawn[drawn == 0]).any()
