"""What GPT-BigCode, the model of StarCoder, stores in Transformers."""

from qkv.layouts._layout import CAUSAL_BY_SDPA, SCALED_HERE_OR_BY_SDPA, Layout, always, linear
from qkv.layouts._types import types

# Each was built small and run whole: tests/truth/test_types.py.
TYPES = types("gpt_bigcode", rotates="never")

LAYOUT = Layout(
    types=TYPES,
    name="gpt-bigcode",
    order=72,
    title="Transformers, GPTBigCodeAttention",
    read_in="transformers 5.23.0, models/gpt_bigcode/modeling_gpt_bigcode.py, line 115",
    call="layer",
    arguments={"hidden_states": "X_Q X_K X_V"},
    scaling=SCALED_HERE_OR_BY_SDPA,
    forms=always(
        *linear(
            "c_attn.weight",
            "W_Q W_K W_V",
            "(h_kv h/h_kv+1+1 d_k) d_model -> (h_kv h/h_kv+1+1) d_model d_k",
        ),
        *linear("c_proj.weight", "W_O", "d_model (h d_k) -> h d_k d_model"),
        note="`multi_query=True`, the default, has one head of keys and values: `h_kv=1`. "
        "`multi_query=False` has as many as of queries, each beside its head of queries.",
    ),
    square=True,
    one_or_all=True,
    cannot=(
        "dropout",
        CAUSAL_BY_SDPA,
        "scale_attn_weights=False changes the scale and stores nothing",
    ),
    unknown=("is_cross_attention=True, which stores `q_attn` beside a `c_attn` of two parts",),
)
