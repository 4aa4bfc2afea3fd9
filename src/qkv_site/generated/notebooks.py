"""Pages as Jupyter notebooks: the text in text cells, each executed block in a code cell."""

import json
import posixpath
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urljoin, urlsplit

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.utils.meta import get_data

from qkv import notation
from qkv_site.markdown import blocks, formulas
from qkv_site.markdown.run import fill_in

Address = Callable[[str], str]
Cell = dict[str, Any]

_ABOUT = """\
This is {page} as a notebook. Run its cells from top to bottom; an assertion that does not hold
stops them. They need Python 3.11 or later and the package `qkv`, which this installs in a clone of
{repository}:

```console
pip install -e . jupyterlab
```
"""
_SHOW_DRAWN = "from IPython.display import HTML\n\nHTML(drawn.stdout)"
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}

# An admonition or a fold-out: its title, and what stands indented below it.
_FOLDED = re.compile(
    r'^(?:!!!|\?\?\?\+?) \w+ "(?P<title>[^"\n]*)" *\n(?P<body>(?:(?: {4}.*)?\n)*)', re.MULTILINE
)
# What Python-Markdown knows and Jupyter does not. Code comes first: nothing inside it is meant.
_SPAN = re.compile(
    r"(?P<code>(?P<ticks>`+).*?[^`](?P=ticks)(?!`))"
    r"|(?P<formula>\{\{.+?\}\})"
    r"|\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^\s()]+)\)"
    r"|(?P<attributes> *\{:? *[#.][^{}]*\})",
    re.DOTALL,
)


def add_to(files: Files, config: MkDocsConfig) -> set[str]:
    """Add a notebook beside each explanation; return their addresses below the site's."""
    pages = [
        page
        for page in files.documentation_pages()
        if page.src_uri.startswith("explanation/") and page.name != "index"
    ]
    notebooks = [_beside(page, files, config) for page in pages]
    for file in notebooks:
        files.append(file)
    return {file.url for file in notebooks}


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

    text = fill_in(page.src_uri, page.content_string)
    about = _ABOUT.format(
        page=_link("a page of *Which Q?*", address("")),
        repository=_link("the site's repository", config.repo_url or ""),
    )
    uri = page.src_uri.removesuffix(".md") + ".ipynb"
    return File.generated(config, uri, content=json.dumps(notebook(text, about, address), indent=1))


def notebook(text: str, about: str, address: Address) -> dict[str, Any]:
    """Make a notebook of a page.

    Args:
        text: The page's file: Markdown, front matter included.
        about: What to say in the first cell.
        address: Where a link of the page leads, seen from anywhere; empty if nowhere.

    Returns:
        The notebook, in version 4.5 of Jupyter's format.
    """
    markdown, _ = get_data(text)
    cells = [_text(about), *_cells(_unfold(markdown), address)]
    filled = [cell for cell in cells if cell["source"]]
    named = [{"id": f"cell-{number}"} | cell for number, cell in enumerate(filled)]
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": _METADATA, "cells": named}


def _cells(markdown: str, address: Address) -> Iterator[Cell]:
    lines, done, text = markdown.splitlines(keepends=True), 0, ""
    for block in blocks.find(markdown):
        begin = block.line - 1
        end = block.line + block.code.count("\n") + 1
        text += _plain("".join(lines[done:begin]), address)
        done = end
        if block.executed:
            yield _text(f"{text.rstrip()}\n\n{_stated(block, address)}")
            yield from _code(block)
            text = ""
        elif block.language in ("formula", "diagram"):
            text += _typeset(block)
        else:
            text += "".join(lines[begin:end])
    yield _text(text + _plain("".join(lines[done:]), address))


def _text(source: str) -> Cell:
    return {"cell_type": "markdown", "metadata": {}, "source": source.strip()}


def _code(block: blocks.Block) -> Iterator[Cell]:
    """Run a block; where it prints HTML, show that."""
    code = block.code.strip()
    drawn = block.options.get("html") == "on"
    for source in ["%%capture drawn\n" + code, _SHOW_DRAWN] if drawn else [code]:
        yield {
            "cell_type": "code",
            "execution_count": None,
            "metadata": {},
            "outputs": [],
            "source": source,
        }


def _stated(block: blocks.Block, address: Address) -> str:
    """What the block shows, and who says so."""
    title, cite = block.options.get("title"), block.options.get("cite")
    source = f" ({cite})" if cite else ""
    return _plain(f"**Checked:** {title}{source}", address) if title else ""


def _unfold(markdown: str) -> str:
    """Put what stands in a fold-out below its title."""
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


def _typeset(block: blocks.Block) -> str:
    """The formulas of a block in this site's letters, or in those of the sources it names."""
    if formulas.faults(block.code, block.options.get("in", "")):  # reported when the page begins
        return f"```\n{block.code}```\n"
    sources = block.options.get("in", "").split() or ["site"]
    return "\n".join(_in_letters_of(source, block.code, len(sources) > 1) for source in sources)


def _in_letters_of(source: str, code: str, named: bool) -> str:
    block = notation.Block(tuple(formulas.lines(code)))
    title = f"**{notation.source(source).short}**\n\n" if named else ""
    displayed = "".join(f"$$\n{latex}\n$$\n\n" for latex in block.typeset(source))
    entries = (
        f"- ${entry.latex}$: {entry.role.meaning}"
        + (entry.shape and f", ${entry.shape}$")
        + (f" ({formulas.BORROWED})" if entry.borrowed else "")
        for entry in block.legend(source)
    )
    return title + displayed + "\n".join(entries) + "\n"
