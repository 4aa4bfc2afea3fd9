"""Blocks that run on a real library, `python library="keras"`, and what they printed there.

The site is built where no library is installed, so these do not run while it is. What they print
is recorded by tests/truth/record.py, and tests/truth/test_shown.py runs them again.

Where a check is there in several frameworks, each has a tab, `=== "Keras"`. Tabs of the same title
are linked: who chooses one has chosen it on all pages.
"""

import re
from collections.abc import Iterator
from hashlib import sha256

from qkv_site.markdown import blocks, claims
from qkv_site.markdown.blocks import Block

# What may stand above a tab, in this order, and the layout whose library runs its blocks.
TABS = {"NumPy": "", "PyTorch": "pytorch", "Keras": "keras", "Flax": "flax"}
_TAB = re.compile(
    r'^(?P<indent> *)===[+!]* "(?P<title>[^"\n]*)" *\n(?P<body>(?:(?:(?P=indent) {4}.*)?\n)*)',
    re.MULTILINE,
)


def tabs(text: str) -> Iterator[tuple[int, str, list[Block]]]:
    """The tabs of a page: the line of each, its title and its blocks of Python."""
    for tab in _TAB.finditer(text):
        found = [block for block in blocks.find(tab["body"]) if block.language == "python"]
        yield text.count("\n", 0, tab.start()) + 1, tab["title"], found


def tab_faults(text: str) -> Iterator[tuple[int, str]]:
    """Say, with its line, which tab shows something else than what its title promises."""
    for line, title, found in tabs(text):
        if title not in TABS:
            yield line, f"a tab {title!r}: expected one of {', '.join(map(repr, TABS))}"
        elif not found:
            yield line, f"the tab {title!r} has no block that ran"
        elif strange := {block.library for block in found} - {TABS[title]}:
            ran = " and ".join(each or "this site's NumPy" for each in sorted(strange))
            yield line, f"the tab {title!r} has a block of {ran}"


def printed(block: Block) -> str | None:
    """What a block printed when it last ran; None if it has not run as it stands."""
    return claims.last_run().get("printed", {}).get(key(block))


def key(block: Block) -> str:
    """What a block is recorded by; another text of its code is another block."""
    return f"{block.library}-{sha256(block.code.encode()).hexdigest()[:16]}"


def faults(block: Block) -> Iterator[str]:
    """Say that a block has not run as it stands."""
    if block.library and printed(block) is None:
        yield (
            f'library="{block.library}": the block has not run as it stands, '
            "tests/truth/record.py runs it"
        )


def show(block: Block) -> str:
    """Markdown of a block, what it printed, and where and when."""
    day = claims.last_run()["date"]
    ran = f"Run: {claims.ran_on(block.library)}, on {day.day} {day:%B %Y}. A test runs it again."
    fence = "`" * 8
    said = printed(block)
    output = f'{fence}{{.text data-search-exclude=""}}\n{said}{fence}\n\n' if said else ""
    return f"{fence}python\n{block.code}{fence}\n\n{output}{ran}\n{{ .wq-ran }}\n"
