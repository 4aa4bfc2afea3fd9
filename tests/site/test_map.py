"""The map: what is drawn, how wide and in which letters follows from the formulas of the layer."""

import re
from xml.etree import ElementTree

import pytest

from qkv import notation
from qkv_site.markdown.mathml import mark, to_mathml
from qkv_site.page import PAGE
from qkv_site.parts import layer
from qkv_site.parts import map as layer_map

SOURCES = [source.id for source in notation.sources()]
PRIMES = {"d_model": 13, "h": 3, "h_kv": 3, "d_k": 5, "d_v": 7}


@pytest.fixture(autouse=True)
def on_a_page(written):
    written.name = "explanation/a.md"


@pytest.fixture
def primes(monkeypatch):
    """The layer has other sizes, which all differ."""
    monkeypatch.setattr(layer, "BASE_MODEL", PRIMES)


def tree(html):
    """HTML as XML: without what has no value, and with each element closed."""
    html = re.sub(r" (checked)(?==\"\"|[ >])(=\"\")?", "", html)
    html = re.sub(r"<(input[^>]*|br)>", r"<\1/>", html)
    return ElementTree.fromstring(f"<div>{html}</div>")


def drawn(state="paper", source=""):
    """The figure in one of its states, if asked for in the letters of a source."""
    figure = layer_map.figure()
    figure = tree(in_letters(figure, source) if source else figure)
    return figure.find(f".//*[@data-state='{state}']")


def in_letters(html, source):
    """The page in a source's letters, as main.html shows it."""
    sets = [variants.html for variants in PAGE.get().variants]

    def chosen(found):
        variants = tree(sets[int(found["set"])])
        (one,) = (each for each in variants if source in each.get("data-in").split())
        return ElementTree.tostring(one, encoding="unicode")

    pattern = r'<(span|div) data-set="(?P<set>\d+)" data-in="[^"]*">.*?</\1>'
    return re.sub(pattern, chosen, html)


def links(state, css_class):
    return [link for link in state.iter("a") if link.get("class") == f"wq-map-{css_class}"]


def part(link):
    """How much of the map's width a bar takes."""
    return float(re.search(r"--part:([\d.]+)", link.get("style"))[1])


def text(element):
    return " ".join("".join(element.itertext()).split())


@pytest.mark.usefixtures("primes")
def test_bars_are_as_wide_as_there_are_numbers_for_one_word_and_funnels_lead_between_them():
    paper = drawn()
    bars = [(text(bar)[-3:], part(bar)) for css in ("bar", "bars") for bar in links(paper, css)]
    assert bars == [  # 3 heads of 7 are the widest, 21
        (" 13", pytest.approx(13 / 21, abs=1e-3)),
        (" 13", pytest.approx(13 / 21, abs=1e-3)),
        ("555", pytest.approx(15 / 21, abs=1e-3)),
        ("777", 1),
    ]
    projection, output = links(paper, "funnel")
    ways = [path.get("d") for path in projection.iter("path")]
    assert ways == ["M4 0H17L8 100H3Z", "M4 0H17L13 100H8Z", "M4 0H17L18 100H13Z"]
    assert [path.get("d") for path in output.iter("path")] == ["M0 0H21L17 100H4Z"]


@pytest.mark.parametrize("source", SOURCES)
def test_letters_shapes_and_sides_are_those_of_the_notation(source):
    chosen, query = notation.source(source), notation.role("Q[i]")
    html = in_letters(layer_map.figure(), source)
    paper = re.search('data-state="paper"(.*?)data-state="code"', html, re.DOTALL)[1]
    for key in ("X_Q", "W_Q[i]", "Q[i]", "K[i]", "V[i]", "W_O", "Y"):
        assert to_mathml(notation.typeset(key, source, mark=mark)).split(">", 1)[1] in paper, key
    of_one_head = chosen.names(query) and not chosen.tells_heads_apart(query)
    assert ("shows one head with this letter" in html) == of_one_head
    rows = chosen.tokens == "rows" or "W_Q[i]" in chosen.upright
    shape, side = ("512×64", "a row") if rows else ("64×512", "a column")
    assert shape in re.sub("<[^>]+>", "", paper)
    code = drawn("code", source)
    for state in (drawn("paper", source), code):
        assert f"one word, {side}, as it comes in" in text(state)
    place = "side by side" if rows else "in one array"
    assert f"8 matrices of {shape}, {place}: 512×512. No extra matrix" in map(
        text, code.iter("span")
    )


@pytest.mark.parametrize(
    ("source", "at_source", "at_query"),
    [
        *(
            (source, "MultiHeadQKVthisisitsQ", "equation1thisisitsQ")
            for source in ("site", "paper-3-2-2", "paper-eq1")
        ),
        ("ng-multi-head", "writesqhere", "writesWiQqhere"),
        ("ng-self-attention", "writesxhere", "writesqhere"),
        ("d2l", "writes𝐪here", "writes𝐖iq𝐪here"),
        ("vit", "writes𝐳here", "writes𝐪here"),
    ],
)
def test_flags_say_what_the_paper_calls_q_or_what_another_author_writes(
    source, at_source, at_query
):
    flags = [each for each in drawn(source=source).iter() if "wq-map-flag" in each.get("class", "")]
    said = [re.sub(r"\W", "", text(flag)) for flag in flags]
    author = "" if source in layer_map.OF_THE_PAPER else notation.source(source).short
    author = re.sub(r"\W", "", author)
    assert said == [author + at_source, author + at_query]


@pytest.mark.usefixtures("primes")
def test_two_videos_do_not_fit():
    sound = drawn("sound")
    (misfit,) = links(sound, "misfit")
    assert text(misfit) == "a second matrix? it needs 13, but gets 5"
    assert "The sizes are the paper's base model's; we do not know the videos'." in text(sound)


def test_two_videos_keep_their_own_letters_and_shapes():
    sound = drawn("sound")
    assert not list(sound.iterfind(".//*[@data-set]"))
    first, second = layer_map.VIDEOS
    for side, videos, letters in (
        (
            "heard",
            [first, first, first, second],
            "x512WQ512→64video164qasecondmatrix?itneeds512,butgets64W1Q512→64video2",
        ),
        ("meant", [second] * 3, "q=x512W1Q512→64video264W1Qq"),
    ):
        found = sound.find(f".//*[@class='wq-map-{side}']")
        assert letters in text(found).replace(" ", "")
        of_roles = [link for link in found.iter("a") if link.get("data-role")]
        assert [link.get("data-of") for link in of_roles] == videos


@pytest.mark.usefixtures("primes")
def test_code_cuts_one_array_into_what_each_head_has():
    code = drawn("code")
    (array,) = links(code, "slices")
    assert [text(each).replace(" ", "") for each in array] == ["W1Q", "W2Q", "W3Q"]
    assert "13 numbers to 15, which are cut into 3 pieces of 5" in text(code.find("p"))
    (bars,) = links(code, "bars")
    assert len(bars) == 3


@pytest.mark.parametrize(
    ("keys", "lit"),
    [
        ("W_Q[i] Q[i]", ["WiQmatrix", "Qiqueries"]),
        ("W_O", ["WOmatrix"]),
        ("W_O[i]", ["WOmatrix"]),  # the packed weight and that of each head are one part
    ],
)
def test_the_small_map_has_all_parts_and_lights_those_of_the_page(keys, lit):
    small = tree(layer_map.mini(keys))
    found = [each for each in small.iter() if "wq-lit" in each.get("class", "")]
    assert [text(each).replace(" ", "") for each in found] == lit
    meanings = "; ".join(notation.role(key).meaning for key in keys.split())
    assert text(small.find(".//*[@class='wq-unseen']")).endswith(f"{meanings}.")
    assert len(small.find(".//*[@class='wq-mini-drawn']")) == len(layer.PARTS)
