"""What a docstring says under "Raises" is raised: each clause has a call and words that it says."""

import dataclasses
import importlib
import inspect
import re
import sys
from unittest.mock import patch

import numpy as np
import pytest

import qkv
from qkv import MultiHead, costs, dump, masks, notation
from qkv.layouts import convert_mask, layouts
from support import refuses

pytestmark = pytest.mark.usefixtures("unchecked")

MODULES = (
    "qkv",
    "qkv.costs",
    "qkv.layouts",
    "qkv.maps",
    "qkv.masks",
    "qkv.mistakes",
    "qkv.notation",
    "qkv.shapes",
)

MH, X = MultiHead.random(6, 2), np.eye(5, 6)
BIASED = MultiHead.random(6, 2, bias=True)
ROTARY = dataclasses.replace(MH, rotary=True)
WHOLE, NAN = np.ones((5, 6), dtype=int), np.full((5, 6), np.nan)
LARGE = np.full((5, 6), 1e200)
MASK_OF_FLOATS = np.ones((5, 5))
STORED = dump(MH, "pytorch")
OUT = STORED["out_proj.weight"]
ONES = np.ones((2, 2))
SIZES = costs.Sizes(d_model=512, h=8, n_q=9)
[FOUND] = qkv.find_layers(STORED)
[OF_WHOLE] = qkv.find_layers({name: array.astype(int) for name, array in STORED.items()})
[REFUSED] = qkv.find_layers(STORED | {"bias_k": np.ones((1, 1, 6))})
[ALIKE] = qkv.find_layers(dump(dataclasses.replace(BIASED, rotary=True), "gpt-neox"), h=2)


def parts(**changed):
    """A layer with other parts."""
    return dataclasses.replace(MH, **changed)


def without_safetensors():
    with patch.dict(sys.modules, {"safetensors": None}):
        qkv.find_layers("model.safetensors")


def shapes(layout, **sizes):
    return layouts()[layout].shapes(**({"d_model": 24, "h": 4, "d_k": 6} | sizes))


# Function to exception to clause to a call and a part of what it says. A clause is a part of the
# docstring's text.
RAISES = {
    "MultiHead": {
        TypeError: {
            "does not hold floating-point": (
                lambda: parts(W_Q=MH.W_Q.astype(int)),
                "W_Q must hold floating-point",
            )
        },
        ValueError: {
            "shapes do not fit": (
                lambda: parts(W_Q=np.ones((3, 6, 3))),
                "must agree in h, the number",
            )
        },
    },
    "MultiHead.random": {
        ValueError: {
            "a size is not a positive whole number": (
                lambda: MultiHead.random(0, 2),
                "d_model must be a positive whole number, but is 0",
            ),
            "`d_model` is not divisible by `h`": (
                lambda: MultiHead.random(7, 2),
                "is not divisible by h = 2",
            ),
            "`h` is not by `h_kv`": (lambda: MultiHead.random(8, 4, h_kv=3), "h_kv must divide h"),
        }
    },
    "MultiHead.project": {
        TypeError: {
            "does not hold floating-point": (
                lambda: MH.project(WHOLE),
                "X_Q must hold floating-point",
            )
        },
        ValueError: {
            "width is not the one": (
                lambda: MH.project(np.eye(5, 7)),
                "X_Q must have shape (..., n_q, 6)",
            ),
            "it holds NaN or infinity": (lambda: MH.project(NAN), "X_Q must be finite, but X_Q["),
        },
    },
    "MultiHead.__call__": {
        TypeError: {
            "source does not hold floating-point": (
                lambda: MH(WHOLE),
                "X_Q must hold floating-point",
            ),
            "the mask is not boolean": (lambda: MH(X, mask=MASK_OF_FLOATS), "mask must be boolean"),
        },
        ValueError: {
            "shapes do not fit": (lambda: MH(np.eye(5, 7)), "X_Q must have shape (..., n_q, 6)"),
            "a source holds NaN or infinity": (lambda: MH(NAN), "X_Q must be finite, but X_Q["),
            "largest score of a query overflows": (lambda: MH(LARGE), "The scores must be finite"),
            "the weights need a rotation": (lambda: ROTARY(X), "rotates queries and keys (RoPE)"),
        },
    },
    "attention": {
        TypeError: {
            "array does not hold floating-point": (
                lambda: qkv.attention(WHOLE, X, X),
                "Q must hold floating-point",
            ),
            "the mask is not boolean": (
                lambda: qkv.attention(X, X, X, mask=MASK_OF_FLOATS),
                "mask must be boolean",
            ),
        },
        ValueError: {
            "shapes do not fit": (lambda: qkv.attention(X, np.eye(5, 7), X), "must agree in d_k"),
            "holds NaN or infinity": (lambda: qkv.attention(NAN, X, X), "Q must be finite, but Q["),
            "largest score of a query overflows": (
                lambda: qkv.attention(LARGE, LARGE, X),
                "The scores must be finite",
            ),
        },
    },
    "softmax": {
        TypeError: {
            "`scores` are not floating-point": (
                lambda: qkv.softmax(WHOLE),
                "scores must hold floating-point",
            ),
            "`mask` is not boolean": (
                lambda: qkv.softmax(X, mask=np.ones((5, 6))),
                "mask must be boolean",
            ),
        },
        ValueError: {
            "`scores` has no axis": (
                lambda: qkv.softmax(np.array(1.0)),
                "scores must have shape (..., n_k), but has shape ()",
            ),
            "or is empty": (lambda: qkv.softmax(np.ones((2, 0))), "an empty sequence"),
            "holds NaN or plus infinity": (lambda: qkv.softmax(NAN), "The scores must be finite"),
            "`mask` does not broadcast": (
                lambda: qkv.softmax(X, mask=np.ones((4, 6), dtype=bool)),
                "must broadcast to the scores' shape",
            ),
            "allows nothing but minus infinity": (
                lambda: qkv.softmax(np.array([-np.inf, 1.0]), mask=np.array([True, False])),
                "The scores must be finite",
            ),
        },
    },
    "degrees_of_freedom": {
        ValueError: {
            "the scores need a rotation": (
                lambda: qkv.costs.degrees_of_freedom(ROTARY),
                "A rotation (RoPE) stands between",
            )
        }
    },
    "diagnose": {
        TypeError: {
            "array does not hold floating-point": (
                lambda: qkv.diagnose(MH, WHOLE, X),
                "output must hold floating-point",
            ),
            "the mask is not boolean": (
                lambda: qkv.diagnose(MH, X, X, mask=MASK_OF_FLOATS),
                "mask must be boolean",
            ),
            "stored arrays come without": (
                lambda: qkv.diagnose(STORED, X, X),
                "with layout = None",
            ),
            "a `MultiHead` with one": (
                lambda: qkv.diagnose(MH, X, X, layout="pytorch"),
                "mh is a MultiHead",
            ),
        },
        ValueError: {
            "shapes do not fit": (
                lambda: qkv.diagnose(MH, np.eye(4, 6), X),
                "output must have shape (5, 6)",
            ),
            "holds NaN or infinity": (
                lambda: qkv.diagnose(MH, NAN, X),
                "output must be finite, but output[",
            ),
            "a name that is not known": (
                lambda: qkv.diagnose(MH, X, X, intermediates={"A": X}),
                "A name in intermediates",
            ),
        },
    },
    "dump": {
        TypeError: {
            "differ in dtype": (
                lambda: dump(parts(W_K=MH.W_K.astype(np.float32)), "pytorch"),
                "they have dtypes",
            )
        },
        ValueError: {
            "no such form": (lambda: dump(MH, "pytorch", form="none"), "form must be one of"),
            "another scale": (
                lambda: dump(parts(scale=1.0), "pytorch"),
                "the layer has scale = 1.0",
            ),
            "a rotation": (lambda: dump(ROTARY, "pytorch"), "the layer has rotary = True"),
            "grouped heads": (
                lambda: dump(MultiHead.random(6, 2, h_kv=1), "pytorch"),
                "has as many heads of keys and values as of queries",
            ),
            "widths": (
                lambda: dump(MultiHead.random(6, 2, d_k=5), "pytorch"),
                "has d_model = h·d_k",
            ),
            "biases": (lambda: dump(parts(b_Q=BIASED.b_Q), "pytorch"), "b_K is None"),
        },
    },
    "load": {
        TypeError: {
            "no mapping": (lambda: qkv.load((), "pytorch", h=2), "weights must be a mapping"),
            "do not hold floating-point": (
                lambda: qkv.load(
                    {name: array.astype(int) for name, array in STORED.items()}, "pytorch", h=2
                ),
                "weights['in_proj_weight'] must hold floating-point",
            ),
        },
        ValueError: {
            "a name is missing": (
                lambda: qkv.load({"out_proj.weight": OUT}, "pytorch", h=2),
                "missing: 'in_proj_weight'",
            ),
            "surplus": (
                lambda: qkv.load(STORED | {"more": OUT}, "pytorch", h=2),
                "surplus: 'more'",
            ),
            "or refused": (
                lambda: qkv.load(STORED | {"bias_k": OUT}, "pytorch", h=2),
                "weights holds 'bias_k'",
            ),
            "a shape does not fit": (
                lambda: qkv.load(STORED | {"out_proj.weight": np.eye(5)}, "pytorch", h=2),
                "out_proj.weight must have shape",
            ),
        },
    },
    "unpack": {
        TypeError: {
            "does not hold floating-point": (
                lambda: qkv.unpack(np.ones((18, 6), dtype=int), "pytorch", h=2),
                "array must hold floating-point",
            )
        },
        ValueError: {
            "no such array": (
                lambda: qkv.unpack(OUT, "pytorch", h=2, name="q"),
                "name must be one of",
            ),
            "its shape does not fit": (
                lambda: qkv.unpack(OUT, "pytorch", h=2),
                "array must have the shape of",
            ),
            "it could be several": (
                lambda: qkv.unpack(np.ones(24), "gpt2", h=4),
                "in more than one case",
            ),
            "`h_kv` is needed": (
                lambda: qkv.unpack(np.ones((12, 5)), "phi3", h=2),
                "pass h_kv",
            ),
        },
    },
    "find_layers": {
        TypeError: {
            "the weights are no mapping and no path": (
                lambda: qkv.find_layers([OUT]),
                "weights must be a mapping",
            ),
            "the configuration is no mapping": (
                lambda: qkv.find_layers(STORED, config="config"),
                "config must be a mapping",
            ),
        },
        ImportError: {"safetensors is not there": (without_safetensors, "safetensors is needed")},
        ValueError: {
            "no attention layer": (
                lambda: qkv.find_layers({"more": OUT}),
                "no attention layer that a layout describes",
            ),
            "not a positive whole number": (
                lambda: qkv.find_layers(STORED, h=0),
                "h must be a positive whole number, but is 0",
            ),
            "says nothing of the heads": (
                lambda: qkv.find_layers(STORED, config={"width": 6}),
                "config says nothing of the heads",
            ),
        },
    },
    "FoundLayer.load": {
        TypeError: {
            "do not hold floating-point": (
                lambda: OF_WHOLE.load(h=2),
                "weights['in_proj_weight'] must hold floating-point",
            )
        },
        ValueError: {
            "the layer is refused": (
                lambda: REFUSED.load(h=2),
                "The layer with prefix '' is refused",
            ),
            "`h`": (lambda: FOUND.load(), "h cannot be told"),
            "the layout has to be said": (lambda: ALIKE.load(), "pass layout"),
        },
    },
    "Layout.shapes": {
        ValueError: {
            "a size is not a positive whole number": (
                lambda: shapes("keras", d_k=0),
                "d_k must be a positive whole number, but is 0",
            ),
            "does not divide where it has to": (
                lambda: shapes("llama", h_kv=3),
                "h_kv must divide h",
            ),
            "it has d_model = h·d_k": (lambda: shapes("pytorch", d_k=5), "has d_model = h·d_k"),
            "no such number of heads of keys and values": (
                lambda: shapes("gpt-bigcode", h_kv=2),
                "one head of keys and values, or as many",
            ),
            "values as wide as keys": (lambda: shapes("pytorch", d_v=9), "values as wide as keys"),
            "other arrays for a single head": (
                lambda: shapes("vit-pytorch", h=1, d_k=24),
                "other arrays if one head",
            ),
        }
    },
    "factor": {
        TypeError: {
            "`W` does not hold floating-point": (
                lambda: qkv.maps.factor(WHOLE, rank=1),
                "W must hold floating-point",
            )
        },
        ValueError: {
            "not a whole number from 1": (
                lambda: qkv.maps.factor(X, rank=0),
                "rank must be a whole number from 1 to 5",
            ),
            "to the smaller width": (
                lambda: qkv.maps.factor(X, rank=6),
                "rank must be a whole number from 1 to 5",
            ),
        },
    },
    "fold": {
        TypeError: {
            "does not hold floating-point": (
                lambda: qkv.fold(MH, P_Q=WHOLE),
                "P_Q must hold floating-point",
            )
        },
        ValueError: {
            "does not end in the width": (
                lambda: qkv.fold(MH, P_Q=np.ones((6, 5))),
                "P_Q must have shape (d_in, 6)",
            )
        },
    },
    "gauge": {
        TypeError: {
            "does not hold floating-point": (
                lambda: qkv.maps.gauge(MH, A=np.eye(3, dtype=int)),
                "A must hold floating-point",
            )
        },
        ValueError: {
            "another shape": (lambda: qkv.maps.gauge(MH, A=np.eye(4)), "A must have shape (3, 3)"),
            "not invertible": (
                lambda: qkv.maps.gauge(MH, A=np.zeros((3, 3))),
                "A must be invertible",
            ),
            "whose scores need a rotation": (
                lambda: qkv.maps.gauge(ROTARY, A=np.eye(3)),
                "A rotation (RoPE) stands between",
            ),
        },
    },
    "merge": {
        TypeError: {
            "does not hold floating-point": (
                lambda: qkv.merge(WHOLE, ONES),
                "first must hold floating-point",
            )
        },
        ValueError: {
            "the two maps do not fit": (lambda: qkv.merge(X, ONES), "must agree in d_mid")
        },
    },
    "w_qk": {
        ValueError: {
            "has a bias of queries or keys": (lambda: qkv.w_qk(BIASED), "adds b_Q after W_Q"),
            "scores need a rotation": (
                lambda: qkv.w_qk(ROTARY),
                "A rotation (RoPE) stands between",
            ),
        }
    },
    "w_vo": {
        ValueError: {"has a bias of values": (lambda: qkv.w_vo(BIASED), "adds b_V after W_V")}
    },
    "which": {
        ValueError: {
            "a size is not a positive whole number": (
                lambda: qkv.which((6, 6), d_model=0, h=2),
                "d_model must be a positive whole number, but is 0",
            ),
            "`d_model` is not divisible by `h`": (
                lambda: qkv.which((6, 6), d_model=7, h=2),
                "is not divisible by h = 2",
            ),
            "`h` is not by `h_kv`": (
                lambda: qkv.which((8, 8), d_model=8, h=4, h_kv=3),
                "h_kv must divide h",
            ),
            "no rule has this shape": (
                lambda: qkv.which(97, 89, 83, 79, 73, d_model=6, h=2),
                "No array of attention that is known here has shape",
            ),
            "do not follow each other": (
                lambda: qkv.which((10, 512), (64, 512), (64, 512), d_model=512, h=8),
                "can follow one of shape",
            ),
        }
    },
    "Sizes": {
        ValueError: {
            "a size is not a positive whole number": (
                lambda: costs.Sizes(d_model=0, h=2, n_q=3),
                "d_model must be a positive whole number, but is 0",
            ),
            "does not divide where it has to": (
                lambda: costs.Sizes(d_model=7, h=2, n_q=3),
                "is not divisible by h = 2",
            ),
        }
    },
    "layer_cost": {
        ValueError: {
            "`d_ff` is not a positive whole number": (
                lambda: costs.layer_cost(SIZES, d_ff=0),
                "d_ff must be a positive whole number, but is 0",
            ),
            "fewer keys than queries": (
                lambda: costs.layer_cost(dataclasses.replace(SIZES, n_k=3), causal=True),
                "needs as many keys as queries or more",
            ),
        }
    },
    "low_rank_dimension": {
        ValueError: {
            "not a positive whole number": (
                lambda: costs.low_rank_dimension(3, 3, 0),
                "rank must be a positive whole number, but is 0",
            )
        }
    },
    "cost": {
        ValueError: {
            "not one of `SCHEMES`": (lambda: costs.cost("none", SIZES), "scheme must be one of")
        }
    },
    "products": {
        ValueError: {
            "not one of `SCHEMES`": (lambda: costs.products("none", SIZES), "scheme must be one of")
        }
    },
    "steps": {
        ValueError: {"not one of `SCHEMES`": (lambda: costs.steps("none"), "scheme must be one of")}
    },
    "counts": {
        ValueError: {
            "not one of `SCHEMES`": (lambda: costs.counts("none"), "scheme must be one of")
        }
    },
    "crossover_width": {
        ValueError: {
            "not a positive whole number": (
                lambda: costs.crossover_width(0, 3),
                "d_model must be a positive whole number, but is 0",
            )
        }
    },
    "crossover_tokens": {
        ValueError: {
            "not a positive whole number": (
                lambda: costs.crossover_tokens(3, 0),
                "d_k must be a positive whole number, but is 0",
            )
        }
    },
    "padding": {
        ValueError: {
            "no whole numbers": (
                lambda: masks.padding(np.array([1.0]), 3),
                "has shape (1,) and dtype float64",
            ),
            "from 0 to `n_k`": (
                lambda: masks.padding(np.array([4]), 3),
                "lengths must be from 0 to n_k = 3",
            ),
            "one for each sequence": (
                lambda: masks.padding(np.array([[1]]), 3),
                "has shape (1, 1) and dtype int64",
            ),
        }
    },
    "causal": {
        ValueError: {
            "no positive whole number": (
                lambda: masks.causal(0),
                "n_q must be a positive whole number, but is 0",
            ),
            "`aligned` is not said": (lambda: masks.causal(2, 3), "n_q = 2 and n_k = 3 differ"),
            "it is another word": (
                lambda: masks.causal(2, 3, aligned="middle"),
                "aligned must be one of",
            ),
        }
    },
    "convert_mask": {
        TypeError: {
            "the mask is not boolean": (lambda: convert_mask(ONES, "sdpa"), "mask must be boolean")
        },
        ValueError: {
            "no such form": (lambda: convert_mask(masks.causal(3), "none"), "form must be one of"),
            "it cannot hold the mask": (
                lambda: convert_mask(masks.causal(3), "key_padding_mask"),
                "hides a key from all queries",
            ),
            "needs `h`": (
                lambda: convert_mask(np.ones((2, 1, 3, 3), dtype=bool), "attn_mask"),
                "Pass h, the number of heads",
            ),
            "or `dtype`": (lambda: convert_mask(masks.causal(3), "transformers"), "pass dtype"),
            "or cannot have it": (
                lambda: convert_mask(masks.causal(3), "keras", dtype=np.float32),
                "is boolean, but dtype is",
            ),
            '"attn_mask" needs `n_q`': (
                lambda: convert_mask(masks.padding(np.array([1]), 3), "attn_mask"),
                "pass n_q",
            ),
        },
    },
    "check": {
        ValueError: {
            "a line is no formula": (lambda: notation.check("Q[i] ="), "is no Python"),
            "shapes do not fit": (
                lambda: notation.check("Q[i] = W_Q[i] @ X_Q"),
                "have to be equal",
            ),
            "two sides differ": (
                lambda: notation.check("Q[i] == X_Q @ W_K[i]"),
                "their values differ",
            ),
        }
    },
    "legend": {
        ValueError: {
            "the line is no formula": (lambda: notation.legend("Q[i] ="), "is no Python"),
            "no such source": (
                lambda: notation.legend("Q[i] = X_Q @ W_Q[i]", "none"),
                "is not a source",
            ),
        }
    },
    "typeset": {
        ValueError: {
            "the line is no formula": (lambda: notation.typeset("Q[i] ="), "is no Python"),
            "no such source": (
                lambda: notation.typeset("Q[i] = X_Q @ W_Q[i]", "none"),
                "is not a source",
            ),
        }
    },
    "parse_source": {
        ValueError: {
            "the text is no TOML": (
                lambda: notation.parse_source("a", "="),
                "a.toml: Invalid statement",
            )
        }
    },
    "role": {ValueError: {"there is none": (lambda: notation.role("none"), "none is not a role")}},
    "source": {ValueError: {"there is none": (lambda: notation.source("none"), "is not a source")}},
    "shape": {
        ValueError: {
            "no such expression": (lambda: notation.shape("="), "is no Python"),
            "some of its sizes have a number": (
                lambda: notation.shape("W_Q[i]", d_k=3),
                "d_model has no number",
            ),
        }
    },
    "side": {
        ValueError: {"not one of `SIDES`": (lambda: notation.side("none"), "is no word of side")}
    },
    "size_of": {
        ValueError: {
            "it is no size": (lambda: notation.size_of("Q[i]", {}), "is no size"),
            "has no number": (lambda: notation.size_of("h", {}), "h has no number"),
        }
    },
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


DOCUMENTED = documented()
CALLS = [
    pytest.param(error, call, part, id=f"{name}-{error.__name__}-{clause}")
    for name, errors in RAISES.items()
    for error, clauses in errors.items()
    for clause, (call, part) in clauses.items()
]


def test_each_exception_that_a_docstring_names_has_its_calls():
    assert {name: {*said} for name, said in DOCUMENTED.items()} == {
        name: {error.__name__ for error in errors} for name, errors in RAISES.items()
    }


@pytest.mark.parametrize("name", RAISES)
def test_each_clause_stands_in_the_docstring(name):
    for error, clauses in RAISES[name].items():
        said = DOCUMENTED[name][error.__name__]
        assert [clause for clause in clauses if clause not in said] == []


@pytest.mark.parametrize(("error", "call", "part"), CALLS)
def test_what_a_docstring_says_is_raised_is_raised(error, call, part):
    with refuses(part, error=error) as raised:
        call()
    assert raised.type is error
