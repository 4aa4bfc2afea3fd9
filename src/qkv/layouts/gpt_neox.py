"""What GPT-NeoX stores in Transformers."""

from qkv.layouts._layout import CAUSAL_BY_SDPA, SCALED_HERE_OR_BY_SDPA, Layout, always, linear
from qkv.layouts._types import types

# Each was built small and run whole: tests/truth/test_types.py.
TYPES = types("gpt_neox gpt_neox_japanese") | types("persimmon", norm="LayerNorm")

LAYOUT = Layout(
    types=TYPES,
    name="gpt-neox",
    order=80,
    title="Transformers, GPTNeoXAttention",
    read_in="transformers 5.23.0, models/gpt_neox/modeling_gpt_neox.py, lines 169-196; "
    "its older masks in 4.20.1, lines 91 and 199",
    call="layer",
    arguments={
        "hidden_states": "X_Q X_K X_V",
        "attention_mask": "added to the scores, or None, and no source",
        "position_embeddings=...": "the rotation, a pair (cos, sin), and no source",
    },
    scaling=SCALED_HERE_OR_BY_SDPA,
    forms=always(
        *linear("query_key_value.weight", "W_Q W_K W_V", "(h 3 d_k) d_model -> (h 3) d_model d_k"),
        *linear("dense.weight", "W_O", "d_model (h d_k) -> h d_k d_model"),
    ),
    optional_biases=True,
    square=True,
    rotary=True,
    outside={
        "bias": "in checkpoints of older versions, such as 4.20, the causal mask, in spite of its "
        "name: pass it to MultiHead as mask",
        "masked_bias": "in checkpoints of older versions a number for masked scores: in 4.20 a "
        "masked score became it",
        "rotary_emb.inv_freq": "in checkpoints of older versions, such as 4.21, the frequencies of "
        "the rotation, computed and not learned",
    },
    cannot=(
        "the rotation itself, of a head's whole width or of a part of it, by default a quarter",
        "dropout",
        CAUSAL_BY_SDPA,
    ),
)
