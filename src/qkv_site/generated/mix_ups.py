r"""The known mix-ups as Markdown: made from `qkv.mix_ups`."""

from itertools import groupby

from qkv.mix_ups import MixUp, groups
from qkv_site.generated.libraries import table


def tables() -> str:
    """A folded table for each part of a layer: the mistake, what one sees, and what to do."""
    return "\n\n".join(
        f'??? note "{title}"\n\n{_indented(_table(known))}' for title, known in groups().items()
    )


def _table(known: tuple[MixUp, ...]) -> str:
    alike = groupby(known, key=lambda each: (each.symptom, each.cure))
    rows = (_row(symptom, cure, [*kin]) for (symptom, cure), kin in alike)
    return table(("the mistake", "what you see", "what to do"), rows)


def _row(symptom: str, cure: str, kin: list[MixUp]) -> tuple[str, str, str]:
    """One row for mistakes that are seen and cured alike."""
    said = "<br>".join(f"{_sentence(each.what)} `{each.name}`" for each in kin)
    return said, symptom, cure


def _sentence(what: str) -> str:
    return f"{what[0].upper()}{what[1:]}."


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
