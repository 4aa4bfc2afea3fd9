"""How statements are known: at the foot of each page, where each test has one place."""

import json
import re

import pytest
from markdown import Markdown

from qkv_site.markdown import claims, evidence
from qkv_site.page import PAGE, Site, parse
from support import ROOT, html_of


def every_claim():
    return [claim for page in Site().pages.values() for claim in claims.of_page(page)]


def folded(html):
    """What stands at the foot of a page, of how its statements are known."""
    _, _, found = html.partition('<details class="wq-known" id="how-it-is-known">')
    return found.partition("</details>")[0]


def test_every_mark_leads_to_what_is_said_at_the_foot_of_its_page(site):
    for claim in every_claim():
        html = html_of(site, claim.page)
        assert f'id="{claim.anchor}"' in folded(html), claim.id
        assert not claim.block or f'id="claim-{claim.id}"' in html
    assert {claim.kind for claim in every_claim()} == set(claims.KINDS)
    places = json.loads((site / "assets" / "claims.json").read_text())
    assert sum(map(len, places.values())) == len(evidence.known(Site()).kinds)
    for address, found in places.items():
        html = (site / address / "index.html").read_text()
        assert not [part for part in found if f'id="{part}"' not in html]


def test_a_test_stands_on_a_page_that_states_it_and_few_stand_on_none():
    stated, places = {}, evidence.known(Site()).places
    for claim in (claim for claim in every_claim() if claim.run):
        stated.setdefault(claim.run.replace("_", "-"), set()).add(claim.page)
    assert len(stated) > 10
    assert [test for test, pages in stated.items() if places[test][0] not in pages] == []
    assert sum(page == claims.INDEX for page, _ in places.values()) < len(places) / 20


def test_every_test_on_a_real_library_stands_once_with_its_code_and_versions(site):
    feet = {page: folded(page.read_text()) for page in site.rglob("index.html")}
    run = claims.last_run()
    for file in claims.TESTS:
        text = (ROOT / file).read_text()
        assert (site / claims.code_of(file)).read_text() == text
        for name in re.findall(r"^def (test_\w+)", text, re.M):
            anchor = name.replace("_", "-")
            [page] = [page for page, foot in feet.items() if f'<li id="{anchor}">' in foot]
            said = feet[page].partition(f'<li id="{anchor}">')[2].partition("</li>")[0]
            assert any(f" {version}" in said for version in run["versions"].values())
            [code] = re.findall(r'href="([^"#]*)#:~:text=def%20(\w+)%28"', said)
            assert code[1] == name
            assert (page.parent / code[0]).resolve() == (site / claims.code_of(file)).resolve()
            assert f"last ran on {run['date'].day} {run['date']:%B %Y}" in feet[page]


def test_the_versions_of_a_test_are_those_of_the_libraries_that_it_runs():
    packages = {trap.test: trap.packages for trap in claims.traps()}
    assert packages["test_keras_takes_query_value_key_in_this_order"] == ("keras",)
    assert packages["test_torch_weights_move_to_keras_in_two_lines"] == ("torch", "keras")
    assert packages["test_flax_qkv_features_is_the_width_of_all_heads"] == ("flax", "jax")
    with_functions = packages["test_fewer_heads_of_keys_are_served_as_the_table_says"]
    assert set(with_functions) == {"torch", "jax", "flax", "keras", "mlx", "onnx"}
    assert packages["test_whisper_has_no_key_bias"] == ("transformers",)
    assert all(packages.values())


FENCE = '```python exec="on" claim="a" title="{}"{}\nassert True\n```\n'


@pytest.mark.parametrize(
    ("page", "title", "options", "fault"),
    [
        ("page.md", "Keras adds.", "", "about a library"),
        ("page.md", "nn.Linear adds.", "", "about a library"),
        ("libraries/keras.md", "The layer adds.", "", "about a library"),
        ("page.md", "Keras adds.", ' run="test_nothing"', "expected the name of a test"),
        ("page.md", "Keras adds.", ' run="test_whisper_has_no_key_bias" read="b.py"', "one kind"),
        ("page.md", "Keras adds.", ' run="test_whisper_has_no_key_bias"', None),
        ("page.md", "Keras adds.", ' read="b.py, line 3, commit 0ffe0e6"', None),
        ("page.md", "As this site writes Keras, it adds.", "", None),
        ("page.md", "A transformer adds.", "", None),
    ],
)
def test_a_statement_about_a_library_needs_a_test_or_a_line_that_was_read(
    page, title, options, fault
):
    (claim,) = claims.of_page(parse(page, FENCE.format(title, options)))
    said = [*claims.faults(claim)]
    assert bool(said) == bool(fault)
    assert all(fault in each for each in said)


def test_what_was_read_in_code_has_its_commit_and_date_or_a_version():
    read = [claim for claim in every_claim() if claim.kind == "read"]
    code = [claim for claim in read if ".py" in claim.read + claim.source]
    assert len(code) > 15
    for claim in code:
        where = f"{claim.read} {claim.source}"
        dated = re.findall(r"commit [0-9a-f]{7} of \d+ [A-Z][a-z]+ 20\d\d", where)
        assert where.count("commit ") == len(dated), where
        assert dated or re.search(r"\d+\.\d+", where), where


def test_links_to_a_test_say_how_the_statement_is_known_and_lead_to_its_place():
    target = "../claims.md#test-whisper-has-no-key-bias"
    assert evidence.kind_to_say(target, "Checked") == "run"
    assert evidence.kind_to_say(target, "Run on the library") == ""
    assert evidence.kind_to_say("../claims.md#libraries", "here") == ""
    assert evidence.kind_to_say("page.md#test-whisper-has-no-key-bias", "here") == ""
    text = f"# A page\n\n[Checked]({target})\n"
    shown = Markdown(extensions=["qkv_site.write.html"]).convert(text)
    home, part = evidence.known(PAGE.get().site).places["test-whisper-has-no-key-bias"]
    assert f'<a data-kind="run" href="{home}#{part}">Checked</a>' in shown
    assert evidence.leads_to("../claims.md#libraries", PAGE.get()) == "../claims.md#libraries"


def test_every_claim_is_found_and_a_trap_states_the_first_line_of_its_docstring():
    for page in Site().pages.values():
        stated = [claim.id for claim in claims.of_page(page) if claim.block]
        assert stated == re.findall(r'^ *```python .*claim="([^"]*)"', page.text, re.MULTILINE)
    traps = {trap.test: trap.statement for trap in claims.traps()}
    said = (
        "PyTorch's `add_bias_kv` and `add_zero_attn` lengthen the weights by one key each, a token"
    )
    assert traps["test_torch_added_keys_lengthen_the_weights"] == said
    for name, statement in traps.items():
        assert statement[0].isupper() or statement[0] == "`", name
        assert not statement.endswith((".", ",")), name
