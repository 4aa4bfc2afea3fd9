"""Notes, and fold-outs that a reader opens."""

from qkv_site.page import Container


class Fold(Container):
    """A note `!!!`, or a fold-out, which is closed, `???`, or open, `???+`, at first."""

    marks = ("!!!", "???", "???+")
