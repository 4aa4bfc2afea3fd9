"""The menu, as `mkdocs.yml` has it: its pages, its sections, and the one of them that is the path.

That section begins with the home page, which lists the others: pages to read in their order.
"""

import posixpath
from collections.abc import Iterator
from functools import lru_cache

import yaml

from qkv_site.page import Site

HOME = "index.md"


class _Loader(yaml.SafeLoader):
    """Reads a configuration whose values may be Python's, which say nothing of the menu."""


_Loader.add_multi_constructor("", lambda *_: None)


def pages(site: Site) -> set[str]:
    """The pages of the menu; none if MkDocs makes it."""
    return {*_texts(_nav(site))}


def in_order(site: Site) -> list[str]:
    """All pages in the order of the menu, then those that it does not have."""
    return [
        name for name in dict.fromkeys([*_texts(_nav(site)), *site.pages]) if name in site.pages
    ]


def sections(site: Site) -> dict[str, list[str]]:
    """The pages of each section by its title; those of none come first, below an empty one.

    Without a menu all pages are of none.
    """
    found: dict[str, list[str]] = {"": []}
    for entry in _nav(site) or site.names():
        [(title, below)] = entry.items() if isinstance(entry, dict) else [("", entry)]
        found.setdefault(title if isinstance(below, list) else "", []).extend(_texts(below))
    return found


def path(site: Site) -> list[str]:
    """The pages of the section that begins with the home page, without it."""
    first = (names for title, names in sections(site).items() if title and names[:1] == [HOME])
    return next(first, [])[1:]


def index(site: Site, name: str) -> str:
    """The page that lists a page: that of its folder; the home page, if the folder has the path."""
    folder = posixpath.dirname(name)
    if folder in {posixpath.dirname(each) for each in path(site)} - {""}:
        return HOME
    return f"{folder}/{HOME}"


@lru_cache(maxsize=1)  # a site is another one each time that it is built
def _nav(site: Site) -> list:
    file = site.docs.parent / "mkdocs.yml"
    return (yaml.load(file.read_text(), _Loader).get("nav") or []) if file.exists() else []


def _texts(node: object) -> Iterator[str]:
    match node:
        case str():
            yield node
        case list():
            for each in node:
                yield from _texts(each)
        case dict():
            for each in node.values():
                yield from _texts(each)
