"""A weight's name, and the message of an error."""

import math
import re
from collections.abc import Iterable
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
                return re.sub(r"\{([\d/#]+)\}", lambda m: _number(m[1].split("/"), found), said)

            said = put(each["title"]), (*map(put, each["says"]),)
            return Reading("error", said[0], says=said[1], page=each["page"])
    return None


def _number(parts: list[str], found: re.Match) -> str:
    """A group of a message, or the first divided by the others; #128 is a number itself."""
    first, *others = (each[1:] if each[0] == "#" else found[int(each)] or "" for each in parts)
    if not others:
        return first
    value = float(first) / math.prod(abs(float(each)) or 1 for each in others)
    return f"{value:.0f}" if value.is_integer() else f"{value:.1f}"


@cache
def names() -> list[list]:
    """Of each name: what it holds, cards' lines by layout, page, more to say, and if it has parts.

    A name that a library stores ends what was typed; one with parts below it stands anywhere in it.
    """
    entries: dict[str, dict[tuple, list[str]]] = {}
    for layout in layouts().values():
        for stored in dict.fromkeys(it for form in layout.forms for it in form.stored):
            ways = entries.setdefault(stored.name, {})
            if not any(layout.name in so for so in ways.values()):
                ways.setdefault((stored.holds, stored.shape, _cut(stored)), []).append(layout.name)
    made = []
    for name, ways in entries.items():
        lines, (holds, *_) = [], next(iter(ways))
        for (_, shape, cut), so in ways.items():
            titles = ", ".join(layouts()[each].title.removeprefix("Transformers, ") for each in so)
            lines.append([titles, shape, cut])
        so = [each for way in ways.values() for each in way]
        scaled = [layouts()[so[0]].scaling] * (len(so) == 1 and layouts()[so[0]].scale is not None)
        made.append([name, _NAME["title"].format("{}", _holds(holds)), lines, _page(so), scaled, 0])
    for name, holds in _NAME["held"].items():
        biases = f"{name.removesuffix('.weight')}.bias", holds.replace("W", "b")
        for called, its in ((name, holds), biases):
            title = _NAME["title"].format("{}", _holds(its))
            made.append([called, title, [], _NAME["else"], [_NAME["unstored"]], 1])
    made += [
        [name, f"{{}} {said}", [], page, [], 1] for name, (said, page) in _NAME["made"].items()
    ]
    for layout in layouts().values():
        stores = [[it.name, it.shape, _cut(it)] for it in layout.forms[0].without_biases]
        title = _NAME["class"].format("{}", layout.title)
        for called in re.findall(r"\b[A-Z]\w*Attention\b", layout.title.split(":")[0]):
            made.append([called, title, stores, _page([layout.name]), [], 0])
        for called, why in (layout.refused | layout.outside).items():
            if re.fullmatch(r"\w*[a-zA-Z]_[\w.]*", called):
                title = _NAME["beside"].format("{}", layout.title, why)
                made.append([called, title, [], _page([layout.name]), [], 1])
    return sorted(made, key=lambda each: -len(each[0]))


def named_pages() -> list[str]:
    """The pages of the site that cards lead to."""
    said = [
        *DATA["page"].values(),
        MESSAGES["shape"]["page"],
        MESSAGES["fit"]["page"],
        *MESSAGES["fit"]["pages"].values(),
        *(each[3] for each in names()),
    ]
    return [*said, *(each["page"] for each in MESSAGES["message"])]


def _page(names_of: list[str]) -> str:
    page = next((each for each in names_of if each in _NAME["pages"].split()), "")
    return _NAME["own"].format(page) if page else _NAME["else"]


def _holds(holds: str) -> str:
    parts = sorted(holds.split(), key=lambda part: "QKVO".index(part[-1]))
    if parts[0] in _NAME:
        return _NAME[parts[0]]
    letters = [_NAME[part[-1]] for part in parts]
    said = " and ".join([*([", ".join(letters[:-1])] if letters[1:] else []), letters[-1]])
    return _NAME["bias" if parts[0][0] == "b" else "part"].format(said)


def _cut(stored: Stored) -> str:
    """The line of NumPy that cuts out the weight of head i; of a fused one that for queries."""
    flat, wanted = (
        [size for axis in axes for size in axis] for axes in (stored.axes, stored.paper_axes)
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
    reshape = f".reshape({', '.join(flat)})" if len(flat) > len(stored.axes) else ""
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
    dotted = "." + re.sub(r"[\[\]\"':/]+", ".", typed).strip(".")
    for stored, title, ways, page, says, has_parts in names():
        said = stored.replace("/", ".")
        ends = [said, said.rsplit(".", 1)[0]]
        found = any(dotted.endswith(f".{each}") for each in ends[: 1 + (len(ends[1]) > 3)])
        if found or (has_parts and f".{said}." in f"{dotted}."):
            crosses = re.search(_NAME["crosses"], dotted, re.IGNORECASE)
            letters = {it: f"{shape}, head i: {cut}" if cut else shape for it, shape, cut in ways}
            says = (*says, _NAME["cross"]) if crosses else tuple(says)
            return Reading("name", title.format(typed), letters=letters, says=says, page=page)
    return None


def unknown_name(typed: str) -> str:
    """What to say of what looks like a weight's name, and is none that is known."""
    if not re.fullmatch(_NAME["like"], typed):
        return ""
    parts, known = (
        re.split(r"[./]", typed),
        dict.fromkeys(part for it in names() for part in re.split(r"[./]", it[0])),
    )
    close = alike([part for part in parts if part not in known], known)
    return " ".join([_NAME["unknown"].format(typed), *close])


def alike(words: Iterable[str], known: Iterable[str]) -> list[str]:
    """Of each word the first that is known and one slip away, as a question."""
    found = ((word, next((it for it in known if _slip(word, it)), "")) for word in words)
    return [MESSAGES["words"]["near"].format(word, it) for word, it in found if it]


def _slip(a: str, b: str) -> bool:
    """Whether two words are the same without one letter of each."""
    return min(len(a), len(b)) > 3 and bool(_short(a.lower()) & _short(b.lower()))


def _short(word: str) -> set[str]:
    return {word, *(word[:n] + word[n + 1 :] for n in range(len(word)))}
