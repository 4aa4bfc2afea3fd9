"""Where a reader finds how a statement is known: at the foot of its page, and counted in an index.

A test has one place: the page that states what it shows, or else the first in the order of the menu
that has a link to it, or else a page that takes the tests of its file, `tests: [functions]` in its
front matter, or else the index. Authors write `claims.md#test-name` wherever it is.
"""

import json
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from qkv import notation
from qkv_site import menu
from qkv_site.markdown import claims
from qkv_site.markdown.claims import Claim, Trap
from qkv_site.markdown.tables import table
from qkv_site.page import PAGE, Page, Site

FOLD = "how-it-is-known"  # the id of what a page says of how its statements are known
PLACES = "assets/claims.json"


@dataclass(frozen=True)
class Known:
    """How the statements of a site are known.

    Attributes:
        kinds: Of each statement and test, by the name that it has in a link to the index.
        places: Where each is: a page, and an id on it.
        tests: Of each page, the tests that have their place there.
    """

    kinds: dict[str, str]
    places: dict[str, tuple[str, str]]
    tests: dict[str, list[Trap]]


@lru_cache(maxsize=1)  # a site is another one each time that it is built
def known(site: Site) -> Known:
    """How the statements of a site are known."""
    made = [claim for page in site.pages.values() for claim in claims.of_page(page)]
    tests = {trap.id: trap for trap in claims.traps()}
    homes = _homes(site, tests)
    below: dict[str, list[Trap]] = {}
    for test, home in homes.items():
        below.setdefault(home, []).append(tests[test])
    return Known(
        {claim.id: claim.kind for claim in made} | dict.fromkeys(tests, "run"),
        {claim.id: (claim.page, _place(claim)) for claim in made}
        | {test: (home, test) for test, home in homes.items()},
        below,
    )


def _homes(site: Site, tests: Mapping[str, Trap]) -> dict[str, str]:
    """The page of each test."""
    pages = [site.pages[name] for name in menu.in_order(site)]
    homes: dict[str, str] = {}
    for number in (0, 1):  # those that state it, then those that have a link to it
        for page in pages:
            for test in claims.tests_of(page)[number] & tests.keys():
                homes.setdefault(test, page.name)
    by_file = {f"test_{name}": page.name for page in pages for name in page.meta.get("tests", ())}
    for test, trap in tests.items():
        homes.setdefault(test, by_file.get(Path(trap.file).stem, claims.INDEX))
    return {test: homes[test] for test in tests}  # in the order of the files


def _place(claim: Claim) -> str:
    return f"claim-{claim.id}" if claim.block else claim.anchor


def leads_to(target: str, page: Page) -> str:
    """Where a link of a page leads: one to a statement or a test of the index, to its place."""
    path, _, name = target.partition("#")
    if posixpath.basename(path) != claims.INDEX:
        return target
    home, part = known(page.site).places.get(name.removeprefix("claim-"), ("", ""))
    return page.link_to(home, part) if home else target


def kind_to_say(target: str, said: str) -> str:
    """What a link to a statement or a test has to add of how it is known; empty if nothing.

    Args:
        target: Where the link leads, as Markdown has it.
        said: What the link says.
    """
    page, _, anchor = target.partition("#")
    if posixpath.basename(page) != claims.INDEX:
        return ""
    kind = known(PAGE.get().site).kinds.get(anchor, "")
    return "" if re.search(rf"\b{kind}\b", said, re.IGNORECASE) else kind


def fold(page: Page) -> str:
    """How the statements of a page are known, folded, as Markdown for its foot; or empty."""
    made, tests = claims.of_page(page), known(page.site).tests.get(page.name, [])
    counts = Counter(claim.kind for claim in made)
    said = [f"{counts[kind]} {kind}" for kind in claims.KINDS if counts[kind]]
    said += [f"{len(tests)} {'tests' if len(tests) > 1 else 'test'}"] * bool(tests)
    if not said:
        return ""
    shown = "\n\n".join(
        f"*{kind.capitalize()}*: {claims.MEANING[kind]}.{_date(tests if kind == 'run' else [])}"
        f"\n{{ #known-{kind} }}\n\n{_listed(entries)}"
        for kind in claims.KINDS
        if counts[kind] or (tests and kind == "run")
        for entries in [[*_entries(kind, made, tests, page)]]
    )
    return (
        f'<details class="wq-known" id="{FOLD}" markdown>\n'
        f"<summary>How it is known: {', '.join(said)}</summary>\n\n{shown}\n\n</details>"
    )


def as_text(page: Page) -> str:
    """What a copy of a page in Markdown says at its foot: a statement there has its evidence."""
    made = [claim for claim in claims.of_page(page) if not claim.block]
    tests = known(page.site).tests.get(page.name, [])
    entries = [entry for kind in claims.KINDS for entry in _entries(kind, made, tests, page)]
    said = "\n".join(f"- {words}" for _, words in entries)
    return f"\n\n**How it is known.**{_date(tests)}\n\n{said}" if said else ""


def _date(tests: list[Trap]) -> str:
    day = claims.last_run()["date"] if tests else None
    return f" The tests below last ran on {day.day} {day:%B %Y}." if day else ""


def _listed(entries: list[tuple[str, str]]) -> str:
    return "\n".join(f"- {words}\n  {{ #{anchor} }}" for anchor, words in entries)


def _entries(
    kind: str, made: list[Claim], tests: list[Trap], page: Page
) -> Iterator[tuple[str, str]]:
    """The id and the Markdown of each entry of a kind."""
    for claim in made:
        if claim.kind == kind and (claim.run or claim.adds):
            name = f"[{claim.statement}](#claim-{claim.id})" if claim.block else claim.statement
            test = f"{claims.INDEX}#{claims.anchor(claim.run)}"
            test = f"Shown by [a run of its test]({test})." if claim.run else ""
            yield claim.anchor, " ".join(filter(None, (name, claim.adds, test)))
    for trap in tests if kind == "run" else ():
        yield trap.id, _tested(trap, page)


def _tested(trap: Trap, page: Page) -> str:
    """What a test shows, on which libraries, and where its code is."""
    covers = f"Covers: {trap.covers.rstrip('.')}." if trap.covers else ""
    where = page.link_to(trap.code, f":~:text=def%20{trap.test}%28")
    code = f"[{Path(trap.file).name}, line {trap.line}]({where})"
    ran = f"{trap.on(claims.last_run()['versions'])}: {code}."
    return " ".join(filter(None, (f"{trap.statement}.", covers, ran)))


def counted() -> str:
    """Of each page how many statements of each kind it makes, and how many tests stand there."""
    site = PAGE.get().site
    rows = []
    for name in menu.in_order(site):
        page = site.pages[name]
        counts = Counter(claim.kind for claim in claims.of_page(page))
        counts["tests"] = len(known(site).tests.get(name, []))
        if counts.total():
            numbers = (str(counts[each] or "") for each in (*claims.KINDS, "tests"))
            rows.append((f"[{page.title}]({name}#{FOLD})", *numbers))
    return table(("page", *claims.KINDS, "tests"), rows)


def letters() -> str:
    """The notations whose letters nobody compared with the text, as Markdown."""
    return "\n".join(
        f"- **The letters of [{source.short}](notation.md#{source.id}).** {source.note}"
        for source in notation.sources()
        if not source.checked
    )


def places(site: Site, addresses: Mapping[str, str]) -> str:
    """For scripts: of each page's address, the statements and tests that are there."""
    found: dict[str, list[str]] = {}
    for page, part in known(site).places.values():
        found.setdefault(addresses[page], []).append(part)
    return json.dumps(found, separators=(",", ":"))
