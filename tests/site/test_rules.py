"""What is wrong with a page as a whole, and how it is said: the rules of qkv_site.rules."""

import re

import pytest

from qkv_site.page import parse
from qkv_site.rules import promises, short_sentences, typed_numbers

QUESTION = '??? question "Why?"\n\n    So.\n\n'
RUNS = '    ```python exec="on"\n    assert 6 * 7 == 42\n    print("checked")\n    ```\n\n'
TRY_IT = f"## Try it {{ #try-it }}\n\n{QUESTION}{RUNS}{QUESTION}"
PAGE = "# Why?\n\n" + "It is so. " * 11 + f"\n\n{TRY_IT}"
INDEX = "# All\n\n- [Why?](page.md) So.\n" + "It is so. " * 11 + f"\n\n{TRY_IT}"
CLAIM = '```python exec="on" claim="{}" title="Six times seven is 42."{}\nassert 6 * 7 == 42\n```\n'


def of_explanation(text, **others):
    return {"explanation/index.md": INDEX, "explanation/page.md": text, **others}


EXPLANATIONS = {
    "no exercises": (PAGE.replace("Try it", "Tried"), r":5: no exercises: expected \"## Try it"),
    "a heading below the exercises": (f"{PAGE}## More\n\nSo.\n", r":20: no exercises: "),
    "a heading alone": (PAGE.partition("??? question")[0], r":5: 0 exercises: expected "),
    "four exercises": (PAGE + QUESTION * 2, r":5: 4 exercises: "),
    "a sentence between the exercises": (PAGE + "So it is.\n", r":20: no exercise stands here: "),
    "no answer that runs": (PAGE.replace(RUNS, ""), r":5: no answer is seen to run: "),
    "a sentence of 36 words": (
        PAGE.replace("\n\n##", f"\nIt is{' so' * 34}.\n\n##"),
        r":4: a sentence of 36 words, a formula counted as one: expected at most 35",
    ),
    "long sentences": (
        PAGE.replace("It is so", f"It is{' so' * 20}"),
        r": a sentence has 1\d\.\d words on average: expected at most 17",
    ),
    "a short answer of four sentences": (
        PAGE.replace("It is so.", "**Short answer.** No. So it is. It is so. It is.\n\n", 1),
        r":3: 4 sentences and 9 words, a formula counted as one: expected at most 3 and 60",
    ),
    "a short answer of 61 words": (
        PAGE.replace("It is so.", f"**Short answer.** It is{' so' * 58} {{{{W_Q}}}}.\n\n", 1),
        r":3: 1 sentences and 61 words",
    ),
    "ten sentences": (PAGE.replace("It is so. " * 3, "", 1), r": 10 sentences explain nothing"),
}


@pytest.mark.parametrize("fault", EXPLANATIONS)
def test_an_explanation_is_read_and_tried(faults, fault):
    text, message = EXPLANATIONS[fault]
    found = faults(of_explanation(text))
    assert any(re.match(f"explanation/page\\.md{message}", each) for each in found), found


def test_a_comparison_in_an_answer_is_one_that_the_build_makes(faults):
    answer = "**Short answer.** A pair is {}. It is so if others are larger.\n\n"
    page = PAGE.replace("It is so.", answer.format("smaller"), 1).replace("So.", "It is wider.")
    found = faults(of_explanation(page))
    assert [re.match(r"explanation/page\.md:\d+: '(\w+)' is typed", each)[1] for each in found] == [
        *("smaller", "wider", "wider")
    ]
    assert 'expected what the build does, as in {{= said("smaller", ' in found[0]
    said = answer.format('{{= said("smaller", 3, 5) }}')
    assert faults(of_explanation(PAGE.replace("It is so.", said, 1))) == []


def test_an_explanation_without_a_fault_has_none(faults):
    assert faults(of_explanation(PAGE)) == []


def test_a_page_has_a_place_in_the_index_of_its_folder(faults):
    pages = {"how-to/index.md": "# All\n\n[One](one.md#id).\n", "how-to/one.md": "# One { #id }\n"}
    assert faults(pages) == []
    [found] = faults(pages | {"how-to/two.md": "# Two?\n"})
    assert found.startswith(
        "how-to/two.md: how-to/index.md does not lead to it: expected a line there such as "
        "- [Two?](two.md) Its short answer."
    )
    [found] = faults({"how-to/one.md": "# One\n"})
    assert "its folder has no index" in found


MENU = "nav:\n- Start:\n  - index.md\n  - start/one.md\n  - test.md\n- Other:\n  - more/index.md\n"
PATH = "```path\n```\n"


def test_the_home_page_is_the_index_of_the_path(faults, tmp_path):
    (tmp_path / "mkdocs.yml").write_text(MENU)
    others = {"test.md": f"# Test\n\n{PATH}", "more/index.md": "# More\n"}
    of_the_path = "# One\n\n" + PATH + "It is so. " * 11 + "\n"
    pages = {"index.md": f"# Home\n\n{PATH}", "start/one.md": of_the_path, **others}
    assert faults(pages) == []
    [found] = faults(pages | {"index.md": "# Home\n"})
    assert found.startswith("start/one.md: index.md does not lead to it: expected a line there")
    assert "- [One](start/one.md) Its short answer." in found
    [found] = faults(pages | {"more/index.md": f"# More\n\n{PATH}"})
    assert found.startswith("more/index.md:3: the page is not on the path, the first section of")


def test_a_page_has_a_place_in_the_menu(faults, tmp_path):
    (tmp_path / "mkdocs.yml").write_text("hooks: !ENV [A, b]\nnav:\n- One:\n  - A: one.md\n")
    [found] = faults({"one.md": "# One\n", "two.md": "# Two\n"})
    assert found.startswith("two.md: it has no place in the menu, and so in llms.txt: expected")


@pytest.mark.parametrize(
    "number", ["786,432", "64 × 512", "(2304, 768)", "· 64 = 512", "2.5 times", "75 %", "100%"]
)
def test_a_typed_number_is_found(faults, number):
    text = f"# Two\n\nIt has {{{{= 8 }}}} weights,\nand {number} as `1,024`.\n"
    [found] = (each for each in faults({"page.md": text}) if each.endswith("[number]"))
    assert found.startswith(f"page.md:4: {number!r} is typed")


def test_a_number_is_of_one_block(faults):
    block = '```python exec="on"\nx = 7\n```\n'
    [found] = faults({"page.md": f"# Two\n\n{block}\n{{{{= 2 * x }}}} wide\n\n{block}"})
    assert found.startswith(
        "page.md:7: {{= 2 * x }} is computed after the last block, and 2 blocks"
    )


def test_what_a_source_gives_is_typed_on_its_page():
    for name, numbers in typed_numbers.GIVEN.items():
        assert numbers, name


ANSWER = "# A\n\n**Short answer.** It is {} so{}.\n\n" + CLAIM.format("six", "")


@pytest.mark.parametrize(
    ("word", "link", "kept"),
    [
        ("never", "", False),
        ("never", ", see [here](#claim-six)", True),
        ("never", ", see [here](#claim-seven)", False),
        ("never", ", see [here](https://example.org/#claim-six)", False),
        ("often", "", True),
    ],
)
def test_a_short_answer_that_promises_leads_to_a_claim(faults, word, link, kept):
    found = faults({"page.md": ANSWER.format(word, link)})
    if kept:
        assert found == []
    else:
        fault = next(each for each in found if "[link]" not in each)
        assert fault.startswith("page.md:3: the answer promises ('never') and leads to no claim")


def test_an_answer_in_the_index_of_questions_that_promises_leads_to_a_claim(faults):
    pages = {"page.md": "# A\n\n## B { #b }\n\n" + CLAIM.format("six", "") + "\n## C { #c }\n"}
    line = "# Q\n\n- [Is all so?](page.md{}) It always\n  is.\n"
    assert faults(pages | {"questions.md": line.format("#b")}) == []
    [found] = faults(pages | {"questions.md": line.format("#c")})
    assert found.startswith("questions.md:3: the answer promises ('always')")


def test_a_statement_that_promises_says_over_what_its_check_runs(faults):
    text = "# A\n\n" + CLAIM.format("six", "{}").replace("Six", "All of 6")
    [found] = faults({"page.md": text.format("").replace("All of 6", "Any six")})
    assert found.startswith("page.md:3: the statement promises ('Any')")
    assert faults({"page.md": text.format(' covers="one product"')}) == []


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


def test_a_word_is_counted_once():
    text = "---\ntitle: A b\n---\n# Four words\n\nOne is {{2 * d_model}} [or two](a/b.md). Three."
    counted = short_sentences.lengths(parse("page.md", text))
    assert [*counted] == [(6, 5), (6, 1)]
