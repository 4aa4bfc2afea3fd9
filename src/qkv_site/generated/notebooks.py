"""Pages as Jupyter notebooks: the text in text cells, each executed block in a code cell.

A cell holds what its block printed in this build, so that a notebook can be read before it is run.
What draws, `qkv_site`, is no part of what a reader installs: a drawing is text in a notebook, a
table of numbers.
"""

import ast
import html
import json
import posixpath
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urljoin, urlsplit

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.utils.meta import get_data

from qkv import notation
from qkv_site.generated import wheel
from qkv_site.markdown import blocks, claims, current, formulas, on_library, run

_SHADES = re.compile(r" ?Darker is further from zero[^<]*")
# Of a drawing Jupyter shows tables and their text, and not what the stylesheet needs.
_MATH = re.compile(r"<math.*?</math>", re.DOTALL)
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
This notebook knows no address of the site. In a copy of the whole site it finds the package. Else
download the package, one file, from the site's page *Reference* and put it beside the notebook.
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
_GITHUB = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+/blob/[^?#]+?)/?")
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}

# An admonition, a fold-out or a tab: its title, and what stands indented below it.
_FOLDED = re.compile(
    r'^(?:(?:!!!|\?\?\?\+?) \w+|===[+!]*) "(?P<title>[^"\n]*)" *\n(?P<body>(?:(?: {4}.*)?\n)*)',
    re.MULTILINE,
)
# What Python-Markdown knows and Jupyter does not. Code comes first: nothing inside it is meant.
_SPAN = re.compile(
    r"(?P<code>(?P<ticks>`+).*?[^`](?P=ticks)(?!`))"
    r"|(?P<formula>\{\{.+?\}\})"
    r"|\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^\s()]+)\)"
    r"|(?P<attributes> *\{:? *[#.][^{}]*\})",
    re.DOTALL,
)


def add_to(files: Files, config: MkDocsConfig, whole: bool) -> set[str]:
    """Add a notebook beside each explanation; return their addresses below the site's.

    Args:
        files: The site's, which this adds to.
        config: Where the site is.
        whole: Whether each page was rendered, so that each block has run.
    """
    pages = [
        page
        for page in files.documentation_pages()
        if page.src_uri.startswith("explanation/") and page.name != "index"
    ]
    notebooks = [_beside(page, files, config) for page in pages]
    for page in pages if whole else ():
        _check(page)
    for file in notebooks:
        files.append(file)
    return {file.url for file in notebooks}


def colab(folder: str) -> str:
    """Where Colab opens what is in a folder on GitHub; empty if there is none.

    Examples:
        >>> colab("https://github.com/owner/name/blob/notebooks")
        'https://colab.research.google.com/github/owner/name/blob/notebooks'
    """
    found = _GITHUB.fullmatch(folder)
    if folder and not found:
        current.begin("mkdocs.yml", "")
        expected = "https://github.com/OWNER/NAME/blob/BRANCH, which Colab reads"
        current.warn(f"notebooks is {folder!r}: expected {expected}")
    return f"https://colab.research.google.com/github/{found[1]}" if found else ""


def _check(page: File) -> None:
    """Report a page whose notebook lacks what a block printed."""
    text = page.content_string
    executed = [block for block in blocks.find(text) if block.executed]
    printed = run.printed(page.src_uri)
    if len(printed) < len(executed):
        current.begin(page.src_uri, text)
        ran = f"{len(printed)} blocks ran to their end, of {len(executed)}"
        current.warn(f"its notebook has not all outputs: {ran}")


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
    uri = page.src_uri.removesuffix(".md") + ".ipynb"
    made = notebook(text, about, address, run.printed(page.src_uri))
    return File.generated(config, uri, content=json.dumps(made, indent=1))


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
    lines, done, text = markdown.splitlines(keepends=True), 0, ""
    ours: set[str] = set()
    for block in blocks.find(markdown):
        begin = block.line - 1
        end = block.line + block.code.count("\n") + 1
        text += _plain("".join(lines[done:begin]), address)
        done = end
        if block.executed:
            said, code = next(printed, ""), _without_ours(block.code, ours)
            drawn = block.options.get("html") == "on"
            # What only the site can print is Markdown, and a part of the text.
            written = not drawn and code != block.code.strip()
            yield _text(f"{text.rstrip()}\n\n{_stated(block, address)}")
            if code:
                yield _code(code, "" if drawn or written else said)
            text = _as_text(said) if drawn else ""
            if written:
                text = f"\n{_plain(_unfold(said), address)}\n\n"
        elif block.library:
            text += _on_library(block)
        elif block.language in ("formula", "diagram"):
            text += _typeset(block)
        else:
            text += "".join(lines[begin:end])
    yield _text(text + _plain("".join(lines[done:]), address))


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


def _without_ours(code: str, ours: set[str]) -> str:
    """Code without the statements that draw, and so need what only the site has.

    Args:
        code: The code of a block.
        ours: The names that come from `qkv_site`, which this adds to.
    """
    dropped = set()
    for statement in ast.parse(code).body:
        names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        read = {name.id for name in names if isinstance(name.ctx, ast.Load)}
        written = {name.id for name in names if isinstance(name.ctx, ast.Store)}
        if isinstance(statement, ast.ImportFrom) and statement.module.startswith("qkv_site"):
            ours |= {each.asname or each.name for each in statement.names}
        elif ours & (read - written):
            ours |= written
        else:
            ours -= written
            continue
        dropped |= {*range(statement.lineno, statement.end_lineno + 1)}
    lines = enumerate(code.splitlines(), start=1)
    return "\n".join(line for number, line in lines if number not in dropped).strip()


def _as_text(drawn: str) -> str:
    """A drawing as tables of numbers, with its letters as LaTeX."""
    drawn = _LETTERED.sub(lambda table: f"{table[1]}${html.unescape(table[2])}$", drawn)
    drawn = _SHADES.sub("", drawn)  # a notebook has no shades
    drawn = _MATH.sub(lambda math: f"${_letter(math[0])}$", drawn)
    plain = _TAG.sub(lambda tag: f"<{tag[1]}{tag[2]}>" if tag[2] in _TABLE else " ", drawn)
    return "\n" + re.sub(r" +", " ", plain) + "\n\n"


def _letter(math: str) -> str:
    """The letter of a formula in MathML, in this site's notation."""
    role = html.unescape(re.search(r'data-role="([^"]+)"', math)[1])
    return notation.typeset(role) + (r"^\top" if "⊤" in math else "")


def _stated(block: blocks.Block, address: Address) -> str:
    """What the block shows, and who says so."""
    title, cite = block.options.get("title"), block.options.get("cite")
    source = f" ({cite})" if cite else ""
    return _plain(f"**Checked:** {title}{source}", address) if title else ""


def _unfold(markdown: str) -> str:
    """Put what stands in a fold-out or a tab below its title."""
    return _FOLDED.sub(
        lambda found: f"**{found['title']}**\n\n{_unfold(textwrap.dedent(found['body']))}", markdown
    )


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
    source, content = re.fullmatch(formulas.INLINE, formula).groups()
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
