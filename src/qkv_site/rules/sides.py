"""What a sentence may not say by itself, because it follows the notation that a reader chooses.

With tokens as columns, a row is a column, and a d_model × d_k matrix is d_k × d_model. So in a
sentence with symbols that follow the reader's choice, a shape is `{{shape(W_Q[i])}}` and a word of
side `{{"rows"}}`. A statement about one convention ties its symbols to it: `{{site: W_Q[i]}}`.

Without a symbol, four things are still of one convention: a typed product such as QKᵀ, the order of
one in words ("multiplied by M"), the rows of an array that holds words, and in a statement a typed
512 × 64. Each wants to hear which one it is,
in words: a statement in itself, a sentence below its heading.
"""

import re
from collections.abc import Iterable, Iterator

from qkv_site.page import Page

NAME = "side"
_WORDS = re.compile(
    r"\b(rows?|columns?|transposed?|above|below|beneath|beside|side by side"
    r"|(?:from|on|to|at) (?:the|its) (?:left|right))\b",
    re.IGNORECASE,
)
_SYMBOL = re.compile(r"\{\{(?!=)\s*(?:([\w-]+):\s)?\s*(.+?)\s*\}\}")
_IN_CODE = re.compile(r"`[^`\n]+`|\]\([^)\n]*\)|\{ [#.][^}]*\}|<[^>\n]+>")
_UNIT = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*|]|\d+\.|\?\?\?|!!!|#+)\s)|(?<=[^\\])\|")
_SENTENCE = re.compile(r"(?<=[.?!])[\"')*_]*\s+(?=[\"'(*_`\[{]*[A-Z{])")

_TRANSPOSED = r"(?:ᵀ|\^\{?(?:T|\\top)\b\}?)"
_ARRAY = r"(?<![\w'’])[QKVXYRSqkxs]"
_WEIGHT = r"W(?:[_^′]|\b)"
_PRODUCT = re.compile(
    rf"{_ARRAY}\s?[QKXqkx]{_TRANSPOSED}|{_ARRAY}{_TRANSPOSED}\s?[QKXqkx]\b"  # Q Kᵀ, Kᵀ Q
    rf"|softmax\}}?[(\[](?:β|\\beta)?\s?[QKXqkx]\b"
    rf"|{_ARRAY}(?: {_WEIGHT}|W[_^])|\bW(?:[_^]\S+)? x\b"  # X W_Q, W x
    rf"|\bW[_^]\{{?\w+\}}?{_TRANSPOSED}? W[_^]"  # W_V W_O
)
_SIDE_OF_WORDS = re.compile(
    r"\b(?:rows?|columns?) of (?:(?:the|its|one|each|a|your|head's|layer's|whole|attention) )*"
    r"(?:output|weights|scores|sources?|result|computation|words|(?-i:[QKVXSAY]))\b(?!['’])"
    r"|\b(?:rows?|columns?) (?:\w+ ){0,3}sums? to\b"
    r"|\b(?:last|same) rows?\b|\bdivides? (?:each|every|a|the) (?:row|column)\b|\bits row of\b",
    re.IGNORECASE,
)
_SIDES = re.compile(r"(?<!× )\b(\d[\d,]*) × (?!\1\b)\d[\d,]*\b(?! ×)")
_CONVENTION = re.compile(
    r"\b(?:as|is|are|be|has|have|needs?|prefer|with|in|in each) (?:an? )?(?:rows?|columns?)\b"
    r"|\brows or columns\b|\*\*(?:rows|columns)\*\*",
    re.IGNORECASE,
)
_WHOSE = re.compile(
    r"\b(?:paper|book|letters|blog post|question|lecture|code|stored as)\b|\bequation \(1\)|`",
    re.IGNORECASE,
)
# The order of a product in words, and so its numbers: from the left it is another one.
_BY_A_MATRIX = re.compile(
    r"\bmultipl(?:y|ies|ied|ying)\b[^.;]* by (?:(?:a|an|the|this|some|square|invertible) )*"
    r"(?:matrix [`$]?[A-Z]\b|[`$][A-Z][`$]|transposed inverse)"
)
_IN_A_ROW = re.compile(r"\bin a row\b", re.IGNORECASE)
# A heading and a link are in the words of the reader who asks.
_LINK = re.compile(r"\[[^\]]*(?:\]\([^)\n]*\)|\]|$)|^[^\[]*\]\([^)\n]*\)")
_TURNED = re.compile(r"\bequation\(")
_LABEL = re.compile(r'\blabel ?= ?f?"([^"\n]*)"')


def faults(page: Page) -> Iterator[tuple[int, str]]:
    """Words of side, shapes and products that hold in one notation alone."""
    for line, sentence, named in _with_convention(sentences(page)):
        for message in (*_beside_symbols(sentence), *_without_symbols(sentence, named)):
            yield line, message
    for fence in page.fences():
        for message in (*of_statement(fence.given.get("title", "")), *_of_labels(fence.code)):
            yield fence.line, message


def sentences(page: Page) -> Iterator[tuple[int, str]]:
    """The sentences, headings and cells of a page, and the lines in which they begin."""
    for first, unit in units(page.prose()):
        for start, sentence in _split(_SENTENCE, unit):
            lead = len(sentence) - len(sentence.lstrip())
            yield page.start + first + unit.count("\n", 0, start + lead), sentence.strip()


def units(prose: str) -> Iterator[tuple[int, str]]:
    """The paragraphs, items and cells of a text, and their lines, counted from 0."""
    line, counted = 0, 0
    for start, unit in _split(_UNIT, prose):
        line += prose.count("\n", counted, start)
        counted = start
        yield line, unit


def of_statement(title: str) -> Iterator[str]:
    """A statement stands at the foot of its page too, so it names its convention itself."""
    named = _names_convention(title)
    yield from (*_beside_symbols(title), *_without_symbols(title, named))
    if not named and not _WHOSE.search(title) and (found := _SIDES.search(title)):
        yield (
            f"{found[0]!r} is a shape in rows or in columns alone: say which, or 'from 512 numbers "
            f"to 64', in: {title}"
        )


def _beside_symbols(sentence: str) -> Iterator[str]:
    if not any(source is None or source == "" for source, _ in _SYMBOL.findall(sentence)):
        return
    text = " ".join(sentence.split())
    words = _IN_CODE.sub(" ", _SYMBOL.sub(" ", text))
    if "×" in words:
        yield f"a typed shape or product, ×, beside a symbol: write {{{{shape(...)}}}} in: {text}"
    for word in dict.fromkeys(found[0] for found in _WORDS.finditer(words)):
        yield f'{word!r} follows the notation: write {{{{"..."}}}}, or tie the symbols, in: {text}'


def _with_convention(found: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, bool]]:
    """Each sentence, and whether a convention is named below its heading."""
    for section in _below_headings(found):
        named = _names_convention(" ".join(sentence for _, sentence in section))
        for line, sentence in section:
            yield line, sentence, named


def _below_headings(found: Iterable[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    section: list[tuple[int, str]] = []
    for line, sentence in found:
        if sentence.startswith("#") and section:
            yield section
            section = []
        section.append((line, sentence))
    yield section


def _names_convention(text: str) -> bool:
    return bool(_CONVENTION.search(_IN_A_ROW.sub(" ", " ".join(text.split()))))


def _without_symbols(sentence: str, named: bool) -> Iterator[str]:
    """A typed product, or a side of what holds words, for which nobody says rows or columns."""
    text = " ".join(sentence.split())
    if named or sentence.startswith("#"):
        return
    if found := _BY_A_MATRIX.search(_LINK.sub(" ", text)):
        yield (
            f"{found[0]!r} is one product in rows and another one in columns: say which, as in "
            f"'With words as rows, ...', in: {text}"
        )
    if _WHOSE.search(text):
        return
    for pattern in (_PRODUCT, _SIDE_OF_WORDS):
        if found := pattern.search(typed(_LINK.sub(" ", text))):
            yield (
                f"{found[0]!r} holds in rows or in columns alone: say which (as in 'With words as "
                f"rows, ...'), whose letters these are, or what it is without a side, in: {text}"
            )


def _of_labels(code: str) -> Iterator[str]:
    """The caption of an equation, whose matrices are turned where words are columns."""
    if not _TURNED.search(code) or "tied=" in code:
        return
    for label in _LABEL.findall(code):
        if found := _WORDS.search(label):
            yield f"{found[0]!r} follows the notation: say it without a side, in: {label}"


def symbols(text: str) -> list[tuple[str, str]]:
    """The symbols of a text, `{{...}}`, and the source that each is tied to, or an empty text."""
    return _SYMBOL.findall(text)


def typed(text: str) -> str:
    """What of a text is typed: no symbol, no code and no address of a link."""
    text = re.sub(r"\{\{.*?\}\}", " ", text)
    return _IN_CODE.sub(" ", text).replace("\\,", " ")


def _split(pattern: re.Pattern, text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for found in pattern.finditer(text):
        yield start, text[start : found.start()]
        start = found.end()
    yield start, text[start:]
