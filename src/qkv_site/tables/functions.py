r"""What each attention function of a library takes and does, as Markdown: made from data."""

import re
from collections.abc import Callable, Iterable

from qkv_site.markdown.tables import table
from qkv_site.page import PAGE

# The test of each property.
_TESTS = {
    "axes": "takes-its-sources-in-the-order-and-the-axes-of-the-table",
    "causal": "the-causal-mask-of-an-attention-function-is-aligned-as-the-table-says",
    "floats": "a-mask-of-ones-and-zeros-as-floats-is-added-or-read-or-refused",
    "groups": "fewer-heads-of-keys-are-served-as-the-table-says",
    "nothing": "a-query-that-may-see-nothing-gets-what-the-table-says",
    "shape": "a-mask-of-an-attention-function-has-the-axes-of-the-table",
    "true": "true-in-a-mask-of-an-attention-function-means-what-the-table-says",
}
_TESTS["axes"] = f"an-attention-function-{_TESTS['axes']}"
_AXES = {"width": "h·d_k (a source)", "any": "any width (a source)", "d": "d_k"}
_ALIGNED = {"start": "at the first key", "end": "at the last key", "": ""}
_NOTHING = {"mean": "the mean of the values"}
_NONE = "—"


def functions() -> list[dict]:
    """The functions of `docs/libraries/attention-functions.toml`."""
    file = PAGE.get().site.data("libraries/attention-functions.toml")
    return [file["usual"] | function for function in file["function"]]


def sources() -> str:
    """For each function the order and the axes of its sources, its scale, and fewer heads."""
    return _of_each(
        ("order", "axes of the queries", "scale", "fewer heads of keys"),
        lambda function: (
            _checked(function, "axes", ", ".join(name[0] for name in function["order"])),
            _checked(function, "axes", _axes(function["axes"])),
            _checked(function, "axes", function["scale"]),
            _checked(function, "groups", _option(function["groups"])),
        ),
    )


def masks() -> str:
    """For each function how it reads a mask."""
    return _of_each(
        ("True in a mask", "its axes", "a mask of 1.0 and 0.0"),
        lambda function: (
            _checked(function, "true", _code(function["mask"], function["true"])),
            _checked(function, "shape", function.get("mask_axes", "")),
            _checked(function, "floats", function["floats"]),
        ),
    )


def hidden() -> str:
    """For each function its causal mask, and what a query gets that sees nothing."""
    return _of_each(
        ("causal mask", "a query that sees no key"),
        lambda function: (
            _checked(function, "causal", _code(function["ask"], _ALIGNED[function["causal"]])),
            _checked(function, "nothing", _NOTHING.get(function["nothing"], function["nothing"])),
        ),
    )


def letters() -> str:
    """For each function the letters with which its documentation writes the sizes."""
    sizes = "batch", "queries", "keys", "heads", "width"
    return _of_each(
        ("batch", "queries", "keys", "heads", "width of a head"),
        lambda function: (
            f"`{letter}`" if letter else _NONE for letter in map(function["letters"].get, sizes)
        ),
    )


def _of_each(head: tuple[str, ...], cells: Callable[[dict], Iterable[str]]) -> str:
    """A table with a row for each function."""
    rows = ((_name(function), *cells(function)) for function in functions())
    return table(("function", *head), rows)


def read_in() -> str:
    """Where the functions were read that no test runs, as a list."""
    return "\n".join(
        f"- **`{function['name']}`** ({function['of']}): {function['read']}.\n"
        f"  {{ #{_id(function)} }}"
        for function in functions()
        if "read" in function
    )


def letters_read_in() -> str:
    """Where the letters were read, as a list."""
    return "\n".join(
        f"- `{function['name']}`: {function['letters_in']}."
        for function in functions()
        if function["letters_in"] != "as below"
    )


def _name(function: dict) -> str:
    return f"`{function['name']}`<br>{function['of']}"


def _id(function: dict) -> str:
    return "read-" + re.sub(r"\W+", "-", function["name"].lower()).strip("-")


def _axes(axes: str) -> str:
    return ", ".join(_AXES.get(axis, axis) for axis in axes.split())


def _code(argument: str, meaning: str) -> str:
    """An argument and what it means, or what there is of it."""
    return ": ".join(filter(None, (f"`{argument}`" if argument else "", meaning)))


def _option(words: str) -> str:
    return f"`{words}`" if "=" in words else words


def _checked(function: dict, what: str, text: str) -> str:
    """A cell that leads to its check."""
    if not text:
        return _NONE
    if "read" in function:
        return f"[{text}](#{_id(function)})"
    return f"[{text}](../claims.md#test-{_TESTS[what]})"
