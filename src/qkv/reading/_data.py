"""What the reader knows, as data."""

import tomllib
from importlib.resources import files

DATA, MESSAGES = (
    tomllib.loads((files("qkv.reading") / f"{name}.toml").read_text("utf-8"))
    for name in ("data", "messages")
)
