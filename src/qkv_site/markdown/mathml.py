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
from markdown.treeprocessors import Treeprocessor
from math_core import LatexError, LatexToMathML

from qkv.notation import Role, roles
from qkv_site.markdown.terms import unwrap
from qkv_site.page import PAGE

# math-core has no \class: a colour that nothing else uses stands for a role meanwhile.
_ROLES = roles()
_FUNCTION = 0xFF  # what is no role, and so has no colour
_NUMBERS = {role.key: number for number, role in enumerate(_ROLES)}
_OWN, _BORROWED = "FE00", "FD00"
_COLOUR = re.compile(rf"color:#({_OWN}|{_BORROWED})([0-9A-F]{{2}});")
_ENTITY = re.compile(r"&(?!amp;|lt;|gt;|quot;)(\w+;)")

_converter = LatexToMathML(fancy_error=False)
_WORD_BELOW = re.compile(r"_\{([a-z]{3,}|in)\}")


def mark(role: Role | None, latex: str, borrowed: bool) -> str:
    """LaTeX whose MathML says what it stands for, and whether the letter is borrowed."""
    if role is None and not borrowed:
        return latex
    number = _NUMBERS[role.key] if role else _FUNCTION
    colour = f"{_BORROWED if borrowed else _OWN}{number:02X}"
    return rf"{{\color[HTML]{{{colour}}}{latex}}}"


@cache
def to_mathml(latex: str, *, display: bool = False, of: str = "") -> str:
    """Convert LaTeX to a `<math>` element, which says whose letters it has if they are tied.

    Raises:
        LatexError: If math-core does not understand the formula.
    """
    root = _tree(latex, display=display)
    root.attrib = ({"data-of": of} if of else {}) | root.attrib
    return ElementTree.tostring(root, encoding="unicode")


def inside(latex: str) -> str:
    """The MathML of LaTeX without `<math>`, as a part of another formula."""
    return "".join(ElementTree.tostring(part, encoding="unicode") for part in _tree(latex))


def _tree(latex: str, *, display: bool = False) -> Element:
    mathml = _converter.convert_with_local_state(latex, displaystyle=display)
    root = ElementTree.fromstring(_ENTITY.sub(lambda found: html5[found[1]], mathml))
    _mark_roles(root)
    return root


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


def plain(math: Element) -> str:
    """A `<math>` element as plain text."""
    text = unicodedata.normalize("NFKC", _plain(math))
    text = re.sub(r"(?<=[\w^]{2}) (?=\()|(?<=[(\[√]) | (?=[)\],.;])", "", text)
    return re.sub(r"(?<=[_^])\{(\w*)\}", r"\1", text.replace("⊤", "T"))


_SUM = r" [+\u2212-] "


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
            return f"{_grouped(parts[0], _SUM)} / {_grouped(parts[1])}"
        case "msqrt":
            return f"√{_grouped(' '.join(parts))}"
    return " ".join(part for part in [(node.text or "").strip("\u2061\u2062 \n"), *parts] if part)


def _grouped(said: str, signs: str = "[ /]") -> str:
    """A part of a fraction or a root, in brackets if it has one of these signs outside of some."""
    return f"({said})" if re.search(signs, re.sub(r"\([^()]*\)", "", said)) else said


def with_words(latex: str) -> str:
    """LaTeX in which what stands below a letter is a word, and no product of letters."""
    return _WORD_BELOW.sub(r"_{\\text{\1}}", latex)


class _Convert(Treeprocessor):
    def run(self, root: Element) -> None:
        for parent in [*root.iter()]:
            for child in [*parent]:
                if child.get("class") == "arithmatex":
                    self._convert(parent, child)

    def _convert(self, parent: Element, child: Element) -> None:
        display = child.tag == "div"
        latex = with_words(child.text.strip()[2:-2].strip())
        try:
            mathml = to_mathml(latex, display=display)
        except LatexError as error:
            PAGE.get().report("LaTeX", f"LaTeX error in {latex!r}: {error}")
            mathml, display = f"<code>{html.escape(latex)}</code>", False
        child.text = self.md.htmlStash.store(mathml)
        if display:
            child.set("class", "math-display")
        else:
            unwrap(parent, child)


def register(md: Markdown) -> None:
    """Convert LaTeX after the table of contents, at 5, which has headings in words."""
    md.treeprocessors.register(_Convert(md), "wq-mathml", 4)
