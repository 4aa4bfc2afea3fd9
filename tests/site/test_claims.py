"""The ledger of claims: every statement is in it once, and leads to what shows it."""

import re

from qkv_site.markdown import claims, current
from support import ROOT

BLOCK = '# A page\n\n```python exec="on" {}\n{}\n```\n'
CLAIM = 'claim="two-and-two" title="Two and two are four."'
LEDGER = '# Ledger\n\n```python exec="on"\n{}\n```\n'.format(
    "from qkv_site.markdown import claims\nprint(claims.checked())"
)


def test_a_claim_and_its_entry_lead_to_each_other(build):
    text = BLOCK.format(CLAIM + ' cite="Euclid"', "assert 2 + 2 == 4")
    built = build({"index.md": "# Home\n", "claims.md": LEDGER, "page.md": text})
    assert built.returncode == 0, built.stdout
    page = (built.site / "page" / "index.html").read_text()
    assert '<div class="wq-claim" id="claim-two-and-two"><p>Two and two are four.' in page
    assert 'href="../claims/#two-and-two"' in page
    ledger = (built.site / "claims" / "index.html").read_text()
    entry = (
        r'<a href="\.\./page/#claim-two-and-two" id="two-and-two">Two and two are four\.</a> Euclid'
    )
    entry = rf"<h3[^>]*>A page.*{entry}\."
    assert re.search(entry, ledger, re.DOTALL)


def test_every_claim_of_the_site_is_in_the_ledger_and_on_its_page(site):
    ledger = (site / "claims" / "index.html").read_text()
    made = [claim for _, found in claims.on_site() for claim in found]
    assert made
    for claim in made:
        assert f'id="{claim.id}"' in ledger
        if claim.checked:
            page = site / claim.page.removesuffix(".md").removesuffix("index") / "index.html"
            assert f'id="claim-{claim.id}"' in page.read_text()


def test_every_test_on_a_real_library_is_in_the_ledger(site):
    ledger = (site / "claims" / "index.html").read_text()
    defined = re.findall(r"^def (test_\w+)", (ROOT / claims.TRAPS).read_text(), re.MULTILINE)
    assert [trap.test for trap in claims.traps()] == defined
    for name in defined:
        assert f'id="{name.replace("_", "-")}"' in ledger
        assert f"<code>{name}</code>" in ledger


def test_a_trap_states_the_first_line_of_its_docstring():
    traps = {trap.test: trap for trap in claims.traps()}
    trap = traps["test_torch_bias_k_is_a_token_and_no_bias"]
    assert trap.statement == "PyTorch `bias_k` is a token and no bias"
    for trap in traps.values():
        assert trap.statement[0].isupper() or trap.statement[0] == "`", trap.test
        assert not trap.statement.endswith((".", ",")), trap.test


def test_every_claim_of_a_page_is_found():
    for path in sorted(current.docs.rglob("*.md")):
        text = path.read_text()
        stated = [claim.id for claim in claims.of_page(path.name, text) if claim.checked]
        assert stated == re.findall(r'^ *```python .*claim="([^"]*)"', text, re.MULTILINE)
