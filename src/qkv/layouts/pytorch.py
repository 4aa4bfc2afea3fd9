"""What PyTorch's nn.MultiheadAttention stores."""

from qkv.layouts._layout import Form, Layout, Stored, linear

_EXTRA_TOKEN = (
    "in spite of its name it is no bias of a projection but one more key or value, an extra token "
    "appended to the sequence (add_bias_kv=True), which MultiHead cannot express"
)
_BIAS = Stored("in_proj_bias", "b_Q b_K b_V", "(3 h d_k) -> (3 h) d_k")
_OUT = linear("out_proj.weight", "W_O", "d_model (h d_k) -> h d_k d_model")

LAYOUT = Layout(
    name="pytorch",
    order=10,
    title="PyTorch, torch.nn.MultiheadAttention",
    read_in="torch 2.13.0, torch/nn/modules/activation.py, line 1089",
    call="layer",
    arguments={"query": "X_Q", "key": "X_K", "value": "X_V"},
    scaling="The projected queries are multiplied by 1/sqrt(d_k), or "
    "`scaled_dot_product_attention` scales the scores.",
    forms=(
        Form(
            "kdim = vdim = embed_dim",
            (
                Stored("in_proj_weight", "W_Q W_K W_V", "(3 h d_k) d_model -> (3 h) d_model d_k"),
                _BIAS,
                *_OUT,
            ),
        ),
        Form(
            "kdim or vdim differs from embed_dim",
            (
                Stored("q_proj_weight", "W_Q", "(h d_k) d_model -> h d_model d_k"),
                Stored("k_proj_weight", "W_K", "(h d_k) d_source_k -> h d_source_k d_k"),
                Stored("v_proj_weight", "W_V", "(h d_k) d_source_v -> h d_source_v d_k"),
                _BIAS,
                *_OUT,
            ),
        ),
    ),
    optional_biases=True,
    square=True,
    refused={"bias_k": _EXTRA_TOKEN, "bias_v": _EXTRA_TOKEN},
    cannot=(
        "add_zero_attn appends a token of zeros and stores nothing",
        "without batch_first=True the first axis is the sequence, and the second is the batch",
        "dropout",
    ),
)
