"""What Whisper stores in Transformers."""

from qkv.layouts._layout import CAUSAL_BY_SDPA, Form, Layout, Stored, linear
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
                *linear("q_proj.weight", "W_Q", "(h d_k) d_model -> h d_model d_k"),
                Stored("k_proj.weight", "W_K", "(h d_k) d_model -> h d_model d_k"),
                *linear("v_proj.weight", "W_V", "(h d_k) d_model -> h d_model d_k"),
                *linear("out_proj.weight", "W_O", "d_model (h d_k) -> h d_k d_model"),
            ),
            note="The key has no bias.",
        ),
    ),
    square=True,
    cannot=("dropout", f"in a decoder {CAUSAL_BY_SDPA}"),
    unknown=("bias=False, which stores no biases",),
)
