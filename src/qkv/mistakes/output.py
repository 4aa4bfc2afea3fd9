"""Mistakes in the output: not projected, projected twice, or with a part of the block around it."""

from qkv.mistakes._layer import need
from qkv.mistakes.sources import layer_norm


def _not_projected(s, step):
    need(s.joined.shape[-1] == s.W_O.shape[-1])
    return s.shown(s.joined)


def _projected_twice(s, step):
    need(s.W_O.shape[0] == s.W_O.shape[1])
    return step(s) @ s.W_O + s.b_O


def _add_the_source(s, step):
    return step(s) + s.shown(s.asked(s.inputs.arrays["X_Q"]))


MISTAKES = {
    "output-not-projected": {"projected": _not_projected},
    "output-projected-twice": {"projected": _projected_twice},
    "residual-added": {"output": _add_the_source},
    "residual-and-layer-norm": {"output": lambda s, step: layer_norm(_add_the_source(s, step))},
    # Dropout differs from call to call, so no step is replaced: `dropout` looks for its traces.
    "dropout-of-weights": {},
    "dropout-of-the-output": {},
}
