"""A build with Zensical: it renders the pages, and all else is as with MkDocs.

Zensical has no hooks. What MkDocs' hooks do while pages are rendered is done by an extension of
Markdown, and what they do before and after stands around the build. The templates find what they
show in a configuration that inherits `mkdocs.yml` and is there while Zensical builds.
"""

import logging
import posixpath
import re
from pathlib import Path
from xml.etree.ElementTree import Element

import yaml
from markdown import Extension, Markdown
from markdown.postprocessors import Postprocessor
from markdown.preprocessors import Preprocessor
from markdown.treeprocessors import Treeprocessor

from qkv_site.finish import Build, Settings

# Zensical looks for all other files beside its configuration, so this one stands beside MkDocs'.
NAME = ".zensical.yml"

# A link in HTML that is seen from the page's address. Zensical takes all links as seen from the
# page's file, which is one folder nearer, where a page is no index.
_FROM_PAGE = re.compile(r'(<a\b[^>]* href=")(\./(?=#)|\.\./(?!assets/|checks/)(?![^"]*\.md[#"]))')

_build: Build | None = None


class _Count(logging.Handler):
    """Prints the faults that are reported, and counts them."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.number = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.number += 1
        print(record.getMessage(), flush=True)


def build(configuration: Path, folder: Path) -> int:
    """Build the site; how many faults were found.

    Args:
        configuration: MkDocs' file.
        folder: Where to build, at the configuration or below it.

    Raises:
        RuntimeError: If Zensical finds a fault, such as a link that leads nowhere.
    """
    global _build
    import zensical
    from zensical.config import parse_config

    root = configuration.parent
    given = parse_config(str(configuration))
    settings = Settings.of({**given, "site_dir": folder}, root)
    faults = _Count()
    for log in ("mkdocs", "markdown_exec"):  # ours, and that of blocks that fail
        logging.getLogger(log).addHandler(faults)
    _build = Build(settings)
    _build.check()
    if faults.number:
        return faults.number
    added = {
        "INHERIT": configuration.name,
        "site_dir": posixpath.relpath(folder, root),
        "theme": {"variant": "classic"},
        "extra": {"site": _build.values()},
        "markdown_extensions": [__name__],
        # It looks for them before a link to a test is led to its page. `_build.check` has looked.
        "validation": {"links": {"anchors": "ignore"}},
    }
    written = configuration.with_name(NAME)
    try:
        written.write_text(yaml.safe_dump(added))
        zensical.build(str(written), {"clean": True, "strict": True})
    finally:
        written.unlink()
    from zensical.compat import mkdocstrings  # which names no way to the styles of its handlers

    styles = [handler.extra_css for handler in mkdocstrings.HANDLERS.seen_handlers]
    (folder / "assets" / "_mkdocstrings.css").write_text("\n".join(styles))
    (folder / "search.json").unlink()  # its own index
    _build.finish(_addresses())
    return faults.number


class _Begin(Preprocessor):
    """Says which page comes, before anything else reads it."""

    began = None

    def run(self, lines: list[str]) -> list[str]:
        page = self.md.preprocessors["rendering_context"].page
        if page is not _Begin.began:  # else it is what mkdocstrings converts inside the page
            _Begin.began = page
            _build.begin(page.path, (_build.settings.site.docs / page.path).read_text())
            self.md.treeprocessors.register(_Last(page, self.md), "wq-page", -1000)
        return lines


class _Last(Treeprocessor):
    """Puts `_End` in its place: before, it would run for each heading of the table of contents."""

    def __init__(self, page, md: Markdown):
        super().__init__(md)
        self._page = page

    def run(self, root: Element) -> None:
        self.md.postprocessors.register(_End(self._page), "wq-page", -1000)


class _End(Postprocessor):
    """Finishes the HTML of a page, when all else has written it."""

    def __init__(self, page):
        super().__init__()
        self._page = page

    def run(self, text: str) -> str:
        _build.rendered(self._page.title, self._page.meta)
        index = posixpath.basename(self._page.path) == "index.md"
        return _FROM_PAGE.sub(lambda m: m[0] if index and m[2] != "./" else m[1], text)


class Hooks(Extension):
    """What MkDocs' hooks do for a page."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register before all others."""
        md.preprocessors.register(_Begin(md), "wq-page", 1000)


def makeExtension(**settings) -> Hooks:
    """Entry point of Python-Markdown."""
    return Hooks(**settings)


def _addresses() -> dict[str, str]:
    """Where each file is, below the site."""
    docs = _build.settings.site.docs
    names = [path.relative_to(docs).as_posix() for path in docs.rglob("*") if path.is_file()]
    names += _build.added
    return {name: _address(name) if name.endswith(".md") else name for name in names}


def _address(page: str) -> str:
    folder, _, file = page.removesuffix(".md").rpartition("/")
    return "".join(f"{each}/" for each in (folder, file) if each not in ("", "index"))
