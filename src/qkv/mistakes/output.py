"""Mix-ups of the output: not projected, projected twice, or with a part of the block around it."""

import numpy as np

from qkv.mistakes._layer import CannotApplyError
from qkv.mistakes._mix_up import MixUp
from qkv.mistakes.sources import NORMS


def _not_projected(s, step):
    if s.joined.shape[-1] != s.W_O.shape[-1]:
        raise CannotApplyError("the joined heads are not as wide as the output")
    return s.shown(s.joined)


def _twice(s, step):
    if s.W_O.shape[0] != s.W_O.shape[1]:
        raise CannotApplyError("the output is not as wide as the joined heads")
    return step(s) @ s.W_O + s.b_O


def _add_the_source(s, step):
    return step(s) + s.shown(s.asked(s.given.arrays["X_Q"]))


def _of_the_projection():
    yield MixUp(
        "output-not-projected",
        "the joined heads are not projected by W_O",
        who="who stops after joining the heads",
        seen_as="steps",
        symptom="Shapes fit where heads together are as wide as the output.",
        cure="Multiply the joined heads by W_O.",
        right="output = joined @ W_O + b_O",
        wrong="output = joined",
        planted={"output": _not_projected},
    )
    yield MixUp(
        "output-projected-twice",
        "the output is projected twice by W_O",
        who="who calls out_proj on what nn.MultiheadAttention returns",
        seen_as="steps",
        symptom="Shapes fit where heads together are as wide as the output.",
        cure="nn.MultiheadAttention has projected its output already.",
        right="output = joined @ W_O + b_O",
        wrong="output = (joined @ W_O + b_O) @ W_O + b_O",
        planted={"output": _twice},
        mixes=frozenset({"columns"}),
    )
    yield MixUp(
        "queries-added-to-the-heads",
        "the projected queries are added to the joined heads",
        who="who writes the Set Transformer's residual",
        seen_as="steps",
        symptom="The difference is the projected queries, mapped by W_O.",
        cure="Compare without the residual.",
        right="output = joined @ W_O + b_O",
        wrong="output = (Q + joined) @ W_O + b_O",
        planted={"joined": lambda s, step: step(s) + s.asked(s.Q_packed)},
        rare=True,
    )
    yield MixUp(
        "relu-after-the-output",
        "the output passes through a ReLU",
        who="who makes the output's projection of a Dense layer with an activation",
        seen_as="steps",
        symptom="No output is negative.",
        cure="Use a linear map without an activation.",
        right="output = joined @ W_O + b_O",
        wrong="output = relu(joined @ W_O + b_O)",
        planted={"output": lambda s, step: np.maximum(step(s), 0)},
        rare=True,
    )


def _of_the_block():
    about = {
        "who": "who compares a whole block with its attention layer",
        "cure": "Compare what the attention returns, before the rest of the block.",
        "right": "output = attention(X)",
    }
    yield MixUp(
        "residual-added",
        "the source of the queries is added to the output",
        **about,
        seen_as="steps",
        symptom="The difference is the source.",
        wrong="output = X + attention(X)",
        planted={"output": _add_the_source},
    )
    for name, title, has, norm in NORMS:
        yield MixUp(
            f"residual-and-{name}",
            f"the source is added to the output, and the sum passes through {title} without "
            "learned parameters",
            **about,
            seen_as="steps",
            symptom=f"Each output has {has}.",
            wrong="output = norm(X + attention(X))",
            planted={"output": lambda s, step, norm=norm: norm(_add_the_source(s, step))},
            rare=name == "rms-norm",
            mixes=frozenset({"columns"}),
        )
        yield MixUp(
            f"{name}-after-the-output",
            f"the output passes through {title} without learned parameters",
            **about,
            seen_as="steps",
            symptom=f"Each output has {has}.",
            wrong="output = norm(attention(X))",
            planted={"output": lambda s, step, norm=norm: norm(step(s))},
            rare=True,
            mixes=frozenset({"columns"}),
        )


def _dropout():
    about = {
        "who": "who compares a layer in training mode",
        "seen_as": "two-calls",
        "symptom": "Two calls give two outputs.",
        "cure": "Call layer.eval(), or set dropout to 0. scaled_dot_product_attention drops "
        "whenever dropout_p is not 0.",
    }
    yield MixUp(
        "dropout-of-weights",
        "dropout is on, and some weights are zero",
        **about,
        right="heads = A @ V",
        wrong="heads = dropout(A) @ V",
        planted={},  # it differs from call to call: `dropout` looks for it
        rare=True,
    )
    yield MixUp(
        "dropout-of-the-output",
        "dropout is on, and some numbers of the output are zero",
        **about,
        right="output = joined @ W_O",
        wrong="output = dropout(joined @ W_O)",
        planted={},
        rare=True,
    )


MIX_UPS = (*_of_the_projection(), *_of_the_block(), *_dropout())
