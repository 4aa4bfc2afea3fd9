"""The package qkv as a wheel beside the pages, so that a reader can install what the pages run."""

import base64
import hashlib
import importlib.metadata
import io
import zipfile
from pathlib import Path

from mkdocs.structure.files import File, Files

import qkv
from qkv_site.markdown import current

_PROJECT = "which-q"
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # of a zip: the same package is the same file
_FORM = "Wheel-Version: 1.0\nGenerator: which-q\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def name() -> str:
    """The wheel's file name."""
    return f"{_stem()}-py3-none-any.whl"


def address() -> str:
    """Where the wheel is on the published site; empty if the site has no address."""
    return f"{current.address.rstrip('/')}/assets/{name()}" if current.address else ""


def add_to(files: Files, config) -> None:
    """Publish the wheel with the site."""
    files.append(File.generated(config, f"assets/{name()}", content=wheel()))


def install() -> str:
    """How to install the package, as Markdown for a page one folder below `docs`."""
    download = f"[the package qkv, one file](../assets/{name()}){{ download }}"
    if address():
        said = [f"```console\npip install {address()}\n```", f"Or download {download}."]
    else:
        said = [
            f"Download {download}. In the folder where it lies:",
            f"```console\npip install ./{name()}\n```",
        ]
    if current.repository:
        said += [
            f"From [the site's repository]({current.repository}):",
            f"```console\npip install git+{current.repository}\n```",
        ]
    return "\n\n".join(said)


def wheel() -> bytes:
    """The wheel: the package's files, what it needs, and the list of all with their hashes."""
    about, package = f"{_stem()}.dist-info", Path(qkv.__file__).parent
    contents = {
        f"qkv/{path.relative_to(package).as_posix()}": path.read_bytes()
        for path in sorted(package.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    contents |= {f"{about}/METADATA": _metadata().encode(), f"{about}/WHEEL": _FORM.encode()}
    lines = [f"{path},sha256={_hash(data)},{len(data)}" for path, data in contents.items()]
    contents[f"{about}/RECORD"] = "\n".join([*lines, f"{about}/RECORD,,", ""]).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in contents.items():
            archive.writestr(zipfile.ZipInfo(path, _FIRST_DAY), data, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _stem() -> str:
    return f"{_PROJECT.replace('-', '_')}-{importlib.metadata.version(_PROJECT)}"


def _metadata() -> str:
    known = importlib.metadata.metadata(_PROJECT)
    needed = (each for each in known.get_all("Requires-Dist") if "extra ==" not in each)
    lines = [f"{field}: {known[field]}" for field in ("Name", "Version", "Requires-Python")]
    lines += [f"Requires-Dist: {each}" for each in needed]
    return "\n".join(["Metadata-Version: 2.1", *lines, ""])


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
