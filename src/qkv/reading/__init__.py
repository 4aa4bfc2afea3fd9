r"""What someone has in hand, read: a formula, code, a shape, a weight's name or an error.

This room is for whoever meets a line and asks which Q stands in it. `read` says whose letters it
has, what each of them is, and what does not fit.
"""

from qkv.reading._read import read
from qkv.reading._reading import Reading, Readings

__all__ = ["Reading", "Readings", "read"]
