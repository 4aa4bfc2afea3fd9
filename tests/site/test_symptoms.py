"""Each mistake that diagnose knows has a page about what one sees, and each such page has some."""

import dataclasses
import html
import re

import pytest
from mkdocs.utils.meta import get_data

from qkv.mistakes import known, symptoms
from qkv_site.tables.mistakes import described, places_of_symptoms
from support import ROOT

PAGES = sorted(path for path in (ROOT / "docs" / "symptoms").glob("*.md") if path.stem != "index")


def words(page):
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text()))


def test_each_mistake_is_filed_under_a_symptom_and_each_symptom_has_some():
    assert {each.seen_as for each in known().values()} == {*symptoms()}


def test_each_symptom_has_a_place():
    assert {symptom for symptom, places in places_of_symptoms().items() if not places} == set()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_of_symptoms_shows_its_mistakes_and_causes_that_run(site, path):
    text = path.read_text()
    shown = words(site / "symptoms" / path.stem / "index.html")
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
    overview = (site / "symptoms" / "index.html").read_text()
    for path in PAGES:
        causes, _, rest = path.read_text().partition("{ #check }")
        anchors = re.findall(r"^## .+ \{ (#[\w-]+) \}$", causes, re.MULTILINE)
        of_others, _, _ = rest.partition("{ #known }")
        parts = re.findall(r"^###? .+ \{ (#[\w-]+) \}$", of_others, re.MULTILINE)
        for anchor in ["", *anchors, *(part for part in parts if not part.endswith("check"))]:
            assert f'href="{path.stem}/{anchor}"' in overview, anchor


def test_the_overview_has_a_line_for_each_symptom_in_the_words_of_who_sees_it(site):
    shown = words(site / "symptoms" / "index.html")
    for said in symptoms().values():
        assert said in shown


def test_the_list_of_mistakes_leads_to_the_pages(site):
    listed = (site / "reference" / "mistakes" / "index.html").read_text()
    for place, *_ in places_of_symptoms().values():
        page, _, part = place.partition("#")
        address = f"../../{page.removesuffix('.md')}/" + (f"#{part}" if part else "")
        assert f'href="{address}"' in listed


def test_each_cell_of_the_list_of_mistakes_is_shown_to_its_end(site):
    shown = " ".join(words(site / "reference" / "mistakes" / "index.html").split())
    for each in known().values():
        for cell in (each.symptom, each.cure):
            assert " ".join(cell.split()) in shown, each.name


def test_a_mistake_that_begins_with_a_name_is_refused():
    mistake = dataclasses.replace(known()["b_Q-left-out"], what="b_Q is left out")
    with pytest.raises(ValueError, match=r"'b_Q is left out' begins with the name 'b_Q'"):
        described(mistake)
