"""What vit-pytorch stores."""

from qkv.layouts._layout import Form, Layout, Stored, linear

LAYOUT = Layout(
    name="vit-pytorch",
    order=140,
    title="vit-pytorch, Attention in vit.py",
    read_in="vit-pytorch 1.26.11, vit_pytorch/vit.py, lines 30-64",
    call="layer",
    arguments={"x": "X_Q X_K X_V"},
    scaling="The scores are multiplied by 1/sqrt(d_k).",
    forms=(
        Form(
            "unless one head is as wide as a token",
            (
                Stored("to_qkv.weight", "W_Q W_K W_V", "(3 h d_k) d_model -> (3 h) d_model d_k"),
                *linear("to_out.0.weight", "W_O", "d_model (h d_k) -> h d_k d_model"),
            ),
        ),
    ),
    whole_head=False,
    outside={"norm": "the norm before to_qkv: MultiHead's source is its output, norm(x)"},
    cannot=("dropout",),
    unknown=("one head that is as wide as a token, which stores no `to_out`",),
)
