"""One build of the site: what Markdown extensions cannot do."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import nbformat
from jinja2 import FileSystemBytecodeCache
from math_core import LatexError
from mkdocs.structure.files import File
from mkdocs.structure.nav import Navigation

from qkv import notation
from qkv_site import check, run
from qkv_site.markdown import choice, claims, key, letters, tables
from qkv_site.mkdocs import policy
from qkv_site.page import PAGE, Page, Site, parse, report, writing
from qkv_site.parts import change_it
from qkv_site.parts import map as layer_map
from qkv_site.tables import (
    labels,
    redirects,
    wheel,
)
from qkv_site.write import copies, notebooks, search


class Build:
    """From the configuration to the finished folder."""

    def __init__(self, config, serving=False, whole=True):
        self._config, self._site = config, Path(config.site_dir)
        self._serving, self._whole = serving, whole  # while serving, a saved page comes first
        self._cache = Path(config.config_file_path).parent / ".cache"
        self._cache.mkdir(exist_ok=True)
        self._pages: dict[str, Page] = {}
        self._copies: list[copies.Copy] = []
        self._panels: dict[str, str] = {}
        repository = config.extra.get("repository") or ""
        self._of = Site(Path(config.docs_dir), config.site_url or "", repository)
        PAGE.set(Page("mkdocs.yml", site=self._of))
        self._index = search.Index()

    def add_wheel(self, files, config) -> None:
        """Add the package that the pages run."""
        wheel.add_to(files, config)

    def add_notebooks(self, files, config) -> None:
        """Add a notebook for each page that has one."""
        self._addresses = {file.src_uri: _below(file.url) for file in files}
        self._notebooks = {
            notebooks.address(page.src_uri)
            for page in files.documentation_pages()
            if notebooks.has_one(self._of.pages[page.src_uri])
        }
        for page in self._pages.values():
            address = notebooks.address(page.name)
            if address not in self._notebooks:
                continue
            executed = run.blocks_of(page)
            ended = [block for block in executed if block.printed is not None]
            if len(ended) < len(executed):
                ran = f"{len(ended)} blocks ran to their end, of {len(executed)}"
                page.report("notebook", f"its notebook has not all outputs: {ran}")
            with writing(page):
                made = notebooks.notebook(page, self._addresses, self._of.address)
            files.append(File.generated(config, address, content=nbformat.writes(made, indent=1)))

    def add_redirects(self, files, config) -> None:
        """Add a page for each address that leads to another page."""
        redirects.add_to(files, config, policy.put_into(policy.EMPTY))

    def add_assets(self, files, config) -> None:
        """Add what pages ask for and no one wrote by hand.

        Styles that all pages need are one file, for a phone waits for each request; those of
        mkdocstrings are left to the pages of the reference, which name them themselves.
        """
        files.append(File.generated(config, "assets/roles.json", content=labels.labels()))
        for name, content in self._panels.items():
            files.append(File.generated(config, f"assets/{name}", content=content))
        parts = [files.src_uris[name] for name in config.extra_css if name in files.src_uris]
        for part in parts:
            files.remove(part)
        styles = "\n".join(part.content_string for part in parts)
        for name in ("regular", "italic", "bold"):  # bold italic comes where a page has some
            face = base64.b64encode(files.src_uris[f"assets/fonts/{name}.woff2"].content_bytes)
            address = f"data:font/woff2;base64,{face.decode()}"
            styles = styles.replace(f"fonts/{name}.woff2", address)
        files.append(File.generated(config, "assets/site.css", content=styles))
        config.extra_css = ["assets/site.css"]

    def tell(self, env, files) -> None:
        """Tell the templates which notations and which notebooks there are."""
        env.globals["notations"] = notation.grouped_sources()
        env.globals["notebooks"] = self._notebooks
        env.globals["colab"] = notebooks.colab(
            self._config.extra.get("notebooks") or "", self._of.address
        )
        env.globals["wheel"] = wheel
        env.bytecode_cache = FileSystemBytecodeCache(str(self._cache))

    def check(self, files) -> None:
        """Report what is wrong with the pages, before any of them is rendered."""
        pages = files.documentation_pages()
        names = [page.src_uri for page in pages if self._whole or page.is_modified()]
        for fault in check.site(self._of, names):
            report(fault)

    def begin(self, page) -> None:
        """Read a page, which is the one that is being written from here."""
        name = page.file.src_uri
        read = parse(name, page.file.content_string, self._of)
        PAGE.set(read)
        self._pages[name] = read
        page.meta = {**read.meta, "runs": any("source" in it.given for it in read.fences())}

    def finish_content(self, html: str, page) -> str:
        """Say what a choice of letters changes, how linked statements are known, what a value is.

        The template gets the formulas of the page in all letters. Links to headings are for a
        pointer; for the keyboard there is the list of what the page has in it.
        """
        html = html.replace('class="headerlink"', 'class="headerlink" tabindex="-1"')
        html = key.with_key(choice.told(tables.labelled(html)))
        if "map" in page.meta:
            html = html.replace("</h1>", f"</h1>{layer_map.mini(page.meta['map'])}", 1)
        page.meta["variants"] = [*PAGE.get().variants]
        letters.set_names(page)
        if PAGE.get().panel:
            written = json.dumps(PAGE.get().panel, ensure_ascii=False, separators=(",", ":"))
            self._panels[change_it.address(page.file.src_uri)] = written
        return claims.marked(html)

    def read_words(self, page) -> None:
        """Note what a page says, for the search and as Markdown."""
        read = self._pages[page.file.src_uri]
        PAGE.set(read)
        try:
            for fault in self._index.add(read, self._addresses):
                read.report(fault.rule, fault.message, line=fault.line)
            self._copies.append(copies.copy(read, self._addresses))
        except (LatexError, SyntaxError, ValueError) as fault:
            read.report("copy", f"no copy in Markdown: {fault}")

    def guard(self, html: str, page=None) -> str:
        """Say on the page what it may run, and report what would not."""
        if page:
            for fault in policy.faults(html):
                self._pages[page.file.src_uri].report("policy", fault)
        return policy.leave_out_of(html) if self._serving else policy.put_into(html)

    def write_copies(self, nav) -> None:
        """Put a copy in Markdown beside each page, and say where all of them are."""
        name, about = self._config.site_name, self._config.site_description
        base = self._of.address
        for copy in self._copies:
            self._write(f"{copy.address}{copies.NAME}", copy.written(base))
        if self._whole:
            listed = copies.overview(self._copies, _groups(nav), name, about, base)
            self._write(copies.SHORT, listed)
            self._write(copies.FULL, copies.everything(self._copies, name, about, base))
            self._write("robots.txt", copies.robots(base))

    def write_the_rest(self) -> None:
        """Put beside the pages what all of them make: the index of the search."""
        if not self._whole:
            return
        self._write(search.ADDRESS, self._index.written())

    def _write(self, name: str, content: str | bytes) -> None:
        target = self._site / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)


def _below(url: str) -> str:
    """An address below the site; MkDocs has "./" for the first page."""
    return url.removeprefix("./").removeprefix(".")


def _groups(nav: Navigation) -> Iterator[tuple[str, list[str]]]:
    """The sections of the menu and the files of their pages; what stands in none comes first."""
    yield "Start here", [item.file.src_uri for item in nav.items if item.is_page]
    for item in nav.items:
        if item.is_section:
            title = "Optional" if item.title == "Reference" else item.title
            yield title, [page.file.src_uri for page in item.children if page.is_page]
