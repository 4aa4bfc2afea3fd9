r"""What an array may be, judged by its shape alone.

This room is for whoever meets an array without a name, or a shape in an error message: `which`
says whether it may be one head's weight, a packed one, or a source. What it goes by is in `rules`.
"""

from qkv.shapes._candidates import Candidate, Candidates, Chain
from qkv.shapes._which import which

__all__ = ["Candidate", "Candidates", "Chain", "which"]
