"""What is no formula: a shape, several in a row, a weight's name, or the message of an error."""

import re
from functools import cache
from itertools import pairwise

from qkv.layouts import Stored, layouts
from qkv.reading._data import DATA, MESSAGES
from qkv.reading._reading import Reading
from qkv.reading._tree import RefusedError
from qkv.shapes import Candidates, which

_SHAPE, _NAME = MESSAGES["shape"], MESSAGES["name"]


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


def shapes(typed: str) -> Reading | None:
    """What arrays of these shapes may be."""
    sizes = {}
    if linear := re.fullmatch(_SHAPE["linear"], typed):  # stored as (out, in)
        typed = f"({linear[2]}, {linear[1]})"

    def size(found: re.Match) -> str:
        said = found[1] or found[4]
        said = next((key for key, also in _SHAPE["names"].items() if said in also.split()), said)
        sizes[said] = int(found[2] or found[3])
        return " "

    rest = re.sub(_SHAPE["sizes"], size, typed)
    typed_so = [each[0].strip() for each in re.finditer(_SHAPE["one"], rest)]
    rest = re.sub(_SHAPE["one"], " ", rest)
    if typed_so and re.search("[_./]", rest) and (named := name(rest.strip(" :,="))):
        return named
    words = {*re.findall(r"[^\W\d]\w*", rest)} - {*_SHAPE["filler"].split()}
    if not typed_so or len(words) > 1 or re.search(r"[=^@+/*\\]", rest):
        return None
    found: list[tuple[int | None, ...]] = []
    for each in typed_so:
        axes = re.findall(r"-?\d+|None|\?", each)
        for n, axis in enumerate(axes):
            if axis[-1].isdigit() and not 0 < int(axis) < 10**9:
                raise RefusedError(_SHAPE["wrong"].format(each, n, axis))
        found.append(tuple(int(axis) if axis.isdigit() else None for axis in axes))
    shown = [
        f"({each[0]},)"
        if len(each) == 1
        else " × ".join("?" if n is None else str(n) for n in each)
        for each in found
    ]
    taken, model = _sizes(found, sizes)
    verdict = _row(found, shown, taken.get("d_model", 0)) if len(found) > 1 else []
    if not taken:
        title = verdict.pop(0) if verdict else _SHAPE["unknown"].format(shown[0], shown[0])
        return Reading("shape", title, says=tuple(verdict), page=_SHAPE["page"])
    more = "".join(f", {key} = {taken[key]}" for key in ("h_kv", "d_k") if key in taken)
    said = (
        _SHAPE["named"].format(taken["d_model"], taken["h"], model)
        if model
        else _SHAPE["taken"].format(taken["d_model"], taken["h"], more)
    )
    may = [_candidates(each, taken) for each in found]
    if len(found) == 1:
        letters = {f"{it.symbol} {it.convention}".strip(): it.question for it in may[0][:4]}
    else:
        letters = {
            a: "; ".join(dict.fromkeys(it.symbol for it in b[:3]))
            for a, b in zip(shown, may, strict=True)
        }
    if not verdict and not may[0]:
        return Reading(
            "shape", _SHAPE["unknown"].format(shown[0], shown[0]), says=(said,), page=_SHAPE["page"]
        )
    if verdict:
        title = verdict.pop(0)
    else:
        first = f"{may[0][0].symbol}, {may[0][0].what}"
        title = (_SHAPE["may"] if len(may[0]) == 1 else _SHAPE["many"]).format(
            *[shown[0], len(may[0]), first][:: 1 if len(may[0]) > 1 else 2]
        )
    return Reading("shape", title, says=(*verdict, said), letters=letters, page=_SHAPE["page"])


def _candidates(shape: tuple, sizes: dict[str, int]) -> Candidates | tuple:
    try:
        return which(*shape, **sizes)
    except ValueError:
        return ()


def _sizes(found: list[tuple], given: dict[str, int]) -> tuple[dict[str, int], str]:
    """The sizes that were given, or those of the first model that has arrays of these shapes."""
    if "d_model" in given:
        return {"h": max(1, given["d_model"] // given.get("d_k", 64)), **given}, ""
    for weights in (True, False):
        for model in MESSAGES["model"]:
            sizes = {"d_model": model["d_model"], "h": model["h"]} | given
            named = [(_candidates(each, sizes) or [None])[0] for each in found]
            if all(named) and any(
                it.convention if weights else re.search(r"\d = ", it.why) for it in named
            ):
                return sizes, model["name"] if sizes["h"] == model["h"] else ""
    return {}, ""


def _row(found: list[tuple], shown: list[str], d_model: int) -> list[str]:
    """Whether matrices can follow each other, as weights that are applied in this order."""
    if any(len(each) != 2 or None in each for each in found):
        return []
    said, fits = [], False
    for way in ("in, out", "out, in"):
        maps = found if way == "in, out" else [each[::-1] for each in found]
        gap = next((n for n, (a, b) in enumerate(pairwise(maps)) if a[1] != b[0]), None)
        names = (", ".join(shown[:-1]), shown[-1], _SHAPE[way])
        if gap is None:
            one = (maps[0][0], maps[-1][1])[:: 1 if way == "in, out" else -1]
            numbers = " → ".join(map(str, [maps[0][0], *(b for _, b in maps)]))
            said.insert(0, _SHAPE["fit"].format(*names, numbers, one))
            fits = True
        else:
            said.append(
                _SHAPE["gap"].format(*names, gap + 1, maps[gap][1], gap + 2, maps[gap + 1][0])
            )
    first = {each[0] for each in found}
    if not fits and len(first) == 1 and (d_model in first or not d_model):
        said.append(_SHAPE["same"].format(*first))
    return said


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
    said = [*DATA["page"].values(), _SHAPE["page"], *(each[3] for each in names())]
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
