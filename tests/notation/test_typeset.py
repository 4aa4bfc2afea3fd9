"""One line, in the letters and the orientation of each source."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from notation.formulas import FORMULAS
from qkv import attention, softmax
from qkv.notation import Letter, legend, roles, source, typeset
from qkv.notation._check import _World
from qkv.notation._grammar import Reading, parse


@pytest.mark.parametrize(
    ("line", "name", "latex"),
    [
        ("Q[i] = X_Q @ W_Q[i]", "site", r"Q_i = X_Q W_i^Q"),
        ("Q[i] = X_Q @ W_Q[i]", "paper-3-2-2", r"Q W_i^Q"),
        ("Q[i] = X_Q @ W_Q[i]", "ng-multi-head", r"W_i^Q q"),
        ("Q[i] = X_Q @ W_Q[i]", "ng-self-attention", r"q = W^Q x"),
        ("X_Q = X @ P_Q", "ng-multi-head", r"q = W^Q x"),
        ("Q[i] = X @ P_Q @ W_Q[i]", "ng-multi-head", r"W_i^Q q = W_i^Q W^Q x"),
        (
            "head[i] = softmax(Q[i] @ K[i].T / sqrt(d_k)) @ V[i]",
            "paper-eq1",
            r"\operatorname{Attention}(Q, K, V) = "
            r"\operatorname{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V",
        ),
        (
            "head[i] = softmax(Q[i] @ K[i].T / sqrt(d_k)) @ V[i]",
            "formal-algorithms",
            r"Y^h = V \operatorname{softmax}\left(\frac{K^\top Q}{\sqrt{d_{\text{attn}}}}\right)",
        ),
        (
            "head[i] = softmax(Q[i] @ K[i].T / sqrt(d_k)) @ V[i]",
            "ng-multi-head",
            r"\mathrm{head}_i = W_i^V v "
            r"\operatorname{softmax}\left(\frac{(W_i^K k)^\top W_i^Q q}{\sqrt{d_k}}\right)",
        ),
        (
            "Y = concat(head[i] for i in heads) @ W_O",
            "paper-3-2-2",
            r"\operatorname{MultiHead}(Q, K, V) = "
            r"\operatorname{Concat}(\mathrm{head}_1, \ldots, \mathrm{head}_h) W^O",
        ),
        (
            "concat(Q[i] for i in heads) == X_Q @ W_Q",
            "deepseek-v2",
            r"\begin{bmatrix}\mathbf{q}_1 \\ \vdots \\ \mathbf{q}_{n_h}\end{bmatrix} = "
            r"W^Q \mathbf{h}",
        ),
        ("W_QK[i] = W_Q[i] @ W_K[i].T", "site", r"W_i^{QK} = W_i^Q (W_i^K)^\top"),
        (
            "W_QK[i] = W_Q[i] @ W_K[i].T",
            "transformer-circuits",
            r"W_{QK}^h = (W_Q^h)^\top W_K^h",
        ),
        (
            "A[i] = softmax(S[i] / sqrt(d_k))",
            "transformer-circuits",
            r"A^h = \operatorname{softmax}\left(\frac{q^\top k}{\sqrt{d_{\text{head}}}}\right)",
        ),
        (
            "Y = sum(head[i] @ W_O[i] for i in heads)",
            "site",
            r"Y = \sum_{i=1}^{h} \mathrm{head}_i W_i^O",
        ),
        ("W_Q[i]", "jurafsky-martin", r"\mathbf{W}^{Qi}"),
        ("X_Q @ W_Q[i]", "d2l", r"\mathbf{W}_i^{(q)} \mathbf{q}"),
        # Of one head only: what all heads have is written in this site's letters.
        (
            "concat(head[i] for i in heads)",
            "paper-eq1",
            r"\operatorname{Concat}(\mathrm{head}_1, \mathrm{head}_2, \ldots)",
        ),
        # The source writes X and X_Q alike, and the line says that they differ.
        ("X_Q = X @ P_Q", "illustrated-transformer", r"X_Q = X P_Q"),
        ("X @ (P_Q @ W_Q[i])", "site", r"X (P_Q W_i^Q)"),
        ("(X_Q + X_Q) @ W_Q[i]", "site", r"(X_Q + X_Q) W_i^Q"),
        ("(X_Q @ W_Q[i]).T", "site", r"(X_Q W_i^Q)^\top"),
    ],
)
def test_what_a_source_writes(line, name, latex):
    assert typeset(line, name) == latex


def test_an_unknown_source_is_refused():
    with pytest.raises(ValueError, match=r"'vaswani' is not a source\. The sources are site, "):
        typeset("X", "vaswani")


def test_a_line_that_is_no_formula_is_refused():
    with pytest.raises(ValueError, match="is not part of a formula"):
        typeset("X ** 2")


def test_mark_sees_each_symbol_once_and_keeps_transposes_outside():
    latex = typeset("S[i] = Q[i] @ K[i].T", mark=lambda role, latex: f"<{role.group} {latex}>")
    assert latex == r"<score S_i> = <query Q_i> <key K_i>^\top"


def test_legend_explains_what_is_written():
    symbols = legend("head[i] = attention(Q[i], K[i], V[i])", "paper-3-2-2")
    assert [(symbol.role.key, symbol.latex, symbol.named) for symbol in symbols] == [
        ("head[i]", r"\mathrm{head}_i", True),
        ("X_Q", "Q", True),
        ("W_Q[i]", "W_i^Q", True),
        ("X_K", "K", True),
        ("W_K[i]", "W_i^K", True),
        ("X_V", "V", True),
        ("W_V[i]", "W_i^V", True),
    ]


def test_legend_tells_whose_letter_it_is():
    (symbol,) = legend("W_QK[i]", "paper-eq1")
    assert (symbol.latex, symbol.named) == ("W_i^{QK}", False)


@pytest.mark.parametrize(
    ("line", "name", "shape"),
    [
        ("X_Q", "site", r"n_q \times d_{\text{model}}"),
        ("X_Q", "ng-multi-head", r"d_{\text{model}} \times n_q"),
        ("W_O", "deepseek-v2", r"d \times n_h d_h"),
        ("A[i]", "transformer-circuits", r"n_{\text{context}} \times n_{\text{context}}"),
        ("W_K[i]", "d2l", r"p_k \times d_k"),
        ("b_O", "site", r"d_{\text{model}}"),
        ("d_k", "site", ""),
    ],
)
def test_shapes_are_in_the_letters_of_the_source(line, name, shape):
    (symbol,) = legend(line, name)
    assert symbol.shape == shape


def test_lengths_are_equal_in_self_attention():
    shapes = {symbol.role.key: symbol.shape for symbol in legend("S[i] = X @ W_QK[i] @ X.T")}
    assert shapes["S[i]"] == r"n \times n"


DEFINED = [role.key for role in roles() if role.definition]


def _readable(tokens, upright, defined):
    """A source whose letters are names of Python, so that what it writes can be computed.

    Of the roles that have a definition, it names those in `defined`.
    """
    letters = {
        role.key: Letter(role.key.replace("[i]", "_{i}"))
        for role in roles()
        if role.definition is None or role.key in defined
    }
    return replace(
        source("site"),
        tokens=tokens,
        upright=upright,
        letters=letters | {"h": Letter("2")},
        functions={name: f"{name}_" for name in ("softmax", "attention", "multihead", "concat")},
    )


def _python(latex):
    """What is typeset in the letters of a readable source, as Python."""
    latex = latex.replace(r"\left", "").replace(r"\right", "").replace(r"^\top", ".T")
    latex = re.sub(r"\\frac{(.*?)}{\\sqrt{(\w+)}}", r"((\1) / sqrt(\2))", latex)
    latex = re.sub(
        r"\\begin{bmatrix}(.*?) \\\\ \\vdots \\\\ (.*?)\\end{bmatrix}", r"vstack((\1, \2))", latex
    )
    latex = re.sub(r"\\ldots, ", "", latex)
    latex = re.sub(r"(?<=[\w)]) (?=[\w(])", " @ ", latex)
    added = re.fullmatch(r"\\sum_\{i=1\}\^\{2\} (.*)", latex)
    if added:
        return " + ".join(added[1].replace("_i", f"_{head}") for head in "12")
    return latex.replace("_i", "_1")


def _value(latex, names):
    return eval(_python(latex), {"__builtins__": {}}, names)


def _names(line, chosen):
    world = _World(Reading.of(parse(line)))
    columns = chosen.tokens == "columns"
    names = {"d_k": 3, "sqrt": math.sqrt, "vstack": np.vstack}
    for role in filter(lambda role: role.shape, roles()):
        for head in (0, 1):
            value = world.value(role, head)
            value = np.atleast_2d(value)
            name = role.key.replace("[i]", f"_{head + 1}")
            names[name] = value.T if chosen.transposes(role) else value

    def turned(function):
        def called(*arrays):
            return function(*(array.T for array in arrays)).T if columns else function(*arrays)

        return called

    def softmax_(scores):
        return softmax(scores, axis=scores.shape.index(11))  # n_k

    return names | {
        "softmax_": softmax_,
        "attention_": turned(attention),
        "multihead_": turned(world.layer()),
        "concat_": lambda *arrays: np.hstack(arrays),
    }


@pytest.mark.parametrize("line", [*FORMULAS, "head[i] = softmax(S[i] / sqrt(d_k)) @ V[i]"])
@pytest.mark.parametrize(
    "named", [DEFINED, []], ids=["all named", "what is defined is spelled out"]
)
@pytest.mark.parametrize(
    ("tokens", "upright"),
    [("rows", ()), ("columns", ()), ("columns", ("S[i]", "A[i]", "W_QK[i]"))],
    ids=["rows", "columns", "columns, some upright"],
)
def test_what_is_typeset_computes(line, named, tokens, upright):
    everything, chosen = (_readable(tokens, upright, keys) for keys in (DEFINED, named))
    names = _names(line, everything)
    expected = _value(typeset(line, everything).split(" = ")[0], names)
    for side in typeset(line, chosen).split(" = "):
        value = _value(side, names)
        assert value.shape == expected.shape
        np.testing.assert_allclose(value, expected)
