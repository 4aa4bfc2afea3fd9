"""What OpenAI's own Whisper stores."""

from qkv.layouts._layout import Layout, Stored, always, linear

LAYOUT = Layout(
    name="openai-whisper",
    order=111,
    title="OpenAI's Whisper, MultiHeadAttention",
    read_in="openai-whisper 20250625, whisper/model.py, line 81",
    call="layer",
    arguments={"x": "X_Q X_K X_V", "xa=...": "X_K X_V"},
    scaling="`scaled_dot_product_attention` multiplies the scores by 1/sqrt(d_k). With "
    "`use_sdpa = False` queries and keys are each multiplied by the fourth root of 1/d_k.",
    forms=always(
        *linear("query.weight", "W_Q", "(h d_k) d_model -> h d_model d_k"),
        Stored("key.weight", "W_K", "(h d_k) d_model -> h d_model d_k"),
        *linear("value.weight", "W_V", "(h d_k) d_model -> h d_model d_k"),
        *linear("out.weight", "W_O", "d_model (h d_k) -> h d_k d_model"),
        note="The key has no bias.",
    ),
    square=True,
    cannot=("the causal mask of the decoder: pass it to MultiHead as mask",),
)
