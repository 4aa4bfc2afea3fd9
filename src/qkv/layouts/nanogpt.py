"""What nanoGPT stores."""

from qkv.layouts._layout import SCALED_HERE_OR_BY_SDPA, Layout, always, linear
from qkv.layouts._types import types

# Each was built small and run whole: tests/truth/test_types.py.
TYPES = types(
    "mpt", rotates="never", rename={"attn.Wqkv.": "attn.c_attn.", "attn.out_proj.": "attn.c_proj."}
)

LAYOUT = Layout(
    types=TYPES,
    name="nanogpt",
    order=130,
    title="nanoGPT, CausalSelfAttention",
    read_in="karpathy/nanoGPT, model.py, lines 29-76, commit 3adf61e of 12 November 2025",
    call="layer",
    arguments={"x": "X_Q X_K X_V"},
    scaling=SCALED_HERE_OR_BY_SDPA,
    forms=always(
        *linear("c_attn.weight", "W_Q W_K W_V", "(3 h d_k) d_model -> (3 h) d_model d_k"),
        *linear("c_proj.weight", "W_O", "d_model (h d_k) -> h d_k d_model"),
    ),
    optional_biases=True,
    square=True,
    outside={
        "bias": "the causal mask, in spite of its name, stored where PyTorch has no fused "
        "attention: pass it to MultiHead as mask"
    },
    cannot=("dropout", "the causal mask, which the layer applies: pass it to MultiHead as mask"),
)
