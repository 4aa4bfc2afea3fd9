"""What is wrong with a page as a whole, and how it is said: the rules of qkv_site.rules."""

import re
from operator import itemgetter

import pytest

from qkv import notation
from qkv_site.markdown import claims
from qkv_site.page import Site, parse
from qkv_site.parts import formulas
from qkv_site.rules import promises, short_sentences, sides

QUESTION = '??? question "Why?"\n\n    So.\n\n'
RUNS = '    ```python exec="on"\n    assert 6 * 7 == 42\n    print("checked")\n    ```\n\n'
TRY_IT = f"## Try it {{ #try-it }}\n\n{QUESTION}{RUNS}{QUESTION}"
PAGE = "# Why?\n\n" + "It is so. " * 11 + f"\n\n{TRY_IT}"
INDEX = "# All\n\n- [Why?](page.md) So.\n" + "It is so. " * 11 + f"\n\n{TRY_IT}"
CLAIM = '```python exec="on" claim="{}" title="Six times seven is 42."{}\nassert 6 * 7 == 42\n```\n'


def of_explanation(text, **others):
    return {"explanation/index.md": INDEX, "explanation/page.md": text, **others}


def answered(said):
    """A page of explanation with a short answer."""
    return PAGE.replace("It is so.", f"**Short answer.** {said}\n\n", 1)


EXPLANATIONS = [
    (PAGE.replace("Try it", "Tried"), r':5: no exercises: expected "## Try it'),
    (f"{PAGE}## More\n\nSo.\n", ":20: no exercises: "),
    (PAGE.partition("??? question")[0], ":5: 0 exercises: expected "),
    (PAGE + QUESTION * 2, ":5: 4 exercises: "),
    (PAGE + "So it is.\n", ":20: no exercise stands here: "),
    (PAGE.replace(RUNS, ""), ":5: no answer is seen to run: "),
    (
        PAGE.replace("\n\n##", f"\nIt is{' so' * 34}.\n\n##"),
        ":4: a sentence of 36 words, a formula counted as one: expected at most 35",
    ),
    (
        PAGE.replace("It is so", f"It is{' so' * 20}"),
        r": a sentence has 1\d\.\d words on average: expected at most 17",
    ),
    (answered("No. So it is. It is so. It is."), ":3: 4 sentences and 9 words, a formula counted"),
    (answered(f"It is{' so' * 58} {{{{W_Q}}}}."), ":3: 1 sentences and 61 words"),
    (PAGE.replace("It is so. " * 3, "", 1), ": 10 sentences explain nothing"),
    (answered("A pair is smaller. It is so if others are larger."), ":3: 'smaller' is typed, and"),
    (PAGE.replace("So.", "It is wider."), r":\d+: 'wider' is typed, and nobody compares"),
]


@pytest.mark.parametrize(("text", "message"), EXPLANATIONS, ids=map(itemgetter(1), EXPLANATIONS))
def test_an_explanation_is_read_and_tried(faults, text, message):
    found = faults(of_explanation(text))
    assert any(re.match(rf"explanation/page\.md{message}", each) for each in found), found


@pytest.mark.parametrize("text", [PAGE, answered('A pair is {{= said("smaller", 3, 5) }}.')])
def test_an_explanation_without_a_fault_has_none(faults, text):
    assert faults(of_explanation(text)) == []


def test_a_word_is_counted_once():
    text = "---\ntitle: A b\n---\n# Four words\n\nOne is {{2 * d_model}} [or two](a/b.md). Three."
    counted = short_sentences.lengths(parse("page.md", text))
    assert [*counted] == [(6, 5), (6, 1)]


PATH = "```path\n```\n"
HOME = {
    "index.md": f"# Home\n\n{PATH}",
    "test.md": f"# Test\n\n{PATH}",
    "more/index.md": "# More\n",
}
HOME |= {"start/one.md": "# One\n\n" + PATH + "It is so. " * 11 + "\n"}
HOW_TO = {"how-to/index.md": "# All\n\n[One](one.md#id).\n", "how-to/one.md": "# One { #id }\n"}
MENU = "nav:\n- Start:\n  - index.md\n  - start/one.md\n  - test.md\n- Other:\n  - more/index.md\n"


@pytest.mark.parametrize(
    ("menu", "pages", "parts"),
    [
        ("", HOW_TO, []),
        (MENU, HOME, []),
        ("hooks: !ENV [A, b]\nnav:\n- One:\n  - A: one.md\n", {"one.md": "# One\n"}, []),
        (
            "",
            HOW_TO | {"how-to/two.md": "# Two?\n"},
            ["how-to/two.md: how-to/index.md does not lead to it", "- [Two?](two.md) Its short"],
        ),
        ("", {"how-to/one.md": "# One\n"}, ["its folder has no index"]),
        (
            MENU,
            HOME | {"index.md": "# Home\n"},
            ["start/one.md: index.md does not lead to it", "- [One](start/one.md) Its short"],
        ),
        (
            MENU,
            HOME | {"more/index.md": f"# More\n\n{PATH}"},
            ["more/index.md:3: the page is not on the path, the first section of"],
        ),
        (
            "nav:\n- One:\n  - A: one.md\n",
            {"one.md": "# One\n", "two.md": "# Two\n"},
            ["two.md: it has no place in the menu, and so in llms.txt"],
        ),
    ],
)
def test_a_page_has_a_place_in_an_index_and_in_the_menu(faults, tmp_path, menu, pages, parts):
    (tmp_path / "mkdocs.yml").write_text(menu or "nav:\n")
    found = faults(pages)
    assert len(found) == bool(parts)
    assert all(part in found[0] for part in parts)


@pytest.mark.parametrize(
    "number", ["786,432", "64 × 512", "(2304, 768)", "· 64 = 512", "2.5 times", "75 %", "100%"]
)
def test_a_typed_number_is_found(faults, number):
    text = f"# Two\n\nIt has {{{{= 8 }}}} weights,\nand {number} as `1,024`.\n"
    [found] = (each for each in faults({"page.md": text}) if each.endswith("[number]"))
    assert found.startswith(f"page.md:4: {number!r} is typed")


def test_a_number_begins_no_list(faults):
    [found] = faults({"page.md": "# Two\n\n- In place of\n  {{= 6 * 7 }}. So it is.\n"})
    assert found.startswith("page.md:4: a line begins with '{{= 6 * 7 }}.'")


def test_a_number_is_of_one_block(faults):
    block = '```python exec="on"\nx = 7\n```\n'
    [found] = faults({"page.md": f"# Two\n\n{block}\n{{{{= 2 * x }}}} wide\n\n{block}"})
    assert found.startswith(
        "page.md:7: {{= 2 * x }} is computed after the last block, and 2 blocks"
    )


ANSWER = "# A\n\n**Short answer.** It is {} so{}.\n\n" + CLAIM.format("six", "")
STATED = "# A\n\n" + CLAIM.format("six", "{}").replace("Six", "{}")
LED_TO = "# A\n\n## B { #b }\n\n" + CLAIM.format("six", "") + "\n## C { #c }\n"


def listed(answer):
    return {"page.md": LED_TO, "questions.md": f"# Q\n\n- [Is all so?](page.md{answer}\n"}


@pytest.mark.parametrize(
    ("pages", "fault"),
    [
        ({"page.md": ANSWER.format("never", "")}, "page.md:3: the answer promises ('never')"),
        ({"page.md": ANSWER.format("never", ", see [here](#claim-six)")}, ""),
        ({"page.md": ANSWER.format("never", ", see [here](#claim-seven)")}, "page.md:3: the answ"),
        (
            {"page.md": ANSWER.format("never", ", see [here](https://example.org/#claim-six)")},
            "page.md:3: the answer promises ('never') and leads to no claim",
        ),
        ({"page.md": ANSWER.format("often", "")}, ""),
        (listed("#b) It always\n  is."), ""),
        (listed("#c) It always\n  is."), "questions.md:3: the answer promises ('always')"),
        ({"page.md": STATED.format("Any six", "")}, "page.md:3: the statement promises ('Any')"),
        ({"page.md": STATED.format("All of 6", ' covers="one product"')}, ""),
    ],
)
def test_what_promises_leads_to_a_claim_and_says_over_what_its_check_runs(faults, pages, fault):
    found = [each for each in faults(pages) if "[link]" not in each]
    assert len(found) == bool(fault)
    assert all(each.startswith(fault) for each in found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Every layer has one.", ["Every"]),
        ("It holds only for all\nlayers.", ["only", "all"]),
        ("It can never be, whatever you do, and cannot.", ["never", "whatever", "cannot"]),
        ("*Attention Is All You Need* names all 8 heads together.", []),
        ("A head reads all 512 numbers.", []),
        ("Small and manyfold.", []),
    ],
)
def test_words_that_promise_are_found(text, words):
    assert promises.promises(text) == words


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("- Why?", r"questions\.md:4: '- Why\?': expected - \[Question\?\]\(page\.md#id\) "),
        ("- [Is it so?](page.md) No.", r"questions\.md:4: 'Is it so\?' stands in line 3, too"),
        ("- [Why?](page.md) [So](page.md).", r"questions\.md:4: a second link: expected one "),
        ("- [Why?](page.md)" + " so" * 13, r"questions\.md:4: an answer of 13 words: expected "),
    ],
)
def test_each_line_of_the_index_is_a_question_and_stands_there_once(faults, line, message):
    text = f"# Q\n\n- [Is it so?](page.md) Yes.\n{line}\n"
    [found] = faults({"page.md": "# A\n", "questions.md": text})
    assert re.match(message, found), found


def block(title, code="assert 1"):
    return f'```python exec="on" title="{title}"\n{code}\n```'


def found_in(text):
    return [*sides.faults(parse("page.md", f"---\ntitle: A\n---\n\n{text}"))]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        # Beside a symbol, shapes and sides are the build's.
        ("The weight {{W_Q[i]}} is {{d_model}} × {{d_k}}.", "a typed shape or product, ×"),
        ("Each row of {{X_Q}} is a token.", "'row'"),
        ("| {{W_O}} | rows of {{W_O}} |", "'rows'"),
        ("- {{W_Q[i]}} stands on the\n  right of it.", "'on the right'"),
        (block("A row has {{d_k}} numbers."), "'row'"),
        # Without one, a side or a product says whose it is.
        ("The next word needs the last row of the output.", "'last row'"),
        ("Test that each row of weights sums to 1.", "'row of weights'"),
        ("The softmax divides each row by its sum.", "'divides each row'"),
        ("On average rows sum to 1.", "'rows sum to'"),
        ("Two maps in a row are one. The rows of Q are queries.", "'rows of Q'"),
        ("{{site: S[i]}} = QKᵀ has a score for each pair.", "'QKᵀ'"),
        ("The scores $X X^\\top$ are symmetric.", "'X X^"),
        ("It is softmax(x xᵀ) x.", "'softmax(x'"),
        ("The values are $(Y\\,W_K)\\,W_V$.", "'Y W_'"),
        ("Its product is W_V W_O.", "'W_V W_'"),
        ("We multiply the weight by a matrix M, and so on.", "'multiply the weight by a matrix M'"),
        ("It is multiplied by the transposed inverse of `M`.", "'multiplied by the transposed inv"),
        (
            "## Words are rows\n\n## Next\n\nThe rows of the output are words.",
            "'rows of the output",
        ),
        (block("The product is W_Q W_Kᵀ."), "'W_Q W_'"),
        (block("A head has a 512 × 64 weight."), "'512 × 64'"),
        (block("", 'print(equation(part, label="Each row is a word."))'), "'row'"),
    ],
)
def test_a_side_a_shape_or_a_product_is_not_typed_alone(text, shown):
    [(line, message)] = found_in(text)
    assert message.startswith(shown)
    assert line == 5 or "\n" in text


@pytest.mark.parametrize(
    "text",
    [
        # Tied to a notation, or written by the build.
        "The weight {{site: W_Q[i]}} is 512 × 64, and each row of {{site: X_Q}} is a token.",
        'The {{"rows"}} of {{X_Q}} are tokens.',
        "Its shape is {{shape(W_Q[i])}}. Rows and columns are a convention: 512 × 64.",
        "{{W_Q[i]}} is stored in `rows × columns`. See [it](a-row.md).",
        "```text\n{{X_Q}} × rows\n```",
        # Where rows or columns are named.
        "# Why not learn A = QKᵀ?\n\nThe last word's output is needed. Its weights sum to 1.",
        "With words as rows, the next word needs the last row of the output.",
        "With words as rows, we multiply the queries by a matrix M.",
        "In equation (1) the scores are QKᵀ. In code they are `Q @ K.T`, and `W_Q W_K` is none.",
        "See [softmax(x xᵀ) x](page.md). W^Q, W^K and a head's W_Q are names.",
        "Stored as (out, in), the rows of a fused weight are outputs.",
        block("The packed weight is 512 × 512."),
        block("", 'print(heat_map(A, label="Each row is a query."))'),
        block("", 'print(equation(x, label="Each row is a word.", tied="site"))'),
    ],
)
def test_a_side_may_stand_where_it_is_tied_or_rows_or_columns_are_named(text):
    assert found_in(text) == []


def test_each_statement_in_the_list_of_claims_names_its_convention():
    """Those of tests and of front matter too, which no page's sentences hold."""
    stated = [
        *claims.traps(),
        *(claim for page in Site().pages.values() for claim in claims.of_page(page)),
    ]
    assert len(stated) > 400
    for claim in stated:
        assert not list(sides.of_statement(claim.statement)), claim.id


def row(first, second, cell):
    return f"| {first} | {second} |\n| --- | --- |\n| $R$ | {cell} |\n"


def lines(first, *code):
    return "\n".join([f"```{first}", *code, "```\n"])


GROUPED = "head[i] = softmax(Q[i] @ K[g(i)].T / sqrt(d_k)) @ V[g(i)]"
CHOICE = "{} follows the reader's choice"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (row("in the blog post", "in the paper", "**{{X_Q}}**"), CHOICE.format("{{X_Q}}")),
        (row("who", "width", "").replace("$R$ |", "the paper | {{d_k}}"), CHOICE.format("{{d_k}}")),
        (row("the book", "the paper", "$W^Q = \\Omega_q^\\top$"), "the paper has no W^Q"),
        (row("the book", "section 3.2.2", "a row $\\beta_q^\\top$"), "the paper has no \\beta"),
        ("## Is this W_V the paper's W^V?\n", "the paper has no W^V"),
        (lines("formula", GROUPED), "has no letter that tells K[g(i)] from others: tie the form"),
        ("The head has {{W_Q[i]}}, where i is the head's number.\n", CHOICE.format("{{W_Q[i]}}")),
        (
            lines('diagram sizes="d_k=3 d_v=4"', "A[i] @ V[i]", "Q[i]"),
            "D_h of ViT paper would be d_v=4 and d_k=3 in one caption",
        ),
        ("Section 3.2.1 defines {{softmax(S[i])}} so.\n", CHOICE.format("{{softmax(S[i])}}")),
        ("In the paper {{d_k}} is {{d_model / h}}.\n", CHOICE.format("{{d_k}}")),
        ("All go to {{d_model}}. Keras calls this `value_dim`.\n", CHOICE.format("{{d_model}}")),
        ("Keras alone has an argument for {{d_v}}, `value_dim`.\n", CHOICE.format("{{d_v}}")),
    ],
)
def test_what_is_said_of_a_source_is_not_in_other_letters(faults, text, message):
    [found] = faults({"page.md": f"# A page\n\n{text}"})
    assert found.startswith("page.md:")
    assert message in found


@pytest.mark.parametrize(
    "text",
    [
        row("in the blog post", "in the paper", "**{{paper-3-2-2: X_Q}}**, no letter in 3.2.1"),
        row("the book", "with words as rows", "$W^Q = \\Omega_q^\\top$"),
        row("the book", "the paper", "{{= X.shape[0] }} and $W_i^Q$, {{site: X_Q}}"),
        "In the paper {{paper-3-2-2: d_k}} is 64. In the paper's layer {{d_k}} is, too.\n",
        "We call the first matrix {{P_Q}}. Keras' `key_dim` is {{site: d_k}}.\n",
        lines('formula in="site"', GROUPED),
    ],
)
def test_what_is_tied_or_says_its_convention_is_none(faults, text):
    assert faults({"page.md": f"# A page\n\n{text}"}) == []


MADE_FROM_A_LATENT = {"C_Q": {"W_Q[i]"}, "C_KV": {"W_K[i]", "W_V[i]"}, "Q_R[i]": {"W_K[i]"}}


def test_a_formula_of_latent_attention_never_makes_keys_from_the_source():
    """A text without a letter for the keys writes out a product, which here would be another."""
    seen = 0
    for page in Site().pages.values():
        for fence in page.fences():
            for latent, others in MADE_FROM_A_LATENT.items():
                if fence.language in {"formula", "diagram"} and latent in fence.code:
                    seen += 1
                    lines_ = formulas.as_block(fence.code)
                    legends = [lines_.legend(source) for source in notation.sources()]
                    shown = {entry.role.key for legend in legends for entry in legend}
                    assert {role for role in others & shown if role not in fence.code} == set()
    assert seen


def test_a_shape_in_a_sentence_is_that_of_the_legend():
    """In every notation, whether a legend explains the role or not."""

    def plain(html):
        return re.sub("<[^>]+>", "", html)

    for source in notation.sources():
        for role in filter(lambda role: role.shape, notation.roles()):
            shape = notation.shape(role.key, source)
            legend = {entry.role: entry.shape for entry in notation.legend(role.key, source)}
            assert legend.get(role, shape) == shape, (role, source)
            said = plain(formulas.inline(f"shape({role.key})", source.id))
            written = plain(formulas.to_mathml(shape))
            assert said.removesuffix(f" ({formulas.BORROWED})") == written
