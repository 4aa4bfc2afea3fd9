"""The code blocks of a page: found, checked and executed in a namespace of the page's own."""

import html
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

import markdown_exec
from markdown import Markdown
from markupsafe import Markup

from qkv_site.markdown import current

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
    },
    "formula": {"in"},
    "diagram": {"in", "sizes"},
    "console": {"title"},
    "text": {"title"},
    "toml": {"title"},
}
_VALUES = {
    "exec": {"on"},
    "source": {"above", "below", "block", "tabbed-left", "tabbed-right"},
    "result": {"text"},
    "html": {"on"},
}

FENCE = re.compile(
    r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,}) *(?P<info>[^\n]*)\n"
    r"(?P<code>.*?)^(?P=indent)(?P=ticks) *$",
    re.DOTALL | re.MULTILINE,
)
_OPTION = re.compile(r'([\w-]+)="([^"]*)"')
_ASSERT = re.compile(r"^\s*assert\b", re.MULTILINE)
_CLAIM_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_HREF = re.compile(r'(?<=<a )([^>]*?href=")([^"]*)')
_ID = re.compile(r'\bid="([^"]*)"')


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


def find(markdown: str) -> Iterator[Block]:
    """Find the fenced blocks of a page, in order."""
    for found in FENCE.finditer(markdown):
        language, _, options = found["info"].strip().partition(" ")
        yield Block(
            language=language,
            options=dict(_OPTION.findall(options)),
            rest=_OPTION.sub("", options).strip(),
            code=textwrap.dedent(found["code"]),
            line=markdown.count("\n", 0, found.start()) + 1,
        )


def faults(block: Block) -> Iterator[str]:
    """Say what would make a block stay unexecuted, or be shown as something else than it is."""
    if block.language not in LANGUAGES:
        yield f"a block of {block.language or 'no language'!r}: expected one of {_list(LANGUAGES)}"
        return
    if block.language == "python" and not block.executed:
        yield 'a block of Python that is not executed: expected exec="on"'
    if block.rest:
        yield f'{block.rest!r} is no option: expected name="value"'
    for name, value in block.options.items():
        if name not in LANGUAGES[block.language]:
            yield f"unknown option {name!r}: expected one of {_list(LANGUAGES[block.language])}"
        elif value not in _VALUES.get(name, {value}):
            yield f'{name}="{value}": expected one of {_list(_VALUES[name])}'
    yield from _claim_faults(block)


def _claim_faults(block: Block) -> Iterator[str]:
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


class Runner:
    """Executes the blocks of one page after another, each page in a namespace of its own.

    markdown-exec keeps the names of a session as long as the process lives, across pages and
    across rebuilds. Here a page is one session, and each rendering of it gets a new one.
    """

    def __init__(self):
        self._session = ""
        self._lines: dict[str, int] = {}
        ours = markdown_exec.formatters["python"]
        theirs = getattr(ours, "replaces", ours)  # while serving, an earlier build's stands there
        markdown_exec.formatters["python"] = runs = partial(self._run, theirs)
        runs.replaces = theirs

    def begin(self, markdown: str) -> None:
        """Start a page: check its blocks and give it an empty namespace."""
        self._session = f"{current.page} {uuid4()}"
        self._lines = {}
        for block in find(markdown):
            self._lines[block.code.strip()] = block.line
            for fault in faults(block):
                current.warn(fault, line=block.line)

    def _run(self, run, *, code: str, md: Markdown, extra: dict[str, str], **options) -> str:
        line = self._lines.get(code.strip())
        place = f"{current.page}:{line}" if line else current.page
        options |= {"id": place, "id_prefix": "", "session": self._session}
        claim = extra.get("claim")
        ours = {"claim", "cite", "covers", "read", "run", "title"} if claim else set()
        shown = {name: value for name, value in extra.items() if name not in ours}
        try:
            printed = run(code=code, md=md, extra=shown, **options)
        except SystemExit as stop:  # would end the whole build, as a success if its code is 0
            current.warn(f"the block called sys.exit({stop.code!r})", line=line)
            return ""
        whole = _stated(extra, printed, md) if claim else printed
        return _of_page(whole, printed, md)


def _stated(options: dict[str, str], printed: str, md: Markdown) -> str:
    """A block below the statement it proves, with a mark that says how it is known."""
    from qkv_site.markdown import claims

    claim = claims.of_options(options, current.page)
    head = f"{claim.statement} {claim.mark}"
    head = markdown_exec.MarkdownConverter(md, update_toc=False).convert(head)
    return f'<div class="wq-claim" id="claim-{claim.id}">{head}{printed}</div>'


def _of_page(markup: str, printed: str, md: Markdown) -> Markup:
    """What a block printed, with its links and anchors known to MkDocs like those of the page."""
    to_url = md.treeprocessors["relpath"].path_to_url
    anchors = md.treeprocessors["mkdocs_extract_anchors"].present_anchor_ids
    linked = _HREF.sub(
        lambda found: found[1] + html.escape(to_url(html.unescape(found[2]))), markup
    )
    anchors.update(_ID.findall(linked))
    if printed:
        headings = md.treeprocessors["markdown_exec_insert_headings"].headings
        headings[linked] = headings.pop(printed, [])
    return Markup(linked)
