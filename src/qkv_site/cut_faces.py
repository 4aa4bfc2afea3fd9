"""Cut the faces of the site, docs/assets/fonts, out of STIX Two: run by hand, for a new character.

    npm pack @fontsource/stix-two-text@5.3.0
    pip install brotli fonttools ziamath==0.13
    python -m qkv_site.cut_faces fontsource-stix-two-text-5.3.0.tgz

A test says which character of a page no face has: add it to `WORDS` or to `FORMULAS`. The licence
of both fonts, the SIL Open Font License 1.1, stands beside the faces, and so do their hashes.
"""

import hashlib
import io
import string
import sys
import tarfile
from importlib.resources import files
from pathlib import Path

from fontTools import subset
from fontTools.pens.transformPen import TransformPen
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib import TTFont

FACES = Path("docs/assets/fonts")
TEXT = "910943975c04992905616f6ff56edf73c405fc4fba571192f0a6a83a5e8ddf49"  # STIX Two Text 2.13
MATH = "8f42cb183a85043a4dc3f8e41ac3821eb27bf178d68ace929ba439523622323c"  # STIX Two Math 2.11
STYLES = {
    "regular": "400-normal",
    "italic": "400-italic",
    "bold": "700-normal",
    "bold-italic": "700-italic",
}

_ASCII = set(map(chr, range(0x20, 0x7F)))
WORDS = (_ASCII - set("#$@<>^`{|}~\\")) | set("\u00a0‘’“”–—…¶·×−²ᵀ")
# Upright letters of formulas are the text's. The alphabets are whole: a new notation needs no cut.
FORMULAS = (
    (_ASCII - set(string.ascii_letters))
    | {chr(code) for code in range(0x1D400, 0x1D468)}  # bold and italic
    | set("𝟏ℎℓℝ𝛼𝛽𝜂𝜃𝜇𝜉𝜔𝜖ϵ𝜷𝛀ΓΔΞΣΩαβηθλμξω")
    | set("¯˜\u20d7·×−±∘⋅⊕⊗⊙√∑∈∞≈≠≤≥‖⟨⟩⌊⌋⊤′↑→↓↦⟺…⋮⋯")
    | set("\u00a0–—’“”²µ½ˣṼ†⁰ⁱ⁹⁻✓✕")
)


def main(archive: str) -> None:
    """Write each face, and the hashes of all."""
    packed = _known(Path(archive).read_bytes(), TEXT)
    with tarfile.open(fileobj=io.BytesIO(packed)) as package:
        for name, style in STYLES.items():
            file = package.extractfile(f"package/files/stix-two-text-latin-{style}.woff2")
            font = TTFont(io.BytesIO(file.read()), recalcTimestamp=False)
            _add_transpose(font)
            font["hhea"].lineGap = font["OS/2"].sTypoLineGap = 0  # a line is as high as its letters
            _cut(font, WORDS, ["kern"], name)
    whole = (files("ziamath.fonts") / "STIXTwoMath-Regular.ttf").read_bytes()
    font = TTFont(io.BytesIO(_known(whole, MATH)), recalcTimestamp=False)
    _leave_small_primes(font)
    _map(font, "✕", font.getBestCmap()[ord("×")])  # which has its form
    _cut(font, FORMULAS, ["ccmp", "dtls", "flac", "mark", "mkmk", "ssty"], "math")
    hashes = (
        f"{_sha256(face.read_bytes())}  {face.name}\n" for face in sorted(FACES.glob("*.woff2"))
    )
    (FACES / "SHA256SUMS").write_text("".join(hashes))


def _known(content, wanted):
    if _sha256(content) != wanted:
        raise SystemExit(f"expected a file with SHA-256 {wanted}, got {_sha256(content)}")
    return content


def _sha256(content):
    return hashlib.sha256(content).hexdigest()


def _cut(font, characters, features, name):
    options = subset.Options(flavor="woff2", hinting=False, notdef_outline=True)
    options.name_IDs = [0, 6, 13, 14]  # with the licence
    options.layout_features = features
    options.drop_tables += ["STAT", "gasp", "prep"]
    subsetter = subset.Subsetter(options)
    subsetter.populate(text="".join(characters))
    subsetter.subset(font)
    subset.save_font(font, FACES / f"{name}.woff2", options)


def _add_transpose(font):
    """Draw ᵀ, which the font lacks: its T, small and as high as its ²."""
    glyphs, pen = font.getBestCmap(), TTGlyphPen(font.getGlyphSet())
    letter, small = glyphs[ord("T")], 0.64
    top = font["glyf"][glyphs[ord("²")]].yMax
    raised = TransformPen(pen, (small, 0, 0, small, 0, top - small * font["glyf"][letter].yMax))
    font.getGlyphSet()[letter].draw(raised)
    font["glyf"]["transpose"] = glyph = pen.glyph()
    glyph.recalcBounds(font["glyf"])
    font["hmtx"]["transpose"] = round(small * font["hmtx"][letter][0]), glyph.xMin
    _map(font, "ᵀ", "transpose")


def _map(font, character, glyph):
    for table in font["cmap"].tables:
        if table.isUnicode():
            table.cmap[ord(character)] = glyph


def _leave_small_primes(font):
    """Of the letters made for indices, which are half of the file, keep the prime."""
    table, prime = font["GSUB"].table, font.getBestCmap()[ord("′")]
    for feature in table.FeatureList.FeatureRecord:
        if feature.FeatureTag == "ssty":
            for index in feature.Feature.LookupListIndex:
                for part in table.LookupList.Lookup[index].SubTable:
                    made = getattr(part, "ExtSubTable", part).alternates
                    for glyph in made.keys() - {prime}:
                        del made[glyph]


if __name__ == "__main__":
    main(*sys.argv[1:])
