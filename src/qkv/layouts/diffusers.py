"""What diffusers stores."""

from qkv.layouts._layout import QK_NORM, SCALED_HERE_OR_BY_SDPA, Form, Layout, Stored, linear

_SECOND = (
    "keys and values of a second source are put beside those of the first (added_kv_proj_dim), "
    "which MultiHead cannot express"
)
_WEIGHTS = (
    Stored("to_q.weight", "W_Q", "(h d_k) d_model -> h d_model d_k"),
    Stored("to_k.weight", "W_K", "(h d_k) d_source -> h d_source d_k"),
    Stored("to_v.weight", "W_V", "(h d_k) d_source -> h d_source d_k"),
)
_BIASES = (
    Stored("to_q.bias", "b_Q", "(h d_k) -> h d_k"),
    Stored("to_k.bias", "b_K", "(h d_k) -> h d_k"),
    Stored("to_v.bias", "b_V", "(h d_k) -> h d_k"),
)
_OUT = linear("to_out.0.weight", "W_O", "d_model (h d_k) -> h d_k d_model")

LAYOUT = Layout(
    name="diffusers",
    order=142,
    title="diffusers, Attention in attention_processor.py",
    read_in="diffusers 0.42.1, diffusers/models/attention_processor.py, line 52",
    call="layer",
    arguments={"hidden_states": "X_Q X_K X_V", "encoder_hidden_states=...": "X_K X_V"},
    scaling=SCALED_HERE_OR_BY_SDPA,
    forms=(Form("bias=False", (*_WEIGHTS, *_OUT)), Form("bias=True", (*_WEIGHTS, *_BIASES, *_OUT))),
    outside={
        "group_norm": "a norm before to_q: MultiHead's source is its output",
        "norm_cross": "a norm before to_k and to_v: MultiHead's other source is its output",
        "spatial_norm": "a norm before all maps: MultiHead's source is its output",
    },
    refused={
        "norm_q": QK_NORM,
        "norm_k": QK_NORM,
        "add_q_proj": _SECOND,
        "add_k_proj": _SECOND,
        "add_v_proj": _SECOND,
    },
    cannot=(
        "residual_connection=True adds the source to the output, and rescale_output_factor divides "
        "the output, with the source or without",
        "scale_qk=False changes the scale and stores nothing",
        'qk_norm="l2" or "fp32_layer_norm", or "layer_norm" or "rms_norm" with '
        "elementwise_affine=False, is a norm of queries and keys that stores nothing",
        "another processor than the one that a new layer has",
        "dropout",
    ),
    unknown=(
        "out_bias=False, an output map without a bias",
        "pre_only=True, no output map",
        "kv_heads, fewer heads of keys and values, which some processors compute",
    ),
)
