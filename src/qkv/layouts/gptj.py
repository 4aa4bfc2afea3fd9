"""What GPT-J stores in Transformers."""

from qkv.layouts._layout import Layout, Stored, always
from qkv.layouts._types import types

# Each was built small and run whole: tests/truth/test_types.py.
TYPES = types("gptj", pairs="neighbours") | types(
    "aimv2_vision_model", mask="none", rotates="never"
)

LAYOUT = Layout(
    types=TYPES,
    name="gptj",
    order=84,
    title="Transformers, GPTJAttention",
    read_in="transformers 5.23.0, models/gptj/modeling_gptj.py, line 71; "
    "its older masks in 4.11.0, lines 72-78 and 146, and in 4.21.0, lines 98-104",
    call="layer",
    arguments={
        "hidden_states": "X_Q X_K X_V",
        "position_ids=...": "whole numbers, by which the rotation is looked up, and no source",
    },
    scaling="The scores are multiplied by 1/sqrt(d_k).",
    forms=always(
        Stored("k_proj.weight", "W_K", "(h d_k) d_model -> h d_model d_k"),
        Stored("v_proj.weight", "W_V", "(h d_k) d_model -> h d_model d_k"),
        Stored("q_proj.weight", "W_Q", "(h d_k) d_model -> h d_model d_k"),
        Stored("out_proj.weight", "W_O", "d_model (h d_k) -> h d_k d_model"),
    ),
    square=True,
    rotary=True,
    outside={
        "bias": "in checkpoints of older versions, such as 4.21, the causal mask, in spite of its "
        "name: pass it to MultiHead as mask",
        "masked_bias": "in checkpoints of older versions a number for masked scores: in 4.11 a "
        "masked score became it",
    },
    cannot=(
        "the rotation itself, of the first rotary_dim coordinates of each head, in pairs of "
        "neighbours",
        "the causal mask, which comes from the model: pass it to MultiHead as mask",
        "dropout",
    ),
)
