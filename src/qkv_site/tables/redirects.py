"""Pages that lead to others: `docs/redirects.toml` names them all."""

import tomllib
from html import escape

from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

from qkv_site.page import Fault, report

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


def add_to(files: Files, config, policy: str) -> None:
    """Write a page for each address, with its policy; report one that leads nowhere."""
    known = files.src_uris.get(NAME)
    if known is None:
        return
    files.remove(known)
    try:
        redirects = tomllib.loads(known.content_string)
    except tomllib.TOMLDecodeError as fault:
        report(Fault(0, "redirect", str(fault), NAME))
        return
    for old, new in redirects.items():
        faults = [*_faults(old, new, files)]
        for fault in faults:
            line = known.content_string.partition(f'"{old}"')[0].count("\n") + 1
            report(Fault(line, "redirect", fault, NAME))
        if not faults:
            content = _page(old, new, files, config, policy)
            files.append(File.generated(config, f"{old}/index.html", content=content))


def _faults(old, new, files):
    if not isinstance(new, str):
        yield f"{old!r} has to lead to a page, a text such as 'how-to/masks.md'; it is {new!r}"
        return
    if old != old.strip("/") or old.endswith((".md", ".html")):
        yield f"{old!r} has to be an address without a slash at its ends and without .md"
    if any(file.url.rstrip("/") == old for file in files.documentation_pages()):
        yield f"{old!r} is a page itself"
    name, _, heading = new.partition("#")
    target = files.src_uris.get(name)
    if target is None or target.page is None:
        yield f"{old!r} leads to {name!r}, and there is no such page"
    elif heading and f'id="{heading}"' not in target.page.content:
        yield f"{old!r} leads to {new!r}, and that page has no heading {heading!r}"


def _page(old, new, files, config, policy):
    name, _, heading = new.partition("#")
    file, at = files.src_uris[name], f"{old}/"
    url = f"{file.url}#{heading}" if heading else file.url
    return _PAGE.format(
        policy=policy,
        title=escape(str(file.page.meta.get("title") or file.page.title)),
        canonical=escape(file.page.canonical_url or get_relative_url(file.url, at)),
        target=escape(get_relative_url(url, at)),
        script=get_relative_url("assets/moved.js", at),
    )
