"""What pages show as printed by a library is what their blocks print on it."""

import importlib.metadata
import tomllib

import pytest
from real_layers import LIBRARIES
from record import LAST_RUN
from shown import blocks_by_page, outputs

from qkv_site.parts import on_library

PAGES = blocks_by_page()


@pytest.mark.parametrize("page", PAGES)
def test_a_block_of_a_library_prints_what_its_page_shows(page):
    """A block of a library prints what its page shows.

    If the block has changed, record it again: python tests/truth/record.py.
    """
    for library in {used for block in PAGES[page] for used in LIBRARIES[block.library]}:
        try:
            importlib.metadata.distribution(library)
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(f"{library} is not installed")
    assert outputs(PAGES[page]) == [on_library.printed(block) for block in PAGES[page]]


def test_each_recorded_output_is_of_a_block_that_a_page_shows():
    shown = {on_library.key(block) for found in PAGES.values() for block in found}
    assert tomllib.loads(LAST_RUN.read_text())["printed"].keys() == shown
