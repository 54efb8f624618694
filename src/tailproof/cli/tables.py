"""Tables and lists of sentences on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from tailproof.report.tables import ResultTable
from tailproof.report.text import number


def as_rich(table: ResultTable) -> Table:
    """Return a table of a page for the terminal."""
    shown = Table(
        title=table.caption or None,
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for column in table.columns:
        shown.add_column(column, overflow="fold")
    for row in table.rows:
        shown.add_row(*(_text(cell, table.digits) for cell in row))
    return shown


def points(sentences: Sequence[str]) -> Table:
    """Return a list of sentences, each hanging from its dash."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    for sentence in sentences:
        grid.add_row("-", Text(sentence))
    return grid


def _text(cell: Any, digits: int) -> Text:
    if cell is None:
        return Text("–")
    if isinstance(cell, str):
        return Text(cell)
    return Text(number(float(cell), digits), justify="right")
