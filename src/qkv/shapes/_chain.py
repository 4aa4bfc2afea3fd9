r"""Arrays in a row: what one gives, the next takes.

A source goes through maps, which give queries, keys and values; weights of the softmax multiply
values; heads go through W_O. Nothing stands in between, so that no layer follows another.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from qkv.shapes._candidates import Candidate, Candidates, Chain, KnownShape

_WAYS = {"(in, out)": "X @ W", "(out, in)": "X @ W.T"}


class _Step(NamedTuple):
    """What a candidate takes from the array before it, and gives to the one after it."""

    candidate: Candidate
    takes: tuple | None
    gives: tuple | None
    columns: bool  # whether it has one column a token

    def may_stand(self, convention: str) -> bool:
        """Whether it may stand in a row whose weights are all stored like this."""
        stored = self.candidate.convention
        return convention in stored if stored else convention == "(out, in)" or not self.columns


def in_a_row(candidates: Sequence[Candidates]) -> Chain:
    """Of each shape the candidates that can stand in the whole row."""
    kept, maps = [set() for _ in candidates], []
    for convention in _WAYS:
        if row := _row(candidates, convention):
            for found, steps in zip(kept, row, strict=True):
                found |= {step.candidate for step in steps}
            maps += _as_one_map(row, [each.shape for each in candidates], convention)
    if not maps and not kept[0]:
        raise ValueError(_where_it_breaks(candidates))
    chain = Chain(map(_narrowed, candidates, kept))
    chain.maps = tuple(maps)
    return chain


def _narrowed(candidates: Candidates, kept: set[Candidate]) -> Candidates:
    left = Candidates(candidate for candidate in candidates if candidate in kept)
    left.shape, left.at_other_sizes = candidates.shape, {}  # other sizes would be another row
    return left


def _row(candidates: Sequence[Candidates], convention: str) -> list[list[_Step]]:
    """The steps of each shape that are part of a whole row; empty if there is none."""
    row = [[step for step in _steps(every) if step.may_stand(convention)] for every in candidates]
    for i in range(1, len(row)):
        row[i] = [b for b in row[i] if any(_follows(a, b) for a in row[i - 1])]
    for i in reversed(range(len(row) - 1)):
        row[i] = [a for a in row[i] if any(_follows(a, b) for b in row[i + 1])]
    return row if all(row) else []


def _follows(a: _Step, b: _Step) -> bool:
    return a.gives is not None and a.gives == b.takes


def _steps(candidates: Candidates) -> list[_Step]:
    return [_step(candidate, candidates.shape) for candidate in candidates]


def _step(candidate: Candidate, shape: KnownShape) -> _Step:
    """What a candidate takes and gives: a name, and widths that have to agree."""
    axes = candidate.axes.strip("(),").split(", ")
    size = dict(zip(axes, shape, strict=True))
    symbol, takes, gives = candidate.symbol, None, None
    if symbol.startswith("X_"):
        gives = ("source", size["d_model"])
    elif symbol.startswith("P_"):
        takes = gives = ("source", size["d_model"])
    elif symbol.startswith(("W_QK", "W_VO")):
        takes = ("source", size["d_model"])
    elif symbol.startswith("W_O"):
        takes = _heads(symbol, size)
    elif symbol.startswith("W_"):
        takes, gives = ("source", size["d_model"]), _heads(symbol, size)
    elif re.match("[SA]\\b", symbol):
        gives = ("tokens", size["n_k"])
    elif re.match("[QKVC]", symbol):
        takes, gives = ("tokens", size.get("n")), _heads(symbol, size)
    columns = axes[-1] == "n"
    return _Step(candidate, None if columns else takes, gives, columns)


def _heads(symbol: str, size: dict[str, int | None]) -> tuple | None:
    """One head, heads on an axis of their own, or packed; fused letters are not cut yet."""
    if " and " in symbol:
        return None
    if "[i]" in symbol:
        return "one head", size["d_k"]
    packed = [n for axis, n in size.items() if axis.endswith("·d_k")]
    return ("packed heads", *packed) if packed else ("heads", size.get("h", size.get("h_kv")))


def _as_one_map(row: list[list[_Step]], shapes: list[KnownShape], convention: str) -> Iterator[str]:
    """What the matrices of weights at the end of a row do as one."""
    maps = [
        shape if convention == "(in, out)" else shape[::-1]
        for shape, steps in zip(shapes, row, strict=True)
        if len(shape) == 2 and any(step.candidate.convention for step in steps)
    ]
    if len(maps) > 1 and all(a[1] == b[0] for a, b in pairwise(maps)):
        one = maps[0][0], maps[-1][1]
        stored = one if convention == "(in, out)" else one[::-1]
        widths = " to ".join(map(str, [maps[0][0], *(to for _, to in maps)]))
        yield (
            f"As {_WAYS[convention]}, {convention}, the weights take {widths} numbers. If "
            f"nothing stands between them, one matrix of shape {stored} does the same."
        )


def _where_it_breaks(candidates: Sequence[Candidates]) -> str:
    """Name the first shape that no candidate of the one before it can lead to."""
    for i in range(2, len(candidates) + 1):
        if not any(_row(candidates[:i], convention) for convention in _WAYS):
            break
    before, after = candidates[i - 2 : i]
    gives = {step.gives for step in _steps(before) if step.gives}
    takes = {step.takes for step in _steps(after) if step.takes}
    both = {each[1] for each in takes & {step.takes for step in _steps(before)} if "source" in each}
    perhaps = "".join(f" Perhaps both take the same {n} numbers, those of a source." for n in both)
    return (
        f"Read in a row, no array of shape {after.shape} can follow one of shape {before.shape}: "
        f"that may give {_spell(gives)}, and this may take {_spell(takes)}.{perhaps} Where "
        "something stands between two shapes, or an array with one column a token follows, ask for "
        "each part of the row alone."
    )


def _spell(widths: set[tuple]) -> str:
    spelled = sorted(f"{numbers[-1]} ({name})" for name, *numbers in widths if numbers)
    return " or ".join(spelled) or "nothing"
