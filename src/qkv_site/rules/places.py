"""A page is found: its folder's index leads to it, and so does the menu."""

import posixpath
import re
from collections.abc import Iterator
from functools import lru_cache

import yaml

from qkv_site.page import Fault, Page, Site
from qkv_site.parts.python import Python


def faults(page: Page) -> Iterator[Fault]:
    """The lists that leave a page out."""
    folder, name = posixpath.split(page.name)
    if folder and name != "index.md":
        index = page.site.pages.get(f"{folder}/index.md")
        if index is None:
            yield Fault(0, "index", f"its folder has no index: expected a page {folder}/index.md")
        elif not _leads_to(index, name):
            yield Fault(
                0,
                "index",
                f"{index.name} does not lead to it: expected a line there such as "
                f"- [{page.title}]({name}) Its short answer.",
            )
    menu = _menu(page.site)
    if menu and page.name not in menu:
        yield Fault(
            0,
            "menu",
            "it has no place in the menu, and so in llms.txt: expected a line below nav in "
            f"mkdocs.yml such as - A few words: {page.name}",
        )


def _leads_to(index: Page, name: str) -> bool:
    """Whether an index has a link to a page; what it prints from data lists what the data have."""
    if re.search(rf"\]\({re.escape(name)}[)#]", index.body):
        return True
    return any(isinstance(part, Python) and "qkv_site" in part.code for part in index.fences())


class _Loader(yaml.SafeLoader):
    """Reads a configuration whose values may be Python's, which say nothing of the menu."""


_Loader.add_multi_constructor("", lambda *_: None)


@lru_cache(maxsize=1)  # a site is another one each time that it is built
def _menu(site: Site) -> set[str]:
    """The pages of the menu; none if MkDocs makes it."""
    file = site.docs.parent / "mkdocs.yml"
    if not file.exists():
        return set()
    return {*_texts(yaml.load(file.read_text(), _Loader).get("nav"))}


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
