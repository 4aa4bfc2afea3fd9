r"""The known mix-ups: mistakes that let a layer run and make its numbers wrong, as data.

This room is for whoever has a layer that gives other numbers than it should: `diagnose` tells
which of them gives the same.
"""

from qkv.mistakes._diagnose import Diagnosis, Explanation, diagnose
from qkv.mistakes._mix_up import MixUp
from qkv.mistakes._registry import groups, mix_ups, symptoms

__all__ = ["Diagnosis", "Explanation", "MixUp", "diagnose", "groups", "mix_ups", "symptoms"]
