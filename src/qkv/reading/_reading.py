"""What was read, as values that print as sentences."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from qkv.reading._data import DATA
from qkv.reading._patterns import search, sub


@dataclass(frozen=True)
class Reading:
    """One way to understand what was typed.

    Args:
        kind: "formula", "shape", "name" or "error".
        title: What it is, in a sentence: of a formula, which Q stands in it.
        which: Of a formula: "source", "head" (projected, of one head), "packed", "fused", "latent",
            "weight", "size" or "none".
        tokens: Whether a formula's words are "rows" or "columns"; "open" if it does not tell; empty
            for a size.
        texts: Whose letters it has.
        letters: Of each letter what it is; of a shape, of each reading what to ask of the code; of
            a name, of each library how it stores the weight.
        wrong: What does not fit, or is a known mistake.
        says: What else there is to say.
        line: A formula as a line of NumPy in this site's letters, with words as rows. The first
            head is at 0, as in an array: in formulas of `qkv.notation` it has the number 1.
        page: The page of the site that explains it.
        trees: The line as trees of roles, for printing it in other letters.
    """

    kind: str
    title: str
    which: str = ""
    tokens: str = ""
    texts: tuple[str, ...] = ()
    letters: Mapping[str, str] = field(default_factory=dict)
    wrong: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    line: str = ""
    page: str = ""
    trees: tuple = ()

    def __str__(self):
        lines = [self.title, *self.wrong, *self.says]
        lines += [f"{letter}: {said}" for letter, said in self.letters.items()]
        lines += [f"Fits the letters of {'; '.join(self.texts)}."] * bool(self.texts)
        lines += [self.line] * bool(self.line) + [f"See {self.page}."] * bool(self.page)
        return "\n  ".join(lines)


class Readings(tuple[Reading, ...]):
    """All ways to understand what was typed, the likeliest first; it prints as a text.

    Attributes:
        says: What is not read, or why nothing is, or what decides between several.
        unread: What was not understood.
    """

    says: str = ""
    unread: tuple[str, ...] = ()

    def __repr__(self):
        return "\n".join([*map(str, self), *filter(None, [self.says])])


def told_of(typed: str) -> list:
    """What to know of calls and names that stand in what was typed."""
    found = [(search(pattern, typed), said) for pattern, said in DATA["tells"].items()]
    return [filled(said, its) for its, said in found if its]


def filled(said: str, found: tuple) -> str:
    """A sentence with groups of a message, or the first divided by the others; #128 is a number."""

    def put(gap: tuple) -> str:
        its = [it[1:] if it[0] == "#" else found[int(it)] or "" for it in gap[1].split("/")]
        if not its[1:]:
            return its[0]
        a, b = int(its[0]), prod([int(it) or 1 for it in its[1:]])
        tenths = (20 * a + b) // (2 * b)  # in integers, which every language rounds alike
        return f"{tenths // 10}.{tenths % 10}" if a % b else str(a // b)

    return sub(r"\{([\d/#]+)\}", put, said)
