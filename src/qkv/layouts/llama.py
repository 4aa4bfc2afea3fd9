"""What Llama stores in Transformers."""

from qkv.layouts._layout import QK_NORM, Form, Layout, Stored

_MAPS = (
    Stored("q_proj.weight", "W_Q", "(h d_k) d_model -> h d_model d_k"),
    Stored("q_proj.bias", "b_Q", "(h d_k) -> h d_k"),
    Stored("k_proj.weight", "W_K", "(h_kv d_k) d_model -> h_kv d_model d_k"),
    Stored("k_proj.bias", "b_K", "(h_kv d_k) -> h_kv d_k"),
    Stored("v_proj.weight", "W_V", "(h_kv d_k) d_model -> h_kv d_model d_k"),
    Stored("v_proj.bias", "b_V", "(h_kv d_k) -> h_kv d_k"),
    Stored("o_proj.weight", "W_O", "d_model (h d_k) -> h d_k d_model"),
)

LAYOUT = Layout(
    name="llama",
    order=90,
    title="Transformers, LlamaAttention",
    read_in="transformers 5.23.0, models/llama/modeling_llama.py, line 206",
    call="layer",
    arguments={
        "hidden_states": "X_Q X_K X_V",
        "position_embeddings": "the rotation, a pair (cos, sin), and no source",
    },
    scaling="The scores are multiplied by 1/sqrt(d_k), in the layer or inside "
    "`scaled_dot_product_attention`.",
    forms=(
        Form(
            "Llama",
            (*_MAPS, Stored("o_proj.bias", "b_O", "d_model -> d_model")),
            note="There are biases if `attention_bias=True`, which Llama's own models do not set.",
        ),
        Form(
            "Qwen2",
            _MAPS,
            note="The output map has no bias. Qwen2 is a class of its own, with Llama's names.",
        ),
    ),
    optional_biases=True,
    rotary=True,
    outside={
        "rotary_emb.inv_freq": "in checkpoints of older versions, such as 4.30, the frequencies of "
        "the rotation, computed and not learned"
    },
    refused={
        "q_norm": QK_NORM,
        "k_norm": QK_NORM,
        "sinks": "of gpt-oss: each head adds e to the power of a learned number to the sum in its "
        "softmax, which MultiHead cannot express",
    },
    cannot=(
        "the rotation itself, of a head's whole width or, in some models, of a part of it",
        "in other models with these names, a scale of their own, a window, a bound of the scores "
        "or of the projections, or a norm without weights",
        "dropout",
        "the causal mask, which the layer applies with sdpa if it is given none: "
        "pass it to MultiHead as mask",
    ),
)
