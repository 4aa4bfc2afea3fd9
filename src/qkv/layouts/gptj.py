"""What GPT-J stores in Transformers."""

from qkv.layouts._layout import Form, Layout, Stored

LAYOUT = Layout(
    name="gptj",
    order=84,
    title="Transformers, GPTJAttention",
    read_in="transformers 5.23.0, models/gptj/modeling_gptj.py, line 71",
    call="layer",
    arguments={
        "hidden_states": "X_Q X_K X_V",
        "position_ids": "whole numbers, by which the rotation is looked up, given by name, and no "
        "source",
    },
    scaling="The scores are multiplied by 1/sqrt(d_k).",
    forms=(
        Form(
            "always",
            (
                Stored("k_proj.weight", "W_K", "(h d_k) d_model -> h d_model d_k"),
                Stored("v_proj.weight", "W_V", "(h d_k) d_model -> h d_model d_k"),
                Stored("q_proj.weight", "W_Q", "(h d_k) d_model -> h d_model d_k"),
                Stored("out_proj.weight", "W_O", "d_model (h d_k) -> h d_k d_model"),
            ),
        ),
    ),
    square=True,
    rotary=True,
    outside={
        "bias": "in older checkpoints the causal mask, in spite of its name: "
        "pass it to MultiHead as mask",
        "masked_bias": "in older checkpoints the number that a masked score becomes",
    },
    cannot=(
        "the rotation itself, here of a part of each head's width, in pairs of neighbours",
        "dropout",
    ),
)
