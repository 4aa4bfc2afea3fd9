"""The ledger of claims: every statement is in it once, and leads to what shows it."""

import html
import re

import pytest
from markdown import Markdown

from qkv_site.markdown import claims
from qkv_site.page import Site, parse
from support import ROOT

BLOCK = '# A page\n\n```python exec="on" {}\n{}\n```\n'
CLAIM = 'claim="two-and-two" title="Two and two are four."'
LEDGER = '# Ledger\n\n```python exec="on"\n{}\n```\n'.format(
    "from qkv_site.markdown import claims\nprint(claims.stated())"
)


def test_a_claim_and_its_entry_lead_to_each_other(build):
    text = BLOCK.format(CLAIM + ' cite="Euclid" covers="one sum"', "assert 2 + 2 == 4")
    built = build({"index.md": "# Home\n", "claims.md": LEDGER, "page.md": text})
    assert built.returncode == 0, built.stdout
    page = (built.site / "page" / "index.html").read_text()
    mark = r'<a class="wq-claim__mark" href="[^"]*#claim-two-and-two"[^>]*>computed</a>'
    assert re.search(
        rf'<div class="wq-claim" id="claim-two-and-two">\s*<p>Two and two are four. {mark}', page
    )
    ledger = (built.site / "claims" / "index.html").read_text()
    entry = (
        r'<li data-kind="computed" id="two-and-two">computed: '
        r'<a href="\.\./page/#claim-two-and-two">'
        r"Two and two are four\.</a> Euclid\. Covers: one sum\."
    )
    assert re.search(rf"<h3[^>]*>A page.*{entry}", ledger, re.DOTALL)


def test_every_claim_of_the_site_is_in_the_ledger_with_its_kind_and_on_its_page(site):
    ledger = (site / "claims" / "index.html").read_text()
    made = [claim for _, found in claims.on_site() for claim in found]
    assert {claim.kind for claim in made} == set(claims.KINDS)
    for claim in made:
        assert f'<li data-kind="{claim.kind}" id="{claim.id}">{claim.kind}: ' in ledger
        if claim.block:
            page = site / claim.page.removesuffix(".md").removesuffix("index") / "index.html"
            assert f'id="claim-{claim.id}"' in page.read_text()


def test_every_test_on_a_real_library_is_in_the_ledger_with_its_code_and_versions(site):
    ledger = (site / "claims" / "index.html").read_text()
    run = claims.last_run()
    for file in claims.TESTS:
        text = (ROOT / file).read_text()
        for name, body in re.findall(r"^def (test_\w+)(.*?)(?=\n\n\n|\Z)", text, re.M | re.DOTALL):
            anchor = name.replace("_", "-")
            [(said, shown)] = re.findall(
                r"<summary>run: ((?:(?!</summary>).)*)</summary>"
                rf'\s*<pre id="{anchor}">(.*?)</pre>',
                ledger,
                re.DOTALL,
            )
            assert html.unescape(shown).endswith(f"def {name}{body}".rstrip())
            assert f"{run['date'].day} {run['date']:%B %Y}" in said
            assert any(f" {version}" in said for version in run["versions"].values())


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


@pytest.mark.parametrize(
    ("options", "kind", "mark"),
    [
        ("", "computed", "[computed](page.md#claim-a)"),
        (' run="test_b_c"', "run", "[run](../claims.md#test-b-c)"),
        (' read="b.py, line 3"', "read", "[read: b.py, line 3](page.md#claim-a)"),
    ],
)
def test_the_mark_of_a_statement_opens_its_check(options, kind, mark):
    [claim] = claims.of_page(parse("how-to/page.md", FENCE.format("S.", options)))
    assert claim.kind == kind
    assert claim.mark.startswith(mark)


def test_what_was_read_in_code_has_its_commit_and_date_or_a_version():
    read = [claim for _, found in claims.on_site() for claim in found if claim.kind == "read"]
    code = [claim for claim in read if ".py" in claim.read + claim.source]
    assert len(code) > 15
    for claim in code:
        where = f"{claim.read} {claim.source}"
        dated = re.findall(r"commit [0-9a-f]{7} of \d+ [A-Z][a-z]+ 20\d\d", where)
        assert where.count("commit ") == len(dated), where
        assert dated or re.search(r"\d+\.\d+", where), where


def test_links_to_the_ledger_say_how_the_statement_is_known():
    target = "../claims.md#test-whisper-has-no-key-bias"
    assert claims.kind_to_say(target, "Checked") == "run"
    assert claims.kind_to_say(target, "Run on the library") == ""
    assert claims.kind_to_say("../claims.md#libraries", "here") == ""
    assert claims.kind_to_say("page.md#test-whisper-has-no-key-bias", "here") == ""
    text = f"# A page\n\n[Checked]({target})\n"
    shown = Markdown(extensions=["qkv_site.write.html"]).convert(text)
    assert f'<a data-kind="run" href="{target}">Checked</a>' in shown


def test_a_trap_states_the_first_line_of_its_docstring():
    traps = {trap.test: trap for trap in claims.traps()}
    trap = traps["test_torch_bias_k_is_a_token_and_no_bias"]
    assert trap.statement == "PyTorch `bias_k` is a token and no bias"
    for trap in traps.values():
        assert trap.statement[0].isupper() or trap.statement[0] == "`", trap.test
        assert not trap.statement.endswith((".", ",")), trap.test


def test_every_claim_of_a_page_is_found():
    for page in Site().pages.values():
        stated = [claim.id for claim in claims.of_page(page) if claim.block]
        assert stated == re.findall(r'^ *```python .*claim="([^"]*)"', page.text, re.MULTILINE)
