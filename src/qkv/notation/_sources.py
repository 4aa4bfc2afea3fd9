"""What each author writes for which role: one TOML file a source, in the folder `sources`."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files
from itertools import combinations
from typing import get_origin

from qkv.notation._roles import Role, role
from qkv.notation.tree import FUNCTIONS

_FUNCTIONS = (*FUNCTIONS, "concat")
# Roles that may share a letter, because a text may speak of a layer in which they are the same.
_SAME = ({"X", "X_Q", "X_K", "X_V"}, {"n", "n_q", "n_k"}, {"d_k", "d_v"})
GROUPS = (
    "This site",
    "Andrew Ng's course, two videos",
    "Attention Is All You Need",
    "Textbooks",
    "Papers and reports",
    "Lessons and posts",
)


@dataclass(frozen=True)
class Letter:
    r"""What a source writes for a role.

    Attributes:
        latex: The letter; the head's index stands in braces: `W_{i}^Q`.
        where: Where the source says so, if not where the source as a whole is cited.
        shape: What it calls the sizes of this role alone: `d_q \times -`. A dash stands for a size
            that it calls as it always does.
        checked: Whether the letter was seen in the source itself or in a quotation.
    """

    latex: str
    where: str = ""
    shape: str = ""
    checked: bool = True


@dataclass(frozen=True)
class Unnamed:
    """Roles that a source has no letter for.

    Attributes:
        roles: Their keys.
        why: Why it has none.
    """

    roles: tuple[str, ...]
    why: str


@dataclass(frozen=True, eq=False)
class Source:
    """A text, and the letters it uses.

    Attributes:
        id: The name of its file, without the ending.
        title: The text's full title.
        short: Its name in a list of sources.
        group: Under what it stands in such a list.
        author: Who wrote it.
        year: When.
        where: Section, minute, or file and line.
        link: Its address.
        read: What was read, and when.
        tokens: "rows" or "columns". With columns, what is not `upright` is the transpose of the
            role's array, and a product that makes it is written the other way round.
        checked: Whether all of this was seen in the source itself or in a quotation.
        letters: A `Letter` for the key of each role that it names.
        functions: LaTeX for each function that it names.
        square: Whether its functions take square brackets.
        hint: What tells it from another of its group: "q goes in".
        one_token: Whether its letter for queries, say, is one token's vector. Here it stands for
            the vectors of all tokens.
        index: What it writes for the index of a head; empty where its letters have none.
        first_heads: The indices of the first two heads.
        bounds: Whether its sums over heads may name how many there are.
        upright: Roles that it does not transpose, although its tokens are columns.
        unnamed: What it leaves unnamed, and why.
        note: What was not checked, and what else a reader should know.
        finding: What does not fit in its own formula, as it is printed.
    """

    id: str
    title: str
    short: str
    group: str
    author: str
    year: int
    where: str
    link: str
    read: str
    tokens: str
    checked: bool
    letters: Mapping[str, Letter] = field(repr=False)
    functions: Mapping[str, str] = field(default_factory=dict, repr=False)
    square: bool = False
    hint: str = ""
    one_token: bool = False
    index: str = ""
    first_heads: tuple[str, ...] = ("1", "2")
    bounds: bool = True
    upright: tuple[str, ...] = ()
    unnamed: tuple[Unnamed, ...] = field(default=(), repr=False)
    note: str = ""
    finding: str = ""

    def __hash__(self) -> int:
        return hash(self.id)

    def names(self, role: Role) -> bool:
        """Whether it has a letter for this role."""
        return role.key in self.letters

    @property
    def has_one_source(self) -> bool:
        """Whether it has one letter for the source of the queries and that of the keys."""
        return self.letter(role("X_Q")) == self.letter(role("X_K"))

    def tells_heads_apart(self, role: Role) -> bool:
        """Whether its letter for what each head has says which head."""
        return self.letter(role, "1") != self.letter(role, "2")

    def transposes(self, role: Role) -> bool:
        """Whether what it writes for this role is the transpose of the role's array."""
        return self.tokens == "columns" and role.key not in self.upright

    def letter(self, role: Role, head: str = "") -> str:
        r"""LaTeX for a role; this site's letter where the source has none.

        Args:
            role: The role.
            head: Which head: "1", say. The head in general where empty.

        Returns:
            The letter, without its meaning.

        Examples:
            >>> from qkv.notation import role
            >>> source("paper-3-2-2").letter(role("X_Q"))
            'Q'
            >>> source("paper-3-2-2").letter(role("W_Q[i]"), head="1")
            'W_1^Q'
        """
        owner = self if self.names(role) else source("site")
        head = head or self.index or owner.index
        head = head if len(head) == 1 else f"{{{head}}}"
        return owner.letters[role.key].latex.replace(f"{{{owner.index}}}", head)


def sources() -> tuple[Source, ...]:
    """All sources: this site first, then by year.

    Examples:
        >>> [source.id for source in sources()][:3]
        ['site', 'paper-3-2-2', 'paper-eq1']
    """
    return tuple(_all().values())


def grouped_sources() -> dict[str, tuple[Source, ...]]:
    """All sources, under what they stand in a list, this site first.

    Examples:
        >>> list(grouped_sources())[:2]
        ['This site', "Andrew Ng's course, two videos"]
    """
    return {name: tuple(each for each in sources() if each.group == name) for name in GROUPS}


def source(name: str) -> Source:
    """The source with this id.

    Raises:
        ValueError: If there is none; the message lists the ids.
    """
    if name not in _all():
        raise ValueError(f"{name!r} is not a source. The sources are {', '.join(_all())}.")
    return _all()[name]


@cache
def _all() -> dict[str, Source]:
    folder = files("qkv.notation").joinpath("sources")
    found = [
        parse_source(path.name.removesuffix(".toml"), path.read_text(encoding="utf-8"))
        for path in folder.iterdir()
        if path.name.endswith(".toml")
    ]
    found.sort(key=lambda source: (source.id != "site", source.year, source.id))
    return {source.id: source for source in found}


def parse_source(name: str, text: str) -> Source:
    """Make a source of what a TOML file holds.

    Args:
        name: The file's name without its ending; the source's id.
        text: The file's text.

    Returns:
        The source.

    Raises:
        ValueError: If the text is no TOML, or makes no source. The message names the file.
    """
    try:
        entries = {
            key: tuple(entry) if isinstance(entry, list) else entry
            for key, entry in tomllib.loads(text).items()
        }
        letters = [
            (key, Letter(**entry) if isinstance(entry, dict) else Letter(entry))
            for keys, entry in entries.get("letters", {}).items()
            for key in keys.split()
        ]
        entries["letters"] = dict(letters)
        _require(len(letters) == len(entries["letters"]), "A role has two letters.")
        unnamed = entries.get("unnamed", {}).items()
        entries["unnamed"] = tuple(Unnamed(tuple(keys.split()), why) for keys, why in unnamed)
        made = Source(id=name, **entries)
        _validate(made)
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{name}.toml: {error}") from error
    return made


def _validate(made: Source) -> None:
    _validate_types(made)
    for key, letter in made.letters.items():
        _validate_types(letter, f"{key}: ")
    for each in made.unnamed:
        _validate_types(each, "unnamed: ")
    for entry in ("title", "short", "author", "where", "read"):
        _require(getattr(made, entry), f"{entry} must not be empty: a source is cited.")
    _require(
        made.id == "site" or made.link.startswith("https://"), "link has to begin with https://."
    )
    _require(
        len(made.first_heads) == 2 and all(isinstance(each, str) for each in made.first_heads),
        f"first_heads has to be two of str, but is {list(made.first_heads)!r}.",
    )
    _require(made.group in GROUPS, f"group is one of {', '.join(GROUPS)}, not {made.group!r}.")
    _require(made.tokens in ("rows", "columns"), f"tokens is rows or columns, not {made.tokens!r}.")
    _require(
        made.tokens == "columns" or not made.upright, "upright has a meaning with columns only."
    )
    unnamed = [key for each in made.unnamed for key in each.roles]
    for key in (*made.letters, *made.upright, *unnamed):
        role(key)
    for key in unnamed:
        _require(key not in made.letters, f"{key} is unnamed, and has a letter.")
    for one, other in combinations(made.letters, 2):
        letter = made.letters[one].latex
        same = any({one, other} <= each for each in _SAME)
        _require(
            same or letter != made.letters[other].latex,
            f"{letter} stands for {one}, {role(one).meaning}, and for {other}, "
            f"{role(other).meaning}: in one formula nobody could tell them apart. Give the letter "
            "to one of the two, and leave the other one unnamed.",
        )
    for key, latex in made.functions.items():
        _require(key in _FUNCTIONS, f"{key} is not a function; known are {', '.join(_FUNCTIONS)}.")
        _require(isinstance(latex, str), f"{key} has to be a str, but is {latex!r}.")
    unchecked = [key for key, letter in made.letters.items() if not letter.checked]
    _require(
        not (made.checked and unchecked), f"checked is true, but not for {', '.join(unchecked)}."
    )
    _require(made.checked or made.note, "checked is false: note has to say what was not checked.")


def _validate_types(part: Source | Letter | Unnamed, where: str = "") -> None:
    for each in fields(part):
        value = getattr(part, each.name)
        wanted = get_origin(each.type) or each.type
        if not isinstance(value, dict if wanted is Mapping else wanted):
            raise TypeError(f"{where}{each.name} has to be a {wanted.__name__}, but is {value!r}.")


def _require(condition: object, message: str) -> None:
    if not condition:
        raise ValueError(message)
