"""Each explanation ends in exercises, and one of them at least is seen to run."""

from collections.abc import Iterator

from qkv_site.page import Container, Heading, Page, Part, Prose
from qkv_site.parts.python import Python

NAME = "exercises"
_EXPECTED = (
    'expected "## Try it { #try-it }" as the last heading, and below it nothing but one to three '
    'folds, ??? question "What does ...?", whose answers explain the wrong ones too'
)


def faults(page: Page) -> Iterator[tuple[int, str]]:
    """What is missing below the last heading of an explanation."""
    if not page.name.startswith("explanation/") or page.name.endswith("/index.md"):
        return
    headings = [part for part in page.parts if isinstance(part, Heading)]
    last = headings[-1] if headings else None
    if last is None or (last.level, last.title, last.id) != (2, "Try it", "try-it"):
        yield last.line if last else 0, f"no exercises: {_EXPECTED}"
        return
    below = [part for part in page.below("try-it") if not _is_blank(part)]
    questions = [part for part in below if isinstance(part, Container) and part.kind == "question"]
    for part in below:
        if part not in questions:
            yield part.line, f"no exercise stands here: {_EXPECTED}"
    if not 1 <= len(questions) <= 3:
        yield last.line, f"{len(questions)} exercises: {_EXPECTED}"
    if not any(_runs(part) for question in questions for part in question.walk()):
        expected = "a block in one of them that asserts, and prints"
        yield last.line, f"no answer is seen to run: expected {expected}"


def _is_blank(part: Part) -> bool:
    return isinstance(part, Prose) and not part.text.strip()


def _runs(part: Part) -> bool:
    return (
        isinstance(part, Python)
        and part.executed
        and "assert " in part.code
        and "print(" in part.code
    )
