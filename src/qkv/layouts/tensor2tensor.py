"""What Tensor2Tensor, the paper's own code, stores."""

from qkv.layouts._layout import Form, Layout, Stored

LAYOUT = Layout(
    name="tensor2tensor",
    order=150,
    title="Tensor2Tensor, multihead_attention",
    read_in="tensorflow/tensor2tensor, tensor2tensor/layers/common_attention.py, "
    "lines 4370-4478, 4701-4702 and 4816-4818, commit bafdc1b of 1 April 2023",
    call="multihead_attention",
    arguments={"query_antecedent": "X_Q", "memory_antecedent": "X_K X_V"},
    remark="in self-attention `memory_antecedent` is None, and `query_antecedent` is all three",
    scaling="The projected queries are multiplied by 1/sqrt(d_k). `dot_product_attention` itself "
    "does not scale.",
    forms=(
        Form(
            "unless attention_variables_3d is set",
            (
                Stored("q/kernel", "W_Q", "d_model (h d_k) -> h d_model d_k"),
                Stored("k/kernel", "W_K", "d_source (h d_k) -> h d_source d_k"),
                Stored("v/kernel", "W_V", "d_source (h d_v) -> h d_source d_v"),
                Stored("output_transform/kernel", "W_O", "(h d_v) d_out -> h d_v d_out"),
            ),
        ),
    ),
    cannot=(
        "dropout",
        "hard_attention_k changes the weights and stores nothing; so do max_area_width and "
        "max_area_height, with the default area_key_mode",
        "an attention_type such as local_mask_right hides tokens and stores nothing",
    ),
    unknown=(
        "attention_variables_3d, which stores q, k, v and o with a head axis and does not scale",
        'areas with area_key_mode="concat", "sum" and others, which store embeddings of their '
        "sizes and two dense layers (area_attention.py, lines 269-301)",
        "convolutions in place of the projections (filter widths other than 1)",
    ),
)
