"""In Markdown: a term is explained where it first stands on a page.

The extension `abbr` explains each occurrence. Here the first one in a sentence stays, and all
others, and those in headings and links, are plain text again.
"""

from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.treeprocessors import Treeprocessor

_PLAIN = {"h1", "h2", "h3", "h4", "a", "summary", "th"}


class _FirstOnly(Treeprocessor):
    def run(self, root: Element) -> None:
        _keep_first(root, set(), plain=False)


def _keep_first(element: Element, seen: set[str], plain: bool) -> None:
    plain = plain or element.tag in _PLAIN
    for child in list(element):
        if child.tag != "abbr":
            _keep_first(child, seen, plain)
        elif plain or child.text in seen:
            unwrap(element, child)
        else:
            seen.add(child.text)


def unwrap(parent: Element, child: Element) -> None:
    """Put the text of an element in its place."""
    text, before = f"{child.text}{child.tail or ''}", list(parent).index(child) - 1
    if before < 0:
        parent.text = (parent.text or "") + text
    else:
        parent[before].tail = (parent[before].tail or "") + text
    parent.remove(child)


def register(md: Markdown) -> None:
    """Choose among terms after `abbr`, at 7, and before the table of contents, at 5."""
    md.treeprocessors.register(_FirstOnly(md), "wq-terms", 6)
