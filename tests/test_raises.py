"""What a docstring says under "Raises" is raised, by a call below or in a test of another file."""

import ast
import importlib
import inspect
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import qkv
from qkv import MultiHead, between, costs, dump, notation
from support import ROOT, refuses

pytestmark = pytest.mark.usefixtures("unchecked")

MODULES = (
    *("qkv", "qkv.between", "qkv.costs", "qkv.layouts", "qkv.maps", "qkv.masks"),
    *("qkv.mistakes", "qkv.notation", "qkv.reading", "qkv.shapes"),
)
CALLED_AS = {  # where a test does not call it by its name
    "MultiHead": {"MultiHead", "replace"},
    "MultiHead.__call__": {"LAYER", "with_steps"},
    "MultiHead.attend": {"with_steps"},
    "MultiHead.project": {"LAYER"},
}
MH, WHOLE = MultiHead.random(6, 2), np.ones((5, 6), dtype=int)
LAYER = MH, MH(np.eye(5, 6)), np.eye(5, 6)
QKV, SIZES = MH.project(np.eye(5, 6)), costs.Sizes(d_model=512, h=8, n_q=9)
[TOLD] = qkv.find_layers(
    dump(MultiHead.random(6, 2, bias=True), "bert"),
    config={"model_type": "bert", "num_attention_heads": 2},
)
[FOUND] = qkv.find_layers({name: W.astype(int) for name, W in dump(MH, "pytorch").items()})
HIDING = {"mask": np.array([True, False])}

# What no other test shows: what is called, its exception, words of the message, and the call.
HERE = [
    ("Step", TypeError, "slopes must hold floating", lambda: between.ALiBi([1, 2])),
    ("Step", ValueError, "f must be a positive", lambda: between.Temperature(a=1.0, f=0.0)),
    (
        "ALiBi.of",
        ValueError,
        "h must be a positive whole number, but is 0.",
        lambda: between.ALiBi.of(0),
    ),
    ("Rotation", TypeError, "angles must hold", lambda: between.Rotation(np.array([1]))),
    ("Rotation", ValueError, "magnitude must", lambda: between.Rotation(np.ones(1), magnitude=0)),
    ("DistanceBias", TypeError, "table must", lambda: between.DistanceBias(WHOLE)),
    ("diagnose", TypeError, "a mapping", lambda: qkv.diagnose(*LAYER, intermediates=[1])),
    ("diagnose", TypeError, "mh is a MultiHead", lambda: qkv.diagnose(*LAYER, h=2)),
    ("unpack", TypeError, "but is None", lambda: qkv.unpack(None, "pytorch", h=2)),
    ("Stored", ValueError, "has 'n', which", lambda: qkv.layouts.Stored("W", "W_Q", "n d_k")),
    ("find_layers", TypeError, "config must be", lambda: qkv.find_layers({}, config=3)),
    ("shape", ValueError, "has no number", lambda: notation.shape("W_Q[i]", d_model=3)),
    ("MultiHead.attend", TypeError, "boolean", lambda: MH.attend(*QKV, mask=np.ones((5, 5)))),
    ("MultiHead.join", TypeError, "heads must", lambda: MH.join(np.ones((2, 5, 3), int))),
    ("MultiHead.__call__", ValueError, "scores must", lambda: MH(np.full((5, 6), 1e200))),
    ("FoundLayer.mask", ValueError, "n_q must be a positive whole number", lambda: TOLD.mask(0)),
    ("FoundLayer.load", TypeError, "['in_proj_weight'] must hold", lambda: FOUND.load(h=2)),
    ("softmax", ValueError, "scores must", lambda: qkv.softmax(np.array([-np.inf, 1]), **HIDING)),
    ("factor", TypeError, "W must hold floating", lambda: qkv.maps.factor(WHOLE, rank=1)),
    ("fold", TypeError, "P_Q must hold floating-point", lambda: qkv.fold(MH, P_Q=WHOLE)),
    ("Sizes", ValueError, "d_model must be a", lambda: costs.Sizes(d_model=0, h=2, n_q=3)),
    ("products", ValueError, "scheme must be one of", lambda: costs.products("none", SIZES)),
    ("steps", ValueError, "scheme must be one of", lambda: costs.steps("none")),
    ("counts", ValueError, "scheme must be one of", lambda: costs.counts("none")),
    ("check", ValueError, "is no Python", lambda: notation.check("Q[i] =")),
    ("check", ValueError, "have to be equal", lambda: notation.check("Q[i] = W_Q[i] @ X_Q")),
    ("check", ValueError, "values differ", lambda: notation.check("Q[i] == X_Q @ W_K[i]")),
    ("legend", ValueError, "is no Python", lambda: notation.legend("Q[i] =")),
    ("legend", ValueError, "is not a source", lambda: notation.legend("Q[i] = X_Q", "none")),
    ("role", ValueError, "none is not a role", lambda: notation.role("none")),
    ("source", ValueError, "is not a source", lambda: notation.source("none")),
    ("size_of", ValueError, "is no size", lambda: notation.size_of("Q[i]", {})),
    ("size_of", ValueError, "h has no number", lambda: notation.size_of("h", {})),
    ("size_of", ValueError, "divides by 0", lambda: notation.size_of("1 / 0", {})),
    ("size_of", ValueError, "is too large", lambda: notation.size_of(f"sqrt({10**400})", {})),
    ("size_of", ValueError, "exponent", lambda: notation.size_of("9**9**9**9", {})),
    ("size_of", ValueError, "root of -1", lambda: notation.size_of("(1 - 2)**(1 / 2)", {})),
    ("size_of", ValueError, "root of -3", lambda: notation.size_of("sqrt(0 - d_k)", {"d_k": 3})),
    ("check", ValueError, "divides by 0", lambda: notation.check("h / 0")),
    ("MultiHead", ValueError, "but is 'x'", lambda: replace(MH, scale="x")),
    ("attention", ValueError, "scale must be", lambda: qkv.attention(*QKV, scale=[1])),
]


def documented():
    """Each public function or class with "Raises", and each exception that it names there."""
    found = set()
    for module in map(importlib.import_module, MODULES):
        public = getattr(module, "__all__", [*vars(module)])
        for name, value in ((name, getattr(module, name)) for name in public if name[0] != "_"):
            if (inspect.isfunction(value) or inspect.isclass(value)) and "qkv" in value.__module__:
                found |= {(key, error) for key, each in _of(name, value) for error in _raises(each)}
    return sorted(found)


def _of(name, value):
    yield name, value
    if inspect.isclass(value):
        for key, member in vars(value).items():
            if not key.startswith("_") or key == "__call__":
                yield f"{name}.{key}", getattr(member, "__func__", member)


def _raises(value):
    section = re.search(r"\nRaises:\n((?:    .*\n)+)", f"{inspect.getdoc(value)}\n")
    return re.findall(r"^    (\w+): ", section[1], re.MULTILINE) if section else []


@cache
def refusals():
    """The names in the code of each test that expects a refusal."""
    found = []
    others = {"browser", "pages", "site", "truth"}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if path.parent.name in others or path.name == "test_raises.py":
            continue
        for test in ast.parse(path.read_text()).body:
            nodes = [*ast.walk(test)]
            names = {node.id for node in nodes if isinstance(node, ast.Name)}
            names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
            if isinstance(test, ast.FunctionDef) and names & {"refuses", "raises"}:
                found.append(names)
    return found


DOCUMENTED = documented()


def test_docstrings_name_exceptions():
    assert len(DOCUMENTED) > 60
    assert {name for name, *_ in HERE} <= {name for name, _ in DOCUMENTED}


@pytest.mark.parametrize(("name", "error"), DOCUMENTED)
def test_each_exception_that_a_docstring_names_is_expected_by_a_test(name, error):
    if (name, error) in {(each, raised.__name__) for each, raised, *_ in HERE}:
        return
    called = CALLED_AS.get(name, {name.rpartition(".")[2]})
    assert any(
        called & names and (error == "ValueError" or error in names) for names in refusals()
    ), f"no test calls {' or '.join(called)} and expects a {error}"


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize(("name", "error", "words", "call"), HERE)
def test_a_call_raises_it_and_says_so(name, error, words, call):
    with refuses(words, error=error) as raised:
        call()
    assert raised.type is error
