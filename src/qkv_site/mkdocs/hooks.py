"""MkDocs keeps this file for as long as it serves, so it only hands on to `qkv_site.mkdocs.build`.

Before each rebuild the packages are forgotten and so imported anew: `qkv`, to which a page's
blocks may have done anything, always; `qkv_site`, which remembers how formulas are typeset, where
a file under `src` has changed. `mkdocs serve` then shows what a clean build would.
"""

import sys
from pathlib import Path

from mkdocs.plugins import CombinedEvent, event_priority

_SRC = Path(__file__).parents[2]
_build = None
_memory = None  # renderings of pages, while serving
_only = None  # the page that a first, quick build is for


def on_startup(*, command, **_):
    """Keep renderings for as long as MkDocs serves."""
    global _memory
    _memory = {} if command == "serve" else None


def on_config(config):
    """Begin a build with the modules that the configuration has imported."""
    global _build
    from qkv_site.mkdocs.build import Build
    from qkv_site.mkdocs.kept import Kept

    _build = Build(config, None if _memory is None else Kept(_memory, _only))


def on_files(files, config):
    """Publish what is made from the pages."""
    _build.add_files(files, config)


def on_env(env, **_):
    """Tell the templates what they need."""
    _build.begin(env)


def on_page_markdown(_, *, page, files, **__):
    """Check a page's blocks and give it an empty namespace."""
    _build.begin_page(page, files)


def on_page_content(html, **_):
    """Say beside each link to the ledger how the statement is known."""
    return _build.mark(html)


@event_priority(100)
def _before_search(context, *, page, **_):
    _build.before_search(page)


@event_priority(-100)
def _after_search(context, *, page, **_):
    _build.after_search(page)


on_page_context = CombinedEvent(_before_search, _after_search)


def on_post_page(output, **_):
    """Finish a page."""
    return _build.finish_page(output)


def on_post_build(**_):
    """Write what the pages need beside them."""
    _build.finish()


def on_serve(server, *, builder, **_):
    """Import the packages anew before each rebuild.

    If code has changed, all pages have to be made anew, which takes seconds: the page that was
    read last comes first and is shown, and then the rest.
    """
    app, address, seen, unfinished = server.get_app(), "", _stamps(), False

    def note_address(environ, start_response):
        nonlocal address
        if environ["PATH_INFO"].endswith("/"):
            address = environ["PATH_INFO"].removeprefix(server.mount_path).lstrip("/")
        return app(environ, start_response)

    def rebuild():
        global _only
        nonlocal seen, unfinished
        before, seen = seen, _stamps()
        _forget("qkv")
        if seen != before:
            _forget("qkv_site")
            _only, unfinished = address, True
        elif unfinished:
            _memory.clear()
            _only, unfinished = None, False
        builder()
        if unfinished:
            with server._rebuild_cond:
                server._want_rebuild = True

    server.set_app(note_address)
    server.builder = rebuild


def _stamps():
    return {path: path.stat().st_mtime_ns for path in _SRC.rglob("*.*") if path.suffix != ".pyc"}


def _forget(package):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        del sys.modules[name]
