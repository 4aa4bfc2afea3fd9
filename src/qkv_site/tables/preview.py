"""The picture that a link to the site is shown with, in the site's face and colours."""

import io
import re

from PIL import Image, ImageDraw, ImageFont

from qkv_site.markdown.layer import BASE_MODEL
from qkv_site.tables import font

SIZE = 1200, 630
_Q, _W, _I = "\U0001d444", "\U0001d44a", "\U0001d456"


def light(theme: str) -> dict[str, str]:
    """The colours of a theme on paper, `{"ink": "#1b1d27", ...}`."""
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", theme.partition("}\n\n@media")[0]))


def picture(theme: str) -> bytes:
    """PNG of the two Q's, to scale, a pixel for a number; `theme` has the colours."""
    colours = light(theme)
    image = Image.new("RGB", SIZE, colours["paper"])
    draw = ImageDraw.Draw(image)

    def write(at, text, size, colour, anchor="ls"):
        face = ImageFont.truetype(font.source(), size)
        draw.text(at, text, font=face, fill=colours[colour], anchor=anchor)

    def number(left, width, name, said, colour):
        middle = left + width / 2
        draw.rectangle((left, 340, left + width, 400), outline=colours[colour], width=4)
        write((middle, 320), _Q, 64, colour, "ms")
        write((middle, 446), name, 34, "ink", "ms")
        write((middle, 490), said, 34, "ink-soft", "ms")

    write((88, 150), "Which Q?", 112, "ink")
    write((90, 212), "One letter, two things, one matrix between them", 38, "ink-soft")
    wide, narrow = BASE_MODEL["d_model"], BASE_MODEL["d_k"]
    number(90, wide, "in MultiHead(Q, K, V)", f"{wide} numbers for each word", "role-source")
    number(1000, narrow, "in equation (1)", f"{narrow} numbers", "role-query")
    draw.line((632, 370, 950, 370), fill=colours["role-weight"], width=4)
    draw.polygon(((970, 370), (948, 358), (948, 382)), fill=colours["role-weight"])
    write((770, 344), _W, 64, "role-weight", "ms")
    write((800, 312), _Q, 36, "role-weight", "ls")
    write((794, 354), _I, 36, "role-weight", "ls")
    write((790, 424), "one learned matrix", 34, "ink-soft", "ms")

    written = io.BytesIO()
    image.save(written, "PNG", optimize=True)
    return written.getvalue()
