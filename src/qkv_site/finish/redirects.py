"""Pages that lead to others: `docs/redirects.toml` names them all."""

import posixpath
import tomllib
from collections.abc import Iterator, Mapping
from html import escape

from qkv_site.finish import policy
from qkv_site.page import Fault, Page, report

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
<body><p>This address leads to <a href="{target}">{title}</a>.</p></body>
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
    for old, new in redirects.items():
        faults = [*_faults(old, new, known, addresses)]
        for fault in faults:
            line = text.partition(f'"{old}"')[0].count("\n") + 1
            report(Fault(line, "redirect", fault, NAME))
        if not faults:
            name, _, heading = new.partition("#")
            yield (
                old,
                _page(old, addresses[name], heading, known[name].title, settings.site.address),
            )


def _faults(old, new, known, addresses):
    if not isinstance(new, str):
        yield f"{old!r} has to lead to a page, a text such as 'how-to/masks.md'; it is {new!r}"
        return
    if old != old.strip("/") or old.endswith((".md", ".html")):
        yield f"{old!r} has to be an address without a slash at its ends and without .md"
    if any(addresses[name].rstrip("/") == old for name in known):
        yield f"{old!r} is a page itself"
    name, _, heading = new.partition("#")
    if name not in known:
        yield f"{old!r} leads to {name!r}, and there is no such page"
    elif heading and not known[name].below(heading):
        yield f"{old!r} leads to {new!r}, and that page has no heading {heading!r}"


def _page(old, url, heading, title, address):
    seen = posixpath.relpath(f"/{url}", f"/{old}") + "/"
    return _PAGE.format(
        policy=policy.EMPTY,
        title=escape(title),
        canonical=escape(address + url if address else seen),
        target=escape(f"{seen}#{heading}" if heading else seen),
        script=posixpath.relpath("/assets/moved.js", f"/{old}"),
    )
