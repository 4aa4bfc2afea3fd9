"""Numbers in sentences are computed by the page, and are said as a sentence has them."""

import pytest

from qkv_site.run import NUMBER, said, say


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (786432, "786,432"),
        (-3, "-3"),
        ("75 %", "75 %"),
        (f"{8 / 3:.2f}", "2.67"),
        ((1536, 512), "1536 × 512"),
        ((128, 12288), "128 × 12,288"),
    ],
)
def test_a_number_is_said_as_a_sentence_has_it(value, said):
    assert say(value) == said


@pytest.mark.parametrize("value", [2.5, True, None, [3]])
def test_what_has_no_number_of_digits_is_refused(value):
    with pytest.raises(TypeError, match="whole, or a text"):
        say(value)


@pytest.mark.parametrize(
    ("word", "about"),
    [
        ("larger", (3, 5)),
        ("at least", (3, 5)),
        ("twice as many", (3, 6)),
        ("key", ({"query": True, "key": False},)),
        ("smallest", (3, 5)),
        ("values", ({"query": True, "key": False},)),
    ],
)
def test_a_word_that_is_not_true_is_not_said(word, about):
    with pytest.raises(ValueError, match=f"the sentence says '{word}': expected one of "):
        said(word, *about)
    with pytest.raises(TypeError, match="about two numbers, or about facts"):
        said(word, 1, 2, 3)


def test_no_expression_is_left_in_the_built_site(site):
    for page in site.rglob("*.html"):
        assert not NUMBER.search(page.read_text()), page
