"""What holds passes; what does not is refused with the two shapes, the role or the construct."""

import re
from dataclasses import replace

import numpy as np
import pytest

from notation.formulas import BLOCKS, FORMULAS
from qkv.notation import Block, check, role, roles, size_of
from qkv.notation._check import World, norm, rotate
from qkv.notation._written import axes
from qkv.notation.settings import Setting
from qkv.notation.tree import parse
from support import refuses


@pytest.mark.parametrize("line", FORMULAS)
def test_formulas_of_the_site_hold(line):
    check(line)


@pytest.mark.parametrize("lines", BLOCKS)
def test_formulas_that_stand_together_hold(lines):
    check(*lines)


# Each is computed by `qkv` itself, not by the definitions of the roles on its other side.
@pytest.mark.parametrize(
    "lines",
    [
        ["Y = multihead(X_Q, X_K, X_V)", "Y == concat(head[i] for i in heads) @ W_O"],
        ["attention(Q[i], K[i], V[i]) == A[i] @ V[i]"],
        ["attention(X_Q @ W_Q[i], X_K @ W_K[i], X_V @ W_V[i]) == softmax(S[i] / sqrt(d_k)) @ V[i]"],
        ["multihead(X, X, X) == sum(A[i] @ X @ W_VO[i] for i in heads)"],
        ["multihead(X_Q, X_K, X_V) == concat(A[i] @ V[i] for i in heads) @ W_O + b_O", "b_Q[i]"],
        ["multihead(X_Q, X_K, X_V) == sum(A[i] @ V[g(i)] @ W_O[i] for i in heads)"],
        ["attention(norm(Q[i]), norm(K[i]), V[i]) == A[i] @ V[i]"],
        ["attention(rotate(Q[i]), rotate(K[i]), V[i]) == A[i] @ V[i]"],
        ("C_KV = X_K @ W_DKV", "Y = concat(head[i] for i in heads) @ W_O"),
        ("Q[i] = C_Q @ W_UQ[i]", "Y == sum(head[i] @ W_O[i] for i in heads)"),
    ],
)
def test_definitions_make_the_layer_of_the_module(lines):
    check(*lines)


def test_a_rotated_score_depends_on_the_distance_alone():
    q, k = np.random.default_rng(0).normal(size=(2, 1, 8))
    scores = rotate(np.repeat(q, 5, axis=0)) @ rotate(np.repeat(k, 5, axis=0)).T
    for distance in range(-4, 5):
        diagonal = np.diagonal(scores, distance)
        np.testing.assert_allclose(diagonal, diagonal[0])
    assert len({f"{scores[0, j]:.6f}" for j in range(5)}) == 5


def test_a_normed_token_has_mean_square_one():
    x = np.random.default_rng(0).normal(size=(3, 7)) * [[1.0], [10.0], [100.0]]
    np.testing.assert_allclose((norm(x) ** 2).mean(axis=-1), 1)
    np.testing.assert_allclose(norm(x) * np.linalg.norm(x, axis=-1, keepdims=True) / 7**0.5, x)


@pytest.mark.parametrize(
    ("lines", "at", "parts"),
    [
        (
            ["Q[i] = X_Q @ W_Q[i]", "Q[i] = X_Q @ W_Q[i] + b_Q[i]"],
            0,
            ["values differ", "`Q[i] = X_Q @ W_Q[i]` holds by itself", "beside `Q[i] = X_Q @ W_Q"],
        ),
        (["X_Q = X", "X_Q = X @ P_Q"], 0, ["not beside `X_Q = X @ P_Q`"]),
        (["K[i] = X_K @ W_K[i]", "K[i] = C_KV @ W_UK[i]"], 0, ["not beside `K[i] = C_KV"]),
        (["K[i] = C_KV @ W_UK[i]", "Y = multihead(X_Q, X_K, X_V)"], 1, ["without latents"]),
        (["S[i] = Q[i] @ K[i].T", "S[i] = Q[i] @ K[g(i)].T"], 0, ["not beside `S[i] = Q[i] @ K[g"]),
        (["S[i] = Q[i] @ K[i].T", "norm(Q[i])"], 0, ["not beside `norm(Q[i])`"]),
        (["Q[i] = X_Q @ W_Q[i]", "V[i] = X_K @ W_V[i]"], 1, ["so has `X_K @ W_V[i]`"]),
    ],
)
def test_lines_that_stand_together_are_about_one_layer(lines, at, parts):
    (fault,) = Block(tuple(lines)).faults()
    assert fault.line == at
    assert re.search(".*".join(map(re.escape, parts)), fault.message)


@pytest.mark.parametrize("line", [*FORMULAS, *(line for lines in BLOCKS for line in lines)])
def test_shapes_follow_from_the_tree(line):
    formula = parse(line)
    setting = Setting.of([formula])
    world = World(setting)
    for side in formula.sides:
        expected = tuple(size_of(size, world.sizes) for size in axes(side, setting))
        assert world.value(side, 0).shape == expected


@pytest.mark.parametrize("line", [*FORMULAS, "(X_Q @ W_Q[i]).T", "2 * (h + d_k)**2 / 3 - 1"])
def test_a_tree_tells_the_line_that_it_was_parsed_from(line):
    text = " == ".join(map(str, parse(line).sides))
    assert parse(text).sides == parse(line).sides


@pytest.mark.parametrize(
    "line",
    [
        "h * d_k == d_k * h",
        "2 * d_model * d_k - d_k**2 == d_k * (2 * d_model - d_k)",
        "d_model / h == d_model * h**2 / h**3",
        "d_model - (d_k - h) == d_model - d_k + h",
        "sqrt(d_k) * sqrt(d_k) == d_k",
        "d_k**(-1/4) == 1 / sqrt(sqrt(d_k))",
    ],
)
def test_sizes_hold(line):
    check(line)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (
            "Q[i] = X_Q @ W_O[i]",
            (
                "In `X_Q @ W_O[i]` … X_Q has shape (7, 13) = (n_q, d_model) … "
                "W_O[i] has shape (5, 13) = (d_v, d_model) … d_model and d_v have to be equal … "
                "X_Q @ W_O[i].T would fit"
            ),
        ),
        ("Q[i] = W_Q[i] @ X_Q", "d_k and n_q have to be equal … X_Q @ W_Q[i] would fit"),
        ("W_Q[i] @ Q[i] @ K[i]", "d_k and n_q"),
        ("X_Q @ Q[i]", "d_model and n_q … X_Q.T @ Q[i] would fit"),
        ("b_Q[i] @ W_Q[i]", "(3,) = (d_k) … a product is one of two matrices"),
        (
            "Q[i] = X_K @ W_Q[i]",
            "`Q[i]` has shape (7, 3) = (n_q, d_k) … `X_K @ W_Q[i]` has shape (11, 3) = (n_k, d_k)",
        ),
        ("V[i] = X_K @ W_V[i]", "`V[i]` … so has `X_K @ W_V[i]` … values differ, by up to"),
        ("W_VO[i] = W_QK[i]", "so has `W_QK[i]` … values differ"),
        ("S[i] = Q[i] @ K[i].T / sqrt(d_k)", "so has … values differ"),
        ("A[i] = softmax(S[i])", "values differ"),
        ("A[i] = softmax(S[i].T / sqrt(d_k)).T", "values differ"),
        ("A[i] = softmax(S[i] / sqrt(d_model))", "values differ"),
        (
            "Y = sum(head[i] for i in heads) @ W_O",
            "(7, 5) = (n_q, d_v) … (10, 13) = (h * d_v, d_model)",
        ),
        ("W_O = concat(W_O[i] for i in heads)", "(10, 13) … (5, 26) = (d_v, h * d_model)"),
        ("Q[i] + V[i]", "In `Q[i] + V[i]` … (7, 3) … (11, 5) … or the second a bias"),
        ("Q[i] = X_Q @ W_Q[i] + b_V[i]", "(5,) = (d_v)"),
        ("X_Q == X_Q @ P_Q == X_K", "so has `X_Q @ P_Q` … values differ"),
        ("stack(X for i in heads) == X", "(34, 13) = (h * n, d_model)"),
        ("head[i] = attention(X_Q, K[i], V[i])", "In `attention(X_Q, K[i], V[i])` … d_k"),
        ("d_model == h * d_k", "`d_model` is 13 … `h * d_k` is 6 … d_k = 3"),
        ("d_k == Q[i]", "`d_k` is a size, but `Q[i]` is an array"),
        ("Q[i] == d_k", "`d_k` is a size, where an array is expected"),
        ("multihead(X_Q, X_K, X_V) == rotate(X_Q)", "neither rotates nor norms"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_does_not_hold_is_refused(line, parts):
    with refuses(parts):
        check(line)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("Q = X_Q @ W_Q[i]", "Q is not a role … write Q[i] … before the map, is X_Q"),
        ("A @ V[i]", "A is not a role … write A[i]"),
        ("X_Q[i] @ W_Q[i]", "X_Q[i] is not a role … same for all heads: write X_Q"),
        ("Z = X_Q", "Z is not a role. The roles are X, X_Q"),
        ("Q[j] = X_Q @ W_Q[j]", "The index of a head is i, a number from 1 to 9, or g(i) … `Q[j]`"),
        ("Q[0]", "The index of a head is i … `Q[0]`"),
        ("Q[1] = X_Q @ W_Q[2]", "Q[1] … their values differ"),
        ("Q[9] = X_Q @ W_Q[9]", "`Q[9]`: the layer has 2 heads here"),
        ("Q[g(i)]", "Q belongs to neither: write Q[i], not `Q[g(i)]`"),
        ("d_k @ X", "`d_k` is a size, where an array is expected"),
        ("X_Q @ W_Q[i] + d_k", "is not part of a formula"),
        ("True", "`True` is not part"),
        ("1.5 * d_k", "`1.5` is not part"),
        ("S[i] / sqrt(X)", "sqrt takes a size … `X` is an array"),
        ("X @ W_Q[i] = Q[i]", "`X @ W_Q[i] = Q[i]` … Maybe you meant '=='"),
        ("X.T = X.T", "On the left of = stands a role, not `X.T`"),
        ("S[i] / d_k", "`S[i] / d_k` is not part"),
        ("X_Q * X_Q", "`X_Q * X_Q` is not part"),
        ("X_Q - X_Q", "`X_Q - X_Q` is not part"),
        ("X_Q < X_K", "`X_Q < X_K` is not part"),
        ("X_Q == X_Q != X_K", "is not part"),
        ("X.copy()", "`X.copy()` is not part"),
        ("X.shape", "`X.shape` is not part"),
        ("softmax(S[i], 0)", "`softmax(S[i], 0)` is not part"),
        ("attention(Q[i], K[i])", "is not part"),
        ("attention(Q[i], K[i], V[i], mask=X)", "is not part"),
        ("sum(head[i] for i in range(2))", "is not part"),
        ("sum(head[i] for i in heads if X)", "is not part"),
        ("__import__('os').abort()", "is not part"),
        ("(lambda: X)()", "is not part"),
        ("X; X", "one statement … `X; X` has 2"),
        ("Q[i] = = X", "`Q[i] = = X` is no Python: invalid syntax"),
        ("", "one statement … has 0"),
        ("import os", "`import os` is not part"),
        ("X_Q = X_K = X", "is not part"),
    ],
)
def test_what_is_no_formula_is_refused(line, parts):
    with refuses(parts):
        check(line)


def test_a_definition_has_the_declared_shape():
    world = World(Setting({"Q[i]": "X_K @ W_Q[i]"}, {}))
    with refuses("Q[i] must have shape (7, 3) = (n_q, d_k) … `X_K @ W_Q[i]` … (11, 3)"):
        world.value(parse("Q[i]").sides[0], head=0)


def test_a_group_of_roles_is_one_that_has_a_colour():
    with refuses("Z: group must be one of source, weight … 'gate'"):
        replace(role("Q[i]"), key="Z", group="gate")


def test_every_role_that_has_a_shape_has_a_value():
    for each in roles():
        if each.shape:
            line = parse(each.key)
            assert World(Setting.of([line])).value(line.sides[0], 0).ndim == len(each.shape)
