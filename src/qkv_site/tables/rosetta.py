"""Who writes which letter for what, as Markdown: made from the sources' files."""

import re

from qkv import notation
from qkv.notation import Role, Source
from qkv_site.markdown.tables import table

_NOT_CHECKED = " †"
_FEW = 2  # a role with so few letters is a line of its own, and no column


def meanings(letter: str) -> str:
    """What a letter stands for in each source that uses it, whatever its dress and its index."""
    return table(
        ("in", "it is written", "and stands for"),
        (
            (
                f"{_linked(source)}<br>{source.letters[role.key].where or source.where}",
                _formula(role.key, source),
                "<br>".join(filter(None, (role.meaning, _shape(role, source)))),
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


def letters(*groups: str) -> str:
    """Texts down, roles of these groups across: each text's letters, and where it says so.

    A role that few texts have a letter for is in `few` instead.
    """
    roles = [role for role in notation.roles() if role.group in groups if len(_texts(role)) > _FEW]
    heads = (f"{role.meaning} `{role.key}`" for role in roles)
    shapes = [("shape", *map(_shape, roles))] * any(role.shape for role in roles)
    rows = (
        (_linked(source), *(_cell(role, source) for role in roles)) for source in notation.sources()
    )
    body = table(("in", *heads), [*shapes, *rows])
    return f'<div class="wq-wide wq-rosetta" markdown="1">\n\n{body}\n\n</div>'


def few() -> str:
    """The roles that few texts have a letter for: the letters, each with its text."""
    return table(
        ("", "shape in these letters", "written"),
        (
            (
                f"{role.meaning}<br>`{role.key}`",
                _shape(role),
                "<br>".join(_named(role, source, _linked(source)) for source in texts),
            )
            for role in notation.roles()
            if 0 < len(texts := _texts(role)) <= _FEW
        ),
    )


def described() -> str:
    """Each source: what was read, how it writes, what it leaves unnamed, and what does not fit."""
    return "\n\n".join(_description(source) for source in notation.sources() if source.id != "site")


def _linked(source: Source) -> str:
    name = source.short if source.id == "site" else f"[{source.short}](notation.md#{source.id})"
    return name + ("" if source.checked else _NOT_CHECKED)


def _formula(line: str, source: Source) -> str:
    return f"{{{{{source.id}: {line}}}}}"


def _texts(role: Role) -> list[Source]:
    """The texts that have a letter for a role."""
    sources = notation.sources()
    return [source for source in sources if source.id != "site" and source.names(role)]


def _cell(role: Role, source: Source) -> str:
    if source.names(role):
        return _named(role, source)
    if not any(entry.borrowed for entry in notation.legend(role.key, source)):
        return f"none: {_formula(role.key, source)}"
    return "none"


def _named(role: Role, source: Source, text: str = "") -> str:
    """A letter, its text, and where it stands if that is not where the whole text is cited."""
    letter = source.letters[role.key]
    written = _formula(role.key, source) + ("" if letter.checked else _NOT_CHECKED)
    if text:
        return f"{written}: {', '.join(filter(None, (text, letter.where)))}"
    return "<br>".join(filter(None, (written, letter.where)))


def _shape(role: Role, source: Source | None = None) -> str:
    """A role's shape in the letters of a source, or in those that the reader chose."""
    line = f"shape({role.key})"
    if not role.shape:
        return ""
    return _formula(line, source) if source else f"{{{{{line}}}}}"


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
    parts.append("\n".join(("What has no letter of its own there:\n", *unnamed)))
    return "\n\n".join(parts)
