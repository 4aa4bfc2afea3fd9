"""Blocks that run on a real library, `python library="keras"`, and what they printed there.

The site is built where no library is installed, so these do not run while it is. What they print
is recorded by tests/truth/record.py, and tests/truth/test_shown.py runs them again.
"""

from collections.abc import Iterator

from qkv_site.markdown import claims
from qkv_site.markdown.blocks import Block


def printed(block: Block) -> str | None:
    """What a block printed when it last ran; None if it has not run as it stands."""
    found = (
        each["text"]
        for each in claims.last_run().get("printed", ())
        if (each["layout"], each["code"]) == (block.library, block.code)
    )
    return next(found, None)


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
    return (
        f"{fence}python\n{block.code}{fence}\n\n"
        f'{fence}{{.text data-search-exclude=""}}\n{printed(block) or ""}{fence}\n\n'
        f"{ran}\n{{ .wq-ran }}\n"
    )
