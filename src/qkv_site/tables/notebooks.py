"""Pages as Jupyter notebooks: the text in text cells, each executed block in a code cell.

A cell holds what its block printed in this build, so that a notebook can be read before it is run.
What draws, `qkv_site`, is no part of what a reader installs: a drawing is a cell that holds its SVG
and shows it. Jupyter shows SVG of a notebook that nobody has run as an image alone, and Colab as
the output of a cell alone, so it is both.
"""

import ast
import base64
import html
import json
import posixpath
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_address
from typing import Any
from urllib.parse import urljoin, urlsplit

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.utils.meta import get_data

from qkv import notation
from qkv_site.markdown import (
    blocks,
    claims,
    current,
    diagrams,
    elements,
    formulas,
    on_library,
    run,
    sections,
)
from qkv_site.markdown import map as layer_map
from qkv_site.tables import drawings, preview, wheel

# Where a page is about a question or a library, and is no tool, list or reference.
_FOLDERS = {"explanation", "how-to", "libraries", "symptoms", "threads"}
_INSTALLED = {"numpy", "qkv", "qkv_site", *sys.stdlib_module_names}

_FIGURE = re.compile(r"^<figure\b", re.MULTILINE)
_TABLES = re.compile(r"<table.*?</table>", re.DOTALL)
# Of a table of numbers Jupyter shows the text, and not what the stylesheet needs.
# A table that says its letter as LaTeX, and the formula in its caption.
_LETTERED = re.compile(r'(<table[^>]* data-letter="([^"]*)".*?)<math.*?</math>', re.DOTALL)
_TAG = re.compile(r"<(/?)(\w+)[^>]*>")
_TABLE = {"table", "caption", "thead", "tbody", "tr", "th", "td"}

Address = Callable[[str], str]
Cell = dict[str, Any]

_ABOUT = """\
This is {page} as a notebook. Run its cells from top to bottom; an assertion that does not hold
stops them. They need Python 3.11 or later and NumPy. The first one installs the package `qkv` where
it is missing.
"""
_BESIDE = """
If the first cell fails, download the package, one file, from the site's page *Reference*, and put
it beside this notebook. In a copy of the whole site the notebook finds the package.
"""
_GET = """\
try:
    import qkv
except ModuleNotFoundError:
    from pathlib import Path

    # beside this notebook, in a copy of the site, or where the site is
    wheel = "{name}"
    near = [path for path in (Path(wheel), Path("../assets", wheel)) if path.exists()]
    wheel = near[0] if near else "{wheel}"
    %pip install --quiet {{wheel}}
"""
_SHOW = """\
# @title Drawing: {title}
from base64 import b64encode

from IPython.display import HTML

svg = r\"\"\"{svg}\"\"\"
HTML(f'<img alt="{alt}" src="data:image/svg+xml;base64,{{b64encode(svg.encode()).decode()}}">')
"""
_IMAGE = '<img alt="{alt}" src="data:image/svg+xml;base64,{data}">'
_FOLDED_AWAY = {"jupyter": {"source_hidden": True}, "cellView": "form"}  # in Jupyter, in Colab
_GITHUB = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+/blob/[^?#]+?)/?")
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}

# What only the stylesheet needs around Markdown.
_WRAPPED = re.compile(r'^(?:<div class="[\w-]+" markdown="1">|</div>)\n', re.MULTILINE)
# What Python-Markdown knows and Jupyter does not. Code comes first: nothing inside it is meant.
_SPAN = re.compile(
    r"(?P<code>(?P<ticks>`+).*?[^`](?P=ticks)(?!`))"
    r"|(?P<formula>\{\{.+?\}\})"
    r"|\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^\s()]+)\)"
    r"|(?P<attributes> *\{:? *[#.][^{}]*\})",
    re.DOTALL,
)


def add_to(files: Files, config: MkDocsConfig, whole: bool) -> set[str]:
    """Add a notebook beside each page that has one; return their addresses below the site's.

    Args:
        files: The site's, which this adds to.
        config: Where the site is.
        whole: Whether each page was rendered, so that each block has run. Else those that
            changed were.
    """
    pages = [page for page in files.documentation_pages() if _has_one(page)]
    for page in pages if whole else filter(File.is_modified, pages):
        files.append(_beside(page, files, config))
    for page in pages if whole else ():
        _check(page)
    return set(map(_address, pages))


def _has_one(page: File) -> bool:
    """Whether a page shows code that ran, and NumPy and `qkv` are enough for all of that."""
    ran = [block for block in blocks.find(page.content_string) if block.executed]
    shows = any("source" in block.options for block in ran)
    if not shows or page.src_uri.split("/")[0] not in _FOLDERS:
        return False
    try:
        return {name for block in ran for name in _imported(block.code)} <= _INSTALLED
    except SyntaxError:  # reported when the page ran
        return False


def _imported(code: str) -> Iterator[str]:
    """The packages that code imports."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def colab(folder: str, site: str) -> str:
    """Where Colab opens what is in a folder on GitHub; empty if there is none.

    Args:
        folder: Where GitHub has the notebooks, if it does.
        site: The site's address, from which they install the package.

    Examples:
        >>> colab("https://github.com/owner/name/blob/notebooks", "https://site.example/")
        'https://colab.research.google.com/github/owner/name/blob/notebooks'
    """
    if not folder:
        return ""
    current.begin("mkdocs.yml", "")
    found = _GITHUB.fullmatch(folder)
    if not found:
        expected = "https://github.com/OWNER/NAME/blob/BRANCH, which Colab reads"
        current.warn(f"notebooks is {folder!r}: expected {expected}")
        return ""
    if not _is_public(site):
        expected = "a public one, from which Colab gets the package"
        current.warn(
            f"notebooks is {folder!r}, but the site's address is {site!r}: expected {expected}"
        )
        return ""
    return f"https://colab.research.google.com/github/{found[1]}"


def _is_public(address: str) -> bool:
    """Whether an address leads to the same site from anywhere, as far as it says so itself."""
    host = urlsplit(address).hostname or ""
    try:
        return ip_address(host).is_global
    except ValueError:  # a name
        return "." in host and not host.endswith((".local", ".localhost"))


def _check(page: File) -> None:
    """Report a page whose notebook lacks what a block printed."""
    text = page.content_string
    executed = [block for block in blocks.find(text) if block.executed]
    printed = run.printed(page.src_uri)
    if len(printed) < len(executed):
        current.begin(page.src_uri, text)
        ran = f"{len(printed)} blocks ran to their end, of {len(executed)}"
        current.warn(f"its notebook has not all outputs: {ran}")


def _address(page: File) -> str:
    return page.src_uri.removesuffix(".md") + ".ipynb"


def _beside(page: File, files: Files, config: MkDocsConfig) -> File:
    def address(target: str) -> str:
        if urlsplit(target).scheme:
            return target
        path, _, anchor = target.partition("#")
        uri = posixpath.join(posixpath.dirname(page.src_uri), path)
        file = files.get_file_from_path(posixpath.normpath(uri)) if path else page
        if not (config.site_url and file):
            return ""
        return urljoin(config.site_url, file.url) + (anchor and f"#{anchor}")

    text = run.fill_in(page.src_uri, page.content_string)
    about = _ABOUT.format(page=_link("a page of *Which Q?*", address("")))
    about += "" if wheel.address() else _BESIDE
    current.begin(page.src_uri, page.content_string)
    made = notebook(text, about, address, run.printed(page.src_uri))
    return File.generated(config, _address(page), content=json.dumps(made, indent=1))


def notebook(
    text: str, about: str, address: Address, printed: Sequence[str] = ()
) -> dict[str, Any]:
    """Make a notebook of a page.

    Args:
        text: The page's file: Markdown, front matter included.
        about: What to say in the first cell.
        address: Where a link of the page leads, seen from anywhere; empty if nowhere.
        printed: What the page's blocks printed, in their order; nothing if they did not run.

    Returns:
        The notebook, in version 4.5 of Jupyter's format.
    """
    markdown, _ = get_data(text)
    where = wheel.address() or f"./{wheel.name()}"
    get = _code(_GET.format(name=wheel.name(), wheel=where), "")
    cells = [_text(about), get, *_cells(_unfold(markdown), address, iter(printed))]
    filled = [cell for cell in cells if cell["source"]]
    named = [{"id": f"cell-{number}"} | cell for number, cell in enumerate(filled)]
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": _METADATA, "cells": named}


def _cells(markdown: str, address: Address, printed: Iterator[str]) -> Iterator[Cell]:
    text = ""
    for piece in _pieces(markdown, address, printed):
        if isinstance(piece, str):
            text += piece
        else:
            yield _text(text)
            yield piece
            text = ""
    yield _text(text)


def _pieces(markdown: str, address: Address, printed: Iterator[str]) -> Iterator[Cell | str]:
    """Text, and the cells that stand between it."""
    lines, done = markdown.splitlines(keepends=True), 0
    ours: set[str] = set()
    for block in blocks.find(markdown):
        begin = block.line - 1
        end = block.line + block.code.count("\n") + 1
        yield _plain("".join(lines[done:begin]), address)
        done = end
        if block.executed:
            yield from _executed(block, next(printed, ""), ours, address)
        elif block.library:
            yield _on_library(block)
        elif block.language == "formula":
            yield _typeset(block)
        elif block.language in ("diagram", "map"):
            yield _drawn(_drawing(block))
        elif block.language != "change-it":  # a panel is the page's
            yield "".join(lines[begin:end])
    yield _plain("".join(lines[done:]), address)


def _executed(
    block: blocks.Block, said: str, ours: set[str], address: Address
) -> Iterator[Cell | str]:
    """What a block shows, its code, and what it drew or printed."""
    code = _without_ours(block.code, ours, "source" in block.options)
    drew = block.options.get("html") == "on"
    # What only the site can print is Markdown, and a part of the text.
    written = not drew and code != block.code.strip()
    yield f"\n\n{_stated(block, address)}"
    if code:
        yield _code(code, "" if drew or written else said)
    if drew and said:
        yield _drawn(said)
        yield _numbers(said)
    elif written:
        yield from _written(said, address)


def _text(source: str) -> Cell:
    return {"cell_type": "markdown", "metadata": {}, "source": source.strip()}


def _code(code: str, printed: str) -> Cell:
    said = [{"output_type": "stream", "name": "stdout", "text": printed}] if printed else []
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": said,
        "source": code.strip(),
    }


def _drawing(block: blocks.Block) -> str:
    """What the page has in the place of a fence that draws, in this site's letters."""
    options = dict(block.options)
    if block.language == "map":
        return layer_map.fence(block.code, "map", "map", options, None)
    return diagrams.fence(block.code, "diagram", "diagram", {"in": "site"} | options, None)


def _written(said: str, address: Address) -> Iterator[Cell | str]:
    """Markdown that a block printed, and the figures in it."""
    done = 0
    for begin in [found.start() for found in _FIGURE.finditer(said)]:
        yield _plain(_unfold(said[done:begin]), address)
        done = elements.end(said, begin)
        yield _drawn(said[begin:done])
    yield f"\n{_plain(_unfold(said[done:]), address)}\n\n"


def _drawn(page: str) -> Cell | str:
    """A cell that shows what a page draws, and has shown it; its code is folded away."""
    try:
        drawing = drawings.drawing(page, _colours())
    except ValueError as fault:
        current.warn(f"its notebook lacks a drawing: {fault}")
        return ""
    # in an f-string of the cell, where these three would say something
    escaped = {ord(sign): f"&#{ord(sign)};" for sign in "{}\\"}
    alt = html.escape(f"{drawing.title} {drawing.words}").translate(escaped)
    shown = {
        "text/html": _IMAGE.format(alt=alt, data=base64.b64encode(drawing.svg.encode()).decode()),
        "text/plain": "<IPython.core.display.HTML object>",
    }
    output = {"output_type": "execute_result", "execution_count": None, "metadata": {}}
    code = _SHOW.format(title=drawing.title, svg=drawing.svg, alt=alt)
    return _code(code, "") | {"metadata": _FOLDED_AWAY, "outputs": [output | {"data": shown}]}


def _colours() -> dict[str, str]:
    styles = [(current.docs / "assets" / f"{name}.css").read_text() for name in ("map", "theme")]
    return preview.light(styles[0]) | preview.light(styles[1])


def _without_ours(code: str, ours: set[str], shown: bool) -> str:
    """Code without the statements that draw, and so need what only the site has.

    Args:
        code: The code of a block.
        ours: The names that come from `qkv_site`, which this adds to.
        shown: Whether the page shows the code. Else what is left has nothing to print.
    """
    statements = ast.parse(code).body
    dropped = [statement for statement in statements if _is_ours(statement, ours)]
    if dropped and not shown:
        dropped += [statement for statement in statements if _prints(statement)]
    numbers = {n for each in dropped for n in range(each.lineno, each.end_lineno + 1)}
    lines = enumerate(code.splitlines(), start=1)
    return "\n".join(line for number, line in lines if number not in numbers).strip()


def _is_ours(statement: ast.stmt, ours: set[str]) -> bool:
    """Whether a statement needs one of these names; what it defines is then one more."""
    names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
    read = {name.id for name in names if isinstance(name.ctx, ast.Load)}
    written = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        written = {statement.name}
    if imported := _imported_from_site(statement):
        ours |= imported
        return True
    if ours & (read - written):
        ours |= written
        return True
    ours -= written
    return False


def _imported_from_site(statement: ast.stmt) -> set[str]:
    """The names that a statement gives to what only the site has."""
    match statement:
        case ast.Import(names):
            packages = [(each, each.name.partition(".")[0]) for each in names]
            return {each.asname or package for each, package in packages if package == "qkv_site"}
        case ast.ImportFrom(str(module), names) if module.partition(".")[0] == "qkv_site":
            return {each.asname or each.name for each in names}
    return set()


def _prints(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(ast.Call(ast.Name("print"))):
            return True
    return False


def _numbers(drawn: str) -> str:
    """The numbers of a drawing as tables, with its letters as LaTeX; empty if it has none."""
    drawn = _LETTERED.sub(lambda table: f"{table[1]}${html.unescape(table[2])}$", drawn)
    found = "".join(_TABLES.findall(drawn))
    if "<math" in found:
        current.warn("its notebook lacks numbers: a formula of a table is not its data-letter")
        return ""
    plain = _TAG.sub(lambda tag: f"<{tag[1]}{tag[2]}>" if tag[2] in _TABLE else " ", found)
    if not plain:
        return ""
    tables = re.sub(r" +", " ", plain)
    return f"<details><summary>The drawing as text</summary>\n\n{tables}\n\n</details>\n\n"


def _stated(block: blocks.Block, address: Address) -> str:
    """What the block shows, and who says so."""
    title, cite = block.options.get("title"), block.options.get("cite")
    source = f" ({cite})" if cite else ""
    return _plain(f"**Checked:** {title}{source}", address) if title else ""


def _unfold(markdown: str) -> str:
    return _WRAPPED.sub("", sections.unfolded(markdown))


def _plain(text: str, address: Address) -> str:
    """Write what only this site's Markdown knows in Jupyter's."""

    def replace(span: re.Match) -> str:
        if span["code"]:
            return span["code"]
        if span["formula"]:
            return _inline(span["formula"])
        if span["target"]:
            return _link(_plain(span["text"], address), address(span["target"]))
        return ""

    return _SPAN.sub(replace, text)


def _link(text: str, address: str) -> str:
    return f"[{text}]({address})" if address else text


def _inline(formula: str) -> str:
    source, content = re.fullmatch(formulas.INLINE, formula, re.DOTALL).groups()
    try:
        return formulas.plain(content, source or "site")
    except ValueError:  # reported when the page is rendered
        return f"`{content}`"


def _on_library(block: blocks.Block) -> str:
    """A block that needs its library, as text, and what it printed there."""
    said = on_library.printed(block)
    ran = f"It prints, with {claims.ran_on(block.library)}:"
    printed = f"\n{ran}\n\n```text\n{said}```\n" if said else ""
    return f"```python\n{block.code}```\n{printed}"


def _typeset(block: blocks.Block) -> str:
    """The formulas of a block in this site's letters, or in those of the sources it names."""
    if formulas.faults(block.code, block.options.get("in", "")):  # reported when the page begins
        return f"```\n{block.code}```\n"
    sources = block.options.get("in", "").split() or ["site"]
    return "\n".join(_in_letters_of(source, block.code, len(sources) > 1) for source in sources)


def _in_letters_of(source: str, code: str, named: bool) -> str:
    block = formulas.as_block(code)
    title = f"**{notation.source(source).short}**\n\n" if named else ""
    displayed = "".join(f"$$\n{latex}\n$$\n\n" for latex in block.typeset(source))
    entries = (
        f"- ${entry.latex}$: {entry.role.meaning}"
        + (entry.shape and f", ${entry.shape}$")
        + (f" ({formulas.BORROWED})" if entry.borrowed else "")
        for entry in block.legend(source)
    )
    return title + displayed + "\n".join(entries) + "\n"
