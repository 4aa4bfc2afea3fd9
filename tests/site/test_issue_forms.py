"""Issue forms: what a reader can report, and that each form is one that the host accepts."""

import re
from dataclasses import MISSING, fields

import pytest
import yaml

from qkv.notation import Source
from qkv_site.markdown import current
from qkv_site.tables import forms
from support import ROOT

FOLDER = ROOT / ".github" / "ISSUE_TEMPLATE"
FORMS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yml"))}
TYPES = {
    "input": {"label", "description", "placeholder", "value"},
    "textarea": {"label", "description", "placeholder", "value", "render"},
    "dropdown": {"label", "description", "options", "multiple", "default"},
}
# What a form asks for one of a source's entries, where the two have other names.
ASKED_AS = {"author": "title", "read": "link"}
# What whoever adds the file decides: where it stands in the list, and what is checked.
DECIDED = {"id", "short", "group", "year", "checked"}


def test_a_page_can_be_wrong_a_source_missing_and_a_library_changed():
    assert {name: form["name"] for name, form in FORMS.items()} == {
        "wrong": "A page is wrong",
        "source": "A source is missing",
        "library": "A library changed",
    }


@pytest.mark.parametrize("name", FORMS)
def test_a_form_has_what_the_host_asks_for(name):
    form = FORMS[name]
    assert {*form} == {"name", "description", "title", "labels", "body"}
    ids = [each["id"] for each in form["body"]]
    assert len(ids) == len({*ids})
    for each in form["body"]:
        assert {*each} <= {"type", "id", "attributes", "validations"}
        assert {*each["attributes"]} <= TYPES[each["type"]]
        assert each["attributes"]["label"].strip()
        assert {*each.get("validations", {"required": True})} == {"required"}
        if each["type"] == "dropdown":
            options = each["attributes"]["options"]
            assert len({*options}) == len(options) > 1
    assert any(each.get("validations", {}).get("required") is True for each in form["body"])


def test_the_form_of_a_source_asks_for_what_its_file_needs():
    needed = {
        each.name for each in fields(Source) if each.default is each.default_factory is MISSING
    }
    asked = {each["id"] for each in FORMS["source"]["body"]}
    assert {ASKED_AS.get(entry, entry) for entry in needed - DECIDED} <= asked


def test_pages_lead_to_the_forms_of_a_source_and_of_a_library():
    text = "".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
    assert {*re.findall(r'forms\.link\("(\w+)"', text)} == FORMS.keys() - {"wrong"}


def test_where_the_repository_is_not_known_no_form_is_offered(monkeypatch):
    monkeypatch.setattr(current, "repository", "https://example.org/a/b")
    said = forms.link("source", "Say so:", "a source is missing")
    assert said == (
        "Say so: [a source is missing](https://example.org/a/b/issues/new?template=source.yml)."
    )
    monkeypatch.setattr(current, "repository", "")
    assert forms.link("source", "Say so:", "a source is missing") == ""
