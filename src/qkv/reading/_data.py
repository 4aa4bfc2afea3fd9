"""What the reader knows, as data, and the tables that follow from it and from other rooms."""

import tomllib
from functools import cache
from importlib.resources import files

DATA, MESSAGES = (
    tomllib.loads((files("qkv.reading") / f"{name}.toml").read_text("utf-8"))
    for name in ("data", "messages")
)


@cache
def tables() -> dict:
    """Roles, steps, letters and the names of weights."""
    from qkv.reading import _tables  # which reads letters by the grammar that goes by the data

    return _tables.tables()
