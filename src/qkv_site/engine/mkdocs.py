"""The hooks of MkDocs."""

import gc
from pathlib import Path

from jinja2 import FileSystemBytecodeCache
from mkdocs.structure.files import File

from qkv_site.engine.serving import Rebuild
from qkv_site.finish import Build, Settings
from qkv_site.markdown import letters

_build = _files = _rebuild = None
_serving = _whole = False


def on_startup(*, command, dirty, **_):
    """Note whether the site is served while it is written, and whether all of it is."""
    global _serving, _whole
    _serving, _whole = command == "serve", not dirty
    # Little of what a build makes is garbage, and to look for it 1,300 times takes a second of 20.
    gc.set_threshold(20_000)


def on_config(config):
    """Begin a build."""
    global _build
    root = Path(config.config_file_path).parent
    _build = Build(Settings.of(config, root, serving=_serving, whole=_whole))
    config.extra["site"] = _build.values()


def on_files(files, *, config):
    """Check the pages, and name the files that are added, for links to them."""
    pages = files.documentation_pages()
    _build.check([page.src_uri for page in pages if _whole or page.is_modified()])
    for name, content in _build.added.items():
        files.append(File.generated(config, name, content=content))


def on_page_markdown(_, *, page, **__):
    """Say which page comes; its front matter is what it says it is."""
    page.meta = {**_build.begin(page.file.src_uri, page.file.content_string).meta}


def on_page_content(_, *, page, **__):
    """Keep what the page's template needs."""
    _build.rendered(str(page.title), page.meta)
    letters.set_names(page)


def on_env(env, *, config, files):
    """Keep compiled templates, and note the addresses of all files.

    mkdocstrings adds its styles to all pages; those of the reference name them themselves.
    """
    global _files
    _files = files
    config.extra_css.remove("assets/_mkdocstrings.css")
    cache = Path(config.config_file_path).parent / ".cache"
    cache.mkdir(exist_ok=True)
    env.bytecode_cache = FileSystemBytecodeCache(str(cache))


def on_post_build(**_):
    """Write what is made of all pages."""
    addresses = {file.src_uri: file.url.removeprefix("./") for file in _files}
    _build.finish(addresses)


def on_serve(server, *, config, **_):
    """Build what changes while the site is served, each time in a process of its own."""
    global _rebuild
    _rebuild = server.builder = Rebuild(server, config)


def on_shutdown(**_):
    """End what still builds."""
    if _rebuild:
        _rebuild.stop()
