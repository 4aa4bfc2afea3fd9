"""While serving, a page is rendered again only if something that it is made from has changed."""

import logging
from collections.abc import Hashable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from qkv_site.markdown import current

# What `Page.render` of MkDocs gives a page.
_RENDERED = ("content", "toc", "_title_from_render", "present_anchor_ids", "links_to_anchors")


class _Warnings(logging.Handler):
    """Counts warnings, as MkDocs does for a strict build."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += record.levelno >= logging.WARNING


class _Rendering(NamedTuple):
    """What a page was rendered to, and what from."""

    made_from: Hashable
    others: dict[Path, str]  # files other than the page's own, and their texts
    rendered: dict[str, object]
    anchors: list[tuple[tuple, dict]]

    def holds(self, made_from: Hashable) -> bool:
        return self.made_from == made_from and all(
            path.exists() and path.read_text() == text for path, text in self.others.items()
        )


class Kept:
    """Renderings of pages, kept from one build to the next.

    Args:
        memory: What is kept. It outlives this module, which is imported anew when code changes.
        only: The address of the one page to render, even if all may have changed; the others are
            left as they are for now. None for a build that leaves nothing behind.
    """

    def __init__(self, memory: dict, only: str | None):
        self._pages: dict[str, _Rendering] = memory.setdefault("pages", {})
        self._entries: dict[str, tuple[Hashable, list]] = memory.setdefault("entries", {})
        self._only = only

    def apply(self, page, made_from: Hashable, autorefs) -> None:
        """Let `page.render` return what is kept, or keep what it renders.

        Args:
            page: The page that MkDocs is about to render.
            made_from: All that the rendering depends on, except the code and what `current.read`
                reads.
            autorefs: The plugin that learns a page's anchors while the page is rendered.
        """
        kept = self._pages.get(page.file.src_uri)
        if kept and (kept.holds(made_from) if self._only is None else page.url != self._only):
            page.render = partial(self._restore, page, kept, autorefs)
        else:
            page.render = partial(self._render, page, made_from, autorefs)

    def _render(self, page, made_from, autorefs, config, files) -> None:
        warnings, anchors = _Warnings(), []
        register = autorefs.register_anchor

        def note(page, *args, **options):
            anchors.append((args, options))
            register(page, *args, **options)

        autorefs.register_anchor = note
        logging.getLogger("mkdocs").addHandler(warnings)
        try:
            type(page).render(page, config, files)
        finally:
            logging.getLogger("mkdocs").removeHandler(warnings)
            autorefs.register_anchor = register
        if not warnings.count:  # a fault is to be reported by every build
            rendered = {name: getattr(page, name) for name in _RENDERED}
            kept = _Rendering(made_from, current.others, rendered, anchors)
            self._pages[page.file.src_uri] = kept

    @staticmethod
    def _restore(page, kept, autorefs, config, files) -> None:
        for name, value in kept.rendered.items():
            setattr(page, name, value)
        page.links_to_anchors = {
            files.get_file_from_path(file.src_uri): links
            for file, links in (page.links_to_anchors or {}).items()
        }
        for args, options in kept.anchors:
            autorefs.register_anchor(page, *args, **options)

    def has_entries(self, page, index) -> bool:
        """Add a page's entries to the search index, if they are kept and the page is the same."""
        made_from, entries = self._entries.get(page.url, (None, []))
        if made_from != _indexed(page, page.content):
            return False
        index.entries.extend(entries)
        return True

    def keep_entries(self, page, content: str, entries: list) -> None:
        """Keep a page's entries in the search index."""
        self._entries[page.url] = _indexed(page, content), entries


def _indexed(page, content: str) -> Hashable:
    return content, page.title, repr(page.meta)
