"""Attention in NumPy, in the notation of *Attention Is All You Need*, with one name for each thing.

Rows are tokens, and a map is always `X @ W`. `Q`, `K` and `V` are only ever what enters
equation (1); what enters multi-head attention is a source, `X_Q`, `X_K` or `X_V`.
"""

from qkv._attention import attention, softmax
from qkv._candidates import Candidate, Candidates, Chain
from qkv._diagnose import Diagnosis, Explanation, diagnose
from qkv._which import which
from qkv.heads import MultiHead
from qkv.layouts import dump, find_layers, load, unpack
from qkv.maps import degrees_of_freedom, factor, fold, gauge, merge, w_qk, w_vo

__all__ = [
    "Candidate",
    "Candidates",
    "Chain",
    "Diagnosis",
    "Explanation",
    "MultiHead",
    "attention",
    "degrees_of_freedom",
    "diagnose",
    "dump",
    "factor",
    "find_layers",
    "fold",
    "gauge",
    "load",
    "merge",
    "softmax",
    "unpack",
    "w_qk",
    "w_vo",
    "which",
]
