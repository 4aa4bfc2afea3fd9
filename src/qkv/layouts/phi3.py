"""What Phi-3 stores in Transformers."""

from qkv.layouts._layout import CAUSAL_BY_SDPA, SCALED_HERE_OR_BY_SDPA, Layout, Stored, always
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
    scaling=SCALED_HERE_OR_BY_SDPA,
    forms=always(
        Stored(
            "qkv_proj.weight",
            "W_Q W_K W_V",
            "(h+h_kv+h_kv d_k) d_model -> (h+h_kv+h_kv) d_model d_k",
        ),
        Stored("o_proj.weight", "W_O", "d_model (h d_k) -> h d_k d_model"),
    ),
    rotary=True,
    cannot=(
        "the rotation itself, of a head's whole width or of a part of it (partial_rotary_factor)",
        "sliding_window hides the tokens before a window and stores nothing",
        "dropout",
        CAUSAL_BY_SDPA,
    ),
)
