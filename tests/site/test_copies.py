"""The pages as Markdown: no formula is lost, claims have their addresses, links lead somewhere."""

import html
import re
from urllib.parse import unquote, urlsplit

import pytest

from qkv_site.markdown import claims
from qkv_site.page import Site
from qkv_site.parts import formulas
from qkv_site.write import copies
from support import ADDRESS

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


def test_no_formula_is_lost(written):
    lines = 0
    for page, text in written.items():
        for block in READ[page].fences():
            if block.language in ("formula", "diagram"):
                for line in formulas.read(block.code):
                    lines += 1
                    for part in line.formula.split(" == "):
                        assert part in text, f"{page}: {line.formula}"
    assert lines > 75


def test_no_formula_of_a_sentence_is_lost(written):
    seen = 0
    for page, text in written.items():
        said = READ[page].prose()
        for source, formula in re.findall(formulas.INLINE, said):
            if not source and not formula.startswith(('"', "shape(", "=")):
                seen += 1
                assert f"`{formula}`" in text, f"{page}: {formula}"
    assert seen > 150


def test_each_claim_has_its_statement_its_kind_and_its_address(written):
    for page, text in written.items():
        for claim in claims.of_page(READ[page]):
            if claim.block:
                assert f"Claim, {claim.kind}" in text
                assert f"#claim-{claim.id}" in text, f"{page}: {claim.id}"


def test_each_block_that_is_shown_stands_there_with_what_it_printed(written):
    text = written["explanation/biases.md"]
    assert 'assert has_none == {"query": False, "key": True}' in text
    assert "without the query bias: 0." in text


def test_nothing_is_left_over(written):
    for page, text in written.items():
        said = re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
        said = re.sub(r"`[^`\n]*`", "", said)
        assert not (found := LEFT_OVER.search(said)), (
            f"{page}: {found and said[found.start() - 40 :][:99]}"
        )


def test_links_lead_to_a_heading(site, written):
    ids: dict = {}
    links = 0
    for page, text in written.items():
        said = re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
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
        said = (site / folder(page) / "index.html").read_text()
        link = re.search(r'<link rel="alternate " type="text/markdown"[^>]*href="([^"]+)"', said)[1]
        assert (site / folder(page) / link).resolve() == (
            site / folder(page) / copies.NAME
        ).resolve()


def test_the_overview_lists_each_page_and_the_whole_holds_all(site, written):
    overview = (site / copies.SHORT).read_text()
    listed = re.findall(rf"^- \[.+\]\({ADDRESS}(.*?)index\.md\): ", overview, re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert {folder(page) for page in PAGES if not page.startswith("reference/")} <= {*listed}
    whole = (site / copies.FULL).read_text()
    for page in ("start/which-q.md", "how-to/masks.md"):
        heading = re.search(r"^## \[(.+?)\]\(", written[page], re.MULTILINE)[1]
        assert heading in whole
