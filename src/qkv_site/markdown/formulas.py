"""Python-Markdown extension: a formula is a line of NumPy, shown in every source's notation.

A fenced block of the language `formula` holds one line or more; `{{...}}` in a sentence holds a
symbol or a short formula. Each is typeset for every source: in the site's own letters where it
stands, and in the others in a template beside it, out of which the page takes what a reader
chooses. What two sources write alike is stored once. `in="paper-eq1"` on a fence, or
`{{paper-eq1: ...}}`, ties a formula to one source.
"""

import html
import re
from collections.abc import Callable
from functools import cache, partial

from markdown import Extension, Markdown
from markdown.inlinepatterns import InlineProcessor

from qkv import notation
from qkv_site.markdown import current
from qkv_site.markdown.mathml import mark, to_mathml

_KEYS = {role.key for role in notation.roles()}
INLINE = r"\{\{\s*(?:([\w-]+):\s)?\s*(.+?)\s*\}\}"
_PUNCTUATION = r"([.,:;)?!]*)"


def lines(code: str) -> list[str]:
    """The formulas of a block."""
    return [line.strip() for line in code.splitlines() if line.strip()]


@cache
def faults(code: str, sources: str = "") -> tuple[tuple[int, str], ...]:
    """Run the formulas of a block; say what is wrong with which line, counted from 0."""
    found = []
    for number, line in enumerate(code.splitlines()):
        try:
            if line.strip():
                notation.check(line)
                for source in sources.split():
                    notation.typeset(line, source)
        except ValueError as error:
            found.append((number, f"formula `{line.strip()}`: {error}"))
    return tuple(found)


def block(code: str, sources: str = "") -> str:
    """HTML of a block of formulas: in every source's notation, or in those that are named."""
    return in_notations(partial(_display, code), sources)


def in_notations(render: Callable[[str], str], sources: str = "") -> str:
    """HTML of what `render` makes for every source, or for each of those that are named."""
    if len(sources.split()) < 2:
        return _variants(render, "div", sources)
    return "".join(
        f'<figure class="wq-in"><figcaption>{html.escape(notation.source(source).short)}'
        f"</figcaption>{render(source)}</figure>"
        for source in sources.split()
    )


def inline(line: str, source: str = "") -> str:
    """HTML of a formula in a sentence."""
    return _variants(lambda source: _math(line, source), "span", source)


def _variants(render: Callable[[str], str], tag: str, only: str) -> str:
    """The site's own rendering, and the others in a template: it is inert until one is chosen."""
    if only:
        return render(only)
    renderings: dict[str, list[str]] = {}
    for source in notation.sources():  # the site's own comes first
        renderings.setdefault(render(source.id), []).append(source.id)
    own, *others = (
        f'<{tag} data-in="{" ".join(sources)}">{rendering}</{tag}>'
        for rendering, sources in renderings.items()
    )
    if not others:
        return next(iter(renderings))
    return f"{own}<template data-notations data-search-exclude>{''.join(others)}</template>"


@cache
def _math(line: str, source: str, *, display: bool = False) -> str:
    return to_mathml(notation.typeset(line, source, mark=mark), display=display)


@cache
def _display(code: str, source: str) -> str:
    formulas = "".join(
        f'<div class="math-display">{_math(line, source, display=True)}</div>'
        for line in lines(code)
    )
    symbols = {
        symbol.latex: symbol
        for line in lines(code)
        for symbol in notation.legend(line, source, mark=mark)
    }
    where = "".join(map(_explain, symbols.values()))
    return f'{formulas}<ul class="wq-where" data-search-exclude>{where}</ul>'


def _explain(symbol: notation.Symbol) -> str:
    shape = f", {to_mathml(symbol.shape)}" if symbol.shape else ""
    return (
        f'<li tabindex="0" data-role="{symbol.role.key}">{to_mathml(symbol.latex)} '
        f"{html.escape(symbol.role.meaning)}{shape}</li>"
    )


class _Inline(InlineProcessor):
    def handleMatch(self, match: re.Match, data: str):
        source, line, punctuation = match[1] or "", match[2], match[3]
        try:
            if line not in _KEYS:  # a symbol alone says nothing that could be wrong
                notation.check(line)
            rendered = inline(line, source)
        except ValueError as error:
            current.warn(f"formula `{line}`: {error}", line=current.line_of(match[0]))
            rendered = f"<code>{html.escape(line)}</code>"
        if line in _KEYS and punctuation:  # a longer formula may need the line's end for itself
            rendered = f'<span class="wq-together">{rendered}{punctuation}</span>'
        else:
            rendered += punctuation
        return self.md.htmlStash.store(rendered), match.start(0), match.end(0)


def fence(source, language, css_class, options, md, **_) -> str:
    """Format a fenced block of formulas, for `pymdownx.superfences`."""
    sources = options.get("in", "")
    if faults(source, sources):  # reported, with its line, when the page began
        return f"<pre><code>{html.escape(source)}</code></pre>"
    return f'<div class="wq-formula">{block(source, sources)}</div>'


def validate(language, inputs, options, attrs, md) -> bool:
    """Take the options of a fence, for `pymdownx.superfences`."""
    options.update(inputs)
    return set(inputs) <= {"in"}


class Formulas(Extension):
    """Typeset `{{...}}` in sentences; fenced blocks come through superfences."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register after code spans and before anything that knows brackets or stars."""
        md.inlinePatterns.register(_Inline(INLINE + _PUNCTUATION, md), "wq-formula", 187)


def makeExtension(**settings) -> Formulas:
    """Entry point of Python-Markdown."""
    return Formulas(**settings)
