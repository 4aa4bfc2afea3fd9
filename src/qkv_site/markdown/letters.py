"""In Markdown: a letter typed in a sentence, W^Q or d_k, is set as in a formula.

It is still the text that was typed, for whoever copies or searches it: the signs ^ and _ are there,
and have no width. A product of such letters, the sizes of a matrix, and a name with its number, as
GPT-2 and Llama 3, stay on one line.
"""

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement, tostring

from markdown import Markdown
from markdown.inlinepatterns import InlineProcessor
from markdown.util import AtomicString

_WEIGHT = r"(?P<letter>W)(?:_(?P<index>[i1h]))?\^(?P<power>[QKVO])"
_OTHER = r"(?P<other>[Wb](?=_[QKVO])|[dhn](?=_[mkqv]))_(?P<of>[QKVO]|model|kv|[kqv])"
_ALONE = rf"(?<![\w\\^.])(?:{_WEIGHT}|{_OTHER})(?![\w^\[])"


_LETTER = re.compile(_ALONE)
_KEPT = (
    r"(?<![\w×.,])\d[\d,]*(?: × \d[\d,]*)+(?![\w×])"
    r"|(?!^\S+(?: {.*)?$)\b[A-Z]\w*(?:-V?\d[\w.]*|[a-z]\s\d+(?:\.\d+)*(?:\s\d+B)?\b(?! ×))"
    r"|\b\d+e-\d+\b|1/√\w+"
)
_TOGETHER = {"class": "wq-together"}


class _Product(InlineProcessor):
    def handleMatch(self, m, data):
        letters, end, root = [_letter(m)], m.end(), m["root"]
        while data.startswith(" ", end) and (following := _LETTER.match(data, end + 1)):
            letters[-1].tail = " "
            letters.append(_letter(following))
            end = following.end()
        if len(letters) == 1 and not root:
            return letters[0], m.start(), end
        product = Element("span", _TOGETHER)
        product.text = AtomicString(root or "")
        product.extend(letters)
        return product, m.start(), end


class _Kept(InlineProcessor):
    def handleMatch(self, m, data):
        kept = Element("span", _TOGETHER)
        kept.text = AtomicString(m[0])
        return kept, m.start(), m.end()


def _letter(m: re.Match) -> Element:
    said = m["letter"] or m["other"]
    role = " role-weight" if said == "W" else ""
    letter = Element("span", {"class": f"wq-typed{role}"})
    letter.text = AtomicString(said)
    for sign, tag, small in (("_", "sub", m["index"] or m["of"]), ("^", "sup", m["power"])):
        if small:
            SubElement(letter, "span").text = AtomicString(sign)
            script = SubElement(letter, tag, {"class": "wq-word"} if len(small) > 1 else {})
            script.text = AtomicString(small)
    return letter


def set_in(title: str) -> str:
    """The HTML of a title in which letters are set."""
    return _LETTER.sub(lambda found: tostring(_letter(found), encoding="unicode"), title)


def set_names(page) -> None:
    """Set the letters in the names of a page, its headings and its sections, for the lists."""
    for named in (page, *page.ancestors, *_flat(page.toc)):
        if named.title and _LETTER.search(named.title):
            named.typeset = {"title": set_in(named.title)}


def _flat(anchors) -> Iterator:
    for anchor in anchors:
        yield anchor
        yield from _flat(anchor.children)


def register(md: Markdown) -> None:
    """Set letters after code, formulas and links, and before emphasis, at 60."""
    md.inlinePatterns.register(_Product(rf"(?P<root>1/√)?{_ALONE}", md), "wq-letters", 65)
    md.inlinePatterns.register(_Kept(_KEPT, md), "wq-kept", 64)
