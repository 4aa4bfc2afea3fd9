"""Each mistake that diagnose knows has a page about what one sees, and each such page has some."""

import dataclasses
import re

import pytest
from mkdocs.utils.meta import get_data

from qkv.mistakes import known, symptoms
from qkv_site.tables.mistakes import described, places_of_symptoms
from support import ROOT, html_of, words_of

PAGES = sorted(path for path in (ROOT / "docs" / "symptoms").glob("*.md") if path.stem != "index")


def test_each_mistake_is_filed_under_a_symptom_and_each_symptom_has_some_and_a_place():
    assert {each.seen_as for each in known().values()} == {*symptoms()}
    assert {symptom for symptom, places in places_of_symptoms().items() if not places} == set()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_of_symptoms_shows_its_mistakes_and_causes_that_run(site, path):
    text = path.read_text()
    shown = words_of(html_of(site, f"symptoms/{path.name}"))
    of_page = [each.partition("#")[0] for each in get_data(text)[1]["symptoms"]]
    found = [each for each in known().values() if each.seen_as in of_page]
    assert found
    for each in found:
        assert each.name in shown
    causes, check, after = text.partition("{ #check }")
    assert check
    assert "{ #known }" in after
    assert len(re.findall(r"^## .+ \{ #[\w-]+ \}$", causes, re.MULTILINE)) >= 2
    assert 'claim="' in causes


def test_the_overview_leads_to_each_page_and_its_causes(site):
    overview = html_of(site, "symptoms/index.md")
    for path in PAGES:
        causes, _, rest = path.read_text().partition("{ #check }")
        anchors = re.findall(r"^## .+ \{ (#[\w-]+) \}$", causes, re.MULTILINE)
        of_others, _, _ = rest.partition("{ #known }")
        parts = re.findall(r"^###? .+ \{ (#[\w-]+) \}$", of_others, re.MULTILINE)
        for anchor in ["", *anchors, *(part for part in parts if not part.endswith("check"))]:
            assert f'href="{path.stem}/{anchor}"' in overview, anchor


def test_the_overview_and_the_list_of_mistakes_say_each_and_lead_to_the_pages(site):
    overview = words_of(html_of(site, "symptoms/index.md"))
    assert [said for said in symptoms().values() if said not in overview] == []
    listed = html_of(site, "reference/mistakes.md")
    for place, *_ in places_of_symptoms().values():
        page, _, part = place.partition("#")
        address = f"../../{page.removesuffix('.md')}/" + (f"#{part}" if part else "")
        assert f'href="{address}"' in listed
    shown = " ".join(words_of(listed).split())
    for each in known().values():
        for cell in (each.symptom, each.cure):
            assert " ".join(cell.split()) in shown, each.name


def test_a_mistake_that_begins_with_a_name_is_refused():
    mistake = dataclasses.replace(known()["b_Q-left-out"], what="b_Q is left out")
    with pytest.raises(ValueError, match=r"'b_Q is left out' begins with the name 'b_Q'"):
        described(mistake)
