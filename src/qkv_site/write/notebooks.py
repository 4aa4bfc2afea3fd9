"""Pages as Jupyter notebooks: the text in text cells, each executed block in a code cell.

A cell holds what its block printed in this build, so that a notebook can be read before it is run.
What draws, `qkv_site`, is no part of what a reader installs: in the place of a drawing stands what
it shows, in words and with its numbers, and a link to it on the page.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import ip_address
from urllib.parse import urljoin, urlsplit

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from qkv import notation
from qkv_site.figures import Figure, Printed
from qkv_site.markdown import claims
from qkv_site.page import Fault, Heading, Page, Part, parse, report
from qkv_site.parts import formulas
from qkv_site.parts.python import Python
from qkv_site.run import blocks_of
from qkv_site.tables import wheel
from qkv_site.write.markdown import Piece, Writer, joined

# Where a page is about a question or a library, and is no tool, list or reference.
_FOLDERS = {"explanation", "how-to", "libraries", "symptoms", "threads"}
_INSTALLED = {"numpy", "qkv", "qkv_site", *sys.stdlib_module_names}

_ABOUT = """\
This is {page} as a notebook. Run its cells from top to bottom; an assertion that does not hold
stops them. They need Python 3.11 or later and NumPy. The first one installs the package `qkv` where
it is missing.
"""
_BESIDE = """
If the first cell fails, download the package, one file, from the site's page *How do I run the code
of these pages?*, and put it beside this notebook. In a copy of the whole site the notebook finds
the package.
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
_DRAWING = "The drawing is on the page"
_GITHUB = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+/blob/[^?#]+?)/?")
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def has_one(page: Page) -> bool:
    """Whether a page shows code that ran, and NumPy and `qkv` are enough for all of that."""
    ran = blocks_of(page)
    shows = any(block.shown for block in ran)
    if not shows or page.name.split("/")[0] not in _FOLDERS:
        return False
    try:
        return {name for block in ran for name in _imported(block.code)} <= _INSTALLED
    except SyntaxError:  # reported when the page ran
        return False


def address(name: str) -> str:
    """Where the notebook of a page is, below the site."""
    return name.removesuffix(".md") + ".ipynb"


def _imported(code: str) -> Iterator[str]:
    """The packages that code imports."""
    for node in ast.walk(ast.parse(code)):
        yield from _imports(node).values()


def _imports(node: ast.AST) -> dict[str, str]:
    """The names that a statement gives to what it imports, and the package of each."""
    match node:
        case ast.Import(names):
            packages = ((each.asname, each.name.partition(".")[0]) for each in names)
            return {name or package: package for name, package in packages}
        case ast.ImportFrom(module, names):
            package = (module or "").partition(".")[0]
            return {each.asname or each.name: package for each in names}
    return {}


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
    found, fault = _GITHUB.fullmatch(folder), ""
    if not found:
        fault = ": expected https://github.com/OWNER/NAME/blob/BRANCH, which Colab reads"
    elif not _is_public(site):
        fault = f", but the site's address is {site!r}: expected a public one, from which Colab "
        fault += "gets the package"
    if fault:
        report(Fault(0, "notebooks", f"notebooks is {folder!r}{fault}", "mkdocs.yml"))
        return ""
    return f"https://colab.research.google.com/github/{found[1]}"


def _is_public(address: str) -> bool:
    """Whether an address leads to the same site from anywhere, as far as it says so itself."""
    host = urlsplit(address).hostname or ""
    try:
        return ip_address(host).is_global
    except ValueError:  # a name
        return "." in host and not host.endswith((".local", ".localhost"))


def notebook(page: Page, addresses: Mapping[str, str], site: str) -> NotebookNode:
    """Make a notebook of a page that has run; a block that failed has printed nothing.

    Args:
        page: The page.
        addresses: Of each file of the site, its address there.
        site: The site's own address, if it has one.

    Raises:
        nbformat.ValidationError: If it is none in version 4.5 of Jupyter's format.
    """
    writer = _Writer(page, addresses, site)
    about = _ABOUT.format(page=writer.link("a page of *Which Q?*", ""))
    where = wheel.address() or f"./{wheel.name()}"
    get = _GET.format(name=wheel.name(), wheel=where)
    cells = [
        new_markdown_cell((about + ("" if wheel.address() else _BESIDE)).strip()),
        new_code_cell(get.strip()),
        *writer.cells(page.parts),
    ]
    for number, cell in enumerate(cells):  # an id is by chance else, and each build another one
        cell.id = f"cell-{number}"
    made = new_notebook(cells=cells, metadata=_METADATA)
    nbformat.validate(made)
    return made


class _Writer(Writer):
    def __init__(self, page: Page, addresses: Mapping[str, str], site: str):
        super().__init__(page, addresses)
        self.site = site
        self._ours: set[str] = set()  # names that come from what only the site has

    def cells(self, parts: Iterable[Part]) -> Iterator[NotebookNode]:
        """The text between two cells of code is one cell."""
        text: list[str] = []
        for piece in [*self.pieces(parts), None]:
            if isinstance(piece, str):
                text.append(piece)
                continue
            if said := joined(text):
                yield new_markdown_cell(said)
            if piece:
                yield piece
            text = []

    def title(self, heading: Heading) -> Iterator[str]:
        """A heading, which has no address in a notebook."""
        yield f"{'#' * heading.level} {self.plain(heading.title)}\n"

    def executed(self, block: Python, printed: Printed) -> Iterator[Piece]:
        """What a block shows, its code, and what it drew or printed."""
        code = _without_ours(block.code, self._ours, block.shown)
        kept = block.shown or "claim" in block.given
        if not kept and "print(" not in block.code and "assert " not in block.code:
            return  # it finds what words of the sentences say
        # What only the site can print is Markdown, and a part of the text.
        written = "html" in block.given or code != block.code.strip()
        yield f"\n\n{self.statement(block)}"
        if code:
            said = [] if written or not printed.text else [_as_stream(printed.text)]
            yield new_code_cell(code, outputs=said)
        if not (written and printed):
            return
        yield "\n\n"
        if "html" in block.given:
            yield f"{printed.written(self.figure)}{self._on_page()}\n\n"
        else:
            yield from self.pieces(parse(self.page.name, printed.written(self._placed)).parts)
            yield "\n\n"

    def formulas(self, lines: str, sources: str = "") -> str:
        """The formulas in this site's letters, or in those of the sources."""
        named = sources.split() or ["site"]
        return "\n".join(_typeset(lines, each, len(named) > 1) for each in named)

    def drawn(self, words: Callable[[], str], lines: str, sources: str = "") -> str:
        """What is drawn, in words, and where."""
        return f"{words()} {self._on_page()}"

    def figure(self, figure: Figure) -> str:
        return f"\n\n{figure.words()}\n\n{figure.markdown('${}$'.format)}"

    def _placed(self, figure: Figure) -> str:
        """A figure between headings that the same block prints; the link leads below the last."""
        return f"{self.figure(figure)}[{_DRAWING}](#).\n\n"

    def _on_page(self) -> str:
        return self.link(_DRAWING, "#") + "."

    def claim(self, claim: claims.Claim) -> str:
        """What the block shows, and who says so."""
        source = f" ({claim.source})" if claim.source else ""
        return f"**Checked:** {claim.statement}{source}"

    def latex(self, latex: str, *, display: bool = False) -> str:
        return f"$${latex}$$" if display else f"${latex}$"

    def power(self, which: str, script: str) -> str:
        return f"<{which}>{script}</{which}>"

    def link(self, said: str, target: str) -> str:
        if urlsplit(target).scheme:
            return f"[{said}]({target})"
        address = self.address(f"#{self.heading}" if target == "#" else target)
        if not self.site or address is None:
            return said
        return f"[{said}]({urljoin(self.site, address)})"


def _as_stream(printed: str) -> NotebookNode:
    return new_output("stream", text=printed)


def _typeset(code: str, source: str, named: bool) -> str:
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
    if imported := {name for name, of in _imports(statement).items() if of == "qkv_site"}:
        ours |= imported
        return True
    if ours & (read - written):
        ours |= written
        return True
    ours -= written
    return False


def _prints(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(ast.Call(ast.Name("print"))):
            return True
    return False
