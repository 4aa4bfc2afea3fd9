"""What Whisper stores in Transformers."""

from qkv.layouts._layout import Form, Layout, Stored
from qkv.layouts._types import types

# Each was built small and run whole: tests/truth/test_types.py.
TYPES = types(
    "moss_transcribe_diarize_audio qwen2_audio_encoder voxtral_encoder",
    mask="none",
    rotates="never",
) | types("whisper", mask="sides", rotates="never")

LAYOUT = Layout(
    types=TYPES,
    name="whisper",
    order=110,
    title="Transformers, WhisperAttention",
    read_in="transformers 5.23.0, models/whisper/modeling_whisper.py, lines 242-350",
    call="layer",
    arguments={"hidden_states": "X_Q X_K X_V", "key_value_states=...": "X_K X_V"},
    scaling="The projected queries are multiplied by 1/sqrt(d_k). Where OpenAI's own code does not "
    "call `scaled_dot_product_attention`, it multiplies queries and keys each by the fourth root "
    "of 1/d_k.",
    forms=(
        Form(
            "bias=True",
            (
                Stored("q_proj.weight", "W_Q", "(h d_k) d_model -> h d_model d_k"),
                Stored("q_proj.bias", "b_Q", "(h d_k) -> h d_k"),
                Stored("k_proj.weight", "W_K", "(h d_k) d_model -> h d_model d_k"),
                Stored("v_proj.weight", "W_V", "(h d_k) d_model -> h d_model d_k"),
                Stored("v_proj.bias", "b_V", "(h d_k) -> h d_k"),
                Stored("out_proj.weight", "W_O", "d_model (h d_k) -> h d_k d_model"),
                Stored("out_proj.bias", "b_O", "d_model -> d_model"),
            ),
            note="The key has no bias.",
        ),
    ),
    square=True,
    cannot=(
        "dropout",
        "in a decoder the causal mask, which the layer applies with sdpa if it is given none: "
        "pass it to MultiHead as mask",
    ),
    unknown=("bias=False, which stores no biases",),
)
