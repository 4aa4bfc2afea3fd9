"""What Falcon stores in Transformers."""

from qkv.layouts._layout import CAUSAL_BY_SDPA, SCALED_HERE_OR_BY_SDPA, Layout, always, linear
from qkv.layouts._types import types

# Each was built small and run whole: tests/truth/test_types.py.
TYPES = types("falcon", scaled_bias=True)

LAYOUT = Layout(
    types=TYPES,
    name="falcon",
    order=82,
    title="Transformers, FalconAttention",
    read_in="transformers 5.23.0, models/falcon/modeling_falcon.py, line 200",
    call="layer",
    arguments={
        "hidden_states": "X_Q X_K X_V",
        "alibi": "None, or a number for each head and key, and no source. The model has put it "
        "into the mask. In eager mode the layer adds it to the scores again; with sdpa it reads "
        "whether it is None",
        "attention_mask": "added to the scores, and no source",
        "position_embeddings=...": "the rotation, a pair (cos, sin), and no source. It "
        "is used where `alibi` is None",
    },
    scaling=SCALED_HERE_OR_BY_SDPA,
    forms=always(
        *linear(
            "query_key_value.weight",
            "W_Q W_K W_V",
            "(h_kv h/h_kv+1+1 d_k) d_model -> (h_kv h/h_kv+1+1) d_model d_k",
        ),
        *linear("dense.weight", "W_O", "d_model (h d_k) -> h d_k d_model"),
        note="`new_decoder_architecture=True` has `num_kv_heads` groups. Without it, "
        "`multi_query=True` is one group, `h_kv=1`, and `multi_query=False` has a group for "
        "each head. There are biases if `bias=True`.",
    ),
    optional_biases=True,
    square=True,
    rotary=True,
    cannot=(
        "the rotation itself",
        "alibi=True, as Falcon-RW has it, adds a number to the scores in place of the rotation "
        "and stores nothing",
        "dropout",
        CAUSAL_BY_SDPA,
    ),
)
