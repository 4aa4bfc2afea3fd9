"""What timm stores."""

from qkv.layouts._layout import QK_NORM, Form, Layout, Stored, linear
from qkv.layouts._types import types

_WEIGHT = Stored("qkv.weight", "W_Q W_K W_V", "(3 h d_k) d_model -> (3 h) d_model d_k")
_OUT = linear("proj.weight", "W_O", "d_out (h d_k) -> h d_k d_out")

# Each was built small and run whole: tests/truth/test_types.py.
TYPES = types("vitdet", mask="none", rotates="never")

LAYOUT = Layout(
    types=TYPES,
    name="timm",
    order=141,
    title="timm, Attention in layers/attention.py",
    read_in="timm 1.0.31, timm/layers/attention.py, line 43",
    call="layer",
    arguments={"x": "X_Q X_K X_V"},
    scaling="The projected queries are multiplied by 1/sqrt(d_k), or "
    "`scaled_dot_product_attention` scales the scores.",
    forms=(
        Form(
            "qkv_bias=True",
            (_WEIGHT, Stored("qkv.bias", "b_Q b_K b_V", "(3 h d_k) -> (3 h) d_k"), *_OUT),
        ),
        Form("qkv_bias=False", (_WEIGHT, *_OUT)),
    ),
    refused={
        "q_norm": QK_NORM,
        "k_norm": QK_NORM,
        "norm": "scale_norm=True puts a norm between the heads and the output map, which MultiHead "
        "cannot express",
        "gate": "gated=True multiplies the heads by a sigmoid of a fourth projection, which "
        "MultiHead cannot express",
    },
    cannot=(
        "qk_norm or scale_norm with a norm_layer that has no weights, such as LayerNorm with "
        "elementwise_affine=False, is a norm that stores nothing",
        "AttentionRope rotates queries and keys, and an attention across channels, such as DaViT's "
        "ChannelAttention, is none across tokens: both may have the same names and shapes",
        "is_causal=True in the call hides later tokens: pass a mask to MultiHead",
        "dropout",
    ),
    unknown=("proj_bias=False, an output map without a bias",),
)
