"""The index of the search: what stands in it of a page."""

import json
from types import SimpleNamespace

import pytest
from mkdocs.utils.meta import get_data

from qkv_site.markdown import current
from qkv_site.tables import search
from support import refuses

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


def written(*pages, **asked):
    index = search.Index({f"{name}.md": lines for name, lines in asked.items()})
    for each in pages:
        index.add(each)
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
    asked = {(number, anchor): asked for number, anchor, *_, asked in data["sections"]}
    assert asked == {
        (0, ""): ["What?", "What? That."],
        (0, "b"): ["Does it hold?", "Does it hold? Yes."],
        (1, ""): [],
    }


def test_what_people_type_leads_to_its_page_and_its_heading():
    data = written(page("page", HTML), page("other", HTML), page={"page": ["a b"], "b": ["c", "d"]})
    assert [asked for *_, asked in data["sections"]] == [["a b"], ["c", "d"], [], []]


def test_what_leads_to_no_heading_is_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match="lines for 'c'; the page's headings are page, b"):
        written(page("page", HTML), page={"c": ["a b"]})


def test_a_heading_cannot_have_the_id_that_stands_for_its_page():
    html = HTML.replace('<h2 id="b">', '<h2 id="page">')
    with pytest.raises(ValueError, match=r"a heading has the id 'page', which asked\.toml has"):
        written(page("page", html), page={"page": ["a b"]})


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('["index.md"\n', "at line 1"),
        ('page = "a b"\n', "page is 'a b', expected a table"),
        ('["index.md"]\npage = ["a b"]\n', "index.md is {'page': ['a b']}, expected a table"),
    ],
)
def test_a_faulty_file_of_what_people_type_is_named(tmp_path, text, fault):
    path = tmp_path / "how-to" / "asked.toml"
    path.parent.mkdir()
    path.write_text(text)
    with refuses(f"{path}: ", fault):
        search.asked(tmp_path)


def test_an_empty_line_and_an_indented_one_are_what_people_type_alone(tmp_path):
    (tmp_path / "asked.toml").write_text('["index.md"]\npage = """\nx\n\n  y\n"""\n')
    assert search.asked(tmp_path) == {"index.md": {"page": ["x", "y"]}}


def test_a_build_names_the_page_and_the_heading_that_are_not_there(build):
    lines = '["index.md"]\nnowhere = "a b"\n["gone.md"]\npage = "c d"\n'
    built = build({"index.md": "# Home\n\n## B { #b }\n", "asked.toml": lines})
    assert built.returncode == 1, built.stdout
    assert (
        "index.md: asked.toml has lines for 'nowhere'; the page's headings are page, b"
        in built.stdout
    )
    assert "gone.md: asked.toml has lines for this page, which there is not" in built.stdout
    assert not (built.site / "asked.toml").exists()


def test_what_people_type_is_short_and_stands_once_on_a_page():
    for name, lines in search.asked(current.docs).items():
        said = [line for of_heading in lines.values() for line in of_heading]
        assert said, name
        assert len(said) == len({*said}), (name, said)
        for line in said:
            assert line == " ".join(line.split()), (name, line)
            assert 0 < len(line) < 90, (name, line)


def test_a_page_may_be_left_out_but_for_its_title():
    data = written(page("page", HTML, search={"exclude": True}))
    assert data["sections"] == [[0, "", "A", "", "", []]]


def test_a_page_says_no_more_of_the_search_than_that():
    for path in sorted(current.docs.rglob("*.md")):
        _, meta = get_data(path.read_text())
        assert meta.get("search", {"exclude": True}) == {"exclude": True}, path
