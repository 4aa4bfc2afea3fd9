"""What BERT stores in Transformers."""

from qkv.layouts._layout import CAUSAL_BY_SDPA, SCALED_HERE_OR_BY_SDPA, Form, Layout, linear
from qkv.layouts._types import types

_OUT = linear("output.dense.weight", "W_O", "d_model (h d_k) -> h d_k d_model")

# Each was built small and run whole: tests/truth/test_types.py.
TYPES = types(
    "bert bert-generation camembert data2vec-text dpr dpt electra ernie layoutlm markuplm rembert "
    "roberta splinter tapas vilt visual_bert xlm-roberta xmod yolos",
    mask="none",
    rotates="never",
) | types("roformer", mask="none", pairs="neighbours", base=10000.0)

LAYOUT = Layout(
    types=TYPES,
    name="bert",
    order=50,
    title="Transformers, BertAttention: BertSelfAttention and the dense layer of BertSelfOutput",
    read_in="transformers 5.23.0, models/bert/modeling_bert.py, lines 139 and 282",
    call="layer",
    arguments={"hidden_states": "X_Q X_K X_V", "encoder_hidden_states=...": "X_K X_V"},
    remark="`encoder_hidden_states` is for a layer that is made with `is_cross_attention=True`. "
    "Another layer ignores it",
    scaling=SCALED_HERE_OR_BY_SDPA,
    forms=(
        Form(
            "BERT",
            (
                *linear("self.query.weight", "W_Q", "(h d_k) d_model -> h d_model d_k"),
                *linear("self.key.weight", "W_K", "(h d_k) d_model -> h d_model d_k"),
                *linear("self.value.weight", "W_V", "(h d_k) d_model -> h d_model d_k"),
                *_OUT,
            ),
        ),
        Form(
            "ViT, in a file",
            (
                *linear("attention.query.weight", "W_Q", "(h d_k) d_model -> h d_model d_k"),
                *linear("attention.key.weight", "W_K", "(h d_k) d_model -> h d_model d_k"),
                *linear("attention.value.weight", "W_V", "(h d_k) d_model -> h d_model d_k"),
                *_OUT,
            ),
            note="The Vision Transformer of Transformers is saved with these names. Version 5 has "
            "other ones in memory.",
        ),
    ),
    square=True,
    outside={
        "output.LayerNorm": "the norm after the residual: it receives MultiHead's output plus "
        "the source"
    },
    refused={
        "self.distance_embedding": "of older versions: relative positions are added to the scores, "
        "which MultiHead cannot express"
    },
    cannot=("dropout", f"in a decoder {CAUSAL_BY_SDPA}"),
    unknown=("qkv_bias=False of the Vision Transformer, which stores the output's bias alone",),
)
