"""A weight's name, and the message of an error."""

from qkv.reading._data import MESSAGES
from qkv.reading._letters import roles_of
from qkv.reading._patterns import cut, fullmatch, search, sub
from qkv.reading._reading import Reading
from qkv.reading._tables import tables


def card(kind: str, title: str, says: list, wrong: list, letters: dict, page: str) -> Reading:
    """A reading of what is no formula."""
    return Reading(kind, title, "", "", (), letters, tuple(wrong), tuple(says), "", page)


def error(typed: str) -> Reading | None:
    """What a message means, with its numbers put in."""
    line = " ".join(typed.split())
    for pattern, page, *says in MESSAGES["message"]:
        found = search(pattern, line, case=False)
        if found:
            title, *more = (_filled(said, found) for said in says)
            return card("error", title, more, [], {}, page)
    return None


def _filled(said: str, found: tuple) -> str:
    """A sentence with groups of a message, or the first divided by the others; #128 is a number."""

    def put(gap: tuple) -> str:
        first, *others = (
            it[1:] if it[0] == "#" else found[int(it)] or "" for it in gap[1].split("/")
        )
        value = first
        for each in others:
            value = float(value) / (abs(float(each)) or 1)
        return (
            value
            if not others
            else str(int(value))
            if value == int(value)
            else str(round(value, 1))
        )

    return sub(r"\{([\d/#]+)\}", put, said)


def name(typed: str) -> Reading | None:
    """Which weight a library stores under this name."""
    said, its = MESSAGES["name"], sub(r"^[\w.]+ *= *(?=[\w.]+\()|:\d+$", "", typed)
    made = fullmatch(r"([\w.]*Attention)\([^()]*\)", its)
    its = made[1] if made else its
    if not fullmatch(r"[\w./:\[\]\"'-]{3,200}", its) or fullmatch(
        r"[A-Za-z]_\w{1,2}(\[\w\])?", its
    ):
        return None
    if not search("[./]", its) and any(it[0] != "W" for it in roles_of(its)):
        return None  # attn_output by itself is an array
    dotted = "." + sub(r"[\[\]\"':/]+", ".", its).strip(".")
    for stored, title, ways, page, more, has_parts in tables()["names"]:
        own = stored.replace("/", ".")
        short = "" if own.endswith("bias") else own.rpartition(".")[0]
        ends = dotted.endswith(f".{own}") or (len(short) > 3 and dotted.endswith(f".{short}"))
        if ends or (has_parts and f".{own}." in f"{dotted}."):
            letters = {
                it: f"{shape}, head i: {line}" if line else shape for it, shape, line in ways
            }
            crosses = search(said["crosses"], dotted, case=False)
            says = [*more, said["cross"]] if crosses else more
            return card("name", title.format(its), says, [], letters, page)
    return None


def unknown_name(typed: str) -> str:
    """What to say of what looks like a weight's name, and is none that is known."""
    if not fullmatch(MESSAGES["name"]["like"], typed):
        return ""
    known = [*dict.fromkeys(part for it in tables()["names"] for part in cut("[./]", it[0]))]
    strange = [part for part in cut("[./]", typed) if part not in known]
    return " ".join([MESSAGES["name"]["unknown"].format(typed), *alike(strange, known)])


def alike(words: list, known: list) -> list:
    """Of each word the first that is known and one slip away, as a question."""
    found = [(word, next((it for it in known if _slip(word, it)), "")) for word in words]
    return [MESSAGES["words"]["near"].format(word, it) for word, it in found if it and it != word]


def _slip(a: str, b: str) -> bool:
    """Whether words differ by a letter: another one, one too many, or two that changed places."""
    one, two, n = a.lower(), b.lower(), 0
    if min(len(one), len(two)) < 4 or abs(len(one) - len(two)) > 1:
        return False
    while n < min(len(one), len(two)) and one[n] == two[n]:
        n += 1
    other = one[n + 1 :] in (two[n:], two[n + 1 :]) or one[n:] == two[n + 1 :]
    return other or (one[n : n + 2] == two[n : n + 2][::-1] and one[n + 2 :] == two[n + 2 :])
