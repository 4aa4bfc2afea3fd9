"""What was typed: first of which kind it is, then its readings."""

import re

from qkv.reading._data import DATA, MESSAGES
from qkv.reading._formulas import formulas
from qkv.reading._others import alike, error, name, unknown_name
from qkv.reading._reading import Readings
from qkv.reading._shapes import shapes
from qkv.reading._tree import FUNCTIONS, WORDS, RefusedError

_MOST = 2000


def read(text: str) -> Readings:
    """Say what a formula, a line of code, a shape, a weight's name or an error is.

    Args:
        text: What was typed: LaTeX, Unicode or plain text, NumPy, PyTorch or Keras, one or several
            lines.

    Returns:
        Its readings, the likeliest first; none where nothing was understood. They print as
        sentences, and `says` tells what decides between them, or why there is none.

    Raises:
        ValueError: If there is no text or too much, a bracket is not closed, an einsum has a letter
            too many, or a size is not positive.

    Examples:
        The formulas of two videos of one course: q is projected in the first, a source in the next.

        >>> read("q = W^Q x")[0].which, read("W_1^Q q")[0].which
        ('head', 'source')
        >>> print(read("W_1^Q q")[0].letters["q"])
        source of the queries, 512 numbers a word

        A mistake is named.

        >>> read("V = X W_K")[0].wrong
        ('The left side belongs to V, and the right side to K.',)

        What is no attention is not guessed at.

        >>> read("E = mc^2")
        “E = mc^2” is no formula of attention that this site knows.
    """
    typed = re.sub(MESSAGES["words"]["marks"], "", text).strip() if isinstance(text, str) else ""
    if not typed:
        raise RefusedError(DATA["refused"]["empty"])
    if len(typed) > _MOST:
        raise RefusedError(DATA["refused"]["long"].format(len(typed), _MOST))
    words = MESSAGES["words"]
    for attempt in (error, shapes, name):
        if reading := attempt(typed):
            return Readings([reading])
    if re.search(words["error"], typed) or (said := unknown_name(typed)) or _in_words(typed):
        found = Readings()
        found.says = words["message"] if re.search(words["error"], typed) else said or words["says"]
        return found
    readings, unread, found_no = formulas(typed)
    found = Readings(readings)
    found.unread = tuple(dict.fromkeys(unread))
    if found.unread or not readings:
        why = "unread" if found.unread else "formula"
        said = found_no or DATA["refused"][why].format(", ".join(found.unread) or typed)
        found.says = " ".join([said, *alike(found.unread, [*FUNCTIONS, *WORDS["whole"]])])
    elif len(readings) > 1:
        kinds = " ".join(sorted([readings[0].which, readings[1].which]))
        found.says = (
            DATA["which"]["decides"].format(DATA["which"][kinds]) if kinds in DATA["which"] else ""
        )
    return found


def _in_words(typed: str) -> bool:
    """Whether it is a question or words to look for, rather than a formula."""
    if re.search(DATA["statement"], typed, re.MULTILINE):
        return False
    plain = re.sub(r"\"[^\"]*\"|'[^']*'", "", typed)
    said = re.findall(r"(?<![\\\w.])[^\W\d_]{3,}(?![\w(.])", plain)
    known = {*FUNCTIONS, *WORDS["whole"]}
    if not re.search(MESSAGES["words"]["sign"], typed):
        return bool(re.search(r"[^\W\d_]{3,}", typed)) or not re.search("[A-Za-z]", typed)
    asks = re.search(MESSAGES["words"]["asks"], typed, re.IGNORECASE)
    strange = {word for word in said if len(word) > 3 and word.lower() not in known}
    return bool(asks and (said or typed[-1] == "?")) or len(strange) > 2
