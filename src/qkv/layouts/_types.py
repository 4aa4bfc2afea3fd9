r"""What a type of model does that neither its config nor its arrays say, as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Type:
    """What a type of model does that neither its config nor its arrays say.

    Args:
        mask: Whether queries see later keys: "causal", "none", or "sides", where an encoder's do
            and a decoder's do not.
        rotates: Whether queries and keys are rotated: where the config has a base; "never"; "in
            windows", which is in layers that have one; or "by layer", as `no_rope_layers` says.
        pairs: Which numbers a rotation takes as a pair.
        base: The base where the config has none.
        norm: Which norm the arrays `q_norm` and the like belong to.
        gains_from: What stored gains are added to.
        clip_first: Whether a clip comes before the norm.
        norm_first: Whether the norm comes before the rotation.
        bare_norm: The option that turns on a norm without weights, after a rotation.
        windows: Whether the option for a sliding window acts: where the layer's type says so, or in
            no layer, or in all.
        alibi: Whether there is ALiBi whatever the config says.
        capped: Whether the option for a soft cap acts.
        scaled_bias: Whether a bias is added before the scores are scaled.
        first_bias: Whether the first layer has the table of a bias for all of its stack.
        rename: Parts of names that the model has, and what the layout calls them.
    """

    mask: Literal["causal", "none", "sides"] = "causal"
    rotates: Literal["by config", "never", "in windows", "by layer"] = "by config"
    pairs: Literal["halves", "neighbours"] = "halves"
    base: float | None = None
    norm: Literal["RMSNorm", "LayerNorm"] = "RMSNorm"
    gains_from: float = 0.0
    clip_first: bool = True
    norm_first: bool = True
    bare_norm: str = ""
    windows: Literal["by config", "never", "always"] = "by config"
    alibi: bool = False
    capped: bool = True
    scaled_bias: bool = False
    first_bias: bool = False
    rename: Mapping[str, str] = field(default_factory=dict)
