"""What is made of all pages, in the finished folder, whichever program rendered them."""

import base64
import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat
from math_core import LatexError

from qkv import notation
from qkv_site import check, menu
from qkv_site.finish import policy, redirects
from qkv_site.markdown import claims, evidence, letters
from qkv_site.page import PAGE, Page, Site, parse, report, writing
from qkv_site.parts import live
from qkv_site.run import blocks_of
from qkv_site.tables import exports, labels, wheel
from qkv_site.write import copies, notebooks, search

try:
    import minify
except ImportError:  # none is built for Apple's chips
    minify = None

# Of each file below the folder of pages, its address below the site's.
Addresses = Mapping[str, str]


@dataclass(frozen=True)
class Settings:
    """What `mkdocs.yml` says of the site, and for what it is built.

    Attributes:
        site: Where its pages are, and where they will be.
        name: What it is called.
        about: What it is about.
        folder: Where it is written.
        notebooks: Where GitHub has the built notebooks, if it has.
        styles: The styles of all pages, below the folder of pages, in their order.
        serving: Whether it is served while it is written.
        whole: Whether all pages are written. Else those that changed are.
    """

    site: Site
    name: str
    about: str
    folder: Path
    notebooks: str = ""
    styles: tuple[str, ...] = ()
    serving: bool = False
    whole: bool = True

    @classmethod
    def of(cls, configuration: Mapping[str, Any], root: Path, **how: bool) -> "Settings":
        """What a configuration says, whose folders are seen from a root."""
        extra = configuration["extra"]
        return cls(
            site=Site(
                root / configuration["docs_dir"],
                configuration["site_url"] or "",
                extra["repository"] or "",
            ),
            name=configuration["site_name"],
            about=configuration["site_description"],
            folder=root / configuration["site_dir"],
            notebooks=extra.get("notebooks") or "",
            styles=tuple(extra["styles"]),
            **how,
        )


class Build:
    """From the pages' files to the finished folder; a program renders the pages in between."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self._pages: list[Page] = []
        self._notebooks: list[Page] = []  # the pages that have one
        PAGE.set(Page("mkdocs.yml", site=settings.site))

    @cached_property
    def added(self) -> dict[str, str | bytes]:
        """Files that pages have links to, beside those in their folder: the package, the tests."""
        return {f"assets/{wheel.name()}": wheel.built()[1]} | claims.codes(self.settings.site.docs)

    def values(self) -> dict[str, Any]:
        """What the templates show of the site, as plain values: they call no Python."""
        groups = [
            {
                "name": group,
                "sources": [{"id": it.id, "short": it.short, "hint": it.hint} for it in sources],
            }
            for group, sources in notation.grouped_sources().items()
        ]
        now = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), UTC)
        return {
            "notations": groups,
            "known": [source["id"] for group in groups for source in group["sources"]],
            "wheel": wheel.name(),
            "install": wheel.address() or f"./{wheel.name()}",
            "colab": notebooks.colab(self.settings.notebooks, self.settings.site.address),
            "date": f"{now.day} {now:%B %Y}",
        }

    def check(self, names: Iterable[str] | None = None) -> None:
        """Report what is wrong with the pages, or with those of these names."""
        for fault in check.site(self.settings.site, names):
            report(fault)

    def begin(self, name: str, text: str) -> Page:
        """Read a page, which is the one that is being written from here."""
        page = parse(name, text, self.settings.site)
        self._pages.append(page)
        PAGE.set(page)
        return page

    def rendered(self, title: str, meta: dict[str, Any]) -> None:
        """Add to `meta` what the page's template needs, with its formulas in all letters."""
        page = PAGE.get()
        meta["variants"] = [variants.html for variants in page.variants]
        meta["set_title"] = letters.set_in(meta.get("title") or title)
        meta["runs"] = any("source" in fence.given for fence in page.fences())
        meta["on_path"] = page.name in menu.path(page.site)
        meta["notebook"] = ""
        if notebooks.has_one(page):
            meta["notebook"] = notebooks.address(page.name)
            self._notebooks.append(page)

    def finish(self, addresses: Addresses) -> None:
        """Write what is made of the pages beside them."""
        pages = sorted(self._pages, key=_order)
        self._write_assets()
        for page in self._notebooks:
            self._write_notebook(page, addresses)
        self._write_words(pages, addresses)
        if self.settings.whole:
            for address, page in redirects.pages(pages, addresses, self.settings):
                self._write(f"{address}/index.html", page)
            (self.settings.folder / redirects.NAME).unlink(missing_ok=True)
        self._write_policies({addresses[page.name]: page for page in pages})

    def _write_assets(self) -> None:
        """What pages ask for and no one wrote by hand.

        Styles that all pages need are one file, for a phone waits for each request; those of
        mkdocstrings are left to the pages of the reference, which name them themselves.
        """
        self._write("assets/roles.json", labels.labels())
        for name, content in self.added.items():
            self._write(name, content)
        if any(isinstance(part, live.Live) for page in self._pages for part in page.fences()):
            self._write(live.FILE, live.data())
        docs = self.settings.site.docs
        for script in docs.glob("assets/*.js"):
            self._write(f"assets/{script.name}", _short(script.read_text("utf-8")))
        styles = "\n".join((docs / style).read_text() for style in self.settings.styles)
        for name in ("regular", "italic", "bold"):  # bold italic comes where a page has some
            face = base64.b64encode((docs / f"assets/fonts/{name}.woff2").read_bytes())
            address = f"data:font/woff2;base64,{face.decode()}"
            styles = styles.replace(f"fonts/{name}.woff2", address)
        self._write("assets/site.css", styles)
        for style in self.settings.styles:
            (self.settings.folder / style).unlink(missing_ok=True)

    def _write_notebook(self, page: Page, addresses: Addresses) -> None:
        """The page as a notebook; report one that lacks what a block printed."""
        executed = blocks_of(page)
        ended = [block for block in executed if block.printed is not None]
        if len(ended) < len(executed):
            ran = f"{len(ended)} blocks ran to their end, of {len(executed)}"
            page.report("notebook", f"its notebook has not all outputs: {ran}")
        with writing(page):
            made = notebooks.notebook(page, addresses, self.settings.site.address)
        self._write(notebooks.address(page.name), nbformat.writes(made, indent=1))

    def _write_words(self, pages: list[Page], addresses: Addresses) -> None:
        """A copy in Markdown beside each page, where all of them are, and the search's index."""
        index, made = search.Index(), []
        for page in pages:
            try:
                with writing(page):
                    for fault in index.add(page, addresses):
                        page.report(fault.rule, fault.message, line=fault.line)
                    made.append(copies.copy(page, addresses))
            except (LatexError, SyntaxError, ValueError) as fault:
                page.report("copy", f"no copy in Markdown: {fault}")
        settings, base = self.settings, self.settings.site.address
        for copy in made:
            self._write(f"{copy.address}{copies.NAME}", copy.written(base))
        if settings.whole:
            titles = {"": "Start here", "Reference": "Optional"}
            sections = menu.sections(settings.site).items()
            groups = [(titles.get(title, title), names) for title, names in sections]
            overview = copies.overview(made, groups, settings.name, settings.about, base)
            self._write(copies.SHORT, overview)
            everything = copies.everything(made, settings.name, settings.about, base)
            self._write(copies.FULL, everything)
            self._write("robots.txt", copies.robots(base))
            self._write(search.ADDRESS, index.written())
            data = _as_json(exports.reading())  # beside what reads it, it packs better
            self._write(exports.READER, f"{_short(exports.reader())}\nexport const data={data}\n")
            for source in notation.sources():
                self._write(exports.LETTERS.format(source.id), exports.letters(source))
            self._write(evidence.PLACES, evidence.places(settings.site, addresses))

    def _write_policies(self, pages: Mapping[str, Page]) -> None:
        """Say on each page what it may run, and report what would not."""
        for path in self.settings.folder.rglob("*.html"):
            html = path.read_text()
            if policy.EMPTY not in html:
                continue
            address = path.relative_to(self.settings.folder).as_posix().removesuffix("index.html")
            if page := pages.get(address):
                for fault in policy.faults(html):
                    page.report("policy", fault)
            # The server adds a script that reloads a page.
            put = policy.leave_out_of if self.settings.serving else policy.put_into
            path.write_text(put(html))

    def _write(self, name: str, content: str | bytes | dict) -> None:
        if isinstance(content, dict):
            content = _as_json(content)
        target = self.settings.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)


def _order(page: Page) -> tuple[str, bool, str]:
    """A folder before those in it, and its index before its other pages."""
    folder, _, file = page.name.rpartition("/")
    return folder, file != "index.md", file


def _as_json(content: dict) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _short(script: str) -> str:
    """A script as it is loaded: without comments, and with short names."""
    return minify.string("application/javascript", script) if minify else script
