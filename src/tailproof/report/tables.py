"""Tables of the page: text and numbers, never markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from tailproof.report.text import minus, number

Cell = str | float | int | None
_FIGURES = re.compile(r"[-+][\d.,]+( \([-+][\d.,]+ %\))?")  # a signed number, and its share


@dataclass(frozen=True)
class Table:
    """Rows under named columns. Numbers keep their full value beside the rounded one.

    Parameters
    ----------
    columns
        The titles.
    rows
        Cells: text is escaped, numbers are rounded for the eye.
    caption
        What the table shows.
    digits
        Significant digits of numbers.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    digits: int = 4

    def html(self) -> Markup:
        """Return the table as HTML.

        >>> Table(("id",), (("<b>",),)).html()
        Markup('<table><thead><tr><th scope="col">id</th></tr></thead><tbody><tr><td>&lt;b&gt;</td>\
</tr></tbody></table>')
        """
        numeric = [
            any(_is_number(row[i]) for row in self.rows)
            and all(row[i] is None or _is_number(row[i]) for row in self.rows)
            for i in range(len(self.columns))
        ]
        noise = [_rounding(row[i] for row in self.rows) for i in range(len(self.columns))]
        caption = Markup("<caption>{}</caption>").format(self.caption) if self.caption else ""
        head = Markup("").join(
            Markup('<th scope="col"{}>{}</th>').format(_numeric_class(flag), title)
            for flag, title in zip(numeric, self.columns, strict=True)
        )
        body = Markup("").join(
            Markup("<tr>{}</tr>").format(Markup("").join(map(self._cell, row, noise)))
            for row in self.rows
        )
        return Markup("<table>{}<thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(
            caption, head, body
        )

    def lines(self) -> list[str]:
        """Return the table as plain text, for cells of text.

        >>> Table(("id", "gain"), (("a", "+1"), ("long", ""))).lines()
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


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], **options: Any) -> Table:
    """Return a table of any sequences, with numpy's numbers as Python's."""
    return Table(
        tuple(columns),
        tuple(
            tuple(cell.item() if isinstance(cell, np.generic) else cell for cell in row)
            for row in rows
        ),
        **options,
    )


def _rounding(cells: Iterable[Cell]) -> float:
    """Return the size below which a number of this column is a rounding error."""
    sizes = [abs(float(cell)) for cell in cells if _is_number(cell)]  # type: ignore[arg-type]
    return 1e-12 * max((size for size in sizes if size < float("inf")), default=0.0)


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def _numeric_class(flag: bool) -> Markup:
    return Markup(' class="number"') if flag else Markup("")
