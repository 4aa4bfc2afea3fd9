"""Boxes of SVG that are set beside and below each other, and words and formulas as such boxes.

A drawing of a page has its places and its colours from the stylesheet. Here they are worked out, so
that it is whole without one. What is written stays text, in whatever face with serifs the reader
has; the room for it is measured in the face of the site.
"""

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple
from xml.etree.ElementTree import Element

from fontTools import ttLib

from qkv_site.tables import font

FACES = "STIX Two Text, STIX Two Math, Times New Roman, Times, serif"
_AXIS = 0.25  # how far above the line of letters the middle of an equals sign is, in ems
SIZE = 16  # of letters, in pixels
_MARGIN = 12
_SCRIPT = 0.72  # how large an index is
# Room on the left and on the right of a sign, in ems, where the formula says nothing else.
_SPACE = dict.fromkeys("=", (0.28, 0.28)) | dict.fromkeys("+×−·", (0.22, 0.22)) | {",": (0, 0.17)}


class Mark(NamedTuple):
    """An element of SVG at a place.

    Attributes:
        name: Of the element.
        rest: What follows its place: more attributes, and its content.
        x: How far to the right it stands.
        y: How far down.
    """

    name: str
    rest: str
    x: float = 0
    y: float = 0

    def __str__(self) -> str:
        x, y = number(self.x), number(self.y)
        placed = self.name in ("rect", "text")  # a path and a group have no `x` and `y`
        place = f'x="{x}" y="{y}"' if placed else f'transform="translate({x} {y})"'
        return f"<{self.name} {place}{self.rest}"


@dataclass(frozen=True)
class Box:
    """What is drawn, from the left end of its axis, and the room that it takes.

    Attributes:
        marks: What it is drawn with.
        width: How far it reaches to the right.
        up: How far it reaches above the axis.
        down: How far it reaches below the axis.
    """

    marks: tuple[Mark, ...] = ()
    width: float = 0
    up: float = 0
    down: float = 0

    @property
    def height(self) -> float:
        """From its upper edge to its lower one."""
        return self.up + self.down

    def at(self, x: float, y: float) -> tuple[Mark, ...]:
        """Its marks, moved."""
        return tuple(mark._replace(x=mark.x + x, y=mark.y + y) for mark in self.marks)

    def raised(self, by: float) -> "Box":
        """The same, higher."""
        return replace(self, marks=self.at(0, -by), up=self.up + by, down=self.down - by)

    def padded(self, *, left: float = 0, right: float = 0, over: float = 0, under: float = 0):
        """The same with room around it."""
        width = self.width + left + right
        return Box(self.at(left, 0), width, self.up + over, self.down + under)

    def centred(self) -> "Box":
        """The same, whose axis is in its middle."""
        return self.raised((self.down - self.up) / 2)


@dataclass(frozen=True)
class Pen:
    """How something is written: how large, in which colour, and `italic`, `bold` or neither.

    Without a colour it has that of the document.
    """

    size: float
    colour: str = ""
    style: str = ""


def number(value: float) -> str:
    """A length, as short as it is read to a tenth of a pixel."""
    return f"{round(value, 1) + 0.0:g}"


def beside(boxes: Iterable[Box], gap: float = 0) -> Box:
    """Boxes in a row, on one axis."""
    boxes, marks, x = [*boxes], [], 0.0
    for at, box in enumerate(boxes):
        x += gap if at else 0
        marks += box.at(x, 0)
        x += box.width
    up, down = (max((getattr(box, way) for box in boxes), default=0) for way in ("up", "down"))
    return Box(tuple(marks), x, up, down)


def below(boxes: Sequence[Box], gap: float = 0, align: float = 0) -> Box:
    """Boxes one below the other, whose axis is in their middle; `align` is 0.5 for centred ones."""
    width = max((box.width for box in boxes), default=0)
    height = sum(box.height for box in boxes) + gap * max(len(boxes) - 1, 0)
    marks, y = [], -height / 2
    for box in boxes:
        marks += box.at((width - box.width) * align, y + box.up)
        y += box.height + gap
    return Box(tuple(marks), width, height / 2, height / 2)


def on(ground: Box, *boxes: Box) -> Box:
    """Boxes on a ground, each in its middle; they take no room beside it."""
    marks = ground.marks
    for box in boxes:
        marks += box.centred().at((ground.width - box.width) / 2, 0)
    return replace(ground, marks=marks)


def wrapped(boxes: Iterable[Box], gap: float, widest: float, between: float = 0) -> Box:
    """Boxes in rows, each as long as there is room for it."""
    rows: list[list[Box]] = [[]]
    for box in boxes:
        if sum(each.width + gap for each in rows[-1]) + box.width > widest and rows[-1]:
            rows.append([])
        rows[-1].append(box)
    return below([beside(row, gap) for row in rows], between)


def words(text: str, pen: Pen) -> Box:
    """Words in a line; the axis is what they stand on."""
    width = measure(text, pen.style) * pen.size
    how = {
        "font-size": "" if pen.size == SIZE else number(pen.size),
        "fill": pen.colour,
        "font-style": "italic" if pen.style == "italic" else "",
        "font-weight": "bold" if pen.style == "bold" else "",
        # another face takes the same room
        "textLength": number(width) if len(text) > 1 else "",
        "lengthAdjust": "spacingAndGlyphs" if len(text) > 1 else "",
    }
    mark = Mark("text", f"{attributes(how)}>{html.escape(text)}</text>")
    return Box((mark,) if text else (), width, 0.75 * pen.size, 0.25 * pen.size)


def line(path: str, pen: Pen, **how: str) -> Mark:
    """A line along a path, as wide as the size of the pen."""
    drawn = {"d": path, "fill": "none", "stroke": pen.colour or "currentColor"}
    drawn |= {"stroke-width": number(pen.size)} | how
    return Mark("path", f"{attributes(drawn)}/>")


def area(width: float, height: float, **how: str) -> Box:
    """A rectangle, whose axis is in its middle."""
    drawn = {"width": number(width), "height": number(height)} | how
    return Box((Mark("rect", f"{attributes(drawn)}/>"),), width, 0, height).centred()


def turned(box: Box) -> Box:
    """What is read from below, as a name is on the back of a book."""
    middle = box.centred()
    marks = "".join(map(str, middle.at(-box.width / 2, 0)))
    mark = Mark("g", f'><g transform="rotate(-90)">{marks}</g></g>', box.height / 2)
    return Box((mark,), box.height, box.width / 2, box.width / 2)


def attributes(how: dict[str, str]) -> str:
    """Those that are given, as they stand in an element."""
    given = {name.replace("_", "-"): value for name, value in how.items() if value}
    return "".join(f' {name}="{value}"' for name, value in given.items())


def measure(text: str, style: str = "") -> float:
    """How wide words are in the site's face, in ems."""
    glyphs, widths, em = _face()
    codes = (font.italic(letter) if style == "italic" else ord(letter) for letter in text)
    together = sum(widths[glyphs.get(code, ".notdef")][0] for code in codes)
    return together / em * (1.06 if style == "bold" else 1)


@cache
def _face():
    face = ttLib.TTFont(font.source(), lazy=True)
    return face.getBestCmap(), face["hmtx"], face["head"].unitsPerEm


def formula(node: Element, pen: Pen, colours: dict[str, str]) -> Box:
    """MathML; the axis is what its letters stand on.

    Raises:
        ValueError: If it holds an element that no drawing of the site has had so far.
    """
    classes = node.get("class", "").split()
    role = next((each for each in classes if each.startswith("role-")), None)
    pen = replace(pen, colour=colours[role]) if role else pen
    drawn = _formula(node, pen, colours)
    if "wq-borrowed" not in classes:
        return drawn
    path = f"M0 {number(drawn.down)}h{number(drawn.width)}"
    dots = line(path, replace(pen, size=1), stroke_dasharray="1 2")
    return replace(drawn, marks=(*drawn.marks, dots), down=drawn.down + 1)


def _formula(node: Element, pen: Pen, colours: dict[str, str]) -> Box:
    text = (node.text or "").strip(" \n\u2061\u2062")
    if node.tag == "mspace":
        return Box(width=_ems(node.get("width", "0")) * pen.size)
    if node.tag == "mo":
        return _sign(node, text, pen)
    if node.tag in ("mi", "mn", "mtext"):
        slanted = node.tag == "mi" and len(text) == 1 and node.get("mathvariant") != "normal"
        slanted = slanted and font.italic(text) != ord(text)  # what is bold is so already
        return words(text, replace(pen, style="italic") if slanted else pen)
    small = replace(pen, size=_SCRIPT * pen.size)
    pens = [small if at and node.tag in _SCRIPTS else pen for at in range(len(node))]
    parts = [formula(child, its, colours) for child, its in zip(node, pens, strict=True)]
    if node.tag not in _ARRANGED:
        raise ValueError(f"<{node.tag}> of a formula cannot be written in a drawing")
    return _ARRANGED[node.tag](parts, pen)


def _sign(node: Element, text: str, pen: Pen) -> Box:
    left, right = _SPACE.get(text, (0, 0))
    left, right = (
        _ems(node.get(side, f"{usual}em")) for side, usual in (("lspace", left), ("rspace", right))
    )
    return words(text, pen).padded(left=left * pen.size, right=right * pen.size)


def _ems(length: str) -> float:
    return float(length.removesuffix("em"))


def _row(parts: list[Box], pen: Pen) -> Box:
    return beside(parts)


def _sub(parts: list[Box], pen: Pen) -> Box:
    return _scripts(parts[0], parts[1], Box(), pen)


def _sup(parts: list[Box], pen: Pen) -> Box:
    return _scripts(parts[0], Box(), parts[1], pen)


def _sub_and_sup(parts: list[Box], pen: Pen) -> Box:
    return _scripts(*parts, pen)


def _scripts(base: Box, sub: Box, sup: Box, pen: Pen) -> Box:
    sub, sup = sub.raised(-0.22 * pen.size), sup.raised(0.4 * pen.size)
    above_each_other = Box(sub.marks + sup.marks, max(sub.width, sup.width), sup.up, sub.down)
    return beside([base, above_each_other], 0.03 * pen.size)


def _under(parts: list[Box], pen: Pen) -> Box:
    base, under = parts
    width = max(base.width, under.width)
    lower = base.down + under.up
    marks = base.at((width - base.width) / 2, 0) + under.at((width - under.width) / 2, lower)
    return Box(marks, width, base.up, lower + under.down)


def _over(parts: list[Box], pen: Pen) -> Box:
    base, over = parts
    above = over.at((base.width - over.width) / 2, -0.4 * pen.size)
    return replace(base, marks=base.marks + above, up=base.up + 0.15 * pen.size)


def _root(parts: list[Box], pen: Pen) -> Box:
    inside, size = beside(parts), pen.size
    top, foot, wide = -inside.up - 0.05 * size, inside.down, 0.55 * size
    steps = f"M0 {number(-0.3 * size)}l{number(0.12 * size)} {number(-0.06 * size)}"
    path = f"{steps}L{number(0.3 * size)} {number(foot)}L{number(wide)} {number(top)}"
    sign = line(f"{path}h{number(inside.width)}", replace(pen, size=size / 18))
    return Box((sign, *inside.at(wide, 0)), wide + inside.width, 1 - top, foot + 1)


def _fraction(parts: list[Box], pen: Pen) -> Box:
    over, under = parts
    both = below([over, under], 0.15 * pen.size, 0.5)
    at = number(over.height - both.up + 0.07 * pen.size)
    between = line(f"M0 {at}h{number(both.width)}", replace(pen, size=1))
    return replace(both, marks=(*both.marks, between)).raised(_AXIS * pen.size)


_SCRIPTS = {"msub", "msup", "msubsup", "munder", "mover"}
_ARRANGED = {
    "math": _row,
    "mrow": _row,
    "msub": _sub,
    "msup": _sup,
    "msubsup": _sub_and_sup,
    "munder": _under,
    "mover": _over,
    "msqrt": _root,
    "mfrac": _fraction,
}


def document(drawn: Box, title: str, said: str, colours: dict[str, str], patterns: str) -> str:
    """A drawing as a file, on a ground of its own; it refers to nothing outside it."""
    width, height = drawn.width + 2 * _MARGIN, drawn.height + 2 * _MARGIN
    size = f'width="{number(width)}" height="{number(height)}"'
    ink = colours["ink"]
    marks = "\n".join(map(str, drawn.at(_MARGIN, _MARGIN + drawn.up)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
        f'viewBox="0 0 {number(width)} {number(height)}" role="img" color="{ink}" fill="{ink}" '
        f'font-family="{FACES}" font-size="{SIZE}">\n'
        f"<title>{html.escape(title)}</title>\n"
        f"<desc>{html.escape(said)}</desc>\n"
        f'<defs>{patterns}</defs>\n<rect {size} fill="{colours["paper"]}"/>\n{marks}\n</svg>\n'
    )
