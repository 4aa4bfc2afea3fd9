"""What Flax stores: linen's MultiHeadDotProductAttention and nnx's MultiHeadAttention."""

from qkv.layouts._layout import QK_NORM, Layout, always, linear

LAYOUT = Layout(
    name="flax",
    order=30,
    title="Flax, linen.MultiHeadDotProductAttention and nnx.MultiHeadAttention",
    read_in="flax 0.12.8, flax/linen/attention.py, line 298, "
    "and flax/nnx/nn/attention.py, line 335",
    call="layer",
    arguments={"inputs_q": "X_Q", "inputs_k": "X_K", "inputs_v": "X_V"},
    scaling="linen multiplies the projected queries by 1/sqrt(d_k). nnx multiplies the scores, or "
    "the queries if it has dropout or keeps the weights.",
    forms=always(
        *linear("query/kernel", "W_Q", "d_model h d_k -> h d_model d_k"),
        *linear("key/kernel", "W_K", "d_source_k h_kv d_k -> h_kv d_source_k d_k"),
        *linear("value/kernel", "W_V", "d_source_v h_kv d_k -> h_kv d_source_v d_k"),
        *linear("out/kernel", "W_O", "h d_k d_out -> h d_k d_out"),
        note="linen has as many heads of keys and values as of queries. nnx may have fewer: "
        "`num_kv_heads`.",
    ),
    optional_biases=True,
    outside={
        "rngs": "the state of the random numbers of dropout (nnx)",
        "cached_key": "keys of earlier steps, kept for decoding (nnx)",
        "cached_value": "values of earlier steps, kept for decoding (nnx)",
        "cache_index": "the next step of decoding (nnx)",
    },
    refused={"query_ln": QK_NORM, "key_ln": QK_NORM},
    cannot=("dropout", "another attention_fn"),
)
