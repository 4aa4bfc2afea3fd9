"""At the shell: `qkv read TEXT` prints what TEXT is, and `qkv PATH` a checkpoint's layers."""

import sys
from collections.abc import Sequence

from qkv.layouts import _shell
from qkv.reading._read import read


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was typed, or the attention layers of a checkpoint; return the exit status."""
    given = [*(sys.argv[1:] if arguments is None else arguments)]
    if given[:1] != ["read"]:
        return _shell.main(given)
    try:
        print(read(" ".join(given[1:])))
    except ValueError as error:
        print(f"qkv: {error}", file=sys.stderr)
        return 1
    return 0
