"""What MkDocs calls; `qkv_site.mkdocs.build` does the work."""

from qkv_site.mkdocs.build import Build
from qkv_site.mkdocs.serving import Rebuild

_build = None
_nav = None
_serving = _whole = False
_rebuild = None


def on_startup(*, command, dirty, **_):
    """Note whether the site is served while it is written, and whether all of it is."""
    global _serving, _whole
    _serving, _whole = command == "serve", not dirty


def on_config(config):
    """Begin a build."""
    global _build
    _build = Build(config, serving=_serving, whole=_whole)


def on_files(files, *, config):
    """Check the pages, and add the package as a file, so that they can link to it."""
    _build.check(files)
    _build.add_wheel(files, config)


def on_page_markdown(_, *, page, **__):
    """Say which page comes."""
    _build.begin(page)


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
    """Write the page's policy."""
    return _build.guard(output, page)


def on_post_template(output, *, template_name, **_):
    """The page that a server shows for an unknown address has a policy, too."""
    return _build.guard(output) if template_name.endswith(".html") else output


def on_post_build(**_):
    """Write what is made of all pages."""
    _build.write_the_rest()
    _build.write_copies(_nav)


def on_serve(server, *, config, **_):
    """Build what changes while the site is served, each time in a process of its own."""
    global _rebuild
    _rebuild = server.builder = Rebuild(server, config)


def on_shutdown(**_):
    """End what still builds."""
    if _rebuild:
        _rebuild.stop()
