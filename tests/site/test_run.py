"""The blocks of a page share their names, and nothing of them outlasts the page."""

import gc

import pytest
from markdown import Markdown

from qkv_site.page import parse, writing
from qkv_site.run import blocks_of

TEXT = """# A page

```python exec="on"
class OnAPage: ...

names = [OnAPage() for _ in range(3)]
```

```python exec="on"
print(len(names), "names")
{last}
```
"""


def render(text):
    """The HTML of a page, and what its blocks printed."""
    with writing(parse("page.md", text)) as page:
        html = Markdown(extensions=["qkv_site.write.html"]).convert(text)
    return html, [getattr(block.printed, "text", None) for block in blocks_of(page)]


@pytest.mark.parametrize("last", ["", "1 / 0", "raise SystemExit"])
def test_a_page_leaves_no_value_behind(last):
    render(TEXT.format(last=last))
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each).__name__ == "OnAPage"]


def test_a_page_that_fails_has_not_printed_what_it_printed_before():
    html, printed = render(TEXT.format(last=""))
    assert "3 names" in html
    assert printed == ["", "3 names\n"]
    html, printed = render(TEXT.format(last="1 / 0"))
    assert "ZeroDivisionError" in html
    assert printed == ["", None]
