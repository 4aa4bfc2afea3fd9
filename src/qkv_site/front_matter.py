"""The lines between `---` at the top of a page: what they may say, and what is wrong with them."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import yaml

_BLOCK = re.compile(r"---[ \t]*\n(?P<yaml>.*?\n)(?:---|\.\.\.)[ \t]*\n\n*", re.DOTALL)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_statements(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict)
        and each.keys() == {"id", "statement", "source"}
        and all(map(_is_text, each.values()))
        for each in value
    )


def _is_settings(value: Any) -> bool:
    return isinstance(value, dict)


_TEXT = (_is_text, "a text")
_TEXTS = (_is_texts, "a list of texts, [one, two]")
# What a page may say, how its value is told, and how it is called.
KEYS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "title": _TEXT,
    "description": _TEXT,
    "tags": _TEXTS,
    "styles": _TEXTS,
    "scripts": _TEXTS,
    "hide": _TEXTS,
    "symptoms": _TEXTS,
    "tests": _TEXTS,
    "map": (_is_text, "parts of the layer, as in W_Q[i] Q[i]"),
    "read": (_is_statements, "a list of statements, each with id, statement and source, all texts"),
    "search": (_is_settings, "settings, as in {exclude: true}"),
    "template": _TEXT,
}


def read(text: str) -> tuple[dict[str, Any], str, list[tuple[int, str]]]:
    """What a file says above its page, the page below it, and what is wrong with which line.

    An entry that is wrong is left out, so that nobody else has to look at it.
    """
    block = _BLOCK.match(text)
    if not block:
        return {}, text, []
    body = text[block.end() :]
    try:
        meta = _load(block["yaml"])
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        return {}, body, [(line, f"this is no YAML: {error.problem}")]
    if not isinstance(meta, dict):
        return {}, body, [(2, f"{meta!r}: expected lines such as title: ...")]
    faults = [*_faults(meta, block["yaml"])]
    wrong = {key for key, _, _ in faults}
    good = {key: value for key, value in meta.items() if key not in wrong}
    return good, body, [(line, message) for _, line, message in faults]


@cache  # a server reads all pages before one is saved
def _load(written: str) -> Any:
    return yaml.safe_load(written)


def _faults(meta: dict[str, Any], written: str) -> Iterator[tuple[str, int, str]]:
    """Each entry that is wrong, its line in the file, and why."""
    for key, value in meta.items():
        before, found, _ = f"\n{written}".partition(f"\n{key}:")
        line = before.count("\n") + 2 if found else 1
        if key not in KEYS:
            expected = ", ".join(sorted(KEYS))
            yield key, line, f"nothing reads {key!r}: expected one of {expected}"
        elif not KEYS[key][0](value):
            yield key, line, f"{key} is {value!r}: expected {KEYS[key][1]}"
