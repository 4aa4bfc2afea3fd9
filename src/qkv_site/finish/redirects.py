"""Pages that lead to others: `docs/redirects.toml` names them all."""

import json
import posixpath
import tomllib
from collections.abc import Iterator, Mapping
from html import escape

from qkv_site.finish import policy
from qkv_site.page import Fault, Page, report
from qkv_site.rules import anchors

NAME = "redirects.toml"
# Without scripts the browser follows the tag; with them, what a link asks for goes along.
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
{policy}
<title>{title}</title>
<meta name="robots" content="noindex">
<link rel="canonical" href="{canonical}">
<noscript><meta http-equiv="refresh" content="0; url={target}"></noscript>
<script type="module" src="{script}"></script>
</head>
<body><p>This address leads to <a href="{target}" data-headings="{headings}">{title}</a>.</p></body>
</html>
"""


def pages(pages: list[Page], addresses: Mapping[str, str], settings) -> Iterator[tuple[str, str]]:
    """The address and the HTML of each page that leads to another; report what leads nowhere.

    Args:
        pages: Those that are written.
        addresses: Of each page, its address below the site's.
        settings: Where the site is written, and where it will be.
    """
    path = settings.site.docs / NAME
    if not path.exists():
        return
    text = path.read_text()
    try:
        redirects = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        report(Fault(0, "redirect", str(fault), NAME))
        return
    known = {page.name: page for page in pages}
    for old, given in redirects.items():
        faults = [*_faults(old, given, known, addresses)]
        for fault in faults:
            line = text.partition(f'"{old}"')[0].count("\n") + 1
            report(Fault(line, "redirect", fault, NAME))
        if not faults:
            to, headings = _leads(given)
            seen = {part: _address(old, place, addresses) for part, place in headings.items()}
            name = to.partition("#")[0]
            canonical = settings.site.address and settings.site.address + addresses[name]
            target = _address(old, to, addresses)
            yield old, _page(old, target, seen, known[name].title, canonical)


def _leads(given) -> tuple[str, dict[str, str]] | None:
    """Where an address leads, and where each of its headings does; None if that is not said."""
    match given:
        case str(to):
            return to, {}
        case {"to": str(to), **others} if others.keys() <= {"headings"}:
            headings = others.get("headings", {})
        case _:
            return None
    places = headings.values() if isinstance(headings, dict) else [None]
    if not all(isinstance(place, str) and "#" in place for place in places):
        return None
    name = to.partition("#")[0]
    return to, {
        part: f"{name}{place}" if place[0] == "#" else place for part, place in headings.items()
    }


def _faults(old, given, known, addresses):
    if _leads(given) is None:
        yield (
            f"{old!r} has to lead to a page, a text such as 'how-to/masks.md', or to have "
            "to = such a text, and headings = {old-id = '#new-id', other-id = 'page.md#id'}; "
            f"it is {given!r}"
        )
        return
    if old != old.strip("/") or old.endswith((".md", ".html")):
        yield f"{old!r} has to be an address without a slash at its ends and without .md"
    if any(addresses[name].rstrip("/") == old for name in known):
        yield f"{old!r} is a page itself"
    to, headings = _leads(given)
    for place in (to, *headings.values()):
        name, _, heading = place.partition("#")
        if name not in known:
            yield f"{old!r} leads to {name!r}, and there is no such page"
        elif heading and not anchors.has(known[name], heading):
            yield f"{old!r} leads to {place!r}, and nothing on that page has the id {heading!r}"


def _address(old, place, addresses):
    """The address of a place, as it is seen from an old one."""
    name, sign, heading = place.partition("#")
    return posixpath.relpath(f"/{addresses[name]}", f"/{old}") + "/" + sign + heading


def _page(old, target, headings, title, canonical):
    return _PAGE.format(
        policy=policy.EMPTY,
        title=escape(title),
        canonical=escape(canonical or target.partition("#")[0]),
        target=escape(target),
        headings=escape(json.dumps(headings)),
        script=posixpath.relpath("/assets/moved.js", f"/{old}"),
    )
