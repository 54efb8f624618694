"""Sheets of Excel workbooks as tables, and what stands above the column names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tailproof.errors import LogError
from tailproof.sources.blame import blaming

#: How a sheet is named: ``excel://plan.xlsx?sheet=Data``.
EXCEL = "excel://"


def named_sheet(source: str) -> tuple[Path, str | None]:
    """Return the workbook and the sheet of a URI; None for the first sheet.

    >>> named_sheet("excel://plan.xlsx?sheet=Data 2024")
    (PosixPath('plan.xlsx'), 'Data 2024')
    """
    path, mark, asked = source.removeprefix(EXCEL).partition("?")
    key, _, sheet = asked.partition("=")
    if mark and (key != "sheet" or not sheet):
        raise LogError(f"After ? comes sheet=NAME. Got {asked!r} in {source!r}.")
    return Path(path), sheet or None


def read_excel(path: Path, label: str, sheet: str | None = None) -> tuple[pa.Table, str]:
    """Return a sheet, by default the first one, and where its column names stand, in words."""
    try:
        from openpyxl import load_workbook
    except ModuleNotFoundError as error:
        raise LogError(f"{label} needs openpyxl: pip install 'tailproof[excel]'.") from error
    with blaming(label, "An Excel log is one sheet with column names in its first row."):
        book = load_workbook(path, read_only=True, data_only=True)
        titles = [each.title for each in book.worksheets]
        if sheet is not None and sheet not in titles:
            raise LogError(f"{label} has no sheet {sheet!r}. It has {', '.join(titles)}.")
        title = titles[0] if sheet is None else sheet
        rows = list(book[title].iter_rows(values_only=True))
        book.close()
        while rows and all(cell is None for cell in rows[-1]):  # such as cells with a border only
            rows.pop()
        heading = _heading(path, title, titles, rows)
        if not rows:
            raise LogError(f"{label} has nothing in the sheet {title!r}. {heading}")
        named = [j for j, name in enumerate(rows[0]) if name is not None]
        columns = {str(rows[0][j]): _column([row[j] for row in rows[1:]]) for j in named}
        if len(columns) < len(named):
            raise ValueError("two columns have the same name")
        return pa.table(columns), heading


def _column(cells: Sequence[Any]) -> pa.Array:
    """Return the cells of a column; if their types differ, as numbers or text, as in a CSV file."""
    try:
        return pa.array(cells)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        texts = pa.array([None if cell is None else str(cell) for cell in cells])
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return texts


def _heading(path: Path, title: str, titles: list[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return where the column names stand, and where they may stand instead, in words."""
    said = [f"The names are those in the first row of the sheet {title!r}."]
    cells = [sum(cell is not None for cell in row) for row in rows[:50]]
    first = next((row for row, count in enumerate(cells) if count > 1), 0)
    if first and cells[0] < 2:
        said.append(
            f"Row {first + 1} looks like column names: delete the rows above it, or convert the sheet: "
            f"pandas.read_excel({str(path)!r}, sheet_name={title!r}, header={first})"
            f".to_csv('log.csv', index=False)."
        )
    if others := [each for each in titles if each != title]:
        said.append(
            f"Other sheets are {', '.join(others[:5])}; name one as in "
            f"'{EXCEL}{path}?sheet={others[0]}'."
        )
    return " ".join(said)
