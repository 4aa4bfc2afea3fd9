"""A sentence with symbols that follow the reader's choice leaves shapes and sides to the build."""

import re
from html.parser import HTMLParser

import pytest

from qkv import notation
from qkv_site.markdown import formulas, sentences


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("The weight {{W_Q[i]}} is {{d_model}} × {{d_k}}.", ["×", "{{shape(...)}}"]),
        ("It is 512 × 64, as {{W_Q[i]}} has to be.", ["×"]),
        ("Each row of {{X_Q}} is a token.", ["'row'", "tie the symbols"]),
        ("| {{W_O}} | rows of {{W_O}} |", ["'rows'"]),
        ("- {{W_Q[i]}} stands on the\n  right of it.", ["'on the right'"]),
        ("Transposed, {{W_Q[i]}} fits.", ["'Transposed'"]),
        ('```python exec="on" title="A row has {{d_k}} numbers."\nassert 1\n```', ["'row'"]),
    ],
)
def test_what_follows_the_notation_is_not_typed(text, parts):
    (fault,) = sentences.faults(f"---\ntitle: A\n---\n\n{text}\n")
    assert fault[0] == 5
    assert re.search(".*".join(map(re.escape, parts)), fault[1], re.DOTALL)


@pytest.mark.parametrize(
    "text",
    [
        "The weight {{site: W_Q[i]}} is 512 × 64, and each row of {{site: X_Q}} is a token.",
        'The {{"rows"}} of {{X_Q}} are tokens.',
        "Its shape is {{shape(W_Q[i])}}. Rows and columns are a convention: 512 × 64.",
        "{{W_Q[i]}} is stored in `rows × columns`. See [it](a-row.md).",
        "```text\n{{X_Q}} × rows\n```",
    ],
)
def test_what_is_tied_or_written_by_the_build_may_stand(text):
    assert not list(sentences.faults(text))


class Said(HTMLParser):
    """Of each shape in a page's sentences and of each legend: whose, in which notations, what."""

    def __init__(self):
        super().__init__()
        self.shapes, self._open, self._notations = [], [], []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "data-in" in attributes:
            self._notations.append((tag, len(self._open), attributes["data-in"].split()))
        self._open.append(tag)
        if "data-shape" in attributes:
            self.shapes.append([attributes["data-shape"], self._in(), "", len(self._open)])

    def handle_endtag(self, tag):
        while self._open and self._open.pop() != tag:
            pass
        while self._notations and self._notations[-1][1] >= len(self._open):
            self._notations.pop()

    def handle_data(self, data):
        for shape in self.shapes[-1:]:
            if shape[3] <= len(self._open):
                shape[2] += data

    def _in(self):
        return self._notations[-1][2] if self._notations else None


def test_each_shape_in_a_sentence_is_that_of_the_legend(site):
    """Rendered pages, in every notation: the same role has the same shape, or the same numbers."""
    seen = 0
    for page in site.rglob("index.html"):
        said = Said()
        said.feed(page.read_text())
        for line, notations, shown, _ in said.shapes:
            if line not in {role.key for role in notation.roles()} or re.search(r"\d", shown):
                continue
            for source in notations or []:
                shape = notation.shape(line, source)
                for entry in notation.legend(line, source):
                    if entry.role.key == line:  # it has a letter, and a legend would explain it
                        assert entry.shape == shape
                expected = re.sub("<[^>]+>", "", formulas.to_mathml(shape))
                assert shown.replace(f" ({formulas.BORROWED})", "") == expected, (page, source)
                seen += 1
    assert seen
