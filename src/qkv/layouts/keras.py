"""What Keras' MultiHeadAttention stores."""

from qkv.layouts._layout import Layout, always, linear

LAYOUT = Layout(
    name="keras",
    order=20,
    title="Keras, keras.layers.MultiHeadAttention",
    read_in="keras 3.15.1, keras/src/layers/attention/multi_head_attention.py, line 20",
    call="layer",
    arguments={"query": "X_Q", "value": "X_V", "key": "X_K"},
    remark="the value comes before the key",
    scaling="The projected queries are multiplied by 1/sqrt(d_k), or a fused function scales the "
    "scores.",
    forms=always(
        *linear("query/kernel", "W_Q", "d_model h d_k -> h d_model d_k"),
        *linear("key/kernel", "W_K", "d_source_k h d_k -> h d_source_k d_k"),
        *linear("value/kernel", "W_V", "d_source_v h d_v -> h d_source_v d_v"),
        *linear("attention_output/kernel", "W_O", "h d_v d_out -> h d_v d_out"),
        note="A name is the weight's `path`. The layer's own name is left out.",
    ),
    optional_biases=True,
    in_order=True,
    refused={
        "gate": "use_gate=True multiplies the heads by a sigmoid of a fourth projection, "
        "which MultiHead cannot express"
    },
    cannot=("dropout", "attention_axes", "sliding_window"),
    unknown=("an output_shape of more than one axis",),
)
