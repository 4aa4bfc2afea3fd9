"""Python-Markdown extension: a letter typed in a sentence, W^Q or d_k, is set as in a formula.

It is still the text that was typed, for whoever copies or searches it: the signs ^ and _ are there,
and have no width.
"""

from xml.etree.ElementTree import Element, SubElement

from markdown import Extension, Markdown
from markdown.inlinepatterns import InlineProcessor
from markdown.util import AtomicString

_WEIGHT = r"(?P<letter>W)(?:_(?P<index>[i1h]))?\^(?P<power>[QKVO])"
_OTHER = r"(?P<other>[Wb](?=_[QKVO])|[dhn](?=_[mkqv]))_(?P<of>[QKVO]|model|kv|[kqv])"
_ALONE = rf"(?<![\w\\^.])(?:{_WEIGHT}|{_OTHER})(?![\w^\[])"


class _Letter(InlineProcessor):
    def handleMatch(self, m, data):
        said = m["letter"] or m["other"]
        role = " role-weight" if said == "W" else ""
        letter = Element("span", {"class": f"wq-typed{role}"})
        letter.text = AtomicString(said)
        for sign, tag, small in (("_", "sub", m["index"] or m["of"]), ("^", "sup", m["power"])):
            if small:
                SubElement(letter, "span").text = AtomicString(sign)
                script = SubElement(letter, tag, {"class": "wq-word"} if len(small) > 1 else {})
                script.text = AtomicString(small)
        return letter, m.start(), m.end()


class Letters(Extension):
    """Set the letters of weights and sizes in text."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register after code, formulas and links, and before emphasis, at 60."""
        md.inlinePatterns.register(_Letter(_ALONE, md), "wq-letters", 65)


def makeExtension(**settings) -> Letters:
    """Entry point of Python-Markdown."""
    return Letters(**settings)
