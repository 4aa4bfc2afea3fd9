"""What TransformerLens stores."""

from qkv.layouts._layout import QK_NORM, Form, Layout, linear

_ROTATION = (
    "this model rotates queries and keys (RoPE) before the dot product; leave the name out, and "
    "pass between to load, with the rotation of the model's base"
)
_QUERY = linear("W_Q", "W_Q", "h d_model d_k -> h d_model d_k", bias="b_Q")
_OUT = linear("W_O", "W_O", "h d_k d_model -> h d_k d_model", bias="b_O")

LAYOUT = Layout(
    name="transformerlens",
    order=160,
    title="TransformerLens up to version 3, Attention and GroupedQueryAttention",
    read_in="TransformerLensOrg/TransformerLens v3.5.1, transformer_lens/components, "
    "attention.py, abstract_attention.py and grouped_query_attention.py, "
    "commit 4ba2187 of 1 July 2026",
    call="layer",
    arguments={"query_input": "X_Q", "key_input": "X_K", "value_input": "X_V"},
    scaling="The scores are multiplied by 1/sqrt(d_k).",
    forms=(
        Form(
            "Attention",
            (
                *_QUERY,
                *linear("W_K", "W_K", "h d_model d_k -> h d_model d_k", bias="b_K"),
                *linear("W_V", "W_V", "h d_model d_k -> h d_model d_k", bias="b_V"),
                *_OUT,
            ),
        ),
        Form(
            "GroupedQueryAttention",
            (
                *_QUERY,
                *linear("_W_K", "W_K", "h_kv d_model d_k -> h_kv d_model d_k", bias="_b_K"),
                *linear("_W_V", "W_V", "h_kv d_model d_k -> h_kv d_model d_k", bias="_b_V"),
                *_OUT,
            ),
        ),
    ),
    outside={
        "mask": "the causal mask, empty in v3.5.1, which makes it when called: pass one to "
        "MultiHead as mask",
        "IGNORE": "minus infinity, what a masked score becomes",
    },
    refused={
        "rotary_sin": _ROTATION,
        "rotary_cos": _ROTATION,
        "q_norm": QK_NORM,
        "k_norm": QK_NORM,
    },
    cannot=(
        "use_attn_scale=False, attn_scale and scale_attn_by_inverse_layer_idx change the scale "
        "and store nothing",
        "attn_scores_soft_cap bounds the scores and stores nothing",
        'attn_type="local" hides the tokens before a window and stores nothing',
        "ALiBi and relative position biases are added to the scores",
    ),
    unknown=("load_in_4bit=True, which stores packed bytes without an axis of heads",),
)
