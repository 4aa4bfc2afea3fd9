"""The live layer: the five words of the worked example, step by step, under a reader's hand.

A fenced block of the language `live`, without lines, is the whole layer. One with a state,
`live state="step=query&second=two"`, is a small window: the step that the state names, with a link
to the whole. docs/assets/live.js computes the trees of formulas that stand here, on the numbers of
the example; each is typeset in the letters of every source. What is said of a step is live.toml.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import parse_qsl

import numpy as np

from qkv import example, notation
from qkv.notation import Block, Role
from qkv.notation.latex import latex
from qkv.notation.settings import Setting
from qkv.notation.tree import Expression, Formula, Product
from qkv_site.markdown.mathml import mark, to_mathml
from qkv_site.page import Fault, Fence, Page
from qkv_site.parts import formulas, trees
from qkv_site.parts import map as layer_map

if TYPE_CHECKING:
    from qkv_site.write.markdown import Writer

WHOLE = "start/watch-one-word.md"  # the page that has the whole layer
STATIC = "start/one-head.md"  # and the one that has numbers of it without a script
FILE = "assets/live.json"
STYLE, SCRIPT = "assets/live.css", "assets/live.js"

MOST = 8  # numbers that the second matrix may give
OTHERS = ("Jane", "is", "visiting", "Africa", "in", "September")  # Ng's translation
# The second matrix before the heads, of which as many columns are used as it gives numbers.
P = np.random.default_rng(22).normal(scale=0.4, size=(example.layer.d_model, MOST)).round(1) + 0.0
X_OTHER = np.random.default_rng(23).normal(size=(len(OTHERS), example.layer.d_model)).round(1) + 0.0

SIZES = {
    **dict.fromkeys(("n", "n_q", "n_k"), len(example.words)),
    **{name: getattr(example.layer, name) for name in ("d_model", "h", "d_k", "d_v")},
    "width": example.layer.d_model,
}
GIVEN = {
    **dict.fromkeys(("X", "X_Q"), example.X),
    **dict.fromkeys(("X_K", "X_V"), X_OTHER),
    "P_Q": P,
    "W_Q[i]": example.layer.W_Q,
    "W_K[i]": example.layer.W_K,
    "W_V[i]": example.layer.W_V,
    "W_O": np.concatenate(example.layer.W_O),
}
# Each line by itself. The source of self-attention is X; of cross-attention X_Q, X_K and X_V.
LINES = {
    "one": "Q[i] = X @ W_Q[i]",
    "two": "Q[i] = X @ P_Q @ W_Q[i]",
    "M": "M[i] = P_Q @ W_Q[i]",
    "merged": "Q[i] = X @ M[i]",
    "keys": "K[i] = X @ W_K[i]",
    "tied": "K[i] = X @ W_Q[i]",
    "values": "V[i] = X @ W_V[i]",
    "scores": "S[i] = Q[i] @ K[i].T",
    "bare": "S[i] = X @ K[i].T",  # without a matrix for queries
    "weights": "A[i] = softmax(S[i] / sqrt(d_k))",
    "unscaled": "A[i] = softmax(S[i])",
    "mean": "head[i] = A[i] @ V[i]",
    "output": "Y = concat(head[i] for i in heads) @ W_O",
}
_OF_QUERIES = {"one", "two", "merged", "bare"}
# One array is drawn for sources that a text names apart: for all in self-attention, else for two.
_NAMES_OF_ONE = {"X": ("X_Q", "X_K", "X_V")} | dict.fromkeys(("X_K", "X_V"), ("X_K", "X_V"))
# A line says itself what its roles are made of: none is spelled out.
_NAMED = dict.fromkeys(("Q[i]", "K[i]", "V[i]", "S[i]", "A[i]", "head[i]", "M[i]", "Y"))
_SELF = Setting(_NAMED, {"n_q": "n", "n_k": "n", "h_kv": "h"})
_CROSS = Setting(_NAMED, {"h_kv": "h"})


class Live(Fence):
    """A fence of the language `live`: the layer, or a window on one of its steps."""

    languages = ("live",)
    options: ClassVar = {"state": None}
    rule = "live"

    def faults(self, page: Page) -> Iterator[Fault]:
        """What it lacks on its page."""
        yield from super().faults(page)
        for name, file in {"styles": STYLE, "scripts": SCRIPT}.items():
            if file not in page.meta.get(name, []):
                yield self.fault(f"a page with a live layer names {file} under {name}")
        if ("state" in self.given) == (page.name == WHOLE):
            yield self.fault(f"the whole layer stands on {WHOLE}, and on other pages a state of it")

    def inside(self) -> Iterable[tuple[int, str]]:
        """Lines in it, or a state that the layer does not have."""
        if self.code.strip():
            yield 0, "a live layer has no lines: live.py says what it computes"
        for name, value in parse_qsl(self.given.get("state", ""), keep_blank_values=True):
            if value not in states().get(name, ()):
                yield -1, f"the live layer has no {name}={value}"

    def as_text(self, writer: "Writer") -> str:
        """Where it runs, and where its numbers stand."""
        page = writer.page
        whole, static = (page.site.pages[name].title for name in (WHOLE, STATIC))
        return writer.plain(
            f"A layer runs on the page: [{whole}]({page.link_to(WHOLE)}). "
            f"Numbers of head 1 are on [{static}]({page.link_to(STATIC)})."
        )

    def html(self) -> str:
        """The place that the script fills; without it, the way to the page with the numbers."""
        state = self.given.get("state", "")
        kind = "wq-live wq-window" if state else "wq-live"
        return (
            f'<figure class="{kind}" data-wq-live="{state.replace("&", "&amp;")}" '
            f'data-whole="{layer_map.href(WHOLE)}">'
            f'<p class="wq-live-wait">Here a layer runs, if the browser has JavaScript. '
            f'<a href="{layer_map.href(STATIC)}">Numbers of head 1</a></p></figure>'
        )


@cache
def texts() -> dict:
    """What is said of each step, and the pieces of a program that computes it."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text())


@cache
def states() -> dict[str, tuple[str, ...]]:
    """What each part of a state may be; the first is what it is if it is not named."""
    switches = dict.fromkeys(texts()["switches"], ("", "on"))
    return {
        "word": tuple(str(number) for number in range(1, len(example.words) + 1)),
        "step": tuple(texts()["steps"]),
        "head": ("1", "2"),
        "second": tuple(name for name in texts()["second"] if name != "misfit"),
        "width": tuple(map(str, (SIZES["width"], *range(1, SIZES["width"]), MOST))),
        **switches,
    }


@cache
def data() -> dict:
    """What the script computes with: lines, their letters, the example, and what is said."""
    pool: dict[tuple, int] = {}
    found = {
        "words": example.words,
        "others": OTHERS,
        "sizes": SIZES,
        "states": states(),
        "given": {key: array.tolist() for key, array in GIVEN.items()},
        "letters": {
            role.key: _in_sources(partial(_math, role.key))
            for role in _roles()
            if role.group != "size"
        },
        "lines": {name: _line(line, _SELF, _of_cross(name)) for name, line in LINES.items()}
        | {f"{name}.cross": _line(_of_cross(name), _CROSS) for name in LINES},
        **texts(),
    }
    return _pooled(found, pool) | {"said": [*pool]}


def _of_cross(name: str) -> str:
    """A line, with the words of another text for keys and values."""
    source = "X_Q" if name in _OF_QUERIES else "X_V" if name == "values" else "X_K"
    return re.sub(r"\bX\b", source, LINES[name])


@cache
def _roles() -> tuple[Role, ...]:
    lines = (
        Block((line,)).formulas[0] for name in LINES for line in (LINES[name], _of_cross(name))
    )
    return tuple(
        {symbol.role.key: symbol.role for line in lines for symbol in line.symbols()}.values()
    )


def _line(text: str, setting: Setting, named: str = "") -> dict:
    """A line: its tree, and in each source the line, its parts, and on which side tokens stand.

    A source that has letters of their own for what goes in, as the paper has Q, writes `named`.
    """
    block, twin = (Block((line,), setting) for line in (text, named or text))
    (formula,), (of_twin,) = block.formulas, twin.formulas
    result, right = formula.sides
    parts = zip((result, *_operands(right)), (result, *_operands(of_twin.sides[1])), strict=True)

    def in_letters(source: str) -> str:
        chosen = twin if _names_what_goes_in(source) else block
        return to_mathml(chosen.typeset(_of_two_texts(source), mark=mark)[0])

    def part_in_letters(one: Expression, other: Expression, source: str) -> str:
        named, its = _names_what_goes_in(source), _of_two_texts(source)
        if str(one) in _NAMES_OF_ONE and (named or str(one) != "X"):
            names = _NAMES_OF_ONE[str(one)]
            said = (Block((name,), _CROSS).typeset(its, mark=mark)[0] for name in names)
            return to_mathml(" = ".join(dict.fromkeys(said)))
        return _part(*((of_twin, other) if named else (formula, one)), setting, its)

    return {
        "defines": result.role.key,
        "tree": trees.as_data(right),
        "written": _in_sources(in_letters),
        "turned": [each.id for each in notation.sources() if each.transposes(result.role)],
        "parts": {
            str(one): _in_sources(partial(part_in_letters, one, another)) for one, another in parts
        },
        "numpy": _numpy(text),
    }


@cache
def _of_two_texts(source: str) -> notation.Source:
    """A source; one that has the same letter for both texts has it for that of the queries."""
    chosen = notation.source(source)
    if not chosen.has_one_source:
        return chosen
    letters = {key: each for key, each in chosen.letters.items() if key not in {"X_K", "X_V"}}
    return replace(chosen, letters=letters)


@cache
def _names_what_goes_in(source: str) -> bool:
    """Whether a source calls what goes in by other letters than a word, as the paper by Q, K, V."""
    letters = notation.source(source).letters
    X, *others = (letters[key].latex if key in letters else "" for key in ("X", "X_Q", "X_K"))
    return all(others) and not any(X and each.startswith(X) for each in others)


def _numpy(line: str) -> str:
    """A line as a program has it, in which only weights have an index."""
    names = {
        "sqrt(d_k)": f"np.sqrt({SIZES['d_k']})",
        "X_Q": "X",
        "X_K": "X_other",
        "X_V": "X_other",
    }
    line = re.sub(r"(?<!W_[QKV])\[i\]", "", line)
    return re.sub("|".join(map(re.escape, names)), lambda found: names[found[0]], line)


def _operands(expression: Expression) -> Iterator[Expression]:
    """The factors of products: each is drawn."""
    for node in expression.walk():
        if isinstance(node, Product):
            yield from node.parts()


def _part(formula: Formula, part: Expression, setting: Setting, source: notation.Source) -> str:
    """A part of a line as the line has it: turned where the line is."""
    (written,) = Block((f"{formula.defined} = {part}",), setting).write(source)
    return to_mathml(latex(written.sides[0 if part == formula.defined else -1], mark))


@cache
def _math(line: str, source: str) -> str:
    return to_mathml(Block((line,), _SELF).typeset(source, mark=mark)[0])


class _InEachSource(tuple):
    """What each source writes: pairs of HTML and the sources that have it."""


def _in_sources(write: Callable[[str], str]) -> _InEachSource:
    """What is written in each source; what several of them write alike stands there once."""
    return _InEachSource(formulas.alike(write).items())


def _pooled(part: object, pool: dict[tuple, int]) -> object:
    """Data with a number in the place of what sources write: lines have parts in common."""
    match part:
        case _InEachSource():
            return pool.setdefault(tuple(part), len(pool))
        case dict():
            return {key: _pooled(each, pool) for key, each in part.items()}
    return part
