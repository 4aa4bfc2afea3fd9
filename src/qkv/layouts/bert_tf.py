"""What the original BERT checkpoints store."""

from qkv.layouts._layout import Layout, always, linear

LAYOUT = Layout(
    name="bert-tf",
    order=60,
    title="google-research/bert, attention_layer and the dense layer after it",
    read_in="google-research/bert, modeling.py, lines 558-751, 807 and 857-861, commit eedf571 of "
    "11 March 2020",
    call="attention_layer",
    arguments={"from_tensor": "X_Q", "to_tensor": "X_K X_V"},
    remark="`size_per_head` may be any width. BERT's model sets it to the model's width divided by "
    "the number of heads (line 807)",
    scaling="The scores are multiplied by 1/sqrt(d_k).",
    forms=always(
        *linear("self/query/kernel", "W_Q", "d_model (h d_k) -> h d_model d_k"),
        *linear("self/key/kernel", "W_K", "d_model (h d_k) -> h d_model d_k"),
        *linear("self/value/kernel", "W_V", "d_model (h d_k) -> h d_model d_k"),
        *linear("output/dense/kernel", "W_O", "(h d_k) d_model -> h d_k d_model"),
    ),
    square=True,
    outside={
        "output/LayerNorm": "the norm after the residual: it receives MultiHead's output plus "
        "the source",
        "*/adam_m": "a mean of gradients, kept by the optimiser in checkpoints of a training",
        "*/adam_v": "a mean of their squares, likewise",
    },
    cannot=("dropout", "query_act, key_act and value_act, functions after the projections"),
)
