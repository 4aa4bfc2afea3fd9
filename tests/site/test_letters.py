"""Letters that are typed in a sentence."""

import re

import markdown
import pytest

from qkv_site.markdown import letters


def html(text):
    return markdown.markdown(text, extensions=["qkv_site.write.html", "tables"])


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


@pytest.mark.parametrize("product", ["W_O W_V", "W^Q W^K", "W_V W_O W_Q"])
def test_a_product_of_letters_stays_together(product):
    found = html(f"# Is it {product} or d_k?")
    inside = re.search(r'<span class="wq-together">(.*)</span> or', found)[1]
    assert re.sub(r"<[^>]+>", "", inside) == product
    assert found.count("wq-together") == 1


@pytest.mark.parametrize("sizes", ["4 × 4", "1536 × 512", "10,240 × 64", "2 × 3 × 5"])
def test_the_sizes_of_a_matrix_stay_together(sizes):
    assert f'<span class="wq-together">{sizes}</span>.' in html(f"It is {sizes}.")
    assert "wq-together" not in html(f"`{sizes}`")


def test_a_letter_in_the_name_of_a_heading_is_set():
    assert letters.set_in("Is W_i^Q unique?") == (
        'Is <span class="wq-typed role-weight">W<span>_</span><sub>i</sub>'
        "<span>^</span><sup>Q</sup></span> unique?"
    )
    assert letters.set_in("What is past_key_values?") == "What is past_key_values?"


@pytest.mark.parametrize(
    ("below", "upright"), [("model", True), ("out", True), ("in", True), ("ij", False)]
)
def test_a_word_below_a_letter_is_upright(below, upright):
    extensions = ["pymdownx.arithmatex", "qkv_site.write.html"]
    found = markdown.markdown(
        f"$d_{{{below}}}$",
        extensions=extensions,
        extension_configs={"pymdownx.arithmatex": {"generic": True}},
    )
    assert (f"<mtext>{below}</mtext>" in found) == upright


def test_letters_are_set_in_the_names_of_the_menu(site):
    page = (site / "explanation/scaling/index.html").read_text()
    menu = page[page.index("md-sidebar--primary") : page.index("md-content__inner")]
    shown = re.sub(r"<span[^>]*>[_^]</span>|<[^>]+>", "", menu)
    assert "√dk, softmax" in shown
    assert "WV, WO, heads" in shown
