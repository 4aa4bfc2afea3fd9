"""What CodeGen stores in Transformers."""

from qkv.layouts._layout import Layout, Stored, always
from qkv.layouts._types import types

# Each was built small and run whole: tests/truth/test_types.py.
TYPES = types("codegen", pairs="neighbours")

LAYOUT = Layout(
    types=TYPES,
    name="codegen",
    order=85,
    title="Transformers, CodeGenAttention",
    read_in="transformers 5.23.0, models/codegen/modeling_codegen.py, line 61; "
    "its older mask in 4.21.0, line 99, and in 4.30.0, line 81",
    call="layer",
    arguments={
        "hidden_states": "X_Q X_K X_V",
        "position_ids=...": "whole numbers, by which the rotation is looked up, and no source",
    },
    scaling="The scores are multiplied by 1/sqrt(d_k), after the mask was added.",
    forms=always(
        Stored("qkv_proj.weight", "W_Q W_V W_K", "(4 3 h/4 d_k) d_model -> (4 3 h/4) d_model d_k"),
        Stored("out_proj.weight", "W_O", "d_model (h d_k) -> h d_k d_model"),
        note="In each of the four blocks, values come before keys.",
    ),
    square=True,
    rotary=True,
    outside={
        "causal_mask": "in checkpoints of older versions, such as 4.30, the causal mask: "
        "pass it to MultiHead as mask"
    },
    cannot=(
        "the rotation itself, of the first rotary_dim coordinates of each head, in pairs of "
        "neighbours",
        "the causal mask, which comes from the model: pass it to MultiHead as mask",
        "dropout",
    ),
)
