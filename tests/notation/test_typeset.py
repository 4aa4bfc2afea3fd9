"""One line, in the letters and the orientation of each source."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from notation.formulas import FORMULAS
from qkv import attention, softmax
from qkv.notation import Letter, legend, role, roles, shape, side, source, typeset
from qkv.notation._block import SIDES
from qkv.notation._check import World, norm, rotate
from qkv.notation.settings import Setting
from qkv.notation.tree import Symbol, parse


@pytest.mark.parametrize(
    ("line", "name", "latex"),
    [
        ("Q[i] = X_Q @ W_Q[i]", "site", r"Q_i = X_Q W_i^Q"),
        ("Q[i] = X_Q @ W_Q[i]", "paper-3-2-2", r"Q W_i^Q"),
        ("Q[i] = X_Q @ W_Q[i]", "ng-multi-head", r"W_i^Q q"),
        ("Q[i] = X_Q @ W_Q[i]", "ng-self-attention", r"q = W^Q x"),
        # The source has no map before the heads, and no letter for what comes out of one.
        ("X_Q = X @ P_Q", "ng-multi-head", r"X_Q = P_Q x"),
        ("Q[i] = X @ P_Q @ W_Q[i]", "ng-multi-head", r"Q_i = W_i^Q P_Q x"),
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
        ("W_QK[i] = W_Q[i] @ W_K[i].T", "transformer-circuits", r"W_{QK}^h = (W_Q^h)^\top W_K^h"),
        (
            "A[i] = softmax(S[i] / sqrt(d_k))",
            "transformer-circuits",
            r"A^h = \operatorname{softmax}\left(\frac{q^\top k}{\sqrt{d_{\text{head}}}}\right)",
        ),
        (  # whose softmax runs along the keys of a row
            "head[i] = softmax(Q[i] @ K[i].T) @ V[i]",
            "transformer-circuits",
            r"r^h = v \operatorname{softmax}(q^\top k)^\top",
        ),
        (
            "Y = sum(head[i] @ W_O[i] for i in heads)",
            "site",
            r"Y = \sum_{i=1}^{h} \mathrm{head}_i W_i^O",
        ),
        ("W_Q[i]", "jurafsky-martin", r"\mathbf{W}^{Qi}"),
        ("X_Q @ W_Q[i]", "d2l", r"\mathbf{W}_i^{(q)} \mathbf{q}"),
        # A vector is added to each column by a row of ones, as both of these books have it.
        ("Q[i] = X_Q @ W_Q[i] + b_Q[i]", "site", "Q_i = X_Q W_i^Q + b_i^Q"),
        (
            "Q[i] = X_Q @ W_Q[i] + b_Q[i]",
            "formal-algorithms",
            r"Q = W_q^h X + b_q^h \mathbf{1}^\top",
        ),
        # Of one head only: what all heads have is written in this site's letters.
        (
            "concat(head[i] for i in heads)",
            "paper-eq1",
            r"\operatorname{Concat}(\mathrm{head}_1, \mathrm{head}_2, \ldots)",
        ),
        ("X_Q = X @ P_Q", "illustrated-transformer", r"X_Q = X P_Q"),
        ("X @ (P_Q @ W_Q[i])", "site", r"X (P_Q W_i^Q)"),
        ("(X_Q + X_Q) @ W_Q[i]", "site", r"(X_Q + X_Q) W_i^Q"),
        ("(X_Q @ W_Q[i]).T", "site", r"(X_Q W_i^Q)^\top"),
        ("h * d_k", "deepseek-v2", r"n_h \, d_h"),
        ("2 * d_model * d_k - d_k**2", "site", r"2 \, d_{\text{model}} \, d_k - d_k^{2}"),
        ("(d_model - d_k)**2", "site", r"(d_{\text{model}} - d_k)^{2}"),
        ("d_model / (2 * h)", "site", r"d_{\text{model}} / (2 \, h)"),
        ("1 / sqrt(h * d_k)", "site", r"1 / \sqrt{h \, d_k}"),
        ("d_k ** (-1 / 4)", "site", "d_k^{-1 / 4}"),
        ("K[g(i)]", "site", "K_{g(i)}"),
        (
            "head[i] = attention(Q[i], K[g(i)], V[g(i)])",
            "paper-3-2-2",
            r"\mathrm{head}_i = \operatorname{Attention}(Q W_i^Q, K W_{g(i)}^K, V W_{g(i)}^V)",
        ),
        (
            "S[i] = rotate(Q[i]) @ rotate(K[i]).T",
            "transformer-circuits",
            r"\operatorname{RoPE}(q)^\top \operatorname{RoPE}(k)",
        ),
        (
            "S[i] = X_Q @ W_Q[i] @ (X_K @ W_K[i]).T",
            "transformer-circuits",
            r"q^\top k = x^\top (W_Q^h)^\top W_K^h x",
        ),
        (  # a sum of scores keeps one query a row, as each of them does
            "sum(Q[i] @ K[i].T for i in heads)",
            "transformer-circuits",
            r"\sum_h (W_Q^h x)^\top W_K^h x",
        ),
        ("X_Q == X_K == X_V == X", "formal-algorithms", "X = Z"),  # and not X = Z = X
    ],
)
def test_what_a_source_writes(line, name, latex):
    assert typeset(line, name) == latex


def test_an_unknown_source_is_refused():
    with pytest.raises(ValueError, match=r"'vaswani' is not a source\. The sources are site, "):
        typeset("X", "vaswani")


def test_a_line_that_is_no_formula_is_refused():
    with pytest.raises(ValueError, match="is not part of a formula"):
        typeset("X * 2")


def test_mark_sees_each_symbol_once_and_keeps_transposes_outside():
    latex = typeset("S[i] = Q[i] @ K[i].T", mark=lambda role, latex, _: f"<{role.group} {latex}>")
    assert latex == r"<score S_i> = <query Q_i> <key K_i>^\top"


def test_legend_explains_what_is_written():
    entries = legend("head[i] = attention(Q[i], K[i], V[i])", "paper-3-2-2")
    assert [(entry.role.key, entry.latex, entry.borrowed) for entry in entries] == [
        ("head[i]", r"\mathrm{head}_i", False),
        ("X_Q", "Q", False),
        ("W_Q[i]", "W_i^Q", False),
        ("X_K", "K", False),
        ("W_K[i]", "W_i^K", False),
        ("X_V", "V", False),
        ("W_V[i]", "W_i^V", False),
    ]


def test_legend_tells_whose_letter_it_is():
    (entry,) = legend("W_QK[i]", "paper-eq1")
    assert (entry.latex, entry.borrowed) == ("W_i^{QK}", True)


def test_mark_is_told_what_is_borrowed():
    def mark(role, latex, borrowed):
        return f"[{latex}]" if borrowed else latex

    assert typeset("W_QK[i]", "paper-eq1", mark=mark) == "[W_i^{QK}]"
    assert typeset("W_QK[i]", "paper-3-2-2", mark=mark) == r"W_i^Q (W_i^K)^\top"
    assert typeset("rotate(Q[i])", "paper-eq1", mark=mark) == r"[\operatorname{RoPE}](Q)"


@pytest.mark.parametrize(
    ("line", "name", "expected"),
    [
        ("X_Q", "site", r"n_q \times d_{\text{model}}"),
        ("X_Q", "ng-multi-head", r"d_{\text{model}} \times n_q"),
        ("K[i]", "ng-self-attention", r"d_k \times n"),  # x has one length
        ("W_O", "deepseek-v2", r"d \times n_h \, d_h"),
        ("A[i]", "transformer-circuits", r"n_{\text{context}} \times n_{\text{context}}"),
        ("W_K[i]", "d2l", r"p_q \times d_k"),
        ("b_O", "site", r"d_{\text{model}}"),
        ("d_k", "site", ""),
    ],
)
def test_shapes_are_in_the_letters_of_the_source(line, name, expected):
    (entry,) = legend(line, name)
    assert entry.shape == expected
    assert entry.shape == (shape(line, name) if expected else "")


@pytest.mark.parametrize(
    ("line", "name", "sizes", "expected"),
    [
        ("P_Q @ W_Q[i]", "site", {}, r"d_{\text{model}} \times d_k"),
        ("P_Q @ W_Q[i]", "deepseek-v2", {}, r"d_h \times d"),
        ("W_Q[i]", "site", {"d_model": 512, "d_k": 64}, r"512 \times 64"),
        ("W_Q[i]", "d2l", {"d_model": 512, "d_k": 64}, r"64 \times 512"),
        ("W_O", "site", {"h": 8, "d_v": 64, "d_model": 512}, r"512 \times 512"),
        ("concat(head[i] for i in heads)", "ng-multi-head", {}, r"h \, d_v \times n_q"),
        ("X @ W_Q[i]", "site", {}, r"n \times d_k"),
        ("X_Q", "raschka", {"n_q": 5, "d_model": 3}, r"5 \times 3"),
        ("b_Q[i]", "ng-multi-head", {}, "d_k"),
    ],
)
def test_the_shape_of_an_expression(line, name, sizes, expected):
    assert shape(line, name, **sizes) == expected


def test_a_shape_needs_all_its_sizes_or_none():
    with pytest.raises(ValueError, match="d_k has no number among d_model"):
        shape("W_Q[i]", d_model=512)
    with pytest.raises(ValueError, match="of an expression, but `X_Q = X` is an equality"):
        shape("X_Q = X")
    with pytest.raises(ValueError, match="is a size, and has no shape"):
        shape("d_k * 2", d_k=3)
    with pytest.raises(ValueError, match="n_k is 4 and n is 5, which are one size here"):
        shape("S[i]", "raschka", n_q=5, n_k=4)


def test_a_word_of_side_turns_with_the_tokens():
    for word, other in SIDES.items():
        assert side(word) == side(other, "ng-multi-head") == word
    assert side("rows", "transformer-circuits", role("A[i]")) == "rows"
    assert side("rows", "transformer-circuits", role("Q[i]")) == "columns"
    with pytest.raises(ValueError, match="'above' is no word of side: expected one of row, "):
        side("above")


def test_lengths_are_equal_in_self_attention():
    shapes = {entry.role.key: entry.shape for entry in legend("S[i] = X @ W_QK[i] @ X.T")}
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
        letters=letters | {"h": Letter("2"), "h_kv": Letter("2")},
        functions={name: f"{name}_" for name in source("site").functions},
    )


def _python(latex):
    """What is typeset in the letters of a readable source, as Python."""
    latex = latex.replace(r"\left", "").replace(r"\right", "").replace(r"^\top", ".T")
    latex = latex.replace("_{g(i)}", "_1").replace(r"\mathbf{1}.T", "ones")
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


class _Ones:
    """A row of ones, as long as the row that it has to be."""

    __array_ufunc__ = None  # so that NumPy leaves the product to it

    def __rmatmul__(self, vector):
        return vector  # a column, which NumPy adds to each


def _names(line, chosen):
    world = World(Setting.of([parse(line)]))
    columns = chosen.tokens == "columns"

    def turned(function):
        def called(*arrays):
            return function(*(array.T for array in arrays)).T if columns else function(*arrays)

        return called

    def softmax_(scores):
        return softmax(scores, axis=scores.shape.index(11))  # n_k

    names = {
        "d_k": 3,
        "ones": _Ones(),
        "sqrt": math.sqrt,
        "vstack": np.vstack,
        "softmax_": softmax_,
        "attention_": turned(attention),
        "rotate_": turned(rotate),
        "norm_": turned(norm),
        "concat_": lambda *arrays: np.hstack(arrays),
    }
    if "Y" not in world.setting.definitions:
        names["multihead_"] = turned(world.layer)
    for each in filter(lambda each: each.shape, roles()):
        for head in (0, 1):
            value = np.atleast_2d(world.value(Symbol(each, "i" if each.per_head else ""), head))
            name = each.key.replace("[i]", f"_{head + 1}")
            names[name] = value.T if chosen.transposes(each) else value
    return names


@pytest.mark.parametrize(
    "named", [DEFINED, []], ids=["all named", "what is defined is spelled out"]
)
@pytest.mark.parametrize(
    ("tokens", "upright"),
    [("rows", ()), ("columns", ()), ("columns", ("S[i]", "A[i]", "W_QK[i]"))],
    ids=["rows", "columns", "columns, some upright"],
)
def test_what_is_typeset_computes(named, tokens, upright):
    everything, chosen = (_readable(tokens, upright, keys) for keys in (DEFINED, named))
    for line in [*FORMULAS, "head[i] = softmax(S[i] / sqrt(d_k)) @ V[i]"]:
        names = _names(line, everything)
        expected = _value(typeset(line, everything).split(" = ")[0], names)
        for written in typeset(line, chosen).split(" = "):
            value = _value(written, names)
            assert value.shape == expected.shape, (line, written)
            np.testing.assert_allclose(value, expected, err_msg=f"{line}: {written}")


def test_a_head_may_have_a_number():
    assert typeset("Q[2] = X_Q @ W_Q[2]", "site") == "Q_2 = X_Q W_2^Q"
    assert typeset("Q[1] = X_Q @ W_Q[1]", "ng-multi-head") == "W_1^Q q"


@pytest.mark.parametrize(
    ("line", "side"), [("W_QK[i]", "W_Q[i] @ W_K[i].T"), ("S[i]", "X_Q @ W_QK[i] @ X_K.T")]
)
def test_an_expression_stands_alone_as_it_does_in_its_equation(line, side):
    """Transformer Circuits has columns, but scores with a row for each query."""
    source = "transformer-circuits"
    equation = typeset(f"{line} = {side}", source)
    assert equation.endswith(f"= {typeset(side, source)}")
    assert equation.startswith(f"{typeset(line, source)} =")
