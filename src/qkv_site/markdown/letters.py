"""In Markdown: a letter typed in a sentence, W^Q or d_k, is set as in a formula.

It is still the text that was typed, for whoever copies or searches it: the signs ^ and _ are there,
and have no width. A product of such letters, the sizes of a matrix, and a name with its number, as
GPT-2 and Llama 3, stay on one line. A root has its bar.
"""

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element, fromstring

from markdown import Markdown
from markdown.inlinepatterns import InlineProcessor
from markdown.util import AtomicString

_WORD = r"model|head|mid|out|q?kv|context|⟨\d⟩"  # below a letter
_INDEX = rf"_(?:[a-z\d]|{_WORD}|(?<=[WXbCP]_)(?:QK|OV|KV|[QKVO])|(?<=d_)H|\{{[\w,]+\}})"
_POWER = r"\^(?:[^\W_]|\(\w\)|\{\w+\}|⟨\d⟩)"
_LETTER = (
    rf"(?<![\w\\^.])(?:S[Aa]|[A-Za-vx-zΩβμℓ])(?=[_^])(?:{_INDEX})?(?:{_POWER})?"
    r"(?!(?!ᵀ)[\w^]|(?<=[QKVO])\[|\.\d)"
)
# A letter without signs, where it stands in a product with one that has some.
_BARE = r"(?<![\w\\^.'’])(?<!\d )(?:[B-HJ-Zb-zβ1]|A(?= ⊗))(?!(?!ᵀ)[\w'’^_\[(]|\.\w)"
_SET = rf"(?:√?{_LETTER}ᵀ?|√[a-z](?!\w))"
_SIGN = r"(?: ?[⊗·×/+=] ?| )"
_PRODUCT = rf"(?:{_BARE}ᵀ?{_SIGN})*{_SET}(?:{_SIGN}(?:{_SET}|{_BARE}ᵀ?))*"
_TOKEN = re.compile(rf"(√?)({_LETTER}|{_BARE}|(?<=√)[a-z])(ᵀ?)")
_SCRIPT = re.compile(r"([_^]\{?)([\w,]+|\(\w\)|⟨\d⟩)(\}?)")
_RUN = re.compile(_PRODUCT)
_KEPT = (
    r"(?<![\w×.,])\d[\d,]*(?: × \d[\d,]*)+(?![\w×])"
    r"|(?!^\S+(?: {.*)?$)\b[A-Z]\w*(?:-V?\d[\w.]*|[a-z]\s\d\d?(?:\.\d+)*(?:\s\d+B)?\b(?! ×))"
    r"|\b\d+e-\d+\b|1/√\d+"
)
_SHORT = 28  # signs: what a phone's line has


class _Product(InlineProcessor):
    def handleMatch(self, m, data):
        return fromstring(_product(m)), m.start(), m.end()


class _Kept(InlineProcessor):
    def handleMatch(self, m, data):
        kept = Element("span", {"class": "wq-together"})
        kept.text = AtomicString(m[0])
        return kept, m.start(), m.end()


def _product(m: re.Match) -> str:
    product, alone = _TOKEN.sub(_letter, m[0]), _TOKEN.fullmatch(m[0])
    if alone and not alone[3]:
        return product
    together = ' class="wq-together"' if len(m[0]) <= _SHORT else ""
    return f"<span{together}>{product}</span>"


def _letter(m: re.Match) -> str:
    root, typed, turned = m.groups()
    if typed == "1":
        return m[0]
    said = re.match(r"[^_^]+", typed)[0]
    role = " role-weight" if said == "W" else ""
    scripts = _SCRIPT.sub(_script, typed[len(said) :])
    letter = f'<span class="wq-typed{role}">{said}{scripts}</span>'
    return (f'<span class="wq-root">√{letter}</span>' if root else letter) + turned


def _script(m: re.Match) -> str:
    sign, small, end = m.groups()
    tag = "sub" if "_" in sign else "sup"
    word = ' class="wq-word"' if re.fullmatch(_WORD, small) else ""
    ends = f"<span>{end}</span>" if end else ""
    return f"<span>{sign}</span><{tag}{word}>{small}</{tag}>{ends}"


def set_in(title: str) -> str:
    """The HTML of a title in which letters are set."""
    return _RUN.sub(_product, title)


def set_names(page) -> None:
    """Set the letters in the names of a page, its headings and its sections, for the lists."""
    for named in (page, *page.ancestors, *_flat(page.toc)):
        if named.title and _RUN.search(named.title):
            named.typeset = {"title": set_in(named.title)}


def _flat(anchors) -> Iterator:
    for anchor in anchors:
        yield anchor
        yield from _flat(anchor.children)


def register(md: Markdown) -> None:
    """Set letters after code, formulas and links, and before emphasis, at 60."""
    md.inlinePatterns.register(_Product(_PRODUCT, md), "wq-letters", 65)
    md.inlinePatterns.register(_Kept(_KEPT, md), "wq-kept", 64)
