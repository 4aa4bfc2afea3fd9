"""A matrix, drawn: a rectangle with its sizes at its edges, its letter below it, cut into blocks.

The stylesheet makes the rectangle as tall and as wide as `--rows` and `--columns` say, in the unit
of the drawing. Diagrams in pages and the explorer have this markup, and no other.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    """A part of a rectangle that belongs to a head, to some, or to a word, or the whole of it.

    Attributes:
        name: What is written into it.
        shade: How dark it is, from 0 to 1, so that a head can be followed; or None.
        kept: Whether it has a thick edge, as what was kept.
    """

    name: str = ""
    shade: float | None = None
    kept: bool = False

    @property
    def html(self) -> str:
        """The block, as large as the stylesheet makes it."""
        style = "" if self.shade is None else f' style="--shade:{self.shade:.2f}"'
        name = f"<b>{self.name}</b>" if self.name else ""
        kept = " wq-kept" if self.kept else ""
        return f'<span class="wq-block{kept}"{style}>{name}</span>'


@dataclass(frozen=True)
class Side:
    """One side of a rectangle.

    Attributes:
        length: How long it is, in units.
        label: HTML that names it.
        blocks: What it is cut into.
        tokens: Whether tokens stand along it, which lines separate.
    """

    length: int
    label: str
    blocks: tuple[Block, ...] = (Block(),)
    tokens: bool = False


def matrix(
    rows: Side, columns: Side, letter: str, *, classes: str, data: str = "", of_blocks: str = ""
) -> str:
    """Draw a matrix.

    Args:
        rows: Its vertical side, which may be cut into blocks.
        columns: Its horizontal side, which may be cut too. A block has the name of its row, or that
            of its column.
        letter: HTML that stands below it.
        classes: The role's colour, and what else a stylesheet needs to know.
        data: Attributes of the whole.
        of_blocks: Attributes of the rectangle.
    """
    down, across = len(rows.blocks), len(columns.blocks)
    cut = [row if row.name else column for row in rows.blocks for column in columns.blocks]
    marks = "".join(
        f" {mark}"
        for mark, holds in (
            ("wq-stacked", down > 1 and across == 1),
            ("wq-cells", down > 1 and across > 1),
            ("wq-lines-down", rows.tokens),
            ("wq-lines-across", columns.tokens),
        )
        if holds
    )
    style = f"--rows:{rows.length};--columns:{columns.length};--down:{down};--across:{across}"
    blocks = "".join(block.html for block in cut)
    return (
        f'<span class="wq-matrix {classes}"{data}>{columns.label}{rows.label}'
        f'<span class="wq-blocks{marks}"{of_blocks} style="{style}">{blocks}</span>'
        f'<span class="wq-letter">{letter}</span></span>'
    )
