"""The index of the search: what stands in it of a page."""

import json

import pytest

from qkv_site import run
from qkv_site.figures import Printed
from qkv_site.page import Site, parse
from qkv_site.parts import asked
from qkv_site.write import search

PAGE = """# A

First {{d_k}}, $W^{QK}_i$ and **bold *words***.

## B *c* { #b }

```python exec="on" source="above" result="text" claim="c" title="It `a*b` holds."
in_proj_weight = nn.Linear(3)
```

| one | two |
| --- | --- |
| 1<br>one `a | b` | 2 \\| 3 |

Its rank is
48. And so on.

- item
  of two lines
- [a link](b.md){ .wq-aside }

??? note "Fold"

    > Inside. { #inside }
"""
QUESTIONS = """# Q

- [Does it *hold*?](page.md#claim-c) Yes, [it
  does](page.md#b).
- [What?](page.md) That.
"""
ADDRESSES = {"page.md": "page/", "other.md": "other/", "questions.md": "questions/", "b.md": "b/"}


def written(printed=(), **texts):
    """The index of pages that say this, the blocks of which have printed that."""
    index, faults = search.Index(), []
    for name, text in texts.items():
        page = parse(f"{name}.md", text)
        for block, said in zip(run.blocks_of(page), printed, strict=False):
            block.printed = Printed(said)
        faults += index.add(page, ADDRESSES)
    assert faults == []
    return json.loads(index.written())


def test_a_section_is_a_heading_with_its_words_and_the_names_in_its_code():
    about = "---\ntitle: Page\ndescription: About it.\ntags: [tag]\n---\n\n"
    data = written(["3\n"], page=about + PAGE)
    assert data["pages"] == [{"url": "page/", "title": "Page", "about": "About it.", "tags": "tag"}]
    first, second = data["sections"]
    assert first == [0, "", "A", "First d_k, W_i^{Q K} and bold words.", "", []]
    assert second[:3] == [0, "b", "B c"]
    assert second[3].splitlines() == [
        "It a*b holds.",
        "one · two",
        "1, one a | b · 2 | 3",
        "Its rank is 48. And so on.",
        "item of two lines",
        "a link",
        "Fold",
        "Inside.",
    ]
    assert second[4].split() == ["in_proj_weight", "nn.Linear"]


def test_what_a_block_prints_as_markdown_is_read_and_a_heading_of_it_is_a_section():
    text = '# A\n\n```python exec="on"\nprint(1)\n```\n'
    data = written(["Words.\n\n## B { #b }\n\n```toml\na = 1\n```\n"], page=text)
    assert data["sections"] == [[0, "", "A", "Words.", "", []], [0, "b", "B", "", "a", []]]


def test_the_reference_has_a_section_for_each_name_and_each_method():
    data = written(page="# A\n\n::: qkv.masks\n\n::: qkv.costs\n\n::: qkv.MultiHead\n")
    found = {anchor: (title, text, code) for _, anchor, title, text, code, _ in data["sections"]}
    assert found["qkv.masks.causal"][0] == "causal"
    assert "the last query" in found["qkv.masks.causal"][1]
    assert found["qkv.costs.Factors"][1].startswith("Names of sizes")
    assert found["qkv.MultiHead"][0] == "qkv.MultiHead"
    assert "d_model" in found["qkv.MultiHead.random"][2].split()


def test_a_question_leads_to_the_section_that_has_its_anchor():
    data = written([""], page=PAGE, questions=QUESTIONS)
    leading = {(number, anchor): lines for number, anchor, *_, lines in data["sections"]}
    assert leading == {
        (0, ""): ["What?", "What? That."],
        (0, "b"): ["Does it hold?", "Does it hold? Yes, it does."],
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


def test_what_people_type_leads_to_its_page_and_its_heading_which_a_block_may_write():
    data = written(page=ASKED, other="# A\n\n## B\n")
    assert [lines for *_, lines in data["sections"]] == [["a b"], ["c", "d"], [], []]
    text = '# A\n\n```python exec="on"\nprint(1)\n```\n\n```asked id="b"\na b\n```\n'
    data = written(["## B { #b }\n"], page=text)
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
    found += search.Index().add(read, ADDRESSES)
    [(number, said)] = [(each.line, each.message) for each in found]
    assert number == line
    assert fault in said


def test_a_page_may_be_left_out_but_for_its_title_and_says_no_more_of_the_search():
    data = written(page=f"---\nsearch: {{exclude: true}}\n---\n\n{PAGE}")
    assert data["sections"] == [[0, "", "A", "", "", []]]
    for name, page in Site().pages.items():
        assert page.meta.get("search", {"exclude": True}) == {"exclude": True}, name
