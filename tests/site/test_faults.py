"""What is wrong with a part of a page, and how it is said: with the page, the line and the rule.

Almost all of it is found without a build. What only a build finds, since a block has to run or a
link to be followed, stands on pages of one build.
"""

import re
import subprocess
import sys
import textwrap

import pytest
from markdown import Markdown

from qkv_site import check, page, parts
from qkv_site.page import Site
from support import question, self_test


def python(code, options=""):
    return f'```python exec="on"{options}\n{code}\n```\n'


def fence(first, *lines):
    return "\n".join([f"```{first}", *lines, "```\n"])


def indented(first, block):
    return f"{first}\n\n{textwrap.indent(block, '    ')}"


CLAIM = ' claim="{}" title="Two and two are four."'
PROVED = "assert 2 + 2 == 4"
READ = "---\nread:\n- {{id: {}, statement: S, source: T}}\n---\n# A page\n"
NO_FIT = "Q[i] = W_Q[i] @ X_Q"
PROJECTED = "Q[i] = X_Q @ W_Q[i]"

# A page without its first two lines, and what is said of it behind its name.
CHECKED = [
    # Blocks of Python, and tabs of them.
    (fence("python", "print(1)"), ":3: a block of Python that is not executed"),
    (fence('python exce="on"'), ":3: unknown option 'exce'"),
    (fence("python exec=on"), ":3: 'exec=on' is no option"),
    (fence('pyhton exec="on"'), ":3: a block of 'pyhton'"),
    (python("print(1)", ' source="sideways"'), ':3: source="sideways": expected one of'),
    (python("x = 1\nif x:\nprint(x)"), ":6: no Python: expected an indented block"),
    (python('print(1, 2, sep="-")'), ":3: sep= in print"),
    (fence('python library="keras"', 'print("no")'), ':3: library="keras": the block has not run'),
    (
        indented('=== "PyTorch"', fence('python library="pytorch"', 'print("no")')),
        ':5: library="pytorch": the block has not run as it stands',
    ),
    (
        indented('=== "Keras"', python(PROVED)),
        ":3: the tab 'Keras' has a block of this site's NumPy",
    ),
    ('=== "NumPy"\n\n    Try it.\n', ":3: the tab 'NumPy' has no block that ran"),
    (
        indented('=== "Torch"', python(PROVED)),
        ":3: a tab 'Torch': expected one of 'NumPy', 'PyTorch', 'Keras', 'Flax'",
    ),
    # Claims.
    (python(PROVED, ' claim="unstated"'), ":3: a claim without its statement"),
    (python(f"print({PROVED!r})", CLAIM.format("unproved")), ":3: a claim without an assertion"),
    (python(PROVED, CLAIM.format("No anchor")), ':3: claim="No anchor": expected words'),
    (python(PROVED, ' cite="Euclid"'), ":3: cite without a claim"),
    (
        python(PROVED, CLAIM.format("ours").replace("Two and two", "Keras' biases")),
        ":3: claim 'ours' is about a library",
    ),
    (python(PROVED, CLAIM.format("made-before")), r"(:\d+)?: claim 'made-before' is made in 0-fir"),
    # Formulas.
    (fence("formula", "", PROJECTED, NO_FIT), r":6: formula `Q\[i\] = W_Q.*\(13, 3\).*\(7, 13\)"),
    (
        fence("formula", "X_Q @ W_Q[i] == X_K @ W_K[i]"),
        r":4: formula .*has shape \(7, 3\).*has shape \(11, 3\)",
    ),
    (
        fence("diagram", PROJECTED, "", "X_Q @ W_Q[i]", "== X_Q @ W_K[i]"),
        ":6: formula ",
    ),
    (fence("formula", "Z @ W_Q[i]"), ":4: formula .*Z is not a role"),
    (fence("formula", "__import__('os')"), ":4: formula .*is not part of a formula"),
    (fence('formula in="nobody"', "X_Q"), ":3: 'nobody' is not a source"),
    (
        fence("formula", PROJECTED, f"{PROJECTED} + b_Q[i]"),
        r":4: formula `Q\[i\] = X_Q @ W_Q\[i\]`: .*not beside `Q\[i\] = X_Q @ W_Q\[i\] \+ b_Q",
    ),
    ("So {{Q[i] @ K[i]}} is\n", r":3: formula `Q\[i\] @ K\[i\]`: .*\(7, 3\).*\(11, 3\)"),
    ("So {{W_Q[i]}} is 512 × 64.\n", ":3: a typed shape or product"),
    ("So {{X_Q}} has a row for each query.\n", ":3: 'row' follows the notation"),
    (
        "So {{X_Q}}, `X_Q`, is the decoder's.\n{{X_K}} is not.\n",
        r":3: `X_Q` and `X_K` stand together, and Illustrated Transformer writes both \$X\$",
    ),
    (
        python(PROVED, ' claim="sided" title="{{X_Q}} has a row for each query."'),
        ":3: 'row' follows the notation",
    ),
    # Diagrams and maps.
    (fence("diagram", PROJECTED, NO_FIT), r":5: formula `Q\[i\] = W_Q.*\(13, 3\).*\(7, 13\)"),
    (fence('diagram in="nobody"', "X_Q"), ":3: 'nobody' is not a source"),
    (fence('diagram size="h=5"', "X_Q"), ":3: unknown option 'size'"),
    (fence('diagram sizes="d_q=3"', "X_Q"), ":3: sizes has 'd_q=3': expected name=number"),
    (fence('diagram sizes="d_k=0"', "X_Q"), ":3: sizes has 'd_k=0': expected name=number"),
    (fence('diagram sizes="a: width=4"', "X_Q"), ":3: sizes has 'width=4': expected name=number"),
    (fence('diagram sizes="h=5 h_kv=2"', "X_Q"), ":3: h=5 heads cannot share h_kv=2 evenly"),
    (fence('diagram sizes="a: h=4; b: h=4 h_kv=3"', "X_Q"), ":3: h=4 heads cannot share h_kv=3"),
    (
        fence('diagram sizes="n_q=2 n_k=6"', "X_Q @ X_K.T"),
        ":3: n_q=2 and n_k=6 are not drawn in the letters of Illustrated Transformer",
    ),
    (fence('diagram kept="K"', "K[i] == K[i]"), r":3: .*write K\[i\]"),
    (fence('diagram words="named"', "X_Q"), ":3: words=\"named\": expected one of 'numbered'"),
    (
        fence('diagram words="numbered" sizes="n_q=3 n_k=2"', "K[i] == K[i]"),
        ":3: n_q=3 queries cannot be those of the last",
    ),
    (fence("map", "X_Q"), ":4: a map has no lines"),
    (fence('map state="read"'), ":3: state=\"read\": expected one of 'code', 'paper', 'sound'"),
    # The live layer.
    (fence('live state="step=query"'), ":3: .*names assets/live.css under styles"),
    (fence('live state="step=dance"'), ":3: the live layer has no step=dance"),
    (fence('live state="step=query"', "X"), ":4: a live layer has no lines"),
    (fence("live"), ":3: .*the whole layer stands on start/watch-one-word.md"),
    # What leads to a place, and to a package.
    ("[gone](#gone)\n", ":3: '#gone': nothing there has the id 'gone'"),
    (
        "Run `pip install which_q-0.1.0+01234567-py3-none-any.whl`.\n",
        ":3: this build has no wheel which_q-0.1.0",
    ),
    # Fences of any kind.
    (
        f"```formula\n{PROJECTED}\n",
        ":3: a fence that no line closes: expected ``` as far to the right as it begins",
    ),
    (
        indented('??? note "A note"', fence("formulas", "X_Q")),
        ":5: a block of 'formulas': expected one of .*'formula'",
    ),
    (fence("", "X_Q"), ":3: a block of no language"),
]
FRONT_MATTER = [
    ("title: [a\n", ":3: this is no YAML: "),
    ("- a\n", r":2: \['a'\]: expected lines such as title: "),
    ("title: [a]\n", r":2: title is \['a'\]: expected a text"),
    ("title: A\ntags: 5\n", ":3: tags is 5: expected a list of texts"),
    (
        "read:\n- {id: a, statement: S}\n",
        r":2: read is \[.*\]: expected a list of statements, each with id, statement",
    ),
    ("titel: A\n", ":2: nothing reads 'titel': expected one of .*title"),
    ("title: A\nmap: W_Q[i] M[i]\n", r":3: the map has no part 'M\[i\]'"),
]

WITHOUT_FAULT = (
    "# A page\n\nSo {{Q[i]}} is $x$, see [there](index.md).\n\n"
    "Here {{X_Q}} goes in.\n\nThere {{X_K}} does, {{site: X_K}} and {{site: X_V}}.\n\n"
    + fence('diagram in="site" sizes="n_q=2 n_k=6"', "X_Q @ X_K.T")
    + f"\n{fence('formula', PROJECTED)}\n{fence('diagram', PROJECTED)}\n"
    + python(PROVED, CLAIM.format("proved") + ' cite="Euclid"')
)
MADE_BEFORE = "# A page\n\n" + python("kept = 41\n" + PROVED, CLAIM.format("made-before"))


@pytest.mark.parametrize(("text", "message"), CHECKED, ids=[said for _, said in CHECKED])
def test_the_page_and_the_line_of_a_fault_are_named(faults, text, message):
    found = faults({"0-first.md": MADE_BEFORE, "page.md": f"# A page\n\n{text}"})
    assert any(re.match(rf"page\.md{message}", each) for each in found), found


@pytest.mark.parametrize(("entries", "message"), FRONT_MATTER)
def test_front_matter_is_as_it_is_read(faults, entries, message):
    [found] = faults({"page.md": f"---\n{entries}---\n# A page\n"})
    assert re.match(rf"page\.md{message}", found), found


def test_two_pages_cannot_make_a_claim_of_the_same_name_though_one_was_only_read(faults):
    [found] = faults({"a.md": MADE_BEFORE, "b.md": READ.format("made-before")})
    assert found == "b.md:3: claim 'made-before' is made in a.md [claim]"


def test_a_page_without_a_fault_has_none(faults):
    assert faults({"page.md": WITHOUT_FAULT}) == []
    assert check.site(Site()) == []


def test_a_check_prints_each_fault_and_fails(tmp_path):
    command = [sys.executable, "-m", "qkv_site", "check", tmp_path]
    (tmp_path / "page.md").write_text(f"# A page\n\n{fence('map', 'X_Q')}")
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.stdout == "page.md:4: a map has no lines: it draws those of the layer [map]\n"
    assert ran.returncode == 1
    (tmp_path / "page.md").unlink()
    ran = subprocess.run(command, capture_output=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


NEW_KIND = """
from qkv_site.page import Fence


class Shout(Fence):
    languages = ("shout",)
    options = {"times": None}
    rule = "shout"

    def inside(self):
        if not self.code.strip():
            yield -1, "nobody shouts nothing"

    def html(self):
        return "<p>" + self.code.strip().upper() * int(self.given.get("times", 1)) + "</p>"
"""


@pytest.fixture
def new_kind(tmp_path, monkeypatch):
    """A kind of fence that is one file beside those of this site."""
    (tmp_path / "shout.py").write_text(NEW_KIND)
    monkeypatch.setattr(parts, "__path__", [*parts.__path__, str(tmp_path)])
    page.kinds.cache_clear()
    yield
    page.kinds.cache_clear()
    del sys.modules["qkv_site.parts.shout"]


def test_a_new_kind_of_fence_is_one_file(new_kind, faults):
    text = "# A page\n\n" + fence('shout times="2"', "hey")
    text += "\n" + python('print("```shout\\nprinted\\n```")')
    assert faults({"page.md": text}) == []
    with page.writing(page.parse("page.md", text)) as written:
        shown = Markdown(extensions=["pymdownx.superfences", "qkv_site.write.html"]).convert(text)
    assert "<p>HEYHEY</p>" in shown
    assert "<p>PRINTED</p>" in shown
    assert [each.language for each in written.fences()] == ["shout", "python"]
    for first, said in {
        'shout loud="2"': "unknown option 'loud': expected one of 'times' [shout]",
        "shout": "nobody shouts nothing [shout]",
    }.items():
        assert f"page.md:3: {said}" in faults({"page.md": f"# A page\n\n{fence(first)}"})


# What only a build finds: a page without its first two lines, and what is said behind its name.
BUILT = [
    (python("assert 2 + 2 == 5"), r":3'.*\n(.*\n)*?.*AssertionError"),
    (python("assert 2 + 2 == 5", CLAIM.format("untrue")), r":3'.*\n(.*\n)*?.*AssertionError"),
    (python("raise SystemExit(0)"), r":3: the block called sys\.exit\(0\)"),
    (python("print(kept)"), r":3'(.*\n)*?.*NameError: name 'kept'"),  # another page's
    (
        indented('!!! note "A note"', python("1 / 0")),
        r":5'(.*\n)*?.*ZeroDivisionError",
    ),
    ("[gone](gone.md)\n", r".*'gone\.md'.*not found"),
    ("[gone](#gone)\n", ".*'#gone'"),
    (python('print("[so](nowhere.md)")'), r".*'nowhere\.md'.*not found"),
    (python('print("[so](claims.md#no-such-claim)")'), r".*'claims\.md#no-such-claim'"),
    (r"Where $\nosuchcommand{x}$ stands.", r": LaTeX error in '\\\\nosuchcommand\{x\}'"),
    (
        python("print('It need not be {{d_k}}: {{d_v}} is free.')"),
        r":4: `d_k` and `d_v` stand together, and ViT paper writes both \$D_h\$",
    ),
    (
        python("pair, one = 3, 5") + '\nIt is\n{{= said("larger", pair, one) }}.\n',
        r':8: said\("larger", pair, one\) fails \[sentence\]',
    ),
    (
        '## B { #b }\n\n```asked id="nowhere"\nto c\n```\n',
        ":5: lines for 'nowhere'; the page's headings are b",
    ),
    *(
        (f"{stopped}\n", ": .*Content-Security-Policy")
        for stopped in (
            "<style>a {}</style>",
            '<button onclick="go()">Go</button>',
            '<a href="javascript:go()">Go</a>',
            '<img src="https://example.org/a.png" alt="">',
        )
    ),
]
REDIRECTS = {
    '"old" = "gone.md"': "'old' leads to 'gone.md', and there is no",
    '"older" = "checked.md#gone"': "'older' leads to 'checked.md#gone', and nothing",
    '"checked" = "0-first.md"': "'checked' is a page itself",
    '"old/" = "checked.md"': "'old/' has to be an address without a slash",
    '"oldest" = 5': "'oldest' has to lead to a page",
    '"typo" = { too = "checked.md" }': "'typo' has to lead to a page",
    '"part" = { to = "checked.md", headings = { a = "#lost" } }': "'part' leads to 'checked.md",
}
OTHERS = self_test(
    question("no-heading", page="0-first.md#nowhere"),
    question("no-formula", ask="How many are {{Q[i] @ Q[i]}}?", page="0-first.md"),
) | {
    "claims.md": "# Ledger\n\n"
    + python("from qkv_site.markdown import evidence\n\nprint(evidence.counted())"),
    "redirects.toml": "\n".join(REDIRECTS),
    "0-first.md": MADE_BEFORE,
    "threads/index.md": "# Threads\n\n[One](one.md)\n",
    "threads/one.md": "# One\n\n" + python("print(1)", ' source="above"') + python("assert 0"),
    "without-fault.md": WITHOUT_FAULT,
    "checked.md": "# A page\n\n" + fence('python exce="on"'),
}


@pytest.fixture(scope="module")
def said(build):
    """What one build says of all faults."""
    pages = {f"built-{n}.md": f"# A page\n\n{text}" for n, (text, _) in enumerate(BUILT)}
    built = build(OTHERS | pages)
    assert built.returncode == 1, built.stdout
    return built.stdout


@pytest.mark.parametrize("number", range(len(BUILT)))
def test_what_a_build_finds_is_named_too(said, number):
    assert re.search(rf"built-{number}\.md{BUILT[number][1]}", said), said


def test_a_build_begins_with_the_check_and_names_no_page_without_a_fault(said):
    before, found, _ = said.partition("checked.md:3: unknown option 'exce'")
    assert found
    assert "AssertionError" not in before
    assert "without-fault.md" not in said


@pytest.mark.parametrize("number", range(len(REDIRECTS)))
def test_a_redirect_to_nowhere_is_named(said, number):
    message = [*REDIRECTS.values()][number]
    assert f"redirects.toml:{number + 1}: {message}" in said


def test_a_notebook_without_all_its_outputs_is_named(said):
    expected = "threads/one.md: its notebook has not all outputs: 1 blocks ran to their end, of 2"
    assert expected in said


def test_a_faulty_question_of_the_self_test_is_named(said):
    assert re.search(r"index\.md.*'0-first\.md#nowhere'", said), said
    assert "formula `Q[i] @ Q[i]`" in said


@pytest.mark.parametrize(("text", "message"), [CHECKED[0], BUILT[0]])
def test_one_fault_is_enough(build, text, message):
    built = build({"index.md": "# Home\n", "page.md": f"# A page\n\n{text}"})
    assert built.returncode == 1, built.stdout
    assert re.search(rf"page\.md{message}", built.stdout), built.stdout
