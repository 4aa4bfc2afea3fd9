"""The package qkv as a wheel beside the pages, so that a reader can install what the pages run.

Its version says what is in it: `pip` takes a later one for another, and installs it.
"""

import base64
import functools
import hashlib
import io
import re
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from mkdocs.structure.files import File, Files

import qkv
from qkv_site.markdown import current

_FOLDER = Path(__file__).parents[3]
_PROJECT = tomllib.loads((_FOLDER / "pyproject.toml").read_text())["project"]
_SOURCE = _FOLDER / "src" / "qkv"
_WHEEL = re.compile(r"which_q-[\w.+%]+-py3-none-any\.whl")
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # of a zip: the same package is the same file
_FORM = "Wheel-Version: 1.0\nGenerator: which-q\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def name() -> str:
    """The wheel's file name."""
    return f"{_stem()}-py3-none-any.whl"


def address() -> str:
    """Where the wheel is on the published site; empty if the site has no address."""
    return f"{current.address.rstrip('/')}/assets/{quote(name())}" if current.address else ""


def add_to(files: Files, config) -> None:
    """Publish the wheel with the site."""
    files.append(File.generated(config, f"assets/{name()}", content=wheel()))


def install() -> str:
    """How to install the package, as Markdown for a page one folder below `docs`.

    Where scripts run, the line gets the address that the page is read at.
    """
    download = f"[the package qkv, one file](../assets/{name()}){{ download }}"
    if address():
        said = [f"{_line(address())}\n\nOr download {download}."]
    else:
        said = [
            "Run this line. With a full address it works in any folder. If it begins with "
            f"`pip install ./`, first download {download}, and run it in the folder of that file:",
            _line(f"./{name()}"),
        ]
    if current.repository:
        said += [
            f"From [the site's repository]({current.repository}):",
            f"```console\npip install git+{current.repository}\n```",
        ]
    return "\n\n".join(said)


def faults(text: str, runs: bool) -> Iterator[tuple[int, str]]:
    """What is wrong with what a page says of the wheel, and with what its blocks run.

    Args:
        text: The page's file.
        runs: Whether the page shows blocks that run.

    Yields:
        The line, counted from 1, and the fault.
    """
    if runs and not _is_of_this_folder():
        yield 1, f"its blocks run {qkv.__file__}, which is another package than {_SOURCE}"
    for found in _WHEEL.finditer(text):
        if found[0] != name():
            line = text.count("\n", 0, found.start()) + 1
            yield line, f"this build has no wheel {found[0]}, its wheel is {name()}"


def wheel() -> bytes:
    """The wheel: the package's files, what it needs, and the list of all with their hashes."""
    about = f"{_stem()}.dist-info"
    contents = _package() | {
        f"{about}/METADATA": _metadata().encode(),
        f"{about}/WHEEL": _FORM.encode(),
    }
    lines = [f"{path},sha256={_hash(data)},{len(data)}" for path, data in contents.items()]
    contents[f"{about}/RECORD"] = "\n".join([*lines, f"{about}/RECORD,,", ""]).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in contents.items():
            archive.writestr(zipfile.ZipInfo(path, _FIRST_DAY), data, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _line(where: str) -> str:
    """The command, which `assets/take-along.js` finds by its class."""
    return f'<div class="wq-install" markdown>\n\n```console\npip install {where}\n```\n\n</div>'


def _package() -> dict[str, bytes]:
    """The files of the package that the pages run."""
    return _files_of(Path(qkv.__file__).parent)


def _files_of(package: Path) -> dict[str, bytes]:
    """The files of a package, by their paths in a wheel."""
    return {
        f"{package.name}/{path.relative_to(package).as_posix()}": path.read_bytes()
        for path in sorted(package.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


@functools.cache
def _is_of_this_folder() -> bool:
    return _package() == _files_of(_SOURCE)


@functools.cache
def version() -> str:
    """The project's version, and after the plus a hash of the package and of what it needs."""
    whole = hashlib.sha256(repr((_PROJECT["dependencies"], _package())).encode())
    return f"{_PROJECT['version']}+{whole.hexdigest()[:8]}"


def _stem() -> str:
    return f"{_PROJECT['name'].replace('-', '_')}-{version()}"


def _metadata() -> str:
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {_PROJECT['name']}",
        f"Version: {version()}",
        f"Requires-Python: {_PROJECT['requires-python']}",
        *(f"Requires-Dist: {each}" for each in _PROJECT["dependencies"]),
    ]
    return "\n".join([*lines, ""])


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
