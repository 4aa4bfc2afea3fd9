"""Record what the real layers compute, for machines that have none of their libraries.

    python tests/truth/record.py

writes `recordings/<case>.npz` for each case of `real_layers.CASES`: what the layer stores, and for
each problem its sources, its mask and the output. What differs by rounding alone stays. Run it
when a case is added or changed, or a library is raised; a test compares every recording with a
layer built afresh. The cases of `real_layers.ONCE` are recorded by name, `record.py NAME`, where
their library is installed. Then it writes `last_run.toml`: the date, the
version of each library, which of them each layout was run with, and what the pages' blocks of a
library printed. The pages of libraries and the feet of pages show them.
"""

import datetime
import importlib.metadata
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from attention_functions import PACKAGES
from real_layers import CASES, LIBRARIES, ONCE, RAN_ONCE, Case
from shown import blocks_by_page, outputs

from qkv_site.parts import on_library

RECORDINGS = Path(__file__).with_name("recordings")
LAST_RUN = Path(__file__).with_name("last_run.toml")


def record(case: Case) -> dict[str, np.ndarray]:
    """Everything about a case, each array named by its path: weights/..., self/X_Q, self/output."""
    layer = case.layer()
    arrays = {f"weights/{name}": array for name, array in flat(layer.weights)}
    for form, arguments in case.problems().items():
        named = dict(zip(("X_Q", "X_K", "X_V", "mask"), arguments, strict=True))
        named["output"] = layer.call(*arguments)
        arrays |= {f"{form}/{name}": array for name, array in named.items() if array is not None}
    return arrays


def flat(weights: Mapping, path: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """Nested weights as pairs of a path and an array."""
    for name, value in weights.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{path}{name}/")
        else:
            yield path + name, np.asarray(value)


def is_recorded(case: Case, arrays: Mapping[str, np.ndarray]) -> bool:
    """Whether these arrays are a case's recording, but for rounding."""
    path = RECORDINGS / f"{case.name}.npz"
    if not path.exists():
        return False
    with np.load(path) as recorded:
        return {*recorded.files} == arrays.keys() and all(
            recorded[name].shape == array.shape
            and (
                np.array_equal(recorded[name], array)
                if array.dtype.kind == "U"
                else np.allclose(recorded[name], array, rtol=0, atol=1e-12)
            )
            for name, array in arrays.items()
        )


def read(case: Case) -> dict[str, dict[str, np.ndarray]]:
    """A recording: "made with", "weights" and the problems, each with its arrays by name."""
    groups = {}
    with np.load(RECORDINGS / f"{case.name}.npz") as arrays:
        for path, array in arrays.items():
            group, name = path.split("/", maxsplit=1)
            groups.setdefault(group, {})[name] = array
    return groups


def versions() -> dict[str, str]:
    """The version of each library that is installed here, without the name of its build."""
    of_layers = {library for libraries in LIBRARIES.values() for library in libraries}
    named = sorted(of_layers | PACKAGES)
    return {library: importlib.metadata.version(library).partition("+")[0] for library in named}


def last_run(day: datetime.date) -> str:
    """The text of `last_run.toml`."""
    layouts = dict.fromkeys(case.layout for case in CASES.values())
    lines = [
        "# When the layers in this folder last ran, and on which versions. Written by record.py.",
        f"date = {day}",
        "\n[versions]",
        *(f'{library} = "{version}"' for library, version in versions().items()),
        "\n[layouts]",
        *(f"{layout} = {list(LIBRARIES[layout])}".replace("'", '"') for layout in layouts),
        "\n[once]",
        *(f'{layout} = "{ran}"' for layout, ran in RAN_ONCE.items()),
        "\n# By the layout and the hash of the block's code.",
        "[printed]",
        *(
            f"{on_library.key(block)} = '''\n{text}'''"
            for blocks in blocks_by_page().values()
            for block, text in zip(blocks, outputs(blocks), strict=True)
        ),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for case in [ONCE[name] for name in sys.argv[1:]] or CASES.values():
        version = np.array(importlib.metadata.version(case.library))
        arrays = {f"made with/{case.library}": version} | record(case)
        if not is_recorded(case, arrays):
            np.savez_compressed(RECORDINGS / f"{case.name}.npz", **arrays)
    LAST_RUN.write_text(last_run(datetime.date.today()))
