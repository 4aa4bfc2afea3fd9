"""The path through the first pages: where a page stands on it, and which one is next.

A fenced block of the language `path`, without lines, lists the pages of the menu's first section on
the home page. On one of these pages it says how many there are, and leads to the next.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from qkv_site import menu
from qkv_site.markdown import letters
from qkv_site.page import PAGE, Fault, Fence, Page
from qkv_site.parts import map as layer_map

if TYPE_CHECKING:
    from qkv_site.write.markdown import Writer


class Path(Fence):
    """A fence of the language `path`, without lines."""

    languages = ("path",)
    rule = "path"

    def faults(self, page: Page) -> Iterator[Fault]:
        """That it stands on a page that is not on the path."""
        yield from super().faults(page)
        if page.name not in (menu.HOME, *menu.path(page.site)):
            yield self.fault("the page is not on the path, the first section of the menu")

    def inside(self) -> Iterable[tuple[int, str]]:
        """Lines in it."""
        if self.code.strip():
            yield 0, "a path has no lines: the menu says which pages it has"

    def html(self) -> str:
        """A list of links, or the number of the page and a link."""
        page = PAGE.get()
        names = menu.path(page.site)
        if page.name == menu.HOME:
            items = "".join(f"<li>{_link(page, name)}</li>" for name in names)
            return f'<ol class="wq-path">{items}</ol>'
        last = page.name == names[-1]
        goes_on = "" if last else f" Next: {_link(page, names[_number(page)])}"
        return f'<p class="wq-path">{_place(page)}{goes_on}</p>'

    def as_text(self, writer: "Writer") -> str:
        """The same, as Markdown."""
        page = writer.page
        names = menu.path(page.site)
        links = [f"[{page.site.pages[name].title}]({page.link_to(name)})" for name in names]
        if page.name == menu.HOME:
            lines = (f"{number}. {link}" for number, link in enumerate(links, start=1))
            return writer.plain("\n".join(lines))
        goes_on = f" Next: {links[_number(page)]}" if page.name != names[-1] else ""
        return writer.plain(_place(page) + goes_on)


def _number(page: Page) -> int:
    return menu.path(page.site).index(page.name) + 1


def _place(page: Page) -> str:
    return f"Start here, {_number(page)} of {len(menu.path(page.site))}."


def _link(page: Page, name: str) -> str:
    title = letters.set_in(page.site.pages[name].title)
    return f'<a href="{layer_map.href(name)}">{title}</a>'
