r"""The known mistakes as Markdown: made from `qkv.mistakes`.

A page says in its front matter, `symptoms: [scale, flat-weights#flat]`, which symptoms it explains,
and below which heading if it is not the whole page. From this a mistake knows its place, a page its
mistakes, and the overview of the symptoms its rows.
"""

import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby, takewhile

from qkv import mistakes
from qkv.mistakes import Mistake
from qkv_site.markdown.tables import fitting, table
from qkv_site.page import PAGE, Heading, Page


def tables() -> str:
    """A folded table for each part of a layer: the mistake, what one sees, and what to do."""
    places = places_of_symptoms()
    return "\n\n".join(_folded(title, known, places) for title, known in mistakes.parts().items())


def known() -> str:
    """A folded table of the mistakes that show a symptom of this page."""
    shown = {symptom for symptom, _ in _symptoms(PAGE.get())}
    found = tuple(each for each in mistakes.known().values() if each.seen_as in shown)
    title = "The mistake" if len(found) == 1 else f"The {len(found)} mistakes"
    return _folded(f"{title} of this kind", found, places_of_symptoms())


def overview() -> str:
    """What one sees, with a link to its place, and what may be the cause or is asked about it."""
    said = mistakes.symptoms()
    rows = (
        (_link(place, said[symptom] if nth == 0 else _title(place)), _causes(place))
        for symptom, places in places_of_symptoms().items()
        for nth, place in enumerate(places)
    )
    return fitting(("what you see", "causes, and questions about them"), rows)


def places_of_symptoms() -> dict[str, list[str]]:
    """Where each symptom is explained, as in symptoms/scale.md#flat; pages of symptoms first."""
    found = {symptom: [] for symptom in mistakes.symptoms()}
    pages = PAGE.get().site.pages
    for name in sorted(pages, key=lambda name: (not name.startswith("symptoms/"), name)):
        for symptom, part in _symptoms(pages[name]):
            found[symptom].append(f"{name}#{part}" if part else name)
    return found


def _symptoms(page: Page) -> Iterator[tuple[str, str]]:
    """Which symptoms a page explains, and the heading of each if it is not the whole page."""
    for each in page.meta.get("symptoms", []):
        symptom, _, part = each.partition("#")
        yield symptom, part


def _link(place: str, title: str) -> str:
    return f"[{title}]({_address(place)})"


def _title(place: str) -> str:
    name, _, part = place.partition("#")
    page = PAGE.get().site.pages[name]
    titles = {it.id: it.title for it in page.parts if isinstance(it, Heading)}
    return titles[part] if part else page.title


def _causes(place: str) -> str:
    """The headings that ask about causes: those before the place's own check, or its list."""
    name, _, part = place.partition("#")
    if not part and not name.startswith("symptoms/"):
        return ""
    page = PAGE.get().site.pages[name]
    parts = page.below(part) if part else page.parts
    own = {other for _, other in _symptoms(page)} - {part}
    headings = [it for it in parts if isinstance(it, Heading) and it.id not in own]
    level = min((it.level for it in headings if it.level > 1), default=0)
    at_level = (it for it in headings if it.level == level)
    causes = takewhile(lambda it: it.id != "known" and not it.id.endswith("check"), at_level)
    return "<br>".join(_link(f"{name}#{it.id}", it.title) for it in causes)


def _address(place: str) -> str:
    name, _, part = place.partition("#")
    return PAGE.get().link_to(name, part)


def _folded(title: str, known: tuple[Mistake, ...], places: dict[str, list[str]]) -> str:
    return f'??? note "{title}"\n\n{textwrap.indent(_table(known, places), "    ")}'


def _table(known: tuple[Mistake, ...], places: dict[str, list[str]]) -> str:
    alike = groupby(known, key=lambda each: (each.symptom, each.cure, each.seen_as))
    rows = (
        (_with_one_cure(kin), f"{symptom}{_leads(places[seen_as])}", cure)
        for (symptom, cure, seen_as), kin in alike
    )
    return table(("the mistake", "what you see", "what to do"), rows)


def _with_one_cure(kin: Iterable[Mistake]) -> str:
    """Mistakes that are seen and cured alike: a list if there are several."""
    said = [f"{described(each)} `{each.name}`" for each in kin]
    return said[0] if len(said) == 1 else f"<ul>{''.join(f'<li>{it}</li>' for it in said)}</ul>"


def _leads(places: list[str]) -> str:
    pages = {place.partition("#")[0] for place in places}
    return "" if PAGE.get().name in pages else f" [More]({_address(places[0])})"


def described(mistake: Mistake) -> str:
    """A mistake as a sentence. A name gets no capital: B is another letter than b."""
    what, (first, *_) = mistake.what, mistake.what.split()
    if "_" in first and first[0].islower():
        raise ValueError(
            f"the mistake {mistake.name!r}: {what!r} begins with the name {first!r}, and a "
            f"sentence begins with a capital. Write a word before it, as in 'the bias {first}'"
        )
    return f"{what[0].upper()}{what[1:]}."
