"""Shapes: what an array may be, and whether several fit: as Q, K and V, as a product, in a row."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, zip_longest

from qkv.reading._data import MESSAGES
from qkv.reading._others import name
from qkv.reading._reading import Reading
from qkv.reading._tree import RefusedError
from qkv.shapes import Candidate, Candidates, which

_SHAPE, _FIT = MESSAGES["shape"], MESSAGES["fit"]
_LETTERS = {word: key for key, said in _FIT["letters"].items() for word in said.split()}
_ONE, _ITEM = _SHAPE["one"], re.compile("{label}({one}|{letters})".format(**_SHAPE), re.ASCII)
_Shape = tuple[int | str | None, ...]


def shapes(typed: str) -> Reading | None:
    """What arrays of these shapes may be, and whether they fit."""
    if ")(" in typed:  # a layer that is made and called
        return None
    given, filler = {}, {*_SHAPE["filler"].split()}
    if linear := re.fullmatch(_SHAPE["linear"], typed):  # stored as (out, in)
        typed = f"({linear[2]}, {linear[1]})"
    for pattern, said in _SHAPE["spelling"].items():
        typed = re.sub(pattern, said, typed)

    def size(found: re.Match) -> str:
        said = found[1] or found[4]
        said = next((key for key, also in _SHAPE["names"].items() if said in also.split()), said)
        given[said] = int(found[2] or found[3])
        return " "

    typed = re.sub(_SHAPE["sizes"], size, typed)
    found = [("" if label in filler else label or "", it) for label, it in _ITEM.findall(typed)]
    labels, rest = [label for label, _ in found], _ITEM.sub(" ", typed)
    label = next(iter(labels), "") or rest.strip(" :,=")
    if (
        found
        and re.fullmatch(_ONE, found[0][1])
        and re.search("[_./]", label)
        and (it := name(label))
    ):
        return it
    words = dict.fromkeys([*filter(None, labels), *re.findall(r"[^\W\d]\w*", rest)])
    words = [word for word in words if word not in filler]
    if len(found) == 1 < len(words):  # Q, K, V: (2, 5, 512)
        labels, found = words, found * len(words)
    letters = [_LETTERS.get(label.lower(), "") for label in labels]
    ours = all(letters) and 1 < len({*letters}) == len(letters)
    each = len(words) < 2 or (len(labels) > 1 and all(labels))
    numbers = each and all(re.fullmatch(_ONE, it) for _, it in found)
    if not found or re.search(_SHAPE["signs"], rest + "".join(labels)) or not (ours or numbers):
        return None
    axes = [_axes(it) for _, it in found]
    if "@" in rest or (not ours and len(labels) > 1 and all(labels)):
        in_a_row = len(axes) == (rest.count("@") or 1) + 1 and min(map(len, axes)) > 1
        return _product(axes, labels) if in_a_row else None
    if ours:
        return _attention(dict(zip(letters, axes, strict=True)))
    if len(axes) == 3 and min(map(len, axes)) > 2:
        return _attention(dict(zip("QKV", axes, strict=True)))
    return _arrays(axes, given)


def _axes(typed: str) -> _Shape:
    axes = re.findall(r"-?\w+|\?", re.sub(_SHAPE["between"], ",", typed))
    for n, axis in enumerate(axes):
        if re.fullmatch(r"-?\d+", axis) and not 0 < int(axis) < 10**9:
            raise RefusedError(_SHAPE["wrong"].format(typed.strip(), n, axis))
    open_axes = ("None", "?")
    return tuple(int(it) if it.isdigit() else None if it in open_axes else it for it in axes)


def _said(shape: Sequence) -> str:
    said = ", ".join("?" if size is None else str(size) for size in shape)
    return f"({said},)" if len(shape) == 1 else f"({said})"


def _attention(of: dict[str, _Shape]) -> Reading:
    """Whether Q, K and V fit, with their axes in the order in which most does."""
    of = {letter: of[letter] for letter in "QKV" if letter in of}
    names, ranks = _and(of), [*dict.fromkeys(map(len, of.values()))]
    tried = []
    for order in _FIT["orders"].get(str(ranks[0]), []) if len(ranks) == 1 else []:
        ordered = {letter: [shape[axis] for axis in order] for letter, shape in of.items()}
        tried.append((order, *_fits(ordered)))
    if not tried:
        wrong = _FIT["axes"].format(names, _and(map(str, ranks)))
        return Reading("shape", _FIT["misfit"].format(names), wrong=(wrong,), page=_FIT["page"])
    # Without Q, any axis may be the words: what is told is the usual order.
    best = min(tried if "Q" in of else tried[:1], key=lambda it: (len(it[1]), it[2]))
    order, wrong, _, title, says, (scores, output), page = best
    letters = {letter: _said(shape) for letter, shape in of.items()}
    if wrong:
        title = _FIT["misfit"].format(names)
        return Reading("shape", title, letters=letters, wrong=wrong, page=_FIT["page"])
    if best is not tried[0]:
        title = f"{_FIT['turned'][len(order) - 2]} {title}"
        says = (*says, *(_FIT["else"].format(it) for it in tried[0][1]))
        output = [output[axis] for axis in order]
    if "Q" in of:
        letters |= {_FIT["scores"]: _said(scores), _FIT["output"]: _said(output)}
    return Reading("shape", title, says=says, letters=letters, page=page)


def _and(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _fits(of: dict[str, list]) -> tuple:
    """What does not fit, whether it would be odd, what it is, and the shapes that come out."""
    k = of.get("K", of.get("V", []))
    q, v = of.get("Q", k), of.get("V", k)
    wrong, kind = [], "pairs" if "Q" not in of else "self" if q[-2] == k[-2] else "cross"
    says = [_FIT[kind].format(q[-2], k[-2])]
    if q[-1] == k[-2] != k[-1]:
        wrong.append(_FIT["transposed"].format(_said(k)))
        k = [*k[:-2], k[-1], k[-2]]
    elif q[-1] != k[-1]:
        wrong.append(_FIT["width"].format(q[-1], k[-1]))
    if k[-2] != v[-2]:
        wrong.append(_FIT["values"].format(k[-2], v[-2]))
    page = _FIT["pages"][kind]
    for n, (a, b, c) in enumerate(zip(q[:-2], k, v, strict=False)):
        if a != b and n == 1 and (times := _times(a, b)):
            says.insert(0, _FIT["grouped"].format(a, b, times))
            page = _FIT["pages"]["grouped"]
        elif a != b:
            wrong.append(_FIT["lead"].format(n, "Q", a, "K", b))
        if b != c:
            wrong.append(_FIT["lead"].format(n, "K", b, "V", c))
    # More heads than words, and other words on each side: then the words come first.
    many = [size for size in (*q[1:-2], k[-2]) if isinstance(size, int)]
    odd = kind == "cross" and len(many) == 2 and many[0] > many[1]
    made = [*q[:-1], k[-2]], [*q[:-1], v[-1]]
    return tuple(wrong), odd, says[0], tuple(says[1:]), made, page


def _times(a: int | str | None, b: int | str | None) -> int | str:
    """How often a size has another; names of sizes divide each other, an unknown one is none."""
    if isinstance(a, int) and isinstance(b, int):
        return 0 if a % b else a // b
    return f"{a}/{b}" if a and b else 0


def _product(axes: list[_Shape], labels: list[str]) -> Reading:
    """What a product of these gives, or where it breaks."""
    names = [f"{label} {_said(it)}".strip() for label, it in zip(labels, axes, strict=True)]
    made = [*axes[0]]
    for left, right, (*lead, rows, columns) in zip(names, names[1:], axes[1:], strict=False):
        wrong = []
        if made[-1] != rows:
            turned = made[-1] == columns
            wrong = [_FIT["inner"].format(left, made[-1], right, rows)]
            wrong += [_FIT["turn"].format(right, _said([*made[:-1], rows]))] * turned
        pairs = zip_longest(made[-3::-1], lead[::-1], fillvalue=1)
        both = [*pairs][::-1]
        for n, (a, b) in enumerate(both):
            if a != b and 1 not in (a, b):
                wrong.append(_FIT["axis"].format(n, a, b))
                wrong += [_FIT["repeat"].format(_times(a, b))] * bool(_times(a, b))
        if wrong:
            title = _FIT["broken"].format(" @ ".join(names))
            return Reading("shape", title, wrong=tuple(wrong), page=_FIT["page"])
        made = [*(b if a == 1 else a for a, b in both), made[-2], columns]
    title = _FIT["product"].format(" @ ".join(names), _said(made))
    return Reading("shape", title, page=_FIT["page"])


def _arrays(found: list[_Shape], given: dict[str, int]) -> Reading:
    """What one array may be, or several in a row, at sizes that were given or that a model has."""
    shown = [*map(_said, found)]
    taken, model = _sizes(found, given)
    verdict = _row(found, shown, taken.get("d_model", 0)) if len(found) > 1 else []
    may = [_candidates(each, taken) for each in found] if taken else [()]
    if not verdict and not may[0]:
        verdict = [_SHAPE["unknown"].format(shown[0])]
    first = may[0][0] if may[0] else None
    title = verdict.pop(0) if verdict else _SHAPE["may"].format(shown[0], first.symbol, first.what)
    if taken:
        sizes = ", ".join(f"{key} = {size}" for key, size in taken.items())
        verdict.append(_SHAPE["taken"].format(sizes, f", as in {model}" if model else ""))
    if len(found) > 1:
        symbols = ("; ".join(dict.fromkeys(it.symbol for it in each[:3])) for each in may)
        letters = dict(zip(shown, symbols, strict=False)) if taken else {}
    else:
        letters = {f"{it.symbol} {it.convention}".strip(): it.question for it in may[0][:6]}
        verdict = [*_by_axis(found[0], first), *verdict] if first else verdict
    return Reading("shape", title, says=tuple(verdict), letters=letters, page=_SHAPE["page"])


def _by_axis(shape: _Shape, it: Candidate) -> Iterator[str]:
    """What each axis is; and of queries with heads, the scores."""
    axes = it.axes[1:-1].rstrip(",").split(", ")
    sizes = ("?" if size is None else size for size in shape)
    words = (_SHAPE["axis"].get(axis, f"= {axis}") for axis in axes)
    yield _SHAPE["axes"].format("; ".join(map("{} {}".format, sizes, words)))
    if axes[-3:] == ["h", "n", "d_k"]:
        yield _SHAPE["makes"].format(_said([*shape[:-1], shape[-2]]))


def _candidates(shape: tuple, sizes: dict[str, int]) -> Candidates | tuple:
    try:
        return which(*shape, **sizes)
    except ValueError:
        return ()


def _sizes(found: list[_Shape], given: dict[str, int]) -> tuple[dict[str, int], str]:
    """The sizes that were given, or those of the first model that has arrays of these shapes."""
    if "d_model" in given:
        return {"d_model": 0, "h": max(1, given["d_model"] // given.get("d_k", 64))} | given, ""
    # A weight tells most, then a width among the axes, then a number of heads.
    for tells in ("", r"\d = [^,]*d_", r"\d = "):
        for model in MESSAGES["model"]:
            sizes = {key: n for key, n in model.items() if key != "name"} | given
            named = [(_candidates(each, sizes) or [None])[0] for each in found]
            told = (re.search(tells, it.why) if tells else it.convention for it in named if it)
            if all(named) and any(told):
                return sizes, model["name"] if sizes["h"] == model["h"] else ""
    return {}, ""


def _row(found: list[_Shape], shown: list[str], d_model: int) -> list[str]:
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
