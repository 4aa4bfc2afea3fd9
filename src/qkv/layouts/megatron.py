"""What Megatron Core stores."""

from qkv.layouts._layout import QK_NORM, Form, Layout, linear

_FUSED = linear(
    "linear_qkv.weight",
    "W_Q W_K W_V",
    "(h_kv h/h_kv+1+1 d_k) d_model -> (h_kv h/h_kv+1+1) d_model d_k",
)
_OUT = linear("linear_proj.weight", "W_O", "d_model (h d_k) -> h d_k d_model")

LAYOUT = Layout(
    name="megatron",
    order=155,
    title="Megatron Core, SelfAttention",
    read_in="NVIDIA/Megatron-LM, megatron/core/transformer/attention.py, lines 413-427, 1320-1324, "
    "1655-1711 and 1824-1942, dot_product_attention.py, lines 83-135, and torch_norm.py, line 76, "
    "commit d98e8a6 of 22 August 2026",
    call="layer",
    arguments={
        "hidden_states": "X_Q X_K X_V",
        "attention_mask": "which tokens are hidden, and no source",
    },
    remark="the first axis of `hidden_states` is the sequence, and the second is the batch",
    scaling="The scores are multiplied by 1/sqrt(d_k), inside the module that `core_attention` is.",
    forms=(
        Form(
            "add_bias_linear",
            (*_FUSED, *_OUT),
            note="There are no biases if `add_bias_linear` and `add_qkv_bias` are both False.",
        ),
        Form("add_qkv_bias without add_bias_linear", (*_FUSED, _OUT[0])),
    ),
    optional_biases=True,
    rotary=True,
    outside={
        "linear_qkv.layer_norm_weight": "with Transformer Engine, the norm before linear_qkv: "
        "MultiHead's source is its output",
        "linear_qkv.layer_norm_bias": "with Transformer Engine, the norm before linear_qkv: "
        "MultiHead's source is its output",
        "*_extra_state": "what Transformer Engine knows of its narrow numbers, such as FP8",
    },
    refused={
        "q_layernorm": QK_NORM,
        "k_layernorm": QK_NORM,
        "core_attention.softmax_offset": 'of softmax_type="learnable": each head adds e to '
        "the power of a learned number to the sum in its softmax; qkv.between has such sinks",
    },
    cannot=(
        "the rotation itself; a model with learned positions, or a layer that no_rope_freq names, "
        "stores the same names and does not rotate: pass between=() to load",
        "softmax_scale changes the scale and stores nothing",
        "qk_l2_norm is a norm of queries and keys that stores nothing",
        'softmax_type="off-by-one" adds 1 to the sum in the softmax and stores nothing',
        "the causal mask: pass it to MultiHead as mask",
        "window_size hides the tokens before a window and stores nothing",
        "tensor parallelism: the file of one device has a part of the groups",
        "dropout",
    ),
    unknown=(
        "attention_output_gate, which puts a gate between the queries and the key of each group",
        "CrossAttention, which stores linear_q and linear_kv",
    ),
)
