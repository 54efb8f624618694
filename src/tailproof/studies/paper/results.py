"""Tidy results: a row for each cell, replicate and method; as columns, Parquet and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tailproof.arrays import AnyArray, BoolArray, FloatArray
from tailproof.files.atomic import write_whole
from tailproof.files.frames import plain
from tailproof.studies.paper.experiment import Cell, Row, Settings

#: Columns that no seed repeats; they have a file of their own.
TIMES = ("seconds",)


@dataclass(frozen=True)
class Results:
    """All rows of an experiment, in the order of cells, replicates and methods.

    Examples
    --------
    >>> rows = [{"df": 1.0, "replicate": i, "method": "fqe", "value": float(i)} for i in (0, 1)]
    >>> results = Results("ope", {}, 2, tuple(rows))
    >>> results.values("value", df=1.0, method="fqe")
    array([0., 1.])
    """

    name: str
    settings: Settings
    replicates: int
    rows: tuple[Row, ...]
    seed: int = 0

    @cached_property
    def columns(self) -> dict[str, AnyArray]:
        """Each column as an array, (rows,); NaN or None where a row lacks it."""
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        found = {}
        for name in names:
            entries = [row.get(name) for row in self.rows]
            if all(each is None or isinstance(each, int | float) for each in entries):
                found[name] = np.array([np.nan if e is None else e for e in entries], dtype=float)
            else:
                found[name] = np.array(entries, dtype=object)
        return found

    def where(self, **wanted: Any) -> BoolArray:
        """Return which rows have these values, (rows,)."""
        chosen = np.ones(len(self.rows), dtype=bool)
        for name, value in wanted.items():
            chosen &= self.columns[name] == value
        return chosen

    def values(self, column: str, **wanted: Any) -> FloatArray:
        """Return one column of the rows with these values, in the order of replicates."""
        return np.asarray(self.columns[column][self.where(**wanted)], dtype=float)

    def distinct(self, column: str, **wanted: Any) -> list[Any]:
        """Return the values that a column takes, in the order of their first appearance."""
        return list(dict.fromkeys(self.columns[column][self.where(**wanted)].tolist()))


def tidy(
    cells: Sequence[Cell], replicates: int, measured: Mapping[tuple[int, int], Iterable[Row]]
) -> tuple[Row, ...]:
    """Return rows with their cell and replicate in front, ordered whatever order they came in."""
    return tuple(
        {**cell, "replicate": replicate, **row}
        for place, cell in enumerate(cells)
        for replicate in range(replicates)
        for row in measured[place, replicate]
    )


def write_table(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as Parquet: the same rows, the same bytes."""
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    names = list(dict.fromkeys(name for row in rows for name in row))
    table = pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    write_whole(path, buffer.getvalue())


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write JSON that every parser reads."""
    text = json.dumps(plain(record), indent=1, allow_nan=False, ensure_ascii=False)
    write_whole(path, (text + "\n").encode())


def without_times(row: Row) -> Row:
    """Return what a seed repeats of a row."""
    return {name: value for name, value in row.items() if name not in TIMES}
