"""What GPT-2 stores in Transformers."""

from qkv.layouts._layout import CAUSAL_BY_SDPA, SCALED_HERE_OR_BY_SDPA, Form, Layout, linear
from qkv.layouts._types import types

_OUT = linear("c_proj.weight", "W_O", "(h d_k) d_model -> h d_k d_model")

# Each was built small and run whole: tests/truth/test_types.py.
TYPES = types("gpt2 gpt-sw3 imagegpt openai-gpt", rotates="never")

LAYOUT = Layout(
    types=TYPES,
    name="gpt2",
    order=70,
    title="Transformers, GPT2Attention",
    read_in="transformers 5.23.0, models/gpt2/modeling_gpt2.py, line 75; "
    "its Conv1D is a linear map stored as (in, out), pytorch_utils.py, line 95; its older masks in "
    "4.11.0, lines 137 and 188, and in 4.21.0, lines 135-141",
    call="layer",
    arguments={"hidden_states": "X_Q X_K X_V", "encoder_hidden_states=...": "X_K X_V"},
    remark="`encoder_hidden_states` is for a layer that is made with `is_cross_attention=True`. "
    "Another layer refuses it",
    scaling=SCALED_HERE_OR_BY_SDPA,
    forms=(
        Form(
            "self-attention",
            (
                *linear("c_attn.weight", "W_Q W_K W_V", "d_model (3 h d_k) -> (3 h) d_model d_k"),
                *_OUT,
            ),
        ),
        Form(
            "cross-attention",
            (
                *linear("c_attn.weight", "W_K W_V", "d_model (2 h d_k) -> (2 h) d_model d_k"),
                *linear("q_attn.weight", "W_Q", "d_model (h d_k) -> h d_model d_k"),
                *_OUT,
            ),
        ),
    ),
    square=True,
    outside={
        "bias": "in checkpoints of older versions, such as 4.21, the causal mask, in spite of its "
        "name: pass it to MultiHead as mask",
        "masked_bias": "in checkpoints of older versions a number for masked scores: in 4.11 a "
        "masked score became it",
    },
    cannot=(
        "dropout",
        CAUSAL_BY_SDPA,
        "scale_attn_weights=False and scale_attn_by_inverse_layer_idx change the scale "
        "and store nothing",
    ),
)
