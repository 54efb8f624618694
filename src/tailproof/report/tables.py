"""Tables of text and numbers, never markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from tailproof.report.text import minus, number

Cell = str | float | int | None
_NUMBER = Markup(' class="number"')
_FIGURES = re.compile(r"[-+][\d.,]+( \([-+][\d.,]+ %\))?")  # a signed number and percentage


@dataclass(frozen=True)
class ResultTable:
    """Rows with named columns. The HTML has the full value of each number beside the rounded one.

    Parameters
    ----------
    columns
        The titles.
    rows
        Cells: text is escaped, numbers are rounded.
    caption
        What the table shows.
    digits
        Significant digits of numbers.

    Examples
    --------
    >>> Markup.escape(ResultTable(("id",), (("<b>",),)))
    Markup('<table><thead><tr><th scope="col">id</th></tr></thead><tbody><tr><td>&lt;b&gt;</td>\
</tr></tbody></table>')
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    digits: int = 4

    def __html__(self) -> str:
        columns = [[row[i] for row in self.rows] for i in range(len(self.columns))]
        # a smaller number is a rounding error in its column
        noise = [1e-12 * max(map(abs, _finite(column)), default=0.0) for column in columns]
        head = Markup("").join(
            Markup('<th scope="col"{}>{}</th>').format(
                _NUMBER if _is_numeric(column) else "", title
            )
            for title, column in zip(self.columns, columns, strict=True)
        )
        body = Markup("").join(
            Markup("<tr>{}</tr>").format(Markup("").join(map(self._cell, row, noise)))
            for row in self.rows
        )
        caption = Markup("<caption>{}</caption>").format(self.caption) if self.caption else ""
        return Markup("<table>{}<thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(
            caption, head, body
        )

    def lines(self) -> list[str]:
        """Return the table as lines of plain text; all cells must be text.

        >>> ResultTable(("id", "gain"), (("a", "+1"), ("long", ""))).lines()
        ['id    gain', 'a     +1', 'long']
        """
        rows = [self.columns, *(tuple(map(str, row)) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]

    def _cell(self, cell: Cell, noise: float) -> Markup:
        if cell is None:
            return Markup('<td class="number">–</td>')
        if isinstance(cell, str):
            text = minus(cell) if _FIGURES.fullmatch(cell) else cell
            return Markup("<td>{}</td>").format(text)
        value = float(cell)
        shown = minus(number(0.0 if abs(value) < noise else value, self.digits))
        return Markup('<td class="number" data-value="{}">{}</td>').format(repr(value), shown)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], **options: Any) -> ResultTable:
    """Return a table from any sequences, with numpy scalars as Python numbers."""
    return ResultTable(
        tuple(columns),
        tuple(
            tuple(cell.item() if isinstance(cell, np.generic) else cell for cell in row)
            for row in rows
        ),
        **options,
    )


def _finite(cells: Iterable[Cell]) -> list[float]:
    return [each for each in cells if isinstance(each, int | float) and abs(each) < float("inf")]


def _is_numeric(cells: Sequence[Cell]) -> bool:
    return any(each is not None for each in cells) and not any(
        isinstance(each, str | bool) for each in cells
    )
