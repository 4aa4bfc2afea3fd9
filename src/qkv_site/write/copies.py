"""Each page as Markdown that stands alone, for assistants and for whoever reads text.

A formula is the line of NumPy that it is, and where it stands in a source's letters, it is written
as that source has it, too. A number that the page computes is filled in, a block is followed by
what it printed, a claim by its address. A heading is a link to itself, so that it can be cited.

mkdocs-llmstxt was tried, and makes such copies from a page's HTML. There a formula has become
MathML, in the letters of all sources at once, and a heading has lost its address. So the copies are
made from what the pages are made of.
"""

import posixpath
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from qkv import notation
from qkv_site.figures import Figure, Printed
from qkv_site.markdown import claims, evidence
from qkv_site.page import Heading, Page, parse
from qkv_site.parts import formulas
from qkv_site.parts.python import Python
from qkv_site.write import reference
from qkv_site.write.markdown import Writer, fenced, joined, words

NAME = "index.md"  # beside the page's index.html
SHORT, FULL = "llms.txt", "llms-full.txt"

# An address below the site's; it is written as each file needs it.
_ADDRESS = re.compile("\x02([^\x03]*)\x03")


@dataclass(frozen=True)
class Copy:
    """A page as Markdown.

    Attributes:
        name: The page's file, below the folder of pages.
        address: Where the page is, below the site.
        title: Its title.
        description: What it is about, in a line.
        text: The Markdown, with an address below the site's between two control characters.
    """

    name: str
    address: str
    title: str
    description: str
    text: str

    def written(self, base: str = "") -> str:
        """The text, with addresses below `base`, or as seen from the copy's own folder."""

        def address(found: re.Match) -> str:
            if base:
                return base + found[1]
            path, mark, anchor = found[1].partition("#")
            seen = posixpath.relpath(f"/{path}", f"/{self.address}")
            folder = "" if path and not path.endswith("/") else "/"
            return f"{seen}{folder}{mark}{anchor}"

        return _ADDRESS.sub(address, self.text)


def copy(page: Page, addresses: Mapping[str, str]) -> Copy:
    """The copy of a page that has run.

    Args:
        page: The page.
        addresses: Of each file of the site, its address there.
    """
    writer = _Writer(page, addresses)
    body = joined([*writer.pieces(page.parts), writer.plain(evidence.as_text(page))])
    description = page.meta.get("description", "")
    return Copy(page.name, addresses[page.name], page.title, description, f"{body}\n")


class _Writer(Writer):
    def title(self, heading: Heading) -> Iterator[str]:
        """A heading that leads to itself; below that of the page stands where it is."""
        said = self.plain(heading.title)
        if heading.id:
            said = f"[{said}]({_below(self.address(f'#{heading.id}'))})"
        yield f"{'#' * heading.level} {said}\n"
        if heading.level == 1:
            yield f"\nAddress: {_below(self.address(''))}\n"

    def documented(self, each: reference.Documented) -> Iterator[str]:
        """How a name is called, and its docstrings."""
        if not each.is_module:
            yield from self.title(Heading(0, 0, level=2, title=each.name, id=each.name))
            if each.signature:
                yield "\n" + fenced("python", f"{each.name.rpartition('.')[2]}{each.signature}")
        yield "\n" + _docstring(each)
        for method in each.methods:
            yield f"\n**{method.title}**\n\n"
            if method.signature:
                yield fenced("python", f"{method.title}{method.signature}") + "\n"
            yield _docstring(method)
        yield "\n"

    def executed(self, block: Python, printed: Printed) -> Iterator[str]:
        """What a block shows, its code, and what it printed."""
        pieces = [self.statement(block)]
        if block.shown:
            pieces.append(fenced("python", block.code))
        said = printed.written(self.figure)
        if "html" in block.given:
            pieces.append(said)
        elif "result" in block.given:
            pieces.append(f"It prints:\n\n{fenced('text', said)}" if printed else "")
        else:
            pieces.append("".join(self.pieces(parse(self.page.name, said).parts)))
        said = "\n".join(filter(None, pieces)).strip("\n")
        yield textwrap.indent(said, " " * block.indent) + "\n"

    def formulas(self, lines: str, sources: str = "") -> str:
        """The lines as they are, and as the sources write them."""
        said = [fenced("python", lines)]
        for source in sources.split():
            if source != "site":
                typeset = formulas.as_block(lines).typeset(source)
                written = "; ".join(f"`{words(line)}`" for line in typeset)
                said.append(f"{notation.source(source).short} writes: {written}\n")
        return "\n".join(said)

    def drawn(self, words: Callable[[], str], lines: str, sources: str = "") -> str:
        """The lines that are drawn."""
        return self.formulas(lines, sources)

    def figure(self, figure: Figure) -> str:
        return figure.markdown(words)

    def claim(self, claim: claims.Claim) -> str:
        """The statement, how it is known, and where its check is."""
        known = f"{claim.kind} ({claim.read})" if claim.read else claim.kind
        said = [f"Claim, {known}: {claim.statement}"]
        if claim.source:
            said.append(f"Source: {claim.source}.")
        if claim.covers:
            said.append(f"Covers: {claim.covers.rstrip('.')}.")
        check = _below(self.address(f"#claim-{claim.id}"))
        return " ".join([*said, f"Check: {check}\n"])

    def inline(self, source: str, content: str) -> str:
        """A formula as the line that it is, or as the source that it names writes it."""
        if source == "site" and not content.startswith(('"', "shape(")):
            return f"`{content}`"
        return super().inline(source, content)

    def latex(self, latex: str, *, display: bool = False) -> str:
        return f"`{words(latex.strip())}`"

    def link(self, said: str, target: str) -> str:
        if re.match(r"[a-z]+:|\x02", target):
            return f"[{said}]({target})"
        address = self.address(target)
        return said if address is None else f"[{said}]({_below(address)})"


def _docstring(each: reference.Documented) -> str:
    return fenced("text", each.docstring) if each.docstring else ""


def _below(address: str) -> str:
    return f"\x02{address}\x03"


def overview(
    copies: Iterable[Copy],
    groups: Iterable[tuple[str, list[str]]],
    name: str,
    about: str,
    base: str,
) -> str:
    """`llms.txt`: what the site is, and of each page its address and what it is about.

    Args:
        copies: Those of all pages.
        groups: The sections of the menu, and the files of the pages in each.
        name: The site's name.
        about: What it is about.
        base: Its address, if it has one.
    """
    known = {copy.name: copy for copy in copies}
    said = [
        f"# {name}\n\n> {about}\n\n"
        "Each page below is Markdown. Without `index.md` at its end the address is the page's, "
        "and the one to cite; a heading is a link to its own. A claim says how it is known: "
        "computed by a block, run on a library by a test, or read. "
        f"All pages are in [one file]({_below(FULL)}), too.\n"
    ]
    for title, pages in groups:
        lines = [_entry(known[page]) for page in pages if page in known]
        said.append(f"## {title}\n\n" + "\n".join(lines) + "\n")
    return _ADDRESS.sub(lambda found: f"{base}{found[1]}", "\n".join(said))


def _entry(copy: Copy) -> str:
    about = f": {copy.description}" if copy.description else ""
    return f"- [{copy.title}]({_below(copy.address + NAME)}){about}"


def everything(copies: Iterable[Copy], name: str, about: str, base: str) -> str:
    """`llms-full.txt`: all pages, one after the other."""
    top = f"# {name}\n\n> {about}\n\n"
    return top + "\n---\n\n".join(copy.written(base or "/") for copy in copies)


def robots(base: str) -> str:
    """`robots.txt`: everything may be read, and where the lists of pages are."""
    where = base or "/"
    said = ["User-agent: *", "Allow: /", f"# Pages as Markdown: {where}{SHORT} and {where}{FULL}"]
    if base:  # a sitemap's address has to be whole
        said.append(f"Sitemap: {base}sitemap.xml")
    return "\n".join(said) + "\n"
