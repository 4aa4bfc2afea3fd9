r"""What each library takes and stores, as Markdown: made from the layouts' data."""

import re
from collections.abc import Iterator, Mapping
from itertools import groupby

from qkv import notation
from qkv.layouts import Layout, Stored, layouts
from qkv_site.markdown import claims

_NOT_IN_THE_PAPER = ("d_out", "d_source", "d_source_k", "d_source_v", "h_kv")
_DIRECTIONS = {
    "(out, in)": "The layer computes `x @ W.T`: a stored matrix is the transpose of the paper's.",
    "(in, out)": "The layer computes `x @ W`, as the paper does.",
}


def facts(name: str) -> str:
    """All that the data say about one library, as the middle of its page."""
    layout = layouts()[name]
    call = f"{layout.call}({', '.join(layout.arguments)})"
    remark = f", so that {layout.remark}" if layout.remark else ""
    return "\n\n".join(
        (
            _known(layout),
            "## What goes in { #goes-in }",
            f"`{call}`{remark}. {_sources(layout)}",
            "## What is stored { #stored }",
            *_stored(layout),
            "## Conventions { #conventions }",
            "\n".join(_conventions(layout)),
            "## What qkv.load refuses, and what it ignores { #refused }",
            *_limits(layout),
        )
    )


def comparison() -> str:
    """All libraries in one table."""
    rows = (
        (
            f"[{layout.title}]({layout.name}.md)",
            f"`{', '.join(layout.arguments)}`",
            f"`{query.name}`<br>${shape(query)}$ {layout.convention}<br>{_packing(query)}",
            _biases(layout),
            _scaling(layout),
            known_from(layout),
        )
        for layout in layouts().values()
        for query in [holding("W_Q", layout)]
    )
    head = "library", "arguments", "where W_Q is stored", "biases", "scale", "known from"
    return f'<div class="wq-wide" markdown="1">\n\n{table(head, rows)}\n\n</div>'


def cited() -> str:
    """Where each library's layout was read, as a list of references."""
    return "\n".join(
        f"- [{layout.title}](libraries/{layout.name}.md): {layout.read_in}."
        for layout in layouts().values()
    )


def known_from(layout: Layout) -> str:
    """The versions that the library's layer last ran on, or the commit that was only read."""
    run = claims.last_run()
    if layout.name in run["layouts"]:
        return f"run: {claims.ran_on(layout.name)}"
    if layout.name in run["once"]:
        return f"run once: {run['once'][layout.name]}"
    return f"read: {layout.read_in.rpartition(', ')[2]}"


def recipe(stored: Stored, part: str) -> str:
    """NumPy that takes one head's part out of a stored array.

    A head is `i`; a head of keys and values that several heads of queries share is `j`. What
    all heads have in common, such as the output's bias, is taken whole.
    """
    sizes = [size for axis in stored.axes for size in axis]
    index = {"h": "i", "h_kv": "j", str(len(stored.parts)): str(stored.parts.index(part))}
    taken = re.sub("(, :)+$", "", ", ".join(index.get(size, ":") for size in sizes))
    left = [size for size in sizes if size not in index]
    wanted = [size for size in stored.part_axes if size not in index]
    return "".join(
        (
            f".reshape({', '.join(sizes)})" if len(sizes) > len(stored.axes) else "",
            f"[{taken}]" if len(left) < len(sizes) else "",
            ".T" if left != wanted else "",
        )
    )


def shape(stored: Stored) -> str:
    """The stored shape as LaTeX, in the paper's symbols."""
    axes = [r" \cdot ".join(map(_letter, axis)) for axis in stored.axes]
    return f"({axes[0]},)" if len(axes) == 1 else "(" + r",\; ".join(axes) + ")"


def _letter(size: str) -> str:
    """This site's letter for a size; the 3 of queries, keys and values is a number."""
    return size if size.isdigit() else notation.source("site").letter(notation.role(size))


def holding(part: str, layout: Layout) -> Stored:
    """The array that holds a part of `MultiHead`, in the first of a layout's forms."""
    return next(stored for stored in layout.forms[0].stored if part in stored.parts)


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _known(layout: Layout) -> str:
    kind, _, what = known_from(layout).partition(": ")
    if kind == "read":
        return f"*Read, not run: {what}.*"
    if kind == "run once":
        return (
            f"*Run once: {what}.* Later versions have no such layer. A test computes the output "
            "that was recorded from the weights that were."
        )
    day = claims.last_run()["date"]
    return (
        f"*Run: {what}, on {day.day} {day:%B %Y}.* A test loads the weights of the library's own "
        "layer and computes its output from them."
    )


def _sources(layout: Layout) -> str:
    if len(layout.sources) == 1:
        (source,) = layout.sources
        said = f"`{source}` is the source of all three, *before* the maps: "
        said += "{{X_Q}}, {{X_K}} and {{X_V}} in one."
    else:
        said = "These are sources, *before* the maps: {{X_Q}}, {{X_K}} and {{X_V}}."
    if "norm" in layout.outside:
        said += " The layer first normalises it, so what the maps receive is its norm."
    others = {name: what for name, what in layout.arguments.items() if name not in layout.sources}
    return " ".join((said, *(f"`{name}` is {what}." for name, what in others.items())))


def _stored(layout: Layout) -> Iterator[str]:
    for form in layout.forms:
        if form.when != "always":
            yield f"*{form.when}*"
        yield table(
            ("name", "shape", "what it holds, and how to take one head's out"),
            (
                (
                    f"`{stored.name}`",
                    f"${shape(stored)}$",
                    "<br>".join(_held(stored, part) for part in stored.parts),
                )
                for stored in form.stored
            ),
        )
    yield (
        "Read a recipe as NumPy after the stored array. The index `i` is a head"
        + (", `j` a head of keys and values" if layout.grouped else "")
        + "; a reshape splits what shares an axis, and the last one runs fastest."
    )
    for size in sorted(_sizes(layout).intersection(_NOT_IN_THE_PAPER)):
        yield f"${_letter(size)}$ is the {notation.role(size).meaning}."


def _held(stored: Stored, part: str) -> str:
    recipe_ = recipe(stored, part)
    head = next((f"[{i}]" for h, i in (("h", "i"), ("h_kv", "j")) if h in stored.part_axes), "")
    return f"`{part}{head}` = " + (f"`{recipe_}`" if recipe_ else "the whole of it")


def _conventions(layout: Layout) -> Iterator[str]:
    yield f"- **Orientation:** {layout.convention}. {_DIRECTIONS[layout.convention]}"
    yield f"- **Packed:** {_packing(holding('W_Q', layout))}."
    yield f"- **Biases:** {_biases(layout)}."
    yield f"- **Scale:** {_scaling(layout)}."
    if layout.square:
        yield f"- **Widths:** ${_letter('d_model')} = h\\,d_k$; the layer takes no other."
    if layout.grouped:
        yield f"- **Grouped heads:** ${_letter('h_kv')}$ may be less than $h$."
    if layout.rotary:
        yield "- **Rotated:** queries and keys are rotated (RoPE) between the map and the product."
    yield f"- **Read in:** {layout.read_in}."


def _limits(layout: Layout) -> Iterator[str]:
    if layout.refused:
        yield "`qkv.load` refuses weights in which one of these is stored:"
        yield _definitions(layout.refused)
    if layout.outside:
        yield "It ignores these, which are none of the layer's maps or biases:"
        yield _definitions(layout.outside)
    if layout.cannot:
        yield "The weights do not show whether the layer uses one of these:"
        yield "\n".join(f"- {each}" for each in layout.cannot)
    if layout.unknown:
        yield "`qkv.load` does not know these forms, and refuses what they store:"
        yield "\n".join(f"- {each}" for each in layout.unknown)
    if not (layout.refused or layout.outside or layout.cannot or layout.unknown):
        yield "Nothing: this layer stores the paper's matrices, and biases if it has them."


def _definitions(meanings: Mapping[str, str]) -> str:
    """A list of names and meanings, in which names with one meaning stand together."""
    return "\n".join(
        f"- {', '.join(f'`{name}`' for name in names)}: {meaning}"
        for meaning, names in groupby(meanings, key=meanings.get)
    )


def _sizes(layout: Layout) -> set[str]:
    return {
        size
        for form in layout.forms
        for array in form.stored
        for axis in array.axes
        for size in axis
    }


def _packing(query: Stored) -> str:
    axis = next(axis for axis in query.axes if "h" in axis)
    if len(axis) == 1:
        return "not packed: heads have an axis"
    order = r",\; ".join(axis)
    return f"$({order})$, " + ("with keys and values" if len(query.parts) > 1 else "alone")


def _biases(layout: Layout) -> str:
    parts = [part for array in layout.forms[0].stored if array.is_bias for part in array.parts]
    named = ", ".join(f"`{part}`" for part in ("b_Q", "b_K", "b_V", "b_O") if part in parts)
    return "none" if not parts else f"{named}, {layout.biases}"


def _scaling(layout: Layout) -> str:
    return layout.scaling.replace("1/sqrt(d_k)", r"$1/\sqrt{d_k}$")
