"""Blocks that run on a real library, `python library="keras"`, and what they printed there.

The site is built where no library is installed, so these do not run while it is. What they print
is recorded by tests/truth/record.py, and tests/truth/test_shown.py runs them again.
"""

from hashlib import sha256

from qkv_site.markdown import claims
from qkv_site.page import Fence

_FENCE = "`" * 8
_WIDEST = 100


def printed(block: Fence) -> str | None:
    """What a block printed when it last ran; None if it has not run as it stands."""
    return claims.last_run().get("printed", {}).get(key(block))


def key(block: Fence) -> str:
    """What a block is recorded by; another text of its code is another block."""
    return f"{block.library}-{sha256(block.code.encode()).hexdigest()[:16]}"


def show(block: Fence) -> str:
    """Markdown of a block, what it printed, and where and when."""
    day = claims.last_run()["date"]
    ran = f"Run: {claims.ran_on(block.library)}, on {day.day} {day:%B %Y}. A test runs it again."
    said = printed(block)
    output = f"{shown(said)}\n\n" if said else ""
    return f"{_FENCE}python\n{block.code}{_FENCE}\n\n{output}{ran}\n{{ .wq-ran }}\n"


def shown(output: str) -> str:
    """What a block printed: as code, which scrolls, if any screen has room for its lines."""
    said = " .wq-said" * (max(map(len, output.split("\n"))) > _WIDEST)
    return f"{_FENCE}{{.text{said}}}\n{output}{_FENCE}"
