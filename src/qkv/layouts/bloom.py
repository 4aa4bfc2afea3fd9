"""What Bloom stores in Transformers."""

from qkv.layouts._layout import Layout, always, linear
from qkv.layouts._types import types

# Each was built small and run whole: tests/truth/test_types.py.
TYPES = types("bloom", rotates="never", alibi=True)

LAYOUT = Layout(
    types=TYPES,
    name="bloom",
    order=81,
    title="Transformers, BloomAttention",
    read_in="transformers 5.23.0, models/bloom/modeling_bloom.py, line 166",
    call="layer",
    arguments={
        "hidden_states": "X_Q X_K X_V",
        "residual": "added to the layer's output, and no source",
        "alibi": "a number for each head and key that is added to the scores, and no source",
        "attention_mask": "added to the scores too, and no source",
    },
    scaling="The scores are multiplied by 1/sqrt(d_k), and `alibi` is added to the product.",
    forms=always(
        *linear("query_key_value.weight", "W_Q W_K W_V", "(h 3 d_k) d_model -> (h 3) d_model d_k"),
        *linear("dense.weight", "W_O", "d_model (h d_k) -> h d_k d_model"),
        note="Names, shapes and order are GPT-NeoX's, whose layer rotates.",
    ),
    square=True,
    cannot=(
        "ALiBi, a number for each head and key that the model makes and the layer adds to the "
        "scores",
        "slow_but_exact=True with pretraining_tp above 1, which leaves out the output's bias",
        "the causal mask, which comes from the model: pass it to MultiHead as mask",
        "dropout",
    ),
)
