"""What readers found false where letters were exchanged, planted again: each is a fault."""

import pytest

TABLE = "| {} | {} |\n| --- | --- |\n| $R$ | {} |\n"
FENCE = "```{}\n{}\n```\n"
GROUPED = "head[i] = softmax(Q[i] @ K[g(i)].T / sqrt(d_k)) @ V[g(i)]"
PLANTED = {
    "a column of the paper in the reader's letters": (
        TABLE.format("in the blog post", "in the paper", "**{{X_Q}}**, source of the queries"),
        "{{X_Q}} follows the reader's choice",
    ),
    "a row of the paper in the reader's letters": (
        TABLE.format("who", "width", "64").replace("$R$ | 64", "the paper | {{d_k}}"),
        "{{d_k}} follows the reader's choice",
    ),
    "a column of the paper with a weight without an index": (
        TABLE.format("the book", "the paper", "$W^Q = \\Omega_q^\\top$"),
        "the paper has no W^Q",
    ),
    "a column of the paper with X": (
        TABLE.format("the book", "the paper", "$X$, $N \\times D$"),
        "the paper has no X",
    ),
    "a column of the paper with a bias": (
        TABLE.format("the book", "section 3.2.2", "a row $\\beta_q^\\top$"),
        "the paper has no \\beta",
    ),
    "a heading that gives the paper a letter": (
        "## Is this W_V the paper's W^V?\n",
        "the paper has no W^V",
    ),
    "grouped heads that lose their group": (
        FENCE.format("formula", GROUPED),
        "has no letter that tells K[g(i)] from others: tie the formulas",
    ),
    "an index that some texts do not write": (
        "The head has a matrix {{W_Q[i]}}, where i is the number of the head.\n",
        "{{W_Q[i]}} follows the reader's choice",
    ),
    "a caption in which a letter has two values": (
        FENCE.format('diagram sizes="d_k=3 d_v=4"', "A[i] @ V[i]\nQ[i]"),
        "D_h of ViT paper would be d_v=4 and d_k=3 in one caption",
    ),
    "a function in a section's words": (
        "Section 3.2.1 defines {{softmax(S[i])}} so.\n",
        "{{softmax(S[i])}} follows the reader's choice",
    ),
    "a section's choice in the reader's letters": (
        "Section 3.2.2 chooses {{d_k}} = 64.\n",
        "{{d_k}} follows the reader's choice",
    ),
    "the paper's choice in the reader's letters": (
        "In the paper {{d_k}} is {{d_model / h}}.\n",
        "{{d_k}} follows the reader's choice",
    ),
    "a product in words": (
        "We multiply the query weight by a matrix M, and the key weight by its inverse.\n",
        "'multiply the query weight by a matrix M' is one product in rows",
    ),
    "a product in words with code": (
        "Its key weight is multiplied by the transposed inverse of `M`.\n",
        "'multiplied by the transposed inverse' is one product in rows",
    ),
    "a library's name for what has one letter with another": (
        "The weight takes all to {{d_model}}, for any {{d_v}}. Keras calls this `value_dim`.\n",
        "{{d_model}} follows the reader's choice",
    ),
    "a library's name beside a size": (
        "Of the libraries, Keras alone has an argument for {{d_v}}, `value_dim`.\n",
        "{{d_v}} follows the reader's choice",
    ),
}
TIED = (
    TABLE.format(
        "in the blog post", "in the paper", "**{{paper-3-2-2: X_Q}}**, no letter in 3.2.1"
    ),
    TABLE.format("the book", "with words as rows", "$W^Q = \\Omega_q^\\top$"),
    TABLE.format("the book", "the paper", "{{= X.shape[0] }} and $W_i^Q$, {{site: X_Q}}"),
    "In the paper {{paper-3-2-2: d_k}} is 64. In the paper's layer {{d_k}} is, too.\n",
    "We call the first matrix {{P_Q}}. Keras' `key_dim` is {{site: d_k}}.\n",
    "With words as rows, we multiply the queries by a matrix M.\n",
    FENCE.format('formula in="site"', GROUPED),
)


@pytest.mark.parametrize("planted", PLANTED)
def test_what_was_false_in_other_letters_is_a_fault(faults, planted):
    text, message = PLANTED[planted]
    found = faults({"page.md": f"# A page\n\n{text}"})
    assert len(found) == 1
    assert message in found[0]
    assert found[0].startswith("page.md:")


@pytest.mark.parametrize("text", TIED)
def test_what_is_tied_or_says_its_convention_is_none(faults, text):
    assert faults({"page.md": f"# A page\n\n{text}"}) == []
