"""What a docstring says under "Raises" is raised: for each clause here there is a call."""

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
from qkv.layouts import layouts

pytestmark = pytest.mark.usefixtures("unchecked")

MODULES = ("qkv", "qkv.costs", "qkv.layouts", "qkv.masks", "qkv.mix_ups", "qkv.notation")

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


# Function to exception to clause to a call. A clause is a part of the docstring's text.
RAISES = {
    "MultiHead": {
        TypeError: {"does not hold floating-point": lambda: parts(W_Q=MH.W_Q.astype(int))},
        ValueError: {"shapes do not fit": lambda: parts(W_Q=np.ones((3, 6, 3)))},
    },
    "MultiHead.random": {
        ValueError: {
            "a size is not a positive whole number": lambda: MultiHead.random(0, 2),
            "`d_model` is not divisible by `h`": lambda: MultiHead.random(7, 2),
            "`h` is not by `h_kv`": lambda: MultiHead.random(8, 4, h_kv=3),
        }
    },
    "MultiHead.project": {
        TypeError: {"does not hold floating-point": lambda: MH.project(WHOLE)},
        ValueError: {
            "width is not the one": lambda: MH.project(np.eye(5, 7)),
            "it holds NaN or infinity": lambda: MH.project(NAN),
        },
    },
    "MultiHead.__call__": {
        TypeError: {
            "source does not hold floating-point": lambda: MH(WHOLE),
            "the mask is not boolean": lambda: MH(X, mask=MASK_OF_FLOATS),
        },
        ValueError: {
            "shapes do not fit": lambda: MH(np.eye(5, 7)),
            "a source holds NaN or infinity": lambda: MH(NAN),
            "largest score of a query overflows": lambda: MH(LARGE),
            "the weights need a rotation": lambda: ROTARY(X),
        },
    },
    "attention": {
        TypeError: {
            "array does not hold floating-point": lambda: qkv.attention(WHOLE, X, X),
            "the mask is not boolean": lambda: qkv.attention(X, X, X, mask=MASK_OF_FLOATS),
        },
        ValueError: {
            "shapes do not fit": lambda: qkv.attention(X, np.eye(5, 7), X),
            "holds NaN or infinity": lambda: qkv.attention(NAN, X, X),
            "largest score of a query overflows": lambda: qkv.attention(LARGE, LARGE, X),
        },
    },
    "softmax": {
        TypeError: {
            "`scores` are not floating-point": lambda: qkv.softmax(WHOLE),
            "`mask` is not boolean": lambda: qkv.softmax(X, mask=np.ones((5, 6))),
        },
        ValueError: {
            "`scores` has no axis": lambda: qkv.softmax(np.array(1.0)),
            "or is empty": lambda: qkv.softmax(np.ones((2, 0))),
            "holds NaN or plus infinity": lambda: qkv.softmax(NAN),
            "`mask` does not broadcast": lambda: qkv.softmax(X, mask=np.ones((4, 6), dtype=bool)),
            "allows nothing but minus infinity": lambda: qkv.softmax(
                np.array([-np.inf, 1.0]), mask=np.array([True, False])
            ),
        },
    },
    "degrees_of_freedom": {
        ValueError: {"the scores need a rotation": lambda: qkv.degrees_of_freedom(ROTARY)}
    },
    "diagnose": {
        TypeError: {
            "array does not hold floating-point": lambda: qkv.diagnose(MH, WHOLE, X),
            "the mask is not boolean": lambda: qkv.diagnose(MH, X, X, mask=MASK_OF_FLOATS),
            "stored arrays come without": lambda: qkv.diagnose(STORED, X, X),
            "a `MultiHead` with one": lambda: qkv.diagnose(MH, X, X, layout="pytorch"),
        },
        ValueError: {
            "shapes do not fit": lambda: qkv.diagnose(MH, np.eye(4, 6), X),
            "holds NaN or infinity": lambda: qkv.diagnose(MH, NAN, X),
            "a name that is not known": lambda: qkv.diagnose(MH, X, X, intermediates={"A": X}),
        },
    },
    "dump": {
        TypeError: {
            "differ in dtype": lambda: dump(parts(W_K=MH.W_K.astype(np.float32)), "pytorch")
        },
        ValueError: {
            "no such form": lambda: dump(MH, "pytorch", form="none"),
            "another scale": lambda: dump(parts(scale=1.0), "pytorch"),
            "a rotation": lambda: dump(ROTARY, "pytorch"),
            "grouped heads": lambda: dump(MultiHead.random(6, 2, h_kv=1), "pytorch"),
            "widths": lambda: dump(MultiHead.random(6, 2, d_k=5), "pytorch"),
            "biases": lambda: dump(parts(b_Q=BIASED.b_Q), "pytorch"),
        },
    },
    "load": {
        TypeError: {
            "no mapping": lambda: qkv.load((), "pytorch", h=2),
            "do not hold floating-point": lambda: qkv.load(
                {name: array.astype(int) for name, array in STORED.items()}, "pytorch", h=2
            ),
        },
        ValueError: {
            "a name is missing": lambda: qkv.load({"out_proj.weight": OUT}, "pytorch", h=2),
            "surplus": lambda: qkv.load(STORED | {"more": OUT}, "pytorch", h=2),
            "or refused": lambda: qkv.load(STORED | {"bias_k": OUT}, "pytorch", h=2),
            "a shape does not fit": lambda: qkv.load(
                STORED | {"out_proj.weight": np.eye(5)}, "pytorch", h=2
            ),
        },
    },
    "unpack": {
        TypeError: {
            "does not hold floating-point": lambda: qkv.unpack(
                np.ones((18, 6), dtype=int), "pytorch", h=2
            )
        },
        ValueError: {
            "no such array": lambda: qkv.unpack(OUT, "pytorch", h=2, name="q"),
            "its shape does not fit": lambda: qkv.unpack(OUT, "pytorch", h=2),
            "it could be several": lambda: qkv.unpack(np.ones(24), "gpt2", h=4),
        },
    },
    "find_layers": {
        TypeError: {
            "the weights are no mapping and no path": lambda: qkv.find_layers([OUT]),
            "the configuration is no mapping": lambda: qkv.find_layers(STORED, config="config"),
        },
        ImportError: {"safetensors is not there": without_safetensors},
        ValueError: {
            "no attention layer": lambda: qkv.find_layers({"more": OUT}),
            "not a positive whole number": lambda: qkv.find_layers(STORED, h=0),
            "says nothing of the heads": lambda: qkv.find_layers(STORED, config={"width": 6}),
        },
    },
    "FoundLayer.load": {
        TypeError: {"do not hold floating-point": lambda: OF_WHOLE.load(h=2)},
        ValueError: {
            "the layer is refused": lambda: REFUSED.load(h=2),
            "`h`": lambda: FOUND.load(),
            "the layout has to be said": lambda: ALIKE.load(),
        },
    },
    "Layout.shapes": {
        ValueError: {
            "a size is not a positive whole number": lambda: shapes("keras", d_k=0),
            "does not divide where it has to": lambda: shapes("llama", h_kv=3),
            "it has d_model = h·d_k": lambda: shapes("pytorch", d_k=5),
            "no such number of heads of keys and values": lambda: shapes("gpt-bigcode", h_kv=2),
            "values as wide as keys": lambda: shapes("pytorch", d_v=9),
            "other arrays for a single head": lambda: shapes("vit-pytorch", h=1, d_k=24),
        }
    },
    "factor": {
        TypeError: {"`W` does not hold floating-point": lambda: qkv.factor(WHOLE, rank=1)},
        ValueError: {
            "not a whole number from 1": lambda: qkv.factor(X, rank=0),
            "to the smaller width": lambda: qkv.factor(X, rank=6),
        },
    },
    "fold": {
        TypeError: {"does not hold floating-point": lambda: qkv.fold(MH, P_Q=WHOLE)},
        ValueError: {"does not end in the width": lambda: qkv.fold(MH, P_Q=np.ones((6, 5)))},
    },
    "gauge": {
        TypeError: {"does not hold floating-point": lambda: qkv.gauge(MH, A=np.eye(3, dtype=int))},
        ValueError: {
            "another shape": lambda: qkv.gauge(MH, A=np.eye(4)),
            "not invertible": lambda: qkv.gauge(MH, A=np.zeros((3, 3))),
            "whose scores need a rotation": lambda: qkv.gauge(ROTARY, A=np.eye(3)),
        },
    },
    "merge": {
        TypeError: {"does not hold floating-point": lambda: qkv.merge(WHOLE, ONES)},
        ValueError: {"the two maps do not fit": lambda: qkv.merge(X, ONES)},
    },
    "w_qk": {
        ValueError: {
            "has a bias of queries or keys": lambda: qkv.w_qk(BIASED),
            "scores need a rotation": lambda: qkv.w_qk(ROTARY),
        }
    },
    "w_vo": {ValueError: {"has a bias of values": lambda: qkv.w_vo(BIASED)}},
    "which": {
        ValueError: {
            "a size is not a positive whole number": lambda: qkv.which((6, 6), d_model=0, h=2),
            "`d_model` is not divisible by `h`": lambda: qkv.which((6, 6), d_model=7, h=2),
            "`h` is not by `h_kv`": lambda: qkv.which((8, 8), d_model=8, h=4, h_kv=3),
            "no rule has this shape": lambda: qkv.which((97, 89, 83, 79, 73), d_model=6, h=2),
            "do not follow each other": lambda: qkv.which(
                (10, 512), (64, 512), (64, 512), d_model=512, h=8
            ),
        }
    },
    "Sizes": {
        ValueError: {
            "a size is not a positive whole number": lambda: costs.Sizes(d_model=0, h=2, n_q=3),
            "does not divide where it has to": lambda: costs.Sizes(d_model=7, h=2, n_q=3),
        }
    },
    "layer_cost": {
        ValueError: {
            "`d_ff` is not a positive whole number": lambda: costs.layer_cost(SIZES, d_ff=0),
            "fewer keys than queries": lambda: costs.layer_cost(
                dataclasses.replace(SIZES, n_k=3), causal=True
            ),
        }
    },
    "low_rank_dimension": {
        ValueError: {"not a positive whole number": lambda: costs.low_rank_dimension(3, 3, 0)}
    },
    "cost": {ValueError: {"not one of `SCHEMES`": lambda: costs.cost("none", SIZES)}},
    "products": {ValueError: {"not one of `SCHEMES`": lambda: costs.products("none", SIZES)}},
    "steps": {ValueError: {"not one of `SCHEMES`": lambda: costs.steps("none")}},
    "counts": {ValueError: {"not one of `SCHEMES`": lambda: costs.counts("none")}},
    "crossover_width": {
        ValueError: {"not a positive whole number": lambda: costs.crossover_width(0, 3)}
    },
    "crossover_tokens": {
        ValueError: {"not a positive whole number": lambda: costs.crossover_tokens(3, 0)}
    },
    "padding": {
        ValueError: {
            "no whole numbers": lambda: masks.padding(np.array([1.0]), 3),
            "from 0 to `n_k`": lambda: masks.padding(np.array([4]), 3),
            "one for each sequence": lambda: masks.padding(np.array([[1]]), 3),
        }
    },
    "causal": {
        ValueError: {
            "no positive whole number": lambda: masks.causal(0),
            "`aligned` is not said": lambda: masks.causal(2, 3),
            "it is another word": lambda: masks.causal(2, 3, aligned="middle"),
        }
    },
    "convert": {
        TypeError: {"the mask is not boolean": lambda: masks.convert(ONES, "sdpa")},
        ValueError: {
            "no such form": lambda: masks.convert(masks.causal(3), "none"),
            "it cannot hold the mask": lambda: masks.convert(masks.causal(3), "key_padding_mask"),
            "needs `h`": lambda: masks.convert(np.ones((2, 1, 3, 3), dtype=bool), "attn_mask"),
            "or `dtype`": lambda: masks.convert(masks.causal(3), "transformers"),
            "or cannot have it": lambda: masks.convert(masks.causal(3), "keras", dtype=np.float32),
            '"attn_mask" needs `n_q`': lambda: masks.convert(
                masks.padding(np.array([1]), 3), "attn_mask"
            ),
        },
    },
    "check": {
        ValueError: {
            "a line is no formula": lambda: notation.check("Q[i] ="),
            "shapes do not fit": lambda: notation.check("Q[i] = W_Q[i] @ X_Q"),
            "two sides differ": lambda: notation.check("Q[i] == X_Q @ W_K[i]"),
        }
    },
    "legend": {
        ValueError: {
            "the line is no formula": lambda: notation.legend("Q[i] ="),
            "no such source": lambda: notation.legend("Q[i] = X_Q @ W_Q[i]", "none"),
        }
    },
    "typeset": {
        ValueError: {
            "the line is no formula": lambda: notation.typeset("Q[i] ="),
            "no such source": lambda: notation.typeset("Q[i] = X_Q @ W_Q[i]", "none"),
        }
    },
    "parse_source": {ValueError: {"the text is no TOML": lambda: notation.parse_source("a", "=")}},
    "role": {ValueError: {"there is none": lambda: notation.role("none")}},
    "source": {ValueError: {"there is none": lambda: notation.source("none")}},
    "shape": {
        ValueError: {
            "no such expression": lambda: notation.shape("="),
            "some of its sizes have a number": lambda: notation.shape("W_Q[i]", d_k=3),
        }
    },
    "side": {ValueError: {"not one of `SIDES`": lambda: notation.side("none")}},
    "size_of": {
        ValueError: {
            "it is no size": lambda: notation.size_of("Q[i]", {}),
            "has no number": lambda: notation.size_of("h", {}),
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
    pytest.param(name, error, clause, call, id=f"{name}-{error.__name__}-{clause}")
    for name, errors in RAISES.items()
    for error, clauses in errors.items()
    for clause, call in clauses.items()
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


@pytest.mark.parametrize(("name", "error", "clause", "call"), CALLS)
def test_what_a_docstring_says_is_raised_is_raised(name, error, clause, call):
    with pytest.raises(error) as raised:
        call()
    assert raised.type is error
    assert str(raised.value)
