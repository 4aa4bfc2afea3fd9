"""What a sentence may not say by itself, because it follows the notation that a reader chooses.

With tokens as columns, a row is a column, and a d_model × d_k matrix is d_k × d_model. So in a
sentence with symbols that follow the reader's choice, a shape is `{{shape(W_Q[i])}}` and a word of
side `{{"rows"}}`. A statement about one convention ties its symbols to it: `{{site: W_Q[i]}}`.
"""

import re
from collections.abc import Iterator

from qkv_site.markdown import blocks

_WORDS = re.compile(
    r"\b(rows?|columns?|transposed?|above|below|beneath|beside|side by side"
    r"|(?:from|on|to|at) (?:the|its) (?:left|right))\b",
    re.IGNORECASE,
)
_SYMBOL = re.compile(r"\{\{(?!=)\s*(?:([\w-]+):\s)?\s*(.+?)\s*\}\}")
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_IN_CODE = re.compile(r"`[^`\n]+`|\]\([^)\n]*\)|\{ [#.][^}]*\}|<[^>\n]+>")
_UNIT = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*|]|\d+\.|\?\?\?|!!!|#+)\s)|(?<=[^\\])\|")
_SENTENCE = re.compile(r"(?<=[.?!])[\"')*_]*\s+(?=[\"'(*_`\[{]*[A-Z{])")


def faults(text: str) -> Iterator[tuple[int, str]]:
    """Say what is wrong with which sentence of a page; lines are counted from 1."""
    for line, sentence in of_page(text):
        for fault in _faults(sentence):
            yield line, fault
    for block in blocks.find(text):
        for fault in _faults(block.options.get("title", "")):
            yield block.line, fault


def of_page(text: str) -> Iterator[tuple[int, str]]:
    """The sentences, headings and cells of a page, and the lines in which they begin."""
    prose = _FRONT_MATTER.sub(_blank, blocks.FENCE.sub(_blank, text))
    for start, sentence in _sentences(prose):
        yield prose.count("\n", 0, start) + 1, sentence


def _faults(sentence: str) -> Iterator[str]:
    if not any(source is None or source == "" for source, _ in _SYMBOL.findall(sentence)):
        return
    text = " ".join(sentence.split())
    words = _IN_CODE.sub(" ", _SYMBOL.sub(" ", text))
    if "×" in words:
        yield f"a typed shape or product, ×, beside a symbol: write {{{{shape(...)}}}} in: {text}"
    for word in dict.fromkeys(found[0] for found in _WORDS.finditer(words)):
        yield f'{word!r} follows the notation: write {{{{"..."}}}}, or tie the symbols, in: {text}'


def _sentences(prose: str) -> Iterator[tuple[int, str]]:
    for unit_start, unit in _split(_UNIT, prose, 0):
        for start, sentence in _split(_SENTENCE, unit, unit_start):
            lead = len(sentence) - len(sentence.lstrip())
            yield start + lead, sentence.strip()


def _split(pattern: re.Pattern, text: str, offset: int) -> Iterator[tuple[int, str]]:
    start = 0
    for found in pattern.finditer(text):
        yield offset + start, text[start : found.start()]
        start = found.end()
    yield offset + start, text[start:]


def _blank(found: re.Match) -> str:
    """The same lines, empty: a place in the text stays where it is."""
    return re.sub(r"[^\n]", " ", found[0])
