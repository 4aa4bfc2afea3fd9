"""One build of the site: what Markdown extensions cannot do."""

import re
from pathlib import Path

from jinja2 import FileSystemBytecodeCache

from qkv import notation
from qkv_site.generated import font, notebooks
from qkv_site.markdown import blocks, claims, current, diagrams, formulas, sentences
from qkv_site.mkdocs.kept import Kept

_FORMULA = re.compile("<math.*?</math>", re.DOTALL)
_PALETTE = '<form class="md-header__option" data-md-component="palette">'
_SEARCH = 'data-md-component="search" role="dialog"'


class Build:
    """From the configuration to the finished folder."""

    def __init__(self, config, kept: Kept | None):
        self._kept = kept
        self._autorefs = config.plugins["autorefs"]
        self._search = config.plugins["material/search"]
        self._settings = Path(config.config_file_path).read_text()
        self._root = Path(config.config_file_path).parent
        self._site = Path(config.site_dir)
        self._runner = blocks.Runner()
        self._characters: set[int] = set()
        self._claims: dict[str, str] = {}
        current.docs = Path(config.docs_dir)
        claims.kinds.cache_clear()

    def add_files(self, files, config) -> None:
        """Add what is made from the pages, to be published beside them."""
        self._notebooks = notebooks.add_to(files, config)

    def begin(self, env) -> None:
        """Tell the templates which notations and which notebooks there are."""
        env.globals["notations"] = notation.sources()
        (self._root / ".cache").mkdir(exist_ok=True)
        env.bytecode_cache = FileSystemBytecodeCache(str(self._root / ".cache"))
        env.globals["notebooks"] = self._notebooks
        self._choice = env.get_template("partials/notation.html").render()

    def begin_page(self, page, files) -> None:
        """Check a page's blocks, formulas and claims, and give it an empty namespace."""
        text = page.file.content_string  # with the front matter, so that lines are the file's
        current.begin(page.file.src_uri, text)
        self._runner.begin(text)
        for line, fault in sentences.faults(text):
            current.warn(fault, line=line)
        for block in blocks.find(text):
            if block.language == "formula":
                for line, fault in formulas.faults(block.code, block.options.get("in", "")):
                    current.warn(fault, line=block.line + 1 + line)
            if block.language == "diagram":
                for line, fault in diagrams.faults(block.code, block.options):
                    current.warn(fault, line=block.line + 1 + line)
        for statement, fault in claims.faults(page.file.src_uri, text):
            current.warn(fault, line=current.line_of(statement))
        for claim in claims.of_page(page.file.src_uri, text):
            if claim.id in self._claims:
                line = current.line_of(claim.statement)
                current.warn(f"claim {claim.id!r} is made in {self._claims[claim.id]}", line=line)
            self._claims[claim.id] = claim.page
        if self._kept is not None:
            names = tuple(file.src_uri for file in files)
            self._kept.apply(page, (text, self._settings, names), self._autorefs)

    def mark(self, html: str) -> str:
        """Say beside each link to the ledger how the statement is known."""
        return claims.marked(html)

    def before_search(self, page) -> None:
        """Take formulas out of a page's content, before the search plugin reads it."""
        self._found = page.content, page.meta, len(self._search.search_index.entries)
        page.content = _FORMULA.sub("", page.content)
        if self._kept is not None and self._kept.has_entries(page, self._search.search_index):
            page.meta = page.meta | {"search": {"exclude": True}}

    def after_search(self, page) -> None:
        """Put them back."""
        hidden, (page.content, page.meta, before) = page.content, self._found
        if self._kept is not None:
            self._kept.keep_entries(page, hidden, self._search.search_index.entries[before:])

    def finish_page(self, html: str) -> str:
        """Put the choice of a notation into the header; name the search dialog.

        Material has no template for either place, so both are found in its HTML.
        """
        self._characters |= font.characters(html)
        for place, wanted in (
            (_PALETTE, self._choice + _PALETTE),
            (_SEARCH, _SEARCH + ' aria-label="Search"'),
        ):
            if html.count(place) != 1:
                current.warn(f"Material's pages have changed: {place!r} is not there once")
            html = html.replace(place, wanted)
        return html

    def finish(self) -> None:
        """Put the mathematical font beside the pages."""
        target = self._site / "assets" / "fonts" / "math.woff2"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(font.cut(self._characters, self._root / ".cache"))
