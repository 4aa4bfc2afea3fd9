"""What GPT-2 stores in Transformers."""

from qkv.layouts._layout import Form, Layout, Stored
from qkv.layouts._types import types

_OUT = (
    Stored("c_proj.weight", "W_O", "(h d_k) d_model -> h d_k d_model"),
    Stored("c_proj.bias", "b_O", "d_model -> d_model"),
)

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
    scaling="The scores are multiplied by 1/sqrt(d_k), in the layer or inside "
    "`scaled_dot_product_attention`.",
    forms=(
        Form(
            "self-attention",
            (
                Stored("c_attn.weight", "W_Q W_K W_V", "d_model (3 h d_k) -> (3 h) d_model d_k"),
                Stored("c_attn.bias", "b_Q b_K b_V", "(3 h d_k) -> (3 h) d_k"),
                *_OUT,
            ),
        ),
        Form(
            "cross-attention",
            (
                Stored("c_attn.weight", "W_K W_V", "d_model (2 h d_k) -> (2 h) d_model d_k"),
                Stored("c_attn.bias", "b_K b_V", "(2 h d_k) -> (2 h) d_k"),
                Stored("q_attn.weight", "W_Q", "d_model (h d_k) -> h d_model d_k"),
                Stored("q_attn.bias", "b_Q", "(h d_k) -> h d_k"),
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
        "the causal mask, which the layer applies with sdpa if it is given none: "
        "pass it to MultiHead as mask",
        "scale_attn_weights=False and scale_attn_by_inverse_layer_idx change the scale "
        "and store nothing",
    ),
)
