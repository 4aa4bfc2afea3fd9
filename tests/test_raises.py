"""What a docstring says under "Raises" is raised, by a call below or by a test of another file."""

import ast
import importlib
import inspect
import re
from functools import cache

import numpy as np
import pytest

import qkv
from qkv import MultiHead, costs, dump, notation
from support import ROOT, refuses

pytestmark = pytest.mark.usefixtures("unchecked")

MODULES = (
    "qkv",
    "qkv.costs",
    "qkv.layouts",
    "qkv.maps",
    "qkv.masks",
    "qkv.mistakes",
    "qkv.notation",
    "qkv.reading",
    "qkv.shapes",
)

# For each function the exceptions of its docstring: clauses of that text, and for each what the
# message says. Some other test calls the function, expects a refusal, and has these words.
ELSEWHERE = """
MultiHead
  TypeError: does not hold floating-point: W_K must hold floating-point numbers
  ValueError: shapes do not fit: agree in d_k
read
  ValueError: no text: Nothing was entered
  ValueError: too much: characters are too many
  ValueError: a bracket is not closed: is not closed
  ValueError: an einsum has a letter too many: is in no operand
  ValueError: a size is not positive: a size from 1
MultiHead.random
  ValueError: a size is not a positive whole number: d_model must be a positive whole number
  ValueError: `d_model` is not divisible by `h`: d_model = 7
  ValueError: `h` is not by `h_kv`: h_kv must divide h
MultiHead.project
  TypeError: does not hold floating-point: X_Q must hold floating-point numbers
  ValueError: width is not the one: (..., n_q, 6)
  ValueError: it holds NaN or infinity: must be finite, but
MultiHead.__call__
  TypeError: source does not hold floating-point: X_Q must hold floating-point
  TypeError: the mask is not boolean: mask must be boolean
  ValueError: shapes do not fit: X_K and X_V must agree in n_k
  ValueError: a source holds NaN or infinity: must be finite, but
  ValueError: what stands between the maps is not known: There is a gate. To compute
MultiHead.attend
  TypeError: positions are no whole numbers: positions must be whole numbers, but those
  ValueError: positions do not fit: There are 7 queries, but their
  ValueError: what stands there is not known: There is a gate. To compute
MultiHead.join
  ValueError: do not have the shape: heads must have shape
attention
  TypeError: array does not hold floating-point: dtype is complex128
  TypeError: the mask is not boolean: mask must be boolean
  ValueError: shapes do not fit: agree in d_k
  ValueError: holds NaN or infinity: must be finite
  ValueError: largest score of a query overflows: overflowed
softmax
  TypeError: `scores` are not floating-point: scores must hold floating-point
  TypeError: `mask` is not boolean: mask must be boolean
  ValueError: `scores` has no axis: scores must have shape (..., n_k), but has shape ()
  ValueError: or is empty: (3, 0)
  ValueError: holds NaN or plus infinity: NaN or infinity
  ValueError: `mask` does not broadcast: must broadcast to the scores' shape
degrees_of_freedom
  ValueError: a step between the maps changes queries: stands between
diagnose
  TypeError: array does not hold floating-point: output must hold floating-point
  TypeError: the mask is not boolean: mask must be boolean
  TypeError: stored arrays come without: mh must be a MultiHead, or stored arrays
  TypeError: a `MultiHead` with one: mh is a MultiHead
  ValueError: shapes do not fit: output must have shape
  ValueError: holds NaN or infinity: must be finite
  ValueError: a name that is not known: name in intermediates
dump
  TypeError: differ in dtype: float32 and float64
  ValueError: no such form: form must be one of
  ValueError: another scale: scale = 1.0
  ValueError: a rotation: between = (Rotation(
  ValueError: grouped heads: has as many heads of keys and values as of queries
  ValueError: widths: has d_model = h·d_k
  ValueError: biases: b_Q, b_K, b_V, b_O (always), but b_Q is None.
load
  TypeError: no mapping: weights must be a mapping
  TypeError: do not hold floating-point: must hold floating-point numbers
  ValueError: a name is missing: missing: 'self.key.bias'
  ValueError: surplus: surplus: 'self.gate.weight'
  ValueError: or refused: leave that name out
  ValueError: a shape does not fit: c_attn.weight must have shape
unpack
  TypeError: does not hold floating-point: array must hold floating-point
  ValueError: no such array: name must be one of
  ValueError: its shape does not fit: c_attn.weight (d_model, 3·h·d_k)
  ValueError: it could be several: in more than one case
  ValueError: `h_kv` is needed: pass h_kv
find_layers
  TypeError: the weights are no mapping and no path: weights must be a mapping
  TypeError: the configuration is no mapping: config must be a mapping
  ValueError: no attention layer: no attention layer that a layout describes
  ValueError: not a positive whole number: h must be a positive whole number, but is 0
  ValueError: says nothing of the heads: config says nothing of the heads
FoundLayer.mask
  ValueError: does not tell: may see: pass config
FoundLayer.load
  ValueError: the layer is refused: is refused
  ValueError: `h`: h cannot be told
  ValueError: the layout has to be said: pass layout
Layout.shapes
  ValueError: a size is not a positive whole number: d_k must be a positive whole number
  ValueError: does not divide where it has to: h_kv must divide h
  ValueError: its layers have d_model = h·d_k: d_model = h·d_k
  ValueError: another number of heads of keys and values: one head of keys and values, or as many
  ValueError: values as wide as keys: values as wide as keys
  ValueError: other arrays for a single head: other arrays
factor
  ValueError: not a whole number from 1: rank must be a whole number from 1 to 3
  ValueError: to the smaller width: rank must be a whole number from 1 to 3
fold
  ValueError: does not end in the width: P_Q must have shape (d_in, 6)
gauge
  TypeError: does not hold floating-point: A must hold floating-point
  ValueError: another shape: A must have shape (3, 3)
  ValueError: not invertible: A must be invertible
  ValueError: another step that changes queries or keys: stands between
merge
  TypeError: does not hold floating-point: second must hold floating-point numbers
  ValueError: the two maps do not fit: agree in d_mid
w_qk
  ValueError: has a bias of queries or keys: adds b_Q after W_Q
  ValueError: `between` changes queries or keys: stands between
w_vo
  ValueError: has a bias of values: adds b_V after W_V
  ValueError: `between` changes values: stands between W_V and W_O
which
  ValueError: a size is not a positive whole number: h_kv must be a positive whole number
  ValueError: `d_model` is not divisible by `h`: not divisible
  ValueError: `h` is not by `h_kv`: h_kv must divide h
  ValueError: no rule has this shape: No array of attention that is known here has shape
  ValueError: do not follow each other: can follow one of shape
Sizes
  ValueError: does not divide where it has to: is not divisible by h = 2
layer_cost
  ValueError: `d_ff` is not a positive whole number: d_ff must be a positive whole number, but is 0
  ValueError: fewer keys than queries: and n_k =
low_rank_dimension
  ValueError: not a positive whole number: rank must be a positive whole number, but is 0
cost
  ValueError: not one of `SCHEMES`: 'two-step', 'w_qk', but is 'pack'
padding
  ValueError: no whole numbers: shape (1,) and dtype float64
  ValueError: from 0 to `n_k`: from 0 to n_k = 4, but one is 5
  ValueError: one for each sequence: shape (2, 4) and dtype bool
causal
  ValueError: no positive whole number: n_q must be a positive whole number, but is 0
  ValueError: `aligned` is not said: n_q = 2 and n_k = 3 differ
  ValueError: it is another word: aligned must be one of
convert_mask
  TypeError: the mask is not boolean: mask must be boolean
  ValueError: it cannot hold the mask: from all queries and heads
  ValueError: no such form: form must be one of
  ValueError: needs `h`: Pass h, the number of heads
  ValueError: or `dtype`: pass dtype
  ValueError: or cannot have it: is boolean, but dtype is
  ValueError: "attn_mask" needs `n_q`: pass n_q
typeset
  ValueError: the line is no formula: is not part of a formula
  ValueError: no such source: is not a source
parse_source
  ValueError: the text is no TOML: Invalid
shape
  ValueError: no such expression: of an expression, but
  ValueError: some of its sizes have a number: d_k has no number among d_model
side
  ValueError: not one of `SIDES`: is no word of side
"""
CALLED_AS = {  # where a test does not call it by its name
    "MultiHead": {"MultiHead", "replace"},
    "MultiHead.__call__": {"LAYER", "with_steps"},
    "MultiHead.attend": {"with_steps"},
    "MultiHead.project": {"LAYER"},
}

MH, WHOLE = MultiHead.random(6, 2), np.ones((5, 6), dtype=int)
[TOLD] = qkv.find_layers(
    dump(MultiHead.random(6, 2, bias=True), "bert"),
    config={"model_type": "bert", "num_attention_heads": 2},
)
[FOUND] = qkv.find_layers({name: W.astype(int) for name, W in dump(MH, "pytorch").items()})


# What no other test shows, in the same order, and the call that raises it.
HERE = {
    ("MultiHead.attend", TypeError, "mask is not boolean"): (
        "mask must be boolean",
        lambda: MH.attend(*MH.project(np.eye(5, 6)), mask=np.ones((5, 5))),
    ),
    ("MultiHead.join", TypeError, "heads do not hold floating-point"): (
        "heads must hold floating-point",
        lambda: MH.join(np.ones((2, 5, 3), int)),
    ),
    ("FoundLayer.mask", ValueError, "a number is no positive whole number"): (
        "n_q must be a positive whole number",
        lambda: TOLD.mask(0),
    ),
    ("MultiHead.__call__", ValueError, "largest score of a query overflows"): (
        "The scores must be finite",
        lambda: MH(np.full((5, 6), 1e200)),
    ),
    ("softmax", ValueError, "allows nothing but minus infinity"): (
        "The scores must be finite",
        lambda: qkv.softmax(np.array([-np.inf, 1.0]), mask=np.array([True, False])),
    ),
    ("FoundLayer.load", TypeError, "do not hold floating-point"): (
        "weights['in_proj_weight'] must hold floating-point",
        lambda: FOUND.load(h=2),
    ),
    ("factor", TypeError, "`W` does not hold floating-point"): (
        "W must hold floating-point",
        lambda: qkv.maps.factor(WHOLE, rank=1),
    ),
    ("fold", TypeError, "does not hold floating-point"): (
        "P_Q must hold floating-point",
        lambda: qkv.fold(MH, P_Q=WHOLE),
    ),
    ("Sizes", ValueError, "a size is not a positive whole number"): (
        "d_model must be a positive whole number, but is 0",
        lambda: costs.Sizes(d_model=0, h=2, n_q=3),
    ),
    ("products", ValueError, "not one of `SCHEMES`"): (
        "scheme must be one of",
        lambda: costs.products("none", costs.Sizes(d_model=512, h=8, n_q=9)),
    ),
    ("steps", ValueError, "not one of `SCHEMES`"): (
        "scheme must be one of",
        lambda: costs.steps("none"),
    ),
    ("counts", ValueError, "not one of `SCHEMES`"): (
        "scheme must be one of",
        lambda: costs.counts("none"),
    ),
    ("check", ValueError, "a line is no formula"): (
        "is no Python",
        lambda: notation.check("Q[i] ="),
    ),
    ("check", ValueError, "shapes do not fit"): (
        "have to be equal",
        lambda: notation.check("Q[i] = W_Q[i] @ X_Q"),
    ),
    ("check", ValueError, "two sides differ"): (
        "their values differ",
        lambda: notation.check("Q[i] == X_Q @ W_K[i]"),
    ),
    ("legend", ValueError, "the line is no formula"): (
        "is no Python",
        lambda: notation.legend("Q[i] ="),
    ),
    ("legend", ValueError, "no such source"): (
        "is not a source",
        lambda: notation.legend("Q[i] = X_Q @ W_Q[i]", "none"),
    ),
    ("role", ValueError, "there is none"): ("none is not a role", lambda: notation.role("none")),
    ("source", ValueError, "there is none"): ("is not a source", lambda: notation.source("none")),
    ("size_of", ValueError, "it is no size"): ("is no size", lambda: notation.size_of("Q[i]", {})),
    ("size_of", ValueError, "has no number"): (
        "h has no number",
        lambda: notation.size_of("h", {}),
    ),
}


def documented():
    """Each public function or class that has "Raises", and for each exception what it says."""
    found = {}
    for module in map(importlib.import_module, MODULES):
        public = getattr(module, "__all__", [*vars(module)])
        for name, value in ((name, getattr(module, name)) for name in public if name[0] != "_"):
            if (inspect.isfunction(value) or inspect.isclass(value)) and "qkv" in value.__module__:
                found |= {key: said for key, each in _of(name, value) if (said := _raises(each))}
    return found


def _of(name, value):
    yield name, value
    if inspect.isclass(value):
        for key, member in vars(value).items():
            if not key.startswith("_") or key == "__call__":
                yield f"{name}.{key}", getattr(member, "__func__", member)


def _raises(value):
    section = re.search(r"\nRaises:\n((?:    .*\n)+)", f"{inspect.getdoc(value)}\n")
    entries = re.split(r"^    (\w+): ", section[1], flags=re.MULTILINE)[1:] if section else []
    said = (" ".join(text.split()) for text in entries[1::2])
    return dict(zip(entries[::2], said, strict=True))


def clauses():
    """Each function, the name of an exception, a clause, and words of a message elsewhere."""
    name = ""
    for line in ELSEWHERE.strip("\n").splitlines():
        if line.startswith(" "):
            yield name, *line.strip().split(": ", 2)
        else:
            name = line


@cache
def refusals():
    """For each test that expects a refusal the names in its code and its texts."""
    found = []
    others = {"browser", "pages", "site", "truth"}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if path.parent.name in others or path.name == "test_raises.py":
            continue
        for test in ast.parse(path.read_text()).body:
            nodes = [*ast.walk(test)]
            names = {node.id for node in nodes if isinstance(node, ast.Name)}
            names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
            texts = [str(node.value) for node in nodes if isinstance(node, ast.Constant)]
            if isinstance(test, ast.FunctionDef) and names & {"refuses", "raises"}:
                found.append((names, texts))
    return found


DOCUMENTED = documented()
STATED = [*clauses(), *((name, error.__name__, text) for name, error, text in HERE)]


def test_each_exception_that_a_docstring_names_is_raised_somewhere():
    assert {(name, error) for name, errors in DOCUMENTED.items() for error in errors} == {
        (name, error) for name, error, *_ in STATED
    }


@pytest.mark.parametrize(("name", "error", "clause"), [stated[:3] for stated in STATED])
def test_each_clause_stands_in_the_docstring(name, error, clause):
    assert clause in DOCUMENTED[name][error]


@pytest.mark.parametrize(("name", "error", "clause", "words"), [*clauses()])
def test_a_test_of_another_file_shows_the_clause(name, error, clause, words):
    called = CALLED_AS.get(name, {name.rpartition(".")[2]})
    assert any(
        called & names
        and (error == "ValueError" or error in names)
        and any(words in text for text in texts)
        for names, texts in refusals()
    ), f"no test calls {' or '.join(called)} and expects a {error} that says {words!r}"


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize(("stated", "shown"), HERE.items(), ids=lambda each: each[0])
def test_a_call_shows_the_clause(stated, shown):
    (_, error, _), (words, call) = stated, shown
    with refuses(words, error=error) as raised:
        call()
    assert raised.type is error
