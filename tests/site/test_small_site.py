"""A site of a few pages, built once as it is published: below an address, with a repository."""

import json
import re
from html import unescape
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import pytest
import yaml

from qkv_site.write import copies, search
from support import ROOT, html_of, question, self_test

ADDRESS = "https://example.org/q/"
FORM = ROOT / ".github" / "ISSUE_TEMPLATE" / "wrong.yml"
QUESTION = self_test(question(ask="How many are {{Q[i]}}?"))
PAGES = {
    "index.md": "---\ndescription: What it says.\n---\n\n# Is 6 × 7 = 42? { #there }\n",
    "corrections.md": "# C\n",
    "claims.md": """# Index

```python exec="on"
from qkv_site.markdown import evidence
print(evidence.counted())
```
""",
    "page.md": """# A page

```python exec="on" claim="two-and-two" title="Two and two are four." cite="Euclid" covers="one sum"
assert 2 + 2 == 4
kept = 41
```

## Two { #two }

```python exec="on"
print("It is", kept + 1)
```

The pair is
{{= said("smaller", 3, 5) }}.

```asked
to a zeppelin
```
""",
    "sub/index.md": "# Sub\n\n[A page](page.md)\n",
    "sub/page.md": """# A page

## A part { #part }

[Home](../index.md#there)

```formula
Q[i] = X_Q @ W_Q[i]
```

In {{paper-3-2-2: X_Q @ W_Q[i]}}.
""",
    "threads/index.md": "# Threads\n\n[One](one.md)\n",
    "threads/one.md": '# One\n\n```python exec="on" source="above"\nassert True\n```\n',
    "test.md": QUESTION["index.md"],
    "self-test.toml": QUESTION["self-test.toml"],
}


@pytest.fixture(scope="module")
def small(build):
    notebooks = "https://github.com/owner/name/blob/built"
    repository = "https://example.org/a/b"
    built = build(PAGES, SITE_URL=ADDRESS, REPOSITORY_URL=repository, NOTEBOOKS_URL=notebooks)
    assert built.returncode == 0, built.stdout
    return built.site


def test_blocks_of_a_page_share_their_names_and_sentences_say_what_they_found(small):
    page = html_of(small, "page.md")
    assert "It is 42" in page
    assert "The pair is\nsmaller." in page


def test_a_claim_leads_to_how_it_is_known_and_the_index_counts_it(small):
    page = html_of(small, "page.md")
    mark = r'<a class="wq-claim__mark" href="#known-two-and-two"[^>]*>computed</a>'
    claim = r'<div class="wq-claim" id="claim-two-and-two">\s*<p>Two and two are four. '
    assert re.search(claim + mark, page)
    folded = page.partition('<details class="wq-known" id="how-it-is-known">')[2]
    assert (
        '<li id="known-two-and-two"><a href="#claim-two-and-two">Two and two are four.</a> '
        "Euclid. Covers: one sum.</li>"
    ) in folded.partition("</details>")[0]
    known = r'<a href="\.\./page/#how-it-is-known">A page</a></td>\s*<td[^>]*>1</td>'
    assert re.search(known, html_of(small, "claims.md"))
    places = json.loads((small / "assets" / "claims.json").read_text())
    assert places == {"page/": ["claim-two-and-two"]}
    assert "wq-known" not in html_of(small, "index.md")


def test_a_question_without_scripts_has_its_answer_in_a_fold_out(small):
    page = html_of(small, "test.md")
    assert re.search(r"<legend><span[^>]*>1</span> How many are <.*<math", page)
    assert re.search(r'<li class="wq-right"><label><input [^>]*><span><code>2</code></span>', page)
    assert page.count('class="wq-right"') == 1
    folded = page.partition('<details class="wq-solution">')[2].partition("</details>")[0]
    assert "<strong>B: <code>2</code>.</strong> Count." in folded
    assert '<li data-choice="0">A: This is one of 2.</li>' in folded
    assert '<a class="wq-again" href="../page/#two">A page</a>' in folded
    on_paper = page.partition('<section class="wq-key"')[2].partition("</section>")[0]
    said = "<strong>B: <code>2</code>.</strong> Count. A: This is one of 2. C: One more."
    assert said in on_paper


def test_what_people_type_is_found_and_stands_on_no_page(small):
    shown = [path for path in small.rglob("*") if path.suffix in {".html", ".md", ".txt"}]
    assert shown
    assert not [path for path in shown if "to a zeppelin" in path.read_text()]
    assert "to a zeppelin" in (small / search.ADDRESS).read_text()


def test_a_copy_has_the_formulas_and_whole_addresses(small):
    copy = (small / "sub" / "page" / "index.md").read_text()
    assert f"## [A part]({ADDRESS}sub/page/#part)" in copy
    assert f"[Home]({ADDRESS}#there)" in copy
    assert "Q[i] = X_Q @ W_Q[i]" in copy
    assert "In `Q W_i^Q`." in copy
    assert f"A part]({ADDRESS}sub/page/#part)" in (small / copies.FULL).read_text()
    robots = (small / "robots.txt").read_text()
    assert f"Sitemap: {ADDRESS}sitemap.xml" in robots
    assert f"{ADDRESS}llms.txt" in robots
    sitemap = ElementTree.fromstring((small / "sitemap.xml").read_text())
    listed = sitemap.iter("{http://www.w3.org/1999/xhtml}link")
    names = [name.removesuffix(".md") for name in PAGES if name.endswith(".md")]
    assert sorted(each.get("href") for each in listed) == sorted(
        f"{ADDRESS}{name.removesuffix('index')}{'/' * (not name.endswith('index'))}index.md"
        for name in names
    )


def test_a_link_to_a_page_is_shown_with_its_title_and_a_picture(small):
    page = html_of(small, "index.md")
    assert '<meta property="og:title" content="Is 6 × 7 = 42?">' in page
    assert '<meta property="og:description" content="What it says.">' in page
    assert f'"og:image" content="{ADDRESS}assets/preview.png"' in page
    assert (small / "assets" / "preview.png").read_bytes().startswith(b"\x89PNG")


def test_the_foot_of_a_page_opens_the_form_for_what_is_wrong(small):
    form = r'<a href="([^"]*)">Something wrong on this page\?</a>'
    [address] = re.findall(form, html_of(small, "index.md"))
    parts = urlsplit(unescape(address))
    assert (parts.hostname, parts.path) == ("example.org", "/a/b/issues/new")
    assert parse_qs(parts.query) == {"template": [FORM.name], "page": ["Is 6 × 7 = 42?"]}
    assert "page" in {field.get("id") for field in yaml.safe_load(FORM.read_text())["body"]}


def test_a_page_shows_the_line_that_installs_and_its_notebook_in_colab(small):
    """They stand there without a script."""
    page = html_of(small, "threads/one.md")
    [line] = re.findall(f"<code>pip install {ADDRESS}(.*?)</code>", page)
    assert (small / line.replace("%2B", "+")).is_file()
    colab = "https://colab.research.google.com/github/owner/name/blob/built/threads/one.ipynb"
    assert f'<a href="{colab}">' in page
    assert "pip install" not in html_of(small, "index.md")
