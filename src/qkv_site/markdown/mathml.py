"""Python-Markdown extension: LaTeX becomes MathML while the page is built.

`pymdownx.arithmatex` finds `$...$` and `$$...$$` (set `generic: true`); this extension replaces
what it found. As a Markdown extension it works in pages, in docstrings and in the output of
executed blocks alike.
"""

import html
import re
from html.entities import html5
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from markdown import Extension, Markdown
from markdown.postprocessors import Postprocessor
from math_core import LatexError, LatexToMathML

from qkv.notation import Role, roles
from qkv_site.markdown import current

# math-core has no \class: a colour that nothing else uses stands for a role meanwhile.
_ROLES = roles()
_SENTINELS = {role.key: f"FE00{number:02X}" for number, role in enumerate(_ROLES)}
_BY_SENTINEL = {_SENTINELS[role.key]: role for role in _ROLES}
_COLOUR = re.compile(r"color:#(FE00[0-9A-F]{2});")
_ENTITY = re.compile(r"&(?!amp;|lt;|gt;|quot;)(\w+;)")

_converter = LatexToMathML(fancy_error=False)
_ARITHMATEX = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)


def mark(role: Role, latex: str) -> str:
    """LaTeX whose MathML is coloured as the role's group and carries its key."""
    return rf"{{\color[HTML]{{{_SENTINELS[role.key]}}}{latex}}}"


def to_mathml(latex: str, *, display: bool = False) -> str:
    """Convert LaTeX to a `<math>` element.

    Raises:
        LatexError: If math-core does not understand the formula.
    """
    mathml = _converter.convert_with_local_state(latex, displaystyle=display)
    root = ElementTree.fromstring(_ENTITY.sub(lambda found: html5[found[1]], mathml))
    _mark_roles(root)
    return ElementTree.tostring(root, encoding="unicode")


def _mark_roles(parent: Element) -> None:
    """Name roles in place of their colours, and leave out each row that holds one element."""
    for place, child in enumerate(parent):
        _mark_roles(child)
        if coloured := _COLOUR.fullmatch(child.get("style", "")):
            role = _BY_SENTINEL[coloured[1]]
            del child.attrib["style"]
            child.attrib |= {"class": f"role-{role.group}", "data-role": role.key}
        if child.tag == "mrow" and len(child) == 1 and not child.attrib.keys() & child[0].keys():
            child[0].attrib |= child.attrib
            parent[place] = child[0]


class _Convert(Postprocessor):
    def run(self, text: str) -> str:
        return _ARITHMATEX.sub(_convert, text)


def _convert(found: re.Match) -> str:
    display = found[1] == "div"
    latex = html.unescape(found[2]).strip()[2:-2].strip()
    try:
        mathml = to_mathml(latex, display=display)
    except LatexError as error:
        current.warn(f"LaTeX error in {latex!r}: {error}")
        return f"<code>{html.escape(latex)}</code>"
    return f'<div class="math-display">{mathml}</div>' if display else mathml


class MathML(Extension):
    """Replace what arithmatex found by MathML."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register after every postprocessor that may put LaTeX back into the text."""
        md.postprocessors.register(_Convert(md), "mathml", 1)


def makeExtension(**settings) -> MathML:
    """Entry point of Python-Markdown."""
    return MathML(**settings)
