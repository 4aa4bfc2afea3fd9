"""The map: what is drawn, how wide and in which letters follows from the formulas of the layer."""

import re
from xml.etree import ElementTree

import pytest

from qkv import notation
from qkv_site.markdown.mathml import mark, to_mathml
from qkv_site.page import PAGE, Page
from qkv_site.parts import layer
from qkv_site.parts import map as layer_map
from support import ROOT

SOURCES = [source.id for source in notation.sources()]
PRIMES = {"d_model": 13, "h": 3, "h_kv": 3, "d_k": 5, "d_v": 7}


@pytest.fixture(autouse=True)
def on_a_page(written):
    written.name = "explanation/a.md"


def tree(html):
    """HTML as XML: without what has no value, and with each element closed."""
    html = re.sub(r" (checked)(?==\"\"|[ >])(=\"\")?", "", html)
    html = re.sub(r"<(input[^>]*|br)>", r"<\1/>", html)
    return ElementTree.fromstring(f"<div>{html}</div>")


def states(drawn):
    return {state.get("data-state"): state for state in drawn.iterfind(".//*[@data-state]")}


def drawn(sizes, which="paper"):
    """The figure of a layer, in one of its states; what all three show needs no misfit to draw."""
    return states(tree(layer_map.figure(layer=layer.Layer(sizes))))[which]


def links(state, css_class):
    return [link for link in state.iter("a") if link.get("class") == f"wq-map-{css_class}"]


def part(link):
    """How much of the map's width a bar takes."""
    return float(re.search(r"--part:([\d.]+)", link.get("style"))[1])


def text(element):
    return " ".join("".join(element.itertext()).split())


def in_letters(html, source):
    """The page in a source's letters, as main.html shows it."""
    sets = [variants.html for variants in PAGE.get().variants]

    def chosen(found):
        variants = tree(sets[int(found["set"])])
        (one,) = (each for each in variants if source in each.get("data-in").split())
        return ElementTree.tostring(one, encoding="unicode")

    pattern = r'<(span|div) data-set="(?P<set>\d+)" data-in="[^"]*">.*?</\1>'
    return re.sub(pattern, chosen, html)


def test_bars_are_as_wide_as_there_are_numbers_for_one_word():
    paper = drawn(PRIMES)
    assert [(part(bar), text(bar)[-2:]) for bar in links(paper, "bar")] == [
        (pytest.approx(13 / 21, abs=1e-3), "13"),  # 3 heads of 7 are the widest, 21
        (pytest.approx(13 / 21, abs=1e-3), "13"),
    ]
    queries, heads = links(paper, "bars")
    assert (len(queries), text(queries), part(queries)) == (
        3,
        "555",
        pytest.approx(15 / 21, abs=1e-3),
    )
    assert (len(heads), text(heads), part(heads)) == (3, "777", 1)


def test_a_funnel_leads_from_what_a_matrix_takes_to_what_it_gives():
    projection, output = links(drawn(PRIMES), "funnel")
    ways = [path.get("d") for path in projection.iter("path")]
    assert ways == ["M4 0H17L8 100H3Z", "M4 0H17L13 100H8Z", "M4 0H17L18 100H13Z"]
    assert [path.get("d") for path in output.iter("path")] == ["M0 0H21L17 100H4Z"]


def test_what_is_drawn_follows_from_the_lines():
    lines = (*layer.LINES[:2], *layer.LINES[3:])  # a layer without values
    chips = links(states(tree(layer_map.figure(layer=layer.Layer(lines=lines))))["paper"], "chip")
    assert [chip.get("data-role") for chip in chips] == ["K[i]"]


@pytest.mark.parametrize("source", SOURCES)
def test_letters_and_shapes_are_those_of_the_notation(source):
    html = in_letters(layer_map.figure(), source)
    paper = re.search('data-state="paper"(.*?)data-state="code"', html, re.DOTALL)[1]
    for key in ("X_Q", "W_Q[i]", "Q[i]", "K[i]", "V[i]", "W_O", "Y"):
        assert to_mathml(notation.typeset(key, source, mark=mark)).split(">", 1)[1] in paper, key
    rows = notation.source(source).tokens == "rows" or "W_Q[i]" in notation.source(source).upright
    assert ("512×64" if rows else "64×512") in re.sub("<[^>]+>", "", paper)


@pytest.mark.parametrize("source", ["site", "paper-3-2-2", "paper-eq1"])
def test_flags_say_what_the_paper_calls_q(source):
    flags = tree(in_letters(layer_map.figure(), source)).iterfind(".//*[@class]")
    said = [text(flag) for flag in flags if "wq-map-flag" in flag.get("class")]
    assert [re.sub(r"\W", "", words) for words in said] == [
        "MultiHeadQKVthisisitsQ",
        "equation1thisisitsQ",
    ]


@pytest.mark.parametrize(
    ("source", "at_source", "at_query"),
    [
        ("ng-multi-head", "writesqhere", "writesWiQqhere"),
        ("ng-self-attention", "writesxhere", "writesqhere"),
        ("d2l", "writes𝐪here", "writes𝐖iq𝐪here"),
        ("vit", "writes𝐳here", "writes𝐪here"),
    ],
)
def test_in_another_notation_flags_say_what_its_author_writes(source, at_source, at_query):
    flags = tree(in_letters(layer_map.figure(), source)).iterfind(".//*[@class]")
    said = [flag for flag in flags if "wq-map-flag" in flag.get("class")]
    short = notation.source(source).short
    assert all(text(flag).startswith(short) for flag in said)
    bold = [re.sub(r"[\W]", "", text(flag.find(".//b"))) for flag in said]
    assert bold == [at_source, at_query]


def test_two_videos_do_not_fit():
    sound = drawn({**PRIMES, "d_v": 5}, "sound")
    (misfit,) = links(sound, "misfit")
    assert text(misfit) == "a second matrix? it needs 13, but gets 5"
    said = text(sound.find("p"))
    heard, paper, sizes = (
        said.index(part)
        for part in ("If you follow his words", "as in the paper", "13 numbers of a word into 5")
    )
    assert heard < paper < sizes < said.index("At sizes at which they fit")
    (sizes,) = sound.iterfind("p[@class='wq-map-sizes']")
    assert "The sizes are the paper's; the videos give none." in text(sizes)


def test_a_part_of_a_video_says_its_shape_as_that_video_does():
    sound = drawn(layer.BASE_MODEL, "sound")
    sides = {side.get("class"): side for side in sound.iter("div") if side is not sound}
    first, second = layer_map.VIDEOS
    for side, videos in {"heard": [first, first, first, second], "meant": [second] * 3}.items():
        links = [link for link in sides[f"wq-map-{side}"].iter("a") if link.get("data-role")]
        assert [link.get("data-of") for link in links] == videos


@pytest.mark.parametrize(("source", "side"), [("site", "a row"), ("ng-multi-head", "a column")])
def test_a_word_is_a_row_or_a_column_as_the_shape_says(source, side):
    html = in_letters(layer_map.figure(), source)
    for state in ("paper", "code"):
        assert f"one word, {side}, as it comes in" in text(states(tree(html))[state])


def test_where_the_videos_would_fit_no_misfit_is_drawn():
    with pytest.raises(ValueError, match="no misfit"):
        layer_map.figure(layer=layer.Layer({"d_model": 5, "h": 1, "h_kv": 1, "d_k": 5, "d_v": 5}))


def test_two_videos_keep_their_own_letters():
    sound = drawn(layer.BASE_MODEL, "sound")
    assert not list(sound.iterfind(".//*[@data-set]"))
    heard, meant = (text(side).replace(" ", "") for side in sound.iter("div") if side is not sound)
    assert "x512WQ512→64video164qasecondmatrix?itneeds512,butgets64W1Q512→64video2" in heard
    assert "q=x512W1Q512→64video264W1Qq" in meant


def test_code_cuts_one_array_into_what_each_head_has():
    code = drawn(PRIMES, "code")
    (array,) = links(code, "slices")
    assert [text(each).replace(" ", "") for each in array] == ["W1Q", "W2Q", "W3Q"]
    assert "13 numbers to 15, which are cut into 3 pieces of 5" in text(code.find("p"))
    (bars,) = links(code, "bars")
    assert len(bars) == 3


@pytest.mark.parametrize(
    ("source", "packed"),
    [
        ("site", "8 matrices of 512×64, side by side: 512×512. No extra matrix"),
        ("ng-multi-head", "8 matrices of 64×512, in one array: 512×512. No extra matrix"),
    ],
)
def test_the_array_is_that_of_all_heads(source, packed):
    code = states(tree(in_letters(layer_map.figure(), source)))["code"]
    assert packed in [text(note) for note in code.iter("span")]


@pytest.mark.parametrize("source", SOURCES)
def test_where_a_source_writes_one_head_the_map_says_so(source):
    query, one = notation.role("Q[i]"), "shows one head with this letter"
    chosen = notation.source(source)
    said = chosen.names(query) and not chosen.tells_heads_apart(query)
    assert (one in in_letters(layer_map.figure(), source)) == said


def test_a_state_is_chosen_by_a_radio_button():
    for first in layer_map.STATES:
        html = layer_map.figure(first)
        assert re.findall(r'value="(\w+)"( checked)?', html) == [
            (name, " checked" if name == first else "") for name in layer_map.STATES
        ]


def test_each_part_leads_to_its_page():
    for page in layer_map.PAGES.values():
        assert (ROOT / "docs" / page).is_file()
    parts = {link.get("data-role") for link in tree(layer_map.figure()).iter("a")}
    assert parts - {None} <= {*layer_map.PAGES}
    assert {*layer_map.PAGES} - parts == {"attention"}  # a function is no role


@pytest.mark.parametrize(
    ("page", "target", "address"),
    [
        ("index.md", "explanation/widths.md", "explanation/widths/"),
        ("explanation/widths.md", "index.md", "../../"),
        ("explanation/index.md", "explanation/widths.md", "widths/"),
        ("libraries/index.md", "index.md", "../"),
    ],
)
def test_an_address_is_as_seen_from_the_page(written, page, target, address):
    written.name = page
    assert layer_map.href(target) == address


def lit(html):
    return [
        text(each).replace(" ", "")
        for each in tree(html).iter()
        if "wq-lit" in each.get("class", "")
    ]


def test_the_small_map_has_all_parts_and_lights_those_of_the_page():
    html = layer_map.mini("W_Q[i] Q[i]")
    assert lit(html) == ["WiQmatrix", "Qiqueries"]
    words = "one head's weight for queries; projected queries of one head."
    assert text(tree(html).find(".//*[@class='wq-unseen']")).endswith(words)
    (shown,) = tree(html).iterfind(".//*[@class='wq-mini-drawn']")
    assert len(shown) == len(layer.Layer().parts)


@pytest.mark.parametrize("key", ["W_O", "W_O[i]"])
def test_a_packed_weight_and_that_of_each_head_are_one_part(key):
    assert lit(layer_map.mini(key)) == ["WOmatrix"]


@pytest.mark.parametrize(
    ("code", "options", "message"),
    [
        ("", {"state": "loud"}, """state="loud": expected one of 'code', 'paper', 'sound'"""),
        ("Q[i]\n", {}, "a map has no lines"),
    ],
)
def test_what_a_map_cannot_show_is_said(code, options, message):
    part = layer_map.Map(1, 2, language="map", given=options, code=code)
    found = [fault.message for fault in part.faults(Page())]
    assert [fault[: len(message)] for fault in found] == [message]
