"""The HTML of a page: the one extension of Python-Markdown that this site has.

The blocks of the page are run, and stand there with what they printed, before Markdown reads it.
Then superfences hands each fence to its kind in `qkv_site.parts`, also one that a block printed,
and sentences get their formulas, letters and terms.
"""

import html
import textwrap
from functools import partial
from xml.etree.ElementTree import Element

from markdown import Extension, Markdown
from markdown.extensions.toc import TocExtension, TocTreeprocessor
from markdown.postprocessors import Postprocessor
from markdown.preprocessors import Preprocessor
from markdown.treeprocessors import Treeprocessor
from markdown.util import HTML_PLACEHOLDER_RE
from pymdownx.superfences import SuperFencesCodeExtension

from qkv_site import menu, run
from qkv_site.markdown import choice, claims, evidence, key, letters, mathml, tables, terms
from qkv_site.page import PAGE, Fence, Page, kinds
from qkv_site.parts import formulas
from qkv_site.parts import map as layer_map


class _Run(Preprocessor):
    """Runs the page's blocks.

    Attributes:
        page: What is being written; None where it is no page, but what mkdocstrings puts into one.
    """

    page: Page | None = None

    def run(self, lines: list[str]) -> list[str]:
        page = PAGE.get()
        if lines != self.md.preprocessors["normalize_whitespace"].run(page.body.split("\n")):
            self.page = None
            return lines
        self.page = page
        run.run(page, self.md)
        text = run.fill_in(page, "\n".join(self._with_outputs(page, lines)))
        return f"{text}\n\n{evidence.fold(page)}".split("\n")

    def _with_outputs(self, page: Page, lines: list[str]) -> list[str]:
        """The lines of a page with what its blocks became in their places."""
        written, done = [], 0
        for part in page.fences():
            shown = part.markdown(page, self.md.htmlStash.store)
            if shown is not None:
                begin = part.line - page.start
                indent = len(lines[begin]) - len(lines[begin].lstrip(" "))
                shown = textwrap.indent(shown, " " * indent)
                written += [*lines[done:begin], *shown.split("\n")]
                done = part.end - page.start
        return written + lines[done:]


def _fence(kind: type[Fence], src: str, language: str, options: dict[str, str], **_) -> str:
    """A fence as its kind writes it; one with a fault, which is reported elsewhere, as it is."""
    part = kind(0, 0, language=language, given=options, code=f"{src}\n")
    if any(part.inside()):
        return f"<pre><code>{html.escape(src)}</code></pre>"
    if not isinstance(part, formulas.Formula):
        return part.html()
    drawn = PAGE.get().drawn
    drawn.append(part)
    return part.html() + (key.PLACE if len(drawn) == 1 else "")


def _takes(kind: type[Fence], language, inputs, options, attrs, md: Markdown) -> bool:
    """Whether a fence has no options but those of its kind: else it is text."""
    md.preprocessors["fenced_code_block"].get_hl_settings()  # superfences reads them for each fence
    options.update(inputs)
    return inputs.keys() <= kind.options.keys()


class _Around(Treeprocessor):
    """Leads links to evidence to its place, and says what it is; puts things around the title."""

    def __init__(self, md: Markdown, page: _Run):
        super().__init__(md)
        self._running = page

    def run(self, root: Element) -> None:
        for link in root.iter("a"):
            target = link.get("href", "")
            if kind := evidence.kind_to_say(target, "".join(link.itertext())):
                link.set("data-kind", kind)
            if claims.INDEX in target:
                link.set("href", evidence.leads_to(target, PAGE.get()))
        page = self._running.page
        found = page and next((each for each in root.iter() if each.find("h1") is not None), None)
        if found is not None:
            self._title(page, found)

    def _title(self, page: Page, parent: Element) -> None:
        """The small map stands below the title; what a choice changed, below the first words."""
        title = parent.find("h1")
        on_path = page.name in menu.path(page.site)  # a line of the path stands between
        after = [*parent][[*parent].index(title) + 1 :][on_path:][:1]
        last = after[0] if after and self._is_paragraph(after[0]) else title
        last.tail = choice.PLACE + (last.tail or "")
        if "map" in page.meta:
            title.tail = layer_map.PLACE + (title.tail or "")

    def _is_paragraph(self, element: Element) -> bool:
        """Whether it is one when all is done: what is stashed may be more than that."""
        if element.tag != "p" or element.attrib:
            return False
        stashed = HTML_PLACEHOLDER_RE.fullmatch((element.text or "").strip())
        return bool(len(element)) or not stashed


class _Finish(Postprocessor):
    """Fills the places that depend on all of the page."""

    def __init__(self, md: Markdown, page: _Run):
        super().__init__(md)
        self._running = page

    def run(self, text: str) -> str:
        page = self._running.page
        if page is None or choice.PLACE not in text:  # the table of contents comes here, too
            return text
        if page.drawn:
            text = text.replace(key.PLACE, key.key(page))
        small = layer_map.mini(page.meta["map"]) if "map" in page.meta else ""
        told = choice.line(page, text, small)  # each cell says its column's name again, below
        text = tables.finished(text).replace(choice.PLACE, told)
        return text.replace(layer_map.PLACE, small)


class _Contents(TocTreeprocessor):
    """Links to headings are for a pointer; for the keyboard there is the list of contents."""

    def add_permalink(self, c: Element, elem_id: str) -> None:
        super().add_permalink(c, elem_id)
        c[-1].set("tabindex", "-1")


class Html(Extension):
    """All that this site adds to Markdown."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register each part where what it needs is done, and what needs it is not."""
        page = _Run(md)
        md.preprocessors.register(page, "wq-run", 27)  # superfences, at 25, takes the fences
        md.treeprocessors.register(_Around(md, page), "wq-around", 3)  # MkDocs, at 0, takes links
        md.postprocessors.register(_Finish(md, page), "wq-finish", 0)
        for extension in md.registeredExtensions:
            if isinstance(extension, TocExtension):
                contents = _Contents(md, extension.getConfigs())
                md.treeprocessors.register(contents, "toc", 5)
            if isinstance(extension, SuperFencesCodeExtension):
                for language, kind in kinds().items():
                    if kind.html is not Fence.html:
                        extension.extend_super_fences(
                            language, partial(_fence, kind), partial(_takes, kind)
                        )
        formulas.register(md)
        letters.register(md)
        terms.register(md)
        mathml.register(md)


def makeExtension(**settings) -> Html:
    """Entry point of Python-Markdown."""
    return Html(**settings)
