"""What was typed: first of which kind it is, then its readings."""

from qkv.reading._data import DATA, MESSAGES
from qkv.reading._formulas import formulas
from qkv.reading._others import alike, error, name, unknown_name
from qkv.reading._patterns import cut, findall, search, sub
from qkv.reading._shapes import shapes
from qkv.reading._tree import FUNCTIONS, WORDS, RefusedError

MOST = 2000  # characters
KNOWN = [*FUNCTIONS, *WORDS["whole"]]


def answer(text: str) -> tuple[list, str, list, bool]:
    """The readings, why none or what decides, what was not read, and whether it is words."""
    said, words = DATA["refused"], MESSAGES["words"]
    typed = sub(words["marks"], "", sub(words["spaces"], " ", text)).strip()
    if not typed:
        raise RefusedError(said["empty"])
    if len(typed) > MOST:
        raise RefusedError(said["long"].format(len(typed), MOST))
    within = findall(r"\$([^$]*[=\\][^$]*)\$", typed) if typed[-1] != "?" else []
    typed = "\n".join(within) if within and in_words(typed) else typed
    fails = search(words["error"], typed)
    for attempt in (error,) if fails else (error, name, shapes):
        reading = attempt(typed)
        if reading:
            return [reading], "", [], False
    why = words["message"] if fails else unknown_name(typed)
    if why or in_words(typed):
        return [], why, [], not why
    readings, unread, why = formulas(typed)
    if unread or not readings:
        why = why or said["unread" if unread else "formula"].format(", ".join(unread) or typed)
        why = " ".join([why, *alike(unread, [it for it in KNOWN if it != "where"])])
        return readings, why, unread, False
    kinds = " ".join(sorted(each.which for each in readings[:2]))
    decides = DATA["which"].get(kinds, "") if len(readings) > 1 else ""
    return readings, DATA["which"]["decides"].format(decides) if decides else "", [], False


def in_words(typed: str) -> bool:
    """Whether it is a question or words to look for, rather than a formula."""
    words = MESSAGES["words"]
    if search(DATA["statement"], typed, lines=True) and typed[-1] != "?":
        return False
    if not search(words["sign"], typed):
        found = search(r"[^\W\d_]{3,}|^([QKVqkv]\W+)+[QKVqkv]$", typed)
        return bool(found) or not search("[A-Za-z]", typed)
    plain = sub(r"\x22[^\x22]*\x22|'[^']*'", "", typed)
    said = findall(r"(?<![\\\w.])[^\W\d_]{3,}(?![\w(.])", plain)
    first = cut(r"\b(?:where|with|here)\b", plain)[0]
    strange = {word for word in said if word.lower() not in KNOWN and word in first}
    long = [word for word in strange if len(word) > 3]
    asks = search(words["asks"], typed, case=False)
    asks = asks and (said or search(r"\?$|\b(is|are|vs|why|what|how)\b", typed, case=False))
    return bool(asks) or len(long) > 2 or (len(strange) > 3 and "=" not in typed)
