"""What the Annotated Transformer stores."""

from qkv.layouts._layout import Layout, always, linear

LAYOUT = Layout(
    name="annotated-transformer",
    order=120,
    title="The Annotated Transformer, MultiHeadedAttention",
    read_in="harvardnlp/annotated-transformer, the_annotated_transformer.py, line 589, "
    "commit debc9fd of 2 May 2022",
    call="layer",
    arguments={"query": "X_Q", "key": "X_K", "value": "X_V"},
    scaling="The scores are multiplied by 1/sqrt(d_k).",
    forms=always(
        *linear("linears.0.weight", "W_Q", "(h d_k) d_model -> h d_model d_k"),
        *linear("linears.1.weight", "W_K", "(h d_k) d_model -> h d_model d_k"),
        *linear("linears.2.weight", "W_V", "(h d_k) d_model -> h d_model d_k"),
        *linear("linears.3.weight", "W_O", "d_model (h d_k) -> h d_k d_model"),
    ),
    square=True,
    cannot=("dropout",),
)
