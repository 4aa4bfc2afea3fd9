"""A matrix, drawn: a rectangle with its sizes at its edges, its letter below it, cut into blocks.

The stylesheet makes the rectangle as tall and as wide as `--rows` and `--columns` say, in the unit
of the drawing. Diagrams in pages and the explorer have this markup, and no other.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Side:
    """One side of a rectangle.

    Attributes:
        length: How long it is, in units.
        label: HTML that names it.
        blocks: What is written into each block that it is cut into.
        tokens: Whether tokens stand along it, which lines separate.
    """

    length: int
    label: str
    blocks: tuple[str, ...] = ("",)
    tokens: bool = False


def matrix(
    rows: Side,
    columns: Side,
    letter: str,
    *,
    classes: str,
    data: str = "",
    of_blocks: str = "",
) -> str:
    """Draw a matrix.

    Args:
        rows: Its vertical side, which may be cut into blocks.
        columns: Its horizontal side, which may be cut instead.
        letter: HTML that stands below it.
        classes: The role's colour, and what else a stylesheet needs to know.
        data: Attributes of the whole.
        of_blocks: Attributes of the rectangle.
    """
    down, across = len(rows.blocks), len(columns.blocks)
    names = rows.blocks if down > 1 else columns.blocks
    marks = "".join(
        f" {mark}"
        for mark, holds in (
            ("wq-stacked", down > 1),
            ("wq-lines-down", rows.tokens),
            ("wq-lines-across", columns.tokens),
        )
        if holds
    )
    style = f"--rows:{rows.length};--columns:{columns.length};--down:{down};--across:{across}"
    blocks = "".join(f'<span class="wq-block">{name}</span>' for name in names)
    return (
        f'<span class="wq-matrix {classes}"{data}>{columns.label}{rows.label}'
        f'<span class="wq-blocks{marks}"{of_blocks} style="{style}">{blocks}</span>'
        f'<span class="wq-letter">{letter}</span></span>'
    )
