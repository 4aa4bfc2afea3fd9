"""The statements that the site makes, and how each is known.

A statement is *computed* by a block of its page, *run* on a library by a test, or *read* in a text
or in code. A block with `run="test_name"` or `read="file, line, commit"` is about a library: what
it computes is this site's own, and the test or the line is the evidence. Where that is written on
the pages is in `qkv_site.markdown.evidence`.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from qkv_site.page import PAGE, Fence, Page

MEANING = {
    "computed": "the block below the statement ran when the page was built, and checks it",
    "run": "a test runs the library itself, on a CPU",
    "read": "read there by a person, and shown by no test; a block beside it is this site's own",
}
KINDS = tuple(MEANING)
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
        "small_facts",
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
# Authors name a test as if all stood on one page; the build knows where each is.
INDEX = "claims.md"
_TO_A_TEST = re.compile(r"\]\((?:[./]*)claims\.md#([\w-]+)\)")
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
    def adds(self) -> str:
        """What is known of its check beyond the kind, as Markdown; or empty."""
        covers = f"Covers: {self.covers}" if self.covers else ""
        said = (self.read, self.source, covers)
        return " ".join(f"{words.rstrip('.')}." for words in said if words)

    @property
    def anchor(self) -> str:
        """The id of what its page says of how it is known."""
        return f"known-{self.id if self.run or self.adds else self.kind}"

    @property
    def mark(self) -> str:
        """A link that says how it is known and leads to what its page says of that."""
        return f'[{self.kind}](#{self.anchor}){{ .wq-claim__mark title="{MEANING[self.kind]}" }}'


@dataclass(frozen=True)
class Trap:
    """A statement about a library that a test shows on that library.

    Attributes:
        test: The test's name.
        statement: The first line of its docstring.
        line: Where it begins.
        file: The test's file.
        covers: What its docstring says after "Covers:"; or empty.
        packages: The libraries that it uses, by their names on PyPI.
    """

    test: str
    statement: str
    line: int
    file: str = TESTS[0].as_posix()
    covers: str = ""
    packages: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Its anchor."""
        return anchor(self.test)

    @property
    def code(self) -> str:
        """The file with its code, below the folder of pages."""
        return code_of(Path(self.file))

    def on(self, versions: dict[str, str]) -> str:
        """The libraries that it ran on, each with its version."""
        known = dict(_LIBRARIES.values())
        run = (package for package in self.packages if package in versions)
        return ", ".join(f"{known[package]} {versions[package]}" for package in run)


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
    """Where the first check below a heading stands, a block or a test; or None."""
    parts = page.below(anchor)
    for part in parts:
        for each in part.walk():
            if isinstance(each, Fence) and "claim" in each.given:
                return f"{page.name}#claim-{each.given['claim']}"
    test = _TO_A_TEST.search(page.text_of(parts))
    return f"claims.md#{test[1]}" if test else None


def tests_of(page: Page) -> tuple[set[str], set[str]]:
    """The tests that a page's statements name, and those that it has a link to, by their ids."""
    stated = {anchor(claim.run) for claim in of_page(page) if claim.run}
    return stated, {*_TO_A_TEST.findall(page.text)}


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


@cache
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
        yield Trap(
            test=node.name,
            statement=statement.removesuffix("."),
            line=node.lineno,
            file=file.as_posix(),
            covers=covers[0].removeprefix("Covers: ") if covers else "",
            packages=_packages(node.name, by_name),
        )


@cache  # many tests use the same helper
def _names(function: ast.FunctionDef) -> frozenset[str]:
    """The names in a function, and what it imports or skips without."""
    names = set()
    for node in ast.walk(function):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name):
                names.add(name.removesuffix("_library").removesuffix("_code"))
            case ast.Call(args=[ast.Constant(value=str(name)), *_]):  # pytest.importorskip
                names.add(name.partition(".")[0])
    return frozenset(names)


def _packages(test: str, functions: dict[str, ast.FunctionDef]) -> tuple[str, ...]:
    """The libraries that a test names, or a fixture or helper that it uses."""
    names, todo = set(), [test]
    for function in todo:
        names |= _names(functions[function])
        todo += sorted(names & functions.keys() - set(todo))
    if names & {"case", "CASES"}:  # of real_layers
        names |= _OF_LAYERS
    if names & {"function", "FUNCTIONS"}:  # of attention_functions
        names |= _OF_FUNCTIONS
    return tuple(package for name, (package, _) in _LIBRARIES.items() if name in names)


def last_run() -> dict:
    """When the tests last ran on the libraries, `date`, and on which `versions` of them."""
    return PAGE.get().site.data(f"../{LAST_RUN}")


def ran_on(layout: str) -> str:
    """The versions that a layout's layer last ran on."""
    run = last_run()
    return " with ".join(f"{each} {run['versions'][each]}" for each in run["layouts"][layout])


def code_of(file: Path) -> str:
    """The address of a file of tests, as text."""
    return f"checks/{file.stem}.txt"


def codes(docs: Path) -> dict[str, str]:
    """The files of tests by their addresses; none in a project without them."""
    root = docs.parent
    return {code_of(each): (root / each).read_text() for each in TESTS if (root / each).exists()}


def anchor(test: str) -> str:
    """The id of what is said of a test, where it is said."""
    return test.replace("_", "-")
