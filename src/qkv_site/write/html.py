"""The HTML of a page: the one extension of Python-Markdown that this site has.

The blocks of the page are run, and stand there with what they printed, before Markdown reads it.
Then superfences hands each fence to its kind in `qkv_site.parts`, also one that a block printed,
and sentences get their formulas, letters and terms.
"""

import html
import textwrap
from functools import partial

from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor
from pymdownx.superfences import SuperFencesCodeExtension

from qkv_site import run
from qkv_site.markdown import letters, mathml, terms
from qkv_site.page import PAGE, Fence, Page, kinds
from qkv_site.parts import formulas, questions


class _Run(Preprocessor):
    """Runs the page's blocks. What mkdocstrings converts inside a page is no page, and stays."""

    def run(self, lines: list[str]) -> list[str]:
        page = PAGE.get()
        if lines != self.md.preprocessors["normalize_whitespace"].run(page.body.split("\n")):
            return lines
        run.run(page, self.md)
        text = run.fill_in(page, "\n".join(self._with_outputs(page, lines)))
        if page.name == questions.INDEX:
            text = questions.with_links(text)
        return text.split("\n")

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
    return part.html()


def _takes(kind: type[Fence], language, inputs, options, attrs, md: Markdown) -> bool:
    """Whether a fence has no options but those of its kind: else it is text."""
    md.preprocessors["fenced_code_block"].get_hl_settings()  # superfences reads them for each fence
    options.update(inputs)
    return inputs.keys() <= kind.options.keys()


class Html(Extension):
    """All that this site adds to Markdown."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register each part where what it needs is done, and what needs it is not."""
        md.preprocessors.register(_Run(md), "wq-run", 27)  # superfences, at 25, takes the fences
        for extension in md.registeredExtensions:
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
