"""The blocks of a library that pages show, `python library="keras"`, run as a reader runs them."""

import contextlib
import io

from real_layers import keras_library, openai_whisper_code, timm_code, vit_pytorch_code

from qkv_site.page import Site, parse
from qkv_site.parts.python import Python
from qkv_site.tables import libraries


def blocks_by_page() -> dict[str, list[Python]]:
    """The pages that have such blocks, by their place below `docs`."""
    pages = Site().pages | {"libraries/layouts.toml": parse("rows", libraries.rows())}
    found = {
        name: [part for part in page.fences() if isinstance(part, Python) and part.library]
        for name, page in pages.items()
    }
    return {page: of_library for page, of_library in found.items() if of_library}


def outputs(of_page: list[Python]) -> list[str]:
    """What each block of a page prints; those of one library run one after the other in a session.

    So whoever follows one library's tabs alone has the names that they need.
    """
    sessions: dict[str, dict] = {}
    printed = []
    for block in of_page:
        if block.library not in sessions:
            _PREPARED.get(block.library, lambda: None)()
        names = sessions.setdefault(block.library, {})
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(block.code, names)
        printed.append(said.getvalue())
    return printed


def _first_layer_of_keras() -> None:
    """The first layer of a session has no number in its name."""
    keras_library().utils.clear_session()


_PREPARED = {
    "keras": _first_layer_of_keras,
    "vit-pytorch": vit_pytorch_code,
    "timm": timm_code,
    "openai-whisper": openai_whisper_code,
}
