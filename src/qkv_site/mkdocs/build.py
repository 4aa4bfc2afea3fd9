"""One build of the site: what Markdown extensions cannot do."""

import base64
import json
from collections.abc import Iterable
from pathlib import Path

from jinja2 import FileSystemBytecodeCache
from math_core import LatexError
from mkdocs.structure.files import File

from qkv import notation
from qkv_site.markdown import (
    blocks,
    change_it,
    choice,
    claims,
    current,
    diagrams,
    formulas,
    key,
    letters,
    on_library,
    sentences,
    tables,
)
from qkv_site.markdown import map as layer_map
from qkv_site.mkdocs import policy
from qkv_site.page import parse
from qkv_site.parts import asked
from qkv_site.tables import (
    labels,
    redirects,
    search,
    wheel,
)
from qkv_site.write import copies, notebooks


class Build:
    """From the configuration to the finished folder."""

    def __init__(self, config, serving=False, whole=True):
        self._config, self._site = config, Path(config.site_dir)
        self._serving, self._whole = serving, whole  # while serving, a saved page comes first
        self._cache = Path(config.config_file_path).parent / ".cache"
        self._cache.mkdir(exist_ok=True)
        self._claims: dict[str, str] = {}
        self._copies: list[copies.Copy] = []
        self._panels: dict[str, str] = {}
        current.docs = Path(config.docs_dir)
        self._index = search.Index()
        current.address = config.site_url or ""
        current.repository = config.extra.get("repository") or ""
        claims.kinds.cache_clear()

    def add_wheel(self, files, config) -> None:
        """Add the package that the pages run."""
        wheel.add_to(files, config)

    def add_notebooks(self, files, config) -> None:
        """Add a notebook for each page that has one."""
        self._notebooks = notebooks.add_to(files, config, self._whole)

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
        self._files = files
        env.globals["notations"] = notation.grouped_sources()
        env.globals["notebooks"] = self._notebooks
        env.globals["colab"] = notebooks.colab(
            self._config.extra.get("notebooks") or "", current.address
        )
        env.globals["wheel"] = wheel
        env.bytecode_cache = FileSystemBytecodeCache(str(self._cache))

    def check(self, page) -> None:
        """Report what is wrong with a page's blocks, formulas and claims."""
        text = page.file.content_string  # with the front matter, so that lines are the file's
        current.begin(page.file.src_uri, text)
        found = [*blocks.find(text)]
        page.meta["runs"] = any("source" in block.options for block in found)
        for line, fault in (
            *sentences.faults(text),
            *wheel.faults(text, page.meta["runs"]),
            *on_library.tab_faults(text),
            *change_it.page_faults(found),
        ):
            current.warn(fault, line=line)
        read = parse(page.file.src_uri, text)
        for fence, _ in asked.leading(read):
            for fault in fence.faults(read):
                current.warn(fault.message, line=fault.line)
        for block in found:
            for fault in (*blocks.faults(block), *on_library.faults(block)):
                current.warn(fault, line=block.line)
            for line, fault in _faults_within(block):
                current.warn(fault, line=block.line + 1 + line)
        for fault in layer_map.lit_faults(page.meta.get("map", "")):
            current.warn(fault, line=current.line_of("\nmap:") or 1)
        for statement, fault in claims.faults(page.file.src_uri, text):
            current.warn(fault, line=current.line_of(statement))
        for claim in claims.of_page(page.file.src_uri, text):
            if claim.id in self._claims:
                line = current.line_of(claim.statement)
                current.warn(f"claim {claim.id!r} is made in {self._claims[claim.id]}", line=line)
            self._claims[claim.id] = claim.page

    def finish_content(self, html: str, page) -> str:
        """Say what a choice of letters changes, how linked statements are known, what a value is.

        The template gets the formulas of the page in all letters. Links to headings are for a
        pointer; for the keyboard there is the list of what the page has in it.
        """
        html = html.replace('class="headerlink"', 'class="headerlink" tabindex="-1"')
        html = key.with_key(choice.told(tables.labelled(html)))
        if "map" in page.meta:
            html = html.replace("</h1>", f"</h1>{layer_map.mini(page.meta['map'])}", 1)
        page.meta["variants"] = [*current.variants]
        letters.set_names(page)
        if current.panel:
            written = json.dumps(current.panel, ensure_ascii=False, separators=(",", ":"))
            self._panels[change_it.address(page.file.src_uri)] = written
        return claims.marked(html)

    def read_words(self, page) -> None:
        """Note what a page says, for the search and as Markdown."""
        current.begin(page.file.src_uri, page.file.content_string)
        for fault in self._index.add(page, parse(page.file.src_uri, page.file.content_string)):
            current.warn(fault.message, line=fault.line)
        try:
            self._copies.append(copies.of(page, self._files))
        except (LatexError, SyntaxError, ValueError) as fault:
            current.begin(page.file.src_uri, page.file.content_string)
            current.warn(f"no copy in Markdown: {fault}")

    def guard(self, html: str, page=None) -> str:
        """Say on the page what it may run, and report what would not."""
        if page:
            current.begin(page.file.src_uri, page.file.content_string)
            for fault in policy.faults(html):
                current.warn(fault)
        return policy.leave_out_of(html) if self._serving else policy.put_into(html)

    def write_copies(self, nav) -> None:
        """Put a copy in Markdown beside each page, and say where all of them are."""
        for copy in self._copies:
            self._write(f"{copy.page.url}{copies.NAME}", copy.written(self._config.site_url or ""))
        if self._whole:
            self._write(copies.SHORT, copies.overview(self._copies, nav, self._config))
            self._write(copies.FULL, copies.everything(self._copies, self._config))
            self._write("robots.txt", copies.robots(self._config))

    def write_the_rest(self) -> None:
        """Put beside the pages what all of them make: the index of the search."""
        if not self._whole:
            return
        self._write(search.ADDRESS, self._index.written())

    def _write(self, name: str, content: str | bytes) -> None:
        target = self._site / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)


def _faults_within(block) -> Iterable[tuple[int, str]]:
    """What is wrong with which line of a block that is drawn or typeset, counted from 0."""
    match block.language:
        case "formula":
            return formulas.faults(block.code, block.options.get("in", ""))
        case "diagram":
            return diagrams.faults(block.code, block.options)
        case "map":
            return layer_map.faults(block.code, block.options)
        case "change-it":
            return change_it.faults(block.code)
    return ()
