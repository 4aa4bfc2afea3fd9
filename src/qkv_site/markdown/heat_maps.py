"""Scores and weights as a table: a number in each cell, and the larger, the darker."""

import html

import numpy as np
from jaxtyping import Float


def heat_map(
    values: Float[np.ndarray, "n_q n_k"],
    *,
    rows: list[str],
    columns: list[str],
    label: str,
    digits: int = 2,
) -> str:
    """Draw a matrix as an HTML table; print it in a block with `html="on"`.

    Args:
        values: Scores or weights. A score of minus infinity is one that a mask excludes.
        rows: What each row is called: the token that asks.
        columns: What each column is called: the token that is looked at.
        label: What the numbers are, and what a row and a column is.
        digits: How many digits stand after the point.

    Raises:
        ValueError: If there are not as many names as rows or columns.
    """
    if values.shape != (len(rows), len(columns)):
        raise ValueError(
            f"values has shape {values.shape}, but there are {len(rows)} names of rows and "
            f"{len(columns)} of columns."
        )
    finite = values[np.isfinite(values)]
    least, most = finite.min(initial=0), finite.max(initial=0)
    parts = np.where(np.isfinite(values), (values - least) / (most - least or 1), 0)
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in columns)
    body = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th>{"".join(map(_cell, numbers, shares))}</tr>'
        for name, numbers, shares in zip(rows, _written(values, digits), parts, strict=True)
    )
    return (
        '<div class="md-typeset__scrollwrap"><div class="md-typeset__table"><table class="wq-heat">'
        f"<caption>{html.escape(label)}</caption><thead><tr><td></td>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div></div>"
    )


def _written(values: np.ndarray, digits: int) -> list[list[str]]:
    return [
        [f"{value:.{digits}f}".replace("-", "\u2212").replace("inf", "\u221e") for value in row]
        for row in values
    ]


def _cell(number: str, part: float) -> str:
    return f'<td style="--part:{part:.2f}">{number}</td>'
