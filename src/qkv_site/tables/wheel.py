"""The package qkv as a wheel beside the pages, so that a reader can install what the pages run.

hatchling builds it, as it does for everybody else. Its version ends in a hash of what is in it:
pip leaves an installed package where it is if a file's version is the same.
"""

import tomllib
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from hatchling.builders.wheel import WheelBuilder
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

from qkv_site.page import PAGE

_PROJECT = Path(__file__).parents[3]


@cache
def built(project: Path = _PROJECT) -> tuple[str, bytes]:
    """The wheel of a project: its file's name, and what is in it."""
    settings = tomllib.loads((project / "pyproject.toml").read_text())
    files = WheelBuilder(str(project)).recurse_included_files()
    held = sorted((file.distribution_path, Path(file.path).read_bytes()) for file in files)
    whole = repr((settings["project"]["dependencies"], held))
    settings["project"]["version"] += f"+{sha256(whole.encode()).hexdigest()[:8]}"
    metadata = ProjectMetadata(str(project), PluginManager(), settings)
    with TemporaryDirectory() as folder:
        builder = WheelBuilder(str(project), metadata=metadata)
        [path] = map(Path, builder.build(directory=folder, versions=["standard"]))
        return path.name, path.read_bytes()


def name() -> str:
    """The wheel's file name."""
    return built()[0]


def address() -> str:
    """Where the wheel is on the published site; empty if the site has no address."""
    return (
        f"{PAGE.get().site.address.rstrip('/')}/assets/{quote(name())}"
        if PAGE.get().site.address
        else ""
    )


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
    if PAGE.get().site.repository:
        said += [
            f"From [the site's repository]({PAGE.get().site.repository}):",
            f"```console\npip install git+{PAGE.get().site.repository}\n```",
        ]
    return "\n\n".join(said)


def _line(where: str) -> str:
    """The command, which `assets/take-along.js` finds by its class."""
    return f'<div class="wq-install" markdown>\n\n```console\npip install {where}\n```\n\n</div>'
