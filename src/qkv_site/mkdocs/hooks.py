"""MkDocs keeps this file for as long as it serves, so it only hands on to `qkv_site.mkdocs.build`.

Before each rebuild the packages are forgotten and so imported anew: `qkv`, to which a page's
blocks may have done anything, always; `qkv_site`, which remembers how formulas are typeset and what
blocks printed, where a file under `src` has changed. `mkdocs serve` then shows what a clean build
would.
"""

import logging
import sys
from pathlib import Path

from mkdocs.commands.build import build
from mkdocs.config import load_config

_SRC = Path(__file__).parents[2]
_build = None
_nav = None
_serving = False


def on_startup(*, command, **_):
    """Note whether the site is served while it is written."""
    global _serving
    _serving = command == "serve"


def on_config(config):
    """Begin a build with the modules that the configuration has imported."""
    global _build
    from qkv_site.mkdocs.build import Build

    _build = Build(config, serving=_serving)


def on_files(files, *, config):
    """Add the package as a file, so that pages can link to it."""
    _build.add_wheel(files, config)


def on_page_markdown(_, *, page, **__):
    """Say which page comes, and check it."""
    _build.check(page)


def on_page_content(html, *, page, **_):
    """Say beside each link to the ledger how the statement is known; keep the other notations."""
    return _build.finish_content(html, page)


def on_env(env, *, config, files):
    """When all pages are rendered: add what is made of them, and tell the templates of it."""
    _build.add_assets(files, config)
    _build.add_notebooks(files, config)
    _build.add_redirects(files, config)
    _build.tell(env, files)


def on_page_context(_, *, page, nav, **__):
    """Read the page's words, now that its links are known."""
    global _nav
    _nav = nav
    _build.read_words(page)


def on_post_page(output, *, page, **_):
    """Note which letters the page has, and write its policy."""
    _build.note_letters(output)
    return _build.guard(output, page)


def on_post_template(output, *, template_name, **_):
    """The page that a server shows for an unknown address has a policy, too."""
    return _build.guard(output) if template_name.endswith(".html") else output


def on_post_build(**_):
    """Write what is made of all pages."""
    _build.write_the_rest()
    _build.write_copies(_nav)


def on_serve(server, *, config, builder, **_):
    """Import the packages anew before each rebuild, and show a saved page before all the others.

    Where a page has changed, MkDocs builds first what is newer than the site; then a file that it
    watches is touched, and the whole site follows.
    """
    rest = Path(config.config_file_path).parent / ".cache" / "rest"
    rest.touch()
    server.watch(str(rest))
    seen, unfinished = _stamps(), False

    def rebuild():
        nonlocal seen, unfinished
        before, seen = seen, _stamps()
        _forget("qkv")
        if seen != before:
            _forget("qkv_site")
        if seen != before or unfinished:
            unfinished = False
            builder()
        else:
            unfinished = True
            try:
                _build_what_changed(config)
            finally:
                rest.touch()

    server.builder = rebuild


def _build_what_changed(served):
    config = load_config(served.config_file_path, site_dir=served.site_dir)
    config.site_url = served.site_url
    config.extra["whole"] = False
    mkdocs_log = logging.getLogger("mkdocs.commands.build")
    mkdocs_log.addFilter(_is_no_advice)
    try:
        build(config, serve_url=served.site_url, dirty=True)
    finally:
        mkdocs_log.removeFilter(_is_no_advice)


def _is_no_advice(record):
    """What MkDocs says of such a build does not concern a reader: the whole site follows."""
    return "'dirty' build" not in record.getMessage()


def _stamps():
    return {path: path.stat().st_mtime_ns for path in _SRC.rglob("*.*") if path.suffix != ".pyc"}


def _forget(package):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        del sys.modules[name]
