"""Every fault of every page, found without a build: `python -m qkv_site check`.

What is checked stands where it belongs: in the parts of a page, `qkv_site.parts`, and in the rules
for a page as a whole, `qkv_site.rules`. Blocks do not run here, formulas do.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from qkv_site import rules
from qkv_site.page import Fault, Page, Site, writing


def site(site: Site, names: Iterable[str] | None = None) -> list[Fault]:
    """The faults of the pages of a site, or of those with these names, in order."""
    pages = site.pages
    return [fault for name in names or pages for fault in page(pages[name])]


def page(checked: Page) -> list[Fault]:
    """The faults of a page, in the order of its lines."""
    with writing(checked):
        return sorted({replace(fault, page=checked.name) for fault in _faults(checked)})


def _faults(checked: Page) -> Iterator[Fault]:
    yield from checked.found
    for part in checked.walk():
        yield from part.faults(checked)
    for rule in _rules():
        yield from (Fault(line, rule.NAME, message) for line, message in rule.faults(checked))


@cache
def _rules() -> tuple[ModuleType, ...]:
    """The rules: each module of `qkv_site.rules` is one."""
    names = (module.name for module in iter_modules(rules.__path__))
    return tuple(import_module(f"{rules.__name__}.{name}") for name in names)
