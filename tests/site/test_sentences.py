"""A sentence with symbols that follow the reader's choice leaves shapes and sides to the build."""

import re

import pytest

from qkv import notation
from qkv_site.markdown import claims
from qkv_site.page import Site, parse
from qkv_site.parts import formulas
from qkv_site.rules import sides


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("The weight {{W_Q[i]}} is {{d_model}} × {{d_k}}.", ["×", "{{shape(...)}}"]),
        ("It is 512 × 64, as {{W_Q[i]}} has to be.", ["×"]),
        ("Each row of {{X_Q}} is a token.", ["'row'", "tie the symbols"]),
        ("| {{W_O}} | rows of {{W_O}} |", ["'rows'"]),
        ("- {{W_Q[i]}} stands on the\n  right of it.", ["'on the right'"]),
        ("Transposed, {{W_Q[i]}} fits.", ["'Transposed'"]),
        ('```python exec="on" title="A row has {{d_k}} numbers."\nassert 1\n```', ["'row'"]),
    ],
)
def test_what_follows_the_notation_is_not_typed(text, parts):
    ((line, message),) = sides.faults(parse("page.md", f"---\ntitle: A\n---\n\n{text}\n"))
    assert line == 5
    assert re.search(".*".join(map(re.escape, parts)), message, re.DOTALL)


@pytest.mark.parametrize(
    "text",
    [
        "The weight {{site: W_Q[i]}} is 512 × 64, and each row of {{site: X_Q}} is a token.",
        'The {{"rows"}} of {{X_Q}} are tokens.',
        "Its shape is {{shape(W_Q[i])}}. Rows and columns are a convention: 512 × 64.",
        "{{W_Q[i]}} is stored in `rows × columns`. See [it](a-row.md).",
        "```text\n{{X_Q}} × rows\n```",
    ],
)
def test_what_is_tied_or_written_by_the_build_may_stand(text):
    assert not list(sides.faults(parse("page.md", text)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("The next word needs the last row of the output.", "'last row'"),
        ("Test that each row of weights sums to 1.", "'row of weights'"),
        ("The softmax divides each row by its sum.", "'divides each row'"),
        ("On average rows sum to 1.", "'rows sum to'"),
        ("Two maps in a row are one. The rows of Q are queries.", "'rows of Q'"),
        ("{{site: S[i]}} = QKᵀ has a score for each pair.", "'QKᵀ'"),
        ("The scores $X X^\\top$ are symmetric.", "'X X^"),
        ("With learned queries S W^Q is a constant.", "'S W^'"),
        ("It is softmax(x xᵀ) x.", "'softmax(x'"),
        ("Then $K^\\top Q$ has the scores.", "'K^"),
        ("The values are $(Y\\,W_K)\\,W_V$.", "'Y W_'"),
        ("Its product is W_V W_O.", "'W_V W_'"),
        (
            "## Words are rows\n\n## Next\n\nThe rows of the output are words.",
            "'rows of the output'",
        ),
        ('```python exec="on" title="The product is W_Q W_Kᵀ."\nassert 1\n```', "'W_Q W_'"),
        ('```python exec="on" title="A head has a 512 × 64 weight."\nassert 1\n```', "'512 × 64'"),
        ('```python exec="on"\nprint(equation(part, label="Each row is a word."))\n```', "'row'"),
    ],
)
def test_without_a_symbol_a_side_or_a_product_says_whose_it_is(text, shown):
    ((_, message),) = sides.faults(parse("page.md", text))
    assert message.startswith(shown)


@pytest.mark.parametrize(
    "text",
    [
        "# Why not learn A = QKᵀ?\n\nThe last word's output is needed. Its weights sum to 1.",
        "With words as rows, the next word needs the last row of the output.",
        "In equation (1) the scores are QKᵀ. In code they are `Q @ K.T`, and `W_Q W_K` is none.",
        "Let each word be a row.\n\nThe scores are $X X^\\top$.\n\nEach row of weights sums to 1.",
        "See [softmax(x xᵀ) x](page.md). W^Q, W^K and a head's W_Q are names.",
        "Stored as (out, in), the rows of a fused weight are outputs.",
        '```python exec="on" title="The packed weight is 512 × 512."\nassert 1\n```',
        '```python exec="on"\nprint(heat_map(A, label="Each row is a query."))\n```',
        '```python exec="on"\nprint(equation(x, label="Each row is a word.", tied="site"))\n```',
    ],
)
def test_a_side_or_a_product_may_stand_where_rows_or_columns_are_named(text):
    assert not list(sides.faults(parse("page.md", text)))


def test_each_statement_in_the_list_of_claims_names_its_convention():
    """Those of tests and of front matter too, which no page's sentences hold."""
    stated = [
        *claims.traps(),
        *(claim for page in Site().pages.values() for claim in claims.of_page(page)),
    ]
    assert len(stated) > 490
    for claim in stated:
        assert not list(sides.of_statement(claim.statement)), claim.id


MADE_FROM_A_LATENT = {"C_Q": {"W_Q[i]"}, "C_KV": {"W_K[i]", "W_V[i]"}, "Q_R[i]": {"W_K[i]"}}


def test_a_formula_of_latent_attention_never_makes_keys_from_the_source():
    """A text without a letter for the keys writes out a product, which here would be another."""
    seen = 0
    for page, fence in fences_of_formulas():
        for latent, others in MADE_FROM_A_LATENT.items():
            if latent in fence.code:
                seen += 1
                shown = shown_anywhere(fence.code)
                assert not {role for role in others & shown if role not in fence.code}, page
    assert seen


def fences_of_formulas():
    for page in Site().pages.values():
        for block in page.fences():
            if block.language in {"formula", "diagram"}:
                yield page.name, block


def shown_anywhere(code):
    """The roles whose letters some source shows for these lines."""
    lines = formulas.as_block(code)
    return {entry.role.key for source in notation.sources() for entry in lines.legend(source)}


def without_markup(html):
    return re.sub("<[^>]+>", "", html)


def test_a_shape_in_a_sentence_is_that_of_the_legend():
    """In every notation, whether a legend explains the role or not."""
    for source in notation.sources():
        for role in filter(lambda role: role.shape, notation.roles()):
            shape = notation.shape(role.key, source)
            legend = {entry.role: entry.shape for entry in notation.legend(role.key, source)}
            assert legend.get(role, shape) == shape, (role, source)
            said = without_markup(formulas.inline(f"shape({role.key})", source.id))
            assert said.removesuffix(f" ({formulas.BORROWED})") == without_markup(
                formulas.to_mathml(shape)
            )
