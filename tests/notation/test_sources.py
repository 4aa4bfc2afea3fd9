"""Each file of a source is whole, cited, and writes every formula of the site."""

from importlib.resources import files

import pytest

from notation.formulas import BLOCKS, FORMULAS
from qkv.notation import (
    check,
    grouped_sources,
    legend,
    parse_source,
    role,
    roles,
    shape,
    source,
    sources,
    typeset,
)
from support import refuses

FILES = sorted(
    path.name
    for path in files("qkv.notation").joinpath("sources").iterdir()
    if path.name.endswith(".toml")
)


@pytest.fixture(scope="module")
def latex_to_mathml():
    return pytest.importorskip("math_core").LatexToMathML().convert_with_local_state


def test_each_file_is_a_source_and_this_site_comes_first():
    assert sorted(f"{each.id}.toml" for each in sources()) == FILES
    assert sources()[0].id == "site"
    assert len({each.short for each in sources()}) == len(FILES)


def test_each_source_stands_in_one_group_and_hints_tell_those_of_one_apart():
    groups = grouped_sources()
    assert sorted(each.id for group in groups.values() for each in group) == sorted(
        each.id for each in sources()
    )
    assert next(iter(groups.values())) == (source("site"),)
    for group in groups.values():
        hints = [each.hint for each in group if each.hint]
        assert len(hints) == len({*hints})
        assert len(hints) in (0, len(group))


def test_a_hint_says_what_the_letter_q_stands_for():
    for each in sources():
        if each.hint:
            stands_for = {"q is already mapped": "Q[i]", "q goes in": "X_Q"}[each.hint.lower()]
            assert each.letter(role(stands_for)) == each.hint[0]


def test_the_site_names_everything():
    assert set(source("site").letters) == {each.key for each in roles()}


LINES = [*FORMULAS, *(line for lines in BLOCKS for line in lines)]


def test_letters_shapes_and_formulas_are_mathematics(latex_to_mathml):
    for chosen in sources():
        for latex in (
            *(chosen.letter(each) for each in roles()),
            *(shape(each.key, chosen) for each in roles() if each.shape),
            *(typeset(line, chosen) for line in LINES),
        ):
            latex_to_mathml(latex, displaystyle=True)  # raises what math-core does not understand


def test_a_borrowed_letter_is_said_to_be_one():
    for chosen in sources():
        for line in LINES:
            for entry in legend(line, chosen):
                own = chosen.names(entry.role)
                assert entry.borrowed == (not own) or _says_another_thing(entry.role, line, chosen)


def _says_another_thing(entry_role, line, chosen):
    """Whether the source's letter would not do: it tells no heads, or not X from what maps it."""
    one_letter = chosen.letter(entry_role) == chosen.letter(role("X"))
    return ("P_" in line and one_letter) or not chosen.tells_heads_apart(entry_role)


@pytest.mark.parametrize("chosen", sources(), ids=lambda chosen: chosen.id)
def test_what_is_unnamed_has_a_reason(chosen):
    for each in chosen.unnamed:
        assert each.why.endswith(".")
        assert not any(chosen.names(role(key)) for key in each.roles)


WHOLE = """
title = "A text"
short = "A text"
group = "Textbooks"
author = "An author"
year = 2026
where = "page 7"
link = "https://example.org/"
read = "the first edition"
tokens = "columns"
checked = true
index = "j"

[letters]
X_Q = "a"
"W_Q[i]" = { latex = "M_{j}", where = "page 11" }
"""


def test_a_new_source_is_a_new_file():
    new = parse_source("new", WHOLE)
    assert typeset("Q[i] = X_Q @ W_Q[i]", new) == "M_j a"
    assert new.letters["W_Q[i]"].where == "page 11"


@pytest.mark.parametrize(
    ("entry", "instead", "parts"),
    [
        ('title = "A text"', "", ["title"]),
        ('title = "A text"', "title =", ["Invalid value"]),
        ('title = "A text"', 'title = ""', ["title must not be empty"]),
        ('where = "page 7"', 'where = ""', ["where must not be empty", "cited"]),
        ('"Textbooks"', '"Novels"', ["group is one of This site", "'Novels'"]),
        ("year = 2026", 'year = "2026"', ["year has to be a int", "'2026'"]),
        ('index = "j"', 'index = "j"\ncolour = "red"', ["colour"]),
        ('index = "j"', 'index = "j"\nfirst_heads = [1, 2]', ["first_heads has to be two of str"]),
        ("https://", "", ["link has to begin with https://"]),
        ('"columns"', '"column"', ["tokens is rows or columns, not 'column'"]),
        ('"columns"', '"rows"\nupright = ["A[i]"]', ["upright has a meaning with columns"]),
        ('X_Q = "a"', 'X_R = "a"', ["X_R is not a role"]),
        ('X_Q = "a"', 'Q = "a"', ["Q is not a role", "write Q[i]"]),
        (
            'X_Q = "a"',
            'X_Q = "M_{j}"',
            ["M_{j} stands for X_Q, source of the queries, and for W_Q[i], one head's weight"],
        ),
        ('X_Q = "a"', 'X_Q = "a"\n"X X_Q" = "b"', ["A role has two letters"]),
        ('X_Q = "a"', "X_Q = 7", ["X_Q: latex has to be a str, but is 7"]),
        ('where = "page 11"', 'page = "11"', ["page"]),
        ("checked = true", "checked = false", ["note has to say what was not checked"]),
        ('"page 11"', '"page 11", checked = false', ["checked is true, but not for W_Q[i]"]),
        ("[letters]", '[functions]\nsigmoid = "s"\n[letters]', ["sigmoid is not a function"]),
        (
            "[letters]",
            '[unnamed]\n"S[i] X_Q" = "It has one."\n[letters]',
            ["X_Q is unnamed, and has a letter"],
        ),
        ("[letters]", '[unnamed]\nX_R = ""\n[letters]', ["X_R is not a role"]),
        ("[letters]", "[unnamed]\nX_V = 7\n[letters]", ["unnamed: why has to be a str, but is 7"]),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_a_file_that_is_not_whole_is_refused(entry, instead, parts):
    with refuses("new.toml: ", *parts):
        parse_source("new", WHOLE.replace(entry, instead, 1))


@pytest.mark.parametrize("line", ["Q[i] = X_Q @ W_Q[i]", "head[i] = A[i] @ V[i]"])
def test_a_source_may_be_given_itself(line):
    check(line)
    assert typeset(line, source("d2l")) == typeset(line, "d2l")


@pytest.mark.parametrize(
    "texts",
    [[each] for each in sources()] + [grouped_sources()["Andrew Ng's course, two videos"]],
    ids=lambda texts: " and ".join(each.id for each in texts),
)
def test_the_letter_of_a_weight_has_one_shape_in_a_text_and_in_a_course(texts):
    shapes = {}
    for text in texts:
        for weight in (each for each in roles() if each.group == "weight" and text.names(each)):
            shapes.setdefault(text.letter(weight, "i"), set()).add(shape(weight.key, text))
    assert {letter: found for letter, found in shapes.items() if len(found) > 1} == {}
