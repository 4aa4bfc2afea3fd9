"""A page, read once: its front matter, and its parts, each in the one that it is indented below.

What is written for a reader, and each check, walks these parts. Which fences there are is in
`qkv_site.parts`: a module there is a kind of fence.
"""

import logging
import posixpath
import re
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ClassVar

from qkv_site import front_matter

if TYPE_CHECKING:
    from qkv_site.write.markdown import Writer

# A warning on a logger below this name makes `mkdocs build --strict` fail.
_log = logging.getLogger("mkdocs.plugins.qkv_site")

_FENCE = re.compile(r"(?P<indent> *)(?P<ticks>`{3,}|~{3,}) *(?P<info>.*)")
_OPTION = re.compile(r'([\w-]+)="([^"]*)"')
_HEADING = re.compile(r"(#{1,6}) (.*?)(?: *\{[^}]*#([\w-]+)[^}]*\})? *")
_CONTAINER = re.compile(
    r"(?P<indent> *)(?P<mark>!!!|\?\?\?\+?|===[+!]?)(?P<kind>(?: +[\w-]+)*)"
    r' *(?:"(?P<title>.*)")? *'
)


@dataclass(frozen=True, order=True)
class Fault:
    """What is wrong, and where.

    Attributes:
        line: The line of the file, counted from 1; 0 if it is none of them.
        rule: Which rule is broken, in a word.
        message: What stands there and what was expected.
        page: The file, below the folder of pages.
    """

    line: int
    rule: str
    message: str
    page: str = ""

    def __str__(self) -> str:
        line = f":{self.line}" if self.line else ""
        return f"{self.page}{line}: {self.message} [{self.rule}]"


@dataclass
class Part:
    """A part of a page.

    Attributes:
        line: Where it begins in the file, counted from 1.
        end: The line after its last one.
        indent: How many spaces stand before it, seen from the part that it is in.
    """

    line: int
    end: int
    indent: int = 0

    def faults(self, page: "Page") -> Iterator[Fault]:
        """What is wrong with this part, without those in it."""
        yield from ()

    def walk(self) -> Iterator["Part"]:
        """This part and all parts in it, in the order of the file."""
        yield self


@dataclass
class Prose(Part):
    """Lines of Markdown between other parts."""

    text: str = ""


@dataclass
class Heading(Part):
    """A heading: 1 is the level of the page's title; an id is the one that the author gave it."""

    level: int = 1
    title: str = ""
    id: str = ""


@dataclass
class Container(Part):
    """What stands indented below a title. A kind is a subclass in a module of `qkv_site.parts`.

    Attributes:
        marks: The signs that a container of this kind may begin with.
        mark: The one that this begins with.
        kind: The words between that and the title, as in `??? question "Why?"`.
        title: What stands in quotes.
        parts: What stands below.
    """

    marks: ClassVar[tuple[str, ...]] = ()

    mark: str = "!!!"
    kind: str = ""
    title: str = ""
    parts: list[Part] = field(default_factory=list)

    def walk(self) -> Iterator[Part]:
        """This part and all parts in it, in the order of the file."""
        yield self
        for part in self.parts:
            yield from part.walk()


@dataclass
class Unclosed(Part):
    """A fence that no line ends: Markdown would show it as text."""

    ticks: str = ""

    def faults(self, page: "Page") -> Iterator[Fault]:
        """That it is not closed."""
        yield Fault(
            self.line,
            "fence",
            f"a fence that no line closes: expected {self.ticks} as far to the right as it begins",
        )


@dataclass
class Fence(Part):
    """A fenced block. A kind of fence is a subclass of this in a module of `qkv_site.parts`.

    Attributes:
        languages: How fences of this kind begin. Set by a subclass, as the next two.
        options: The options that it takes, and for each the values that it may have, if not any.
        rule: What its faults are called.
        language: The first word after the fence.
        given: What follows it, as in `source="above"`.
        rest: What follows it and is no option.
        code: The lines between the fences, without the indentation that they share.
    """

    languages: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[Mapping[str, frozenset[str] | None]] = {}
    rule: ClassVar[str] = "fence"

    language: str = ""
    given: dict[str, str] = field(default_factory=dict)
    rest: str = ""
    code: str = ""

    def fault(self, message: str, *, below: int = 0) -> Fault:
        """A fault of the fence, or of so many lines below it."""
        return Fault(self.line + below, self.rule, message)

    def faults(self, page: "Page") -> Iterator[Fault]:
        """What is wrong with its language, its options, and what stands inside it."""
        if not self.languages:
            found = repr(self.language) if self.language else "no language"
            yield self.fault(f"a block of {found}: expected {_one_of(kinds())}")
            return
        if self.rest:
            yield self.fault(f'{self.rest!r} is no option: expected name="value"')
        for name, value in self.given.items():
            if name not in self.options:
                yield self.fault(f"unknown option {name!r}: expected {_one_of(self.options)}")
            elif value not in (self.options[name] or {value}):
                yield self.fault(f'{name}="{value}": expected {_one_of(self.options[name])}')
        for line, message in self.inside():
            yield self.fault(message, below=1 + line)

    def inside(self) -> Iterable[tuple[int, str]]:
        """What is wrong with which of its lines, counted from 0; the fence itself is -1."""
        return ()

    def markdown(self, page: "Page", stash: Callable[[str], str]) -> str | None:
        """The Markdown in its place, once the page has run; None where it is the fence itself.

        Args:
            page: Its page.
            stash: Keeps HTML until Markdown is done, and returns what stands for it meanwhile.
        """
        return None

    def html(self) -> str | None:
        """What stands in its place when Markdown is done; None where Markdown shows its code."""
        return None

    def as_text(self, writer: "Writer") -> str:
        """What stands for it in the page's copy, in its notebook and in what the search reads."""
        return writer.listing(self.language, self.code)


def _one_of(words) -> str:
    return f"one of {', '.join(map(repr, sorted(words)))}" if words else "none"


@cache
def kinds() -> dict[str, type[Fence]]:
    """The kinds of fences, by the language that they begin with."""
    return {language: kind for kind in _kinds_of(Fence) for language in kind.languages}


@cache
def _containers() -> dict[str, type[Container]]:
    """The kinds of containers, by the sign that they begin with."""
    return {mark: kind for kind in _kinds_of(Container) for mark in kind.marks}


def _kinds_of(part: type[Part]) -> Iterator[type[Part]]:
    """The subclasses in the modules of `qkv_site.parts`, which are found, and named nowhere."""
    package = import_module("qkv_site.parts")
    for module in iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
    return _subclasses(part)


def _subclasses(kind: type[Part]) -> Iterator[type[Part]]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)


@dataclass(frozen=True, eq=False)
class Site:
    """Where pages are, and where they will be, for one build or one check.

    Attributes:
        docs: The folder of pages.
        address: Of the published site, if it has one.
        repository: Its address, if it is known.
    """

    docs: Path = Path(__file__).parents[2] / "docs"
    address: str = ""
    repository: str = ""

    def names(self) -> list[str]:
        """The files of all pages, below the folder, in their order."""
        return sorted(path.relative_to(self.docs).as_posix() for path in self.docs.rglob("*.md"))

    @cached_property
    def pages(self) -> dict[str, "Page"]:
        """All pages by their names, as their files were at first. They are not run."""
        return {name: parse(name, (self.docs / name).read_text(), self) for name in self.names()}

    def data(self, name: str) -> dict[str, Any]:
        """What a file of TOML says, below the folder of pages; whoever reads it changes nothing."""
        return _toml((self.docs / name).read_text())


@cache
def _toml(text: str) -> dict[str, Any]:
    return tomllib.loads(text)


@dataclass
class Page:
    """A page, and what was noted of it while it was written.

    Attributes:
        name: Its file, below the folder of pages.
        text: The whole file.
        meta: Its front matter.
        body: What stands below that.
        start: The line of the file in which the body begins, counted from 1.
        parts: The body, part by part.
        site: Where it stands.
        found: The faults of the file itself, and those that were found while it was written.
        variants: What changes with the letters that a reader chooses, and the number of each.
        tied: The sources in whose letters some formula stays.
        drawn: The fences whose letters have the colours of the key.
        pictures: The sources in whose letters a picture of numbers stays, in order.
        uncounted: HTML of the page whose formulas nobody sees, or counts one by one, as in a map.
        compares: Whether formulas stand below the names of sources.
        numbers: Those in its sentences, by their expressions, once its blocks have run.
    """

    name: str = "a page"
    text: str = ""
    meta: dict[str, Any] = field(default_factory=dict)
    body: str = ""
    start: int = 1
    parts: list[Part] = field(default_factory=list)
    site: Site = Site()
    found: list[Fault] = field(default_factory=list)
    variants: dict["Variants", int] = field(default_factory=dict)
    tied: set[str] = field(default_factory=set)
    drawn: list[Fence] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    uncounted: list[str] = field(default_factory=list)
    compares: bool = False
    numbers: dict[str, str] = field(default_factory=dict)

    def walk(self) -> Iterator[Part]:
        """All parts, each before those in it."""
        for part in self.parts:
            yield from part.walk()

    def fences(self) -> Iterator[Fence]:
        """The fenced blocks, in order."""
        return (part for part in self.walk() if isinstance(part, Fence))

    def below(self, anchor: str) -> list[Part]:
        """What stands below a heading, deeper ones included; all of it without an anchor.

        Nothing if no heading has this id.
        """
        if not anchor:
            return self.parts
        ids = [part.id if isinstance(part, Heading) else "" for part in self.parts]
        if anchor not in ids:
            return []
        first = ids.index(anchor)
        level = self.parts[first].level
        ends = (
            number
            for number, part in enumerate(self.parts[first + 1 :], start=first + 1)
            if isinstance(part, Heading) and part.level <= level
        )
        return self.parts[first + 1 : next(ends, len(self.parts))]

    def text_of(self, parts: list[Part]) -> str:
        """The lines of parts that stand below each other."""
        if not parts:
            return ""
        lines = self.body.split("\n")
        return "\n".join(lines[parts[0].line - self.start : parts[-1].end - self.start])

    @property
    def title(self) -> str:
        """That of its front matter, else its first heading."""
        headings = (part.title for part in self.parts if isinstance(part, Heading))
        return self.meta.get("title") or next(headings, self.name)

    def prose(self) -> str:
        """The body, its fences empty: each line is where it is in the body."""
        lines = self.body.split("\n")
        for fence in self.fences():
            first, end = fence.line - self.start, fence.end - self.start
            lines[first:end] = [""] * (end - first)
        return "\n".join(lines)

    def link_to(self, name: str, part: str = "") -> str:
        """How a link of this page names a file below the folder of pages, or a part of one."""
        here = posixpath.dirname(self.name) or "."
        path = "" if part and name == self.name else posixpath.relpath(name, here)
        return f"{path}#{part}" if part else path

    def linked(self, path: str) -> str:
        """The file, below the folder of pages, that a link of this page names."""
        here = posixpath.dirname(self.name)
        return posixpath.normpath(posixpath.join(here, path)) if path else self.name

    def add_variants(self, variants: "Variants") -> int:
        """Keep what every source writes; its number among those of the page."""
        return self.variants.setdefault(variants, len(self.variants))

    def line_of(self, part: str) -> int:
        """The line of the file where a part of it first stands; 0 if it does not."""
        found = self.text.find(part)
        return 0 if found < 0 else self.text.count("\n", 0, found) + 1

    def line_in(self, body: str, place: int) -> int:
        """The line of the file of a place in its body, or in what stands there line by line."""
        return self.start + body.count("\n", 0, place)

    def report(self, rule: str, message: str, *, line: int = 0) -> None:
        """Note a fault, once; a strict build fails on it."""
        fault = Fault(line, rule, message, self.name)
        if fault not in self.found:
            self.found.append(fault)
            report(fault)


def report(fault: Fault) -> None:
    """Tell the engine of a fault; a strict build fails on it."""
    _log.warning("%s", fault)


@dataclass(frozen=True)
class Variants:
    """A formula, a drawing or a word of side in the letters of every source.

    Attributes:
        html: All that is written somewhere, each once; that of this site is the first.
        kind: What a reader sees change: a "formula", a "drawing", a "picture" of numbers or a
            "place" in a sentence.
        own: The sources that write it as this site does.
        site: What this site writes.
    """

    html: str
    kind: str
    own: frozenset[str]
    site: str


# The page that is being written, for what its blocks print; a page that is no file outside of that.
PAGE: ContextVar[Page] = ContextVar("page", default=Page())  # noqa: B039


@contextmanager
def writing(page: Page) -> Iterator[Page]:
    """Make a page the one that is being written."""
    token = PAGE.set(page)
    try:
        yield page
    finally:
        PAGE.reset(token)


def parse(name: str, text: str, site: Site | None = None) -> Page:
    """Read a page from the text of its file."""
    meta, body, found = front_matter.read(text)
    start = text[: len(text) - len(body)].count("\n") + 1
    page = Page(name, text, meta, body, start, _parts(body.split("\n"), start))
    page.site = site or PAGE.get().site
    page.found += [Fault(line, "front matter", message, name) for line, message in found]
    return page


def _parts(lines: list[str], first: int) -> list[Part]:
    """The parts of some lines, the first of which has this number in the file."""
    parts: list[Part] = []
    at = 0
    while at < len(lines):
        part = _part(lines, at, first)
        if part is None:
            part = Prose(first + at, first + at + 1, text=lines[at] + "\n")
            if parts and isinstance(parts[-1], Prose):
                parts[-1].end, parts[-1].text = part.end, parts[-1].text + part.text
                at += 1
                continue
        parts.append(part)
        at = part.end - first
    return parts


def _part(lines: list[str], at: int, first: int) -> Part | None:
    """What is no prose and begins in this line."""
    line = lines[at]
    if found := _FENCE.fullmatch(line):
        return _fence(found, lines, at, first)
    if found := _HEADING.fullmatch(line):
        marks, title, anchor = found.groups()
        return Heading(first + at, first + at + 1, 0, len(marks), title, anchor or "")
    if (found := _CONTAINER.fullmatch(line)) and (found["kind"] or found["title"] is not None):
        return _container(found, lines, at, first)
    return None


def _fence(found: re.Match, lines: list[str], at: int, first: int) -> Part:
    indent, ticks = len(found["indent"]), found["ticks"]
    closing = found["indent"] + ticks
    ends = (n for n in range(at + 1, len(lines)) if lines[n].rstrip(" ") == closing)
    end = next(ends, None)
    if end is None:
        return Unclosed(first + at, first + at + 1, indent, ticks)
    language, _, options = found["info"].strip().partition(" ")
    return kinds().get(language, Fence)(
        first + at,
        first + end + 1,
        indent,
        language,
        dict(_OPTION.findall(options)),
        _OPTION.sub("", options).strip(),
        textwrap.dedent("".join(f"{each}\n" for each in lines[at + 1 : end])),
    )


def _container(found: re.Match, lines: list[str], at: int, first: int) -> Container:
    """A note, a fold-out or a tab, with the lines that are four spaces further to the right."""
    indent = len(found["indent"])
    inside = " " * (indent + 4)
    end = at + 1
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith(inside)):
        end += 1
    body = [line[len(inside) :] for line in lines[at + 1 : end]]
    kind = _containers()[found["mark"]]
    words = found["kind"].split()
    title = found["title"] if found["title"] is not None else words[0].capitalize()
    parts = _parts(body, first + at + 1)
    return kind(first + at, first + end, indent, found["mark"], " ".join(words), title, parts)
