"""Python-Markdown extension: the blocks of a page run before Markdown reads it.

markdown-exec executes them; what a block of a library printed is recorded. What then stands in a
block's place, its source and what it printed, is Markdown like the rest of the page, so that its
links and headings are the page's own.

In a sentence, `{{= 3 * P_Q.size }}` is what the page's own names give after its last block.
"""

import re
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from uuid import uuid4

import markdown_exec
from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor
from markdown_exec._internal.formatters import python as markdown_exec_python

from qkv_site.figures import Figure, Printed, collected
from qkv_site.markdown import blocks, claims, current, on_library
from qkv_site.markdown.blocks import Block

_END = "\x04"  # printed after all else by a block that runs to its end
_BETWEEN = "\x1f"  # printed between two numbers
NUMBER = re.compile(r"\{\{=\s*(.+?)\s*\}\}")


@dataclass(frozen=True)
class _Ran:
    """What the blocks of a page printed, and what from."""

    codes: list[str]
    read: dict[Path, str]  # other files that they read, and their texts
    printed: list[str]
    figures: list[Figure]  # in what they printed
    variants: list[str]  # of formulas in what they printed

    def holds(self, codes: list[str]) -> bool:
        return self.codes == codes and all(
            path.exists() and path.read_text() == text for path, text in self.read.items()
        )


# While MkDocs serves, the blocks of a page do not run again unless one of them has changed, or a
# file that they read. Where code has changed, this module is imported anew and remembers nothing.
_ran: dict[str, _Ran] = {}
# Of each page, the numbers in its sentences, by their expressions.
_numbers: dict[str, dict[str, str]] = {}


def say(value: object) -> str:
    """A number or a shape as a sentence has it; a text as it is.

    Raises:
        TypeError: If it is neither a whole number, nor a shape, nor a text: how many digits a
            sentence gives is for the sentence to say.

    Examples:
        >>> say(786432), say((1536, 512)), say(f"{2 / 3:.0%}")
        ('786,432', '1536 × 512', '67%')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return " × ".join(f"{n:,}" if n >= 10_000 else str(n) for n in value)
    if isinstance(value, Integral) and not isinstance(value, bool):
        return f"{value:,}"
    raise TypeError(
        f"a number in a sentence is whole, or a text such as f'{{x:.2f}}', but this is {value!r}"
    )


def fill_in(page: str, text: str) -> str:
    """Put the numbers of a page, which has run, into its text."""
    return NUMBER.sub(lambda found: _numbers.get(page, {}).get(found[1], found[0]), text)


def printed(page: str) -> list[Printed]:
    """What each block of a page printed in this build; nothing if one of them failed."""
    if page not in _ran:
        return []
    return [Printed(text.removesuffix(_END), _ran[page].figures) for text in _ran[page].printed]


class _Run(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        text = "\n".join(lines)
        text = blocks.replace(text, lambda block: "" if block.language == "asked" else None)
        text = blocks.replace(text, lambda block: on_library.show(block) if block.library else None)
        executed = [block for block in blocks.find(text) if block.executed]
        numbers = list(dict.fromkeys(NUMBER.findall(blocks.FENCE.sub("", text))))
        if numbers:
            says = ", ".join(f"say({number})" for number in numbers)
            joined = f"{_BETWEEN!r}.join([{says}])"  # markdown-exec's print knows no sep
            code = f"from qkv_site.markdown.run import say\nprint({joined}, end='')\n"
            executed.append(Block("python", {}, "", code, 0))
        if not executed:
            return text.split("\n")
        printed, figures = self._print(executed)
        if numbers:
            said = printed.pop().removesuffix(_END).split(_BETWEEN)
            _numbers[current.page] = dict(zip(numbers, said, strict=False))
        show = (Printed(each, figures).html() for each in printed)
        text = blocks.replace(
            text, lambda block: self._show(block, next(show)) if block.executed else None
        )
        return fill_in(current.page, text).split("\n")

    def _print(self, executed: list[Block]) -> tuple[list[str], list[Figure]]:
        codes, before = [block.code for block in executed], _ran.get(current.page)
        if before and before.holds(codes):
            for formula in before.variants:
                current.add_variants(formula)
            return [*before.printed], before.figures
        session = f"{current.page} {uuid4()}"
        try:
            with collected() as figures:
                printed = [self._execute(block, session) for block in executed]
        finally:
            # markdown-exec keeps the names of each session, arrays and all, as long as the process
            # lives: a gigabyte for this site. It has no public way to end a session; once it has
            # one, that takes this line's place.
            markdown_exec_python._sessions_globals.pop(session, None)
        if all(text.endswith(_END) for text in printed):  # a fault is reported by every build
            read, variants = dict(current.others), [*current.variants]
            _ran[current.page] = _Ran(codes, read, [*printed], figures, variants)
        else:  # while MkDocs serves: what the page printed before is not what it prints now
            _ran.pop(current.page, None)
        return printed, figures

    def _execute(self, block: Block, session: str) -> str:
        """What a block prints, and then `_END`; or, if it fails, HTML of its traceback."""
        lines = (each.line for each in blocks.find(current.text) if each.code == block.code)
        line = next(lines, None)
        code = f"{block.code}print(end={_END!r})"
        place = f"{current.page}:{line}" if line else current.page
        options = {"id": place, "html": True, "session": session, "extra": {}}
        try:
            return str(markdown_exec.formatter(code, "python", "", options, self.md))
        except SystemExit as stop:  # would end the whole build, as a success if its code is 0
            current.warn(f"the block called sys.exit({stop.code!r})", line=line)
            return ""

    def _show(self, block: Block, printed: str) -> str:
        """Markdown of a block: its source, what it printed, and the statement that it proves."""
        options, output = block.options, printed.removesuffix(_END)
        if "html" in options or output == printed:
            output = self.md.htmlStash.store(output)
        elif "result" in options:
            # A number that a block prints is found on its page, and not through the search.
            output = f'````````{{.{options["result"]} data-search-exclude=""}}\n{output}\n````````'
        if "source" in options:
            titled = "title" in options and "claim" not in options
            output = markdown_exec.add_source(
                source=block.code,
                location="above",
                output=output,
                language="python",
                tabs=markdown_exec.default_tabs,
                **({"title": options["title"]} if titled else {}),
            )
        return _state(options, output) if options.keys() >= {"claim", "title"} else output


def _state(options: dict[str, str], output: str) -> str:
    """A block below the statement it proves, with a mark that says how it is known."""
    claim = claims.of_options(options, current.page)
    return (
        f"/// html | div#claim-{claim.id}.wq-claim\n\n"
        f"{claim.statement} {claim.mark}\n\n{output}\n\n///"
    )


class Run(Extension):
    """Run the blocks of a page."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register before `pymdownx.superfences` takes the fences, at 25."""
        md.preprocessors.register(_Run(md), "wq-run", 27)


def makeExtension(**settings) -> Run:
    """Entry point of Python-Markdown."""
    return Run(**settings)
