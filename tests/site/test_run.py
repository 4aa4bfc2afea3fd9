"""The blocks of a page share their names, and nothing of them outlasts the page."""

import gc

import pytest
from markdown import Markdown

from qkv_site.markdown import current, run

PAGE = """# A page

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
    current.begin("page.md", text)
    return Markdown(extensions=["qkv_site.markdown.run"]).convert(text)


@pytest.mark.parametrize("last", ["", "1 / 0", "raise SystemExit"])
def test_a_page_leaves_no_value_behind(last):
    render(PAGE.format(last=last))
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each).__name__ == "OnAPage"]


def test_a_page_that_fails_has_not_printed_what_it_printed_before():
    assert "3 names" in render(PAGE.format(last=""))
    assert run.printed("page.md") == ["", "3 names\n"]
    assert "ZeroDivisionError" in render(PAGE.format(last="1 / 0"))
    assert run.printed("page.md") == []
