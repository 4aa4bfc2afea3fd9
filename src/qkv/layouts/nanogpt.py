"""What nanoGPT stores."""

from qkv.layouts._layout import Form, Layout, Stored
from qkv.layouts._types import types

# Each was built small and run whole: tests/truth/test_types.py.
TYPES = types(
    "mpt",
    rotates="never",
    rename={"attn.Wqkv.": "attn.c_attn.", "attn.out_proj.": "attn.c_proj."},
)

LAYOUT = Layout(
    types=TYPES,
    name="nanogpt",
    order=130,
    title="nanoGPT, CausalSelfAttention",
    read_in="karpathy/nanoGPT, model.py, lines 29-76, commit 3adf61e of 12 November 2025",
    call="layer",
    arguments={"x": "X_Q X_K X_V"},
    scaling="The scores are multiplied by 1/sqrt(d_k), in the layer or inside "
    "`scaled_dot_product_attention`.",
    forms=(
        Form(
            "always",
            (
                Stored("c_attn.weight", "W_Q W_K W_V", "(3 h d_k) d_model -> (3 h) d_model d_k"),
                Stored("c_attn.bias", "b_Q b_K b_V", "(3 h d_k) -> (3 h) d_k"),
                Stored("c_proj.weight", "W_O", "d_model (h d_k) -> h d_k d_model"),
                Stored("c_proj.bias", "b_O", "d_model -> d_model"),
            ),
        ),
    ),
    optional_biases=True,
    square=True,
    outside={
        "bias": "the causal mask, in spite of its name, stored where PyTorch has no fused "
        "attention: pass it to MultiHead as mask"
    },
    cannot=("dropout", "the causal mask, which the layer applies: pass it to MultiHead as mask"),
)
