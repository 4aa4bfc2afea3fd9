"""What was wrong is said, with a date and a way to what is right; and a reader can report more."""

import re

from support import ROOT, is_redirect

PAGE = ROOT / "docs" / "corrections.md"
FORM = ROOT / ".github" / "ISSUE_TEMPLATE" / "wrong.yml"


DAY = re.compile(r"^## \d+ [A-Z][a-z]+ 20\d\d \{ #20\d\d-\d\d-\d\d \}$", re.MULTILINE)


def without_date_or_way(text):
    """The entries that stand under no date, or lead to no page with what is right."""
    parts = re.split(r"^(?=## |- )", text, flags=re.MULTILINE)
    dated = False
    for part in parts:
        dated = bool(DAY.match(part)) if part.startswith("## ") else dated
        if part.startswith("- ") and not (dated and re.search(r"\]\((?!http)", part)):
            yield part


def test_each_correction_stands_under_a_date_and_leads_to_what_is_right():
    assert [*without_date_or_way(PAGE.read_text())] == []
    day = "## 1 December 2026 { #2026-12-01 }\n\n"
    right, wrong = "- It was said. [It is not.](page.md)\n", "- It was said.\n"
    assert [*without_date_or_way(f"# C\n\n{right}{day}{right}{wrong}")] == [right, wrong]


def test_the_foot_of_each_page_leads_to_the_corrections_and_to_no_form_of_an_unknown_host(site):
    for page in site.rglob("index.html"):
        if is_redirect(page):
            continue
        text = page.read_text()
        [foot] = re.findall(r'<div class="md-copyright">.*?</div>\s*</div>', text, re.DOTALL)
        assert re.search(r'<a href="([^"]*corrections|\.)/">Corrections</a>', foot)
        assert "Something wrong" not in foot
