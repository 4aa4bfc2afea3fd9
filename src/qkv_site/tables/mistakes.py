r"""The known mistakes as Markdown: made from `qkv.mistakes`.

A page says in its front matter, `symptoms: [heads-mixed]`, which symptoms it explains. From this a
mistake knows its page, a page its mistakes, and the overview of the symptoms its rows.
"""

import posixpath
import textwrap
from collections.abc import Iterable
from itertools import chain, groupby, takewhile

from qkv import mistakes
from qkv.mistakes import Mistake
from qkv_site.page import PAGE, Heading
from qkv_site.tables.libraries import fitting, table


def tables() -> str:
    """A folded table for each part of a layer: the mistake, what one sees, and what to do."""
    pages = pages_of_symptoms()
    return "\n\n".join(_folded(title, known, pages) for title, known in mistakes.parts().items())


def known() -> str:
    """A folded table of the mistakes that show a symptom of this page."""
    shown = PAGE.get().meta.get("symptoms", [])
    found = tuple(each for each in mistakes.known().values() if each.seen_as in shown)
    title = "The mistake" if len(found) == 1 else f"The {len(found)} mistakes"
    return _folded(f"{title} of this kind", found, pages_of_symptoms())


def overview() -> str:
    """What one sees, with a link to its page, and what may be the cause or is asked about it."""
    pages = pages_of_symptoms()
    listed = dict.fromkeys(chain.from_iterable(pages.values()))
    rows = ((_link(page), _causes(page)) for page in listed)
    return fitting(("what you see", "causes, and questions about them"), rows)


def pages_of_symptoms() -> dict[str, list[str]]:
    """Each symptom's pages, as files below `docs`, in the order of the symptoms."""
    found = {symptom: [] for symptom in mistakes.symptoms()}
    for name, page in PAGE.get().site.pages.items():
        for symptom in page.meta.get("symptoms", []):
            found[symptom].append(name)
    return found


def _link(page: str) -> str:
    return f"[{PAGE.get().site.pages[page].title}]({_address(page)})"


def _causes(page: str) -> str:
    """The headings of a page that ask about causes: those before its own check, or its list."""
    if not page.startswith("symptoms/"):
        return ""
    parts = PAGE.get().site.pages[page].parts
    headings = (part for part in parts if isinstance(part, Heading) and part.level == 2)
    causes = takewhile(lambda it: it.id not in ("check", "known"), headings)
    return "<br>".join(f"[{it.title}]({_address(page)}#{it.id})" for it in causes)


def _address(page: str) -> str:
    return posixpath.relpath(page, posixpath.dirname(PAGE.get().name))


def _folded(title: str, known: tuple[Mistake, ...], pages: dict[str, list[str]]) -> str:
    return f'??? note "{title}"\n\n{textwrap.indent(_table(known, pages), "    ")}'


def _table(known: tuple[Mistake, ...], pages: dict[str, list[str]]) -> str:
    alike = groupby(known, key=lambda each: (each.symptom, each.cure, each.seen_as))
    rows = (
        (_with_one_cure(kin), f"{symptom}{_leads(pages[seen_as])}", cure)
        for (symptom, cure, seen_as), kin in alike
    )
    return table(("the mistake", "what you see", "what to do"), rows)


def _with_one_cure(kin: Iterable[Mistake]) -> str:
    """Mistakes that are seen and cured alike: a list if there are several."""
    said = [f"{described(each)} `{each.name}`" for each in kin]
    return said[0] if len(said) == 1 else f"<ul>{''.join(f'<li>{it}</li>' for it in said)}</ul>"


def _leads(pages: list[str]) -> str:
    return "" if PAGE.get().name in pages else f" [More]({_address(pages[0])})"


def described(mistake: Mistake) -> str:
    """A mistake as a sentence. A name gets no capital: B is another letter than b."""
    what, (first, *_) = mistake.what, mistake.what.split()
    if "_" in first and first[0].islower():
        raise ValueError(
            f"the mistake {mistake.name!r}: {what!r} begins with the name {first!r}, and a "
            f"sentence begins with a capital. Write a word before it, as in 'the bias {first}'"
        )
    return f"{what[0].upper()}{what[1:]}."
