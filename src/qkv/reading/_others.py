"""A weight's name, and the message of an error."""

import re
from functools import cache

from qkv.layouts import Stored, layouts
from qkv.reading._data import DATA, MESSAGES
from qkv.reading._reading import Reading

_NAME = MESSAGES["name"]


def error(typed: str) -> Reading | None:
    """What a message means, with its numbers put in."""
    line = " ".join(typed.split())
    for each in MESSAGES["message"]:
        if found := re.search(each["pattern"], line, re.IGNORECASE):

            def put(said: str, found: re.Match = found) -> str:
                return re.sub(r"\{([\d/]+)\}", lambda m: _number(m[1].split("/"), found), said)

            return Reading(
                "error", put(each["title"]), says=(*map(put, each["says"]),), page=each["page"]
            )
    return None


def _number(groups: list[str], found: re.Match) -> str:
    """A group of a message, divided by the others."""
    if len(groups) == 1:
        return found[int(groups[0])]
    value = float(found[int(groups[0])])
    for each in groups[1:]:
        value /= abs(float(found[int(each)])) or 1
    return f"{value:.0f}" if value.is_integer() else f"{value:.1f}"


@cache
def names() -> list[list]:
    """Of each name that a library stores: the name, what it holds, and cards' lines, by layout."""
    entries: dict[str, dict[tuple, list[str]]] = {}
    for layout in layouts().values():
        for stored in dict.fromkeys(it for form in layout.forms for it in form.stored):
            ways = entries.setdefault(stored.name, {})
            if not any(layout.name in so for so in ways.values()):
                ways.setdefault((stored.holds, stored.shape, _cut(stored)), []).append(layout.name)
    made = []
    for name, ways in entries.items():
        lines, first = [], next(iter(ways))
        for (_, shape, cut), so in ways.items():
            titles = ", ".join(layouts()[each].title.removeprefix("Transformers, ") for each in so)
            lines.append([titles, shape, cut])
        title = _NAME["title"].format("{}", _holds(first[0].split()))
        made.append([name, title, lines, _page([each for so in ways.values() for each in so])])
    for layout in layouts().values():
        stores = [[it.name, it.shape, _cut(it)] for it in layout.forms[0].without_biases]
        title = _NAME["class"].format("{}", layout.title)
        for called in re.findall(r"\b[A-Z]\w*Attention\b", layout.title.split(":")[0]):
            made.append([called, title, stores, _page([layout.name])])
    return sorted(made, key=lambda each: -len(each[0]))


def named_pages() -> list[str]:
    """The pages of the site that cards lead to."""
    said = [
        *DATA["page"].values(),
        MESSAGES["shape"]["page"],
        MESSAGES["fit"]["page"],
        *(each[3] for each in names()),
    ]
    return [*said, *(each["page"] for each in MESSAGES["message"])]


def _page(names_of: list[str]) -> str:
    page = next((each for each in names_of if each in _NAME["pages"].split()), "")
    return _NAME["own"].format(page) if page else _NAME["else"]


def _holds(parts: list[str]) -> str:
    if parts[0] in _NAME:
        return _NAME[parts[0]]
    letters = [_NAME[part[-1]] for part in parts]
    said = " and ".join([*([", ".join(letters[:-1])] if letters[1:] else []), letters[-1]])
    return _NAME["bias" if parts[0][0] == "b" else "part"].format(said)


def _cut(stored: Stored) -> str:
    """The line of NumPy that cuts out the weight of head i; of a fused one that for queries."""
    left, _, right = stored.pattern.partition(" -> ")
    flat, wanted = (
        left.replace("(", "").replace(")", "").split(),
        right.replace("(", "").replace(")", "").split(),
    )
    if stored.is_bias or any(re.search(r"[+/]|^4$", each) for each in flat):
        return ""
    part = [each for each in flat if each == stored.split]
    heads = [each for each in flat if each in ("h", "h_kv")]
    index = ["0" if each in part else "i" if each in heads else ":" for each in flat]
    while index and index[-1] == ":":
        index.pop()
    rest = [each for each in flat if each not in (*part, *heads)]
    turn = ".T" if rest != [each for each in wanted if each not in (*part, *heads)] else ""
    reshape = f".reshape({', '.join(flat)})" if "(" in left else ""
    return f"w{reshape}[{', '.join(index)}]{turn}"


def name(typed: str) -> Reading | None:
    """Which weight a library stores under this name."""
    typed = re.sub(r"^[\w.]+ *= *(?=[\w.]+\()|:\d+$", "", typed)
    made = re.fullmatch(r"([\w.]*Attention)\([^()]*\)", typed)
    typed = made[1] if made else typed
    if not re.fullmatch(r"[\w./:\[\]\"'-]{3,200}", typed) or re.fullmatch(
        r"[A-Za-z]_\w{1,2}(\[\w\])?", typed
    ):
        return None
    dotted = re.sub(r"[\[\]\"':/]+", ".", typed).strip(".")
    for stored, title, ways, page in names():
        said = stored.replace("/", ".")
        short = said.rsplit(".", 1)[0]
        if any(
            f".{dotted}".endswith(f".{each}")
            for each in ((said, short) if len(short) > 3 else (said,))
        ):
            letters = {
                each: f"{shape}, head i: {cut}" if cut else shape for each, shape, cut in ways
            }
            return Reading("name", title.format(typed), letters=letters, page=page)
    return None
