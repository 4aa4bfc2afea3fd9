"""The faces of the site have every character that its pages are drawn with."""

import hashlib
import html
import re

import pytest
from fontTools.ttLib import TTFont

from support import ROOT, is_redirect

FACES = ROOT / "docs" / "assets" / "fonts"
FORMULA = re.compile(r"<math.*?</math>", re.DOTALL)
# What a system's face draws, or nothing does.
NOT_DRAWN = re.compile(r"<(script|style|code|pre|title)\b.*?</\1>|<!--.*?-->|<[^>]+>", re.DOTALL)
SINGLE = re.compile(r"<mi>(.)</mi>")
INVISIBLE = set("\n\t\u200b\u2061\u2062")
# Mathematics slants a letter that stands alone.
SLANTED = {
    **{chr(ord("A") + i): chr(0x1D434 + i) for i in range(26)},
    **{chr(ord("a") + i): chr(0x1D44E + i) for i in range(26)},
    **{chr(ord("Α") + i): chr(0x1D6E2 + i) for i in range(25)},
    **{chr(ord("α") + i): chr(0x1D6FC + i) for i in range(25)},
    "h": "ℎ",
}


def characters(face):
    return {*map(chr, TTFont(FACES / f"{face}.woff2").getBestCmap())}


def drawn(page):
    """What a page draws, with the notations that wait in its templates and attributes."""
    page = html.unescape(page)
    letters = {SLANTED.get(letter, letter) for letter in SINGLE.findall(page)}
    rest = SINGLE.sub("", page)
    return letters | {*html.unescape(NOT_DRAWN.sub("", rest))}


def test_a_face_has_every_character_of_the_pages(site):
    has = characters("regular") | characters("math") | INVISIBLE
    for path in site.rglob("*.html"):
        missing = {} if is_redirect(path) else drawn(path.read_text()) - has
        assert not missing, f"{path}: put {missing} into qkv_site.cut_faces, and run it"


@pytest.mark.parametrize("written", sorted(ROOT.glob("docs/assets/*.[cj]s*")), ids=lambda p: p.name)
def test_scripts_and_styles_write_what_a_face_has(written):
    assert not {*written.read_text()} - characters("regular") - characters("math") - INVISIBLE


def test_formulas_have_their_alphabets_whole():
    has = characters("math")
    assert not set(map(chr, (*range(0x1D400, 0x1D455), *range(0x1D456, 0x1D468)))) - has


@pytest.mark.parametrize("face", ["italic", "bold", "bold-italic"])
def test_styles_of_text_have_the_same_characters(face):
    assert characters(face) == characters("regular")


def test_the_faces_are_those_that_were_cut():
    listed = dict(line.split()[::-1] for line in (FACES / "SHA256SUMS").read_text().splitlines())
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in FACES.glob("*.woff2")
    }
    assert found == listed
