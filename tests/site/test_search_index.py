"""The index of the search: what stands in it of a page."""

import json
from types import SimpleNamespace

import pytest
from mkdocs.utils.meta import get_data

from qkv_site.page import PAGE, parse
from qkv_site.parts import asked
from qkv_site.tables import search

HTML = """<h1 id="a">A</h1><p>First <math><msub><mi>d</mi><mi>k</mi></msub></math>.</p>
<h2 id="b">B<a class="headerlink" href="#b">¶</a></h2>
<div class="wq-claim" id="claim-c"><p>It holds. <a class="wq-claim__mark" href="#">computed</a></p>
<pre><code>in_proj_weight = nn.Linear(3)</code></pre></div>
<table><tr><th>one</th><th>two</th></tr><tr><td>1<br>one</td><td>2</td></tr></table>"""
QUESTIONS = """<h1>Q</h1><ul><li><a href="../page/#claim-c">Does it <em>hold</em>?</a> Yes.
<a class="wq-aside" href="#">check</a></li>
<li><p><a href="../page/">What?</a> That.</p></li></ul>"""


def page(name, content, **meta):
    file = SimpleNamespace(src_uri=f"{name}.md")
    return SimpleNamespace(file=file, content=content, title=name, url=f"{name}/", meta=meta)


def written(*pages, **texts):
    """The index, and the faults, of pages whose files say this."""
    index, faults = search.Index(), []
    for each in pages:
        name = each.file.src_uri
        faults += index.add(each, parse(name, texts.get(name.removesuffix(".md"), "")))
    assert faults == []
    return json.loads(index.written())


def test_a_section_is_a_heading_with_its_words_and_the_names_in_its_code():
    data = written(page("page", HTML, description="About it.", tags=["tag"]))
    assert data["pages"] == [{"url": "page/", "title": "page", "about": "About it.", "tags": "tag"}]
    first, second = data["sections"]
    assert first == [0, "", "A", "First d_k.", "", []]
    assert second[:4] == [0, "b", "B", "It holds.\none · two\n1, one · 2"]
    assert second[4].split() == ["in_proj_weight", "nn.Linear"]


@pytest.mark.parametrize("tag", ["<br>", "<br/>", '<img src="x"/>', "<hr>"])
def test_what_says_nothing_ends_where_its_element_does(tag):
    html = f'<h1>A</h1><p>First.<span class="wq-aside">{tag} silent</span> Then.</p>'
    [[*_, text, _, _]] = written(page("page", html))["sections"]
    assert text == "First. Then."


def test_a_question_leads_to_the_section_that_has_its_anchor():
    data = written(page("page", HTML), page("questions", QUESTIONS))
    leading = {(number, anchor): lines for number, anchor, *_, lines in data["sections"]}
    assert leading == {
        (0, ""): ["What?", "What? That."],
        (0, "b"): ["Does it hold?", "Does it hold? Yes."],
        (1, ""): [],
    }


ASKED = """# A

First.

```asked
a b
```

## B { #b }

```asked
c

  d
```
"""


def test_what_people_type_leads_to_its_page_and_its_heading():
    data = written(page("page", HTML), page("other", HTML), page=ASKED)
    assert [lines for *_, lines in data["sections"]] == [["a b"], ["c", "d"], [], []]


def test_a_line_may_name_a_heading_that_a_block_writes():
    data = written(page("page", HTML), page='# A\n\n```asked id="b"\na b\n```\n')
    assert [lines for *_, lines in data["sections"]] == [[], ["a b"]]


@pytest.mark.parametrize(
    ("more", "line", "fault"),
    [
        ('\n```asked id="c"\ne\n```\n', 17, "lines for 'c'; the page's headings are b"),
        ("\n## C\n\n```asked\ne\n```\n", 19, "the heading above has no id"),
        ("\n```asked\n\n```\n", 17, "no line: expected what people type"),
        ("\n```asked\ne\na b\n```\n", 19, "'a b' stands on this page twice"),
        (f"\n```asked\n{'e' * 90}\n```\n", 18, "has 90 signs: expected fewer than 90"),
        ('\n```asked in="b"\ne\n```\n', 17, "unknown option 'in': expected one of 'id'"),
    ],
)
def test_what_leads_nowhere_or_says_nothing_new_is_named_with_its_line(more, line, fault):
    read = parse("page.md", ASKED + more)
    found = [each for fence, _ in asked.leading(read) for each in fence.faults(read)]
    found += search.Index().add(page("page", HTML), read)
    [(number, said)] = [(each.line, each.message) for each in found]
    assert number == line
    assert fault in said


def test_a_build_stops_at_lines_that_lead_nowhere_and_shows_none(build):
    text = "# Home\n\n## B { #b }\n\nWords.\n\n```asked\nto a zeppelin\n```\n"
    built = build({"index.md": f'{text}\n```asked id="nowhere"\nto c\n```\n'})
    assert built.returncode == 1, built.stdout
    assert "index.md:11: lines for 'nowhere'; the page's headings are b" in built.stdout
    built = build({"index.md": text})
    assert built.returncode == 0, built.stdout
    shown = [path for path in built.site.rglob("*") if path.suffix in {".html", ".md", ".txt"}]
    assert shown
    assert not [path for path in shown if "to a zeppelin" in path.read_text()]
    assert "to a zeppelin" in (built.site / search.ADDRESS).read_text()


def test_a_page_may_be_left_out_but_for_its_title():
    data = written(page("page", HTML, search={"exclude": True}))
    assert data["sections"] == [[0, "", "A", "", "", []]]


def test_a_page_says_no_more_of_the_search_than_that():
    for path in sorted(PAGE.get().site.docs.rglob("*.md")):
        _, meta = get_data(path.read_text())
        assert meta.get("search", {"exclude": True}) == {"exclude": True}, path
