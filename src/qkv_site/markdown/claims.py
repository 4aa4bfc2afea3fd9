"""The statements that the site makes, and how each is known: the ledger.

A statement is *computed* by a block of its page, *run* on a library by a test, or *read* in a text
or in code. A block with `run="test_name"` or `read="file, line, commit"` is about a library: what
it computes is this site's own, and the test or the line is the evidence.
"""

import ast
import posixpath
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from html import escape
from pathlib import Path

from qkv import notation
from qkv_site.figures import Figure, Letters
from qkv_site.page import PAGE, Fence, Page, Site

_MEANING = {
    "computed": "the block below ran when this page was built, and checks it",
    "run": "a test runs the library itself; here is its code",
    "read": "read there by a person; a block beside it is this site's own",
}
KINDS = tuple(_MEANING)
TRUTH = Path("tests", "truth")
TESTS = tuple(
    TRUTH / f"test_{name}.py"
    for name in (
        "torch",
        "keras_and_flax",
        "transformers",
        "rotation",
        "other_layers",
        "masks",
        "surgery",
        "conversions",
        "functions",
        "attention_weights",
        "real_layers",
        "models",
        "types",
    )
)
# What tests share: a test that calls a helper of it uses the helper's library.
SHARED = (TRUTH / "arrays.py", TRUTH / "small_models.py", TRUTH / "conftest.py")
LAST_RUN = TRUTH / "last_run.toml"

# What a test imports or names, the package's name on PyPI, and how people write it.
_LIBRARIES = {
    "torch": ("torch", "PyTorch"),
    "keras": ("keras", "Keras"),
    "flax": ("flax", "Flax"),
    "haiku": ("dm-haiku", "Haiku"),
    "transformers": ("transformers", "Transformers"),
    "openai_whisper": ("openai-whisper", "OpenAI's Whisper"),
    "vit_pytorch": ("vit-pytorch", "vit-pytorch"),
    "timm": ("timm", "timm"),
    "diffusers": ("diffusers", "diffusers"),
    "jax": ("jax", "JAX"),
    "mlx": ("mlx", "MLX"),
    "onnx": ("onnx", "ONNX"),
}
# What a test runs that is given each attention function, or each layer.
_OF_FUNCTIONS = {"torch", "jax", "flax", "keras", "mlx", "onnx"}
_OF_LAYERS = _LIBRARIES.keys() - {"jax", "mlx", "onnx"}

# A statement with one of these names in it, or on a page about a library, is about that library,
# unless it says that it is about what this site writes.
_NAMED = re.compile(
    r"\b(PyTorch|Keras|Flax|Haiku|JAX|MLX|ONNX|FlashAttention|xFormers|Transformers|BERT|Bloom|CLIP|CodeGen|Diffusers|Falcon|GPT-2"
    r"|GPT-BigCode|GPT-J|GPT-NeoX|Llama|Megatron|Phi-3|T5|timm|Whisper|vit-pytorch|TransformerLens"
    r"|tensor2tensor|nanoGPT|nn\.\w+"
    r"|in_proj_weight|c_attn|to_qkv)\b",
    re.IGNORECASE,
)
_TO_LEDGER = re.compile(r"\]\((?:[./]*)claims\.md#([\w-]+)\)")
_OUR_WRITING = re.compile(r"\b(?:as )?this site('s| )", re.IGNORECASE)


@dataclass(frozen=True)
class Claim:
    """A statement of a page.

    Attributes:
        id: Its name, unique on the site.
        statement: The statement, as Markdown.
        page: The page's file, below `docs`.
        source: Who says so, and where; or empty.
        block: Whether a block of the page computes it.
        run: The test that shows it on a library; or empty.
        read: The file, line and commit where it was read; or empty.
        covers: Over what the check runs; or empty.
    """

    id: str
    statement: str
    page: str
    source: str = ""
    block: bool = True
    run: str = ""
    read: str = ""
    covers: str = ""

    @property
    def kind(self) -> str:
        """How it is known: one of `KINDS`."""
        return "run" if self.run else "read" if self.read or not self.block else "computed"

    @property
    def mark(self) -> str:
        """A link that says how it is known and opens the check, as Markdown for its page."""
        said = f"read: {self.read}" if self.read else self.kind
        check = f"{posixpath.basename(self.page)}#claim-{self.id}"
        if self.run:
            ledger = posixpath.relpath("claims.md", posixpath.dirname(self.page) or ".")
            check = f"{ledger}#{_anchor(self.run)}"
        return f'[{said}]({check}){{ .wq-claim__mark title="{_MEANING[self.kind]}" }}'


@dataclass(frozen=True)
class Trap:
    """A statement about a library that a test shows on that library.

    Attributes:
        test: The test's name.
        statement: The first line of its docstring.
        why: The paragraph after it; or empty.
        line: Where it begins.
        file: The test's file.
        code: Its source.
        covers: What its docstring says after "Covers:"; or empty.
        packages: The libraries that it uses, by their names on PyPI.
    """

    test: str
    statement: str
    why: str
    line: int
    file: str = TESTS[0].as_posix()
    code: str = ""
    covers: str = ""
    packages: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Its anchor in the ledger."""
        return _anchor(self.test)


def of_page(page: Page) -> list[Claim]:
    """The statements of a page: of its blocks, then those that it could not check."""
    shown = [
        of_options(block.given, page.name)
        for block in page.fences()
        if {"claim", "title"} <= block.given.keys()
    ]
    read = [
        Claim(entry["id"], entry["statement"], page.name, entry["source"], block=False)
        for entry in page.meta.get("read", ())
    ]
    return shown + read


def first_below(page: Page, anchor: str) -> str | None:
    """Where the first check below a heading stands, a block or a line of the ledger; or None."""
    parts = page.below(anchor)
    for part in parts:
        for each in part.walk():
            if isinstance(each, Fence) and "claim" in each.given:
                return f"{page.name}#claim-{each.given['claim']}"
    ledger = _TO_LEDGER.search(page.text_of(parts))
    return f"claims.md#{ledger[1]}" if ledger else None


def of_options(options: dict[str, str], page: str) -> Claim:
    """The statement of a block with these options."""
    return Claim(
        options["claim"],
        options["title"],
        page,
        options.get("cite", ""),
        run=options.get("run", ""),
        read=options.get("read", ""),
        covers=options.get("covers", ""),
    )


def faults(claim: Claim) -> Iterator[str]:
    """Say why a statement has no evidence of its kind."""
    if claim.run and claim.read:
        yield "run or read: expected one kind of evidence"
    if claim.run and claim.run not in {trap.test for trap in traps()}:
        files = " or ".join(map(str, TESTS))
        yield f"run={claim.run!r}: expected the name of a test in {files}"
    if claim.kind == "computed" and _about_a_library(claim):
        yield (
            f"claim {claim.id!r} is about a library, and this site's own code is no evidence: "
            'expected run="test_name", read="file, line, commit", or "as this site writes it" '
            "in the statement"
        )


def _about_a_library(claim: Claim) -> bool:
    if _OUR_WRITING.search(claim.statement):
        return False
    return bool(_NAMED.search(claim.statement)) or claim.page.startswith("libraries/")


def on_site() -> list[tuple[str, list[Claim]]]:
    """Each page's title and statements, in the order of files."""
    pages = PAGE.get().site.pages.values()
    return [(page.title, claims) for page in pages if (claims := of_page(page))]


def traps() -> list[Trap]:
    """What the tests show on the libraries themselves; nothing in a project without them."""
    root = PAGE.get().site.docs.parent
    if not all((root / file).exists() for file in (*TESTS, *SHARED)):
        return []
    shared = "\n".join((root / file).read_text() for file in SHARED)
    return [trap for file in TESTS for trap in _traps(file, (root / file).read_text(), shared)]


@cache
def _traps(file: Path, text: str, shared: str) -> tuple[Trap, ...]:
    return tuple(_read_traps(file, text, shared))


def _functions(text: str) -> dict[str, ast.FunctionDef]:
    found = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
    return {node.name: node for node in found}


def _read_traps(file: Path, text: str, shared: str) -> Iterator[Trap]:
    by_name = _functions(shared) | _functions(text)
    for node in _functions(text).values():
        if not node.name.startswith("test_"):
            continue
        statement, *rest = (ast.get_docstring(node) or "").split("\n\n")
        if not statement:
            raise ValueError(f"{node.name} has no docstring, whose first line is its statement")
        said = [" ".join(each.split()) for each in rest]
        covers = [each for each in said if each.startswith("Covers: ")]
        why = [each for each in said if not each.startswith("Covers: ")]
        yield Trap(
            test=node.name,
            statement=statement.removesuffix("."),
            why=why[0] if why else "",
            line=node.lineno,
            file=file.as_posix(),
            code=_code(text, node),
            covers=covers[0].removeprefix("Covers: ") if covers else "",
            packages=_packages(node.name, by_name),
        )


def _code(text: str, node: ast.FunctionDef) -> str:
    """The source of a function, decorators included."""
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return "\n".join(text.splitlines()[first - 1 : node.end_lineno])


def _packages(test: str, functions: dict[str, ast.FunctionDef]) -> tuple[str, ...]:
    """The libraries that a test names, or a fixture or helper that it uses."""
    names, todo = set(), [test]
    for function in todo:
        for node in ast.walk(functions[function]):
            match node:
                case ast.Name(id=name) | ast.arg(arg=name):
                    names.add(name.removesuffix("_library").removesuffix("_code"))
                case ast.Call(args=[ast.Constant(value=str(name)), *_]):  # pytest.importorskip
                    names.add(name.partition(".")[0])
        todo += sorted(names & functions.keys() - set(todo))
    if names & {"case", "CASES"}:  # of real_layers
        names |= _OF_LAYERS
    if names & {"function", "FUNCTIONS"}:  # of attention_functions
        names |= _OF_FUNCTIONS
    return tuple(package for name, (package, _) in _LIBRARIES.items() if name in names)


@lru_cache(maxsize=1)  # a site is another one each time that it is built
def kinds(site: Site) -> dict[str, str]:
    """How each statement of the ledger is known, by its anchor there."""
    made = {claim.id: claim.kind for page in site.pages.values() for claim in of_page(page)}
    return made | {trap.id: "run" for trap in traps()}


def kind_to_say(target: str, said: str) -> str:
    """What a link to the ledger has to add of how the statement is known; empty if nothing.

    Args:
        target: Where the link leads, as Markdown has it.
        said: What the link says.
    """
    page, _, anchor = target.partition("#")
    if posixpath.basename(page) != "claims.md":
        return ""
    kind = kinds(PAGE.get().site).get(anchor, "")
    return "" if re.search(rf"\b{kind}\b", said, re.IGNORECASE) else kind


def stated() -> str:
    """The part of the ledger that pages state, as Markdown for a page beside `docs`."""
    return "\n".join(_part(title, claims) for title, claims in on_site())


def _part(title: str, claims: list[Claim]) -> str:
    """A page's statements below its title, in an element that names their kinds."""
    kinds = " ".join(sorted({claim.kind for claim in claims}))
    entries = "\n".join(map(_entry, claims))
    return f'<div data-kinds="{kinds}" markdown>\n\n### {title}\n\n{entries}\n\n</div>\n'


def tested() -> str:
    """The part of the ledger that tests show on real libraries, as Markdown."""
    run = last_run()
    return "\n\n".join(str(Tested(trap, run)) for trap in traps())


def last_run() -> dict:
    """When the tests last ran on the libraries, `date`, and on which `versions` of them."""
    return _read_toml((PAGE.get().site.docs.parent / LAST_RUN).read_text())


@cache
def _read_toml(text: str) -> dict:
    return tomllib.loads(text)


def ran_on(layout: str) -> str:
    """The versions that a layout's layer last ran on."""
    run = last_run()
    return " with ".join(f"{each} {run['versions'][each]}" for each in run["layouts"][layout])


def letters() -> str:
    """The notations whose letters nobody compared with the text, as Markdown."""
    return "\n".join(
        f"- **The letters of [{source.short}](notation.md#{source.id}).** {source.note}"
        for source in notation.sources()
        if not source.checked
    )


def _entry(claim: Claim) -> str:
    said = [f"[{claim.statement}]({claim.page}{f'#claim-{claim.id}' if claim.block else ''})"]
    if claim.run:
        said.append(f"Shown by [its test](#{_anchor(claim.run)}).")
    for words in (claim.read, claim.source):
        if words:
            said.append(f"{words.rstrip('.')}.")
    if claim.covers:
        said.append(f"Covers: {claim.covers.rstrip('.')}.")
    return f"- {claim.kind}: {' '.join(said)}\n  {{ #{claim.id} data-kind={claim.kind} }}"


@dataclass(frozen=True)
class Tested(Figure):
    """A test: its statement, what it ran on and when, and its code."""

    trap: Trap
    run: dict

    def html(self) -> str:
        """The code is folded below what is said."""
        trap = self.trap
        code = escape(self._code(), quote=False).replace("{", "&#123;")
        return (
            f'<details data-kind="run"><summary>{_in_code(self._summary())}</summary>'
            f'<pre id="{trap.id}">{code}</pre></details>'
        )

    def markdown(self, letters: Letters) -> str:
        """The code stands below what is said."""
        return f"{self._summary()}\n\n```python\n{self._code()}\n```"

    def searched(self) -> str:
        """All of it."""
        return self.markdown(str)

    def _code(self) -> str:
        return f"# {self.trap.file}, line {self.trap.line}\n{self.trap.code}"

    def _summary(self) -> str:
        trap, run, known = self.trap, self.run, dict(_LIBRARIES.values())
        on = ", ".join(
            f"{known[package]} {run['versions'][package]}"
            for package in trap.packages
            if package in run["versions"]
        )
        said = [f"run: {trap.statement}.", trap.why]
        if trap.covers:
            said.append(f"Covers: {trap.covers.rstrip('.')}.")
        said.append(f"Run with {on} on {run['date'].day} {run['date']:%B %Y}.")
        return " ".join(filter(None, said))


def _in_code(words: str) -> str:
    """Words of Markdown as HTML; what stands between backticks is code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(words, quote=False))


def _anchor(test: str) -> str:
    return test.replace("_", "-")
