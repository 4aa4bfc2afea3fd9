"""What was typed, read: the readings as one value that prints as a text."""

from qkv.reading._answer import answer
from qkv.reading._data import DATA
from qkv.reading._reading import Readings
from qkv.reading._tree import RefusedError

WORDS = (
    "These are words: `qkv.read` reads formulas, code, shapes, names of weights and error messages."
    " The site's search answers questions."
)


def read(text: str) -> Readings:
    """Say what a formula, a line of code, a shape, a weight's name or an error is.

    Args:
        text: What was typed: LaTeX, Unicode or plain text, NumPy, PyTorch or Keras, one or several
            lines.

    Returns:
        Its readings, the likeliest first; none where nothing was understood. They print as
        sentences, and `says` tells what decides between them, or what is not read.

    Raises:
        ValueError: If the text is empty, too long or too deep, or has a bracket, an einsum or a
            size that cannot be read.

    Examples:
        The formulas of two videos of one course: q is projected in the first, a source in the next.

        >>> read("q = W^Q x")[0].which, read("W_1^Q q")[0].which
        ('head', 'source')
        >>> print(read("W_1^Q q")[0].letters["q"])
        source of the queries, 512 numbers a word

        A mistake is named, and what is no attention is not guessed at.

        >>> read("V = X W_K")[0].wrong
        ('The left side belongs to V, and the right side to K.',)
        >>> read("E = mc^2")
        “E = mc^2” is no formula of attention that this site knows.
    """
    if not isinstance(text, str):
        raise RefusedError(DATA["refused"]["empty"])
    readings, says, unread, words = answer(text)
    found = Readings(readings)
    found.says, found.unread = WORDS if words else says, tuple(unread)
    return found
