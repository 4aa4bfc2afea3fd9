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


CLAIM = ' claim="{}" title="Two and two are four."'
PROVED = "assert 2 + 2 == 4"
READ = "---\nread:\n- {{id: {}, statement: S, source: T}}\n---\n# A page\n"

# Of each fault: the page without its first two lines, and what the build has to say.
BLOCKS = {
    "a block that is not executed": (
        "```python\nprint(1)\n```\n",
        r"PAGE:3: a block of Python that is not executed",
    ),
    "a misspelt option": ('```python exce="on"\nprint(1)\n```\n', r"PAGE:3: unknown option 'exce'"),
    "words of a diagram that say nothing": (
        '```diagram words="named"\nK[i] = X_K @ W_K[i]\n```\n',
        r"""PAGE:3: words="named": expected one of 'numbered'""",
    ),
    "a misspelt value": (
        python("print(1)", ' source="sideways"'),
        r"""PAGE:3: source="sideways": expected one of""",
    ),
    "an option without quotes": (
        "```python exec=on\nprint(1)\n```\n",
        r"PAGE:3: 'exec=on' is no option",
    ),
    "a misspelt language": ('```pyhton exec="on"\nprint(1)\n```\n', r"PAGE:3: a block of 'pyhton'"),
    "a block of a library that no test ran": (
        '```python library="keras"\nprint("not recorded")\n```\n',
        r'PAGE:3: library="keras": the block has not run as it stands',
    ),
    "a tab whose block no test ran": (
        '=== "PyTorch"\n\n    ```python library="pytorch"\n    print("so")\n    ```\n',
        r'PAGE:5: library="pytorch": the block has not run as it stands',
    ),
    "a tab with the block of another framework": (
        f'=== "Keras"\n\n{textwrap.indent(python("assert 2 + 2 == 4"), "    ")}',
        r"PAGE:3: the tab 'Keras' has a block of this site's NumPy",
    ),
    "a tab without a block": (
        '=== "NumPy"\n\n    Try it.\n',
        r"PAGE:3: the tab 'NumPy' has no block that ran",
    ),
    "a tab that is linked to no other": (
        f'=== "Torch"\n\n{textwrap.indent(python("assert 2 + 2 == 4"), "    ")}',
        r"PAGE:3: a tab 'Torch': expected one of 'NumPy', 'PyTorch', 'Keras', 'Flax'",
    ),
}
LINKS = {
    "a print that would look otherwise in Python": (
        python('print(1, 2, sep="-")'),
        r"PAGE:3: sep= in print",
    )
}
CLAIMS = {
    "a claim without its statement": (
        python(PROVED, ' claim="unstated"'),
        r"PAGE:3: a claim without its statement",
    ),
    "a claim that asserts nothing": (
        python('print("assert 2 + 2 == 4")', CLAIM.format("unproved")),
        r"PAGE:3: a claim without an assertion",
    ),
    "a name that is no anchor": (
        python(PROVED, CLAIM.format("No anchor")),
        r"PAGE:3: claim=\"No anchor\": expected words",
    ),
    "a source without a claim": (python(PROVED, ' cite="Euclid"'), r"PAGE:3: cite without a claim"),
    "a claim about a library that this site's own code shows": (
        python(PROVED, CLAIM.format("ours").replace("Two and two", "Keras' biases")),
        r"PAGE:3: claim 'ours' is about a library",
    ),
    "a claim of the same name as another page's": (
        python(PROVED, CLAIM.format("made-before")),
        r"PAGE(:\d+)?: claim 'made-before' is made in 0-first\.md",
    ),
}
FORMULAS = {
    "shapes that do not fit": (
        "```formula\n\nQ[i] = X_Q @ W_Q[i]\nQ[i] = W_Q[i] @ X_Q\n```\n",
        r"PAGE:6: formula `Q\[i\] = W_Q\[i\] @ X_Q`: .*\(13, 3\).*\(7, 13\)",
    ),
    "two sides that differ": (
        "```formula\nX_Q @ W_Q[i] == X_K @ W_K[i]\n```\n",
        r"PAGE:4: formula .*has shape \(7, 3\).*has shape \(11, 3\)",
    ),
    "an unknown role": ("```formula\nZ @ W_Q[i]\n```\n", r"PAGE:4: formula .*Z is not a role"),
    "something that is no formula": (
        "```formula\n__import__('os')\n```\n",
        r"PAGE:4: formula .*is not part of a formula",
    ),
    "a formula in an unknown source": (
        '```formula in="nobody"\nX_Q\n```\n',
        r"PAGE:3: 'nobody' is not a source",
    ),
    "a wrong formula in a sentence": (
        "So {{Q[i] @ K[i]}} is\n",
        r"PAGE:3: formula `Q\[i\] @ K\[i\]`: .*\(7, 3\).*\(11, 3\)",
    ),
}
SENTENCES = {
    "lines that hold alone and not together": (
        "```formula\nQ[i] = X_Q @ W_Q[i]\nQ[i] = X_Q @ W_Q[i] + b_Q[i]\n```\n",
        r"PAGE:4: formula `Q\[i\] = X_Q @ W_Q\[i\]`: .*not beside `Q\[i\] = X_Q @ W_Q\[i\] \+ b_Q",
    ),
    "a typed shape beside a symbol": (
        "So {{W_Q[i]}} is 512 × 64.\n",
        r"PAGE:3: a typed shape or product",
    ),
    "a word of side beside a symbol": (
        "So {{X_Q}} has a row for each query.\n",
        r"PAGE:3: 'row' follows the notation",
    ),
    "two symbols that are one letter somewhere": (
        "So {{X_Q}}, `X_Q`, is the decoder's.\n{{X_K}} is not.\n",
        r"PAGE:3: `X_Q` and `X_K` stand together, and Illustrated Transformer writes both \$X\$",
    ),
    "a word of side in a claim": (
        python(PROVED, ' claim="sided" title="{{X_Q}} has a row for each query."'),
        r"PAGE:3: 'row' follows the notation",
    ),
}
DIAGRAMS = {
    "shapes that do not fit in a diagram": (
        "```diagram\nQ[i] = X_Q @ W_Q[i]\nQ[i] = W_Q[i] @ X_Q\n```\n",
        r"PAGE:5: formula `Q\[i\] = W_Q\[i\] @ X_Q`: .*\(13, 3\).*\(7, 13\)",
    ),
    "a diagram in an unknown source": (
        '```diagram in="nobody"\nX_Q\n```\n',
        r"PAGE:3: 'nobody' is not a source",
    ),
    "an unknown size": (
        '```diagram sizes="d_q=3"\nX_Q\n```\n',
        r"PAGE:3: sizes has 'd_q=3': expected name=number",
    ),
    "a size of nothing": (
        '```diagram sizes="d_k=0"\nX_Q\n```\n',
        r"PAGE:3: sizes has 'd_k=0': expected name=number",
    ),
    "two lengths where some texts have one source": (
        '```diagram sizes="n_q=2 n_k=6"\nX_Q @ X_K.T\n```\n',
        r"PAGE:3: n_q=2 and n_k=6 are not drawn in the letters of Illustrated Transformer",
    ),
    "heads that cannot be shared": (
        '```diagram sizes="h=5 h_kv=2"\nX_Q\n```\n',
        r"PAGE:3: h=5 heads cannot share h_kv=2 evenly",
    ),
    "an unknown option of a diagram": (
        '```diagram size="h=5"\nX_Q\n```\n',
        r"PAGE:3: unknown option 'size'",
    ),
}
PARTS = {
    "a fence that is not closed": (
        "```formula\nQ[i] = X_Q @ W_Q[i]\n",
        r"PAGE:3: a fence that no line closes: expected ``` as far to the right as it begins",
    ),
    "an unknown kind of fence in a fold": (
        '??? note "A note"\n\n    ```formulas\n    X_Q\n    ```\n',
        r"PAGE:5: a block of 'formulas': expected one of .*'formula'",
    ),
    "a fence without a language": ("```\nX_Q\n```\n", r"PAGE:3: a block of no language"),
    "a block that is no Python": (
        python("x = 1\nif x:\nprint(x)"),
        r"PAGE:6: no Python: expected an indented block",
    ),
    "lines in a map": ("```map\nX_Q\n```\n", r"PAGE:4: a map has no lines"),
    "a state that the map does not have": (
        '```map state="read"\n```\n',
        r"""PAGE:3: state="read": expected one of 'code', 'paper', 'sound'""",
    ),
}
CHECKED = BLOCKS | LINKS | CLAIMS | FORMULAS | SENTENCES | DIAGRAMS | PARTS
FRONT_MATTER = {
    "lines that are no YAML": ("title: [a\n", r"page\.md:3: this is no YAML: "),
    "lines that are no entries": ("- a\n", r"page\.md:2: \['a'\]: expected lines such as title: "),
    "a list for a text": ("title: [a]\n", r"page\.md:2: title is \['a'\]: expected a text"),
    "a number for a list": (
        "title: A\ntags: 5\n",
        r"page\.md:3: tags is 5: expected a list of texts",
    ),
    "a statement without its source": (
        "read:\n- {id: a, statement: S}\n",
        r"page\.md:2: read is \[.*\]: expected a list of statements, each with id, statement",
    ),
    "a misspelt key": ("titel: A\n", r"page\.md:2: nothing reads 'titel': expected one of .*title"),
    "a part of the layer that the map does not have": (
        "title: A\nmap: W_Q[i] M[i]\n",
        r"page\.md:3: the map has no part 'M\[i\]'",
    ),
}

WITHOUT_FAULT = (
    "# A page\n\nSo {{Q[i]}} is $x$, see [there](index.md).\n\n"
    "Here {{X_Q}} goes in.\n\nThere {{X_K}} does, {{site: X_K}} and {{site: X_V}}.\n\n"
    '```diagram in="site" sizes="n_q=2 n_k=6"\nX_Q @ X_K.T\n```\n\n'
    "```formula\nQ[i] = X_Q @ W_Q[i]\n```\n\n```diagram\nQ[i] = X_Q @ W_Q[i]\n```\n\n"
    + python(PROVED, CLAIM.format("proved") + ' cite="Euclid"')
)
MADE_BEFORE = "# A page\n\n" + python("kept = 41\n" + PROVED, CLAIM.format("made-before"))


@pytest.mark.parametrize("fault", CHECKED)
def test_the_page_and_the_line_of_a_fault_are_named(faults, fault):
    text, message = CHECKED[fault]
    found = faults({"0-first.md": MADE_BEFORE, "page.md": f"# A page\n\n{text}"})
    assert any(re.match(message.replace("PAGE", r"page\.md"), each) for each in found), found


@pytest.mark.parametrize("fault", FRONT_MATTER)
def test_front_matter_is_as_it_is_read(faults, fault):
    entries, message = FRONT_MATTER[fault]
    [found] = faults({"page.md": f"---\n{entries}---\n# A page\n"})
    assert re.match(message, found), found


def test_two_pages_cannot_make_a_claim_of_the_same_name_though_one_was_only_read(faults):
    [found] = faults({"a.md": MADE_BEFORE, "b.md": READ.format("made-before")})
    assert found == "b.md:3: claim 'made-before' is made in a.md [claim]"


def test_a_page_without_a_fault_has_none(faults):
    assert faults({"page.md": WITHOUT_FAULT}) == []


def test_a_check_prints_each_fault_and_fails(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "page.md").write_text("# A page\n\n" + CHECKED["lines in a map"][0])
    ran = subprocess.run(
        [sys.executable, "-m", "qkv_site", "check", docs], capture_output=True, text=True
    )
    assert ran.stdout == "page.md:4: a map has no lines: it draws those of the layer [map]\n"
    assert ran.returncode == 1
    (docs / "page.md").unlink()
    ran = subprocess.run([sys.executable, "-m", "qkv_site", "check", docs], capture_output=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


def test_the_pages_of_this_site_have_no_fault():
    assert check.site(Site()) == []


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
    text = '# A page\n\n```shout times="2"\nhey\n```\n\n```python exec="on"\n{}\n```\n'
    text = text.format('print("```shout\\nprinted\\n```")')
    assert faults({"page.md": text}) == []
    with page.writing(page.parse("page.md", text)) as written:
        shown = Markdown(extensions=["pymdownx.superfences", "qkv_site.write.html"]).convert(text)
    assert "<p>HEYHEY</p>" in shown
    assert "<p>PRINTED</p>" in shown
    assert [fence.language for fence in written.fences()] == ["shout", "python"]
    [found] = faults({"page.md": '# A page\n\n```shout loud="2"\nhey\n```\n'})
    assert found == "page.md:3: unknown option 'loud': expected one of 'times' [shout]"
    [found] = faults({"page.md": "# A page\n\n```shout\n```\n"})
    assert found == "page.md:3: nobody shouts nothing [shout]"


BUILT = {
    "a failing assertion": (python("assert 2 + 2 == 5"), r"PAGE:3'.*\n(.*\n)*?.*AssertionError"),
    "an exception": (python("1 / 0"), r"PAGE:3'(.*\n)*?.*ZeroDivisionError"),
    "an exit that would end the build as a success": (
        python("raise SystemExit(0)"),
        r"PAGE:3: the block called sys\.exit\(0\)",
    ),
    "a name of another page": (python("print(kept)"), r"PAGE:3'(.*\n)*?.*NameError: name 'kept'"),
    "an indented block that fails": (
        '!!! note "A note"\n\n' + textwrap.indent(python("1 / 0"), "    "),
        r"PAGE:5'(.*\n)*?.*ZeroDivisionError",
    ),
    "a broken link": ("[gone](gone.md)\n", r"PAGE.*'gone\.md'.*not found"),
    "a broken anchor": ("[gone](#gone)\n", r"PAGE.*'#gone'"),
    "a broken link that a block prints": (
        python('print("[so](nowhere.md)")'),
        r"PAGE.*'nowhere\.md'.*not found",
    ),
    "a broken anchor that a block prints": (
        python('print("[so](claims.md#no-such-claim)")'),
        r"PAGE.*'claims\.md#no-such-claim'",
    ),
    "a LaTeX error": (
        r"Where $\nosuchcommand{x}$ stands." + "\n",
        r"PAGE: LaTeX error in '\\\\nosuchcommand\{x\}'",
    ),
    "a claim that does not hold": (
        python("assert 2 + 2 == 5", CLAIM.format("untrue")),
        r"PAGE:3'.*\n(.*\n)*?.*AssertionError",
    ),
    "two symbols that are one letter and that a block prints": (
        python("print('It need not be {{d_k}}: {{d_v}} is free.')"),
        r"PAGE:4: `d_k` and `d_v` stand together, and ViT paper writes both \$D_h\$",
    ),
}
NAMES = {fault: fault.replace(" ", "-").replace("'", "") + ".md" for fault in BUILT}
OTHERS = self_test(
    question("no-heading", page="0-first.md#nowhere"),
    question("no-formula", ask="How many are {{Q[i] @ Q[i]}}?", page="0-first.md"),
) | {
    "claims.md": "# Ledger\n\n"
    + python("from qkv_site.markdown import evidence\n\nprint(evidence.counted())"),
    "0-first.md": MADE_BEFORE,
    "without-fault.md": WITHOUT_FAULT,
    "checked.md": "# A page\n\n" + CHECKED["a misspelt option"][0],
}


@pytest.fixture(scope="module")
def said(build):
    """What one build says of all faults."""
    pages = {NAMES[fault]: f"# A page\n\n{text}" for fault, (text, _) in BUILT.items()}
    built = build(OTHERS | pages)
    assert built.returncode == 1, built.stdout
    return built.stdout


@pytest.mark.parametrize("fault", BUILT)
def test_what_a_build_finds_is_named_too(said, fault):
    _, message = BUILT[fault]
    assert re.search(message.replace("PAGE", re.escape(NAMES[fault])), said), said


def test_a_build_begins_with_the_check(said):
    before, found, _ = said.partition("checked.md:3: unknown option 'exce'")
    assert found
    assert "AssertionError" not in before


def test_a_faulty_question_of_the_self_test_is_named(said):
    assert re.search(r"index\.md.*'0-first\.md#nowhere'", said), said
    assert "formula `Q[i] @ Q[i]`" in said


def test_a_build_names_no_page_without_a_fault(said):
    assert "without-fault.md" not in said


@pytest.mark.parametrize("fault", ["a failing assertion", "a block that is not executed"])
def test_one_fault_is_enough(build, fault):
    text, message = (BUILT | CHECKED)[fault]
    built = build({"index.md": "# Home\n", "page.md": f"# A page\n\n{text}"})
    assert built.returncode == 1, built.stdout
    assert re.search(message.replace("PAGE", r"page\.md"), built.stdout), built.stdout


def test_blocks_of_one_page_share_their_names(build):
    built = build({"index.md": "# A page\n\n" + python("kept = 41") + python("print(kept + 1)")})
    assert built.returncode == 0, built.stdout
    assert "42" in (built.site / "index.html").read_text()
