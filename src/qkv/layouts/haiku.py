"""What Haiku's MultiHeadAttention stores."""

from qkv.layouts._layout import Layout, always, linear

LAYOUT = Layout(
    name="haiku",
    order=40,
    title="Haiku, haiku.MultiHeadAttention",
    read_in="dm-haiku 0.0.17, haiku/_src/attention.py, line 37",
    call="layer",
    arguments={"query": "X_Q", "key": "X_K", "value": "X_V"},
    scaling="The scores are multiplied by 1/sqrt(d_k).",
    forms=always(
        *linear("query/w", "W_Q", "d_model (h d_k) -> h d_model d_k", bias="query/b"),
        *linear("key/w", "W_K", "d_source_k (h d_k) -> h d_source_k d_k", bias="key/b"),
        *linear("value/w", "W_V", "d_source_v (h d_v) -> h d_source_v d_v", bias="value/b"),
        *linear("linear/w", "W_O", "(h d_v) d_out -> h d_v d_out", bias="linear/b"),
        note="A name is the module, a slash and the parameter. The layer's own name is left out.",
    ),
    optional_biases=True,
)
