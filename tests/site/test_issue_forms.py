"""Issue forms: what a reader can report."""

import re
from dataclasses import MISSING, fields

import yaml

from qkv.notation import Source
from qkv_site.page import Site
from qkv_site.tables import forms
from support import ROOT

FOLDER = ROOT / ".github" / "ISSUE_TEMPLATE"
FORMS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yml"))}
# What a form asks for one of a source's entries, where the two have other names.
ASKED_AS = {"author": "title", "read": "link"}
# What whoever adds the file decides: where it stands in the list, and what is checked.
DECIDED = {"id", "short", "group", "year", "checked"}


def test_the_form_of_a_source_asks_for_what_its_file_needs():
    needed = {
        each.name for each in fields(Source) if each.default is each.default_factory is MISSING
    }
    asked = {each["id"] for each in FORMS["source"]["body"]}
    assert {ASKED_AS.get(entry, entry) for entry in needed - DECIDED} <= asked


def test_pages_lead_to_the_forms_of_a_source_and_of_a_library():
    text = "".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
    assert {*re.findall(r'forms\.link\("(\w+)"', text)} == FORMS.keys() - {"wrong"}


def test_where_the_repository_is_not_known_no_form_is_offered(written):
    written.site = Site(repository="https://example.org/a/b")
    said = forms.link("source", "Say so:", "a source is missing")
    assert said == (
        "Say so: [a source is missing](https://example.org/a/b/issues/new?template=source.yml)."
    )
    written.site = Site()
    assert forms.link("source", "Say so:", "a source is missing") == ""
