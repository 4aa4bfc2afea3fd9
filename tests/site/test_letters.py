"""Letters that are typed in a sentence."""

import re

import markdown
import pytest


def html(text):
    return markdown.markdown(text, extensions=["qkv_site.markdown.letters", "tables"])


@pytest.mark.parametrize(
    ("typed", "parts"),
    [
        ("W^Q", ["W", "sup Q"]),
        ("W_i^K", ["W", "sub i", "sup K"]),
        ("W_1^O", ["W", "sub 1", "sup O"]),
        ("d_k", ["d", "sub k"]),
        ("d_model", ["d", "sub model"]),
        ("h_kv", ["h", "sub kv"]),
        ("W_V", ["W", "sub V"]),
        ("b_K", ["b", "sub K"]),
    ],
)
@pytest.mark.parametrize("place", ["{}.", "(√{}, say)", "[{}](page.md)", "# The {}", "**{}**"])
def test_a_letter_in_text_is_set_and_stays_the_text_that_was_typed(typed, parts, place):
    found = html(place.format(typed))
    set_ = re.search(r'<span class="wq-typed[^"]*">(\w)(.*)</su[bp]></span>', found)
    scripts = re.findall(r"<(su[bp])[^>]*>(\w+)", set_[0])
    assert [set_[1], *(f"{tag} {said}" for tag, said in scripts)] == parts
    assert typed in re.sub(r"<[^>]+>", "", found)


@pytest.mark.parametrize(
    "typed", ["`W^Q`", "W^QK", "W_Q[0]", "W_E", "d_Q", "mid_k", "d_keys", "x.d_k", "W^Q^2", "\\W^Q"]
)
def test_code_and_other_names_stay_as_they_are(typed):
    assert "wq-typed" not in html(f"So {typed} stays.")
