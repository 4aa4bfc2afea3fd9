"""In Markdown: LaTeX becomes MathML while the page is built.

`pymdownx.arithmatex` finds `$...$` and `$$...$$` (set `generic: true`); this extension replaces
what it found. As a Markdown extension it works in pages, in docstrings and in the output of
executed blocks alike.
"""

import html
import re
import unicodedata
from functools import cache
from html.entities import html5
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.postprocessors import Postprocessor
from math_core import LatexError, LatexToMathML

from qkv.notation import Role, roles
from qkv_site.markdown import elements
from qkv_site.page import PAGE

# math-core has no \class: a colour that nothing else uses stands for a role meanwhile.
_ROLES = roles()
_FUNCTION = 0xFF  # what is no role, and so has no colour
_NUMBERS = {role.key: number for number, role in enumerate(_ROLES)}
_OWN, _BORROWED = "FE00", "FD00"
_COLOUR = re.compile(rf"color:#({_OWN}|{_BORROWED})([0-9A-F]{{2}});")
_ENTITY = re.compile(r"&(?!amp;|lt;|gt;|quot;)(\w+;)")

_MATH = re.compile(r"<math.*?</math>", re.DOTALL)
_UNSEEN = re.compile(r'<span class="wq-unseen">.*?</span>')

_converter = LatexToMathML(fancy_error=False)
_ARITHMATEX = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)
_WORD_BELOW = re.compile(r"_\{([a-z]{3,}|in)\}")


def mark(role: Role | None, latex: str, borrowed: bool) -> str:
    """LaTeX whose MathML says what it stands for, and whether the letter is borrowed."""
    if role is None and not borrowed:
        return latex
    number = _NUMBERS[role.key] if role else _FUNCTION
    colour = f"{_BORROWED if borrowed else _OWN}{number:02X}"
    return rf"{{\color[HTML]{{{colour}}}{latex}}}"


@cache
def to_mathml(latex: str, *, display: bool = False) -> str:
    """Convert LaTeX to a `<math>` element.

    Raises:
        LatexError: If math-core does not understand the formula.
    """
    mathml = _converter.convert_with_local_state(latex, displaystyle=display)
    root = ElementTree.fromstring(_ENTITY.sub(lambda found: html5[found[1]], mathml))
    _mark_roles(root)
    root.set("data-search-exclude", "")  # letters without their places are no words
    return ElementTree.tostring(root, encoding="unicode")


def _mark_roles(parent: Element) -> None:
    """Name roles in place of their colours, and leave out each row that holds one element."""
    for place, child in enumerate(parent):
        _mark_roles(child)
        if coloured := _COLOUR.fullmatch(child.get("style", "")):
            del child.attrib["style"]
            child.attrib |= _role(coloured[1], int(coloured[2], 16))
        if child.tag == "mrow" and len(child) == 1 and not child.attrib.keys() & child[0].keys():
            child[0].attrib |= child.attrib
            parent[place] = child[0]


def _role(owner: str, number: int) -> dict[str, str]:
    """What is said of a letter: what it stands for, and whether it is borrowed."""
    borrowed = ["wq-borrowed"] if owner == _BORROWED else []
    if number == _FUNCTION:
        return {"class": " ".join(borrowed)}
    role = _ROLES[number]
    return {"class": " ".join([f"role-{role.group}", *borrowed]), "data-role": role.key}


def as_words(page: str) -> str:
    """The HTML that the search reads: formulas are plain text, `W_i^Q`, and nothing is a tool."""
    return elements.without_tools(_MATH.sub(_as_words, _UNSEEN.sub("", page)))


def _as_words(found: re.Match) -> str:
    text = html.escape(plain(ElementTree.fromstring(found[0])))
    return f"<p>{text}</p>" if 'display="block"' in found[0] else text


def plain(math: Element) -> str:
    """A `<math>` element as plain text."""
    text = unicodedata.normalize("NFKC", _plain(math))
    text = re.sub(r"(?<=[\w^]{2}) (?=\()|(?<=[(\[√]) | (?=[)\],.;])", "", text)
    return re.sub(r"(?<=[_^])\{(\w*)\}", r"\1", text.replace("⊤", "T"))


def _plain(node: Element) -> str:
    parts = [_plain(child) for child in node]
    match node.tag:
        case "msub" | "munder":
            return f"{parts[0]}_{{{parts[1]}}}"
        case "msup" | "mover":
            return f"{parts[0]}^{{{parts[1]}}}"
        case "msubsup" | "munderover":
            return f"{parts[0]}_{{{parts[1]}}}^{{{parts[2]}}}"
        case "mfrac":
            return f"{parts[0]} / {parts[1]}"
        case "msqrt":
            return f"√{' '.join(parts)}"
    return " ".join(part for part in [(node.text or "").strip("\u2061\u2062 \n"), *parts] if part)


def with_words(latex: str) -> str:
    """LaTeX in which what stands below a letter is a word, and no product of letters."""
    return _WORD_BELOW.sub(r"_{\\text{\1}}", latex)


class _Convert(Postprocessor):
    def run(self, text: str) -> str:
        return _ARITHMATEX.sub(_convert, text)


def _convert(found: re.Match) -> str:
    display = found[1] == "div"
    latex = html.unescape(found[2]).strip()[2:-2].strip()
    latex = with_words(latex)
    try:
        mathml = to_mathml(latex, display=display)
    except LatexError as error:
        PAGE.get().report("LaTeX", f"LaTeX error in {latex!r}: {error}")
        return f"<code>{html.escape(latex)}</code>"
    return f'<div class="math-display">{mathml}</div>' if display else mathml


def register(md: Markdown) -> None:
    """Convert LaTeX after every postprocessor that may put some back into the text."""
    md.postprocessors.register(_Convert(md), "mathml", 1)
