"""What BERT stores in Transformers."""

from qkv.layouts._layout import Form, Layout, Stored
from qkv.layouts._types import types

_OUT = (
    Stored("output.dense.weight", "W_O", "d_model (h d_k) -> h d_k d_model"),
    Stored("output.dense.bias", "b_O", "d_model -> d_model"),
)

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
    scaling="The scores are multiplied by 1/sqrt(d_k), in the layer or inside "
    "`scaled_dot_product_attention`.",
    forms=(
        Form(
            "BERT",
            (
                Stored("self.query.weight", "W_Q", "(h d_k) d_model -> h d_model d_k"),
                Stored("self.query.bias", "b_Q", "(h d_k) -> h d_k"),
                Stored("self.key.weight", "W_K", "(h d_k) d_model -> h d_model d_k"),
                Stored("self.key.bias", "b_K", "(h d_k) -> h d_k"),
                Stored("self.value.weight", "W_V", "(h d_k) d_model -> h d_model d_k"),
                Stored("self.value.bias", "b_V", "(h d_k) -> h d_k"),
                *_OUT,
            ),
        ),
        Form(
            "ViT, in a file",
            (
                Stored("attention.query.weight", "W_Q", "(h d_k) d_model -> h d_model d_k"),
                Stored("attention.query.bias", "b_Q", "(h d_k) -> h d_k"),
                Stored("attention.key.weight", "W_K", "(h d_k) d_model -> h d_model d_k"),
                Stored("attention.key.bias", "b_K", "(h d_k) -> h d_k"),
                Stored("attention.value.weight", "W_V", "(h d_k) d_model -> h d_model d_k"),
                Stored("attention.value.bias", "b_V", "(h d_k) -> h d_k"),
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
    cannot=(
        "dropout",
        "in a decoder the causal mask, which the layer applies with sdpa if it is given none: "
        "pass it to MultiHead as mask",
    ),
    unknown=("qkv_bias=False of the Vision Transformer, which stores the output's bias alone",),
)
