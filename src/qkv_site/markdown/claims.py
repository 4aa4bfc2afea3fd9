"""The statements that the site makes, and what shows each of them: the ledger."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mkdocs.utils.meta import get_data

from qkv import notation
from qkv_site.markdown import blocks, current

TRAPS = Path("tests", "truth", "test_traps.py")


@dataclass(frozen=True)
class Claim:
    """A statement of a page.

    Attributes:
        id: Its name, unique on the site.
        statement: The statement, as Markdown.
        page: The page's file, below `docs`.
        source: Who says so, and where; or empty.
        checked: Whether a block of the page shows it.
    """

    id: str
    statement: str
    page: str
    source: str = ""
    checked: bool = True


@dataclass(frozen=True)
class Trap:
    """A statement about a library that a test shows on that library.

    Attributes:
        test: The test's name.
        statement: The first line of its docstring.
        why: The first line of the paragraph after it; or empty.
        line: Where it begins.
    """

    test: str
    statement: str
    why: str
    line: int

    @property
    def id(self) -> str:
        """Its anchor in the ledger."""
        return self.test.replace("_", "-")


def of_page(page: str, text: str) -> list[Claim]:
    """The statements of a page: of its blocks, then those that it could not check.

    Args:
        page: The page's file, below `docs`.
        text: Its Markdown, front matter included.
    """
    markdown, meta = get_data(text)
    shown = [
        Claim(block.options["claim"], block.options["title"], page, block.options.get("cite", ""))
        for block in blocks.find(markdown)
        if {"claim", "title"} <= block.options.keys()
    ]
    said = [
        Claim(entry["id"], entry["statement"], page, entry["source"], checked=False)
        for entry in meta.get("unchecked", ())
    ]
    return shown + said


def on_site() -> list[tuple[str, list[Claim]]]:
    """Each page's title and statements, in the order of files."""
    found = []
    for path in sorted(current.docs.rglob("*.md")):
        page, text = path.relative_to(current.docs).as_posix(), current.read(path)
        if claims := of_page(page, text):
            found.append((title(text), claims))
    return found


def title(text: str) -> str:
    """A page's title: that of its front matter, else its first heading."""
    markdown, meta = get_data(text)
    return meta.get("title") or re.search(r"^# (.+)", markdown, re.MULTILINE)[1]


def traps() -> list[Trap]:
    """What the tests show on the libraries themselves."""
    tree = ast.parse(current.read(current.docs.parent / TRAPS))
    return [
        Trap(node.name, *_said(node), node.lineno)
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def _said(test: ast.FunctionDef) -> tuple[str, str]:
    """The statement of a test, and the line that follows it."""
    statement, _, why = (ast.get_docstring(test) or "").partition("\n\n")
    if not statement:
        raise ValueError(f"{test.name} has no docstring, whose first line is its statement")
    return statement.removesuffix("."), why.partition("\n")[0]


def checked() -> str:
    """The part of the ledger that blocks of pages show, as Markdown for a page beside `docs`."""
    return "\n".join(
        f"\n### {title}\n\n" + "\n".join(map(_checked, claims))
        for title, claims in _select(checked=True)
    )


def tested() -> str:
    """The part of the ledger that tests show on real libraries, as Markdown."""
    return "\n".join(
        f"- **{trap.statement}.**{{ #{trap.id} }} {trap.why} `{trap.test}`, line {trap.line}"
        for trap in traps()
    )


def unchecked() -> str:
    """The part of the ledger that nothing shows, as Markdown for a page beside `docs`."""
    stated = [
        f"- **{claim.statement}**{{ #{claim.id} }} {claim.source.rstrip('.')}. "
        f"Stated in [{title}]({claim.page})."
        for title, claims in _select(checked=False)
        for claim in claims
    ]
    letters = [
        f"- **The letters of [{source.short}](notation.md#{source.id}).** {source.note}"
        for source in notation.sources()
        if not source.checked
    ]
    return "\n".join(stated + letters)


def _select(checked: bool) -> Iterator[tuple[str, list[Claim]]]:
    for title, claims in on_site():
        if kept := [claim for claim in claims if claim.checked == checked]:
            yield title, kept


def _checked(claim: Claim) -> str:
    source = f" {claim.source.rstrip('.')}." if claim.source else ""
    return f"- [{claim.statement}]({claim.page}#claim-{claim.id}){{ #{claim.id} }}{source}"
