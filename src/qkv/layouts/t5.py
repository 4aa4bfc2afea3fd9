"""What T5 stores in Transformers."""

from qkv.layouts._layout import CAUSAL_BY_SDPA, Layout, Stored, always
from qkv.layouts._types import types

# Each was built small and run whole: tests/truth/test_types.py.
TYPES = types("umt5", mask="sides", rotates="never") | types(
    "mt5 switch_transformers t5", mask="sides", rotates="never", first_bias=True
)

LAYOUT = Layout(
    types=TYPES,
    name="t5",
    order=100,
    title="Transformers, T5Attention",
    read_in="transformers 5.23.0, models/t5/modeling_t5.py, lines 176-212, "
    "611 (the first weights), 648 and 739-742 (the bias)",
    call="layer",
    arguments={"hidden_states": "X_Q X_K X_V", "key_value_states=...": "X_K X_V"},
    scaling="The scores are not scaled. The factor 1/sqrt(d_k) is part of how W_Q is initialised.",
    forms=always(
        Stored("q.weight", "W_Q", "(h d_k) d_model -> h d_model d_k"),
        Stored("k.weight", "W_K", "(h d_k) d_model -> h d_model d_k"),
        Stored("v.weight", "W_V", "(h d_k) d_model -> h d_model d_k"),
        Stored("o.weight", "W_O", "d_model (h d_k) -> h d_k d_model"),
    ),
    scale=1.0,
    refused={
        "relative_attention_bias": "it is added to the scores by relative position; qkv.between "
        "has such a bias, and find_layers reads it with the model's config. The first layer of a "
        "T5 stack stores it and shares it with the other layers"
    },
    cannot=(
        "the relative position bias in layers that share the first one's",
        "dropout",
        f"in a decoder {CAUSAL_BY_SDPA}",
    ),
)
