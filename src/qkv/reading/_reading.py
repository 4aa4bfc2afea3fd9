"""What was read, as values that print as sentences."""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
            head is at 0.
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
