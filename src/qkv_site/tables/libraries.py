r"""What each library takes and stores, as Markdown: made from the layouts' data."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby

from qkv import notation
from qkv.layouts import Form, Layout, Stored, layouts
from qkv_site.markdown import claims
from qkv_site.markdown.tables import fitting, table
from qkv_site.page import PAGE
from qkv_site.tables import slices

_NOT_IN_THE_PAPER = ("d_out", "d_source", "d_source_k", "d_source_v", "h_kv")
_INDEX = {"h": "i", "h_kv": "j"}  # what a head is called in Python
_READ = re.compile(r"\[Read\]\(\.\./claims\.md#([\w-]+)\)")
_DIRECTIONS = {
    "(out, in)": "The layer computes `x @ W.T`. A stored matrix is the transpose of the paper's.",
    "(in, out)": "The layer computes `x @ W`, as the paper does.",
}
_ORDERS = {
    ("h",): "The heads have an axis of their own.",
    ("h", "d_k"): "The heads share one axis. They follow each other.",
    ("2", "h", "d_k"): "Another array holds two weights: first the keys' for all heads, then the "
    "values'.",
    ("3", "h", "d_k"): "One array holds three weights: first the queries' for all heads, then the "
    "keys', then the values'.",
    ("h+h_kv+h_kv", "d_k"): "One array holds three weights: first the queries' for all heads, then "
    "the keys', then the values', which may have fewer heads.",
    ("h_kv", "h/h_kv+1+1", "d_k"): "One array holds three weights, group after group. A group is "
    "the heads of queries that share one head of keys and values: first the weights of these "
    "queries, then one for keys, then one for values.",
    ("4", "3", "h/4", "d_k"): "One array holds three weights, in four blocks. For each quarter of "
    "the heads, first the queries' weights, then the values', then the keys'.",
    ("h", "3", "d_k"): "One array holds three weights, head after head. For each head, first the "
    "queries' weight, then the keys', then the values'.",
}


def one_head(name: str) -> str:
    """Where one head's matrix is, and what goes in: the first part of a library's page."""
    layout = layouts()[name]
    return "\n\n".join(
        (
            _known(layout),
            "## Where is the matrix of one head? { #one-head }",
            _inside(layout),
            str(slices.figure(layout)),
            "## What goes in? { #goes-in }",
            _goes_in(layout),
        )
    )


def facts(name: str) -> str:
    """What is stored, under which conventions, and what is refused: the second part."""
    layout = layouts()[name]
    return "\n\n".join(
        (
            "## What is stored? { #stored }",
            *_stored(layout),
            "## How is it computed? { #conventions }",
            "\n".join(_conventions(layout)),
            "## What does qkv.load refuse, and what does it ignore? { #refused }",
            *_limits(layout),
        )
    )


def names() -> str:
    """The names of all layouts, each leading to its row."""
    return " · ".join(f"[{own['name']}](#{name})" for name, own in entries().items())


def rows() -> str:
    """Every layout: what one compares, and all else in a fold, or on a page of its own."""
    written = "\n\n".join(_row(layout) for layout in layouts().values())
    return f'<div class="wq-layouts wq-fits" markdown="1">\n\n{written}\n\n</div>'


def arguments() -> str:
    """For each library, what goes in, in the order of the call."""
    listed = (
        (_link(layout), ", ".join(f"`{name}`" for name in layout.arguments))
        for layout in layouts().values()
    )
    return fitting(("library", "arguments, in their order"), listed)


def entries() -> dict[str, dict]:
    """What `docs/libraries/layouts.toml` says of each layout beside its data."""
    return PAGE.get().site.data("libraries/layouts.toml")


def address(name: str) -> str:
    """Where the site tells of a layout: a page beside those of the libraries, or a part of one."""
    return entries()[name].get("page", f"index.md#{name}")


def _link(layout: Layout) -> str:
    return f"[{entries()[layout.name]['name']}]({address(layout.name).removeprefix('index.md')})"


def _row(layout: Layout) -> str:
    """What is compared stands open, whatever else there is in a fold."""
    own = entries()[layout.name]
    query, *others = _queries(layout)
    scaling = layout.scaling.replace("sqrt(d_k)", "√d_k")
    compared = (
        f"`W_Q[i]`: {query}{''.join(f'; {other}' for other in others)}",
        f"{layout.convention}. {' '.join(_by_form(layout, lambda form: _order(layout, form)))}",
        f"{_biases(layout)} {scaling}",
        *(("It can rotate queries and keys (RoPE).",) if layout.rotary else ()),
        f"{layout.title}; {known_from(layout)}",
    )
    parts = [f"### {own['name']} {{ #{layout.name} }}", "\n".join(f"- {each}" for each in compared)]
    if "page" in own:
        parts.append(f"What goes in, and what goes wrong: [{own['name']}]({own['page']})")
    if "#" in own.get("page", "#"):
        parts.append(_opened(layout, own))
    return "\n\n".join(parts)


def _opened(layout: Layout, own: dict) -> str:
    """What a row opens to, below its question."""
    question = own.get("question", "What is stored, and what goes in?")
    block = f'```python library="{layout.name}"\n{own["block"]}```' if "block" in own else ""
    parts = [
        '<details class="note" markdown="1">',
        f'<summary markdown="span">{question}</summary>',
        own.get("short", ""),
        block,
    ]
    if traps := own.get("traps"):
        parts.append(f"**What goes wrong?**\n{{ #{layout.name}-traps }}")
        parts.append("\n".join(map(_trap, traps, traps.values())))
    parts += [
        f"**What goes in?** {_call(layout, letter='`{}`')}",
        "**What is stored?**",
        *_arrays(layout, table, lambda array: f"`{array.shape}`"),
        _meanings(layout, "`{}`".format),
        "\n".join(_widths(layout, letter="`{}`".format)),
        "**What does qkv.load refuse, and what does it ignore?**",
        *_limits(layout),
    ]
    if "see" in own:
        parts.append(f"More: {own['see']}.")
    return "\n\n".join((*filter(None, parts), "</details>"))


def _trap(says: str, more: str) -> str:
    """What goes wrong, and how it is known; of what was read, the source."""
    read = claims.of_page(PAGE.get().site.pages["libraries/index.md"])
    sources = {claim.id: claim.source for claim in read}
    return f"- **{says}** {_READ.sub(lambda link: f'{link[0]}: {sources[link[1]]}', more)}"


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
    cut = ", ".join("-1" if "+" in size else _python(size) for size in sizes)
    index = _indices(stored, part)
    taken = re.sub("(, :)+$", "", ", ".join(index.get(size, ":") for size in sizes))
    left = [size for size in sizes if size not in index]
    wanted = [size for size in stored.part_axes(part) if size not in _INDEX]
    return "".join(
        (
            f".reshape({cut})" if len(sizes) > len(stored.axes) else "",
            f"[{taken}]" if len(left) < len(sizes) else "",
            ".T" if left != wanted else "",
        )
    )


def _indices(stored: Stored, part: str) -> dict[str, str]:
    """Where one head's part is, in each of the sizes that count heads or parts."""
    if stored.part_axes(part)[0] not in _INDEX:
        return {}
    head = _INDEX[stored.part_axes(part)[0]]
    terms = dict(zip(stored.paper_axes[0], stored.axes_of(part)[0], strict=True))
    counted = [size for size, term in terms.items() if term != "1"]
    index = {counted[0]: head}
    if len(counted) == 2:  # heads in groups or blocks, each of so many
        each = _python(terms[counted[1]])
        index = {counted[0]: f"{head} // ({each})", counted[1]: f"{head} % ({each})"}
    if stored.split in counted:
        before = stored.split.split("+")[: stored.parts.index(part)]
        index[stored.split] = " + ".join((*before, index[stored.split]))
    elif stored.split:
        place = stored.parts.index(part)
        index[stored.split] = str(place - len(stored.parts) * ("+" in stored.split))
    return index


def _python(size: str) -> str:
    return size.replace("/", " // ")


def shape(stored: Stored) -> str:
    """The stored shape as LaTeX, in the paper's symbols."""
    spelled = re.sub(r"[a-z]\w*", lambda size: _letter(size[0]), stored.shape)
    return spelled.replace("·", r" \cdot ").replace(", ", r",\; ")


def _letter(size: str) -> str:
    """This site's letter for a size."""
    return notation.source("site").letter(notation.role(size))


def holding(part: str, layout: Layout, form: Form | None = None) -> Stored:
    """The array that holds a part of `MultiHead` in a form: the first one, if none is given."""
    of_form = form or layout.forms[0]
    return next(stored for stored in of_form.stored if part in stored.parts)


def _by_form(layout: Layout, told: Callable[[Form], str]) -> list[str]:
    """What is told of the first form, and of each other one of which something else is."""
    first, *others = layout.forms
    said = {told(first): ""}
    for form in others:
        said.setdefault(told(form), f"*{form.when}:* ")
    return [case + words for words, case in said.items()]


def _queries(layout: Layout) -> list[str]:
    """Where W_Q of one head is, in each form that has a place of its own for it."""
    return _by_form(layout, lambda form: _taken(holding("W_Q", layout, form), "W_Q"))


def _known(layout: Layout) -> str:
    kind, _, what = known_from(layout).partition(": ")
    if kind == "read":
        return f"*Read, not run: {what}.*"
    if kind == "run once":
        return (
            f"*Run once: {what}.* A test computes the output that was recorded from the weights "
            "that were."
        )
    return (
        "Another test loads the weights of the library's own layer and computes its output from "
        "them, with NumPy alone."
    )


def _inside(layout: Layout) -> str:
    query, *others = _queries(layout)
    elsewhere = f" ({'; '.join(others)})" if others else ""
    return (
        f"**You need no linear layer before it.** The matrix of each head is inside: "
        f"{query} is {{{{site: W_Q[i]}}}}{elsewhere}. "
        "Python counts heads from 0, and the paper from 1: `i = 0` is its head 1. "
        f"In the picture, head {slices.MARKED + 1} is filled: `i = {slices.MARKED}`."
    )


def _goes_in(layout: Layout) -> str:
    received = "A source goes in as it is: the layer multiplies it by its own matrices."
    if "norm" in layout.outside:
        received += " The layer first normalises it, so what the maps receive is its norm."
    return _call(layout, received)


def _call(layout: Layout, received: str = "", letter: str = "{{{{site: {}}}}}") -> str:
    """How it is called, and what each argument is; between them, what becomes of a source."""
    call = f"{layout.call}({', '.join(layout.arguments)})"
    said = [f"You call `{call}`."]
    if layout.remark:
        said.append(f"{layout.remark[0].upper()}{layout.remark[1:]}.")
    for name, roles in layout.sources.items():
        *some, last = map(letter.format, roles)  # some texts have one letter
        letters = " and ".join(filter(None, (", ".join(some), last)))
        given = name.removesuffix("=...")
        said.append(
            f"Where `{given}` is given, it is {letters}."
            if given != name
            else f"`{name}` is {letters}."
        )
    said += filter(None, [received])
    others = {name: what for name, what in layout.arguments.items() if name not in layout.sources}
    return " ".join((*said, *(f"`{name}` is {what}." for name, what in others.items())))


def _arrays(layout: Layout, tabled: Callable, sized: Callable[[Stored], str]) -> Iterator[str]:
    """Of each form a table of its arrays, whose shapes are written in one of two ways."""
    for form in layout.forms:
        if form.when != "always":
            yield f"**{form.when}:**"
        held = ("<br>".join(_held(array, part) for part in array.parts) for array in form.stored)
        named = (f"`{array.name}`<br>{sized(array)}" for array in form.stored)
        yield tabled(("array and shape", "of one head"), zip(named, held, strict=True))
        if form.note:
            yield form.note


def _meanings(layout: Layout, letter: Callable[[str], str]) -> str:
    """What the sizes mean that the paper does not have."""
    named = sorted(layout.symbols.intersection(_NOT_IN_THE_PAPER))
    return " ".join(f"{letter(size)} is the {notation.role(size).meaning}." for size in named)


def _stored(layout: Layout) -> Iterator[str]:
    """Each array with its shape in the numbers of the picture and in letters."""
    sizes, query = slices.sizes_of(layout), holding("W_Q", layout)

    def sized(array: Stored) -> str:
        # A later form for sources of another width, or for grouped heads: the model's width, or as
        # many heads of keys as of queries, would be a wrong number.
        if {"d_source_k", "d_source_v", "h_kv"} & array.symbols - layout.forms[0].symbols:
            return f"${shape(array)}$"
        return f"`{array.shape_for(sizes)}`<br>${shape(array)}$"

    yield from _arrays(layout, fitting, sized)
    yield (
        f"Write what stands in the last column after the array: {_taken(query, 'W_Q')} is `W_Q` of "
        "head `i`. The numbers are those of a layer of 512 numbers with 8 heads"
        + (f", {sizes['h_kv']} of keys and values." if sizes["h_kv"] != sizes["h"] else ".")
        + (" A head of keys and values has the index `j`." if layout.grouped else "")
        + _on_reshape(layout)
    )
    yield _meanings(layout, lambda size: f"${_letter(size)}$")


def _on_reshape(layout: Layout) -> str:
    arrays = (array for form in layout.forms for array in form.stored)
    taken = "".join(recipe(array, part) for array in arrays for part in array.parts)
    if "reshape" not in taken:
        return ""
    said = " `reshape` cuts an axis that several sizes share into one axis for each of them."
    return said + " It computes the length that is written as `-1`." * ("-1, " in taken)


def _taken(array: Stored, part: str) -> str:
    """The array with the NumPy after it that takes one head's part out."""
    return f"`{array.name}{recipe(array, part)}`"


def _held(array: Stored, part: str) -> str:
    taken = recipe(array, part)
    head = next((f"[{i}]" for h, i in _INDEX.items() if h in array.part_axes(part)), "")
    return f"`{part}{head}`: " + (f"`{taken}`" if taken else "all of it")


def _conventions(layout: Layout) -> Iterator[str]:
    yield f"- **Direction, {layout.convention}:** {_DIRECTIONS[layout.convention]}"
    orders = _by_form(layout, lambda form: _order(layout, form))
    yield f"- **Heads:** {' '.join(orders)}"
    yield f"- **Biases:** {_biases(layout)}"
    yield f"- **Scale:** {_scaling(layout)}"
    yield from _widths(layout, letter=lambda size: f"${_letter(size)}$")


def _widths(layout: Layout, letter: Callable[[str], str]) -> Iterator[str]:
    """Which sizes it has, whether it rotates, and where it was read."""
    if layout.square:
        d_model, h, d_k = map(letter, ("d_model", "h", "d_k"))
        yield f"- **Widths:** {d_model} = {h} · {d_k}. `qkv.load` takes no other."
    if layout.grouped:
        h = letter("h")
        number = f"is 1 or {h}" if layout.one_or_all else f"may be less than {h}"
        yield f"- **Grouped heads:** {letter('h_kv')} {number}."
    if layout.rotary:
        yield (
            "- **Rotation:** The layer can rotate queries and keys (RoPE) before their product. "
            "`qkv.find_layers` reads it from a config of Transformers."
        )
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
    if names := [f"`{name}`" for name in layout.types]:
        such_as = f", such as {', '.join(names[:4])}" if len(names) > 4 else f": {', '.join(names)}"
        yield (
            "A model's config shows what acts between the maps, and its mask. `qkv.find_layers` "
            f"[computes them](../how-to/weights-out-of-a-checkpoint.md#config) for "
            f"{len(names)} {'types' if len(names) > 1 else 'type'} of model{such_as}."
        )
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


def _order(layout: Layout, form: Form) -> str:
    """How heads, and queries, keys and values, follow each other in the arrays of a form."""
    query = holding("W_Q", layout, form)
    packed = (array for array in form.without_biases if len(array.parts) > 1)
    arrays = dict.fromkeys((query, *packed))
    return " ".join(_ORDERS[array.axes[slices.axis_of_heads(array)]] for array in arrays)


def _biases(layout: Layout) -> str:
    """Which biases there may be, over all forms; a form that is not known may have others."""
    most, *fewer = layout.bias_sets
    if not most:
        said = "no biases"
    elif fewer == [()]:
        said = f"{_named(most)}, all of them or none"
    else:
        said = ", or ".join(
            (_named(most), *(_in_few_words(some, most) + _where(some, layout) for some in fewer))
        )
    return (
        f"In a form that `qkv.load` knows, it has {said}." if layout.unknown else f"It has {said}."
    )


def _named(biases: Iterable[str]) -> str:
    return ", ".join(f"`{bias}`" for bias in biases)


def _in_few_words(some: tuple[str, ...], most: tuple[str, ...]) -> str:
    """Some of these biases, in few words."""
    missing = [bias for bias in most if bias not in some]
    if len(missing) < len(some):
        return f"all but {_named(missing)}"
    return f"{_named(some)} alone" if some else "none"


def _where(biases: tuple[str, ...], layout: Layout) -> str:
    """The one form that has these biases, if they tell it from the others."""
    having = [
        form.when
        for form in layout.forms
        if {*biases} == {part for each in form.stored if each.is_bias for part in each.parts}
    ]
    return f" ({having[0]})" if len(having) == 1 < len(layout.forms) else ""


def _scaling(layout: Layout) -> str:
    return layout.scaling.replace("1/sqrt(d_k)", r"$1/\sqrt{d_k}$").replace("1/d_k", "$1/d_k$")
