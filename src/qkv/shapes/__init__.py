r"""What an array may be, judged by its shape alone: `which`, and the shapes that it knows."""

from qkv.shapes._candidates import Candidate, Candidates, Chain
from qkv.shapes._which import which

__all__ = ["Candidate", "Candidates", "Chain", "which"]
