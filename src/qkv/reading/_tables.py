"""What reading goes by beside its data: it follows from roles, from texts and from layouts."""

import itertools
import math
import re
from collections.abc import Iterator
from functools import cache

from qkv.layouts import Stored, layouts
from qkv.notation import Source, roles, sources
from qkv.notation.tree import Product, Symbol, Transpose
from qkv.notation.tree import parse as parse_formula
from qkv.reading._data import DATA, MESSAGES
from qkv.reading._tree import Parser, normal, raised
from qkv.shapes.rules import known_sizes, written

_BASE = {"d_model": 512, "h": 8, "h_kv": 8, "d_k": 64, "d_v": 64, "3": 3}  # the paper's base model
_NAME = MESSAGES["name"]


@cache
def tables() -> dict:
    """Roles in words, steps, letters that are usual and those of texts, and names of weights."""
    told = [role for role in roles() if role.shape or role.key in _BASE]  # of sizes a few
    known = {role.key: (role.group, ", ".join(role.shape), role.meaning) for role in told}
    known |= DATA["role"]
    for key, (group, said, meaning) in known.items():
        shape = said.replace("h_kv", "h").split(", ") if said else []
        known[key] = [meaning, shape, _in_words(group, shape)]
    own: dict[str, list[str]] = {}
    for role in DATA["own"].split():  # W_UQ as w|qu
        base, marks = role.removesuffix("[i]").lower().split("_")
        own.setdefault(f"{base}|{''.join(sorted(marks))}", []).append(role)
    named = {each[0]: each for each in [*_names()][::-1]}  # the first of a name
    twins = {re.sub("(weight|kernel)$", "bias", name) for name in named if name[-4:] != "bias"}
    names = [each for name, each in named.items() if name[-4:] != "bias" or name not in twins]
    alike: dict[str, list] = {}  # of those of which the same is said
    for called, *its in sorted(names, key=lambda each: (each[3], each[0])):
        alike.setdefault(repr(its), [[], *its])[0].append(called)
    grouped: dict[str, list] = {}  # by what they hold
    for every, holds, ways, page, *more in alike.values():
        grouped.setdefault(holds, []).append([" ".join(every), page, ways, *more])
    grouped = dict(sorted(grouped.items(), key=lambda each: len(repr(each))))  # so it packs best
    return {
        "sizes": known_sizes(),
        "base": _BASE,
        "own": own,
        "steps": _steps(),
        "texts": {source.id: _letters(source) for source in sources()},
        "rules": [[*rule] for rule in written()],
        "role": known,
        "names": grouped,
    }


def _in_words(group: str, shape: list[str]) -> str:
    """What is said behind a role's meaning: its numbers in the paper's base model."""
    names = [size.split(" * ") for size in shape]
    sizes = [math.prod(_BASE.get(name, 0) for name in each) or each[0] for each in names]
    kind = {"score": "score", "weight": "weight" if sizes[1:] else "vector"}.get(group, "word")
    return DATA["behind"][kind].format(*sizes) if sizes else ""


def _steps() -> dict[str, str]:
    """The role that each step makes; of all arrays transposed it makes the transpose."""
    made = {}
    for role in roles():
        side = parse_formula(role.definition).sides[0] if role.definition else None
        parts = side.parts() if isinstance(side, Product) else [None]
        if all(isinstance(each, Symbol | Transpose) for each in parts):
            made[f"mul {side.left} {side.right}"] = role.key
    for role, steps in DATA["steps"].items():
        for step, letter in itertools.product(steps, "QKV" if "{}" in role else "Q"):
            made.setdefault(step.format(letter, letter), role.format(letter))
    return made


def _letters(source: Source) -> dict:
    """A text's letters, as the grammar of what is typed reads them."""
    index = f"{{{source.index}}}"
    letters = [(key, letter.latex) for key, letter in source.letters.items()]
    found = []
    for key, latex in [*DATA["packed"].get(source.id, ()), *letters]:
        again = key[:2] == "X_" and ("X", latex) in letters
        size = key[0] in "nhd" and key not in ("head[i]", "d_k")
        if again or size or latex.startswith((r"\tilde", "{")):
            continue
        indexed = bool(source.index) and index in latex
        said = normal(latex.replace(index, "{}", 1) if indexed else latex)
        parser = Parser(said)
        node = parser.product()
        if node and node[0] == "leaf":
            found.append(f"{key} {node[1]} {'i' * indexed} {raised(parser.shown[node[1]])}")
    where = dict.fromkeys(f"{source.short}, {source.where}".partition(";")[0].split(", "))
    return {
        "where": ", ".join([it for it in where if it != "everywhere"][:3]),
        "columns": source.tokens == "columns",
        "one": source.one_token,
        "upright": [*source.upright],
        "index": source.index,
        "letters": ",".join(found),
    }


def _names() -> Iterator[list]:
    """Of each name: what it holds, cards' lines by layout, page, more to say, and if it has parts.

    A name that a library stores ends what was typed; one with parts below it stands anywhere in it.
    """
    entries: dict[str, dict[tuple, list[str]]] = {}
    for layout in layouts().values():
        for stored in dict.fromkeys(it for form in layout.forms for it in form.stored):
            ways = entries.setdefault(stored.name, {})
            if not any(layout.name in so for so in ways.values()):
                way = stored.holds, stored.shape, cut_out(stored)
                ways.setdefault(way, []).append(layout.name)
        for called in re.findall(r"\b[A-Z]\w*Attention\b", layout.title.split(":")[0]):
            yield [called, _NAME["class"], [], _page([layout.name]), [], 0]
        for called, why in (layout.refused | layout.outside).items():
            if re.fullmatch(r"(?!add_)([qk]\w*_|\w+_(?=[qkv]$))\w+", called):
                beside = _NAME["beside"].format("{}", re.split(r"; |\. |: | \(", why)[0])
                yield [called, beside, [], _page([layout.name]), [], 1]
    for name, ways in entries.items():
        said = [
            [", ".join(layouts()[it].title.removeprefix("Transformers, ") for it in so), *way[1:]]
            for way, so in ways.items()
        ]
        so = [each for way in ways.values() for each in way]
        own = len(so) == 1 and layouts()[so[0]].scale is not None
        title = _NAME["title"].format("{}", _holds(next(iter(ways))[0]))
        yield [name, title, said, _page(so), [layouts()[so[0]].scaling] * own, 0]
    for holds, held in _NAME["held"].items():
        for name in held.split():
            title = _NAME["title"].format("{}", _holds(holds))
            yield [name, title, [], _NAME["else"], [_NAME["unstored"]], 1]
    for names, (said, page) in _NAME["made"].items():
        yield from ([name, f"{{}} {said}", [], page, [], 1] for name in names.split())


def _page(names_of: list[str]) -> str:
    page = next((each for each in names_of if each in _NAME["pages"].split()), "")
    return _NAME["own"].format(page) if page else _NAME["else"]


def _holds(holds: str) -> str:
    parts = sorted(holds.split(), key=lambda part: "QKVO".index(part[-1]))
    if parts[0] in _NAME:
        return _NAME[parts[0]]
    *first, last = (_NAME[part[-1]] for part in parts)
    said = f"{', '.join(first)} and {last}" if first else last
    return _NAME["bias" if parts[0][0] == "b" else "part"].format(said)


def cut_out(stored: Stored) -> str:
    """The line of NumPy that cuts out the weight of head i; of a fused one that for queries."""
    both = stored.axes, stored.paper_axes
    flat, wanted = ([size for axis in axes for size in axis] for axes in both)
    if stored.is_bias or any(re.search(r"[+/]|^4$", each) for each in flat):
        return ""
    part = [each for each in flat if each == stored.split]
    heads = [each for each in flat if each in ("h", "h_kv")]
    index = ["0" if each in part else "i" if each in heads else ":" for each in flat]
    while index and index[-1] == ":":
        index.pop()
    rest, paper = ([it for it in all_of if it not in (*part, *heads)] for all_of in (flat, wanted))
    turn = ".T" if rest != paper else ""
    reshape = f".reshape({', '.join(flat)})" if len(flat) > len(stored.axes) else ""
    return f"w{reshape}[{', '.join(index)}]{turn}"
