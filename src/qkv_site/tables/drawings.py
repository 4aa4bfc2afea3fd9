"""Drawings of pages as SVG, for readers who do not have the stylesheet: those of notebooks.

What a page's drawing code makes, HTML, is read and drawn again: which parts there are, how large
and how dark they are, and what is written into them, is said there and nowhere else.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from xml.etree.ElementTree import Element, TreeBuilder

from qkv_site.markdown import elements, mathml
from qkv_site.tables import svg
from qkv_site.tables.svg import (
    SIZE,
    Box,
    Mark,
    Pen,
    area,
    below,
    beside,
    line,
    number,
    on,
    words,
    wrapped,
)

_COLUMN = 300  # of the map
WIDEST = 740  # pixels: as wide as a cell of a notebook is on most screens
_EM, _SMALL = SIZE, 13
_SPACE = Box(width=4)
_UNIT = (4, 8)  # a unit of a matrix has as many pixels as there is room for, within these
_TABLES = "wq-heat", "wq-mask"
# What the stylesheet tells apart by more than a colour.
_DASHED, _HATCHED = "role-source", "role-weight"
_SIGNS = {"wq-may": "M4 11l4 4 7-9", "wq-may-not": "M5 5l9 9m0-9l-9 9"}


@dataclass(frozen=True)
class Drawing:
    """A drawing that needs nothing else.

    Attributes:
        svg: The file.
        title: What it is.
        words: What it shows.
    """

    svg: str
    title: str
    words: str


def drawing(page: str, colours: dict[str, str]) -> Drawing:
    """What a fence or a block of a page draws.

    Args:
        page: The HTML that it makes.
        colours: Those of the theme, by their names.

    Raises:
        ValueError: If it draws nothing, or what is not known here.
    """
    root = _read(page)
    found = [*_whole(root)]
    if not found:
        raise ValueError(f"{page[:60]!r} holds no drawing: expected a figure or a table of numbers")
    try:
        title = "; ".join(map(_title, found))
        said = " ".join(map(_said, found))
        drawn = _Painter(colours).stack(root)
    except (KeyError, IndexError, TypeError) as error:  # a part of the page that is not there
        raise ValueError(f"{page[:60]!r} cannot be drawn: {error!r}") from error
    return Drawing(svg.document(drawn, title, said, colours, _patterns(colours)), title, said)


def _whole(node: Element) -> Iterator[Element]:
    """The figures, and the tables that stand outside them."""
    for child in node:
        if (child.tag == "figure" and not _is(child, "wq-in")) or _is(child, *_TABLES):
            yield child
        else:
            yield from _whole(child)


def _title(found: Element) -> str:
    return _plain(found[-1] if found.tag == "figure" else found[0])


def _said(found: Element) -> str:
    """What is drawn, as the page says it to who does not see it; or the rows of a table."""
    if _is(found, "wq-map"):
        return _plain(_state(found)[0])
    if _is(found, "wq-strip"):
        return " ".join(map(_plain, found[0]))
    if found.tag == "table":
        return " ".join(f"{_plain(row)}." for row in found.iter("tr"))
    labels = [each.get("aria-label") for each in found.iter("div") if "aria-label" in each.attrib]
    return " ".join(labels or [f"{_plain(each)}." for each in found.iter("caption")])


def _state(of_map: Element) -> Element:
    """What the map shows first."""
    [shown] = (each.get("value") for each in of_map.iter("input") if "checked" in each.attrib)
    [state] = (each for each in of_map if each.get("data-state") == shown)
    return state


def _plain(node: Element) -> str:
    """What is written in an element, and what its signs say, as plain text."""
    if node.tag == "math":
        return mathml.plain(node)
    parts = [node.get("aria-label") or node.text or ""]
    for child in node:
        apart = " " if child.tag in ("td", "th", "br", "span") else ""
        parts += [apart, _plain(child), apart, child.tail or ""]
    return " ".join("".join(parts).split()).replace(" ,", ",")


def _patterns(colours: dict[str, str]) -> str:
    """The stripes of weights, and those of negative numbers."""
    return "".join(
        f'<pattern id="{name}" width="{wide}" height="{wide}" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><path d="M0 0v{wide}" stroke="{colour}" '
        f'stroke-width="{thick}" stroke-opacity="{part}"/></pattern>'
        for name, wide, colour, thick, part in (
            ("hatched", 4, colours[_HATCHED], 2, 0.45),
            ("striped", 6, colours["shade"], 6, 0.5),
        )
    )


def mix(colour: str, part: float, ground: str) -> str:
    """A colour on a ground, as a stylesheet mixes them.

    Examples:
        >>> mix("#ff0000", 0.5, "#0000ff")
        '#800080'
    """
    pairs = ((int(each[at : at + 2], 16) for each in (colour, ground)) for at in (1, 3, 5))
    return "#" + "".join(f"{int(part * a + (1 - part) * b + 0.5):02x}" for a, b in pairs)


@dataclass(frozen=True)
class _Cell:
    """What is written in a cell of a table, where from 0 to 1, and what the cell is filled with."""

    box: Box
    place: float = 1
    fills: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Painter:
    """Draws an element as what its classes say that it is.

    Attributes:
        colours: Those of the theme.
        unit: How many pixels a unit of a matrix has.
        stored: Whether it draws what a library stores: a shade marks one head there.
        turned: Whether names above columns are turned.
    """

    colours: dict[str, str]
    unit: float = _UNIT[1]
    stored: bool = False
    turned: bool = False

    def draw(self, node: Element) -> Box:
        """Draw an element.

        Raises:
            ValueError: If it is none of those that are known.
        """
        known: dict[str, Callable[[Element], Box]] = {
            "wq-diagram": self._diagram,
            "wq-equation": self._equation,
            "wq-strip": self._strip,
            "wq-in": self._in_letters,
            "wq-heat": self._heat_map,
            "wq-mask": self._mask,
            "wq-matrix": self._matrix,
            "wq-part": self._row,
            "wq-call": self._row,
            "wq-group": self._group,
            "wq-sign": self._sign,
            "wq-heads": self._heads,
            "wq-each": self._each,
            "wq-map": self._map,
            "wq-map-bar": self._bar,
            "wq-map-bars": self._bar,
            "wq-map-funnel": self._funnel,
            "wq-map-misfit": self._misfit,
            "wq-map-nothing": self._misfit,
        }
        for name, draw in known.items():
            if _is(node, name):
                return draw(node)
        if node.tag == "div":
            return self.stack(node)
        if node.tag == "p":
            return self._text(node, self._pen(_SMALL), _COLUMN, 0.5)
        raise ValueError(f"<{node.tag} class={node.get('class', '')!r}> cannot be drawn")

    def stack(self, node: Element) -> Box:
        """Drawings one below the other, and tables beside each other where there is room."""
        for text in (node.text, *(child.tail for child in node)):
            if text and text.strip():
                raise ValueError(f"{text.strip()!r} stands outside a drawing")
        return _on_one_foot(map(self.draw, node), 2 * _EM, _EM)

    # What is written.

    def _pen(self, size: float = _EM, colour: str = "ink", style: str = "") -> Pen:
        return Pen(size, "" if colour == "ink" else self._colour(colour), style)

    def _colour(self, name: str) -> str:
        if name not in self.colours:
            known = ", ".join(self.colours)
            raise ValueError(f"{name!r} is no colour of the theme: expected one of {known}")
        return self.colours[name]

    def _area(self, role: str, wide: float, high: float, part: float, edge: float = 1.5) -> Box:
        """A rectangle in a role's colour, of which its ground has a part."""
        colour = self._colour(role)
        how = {"fill": mix(colour, part, self.colours["paper"]), "stroke": colour}
        dashes = "4 3" if role == _DASHED else ""
        return area(wide, high, **how, stroke_width=number(edge), stroke_dasharray=dashes)

    def _text(self, node: Element, pen: Pen, widest: float = WIDEST, align: float = 0) -> Box:
        lines = [beside(each) for each in _lines(self._pieces(node, pen), widest)]
        return below(lines, 0.15 * pen.size, align)

    def _label(self, node: Element, hidden: str = "") -> Box:
        return Box() if hidden and _is(node, hidden) else self._text(node, self._pen(_SMALL))

    def _caption(self, node: Element, widest: float) -> Box:
        return self._text(node, self._pen(_SMALL, "ink-soft"), max(widest, 24 * _EM))

    def _pieces(self, node: Element, pen: Pen) -> Iterator[Box | str]:
        """Words and formulas, with a space or the end of a line between those that are apart."""
        yield from _words(node.text, pen)
        for child in node:
            if child.tag == "math":
                yield svg.formula(child, pen, self.colours)
            elif child.tag == "br":
                yield "\n"
            elif not _is(child, "wq-unseen"):
                noted = _is(child, "wq-note")
                yield from self._pieces(child, replace(pen, style="bold") if noted else pen)
                yield from "\n" if noted else ""
            yield from _words(child.tail, pen)

    # Diagrams: matrices to scale.

    def _diagram(self, node: Element) -> Box:
        sizes, stored = _style(node), _is(node, "wq-stored")
        fits = (WIDEST - sizes["--ems"] * _EM) / sizes["--units"]
        here = replace(self, unit=max(_UNIT[0], min(_UNIT[1], fits)), stored=stored)
        *pictures, caption = node
        cases, between = [here._case(each) for each in pictures], 0.8 * _EM
        titled = _is(pictures[0], "wq-case")
        drawn = wrapped(cases, 2 * _EM, WIDEST, between) if titled else below(cases, between)
        return below([drawn, here._caption(caption, drawn.width)], 0.6 * _EM)

    def _case(self, node: Element) -> Box:
        """The lines of a block, below their title if they have one."""
        if not _is(node, "wq-case"):
            return self._line(node)
        title, pictures = node
        lines = below([self._line(each) for each in pictures], 0.6 * _EM)
        return below([self._text(title, self._pen(_SMALL, style="bold")), lines], 0.5 * _EM)

    def _line(self, node: Element) -> Box:
        [drawn] = node
        if _is(drawn[0], "wq-side"):
            sides = [self._side(each, bool(at)) for at, each in enumerate(drawn)]
            return below(sides, 0.4 * _EM)
        return wrapped(map(self.draw, drawn), 0.4 * _EM, WIDEST, 0.8 * _EM)

    def _in_letters(self, node: Element) -> Box:
        """The same in the letters of a source, below its name."""
        name, figure = node
        named = self._text(name, self._pen(_SMALL, style="bold"))
        return below([named, self.draw(figure)], 0.6 * _EM)

    def _row(self, node: Iterable[Element]) -> Box:
        return beside(map(self.draw, node), 0.4 * _EM)

    def _side(self, node: Element, signed: bool) -> Box:
        """One side of an equation, below which stands what is written to it.

        Its sign has a place also where it is not drawn.
        """
        notes = [each for each in node if _is(each, "wq-note")]
        parts = [self.draw(each) for each in node if each not in notes]
        if _is(node[0], "wq-sign") and not signed:
            parts[0] = replace(parts[0], marks=())
        row = beside(parts, 0.4 * _EM)
        written = [self._caption(each, row.width).padded(left=_EM) for each in notes]
        return below([row, *written], 0.3 * _EM)

    def _sign(self, node: Element) -> Box:
        return self._text(node, self._pen(1.1 * _EM))

    def _group(self, node: Element) -> Box:
        """Parentheses, as tall as what stands between them."""
        inside, bend = self._row(node), 0.45 * _EM
        tall = f"{number(inside.height / 2)} 0 {number(inside.height)}"
        paths = (
            f"M{number(bend)} {number(-inside.up)}q{number(-bend)} {tall}",
            f"M0 {number(-inside.up)}q{number(bend)} {tall}",
        )
        pen = self._pen(1.6, "ink-soft")
        left, right = (Box((line(path, pen),), bend) for path in paths)
        return beside([left, inside, right], 0.2 * _EM)

    def _matrix(self, node: Element, middle: Box | None = None, hidden: str = "") -> Box:
        """A rectangle: its sizes stand above it and on its left, its letter below it."""
        columns, rows, blocks, letter = node
        middle = middle or self._rectangle(node, blocks)
        above, left = (self._label(each, hidden) for each in (columns, rows))
        under = self._text(letter, self._pen(_SMALL if self.stored else _EM), align=0.5)
        edge, gap = max(above.height, under.height), 0.15 * _EM
        parts = (
            above.padded(over=edge - above.height),
            middle,
            under.padded(under=edge - under.height),
        )
        column = below(parts, gap, 0.5)
        # what stands above may be wider than the rectangle
        inset = (column.width - middle.width) / 2
        room = max(left.width + 2 * gap - inset, 0) if left.width else 0
        beside_it = left.at(room + inset - left.width - 2 * gap, 0)
        return Box(column.at(room, 0) + beside_it, room + column.width, column.up, column.down)

    def _rectangle(self, node: Element, blocks: Element) -> Box:
        """The blocks of a matrix, or the whole of it, and the lines between its tokens."""
        sizes = _style(blocks)
        wide, high = self.unit * sizes["--columns"], self.unit * sizes["--rows"]
        size = wide / sizes["--across"], high / sizes["--down"]
        drawn = [self._block(block, node, size) for block in blocks]
        across = 1 if _is(blocks, "wq-stacked") else int(sizes["--across"])
        whole = below([beside(drawn[at : at + across]) for at in range(0, len(drawn), across)])
        down, across = (
            range(1, int(sizes[side])) if _is(blocks, f"wq-lines-{way}") else ()
            for way, side in (("down", "--rows"), ("across", "--columns"))
        )
        steps = [f"M0 {number(at * self.unit - high / 2)}h{number(wide)}" for at in down]
        steps += [f"M{number(at * self.unit)} {number(-high / 2)}v{number(high)}" for at in across]
        if not steps:
            return whole
        lines = line("".join(steps), self._pen(1, _role(node)), stroke_opacity="0.45")
        return replace(whole, marks=(*whole.marks, lines))

    def _block(self, block: Element, matrix: Element, size: tuple[float, float]) -> Box:
        """A part of a rectangle that belongs to a head, with its shade and its number."""
        role, shade = _role(matrix), _style(block).get("--shade")
        part = 0.14 if shade is None else 1 if self.stored else 0.08 + 0.4 * shade
        apart = 1.5 if _is(matrix, "wq-slices") else 0
        wide, high = (length - 2 * apart for length in size)
        kept = _is(matrix, "wq-kept") or _is(block, "wq-kept")
        ground = self._area(role, wide, high, part, 3.5 if kept else 1.5)
        hatched = [area(wide, high, fill="url(#hatched)")] if role == _HATCHED and part < 1 else []
        written = self._text(block, self._pen(0.72 * _EM, "paper" if part == 1 else "ink"))
        return _in_room(on(ground, *hatched, written), *size)

    def _heads(self, node: Element) -> Box:
        """One rectangle for each head: one of keys has the room of the heads that it serves.

        A size that all of them have stands beside the first.
        """
        sizes, down = _style(node), _is(node, "wq-down")
        one = sizes["--one"] * self.unit
        room = sizes["--served"] * (one + 2.6 * _EM if down else max(one, 2.1 * _EM) + 0.5 * _EM)
        common = "wq-columns" if down else "wq-rows"
        slots = [
            self._matrix(slot[0], hidden=common if others else "")
            for others, slot in enumerate(node)
        ]
        if down:
            return below([_in_room(each, height=room) for each in slots])
        first, *others = slots
        extra = first.width - others[0].width if others else 0
        return beside([_in_room(first, room + extra), *(_in_room(each, room) for each in others)])

    def _each(self, node: Element) -> Box:
        """A vector, and in dashes where it is added again for each token."""
        [matrix] = node
        sizes, down = _style(node), _is(node, "wq-down")
        more, one = sizes["--more"] * self.unit, sizes["--one"] * self.unit
        wide, high = (one, more) if down else (more, one)
        how = {"fill": "none", "stroke": self._colour(_role(matrix)), "stroke-dasharray": "3 3"}
        again = area(wide, high, **how)
        once = self._rectangle(matrix, matrix[2])
        return self._matrix(matrix, below([once, again]) if down else beside([once, again]))

    # The map: bars as wide as there are numbers for one word, and funnels between them.

    def _map(self, node: Element) -> Box:
        """Two ways through the layer beside each other: what is heard, and what is meant."""
        state = _state(node)
        ways = [each for each in state if _is(each, "wq-map-heard", "wq-map-meant")]
        if not ways:
            raise ValueError(f"the state {state.get('data-state')!r} of the map cannot be drawn")
        drawn = [below([self.draw(each) for each in way], 0.3 * _EM, 0.5) for way in ways]
        drawn = [each.raised(-each.up) for each in drawn]  # they begin at one height
        row = beside(drawn, 2 * _EM)
        said = [
            self._text(each, self._pen(_SMALL), row.width)
            for each in state
            if _is(each, "wq-map-sizes")
        ]
        return below([row, *said, self._caption(node[-1], row.width)], 0.5 * _EM)

    def _bar(self, node: Element) -> Box:
        """The numbers of one word; a letter for which it has no room stands beside it."""
        letters = [each for each in node if _is(each, "wq-map-letter")]
        inside = node[0] if letters else node
        text = self._text(inside, self._pen(_SMALL))
        bar = self._area(_role(node), _COLUMN * _style(node)["--part"], 1.7 * _EM, 0.09)
        box = on(bar, text)
        named = [self._text(each, self._pen()) for each in letters]
        right = beside([Box(width=0.4 * _EM), *named])
        return beside([Box(width=right.width), box, right]) if letters else box

    def _funnel(self, node: Element) -> Box:
        """The way through a weight, from as many numbers as it takes to as many as it gives."""
        picture, said = node
        colour, high = self._colour(_role(node)), 3.6 * _EM
        *_, width, height = map(float, picture.get("viewbox").split())
        scale = f"scale({_COLUMN / width:.4g} {high / height:.4g})"
        how = {
            "fill": colour,
            "fill-opacity": "0.2",
            "stroke": colour,
            "vector-effect": "non-scaling-stroke",
        }
        paths = "".join(f'<path d="{path.get("d")}"{svg.attributes(how)}/>' for path in picture)
        mark = Mark("g", f'><g transform="{scale}">{paths}</g></g>')
        text = self._text(said, self._pen(_SMALL), align=0.5)
        above = text.padded(under=high - text.height)
        return on(Box((mark,), _COLUMN, 0, high).centred(), above)

    def _misfit(self, node: Element) -> Box:
        """What the second matrix wants and does not get."""
        text = self._text(node, self._pen(_SMALL, "wrong"), _COLUMN, 0.5)
        wide = _COLUMN if _is(node, "wq-map-misfit") else text.width + 3 * _EM
        how = {"fill": "none", "stroke": self._colour("wrong"), "stroke-width": "2"}
        return on(area(wide, text.height + 0.4 * _EM, stroke_dasharray="5 4", **how), text)

    # Tables: numbers, signs and rows of a weight.

    def _equation(self, node: Element) -> Box:
        """Matrices with their numbers, and signs between them."""
        here = replace(self, turned=True)
        [drawn] = (each for each in node.iter("div") if _is(each, "wq-drawn"))
        rows: list[list[Box]] = [[]]
        for part in drawn:
            arrow = _is(part, "wq-down")
            rows += [[]] * arrow
            rows[-1].append(here.draw(part).padded(left=7 * _EM * arrow))
            rows += [[]] * arrow
        lines = below([_on_one_foot(row, 0.6 * _EM, _EM) for row in rows], 0.6 * _EM)
        return below([lines, self._caption(node[-1], lines.width)], 0.6 * _EM)

    def _heat_map(self, node: Element) -> Box:
        colour = self._colour(_role(node))
        cells = [[self._heat(each, colour) for each in row] for row in node.iter("tr")]
        table = _grid(cells, 0.35 * _EM)
        caption = self._text(
            node[0],
            self._pen(_SMALL, "ink-soft"),
            max(table.width, 12 * _EM if self.turned else WIDEST),
        )
        return below([caption, table], 0.3 * _EM)

    def _heat(self, node: Element, colour: str) -> _Cell:
        if "style" not in node.attrib:
            return self._name(node, "ink")
        tint = mix(colour, 0.4 * _style(node)["--part"], self.colours["shade"])
        stripes = ("url(#striped)",) if _is(node, "wq-negative") else ()
        return _Cell(self._text(node, self._pen(0.86 * _EM)), 1, (tint, *stripes))

    def _name(self, node: Element, colour: str) -> _Cell:
        """The name of a row or a column, or the corner where both begin."""
        if node.tag == "td":
            return _Cell(self._text(node, self._pen(0.75 * _EM, "ink-soft"), align=1))
        name = self._text(node, self._pen(0.86 * _EM, colour))
        above = node.get("scope") == "col"
        return _Cell(svg.turned(name) if above and self.turned else name, 0.5 if above else 1)

    def _mask(self, node: Element) -> Box:
        here = replace(self, turned=True)
        plain = _is(node, "wq-steps-inside")  # its names are those of no role
        cells = [[here._sign_of_mask(each, plain) for each in row] for row in node.iter("tr")]
        caption = self._text(node[0], self._pen(_SMALL, style="bold"))
        return below([caption, _grid(cells, 0.3 * _EM)], 0.4 * _EM)

    def _sign_of_mask(self, node: Element, plain: bool) -> _Cell:
        sign = next((name for name in _SIGNS if _is(node, name)), None)
        if not sign:
            role = "role-key" if node.get("scope") == "col" else "role-query"
            return self._name(node, "ink" if plain else role)
        paper, may = self.colours["paper"], sign == "wq-may"
        fill = mix(self.colours["role-score"], 0.78, paper) if may else self.colours["shade"]
        ink = paper if may else self.colours["ink-soft"]
        drawn = Box((line(_SIGNS[sign], Pen(1.8, ink)),), 19, 0, 19).centred()
        return _Cell(drawn, 0.5, (fill,))

    def _strip(self, node: Element) -> Box:
        """The rows of a fused weight, the first on the left."""
        cells, caption = node
        drawn = wrapped(map(self._cell_of_strip, cells), 1, WIDEST, 1)
        return below([drawn, self._caption(caption, WIDEST)], 0.3 * _EM)

    def _cell_of_strip(self, node: Element) -> Box:
        pen = self._pen(_SMALL, _role(node))
        text = self._text(node, pen)
        wide, high = max(1.7 * _EM, text.width + 6), max(1.4 * _EM, text.height)
        return on(area(wide, high, fill="none", stroke=pen.colour), text)


def _read(page: str) -> Element:
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return reader.tree()


class _Reader(HTMLParser):
    """Reads HTML into a tree whose root is `body`."""

    def __init__(self):
        super().__init__()
        self._builder = TreeBuilder()
        self._builder.start("body", {})

    def handle_starttag(self, tag, attrs):
        self._builder.start(tag, {name: value or "" for name, value in attrs})
        if tag in elements.VOID:
            self._builder.end(tag)

    def handle_endtag(self, tag):
        if tag not in elements.VOID:  # `<br/>` is a start and an end
            self._builder.end(tag)

    def handle_data(self, data):
        self._builder.data(data)

    def tree(self) -> Element:
        self._builder.end("body")
        return self._builder.close()


def _is(node: Element, *names: str) -> bool:
    return not {*names}.isdisjoint(node.get("class", "").split())


def _role(node: Element) -> str:
    """The role whose colour an element has, from its class or its style."""
    told = node.get("class", ""), node.get("style", "")
    role = re.search(r"\brole-\w+", " ".join(told))
    if not role:
        expected = "role-... in its class or its style"
        raise ValueError(f"<{node.tag} class={told[0]!r}> has no role: expected {expected}")
    return role[0]


def _style(node: Element) -> dict[str, float]:
    """The lengths that an element tells the stylesheet."""
    pairs = (each.partition(":") for each in node.get("style", "").split(";") if each)
    return {name: float(value) for name, _, value in pairs if name.startswith("--")}


def _words(text: str | None, pen: Pen) -> Iterator[Box | str]:
    """The words of a text, and a space wherever there is one."""
    for piece in re.findall(r"\s+|\S+", text or ""):
        yield " " if piece.isspace() else words(piece, pen)


def _lines(pieces: Iterable[Box | str], widest: float) -> Iterator[list[Box]]:
    """Pieces in lines; what no space stands between is not parted."""
    row: list[Box] = []
    for between, word in _parted(pieces):
        width = sum(each.width for each in (*row, _SPACE, *word))
        if row and (between == "\n" or width > widest):
            yield row
            row = []
        row += [_SPACE, *word] if row else word
    if row:
        yield row


def _parted(pieces: Iterable[Box | str]) -> Iterator[tuple[str, list[Box]]]:
    """What is written without a space in it, and what stands before it: a space or a line's end."""
    between, word = " ", []
    for piece in pieces:
        if isinstance(piece, Box):
            word.append(piece)
        elif word:
            yield between, word
            between, word = piece, []
        elif piece == "\n":
            between = piece
    if word:
        yield between, word


def _in_room(box: Box, width: float = 0, height: float = 0) -> Box:
    """A box in the middle of more room."""
    beside_it, over = max(width - box.width, 0) / 2, max(height - box.height, 0) / 2
    return box.padded(left=beside_it, right=beside_it, over=over, under=over)


def _on_one_foot(boxes: Iterable[Box], gap: float, between: float) -> Box:
    """Boxes in rows; those of a row end at one height."""
    return wrapped([each.raised(each.down) for each in boxes], gap, WIDEST, between)


def _grid(rows: list[list[_Cell]], room: float) -> Box:
    """Cells in rows and columns."""
    widths = [
        max(cell.box.width for cell in column) + 2 * room for column in zip(*rows, strict=True)
    ]
    return below([_row_of_cells(row, widths, room) for row in rows])


def _row_of_cells(row: list[_Cell], widths: list[float], room: float) -> Box:
    height = max(cell.box.height for cell in row) + room
    pairs = zip(row, widths, strict=True)
    return beside(_filled(cell, width, height, room) for cell, width in pairs)


def _filled(cell: _Cell, width: float, height: float, room: float) -> Box:
    """A cell on its ground, with a gap to the next."""
    fills = [area(width - 1, height - 1, fill=fill) for fill in cell.fills]
    grounds = [each.padded(right=1, under=1) for each in fills]
    free = width - 2 * room - cell.box.width
    left, right = room + free * cell.place, room + free * (1 - cell.place)
    whole = Box(width=width, up=height / 2, down=height / 2)
    return on(whole, *grounds, cell.box.padded(left=left, right=right))
