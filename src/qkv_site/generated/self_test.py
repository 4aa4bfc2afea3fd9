"""The self-test: questions with one right answer each, which code answers wherever it can."""

import contextlib
import io
import textwrap
import tomllib
from dataclasses import dataclass

from qkv_site.markdown import claims, current
from qkv_site.markdown.run import NUMBER, say


@dataclass(frozen=True)
class Question:
    """A question, as `docs/self-test.toml` has it.

    Attributes:
        id: Its anchor.
        ask: The question, as Markdown.
        page: Where the answer can be read: a page's file below `docs`, and an anchor.
        wrong: The wrong answers on offer.
        why: What settles it, as Markdown; `{{= W.size }}` is a number by the names of `code`.
        code: What prints the right answer.
        answer: The right answer; given only where no code finds it.

    Raises:
        ValueError: If it has not one right answer and at least two that are wrong.
    """

    id: str
    ask: str
    page: str
    wrong: list[str]
    why: str
    code: str = ""
    answer: str = ""

    def __post_init__(self):
        if bool(self.code) == bool(self.answer):
            raise ValueError(f"question {self.id!r}: expected either code or answer")
        names = {"__name__": "self-test"}
        if self.code:
            object.__setattr__(self, "answer", _printed(self.code, names))
        why = NUMBER.sub(lambda number: say(eval(number[1], names)), self.why)
        object.__setattr__(self, "why", why)
        if len(set(self.choices)) < len(self.choices) or len(self.wrong) < 2:
            raise ValueError(
                f"question {self.id!r}: {self.answer!r} is right, and wrong is {self.wrong}: "
                "expected two or more that differ from it and from each other"
            )

    @property
    def choices(self) -> list[str]:
        """All answers on offer, in an order that does not say which is right."""
        return sorted([self.answer, *self.wrong])


def _printed(code: str, names: dict[str, object]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, names)
    return printed.getvalue().strip()


def questions() -> list[Question]:
    """All questions, in the order of the file."""
    entries = tomllib.loads(current.read(current.docs / "self-test.toml"))["question"]
    return [Question(**entry) for entry in entries]


def markdown() -> str:
    """The questions as forms, each with its answer in a fold-out, for a page beside `docs`.

    A script marks what is chosen; without it, the choices are a list.
    """
    asked = "\n".join(map(_question, questions()))
    return f'{asked}\n<section class="wq-result" aria-label="Result"></section>\n'


def _question(question: Question) -> str:
    choices = "\n".join(
        _choice(choice, number, question) for number, choice in enumerate(question.choices)
    )
    page, _, _ = question.page.partition("#")
    title = claims.title(current.read(current.docs / page))
    code = f"```python\n{question.code.strip()}\n```\n\n" if question.code else ""
    answer = (
        f"**{_shown(question.answer, question)}.** {question.why}\n\n{code}"
        f"Read again: [{title}]({question.page}){{ .wq-again }}\n"
    )
    return (
        f'<div class="wq-question" id="{question.id}" markdown>\n'
        f"<form markdown>\n<fieldset markdown>\n<legend markdown>{question.ask}</legend>\n"
        f"<ul markdown>\n{choices}\n</ul>\n</fieldset>\n"
        '<div><button class="md-button">Check</button><p role="status"></p></div>\n</form>\n\n'
        f'??? success "Answer"\n\n{textwrap.indent(answer, "    ")}\n</div>\n'
    )


def _choice(choice: str, number: int, question: Question) -> str:
    right = ' class="wq-right"' if choice == question.answer else ""
    return (
        f'<li{right} markdown><label><input type="radio" name="{question.id}" value="{number}" '
        f"required><span>{_shown(choice, question)}</span></label></li>"
    )


def _shown(choice: str, question: Question) -> str:
    return f"`{choice}`" if question.code else choice
