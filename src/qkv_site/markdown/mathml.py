"""Python-Markdown extension: LaTeX becomes MathML while the page is built.

`pymdownx.arithmatex` finds `$...$` and `$$...$$` (set `generic: true`); this extension replaces
what it found. As a Markdown extension it works in pages, in docstrings and in the output of
executed blocks alike.
"""

import html
import re

from markdown import Extension, Markdown
from markdown.postprocessors import Postprocessor
from math_core import LatexError, LatexToMathML

from qkv.notation import Role, roles
from qkv_site.markdown import current

# math-core has no \class: a colour that nothing else uses stands for a role meanwhile.
_ROLES = roles()
_SENTINELS = {role.key: f"FE00{number:02X}" for number, role in enumerate(_ROLES)}
_BY_SENTINEL = {_SENTINELS[role.key]: role for role in _ROLES}
_MARKED = re.compile(r'<mrow style="color:#(FE00[0-9A-F]{2});">')

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
    return _MARKED.sub(_role, mathml)


def _role(found: re.Match) -> str:
    role = _BY_SENTINEL[found[1]]
    return f'<mrow class="role-{role.group}" data-role="{role.key}">'


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
