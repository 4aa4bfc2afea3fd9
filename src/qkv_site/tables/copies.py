"""Each page as Markdown that stands alone, for assistants and for whoever reads text.

A formula is the line of NumPy that it is, and where it stands in a source's letters, it is written
as that source has it, too. A number that the page computes is filled in, a block is followed by
what it printed, a claim by its address. A heading is a link to itself, so that it can be cited.

mkdocs-llmstxt was tried, and makes such copies from a page's HTML. There a formula has become
MathML, in the letters of all sources at once, and a heading has lost its address. So the copies are
made from what the pages are made of.
"""

import html
import inspect
import posixpath
import pydoc
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from xml.etree import ElementTree

import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page
from mkdocs.utils.meta import get_data

from qkv import notation
from qkv_site.markdown import (
    blocks,
    claims,
    elements,
    formulas,
    layer,
    mathml,
    on_library,
    questions,
    run,
    sections,
)

NAME = "index.md"  # beside the page's index.html
SHORT, FULL = "llms.txt", "llms-full.txt"

# An address below the site's; it is written as each file needs it.
_ADDRESS = re.compile("\x02([^\x03]*)\x03")
_REFERENCE = re.compile(r"^::: ([\w.]+)\n((?: {4}.*\n|\n(?= {4}))*)", re.MULTILINE)
_SPAN = re.compile(
    r"(?P<code>(?P<ticks>`+).*?[^`](?P=ticks)(?!`))"
    r"|(?P<formula>\{\{.+?\}\})"
    r"|\$\$(?P<display>.+?)\$\$|\$(?=\S)(?P<latex>[^$\n]+?)(?<=\S)\$"
    r"|\[(?P<said>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^\s()]+)\)"
    r"|(?P<attributes> *\{:? *[#.\w][^{}\n]*\})(?= *$|[ .,;:)\]])"
    r"|<(?P<power>su[bp])>(?P<script>.*?)</su[bp]>"
    r"|(?P<tag></?(?:a|b|details|div|em|fieldset|figure|figcaption|form|i|input|label|legend"
    r"|li|ol|option|p|section|small|span|strong|summary|svg|ul)\b[^<>]*>)",
    re.DOTALL | re.MULTILINE,
)
_HEADING = re.compile(r"^(#+) (.*?) *\{[^}\n]*#([\w.-]+)[^}\n]*\} *$", re.MULTILINE)
_FORM = re.compile(r'<div class="wq-tool"')
_FIGURE = re.compile(r"<(figure|svg)\b.*?</\1>", re.DOTALL)
_TABLE = re.compile(r"<table.*?</table>", re.DOTALL)
_CAPTION = re.compile(r"<caption.*?>(.*?)</caption>", re.DOTALL)
_ROW = re.compile(r"<tr\b.*?>(.*?)</tr>", re.DOTALL)
_CELL = re.compile(r"<t[hd]\b.*?>(.*?)</t[hd]>", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_SILENT = re.compile(r"<(script|style|template|noscript|button|select)\b.*?</\1>", re.DOTALL)


@dataclass(frozen=True)
class Copy:
    """A page as Markdown.

    Attributes:
        page: The page.
        title: Its title.
        description: What it is about, in a line.
        text: The Markdown, with an address below the site's between two control characters.
    """

    page: Page
    title: str
    description: str
    text: str

    def written(self, base: str = "") -> str:
        """The text, with addresses below `base`, or as seen from the copy's own folder."""

        def address(found: re.Match) -> str:
            if base:
                return base + found[1]
            path, mark, anchor = found[1].partition("#")
            seen = posixpath.relpath(f"/{path}", f"/{self.page.url}")
            folder = "" if path and not path.endswith("/") else "/"
            return f"{seen}{folder}{mark}{anchor}"

        return _ADDRESS.sub(address, self.text)


def of(page: Page, files: Files) -> Copy:
    """The copy of a page that is rendered."""
    text = run.fill_in(page.file.src_uri, page.file.content_string)
    markdown, meta = get_data(text)
    writer = _Writer(page, files)
    if page.file.src_uri == questions.INDEX:
        markdown = questions.with_links(markdown)
    body = writer.copy(markdown, iter(run.printed(page.file.src_uri)))
    title = meta.get("title") or str(page.title)
    description = meta.get("description", "")
    top = f"Address: {_below(page.url)}\n"
    body = re.sub(r"\A\s*(# .*\n)", lambda first: f"{first[1]}\n{top}", body, count=1)
    return Copy(page, title, description, re.sub(r"\n{3,}", "\n\n", body).strip() + "\n")


@dataclass
class _Writer:
    page: Page
    files: Files

    def copy(self, markdown: str, printed: Iterator[str]) -> str:
        """Markdown that any reader of Markdown knows, with what the blocks of the page printed."""
        markdown = _SILENT.sub("", _REFERENCE.sub(_documented, markdown))
        markdown = sections.unfolded(markdown)
        done, parts = 0, []
        fences = blocks.FENCE.finditer(markdown)
        for fence, block in zip(fences, blocks.find(markdown), strict=True):
            parts.append(self._plain(markdown[done : fence.start()]))
            indent = fence["indent"]
            parts.append(textwrap.indent(self._block(block, printed).strip("\n"), indent) + "\n")
            done = fence.end()
        return "".join([*parts, self._plain(markdown[done:])])

    def _block(self, block: blocks.Block, printed: Iterator[str]) -> str:
        if block.library:
            return _on_library(block)
        if block.executed:
            return self._executed(block, next(printed, ""))
        match block.language:
            case "formula" | "diagram":
                return _formulas(block)
            case "change-it":
                return f"On the page a reader can change these lines:\n\n{_formulas(block)}"
            case "map":
                return _fence("python", "\n".join(layer.LINES) + "\n")
        return _fence(block.language, block.code)

    def _executed(self, block: blocks.Block, said: str) -> str:
        parts = []
        if {"claim", "title"} <= block.options.keys():
            claim = claims.of_options(block.options, self.page.file.src_uri)
            known = " (".join(filter(None, [claim.kind, claim.read]))
            where = _below(f"{self.page.url}#claim-{claim.id}")
            covers = f" Covers: {claim.covers.rstrip('.')}." if claim.covers else ""
            source = f" Source: {claim.source}." if claim.source else ""
            known += ")" * bool(claim.read)
            statement = self._plain(claim.statement)
            parts.append(f"Claim, {known}: {statement}{source}{covers} Check: {where}\n")
        if "source" in block.options:
            parts.append(_fence("python", block.code))
        if "html" in block.options:
            parts.append(_tables(said))
        elif "result" in block.options:
            parts.append(f"It prints:\n\n{_fence('text', said)}" if said.strip() else "")
        else:
            parts.append(self.copy(_without_forms(said), iter(())))
        return "\n".join(filter(None, parts))

    def _plain(self, text: str) -> str:
        """Text between blocks, without what only this site's Markdown knows."""
        text = _tables_in(text)
        text = _HEADING.sub(self._heading, text)
        return _SPAN.sub(self._span, text)

    def _heading(self, found: re.Match) -> str:
        marks, title, anchor = found.groups()
        return f"{marks} [{title}]({_below(f'{self.page.url}#{anchor}')})"

    def _span(self, span: re.Match) -> str:
        if span["code"]:
            return span["code"]
        if span["formula"]:
            return _inline(span["formula"])
        if span["latex"] or span["display"]:
            return f"`{_words(span['latex'] or span['display'].strip())}`"
        if span["target"]:
            return self._link(self._plain(span["said"]), span["target"])
        if span["power"]:
            return ("^" if span["power"] == "sup" else "_") + _TAG.sub("", span["script"])
        return ""

    def _link(self, said: str, target: str) -> str:
        if re.match(r"[a-z]+:|\x02", target):
            return f"[{said}]({target})"
        path, mark, anchor = target.partition("#")
        uri = posixpath.join(posixpath.dirname(self.page.file.src_uri), path)
        file = self.files.get_file_from_path(posixpath.normpath(uri)) if path else self.page.file
        url = "" if file is None or file.url in (".", "./") else file.url
        return f"[{said}]({_below(f'{url}{mark}{anchor}')})" if file else said


def _below(address: str) -> str:
    return f"\x02{address}\x03"


def _fence(language: str, code: str) -> str:
    ticks = "`" * max(3, *(len(found) + 1 for found in re.findall(r"`{3,}", code)), 3)
    return f"{ticks}{language}\n{code.rstrip()}\n{ticks}\n"


def _on_library(block: blocks.Block) -> str:
    """A block, and what it printed on which version of its library."""
    code, said = _fence("python", block.code), on_library.printed(block)
    ran = claims.ran_on(block.library)
    return f"{code}\nIt prints, with {ran}:\n\n{_fence('text', said)}" if said else code


def _formulas(block: blocks.Block) -> str:
    """The lines of a block as they are, and as the sources that it names write them."""
    said = [_fence("python", block.code)]
    for source in block.options.get("in", "").split():
        if source != "site":
            lines = formulas.as_block(block.code).typeset(source)
            short = notation.source(source).short
            said.append(
                f"{short} writes: " + "; ".join(f"`{_words(line)}`" for line in lines) + "\n"
            )
    return "\n".join(said)


def _inline(formula: str) -> str:
    found = re.fullmatch(formulas.INLINE, " ".join(formula.split()))
    if not found:
        return formula
    source, content = found.groups()
    if source in (None, "site") and not content.startswith(('"', "shape(")):
        return f"`{content}`"
    try:
        said = formulas.plain(content, source or "site")
    except (SyntaxError, ValueError):  # reported when the page is rendered
        return f"`{content}`"
    if content.startswith('"'):
        return said
    return f"`{_words(said.strip('$'))}`"


def _words(latex: str) -> str:
    """LaTeX as plain text, `W_i^Q`."""
    return mathml.plain(ElementTree.fromstring(mathml.to_mathml(latex)))


def _without_forms(drawn: str) -> str:
    """What is printed without what a reader fills in, which needs its scripts."""
    while form := _FORM.search(drawn):
        drawn = drawn[: form.start()] + drawn[elements.end(drawn, form.start()) :]
    return drawn


def _tables_in(text: str) -> str:
    text = _FIGURE.sub(lambda figure: _tables(figure[0]), text)
    return _TABLE.sub(lambda table: _table(table[0]), text)


def _tables(drawn: str) -> str:
    """What a drawing says: its tables, as Markdown."""
    return "\n".join(_table(table[0]) for table in _TABLE.finditer(_SILENT.sub("", drawn)))


def _table(table: str) -> str:
    caption = _CAPTION.search(table)
    rows = [[_cell(cell) for cell in _CELL.findall(row)] for row in _ROW.findall(table)]
    rows = [row for row in rows if row]
    if not rows:
        return ""
    width = max(map(len, rows))
    lines = [" | ".join([*row, *[""] * (width - len(row))]) for row in rows]
    head, *body = (f"| {line} |" for line in lines)
    rule = "|" + " --- |" * width
    title = f"{_cell(caption[1])}\n\n" if caption else ""
    return f"\n{title}" + "\n".join([head, rule, *body]) + "\n\n"


def _cell(cell: str) -> str:
    said = html.unescape(_TAG.sub("", mathml.as_words(cell)))
    return " ".join(said.split()).replace("|", "\\|")


def _documented(found: re.Match) -> str:
    """What the reference says of a name, from its docstrings."""
    thing = pydoc.locate(found[1])
    options = (yaml.safe_load(textwrap.dedent(found[2])) or {}).get("options", {})
    name = found[1]
    if isinstance(thing, ModuleType):
        names = options.get("members") or getattr(thing, "__all__", None) or _public(thing)
        parts = [_docstring(thing)]
        parts += [_described(f"{name}.{each}", getattr(thing, each)) for each in names]
        return "\n".join(parts)
    return _described(name, thing)


def _public(module: ModuleType) -> list[str]:
    return [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(thing) or inspect.isclass(thing))
        and thing.__module__.startswith(module.__name__)
    ]


def _described(name: str, thing: object) -> str:
    said = [f"## {name} {{ #{name} }}\n"]
    if callable(thing):
        said.append(_fence("python", f"{name.rpartition('.')[2]}{_signature(thing)}\n"))
    said.append(_docstring(thing))
    if inspect.isclass(thing):
        for method, function in vars(thing).items():
            function = getattr(function, "__func__", function)
            if not method.startswith("_") and getattr(function, "__doc__", None):
                said.append(f"**{method}**\n")
                said.append(_docstring(function))
    return "\n".join(said) + "\n"


def _signature(thing: Callable) -> str:
    try:
        # A default that is a function is shown by its name, not by where it lies in memory.
        return re.sub(r"<function (\w+) at 0x\w+>", r"\1", str(inspect.signature(thing)))
    except (TypeError, ValueError):
        return ""


def _docstring(thing: object) -> str:
    said = inspect.getdoc(thing) if not isinstance(thing, (int, float, str, tuple, dict)) else None
    return _fence("text", said) if said else ""


def overview(copies: list[Copy], nav: Navigation, config: MkDocsConfig) -> str:
    """`llms.txt`: what the site is, and of each page its address and what it is about."""
    known = {copy.page.file.src_uri: copy for copy in copies}
    said = [
        f"# {config.site_name}\n\n> {config.site_description}\n\n"
        "Each page below is Markdown. Without `index.md` at its end the address is the page's, "
        "and the one to cite; a heading is a link to its own. Formulas are lines of NumPy. A claim "
        "says how it is known: computed by the block below it, run on a library by a test, or "
        "read, with file and line. "
        f"All pages are in [one file]({_below(FULL)}), too.\n"
    ]
    for title, pages in _groups(nav):
        lines = [_entry(known[page.file.src_uri]) for page in pages if page.file.src_uri in known]
        said.append(f"## {title}\n\n" + "\n".join(lines) + "\n")
    text = "\n".join(said)
    return _ADDRESS.sub(lambda found: f"{config.site_url or ''}{found[1]}", text)


def _groups(nav: Navigation) -> Iterator[tuple[str, list[Page]]]:
    """The sections of the menu; what stands in none of them comes first."""
    yield "Start here", [item for item in nav.items if isinstance(item, Page)]
    for item in nav.items:
        if isinstance(item, Section):
            title = "Optional" if item.title == "Reference" else item.title
            yield title, [page for page in item.children if isinstance(page, Page)]


def _entry(copy: Copy) -> str:
    about = f": {copy.description}" if copy.description else ""
    return f"- [{copy.title}]({_below(copy.page.url + NAME)}){about}"


def everything(copies: list[Copy], config: MkDocsConfig) -> str:
    """`llms-full.txt`: all pages, one after the other."""
    base = config.site_url or "/"
    top = f"# {config.site_name}\n\n> {config.site_description}\n\n"
    return top + "\n---\n\n".join(copy.written(base) for copy in copies)


def robots(config: MkDocsConfig) -> str:
    """`robots.txt`: everything may be read, and where the lists of pages are."""
    base = config.site_url or "/"
    said = ["User-agent: *", "Allow: /", f"# Pages as Markdown: {base}{SHORT} and {base}{FULL}"]
    if config.site_url:  # a sitemap's address has to be whole
        said.append(f"Sitemap: {base}sitemap.xml")
    return "\n".join(said) + "\n"
