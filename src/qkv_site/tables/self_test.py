"""The self-test: questions with one right answer each, which code answers wherever it can."""

import contextlib
import io
import itertools
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from qkv_site.figures import Figure, Letters, Tool
from qkv_site.page import PAGE
from qkv_site.run import NUMBER, said, say


@dataclass(frozen=True)
class Choice:
    """An answer on offer.

    Attributes:
        answer: The answer, as Markdown.
        why: Why it is right, or what it is instead.
    """

    answer: str
    why: str


@dataclass(frozen=True)
class Question:
    """A question, as `docs/self-test.toml` has it.

    Attributes:
        id: Its anchor.
        group: The group it belongs to.
        ask: The question, as Markdown.
        page: Where to read on: a page's file below `docs`, and an anchor.
        right: The right answer.
        wrong: The wrong answers.
        code: What finds the right answer, or shows what is said about it.
    """

    id: str
    group: str
    ask: str
    page: str
    right: Choice
    wrong: tuple[Choice, ...]
    code: str = ""

    @classmethod
    def of(
        cls,
        *,
        wrong: dict[str, str],
        why: str,
        code: str = "",
        facts: str = "",
        answer: str = "",
        **given: str,
    ) -> "Question":
        """Read an entry of the file: run its code, and compute what is an expression.

        Raises:
            ValueError: If it has not one right answer and at least two that are wrong, if the code
                finds another answer right than the one that is typed as right, or if a word of a
                reason is not true.
        """
        names = {"__name__": "self-test", "said": said}
        printed = _printed(code, names)
        exec(facts, names)
        if bool(printed) == bool(answer):
            raise ValueError(
                f"question {given['id']!r}: expected either an answer or code that prints it"
            )
        try:
            right = _choice(f"`{printed}`" if printed else answer, why, names)
            others = tuple(_choice(*entry, names) for entry in wrong.items())
        except ValueError as error:
            raise ValueError(f"question {given['id']!r}: {error}") from error
        answers = [right.answer, *(each.answer for each in others)]
        if len(set(answers)) < len(answers) or len(others) < 2:
            raise ValueError(
                f"question {given['id']!r}: {answers[0]} is right, and wrong is {answers[1:]}: "
                "expected two or more that differ from it and from each other"
            )
        found = {} if printed else {each: each == right.answer for each in answers}
        holds = {each: bool(is_true) for each, is_true in names.get("holds", {}).items()}
        if found != holds:
            raise ValueError(
                f"question {given['id']!r}: its answers are {found}, and its code finds {holds}: "
                "expected holds = {answer: whether it is true, ...}, with each answer that is typed"
            )
        return cls(right=right, wrong=others, code=code, **given)

    @property
    def choices(self) -> list[Choice]:
        """All answers on offer, in an order that does not say which is right."""
        return sorted([self.right, *self.wrong], key=lambda choice: choice.answer)


def questions() -> list[Question]:
    """All questions, in the order of the file."""
    file = _file()
    return [Question.of(group=group, **each) for group in file["groups"] for each in file[group]]


def markdown() -> str:
    """The questions as forms, each with its answer in a fold-out, for a page beside `docs`.

    Those of the first group are counted; each other group is in a fold. A script marks what is
    chosen; without it, the choices are a list. On paper the answers have a page of their own.
    """
    titles = _file()["groups"]
    numbered = [*enumerate(questions(), start=1)]
    groups = itertools.groupby(numbered, key=lambda entry: entry[1].group)
    (first, counted), *others = [(group, [*members]) for group, members in groups]
    parts = [f"## {titles[first]} {{ #group-{first} }}", str(Tool(partial(_progress, counted)))]
    parts.extend(str(Asked(*entry)) for entry in counted)
    parts.append('<section class="wq-result" aria-label="Result" hidden></section>')
    for group, members in others:
        summary = f"<summary>{titles[group]}</summary>"
        parts.append(f'<details class="wq-more" id="group-{group}" markdown>{summary}')
        parts.extend(str(Asked(*entry)) for entry in members)
        parts.append("</details>")
    parts.append(str(Tool(partial(_key, numbered))))
    return "\n\n".join(parts)


@dataclass(frozen=True)
class Asked(Figure):
    """A question with its number, and its answer below it."""

    number: int
    question: Question

    def html(self) -> str:
        """A form, and the answer in a fold-out; Markdown stands inside."""
        number, question = self.number, self.question
        choices = "\n".join(_offer(question, place) for place in range(len(question.choices)))
        answer = textwrap.indent(self._answer('\n  {{: data-choice="{}" }}'), "    ")
        return (
            f'<div class="wq-question" id="{question.id}" markdown>\n'
            '<form autocomplete="off" markdown>\n<fieldset markdown>\n'
            f'<legend markdown><span class="wq-number">{number}</span> {question.ask}</legend>\n'
            f'<ol type="A" markdown>\n{choices}\n</ol>\n</fieldset>\n'
            '<div><button class="md-button">Check</button><p role="status"></p></div>\n</form>\n\n'
            f'??? wq-solution "Answer"\n\n{answer}\n</div>'
        )

    def markdown(self, letters: Letters) -> str:
        """The question, what is on offer, and the answer."""
        choices = "\n".join(
            f"- {letter}: {choice.answer}" for _, letter, choice in _lettered(self.question)
        )
        return f"{self.number} {self.question.ask}\n\n{choices}\n\n**Answer**\n\n{self._answer()}"

    def searched(self) -> str:
        """All of it."""
        return self.markdown(str)

    def _answer(self, mark: str = "") -> str:
        """The answer, why others are wrong, each with a mark of its place, and the code."""
        question = self.question
        page, _, _ = question.page.partition("#")
        title = PAGE.get().site.pages[page].title
        code = f"```python\n{question.code.strip()}\n```\n\n" if question.code else ""
        reasons = "\n".join(
            f"- {letter}: {choice.why}{mark.format(place)}"
            for place, letter, choice in _lettered(question)
            if choice is not question.right
        )
        return (
            f"{_solution(question)}\n\n{reasons}\n\n{code}"
            f"Read on: [{title}]({question.page}){{ .wq-again }}\n"
        )


def _progress(numbered: list[tuple[int, Question]]) -> str:
    """A link to each question, which the script marks. It is built, so that nothing moves."""
    links = "".join(
        f'<li><a class="wq-open" href="#{each.id}">{number}</a></li>' for number, each in numbered
    )
    return (
        f'<section class="wq-progress" aria-label="Progress"><ol>{links}</ol>'
        f"<p>0 of {len(numbered)} answered.</p></section>"
    )


def _file() -> dict:
    return PAGE.get().site.data("self-test.toml")


def _printed(code: str, names: dict[str, object]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, names)
    return printed.getvalue().strip()


def _choice(answer: str, why: str, names: dict[str, object]) -> Choice:
    """A choice, with its expressions computed by these names; one in an answer is shown as code."""
    return Choice(
        NUMBER.sub(lambda computed: f"`{eval(computed[1], names)}`", answer),
        NUMBER.sub(lambda computed: say(eval(computed[1], names)), why),
    )


def _offer(question: Question, place: int) -> str:
    choice = question.choices[place]
    right = ' class="wq-right"' if choice is question.right else ""
    return (
        f'<li{right} markdown><label><input type="radio" name="{question.id}" value="{place}">'
        f"<span>{choice.answer}</span></label></li>"
    )


def _lettered(question: Question) -> Iterable[tuple[int, str, Choice]]:
    return ((place, "ABCDEF"[place], each) for place, each in enumerate(question.choices))


def _solution(question: Question) -> str:
    letter = next(letter for _, letter, each in _lettered(question) if each is question.right)
    return f"**{letter}: {question.right.answer}.** {question.right.why}"


def _key(numbered: list[tuple[int, Question]]) -> str:
    """All answers: on paper a teacher hands out the questions alone."""
    answers = "\n".join(
        f'<li value="{number}" markdown>{_solution(question)} '
        + " ".join(
            f"{letter}: {choice.why}"
            for _, letter, choice in _lettered(question)
            if choice is not question.right
        )
        + "</li>"
        for number, question in numbered
    )
    return (
        '<section class="wq-key" markdown>\n<p>Answers</p>\n'
        f"<ol markdown>\n{answers}\n</ol>\n</section>\n"
    )
