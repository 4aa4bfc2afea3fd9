"""The code blocks of a page: found and checked."""

import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass

# What a fence may be, and the options it may carry. A block of Python has to run: markdown-exec
# prints a block with a misspelt option as text and says nothing.
LANGUAGES = {
    "python": {
        "exec",
        "source",
        "result",
        "title",
        "html",
        "claim",
        "cite",
        "covers",
        "run",
        "read",
        "library",
    },
    "formula": {"in"},
    "diagram": {"in", "sizes", "heads", "kept", "words"},
    "map": {"state", "lit"},
    "change-it": set(),
    "console": {"title"},
    "text": {"title"},
    "toml": {"title"},
    "asked": {"id"},
}
_VALUES = {
    "exec": {"on"},
    "source": {"above"},
    "result": {"text"},
    "html": {"on"},
    "heads": {"apart"},
    "words": {"numbered"},
}

FENCE = re.compile(
    r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,}) *(?P<info>[^\n]*)\n"
    r"(?P<code>.*?)^(?P=indent)(?P=ticks) *$",
    re.DOTALL | re.MULTILINE,
)
_OPTION = re.compile(r'([\w-]+)="([^"]*)"')
_PRINTED_WITH = re.compile(r"\bprint\(.*\b(sep|file|flush)=")
_ASSERT = re.compile(r"^\s*assert\b", re.MULTILINE)
_CLAIM_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        language: The first word after the fence.
        options: What follows it, as in `source="above"`.
        rest: What follows it and is no option.
        code: The lines between the fences, without the indentation they share with the fence.
        line: The line of the opening fence, counted from 1.
    """

    language: str
    options: dict[str, str]
    rest: str
    code: str
    line: int

    @property
    def executed(self) -> bool:
        """Whether markdown-exec runs this block."""
        return self.language == "python" and self.options.get("exec") == "on"

    @property
    def library(self) -> str:
        """The layout whose library runs this block, where it is installed; or empty."""
        return self.options.get("library", "")


def find(markdown: str) -> Iterator[Block]:
    """Find the fenced blocks of a page, in order."""
    return (_block(found) for found in FENCE.finditer(markdown))


def replace(markdown: str, show: Callable[[Block], str | None]) -> str:
    """Put what `show` makes of a block in its place, as far to the right as it.

    A block of which it makes nothing, None, stays.
    """

    def shown(found: re.Match) -> str:
        text = show(_block(found))
        return found[0] if text is None else textwrap.indent(text, found["indent"])

    return FENCE.sub(shown, markdown)


def _block(found: re.Match) -> Block:
    language, _, options = found["info"].strip().partition(" ")
    return Block(
        language=language,
        options=dict(_OPTION.findall(options)),
        rest=_OPTION.sub("", options).strip(),
        code=textwrap.dedent(found["code"]),
        line=found.string.count("\n", 0, found.start()) + 1,
    )


def faults(block: Block) -> Iterator[str]:
    """Say what would make a block stay unexecuted, or be shown as something else than it is."""
    if block.language not in LANGUAGES:
        yield f"a block of {block.language or 'no language'!r}: expected one of {_list(LANGUAGES)}"
        return
    if block.language == "python" and not block.executed and not block.library:
        yield 'a block of Python that is not executed: expected exec="on"'
    if block.library and len(block.options) > 1:
        yield f'library="{block.library}" takes no other option'
    if block.rest:
        yield f'{block.rest!r} is no option: expected name="value"'
    for name, value in block.options.items():
        if name not in LANGUAGES[block.language]:
            yield f"unknown option {name!r}: expected one of {_list(LANGUAGES[block.language])}"
        elif value not in _VALUES.get(name, {value}):
            yield f'{name}="{value}": expected one of {_list(_VALUES[name])}'
    if block.executed and (unknown := _PRINTED_WITH.search(block.code)):
        yield f"{unknown[1]}= in print: markdown-exec's print knows end alone, and prints otherwise"
    yield from _claim_faults(block)


def validate(language, inputs, options, attrs, md) -> bool:
    """Take the options of a fence, for `pymdownx.superfences`."""
    options.update(inputs)
    return set(inputs) <= LANGUAGES[language]


def _claim_faults(block: Block) -> Iterator[str]:
    if "{{=" in block.options.get("title", ""):
        yield "a title stands in the list of claims too, and computes nothing: {{= ...}}"
    if "claim" in block.options:
        if not _CLAIM_ID.fullmatch(block.options["claim"]):
            yield f'claim="{block.options["claim"]}": expected words of a-z and 0-9, joined by -'
        if not block.options.get("title"):
            yield "a claim without its statement: expected title"
        if not _ASSERT.search(block.code):
            yield "a claim without an assertion"
    for name in ("cite", "covers", "run", "read"):
        if name in block.options and "claim" not in block.options:
            yield f"{name} without a claim"


def _list(words) -> str:
    return ", ".join(map(repr, sorted(words)))
