"""A page is read into parts, each in the one that it is indented below."""

import pytest
from markdown import Markdown

from qkv_site.page import Fence, Heading, Prose, Site, Unclosed, parse, writing
from qkv_site.parts.folds import Fold
from qkv_site.parts.tabs import Tab
from qkv_site.run import blocks_of

TEXT = """---
title: A page
---

# A { #a }

One.

??? note "A "fold""
    Two.

    === "Keras"

        ```python library="keras"
            x = 1
        # B { #b }
        ```

!!! tip

    Three.

- item

    ```formula in="site"
    X_Q
    ```

## C { #c .x }

said

# D
"""


def shown(parts):
    """The kinds of parts, and where each begins."""
    return [(type(part).__name__, part.line, shown(getattr(part, "parts", []))) for part in parts]


def test_parts_are_nested_and_know_their_lines():
    page = parse("page.md", TEXT)
    assert page.title == "A page"
    of_tab = [("Prose", 13, []), ("Python", 14, []), ("Prose", 18, [])]
    assert shown(page.parts) == [
        ("Heading", 5, []),
        ("Prose", 6, []),
        ("Fold", 9, [("Prose", 10, []), ("Tab", 12, of_tab)]),
        ("Fold", 19, [("Prose", 20, [])]),
        ("Prose", 23, []),
        ("Formula", 25, []),
        ("Prose", 28, []),
        ("Heading", 29, []),
        ("Prose", 30, []),
        ("Heading", 33, []),
        ("Prose", 34, []),
    ]
    fold, tip = (part for part in page.parts if isinstance(part, Fold))
    assert (fold.mark, fold.kind, fold.title) == ("???", "note", 'A "fold"')
    assert (tip.mark, tip.kind, tip.title) == ("!!!", "tip", "Tip")
    [tab] = (part for part in page.walk() if isinstance(part, Tab))
    assert tab.title == "Keras"
    python, formula = page.fences()
    assert python.given == {"library": "keras"}
    assert python.code == "    x = 1\n# B { #b }\n"
    assert (formula.language, formula.given, formula.code) == ("formula", {"in": "site"}, "X_Q\n")
    assert page.text.split("\n")[formula.line - 1 : formula.end - 1] == [
        '    ```formula in="site"',
        "    X_Q",
        "    ```",
    ]


def test_what_stands_below_a_heading_and_prose_where_it_is_in_the_file():
    page = parse("page.md", TEXT)
    assert page.text_of(page.below("c")).strip() == "said"
    assert page.text_of(page.below("a")).endswith("said\n")
    assert page.below("b") == []
    assert page.below("") == page.parts
    lines = page.prose().split("\n")
    assert lines[page.line_of("said") - page.start] == "said"
    assert "x = 1" not in page.prose()


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("```text\na\n ```\n~~~\n```\n", [Fence, Prose]),
        ("````text\n```\na\n```\n````\n", [Fence, Prose]),
        ("```text\na\n", [Unclosed, Prose]),
        ("#no heading\n\n???no fold\n", [Prose]),
        ("# One {#x}\n#\n", [Heading, Prose]),
    ],
)
def test_a_fence_ends_where_it_is_closed(text, kinds):
    parts = parse("page.md", text).parts
    assert len(parts) == len(kinds)
    assert all(map(isinstance, parts, kinds))


def test_each_line_of_each_page_is_in_one_part():
    for name, page in Site().pages.items():
        lines = [part.line for part in page.walk()]
        assert lines == sorted(lines), name
        begins = [page.start] + [part.end for part in page.parts]
        assert [part.line for part in page.parts] == begins[:-1], name
        assert begins[-1] == page.text.count("\n") + 2, name


TWO_BLOCKS = '# A page\n\n```python exec="on"\nkept = 3\n```\n\n```python exec="on"\n{}\n```\n'


@pytest.mark.parametrize(
    ("last", "shown", "printed"),
    [("", "3 names", ["", "3 names\n"]), ("1 / 0", "ZeroDivisionError", ["", None])],
)
def test_a_page_that_fails_has_not_printed_what_it_printed_before(last, shown, printed):
    text = TWO_BLOCKS.format(f"print(kept, 'names')\n{last}")
    with writing(parse("page.md", text)) as page:
        assert shown in Markdown(extensions=["qkv_site.write.html"]).convert(text)
    assert [getattr(block.printed, "text", None) for block in blocks_of(page)] == printed
