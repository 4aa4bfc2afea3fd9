"""What Phi-3 stores in Transformers."""

from qkv.layouts._layout import Form, Layout, Stored
from qkv.layouts._types import types

# Each was built small and run whole: tests/truth/test_types.py.
TYPES = types("phi3", windows="always")

LAYOUT = Layout(
    types=TYPES,
    name="phi3",
    order=91,
    title="Transformers, Phi3Attention",
    read_in="transformers 5.23.0, models/phi3/modeling_phi3.py, line 189",
    call="layer",
    arguments={
        "hidden_states": "X_Q X_K X_V",
        "position_embeddings": "the rotation, a pair (cos, sin), and no source",
    },
    scaling="The scores are multiplied by 1/sqrt(d_k), in the layer or inside "
    "`scaled_dot_product_attention`.",
    forms=(
        Form(
            "always",
            (
                Stored(
                    "qkv_proj.weight",
                    "W_Q W_K W_V",
                    "(h+h_kv+h_kv d_k) d_model -> (h+h_kv+h_kv) d_model d_k",
                ),
                Stored("o_proj.weight", "W_O", "d_model (h d_k) -> h d_k d_model"),
            ),
        ),
    ),
    rotary=True,
    cannot=(
        "the rotation itself, of a head's whole width or of a part of it (partial_rotary_factor)",
        "sliding_window hides the tokens before a window and stores nothing",
        "dropout",
        "the causal mask, which the layer applies with sdpa if it is given none: "
        "pass it to MultiHead as mask",
    ),
)
