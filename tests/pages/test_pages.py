"""Every page's blocks run again, in order, in a fresh namespace; and their assertions bite."""

import ast
import contextlib
import copy
import io
import re
import sys
from functools import cache

import pytest

from qkv_site.page import Heading, Site, parse
from qkv_site.parts.folds import Fold
from qkv_site.parts.python import Python
from qkv_site.run import NUMBER as SENTENCE
from qkv_site.run import blocks_of

# A page shows what a reader gets to see, and to a reader annotations are not enforced.
pytestmark = pytest.mark.usefixtures("unchecked")

READ = Site().pages
PAGES = {name: blocks_of(page) for name, page in READ.items()}
EXECUTED = {page: found for page, found in PAGES.items() if found}


class _Increment(ast.NodeTransformer):
    """Add one to the n-th whole number that is compared with `==`."""

    def __init__(self, n):
        self.left = n
        self.in_equality = False

    def visit_Compare(self, node):
        before, self.in_equality = self.in_equality, any(isinstance(o, ast.Eq) for o in node.ops)
        self.generic_visit(node)
        self.in_equality = before
        return node

    def visit_Constant(self, node):
        if self.in_equality and type(node.value) is int:
            self.left -= 1
            if self.left == -1:
                return ast.copy_location(ast.Constant(node.value + 1), node)
        return node


def changed(test):
    """The test of an assertion once for each of its numbers, with that number changed."""
    counter = _Increment(-1)
    counter.visit(copy.deepcopy(test))
    for n in range(-1 - counter.left):
        yield _Increment(n).visit(copy.deepcopy(test))


class _Probes(ast.NodeTransformer):
    """Before each assertion, try it with each of its numbers changed: `_probe(key, lambda: ...)`.

    Attributes:
        numbers: Of each key, the assertion with the number changed, and its line.
    """

    def __init__(self):
        self.numbers = {}

    def visit_Assert(self, node):
        return [*(self.probe(test, node) for test in changed(node.test)), node]

    def probe(self, test, node):
        key = len(self.numbers)
        self.numbers[key] = f"line {node.lineno}: assert {ast.unparse(test)}"
        call = ast.parse(f"_probe({key}, lambda: None)").body[0]
        call.value.args[1].body = test
        return ast.copy_location(call, node)


@cache
def replayed(page):
    """A page's blocks, run once for all tests of them."""
    return replay(page, EXECUTED[page])


def replay(page, found):
    """Run a page's blocks, and change each number that they assert.

    Returns:
        The changes that no assertion would notice, and what each block printed.
    """
    probes, noticed, said = _Probes(), set(), []

    def probe(key, holds):
        if key not in noticed and not holds():
            noticed.add(key)

    namespace = {"__name__": page, "_probe": probe}
    for block in found:
        tree = ast.parse("\n" * block.line + block.code)  # a traceback names the page's own lines
        compiled = compile(ast.fix_missing_locations(probes.visit(tree)), page, "exec")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compiled, namespace)
        said.append(printed.getvalue().strip())
    return [number for key, number in probes.numbers.items() if key not in noticed], said


NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)?")
SHAPE = re.compile(r"\d+(?: × \d+)+")
# A number that is part of a name or of a formula counts nothing, nor does the seed of a block.
_NAME = re.compile(
    r"\b[A-Za-z]\w*-\d[\w.]*|\b\d+(?!e-?\d)[A-Za-z]\w*|\bequation \(\d\)", re.IGNORECASE
)
_SEED = re.compile(r"default_rng\(\d+\)")
_WORDS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_TIMES = re.compile(rf"\b({'|'.join(_WORDS)})(?= times)")
_POWER = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


def numbers(text):
    """The numbers in a text, however they are written: 1,024 is 1_024, and 10⁹ is 1e9."""
    text = re.sub(r"(?<=\d)[,_](?=\d{3})", "", text)
    text = re.sub(r"10([⁰¹²³⁴⁵⁶⁷⁸⁹]+)", lambda power: f"1e{power[1].translate(_POWER)}", text)
    return {float(number) for number in NUMBER.findall(text)}


def unfounded(statement, shown):
    """The numbers and shapes of a statement that stand neither in its block nor in its output."""
    plain = _TIMES.sub(lambda word: str(_WORDS[word[1]]), _NAME.sub("", statement))
    shown = _SEED.sub("", shown)
    shapes = {shape.replace(" × ", ", ") for shape in SHAPE.findall(plain)}
    return [
        *sorted(numbers(plain) - numbers(shown)),
        *sorted(shape for shape in shapes if not re.search(rf"\b{shape}\b", shown)),
    ]


# Not sentences: front matter, headings, who writes it how, addresses, code, mathematics.
_ELSEWHERE = re.compile(
    r"\A---\n.*?\n---\n|^## Who .*?(?=^## |\Z)|^#.*?$|\]\([^)]*\)|`[^`\n]*`|\{.*?\}\}?|\$[^$]*\$",
    re.DOTALL | re.MULTILINE,
)
# What a number only names: a place in a text, a version, a year, a minute.
_PLACE = re.compile(
    r"\b(?:sections?|pages?|lines?|commit|equations?|formulas|footnote|issues?|threads?|arXiv|week"
    r"|exercise|head|in|version|video|request|question|Validated|Exchange,|PyTorch|Keras|Transformers"
    r"|Flax)"
    r" \(?[\d.]+\w*\)?(?:(?:,| to| and) \(?[\d.]+\)?)*|\b(?:19|20)\d\d\b|\d+:\d\d|#\d+",
    re.IGNORECASE,
)
LISTS = ("libraries/", "reference/")  # what is stored where, read in the libraries
# Numbers of a source that no block needs; the sentence names the source.
GIVEN = {
    "explanation/counting.md": {48},  # layers of Qwen3-Next
    "explanation/grouped-and-latent-heads.md": {4096},  # a Llama
    "explanation/how-many-heads.md": {8, 32},  # the paper's table 3, rows A
    "explanation/square-or-rectangular.md": {16, 128, 1024},  # Qwen3-0.6B
    "explanation/widths.md": {192, 2560, 32},  # DeepSeek-V3, Qwen3-4B
    "how-to/convert.md": {1e-5},  # of the tests on real layers, and a tab
    "how-to/weights-out-of-a-checkpoint.md": {1e-5},  # of the tests on real layers
}


def numbers_in_sentences(page):
    """The numbers that the sentences of a page type, places and versions apart."""
    text = _ELSEWHERE.sub("", page.prose())
    return numbers(_NAME.sub("", _PLACE.sub("", " ".join(text.split()))))


@pytest.mark.parametrize("page", [page for page in EXECUTED if not page.startswith(LISTS)])
def test_a_number_in_a_sentence_stands_in_a_block_or_is_given(page):
    _, said = replayed(page)
    shown = "\n".join([*(block.code for block in EXECUTED[page]), *said])
    shown = re.sub(r'data-set="\d+"', "", shown)  # these count on from page to page
    asked = numbers(" ".join(re.findall(r"^\?\?\? .*?$", READ[page].text, re.MULTILINE)))
    found = numbers_in_sentences(READ[page]) - numbers(_SEED.sub("", shown)) - asked
    assert found == GIVEN.get(page, set())


def made(code):
    """The names that code gives, to functions too."""
    walked = [*ast.walk(ast.parse(code))]
    functions = {each.name for each in walked if isinstance(each, ast.FunctionDef)}
    names = [each for each in walked if isinstance(each, ast.Name)]
    return functions | {each.id for each in names if isinstance(each.ctx, ast.Store)}


@pytest.mark.parametrize("page", EXECUTED)
def test_blocks_run_and_each_asserted_number_matters(page):
    unnoticed, said = replayed(page)
    assert unnoticed == []
    blocks_and_output = list(zip(EXECUTED[page], said, strict=True))
    silent = [block for block, printed in blocks_and_output if not printed]
    said = ast.walk(ast.parse("\n".join(SENTENCE.findall(READ[page].prose()))))
    of_sentences = {each.id for each in said if isinstance(each, ast.Name)}
    finding = [block for block in silent if not block.shown and "print(" not in block.code]
    assert [block.line for block in finding if not made(block.code) & of_sentences] == []
    assert not any(block.shown for block in silent) or not page.startswith("explanation/")
    for block, printed in blocks_and_output:
        if "claim" in block.given:
            title = block.given["title"]
            assert unfounded(title, f"{block.code}\n{printed}") == [], title


SHOWN = "default_rng(7)\nW.shape == (8, 512, 64)\nn = 1_024\nx = -1e9\n2.50"


def planted(*codes):
    return [Python(1, 1, given={"exec": "on"}, code=code) for code in codes]


def test_a_number_without_ground_or_that_does_not_matter_is_found():
    text = "In section 3.2, since 2017 (2:15), {{d_k}} is {{= d_k }} and not\n65, with 1,024."
    assert numbers_in_sentences(parse("page.md", text)) == {65, 1024}
    for statement, missing in {
        "The weight is 512 × 64, of 1,024.": [],
        "At 10⁹ and 3E, GPT-2 in equation (1) takes 2.5 times as many.": [],
        "It has 7 of them.": [7],
        "It has four times as many, 65 of them.": [4, 65],
        "The weight is 64 × 512.": ["64, 512"],
    }.items():
        assert unfounded(statement, SHOWN) == missing
    blocks = planted("two = 1 + 1\n", "assert two == 2 or True\nassert (two, 3) == (2, 3)\n")
    assert replay("a page", blocks)[0] == ["line 2: assert two == 3 or True"]
    # It is enough that one turn of a loop notices it.
    blocks = planted("for n in (2, 3):\n    assert n == 2 or n == 3\n")
    assert replay("a page", blocks)[0] == []


def test_every_block_that_says_it_runs_is_found():
    for page, found in PAGES.items():
        fences = [line for line in READ[page].text.splitlines() if 'exec="on"' in line]
        assert len(found) == sum(line.lstrip().startswith("```python ") for line in fences), page


SHOWN_IN_PART = [
    page for page, found in EXECUTED.items() if 0 < sum(block.shown for block in found) < len(found)
]


@pytest.mark.parametrize("page", SHOWN_IN_PART)
def test_what_a_reader_sees_runs_without_what_is_hidden(page):
    """A hidden block draws or finds facts; who copies the others has all they need."""
    names = {"__name__": page}
    with contextlib.redirect_stdout(io.StringIO()):
        for block in EXECUTED[page]:
            if block.shown:
                exec(block.code, names)


# What a reader pastes into other code: the blocks below such a heading, or in such a fold.
TO_PASTE = re.compile(r"\bcheck (?:to paste|for your own code)\b", re.IGNORECASE)


def to_paste(page):
    """The blocks that a page offers for pasting, each with the heading or the fold that says so."""
    found = {}
    for part in page.parts:
        if isinstance(part, (Heading, Fold)) and TO_PASTE.search(part.title):
            inside = page.below(part.id) if isinstance(part, Heading) else [part]
            lines = {each.line for it in inside for each in it.walk()}
            found[part.title] = [block for block in blocks_of(page) if block.line in lines]
    return found


def why_not_alone(block):
    """Why somebody who pastes a block into an empty file has not all it needs; empty if all."""
    first = ast.parse(block.code).body[0]
    if not isinstance(first, ast.Import | ast.ImportFrom):
        return f"begins with {ast.unparse(first).splitlines()[0]!r}, expected its imports"
    imported = re.findall(r"^(?:import|from) (\w+)", block.code, re.MULTILINE)
    if others := {*imported} - {"numpy", "qkv"} - sys.stdlib_module_names:
        return f"imports {sorted(others)}, expected numpy and qkv alone"
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(block.code, {"__name__": "pasted"})
    except NameError as error:
        return f"needs other blocks of the page: {error}"
    return ""


PASTED = {page: found for page in PAGES if (found := to_paste(READ[page]))}


@pytest.mark.parametrize("page", PASTED)
def test_a_block_to_paste_runs_alone(page):
    for title, found in PASTED[page].items():
        assert found, f"{page}, {title}: no block"
        faults = {block.line: fault for block in found if (fault := why_not_alone(block))}
        assert faults == {}, f"{page}, {title}"


def test_pages_have_blocks_to_paste_and_one_that_does_not_run_alone_is_found():
    assert {"symptoms/scale.md", "explanation/may-i-merge.md"} <= PASTED.keys()
    symptoms = {page for page in PAGES if page.startswith("symptoms/")}
    assert symptoms - PASTED.keys() == {"symptoms/index.md"}
    for code, fault in {
        "import numpy as np\n\nassert np.pi > 3\n": "",
        "def f():\n    return 1\n": "begins with 'def f():', expected its imports",
        "import math\n\nabs(x)\n": "needs other blocks of the page: name 'x' is not defined",
        "import torch\n": "imports ['torch'], expected numpy and qkv alone",
    }.items():
        assert why_not_alone(*planted(code)) == fault
