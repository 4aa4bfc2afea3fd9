"""What Llama stores in Transformers."""

from qkv.layouts._layout import (
    CAUSAL_BY_SDPA,
    QK_NORM,
    SCALED_HERE_OR_BY_SDPA,
    Form,
    Layout,
    Stored,
    linear,
)
from qkv.layouts._types import types

_MAPS = (
    *linear("q_proj.weight", "W_Q", "(h d_k) d_model -> h d_model d_k"),
    *linear("k_proj.weight", "W_K", "(h_kv d_k) d_model -> h_kv d_model d_k"),
    *linear("v_proj.weight", "W_V", "(h_kv d_k) d_model -> h_kv d_model d_k"),
    Stored("o_proj.weight", "W_O", "d_model (h d_k) -> h d_k d_model"),
)

# Each was built small and run whole: tests/truth/test_types.py.
TYPES = (
    types(
        "apertus arcee aria_text cosmos3_edge_text cwm dots1 falcon_h1 flex_olmo gemma gemma2 "
        "glm4_moe gpt_oss granite granite_docling_text granite_swa granitemoe granitemoe_swa "
        "granitemoeshared higgs_audio_v2 hy_v3 hyperclovax internlm3 iquestcoder jais2 kolibri1 "
        "llama mellum minimax_m2 ministral molmo2_text nemotron olmo olmo2 olmo3 olmo_hybrid "
        "qwen2 qwen2_5_vl_text qwen2_moe qwen2_vl_text qwen3 qwen3_moe qwen3_vl_text seed_oss "
        "solar_open vaultgemma"
    )
    | types("jamba", rotates="never")
    | types("llama", base=10000.0)  # a config.json of 2023 does not say it
    | types("ernie4_5 ernie4_5_moe glm glm4 helium", pairs="neighbours")
    | types("cohere", pairs="neighbours", norm="LayerNorm")
    | types("cohere2 cohere2_moe", pairs="neighbours", rotates="in windows")
    | types("exaone4 exaone_moe flint", rotates="in windows")
    | types("gemma3_text", gains_from=1.0, capped=False)
    | types("hunyuan_v1_dense hunyuan_v1_moe", norm_first=False)
    | types("llama4_text", rotates="by layer", pairs="neighbours", bare_norm="use_qk_norm")
    | types("minimax ministral3 mistral mixtral phimoe starcoder2", windows="always")
    | types("olmoe", clip_first=False)
    | types("smollm3", rotates="by layer")
    | types("qwen3_vl_moe_text", windows="never")
    | types("stablelm", norm="LayerNorm")
    | types("phi", norm="LayerNorm", rename={"self_attn.dense.": "self_attn.o_proj."})
    | types("esmc", mask="none", norm="LayerNorm")
    | types("eurobert gte jina_embeddings_v3 lasr_encoder nomic_bert", mask="none")
    | types(
        "audio-spectrogram-transformer deit dinov2 dinov2_with_registers ijepa pixio radio "
        "tipsv2_vision_model vit vit_mae vit_msn vivit",
        mask="none",
        rotates="never",
    )
)

LAYOUT = Layout(
    types=TYPES,
    name="llama",
    order=90,
    title="Transformers, LlamaAttention",
    read_in="transformers 5.23.0, models/llama/modeling_llama.py, line 206",
    call="layer",
    arguments={
        "hidden_states": "X_Q X_K X_V",
        "position_embeddings": "the rotation, a pair (cos, sin), and no source",
    },
    scaling=SCALED_HERE_OR_BY_SDPA,
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
        "softmax; qkv.between has such sinks",
    },
    cannot=(
        "the rotation itself, of a head's whole width or, in some models, of a part of it",
        "in other models with these names, a scale of their own, a window, a bound of the scores "
        "or of the projections, or a norm without weights",
        "dropout",
        CAUSAL_BY_SDPA,
    ),
)
