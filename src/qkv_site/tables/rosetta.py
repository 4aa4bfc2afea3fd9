"""Who writes which letter for what, as Markdown: made from the sources' files."""

import re

from qkv import notation
from qkv.layouts import layouts
from qkv.notation import Role, Source
from qkv_site.tables import libraries
from qkv_site.tables.libraries import table

_NOT_CHECKED = " †"


def meanings(letter: str) -> str:
    """What a letter stands for in each source that uses it, whatever its dress and its index."""
    return table(
        ("in", "it is written", "and stands for", "of shape"),
        (
            (
                f"{_linked(source)}<br>{source.letters[role.key].where or source.where}",
                _formula(role.key, source),
                role.meaning,
                _shape(role, source),
            )
            for role in notation.roles()
            for source in notation.sources()
            if source.id != "site" and source.names(role)
            if plain(source.letters[role.key].latex).lower() == letter.lower()
        ),
    )


def plain(latex: str) -> str:
    """The letter that is left of LaTeX without its commands, its braces and its indices."""
    return re.split("[_^]", re.sub(r"\\[a-z]+|[{}\s]", "", latex))[0]


def in_libraries() -> str:
    """What the first argument of each library's layer stands for, and where it stores W_Q."""
    return table(
        ("in", "the argument", "and stands for", "the weight W_Q is stored in", "of shape"),
        (
            (
                f"[{layout.title}](libraries/{layout.name}.md)",
                f"`{next(iter(layout.arguments))}`",
                notation.role("X_Q").meaning,
                f"`{stored.name}`",
                f"${libraries.shape(stored)}$",
            )
            for layout in layouts().values()
            for stored in [libraries.holding("W_Q", layout)]
        ),
    )


def rosetta(*groups: str) -> str:
    """Roles of these groups down, sources across: the letter, its shape, and where it says so.

    A role that this site alone has a letter for is left out.
    """
    sources = notation.sources()
    named = {key for source in sources if source.id != "site" for key in source.letters}
    rows = (
        (f"{role.meaning}<br>`{role.key}`", *(_cell(role, source) for source in sources))
        for role in notation.roles()
        if role.group in groups and role.key in named
    )
    body = table(("role", *map(_linked, sources)), rows)
    return f'<div class="wq-wide wq-rosetta" markdown="1">\n\n{body}\n\n</div>'


def described() -> str:
    """Each source: what was read, how it writes, what it leaves unnamed, and what does not fit."""
    return "\n\n".join(_description(source) for source in notation.sources() if source.id != "site")


def cited() -> str:
    """The sources as a list of references, each with what was read of it."""
    return "\n".join(
        f"- {source.author} ({source.year}): [*{source.title}*]({source.link}), {source.where}. "
        f"Read: {source.read}."
        for source in sorted(notation.sources(), key=lambda source: source.author)
        if source.id != "site"
    )


def _linked(source: Source) -> str:
    name = source.short if source.id == "site" else f"[{source.short}](notation.md#{source.id})"
    return name + ("" if source.checked else _NOT_CHECKED)


def _formula(line: str, source: Source) -> str:
    return f"{{{{{source.id}: {line}}}}}"


def _cell(role: Role, source: Source) -> str:
    if source.names(role):
        letter = source.letters[role.key]
        written = _formula(role.key, source) + ("" if letter.checked else _NOT_CHECKED)
        return " ".join(filter(None, (written, _shape(role, source), letter.where)))
    if not any(entry.borrowed for entry in notation.legend(role.key, source)):
        return f"none: {_formula(role.key, source)}"
    return "none"


def _shape(role: Role, source: Source) -> str:
    return _formula(f"shape({role.key})", source) if role.shape else ""


def _description(source: Source) -> str:
    parts = [
        f"### {source.short} {{ #{source.id} }}",
        f"{source.author}, [*{source.title}*]({source.link}), {source.year}, {source.where}. "
        f"Tokens are {source.tokens}. Read: {source.read}.",
    ]
    if source.finding:
        parts.append(
            f'!!! warning "As it is printed, a formula does not fit"\n    {source.finding}'
        )
    if source.note:
        parts.append(source.note)
    unnamed = (
        f"- {', '.join(f'`{key}`' for key in each.roles)}: {each.why}" for each in source.unnamed
    )
    parts.append("\n".join(("What it has no letter for:\n", *unnamed)))
    return "\n\n".join(parts)
