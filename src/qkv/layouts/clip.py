"""What CLIP stores in Transformers."""

from qkv.layouts._layout import SCALED_HERE_OR_BY_SDPA, Layout, always, linear
from qkv.layouts._types import types

# Each was built small and run whole: tests/truth/test_types.py.
TYPES = (
    types(
        "chinese_clip_vision_model clip_vision_model data2vec-audio hubert sew siglip_vision_model "
        "tipsv2_text_model unispeech unispeech-sat wav2vec2",
        mask="none",
        rotates="never",
    )
    | types(
        "bart blenderbot blenderbot-small m2m_100 marian mbart mvp nllb-moe pegasus plbart "
        "speech_to_text",
        mask="sides",
        rotates="never",
    )
    | types("biogpt clip_text_model opt", rotates="never")
    | types(
        "distilbert",
        mask="none",
        rotates="never",
        rename={f"attention.{x}_lin.": f"attention.{x}_proj." for x in "qkv"}
        | {"attention.out_lin.": "attention.out_proj."},
    )
)

LAYOUT = Layout(
    types=TYPES,
    name="clip",
    order=112,
    title="Transformers, CLIPAttention",
    read_in="transformers 5.23.0, models/clip/modeling_clip.py, line 280",
    call="layer",
    arguments={"hidden_states": "X_Q X_K X_V"},
    scaling=SCALED_HERE_OR_BY_SDPA,
    forms=always(
        *linear("k_proj.weight", "W_K", "(h d_k) d_model -> h d_model d_k"),
        *linear("v_proj.weight", "W_V", "(h d_k) d_model -> h d_model d_k"),
        *linear("q_proj.weight", "W_Q", "(h d_k) d_model -> h d_model d_k"),
        *linear("out_proj.weight", "W_O", "d_model (h d_k) -> h d_k d_model"),
        note="The key comes first. In OpenAI's own CLIP the text model and the vision "
        "transformer are made of `nn.MultiheadAttention`, whose layout is `pytorch`.",
    ),
    square=True,
    cannot=("the causal mask of the text model: pass it to MultiHead as mask", "dropout"),
)
