"""The pages as Markdown: no formula is lost, claims have their addresses, links lead somewhere."""

import html
import re
from urllib.parse import unquote, urlsplit

import pytest

from qkv_site.markdown import claims
from qkv_site.page import Site
from qkv_site.parts import formulas
from qkv_site.write import copies, search
from support import ADDRESS, html_of

READ = Site().pages
PAGES = sorted(READ)
LINK = re.compile(rf"\]\({ADDRESS}([^\s()]*)\)|Check: {ADDRESS}(\S*#\S+)")
NOT_WHOLE = re.compile(r"\]\((?![a-z]+:)[^\s()]+\)|Check: (?!https:)\S*#\S+")
LEFT_OVER = re.compile(
    r"[\x02\x03]|\{\{|^\?\?\? |^::: |exec=\"on\"|<(math|div|figure|svg|span)\b|\{ [#.][\w-]+ \}",
    re.MULTILINE,
)


def folder(page: str) -> str:
    """Where a page stands below the site."""
    return "" if page == "index.md" else page.removesuffix(".md").removesuffix("/index") + "/"


@pytest.fixture(scope="module")
def written(site):
    return {page: (site / folder(page) / copies.NAME).read_text() for page in PAGES}


def test_no_formula_and_no_claim_is_lost_and_nothing_is_left_over(written):
    lines = in_sentences = 0
    for name, text in written.items():
        page, plain = READ[name], without_fences(text)
        for block in page.fences():
            if block.language in ("formula", "diagram"):
                for line in formulas.read(block.code):
                    lines += 1
                    for part in line.formula.split(" == "):
                        assert part in text, f"{name}: {line.formula}"
        for source, formula in re.findall(formulas.INLINE, page.prose()):
            if not source and not formula.startswith(('"', "shape(", "=")):
                in_sentences += 1
                assert f"`{formula}`" in text, f"{name}: {formula}"
        for claim in claims.of_page(page):
            if claim.block:
                assert f"Claim, {claim.kind}" in text
                assert f"#claim-{claim.id}" in text, f"{name}: {claim.id}"
        assert "{{=" not in text, f"{name}: a number in code or LaTeX is not computed in a copy"
        assert LEFT_OVER.search(re.sub(r"`[^`\n]*`", "", plain)) is None, name
        assert re.search(r"^(`{3,}).*\n\s*^\1$", text, re.MULTILINE) is None, f"{name}: no code"
    assert lines > 75
    assert in_sentences > 120
    shown = written["explanation/biases.md"]
    assert 'assert has_none == {"query": False, "key": True}' in shown
    assert "without the query bias: 0." in shown


def without_fences(text):
    return re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)


def test_the_way_from_page_to_page_stands_in_a_copy_and_not_in_the_search(site, written):
    place = "Start here, 5 of 10. Next: "
    assert place in written["start/which-q.md"]
    assert place not in (site / search.ADDRESS).read_text()


def test_links_lead_to_a_heading(site, written):
    ids: dict = {}
    links = 0
    for page, text in written.items():
        said = without_fences(text)
        assert NOT_WHOLE.findall(said) == [], page
        for found in LINK.finditer(said):
            links += 1
            target = urlsplit(found[1] or found[2] or "")
            file = site / unquote(target.path)
            file = file / "index.html" if file.is_dir() else file
            assert file.exists(), f"{page}: {found[0]}"
            if target.fragment and file.suffix == ".html":
                if file not in ids:
                    ids[file] = {
                        *map(html.unescape, re.findall(r'\bid="([^"]+)"', file.read_text()))
                    }
                assert unquote(target.fragment) in ids[file], f"{page}: {found[0]}"
    assert links > 1_000


def test_a_page_names_its_copy(site):
    for page in PAGES:
        link = re.compile(r'<link rel="alternate " type="text/markdown"[^>]*href="([^"]+)"')
        copy = site / folder(page) / link.search(html_of(site, page))[1]
        assert copy.resolve() == (site / folder(page) / copies.NAME).resolve()


def test_the_overview_lists_each_page_and_the_whole_holds_all(site, written):
    overview = (site / copies.SHORT).read_text()
    listed = re.findall(rf"^- \[.+\]\({ADDRESS}(.*?)index\.md\): ", overview, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert {folder(page) for page in PAGES if not page.startswith("reference/")} <= {*listed}
    whole = (site / copies.FULL).read_text()
    for page in ("start/which-q.md", "how-to/masks.md"):
        heading = re.search(r"^## \[(.+?)\]\(", written[page], re.MULTILINE)[1]
        assert heading in whole
