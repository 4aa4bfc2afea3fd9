r"""What an array may be, as values that print as a text."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

KnownShape = tuple[int | None, ...]  # None is a number of tokens or samples


@dataclass(frozen=True)
class Candidate:
    """One thing that an array of a given shape may be.

    Args:
        symbol: Its name, as `qkv` writes it: `W_Q[i]` belongs to one head, `W_Q` to all of them.
        what: What it is.
        axes: The shape in symbols. A raised dot multiplies: heads of width d_k side by side are
            h·d_k wide.
        convention: How a weight is stored: "(in, out)" is applied as `X @ W`, "(out, in)" as
            `X @ W.T`. Empty for what is no matrix of weights.
        why: The shape, number by number.
        question: What to ask of the code. Yes means this candidate.
        stored_by: The layouts that store it with these `axes`, each with its names for it, such as
            "pytorch: in_proj_weight". Not each has layers of these sizes: `Layout.shapes` tells.
    """

    symbol: str
    what: str
    axes: str
    convention: str
    why: str
    question: str
    stored_by: tuple[str, ...] = ()

    def __str__(self):
        lines = [f"{self.symbol} {self.convention}".rstrip() + f": {self.what}", self.why]
        lines.append(self.question)
        if self.stored_by:
            names = ", ".join(each.partition(":")[0] for each in self.stored_by)
            lines.append(f"Stored so by {names}.")
        return "\n    ".join(_wrapped(line, "      ") for line in lines)


class Candidates(tuple[Candidate, ...]):
    """What an array of one shape may be, the most common first; it prints as a text.

    Attributes:
        shape: The shape.
        at_other_sizes: What it may be besides, if a size that was not given is another than was
            taken: "h_kv = 2" to symbols with their conventions.
    """

    shape: KnownShape = ()
    at_other_sizes: Mapping[str, tuple[str, ...]] = {}

    def __repr__(self):
        lines = [f"{self.shape} may be", *(f"  {each}".replace("\n", "\n  ") for each in self)]
        for sizes, more in self.at_other_sizes.items():
            lines.append(_wrapped(f"and if {sizes}: {'; '.join(more)}", "  "))
        return "\n".join(lines)


class Chain(tuple[Candidates, ...]):
    """What arrays in a row may be, each with its candidates; it prints as a text.

    Attributes:
        maps: How the matrices among them follow each other, a sentence for each convention.
    """

    maps: tuple[str, ...] = ()

    def __repr__(self):
        return "\n\n".join([*map(repr, self), *(_wrapped(sentence) for sentence in self.maps)])


def _wrapped(line: str, indent: str = "") -> str:
    return textwrap.fill(line, 88, subsequent_indent=indent, break_on_hyphens=False)
