"""Open tables as Arrow: files, folders, and frames of other libraries."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tailproof.errors import LogError
from tailproof.sources.blame import blaming
from tailproof.sources.databases import database, read_database
from tailproof.sources.encode import array, dated
from tailproof.sources.excel import EXCEL, named_sheet, read_excel
from tailproof.sources.limits import LimitedStream, require_room
from tailproof.sources.spelling import may_be_thousands, require_no_thousands, require_utf8

CSV_SUFFIXES = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".csv.bz2", ".csv.zst")
ARROW_SUFFIXES = (".arrow", ".feather", ".ipc")
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz")


@dataclass(frozen=True)
class Source:
    """An opened table: its columns are known, its rows not yet read.

    `read` takes the columns to read, and those among them that are labels, which keep their spelling.
    """

    label: str  # its name in error messages
    names: tuple[str, ...]
    read: Callable[[Sequence[str], Sequence[str]], pa.Table]
    schema: pa.Schema | None = None  # if its metadata may hold tailproof's description
    index: Any = None  # the row labels of a pandas frame
    heading: str = ""  # where the names of its columns stand, if none of them fits
    merged: tuple[str, ...] = ()  # columns that were merged into another


def open_table(given: Any) -> Source:
    """Open a path, a query, an Arrow table, any frame that Arrow can read, or a mapping of arrays."""
    if asked := database(given):
        label = f"The database {asked.path}"
        with blaming(label, "Check the query, and that every column has one type."):
            return _in_memory(label, read_database(asked))
    if isinstance(given, str) and given.startswith(EXCEL):
        path, sheet = named_sheet(given)
        return _in_memory(f"The file {path}", *read_excel(path, f"The file {path}", sheet))
    if isinstance(given, str | Path):
        return _open_path(Path(given))
    label = f"The {type(given).__module__.split('.')[0]} {type(given).__name__}"
    with blaming(label, "Pass a table with a name and one type for each column."):
        table = _as_table(given)
    if table is None:
        raise LogError(
            f"A log is read from a file, a folder, an Arrow table, a pandas, polars or other frame, a "
            f"Minari data set or a d3rlpy data set. Got {type(given).__name__} instead."
        )
    pandas = sys.modules.get("pandas")
    is_pandas = pandas is not None and isinstance(given, pandas.DataFrame)
    return replace(_in_memory(label, table), index=given.index if is_pandas else None)


@contextmanager
def naming_the_type(where: str = "") -> Iterator[None]:
    """Convert Arrow's errors about types to a `LogError` with the location in the data set."""
    try:
        yield
    except LogError as error:
        raise type(error)(f"{where}{error}") from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        said = "a column" if where else "A column"
        raise LogError(
            f"{where}{said} cannot be read: {reason[:300]}. Convert it to numbers or UTF-8 text."
        ) from error


def _in_memory(label: str, table: pa.Table, heading: str = "") -> Source:
    def read(columns: Sequence[str], _: Sequence[str]) -> pa.Table:
        return table.select(list(columns))

    return Source(label, tuple(table.column_names), read, table.schema, heading=heading)


def _as_table(given: Any) -> pa.Table | None:
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if isinstance(given, pa.RecordBatchReader):
        return given.read_all()
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(given, pandas.DataFrame):
        named = any(name is not None for name in given.index.names)
        frame = given.reset_index() if named else given
        return pa.Table.from_pandas(frame, preserve_index=False)
    if polars is not None and isinstance(given, polars.DataFrame | polars.LazyFrame):
        return given.lazy().collect().to_arrow()
    if isinstance(given, Mapping):
        return pa.table({str(name): pa.array(values) for name, values in given.items()})
    if hasattr(given, "to_table") and hasattr(given, "schema"):  # pyarrow.dataset.Dataset
        return given.to_table()
    if hasattr(given, "__arrow_c_stream__"):
        return pa.table(given)
    return None


def _open_path(path: Path) -> Source:
    label = f"The file {path}"
    try:
        folder = path.is_dir()
        with nullcontext(BytesIO()) if folder else path.open("rb") as file:
            head = file.read(8)
    except (OSError, ValueError) as error:  # ValueError: a path with a zero character
        raise LogError(f"{label} could not be opened: {error}. Check the path.") from error
    if folder:
        return _open_folder(path)
    name = path.name.lower()
    if head[:4] == b"PAR1":
        return _open_parquet(path, label)
    if head[:6] == b"ARROW1" or name.endswith(ARROW_SUFFIXES):
        return _open_arrow(path, label)
    if name.endswith(CSV_SUFFIXES):
        return _open_csv(path, label)
    if name.endswith(JSON_SUFFIXES):
        return _open_json(path, label)
    if name.endswith(".xlsx"):
        return _in_memory(label, *read_excel(path, label))
    raise LogError(
        f"{label} is not a log that can be read"
        + (": it does not begin as a Parquet file does" if name.endswith(".parquet") else "")
        + ". Logs are Parquet, CSV (.csv, .tsv), JSON lines (.jsonl), Excel (.xlsx), Arrow (.arrow, "
        ".feather), HDF5, SQLite or DuckDB files, or folders of Parquet files."
    )


def _open_parquet(path: Path, label: str) -> Source:
    from pyarrow.parquet import ParquetFile

    advice = "The file is damaged or not Parquet; write it again."

    def opened() -> Any:
        return ParquetFile(path, page_checksum_verification=True)

    def read(columns: Sequence[str], _: Sequence[str]) -> pa.Table:
        with blaming(label, advice), opened() as file:
            require_room(label, file.metadata.num_rows, len(columns))
            return file.read(columns=list(columns)).select(list(columns))

    with blaming(label, advice), opened() as file:
        _refuse_miscounted(file)
        schema = file.schema_arrow
        names = tuple(schema.names)
    return Source(label, names, read, schema)


def _refuse_miscounted(file: Any) -> None:
    """Raise unless a Parquet file's row counts agree; Arrow does not check this."""
    metadata = file.metadata
    rows = sum(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
    if rows != metadata.num_rows:
        raise ValueError("its counts of rows contradict each other")


def _open_folder(path: Path) -> Source:
    from tailproof.sources.storage import open_data_set  # its errors name the file

    label = f"The folder {path}"
    advice = "It must hold Parquet files with the same columns, or a Minari data set."
    with blaming(label, advice):
        data = open_data_set(path)

    def read(columns: Sequence[str], _: Sequence[str]) -> pa.Table:
        data.require_types(columns)
        require_room(label, data.rows, len(columns))
        with blaming(label, advice):
            return data.table(columns)

    # The metadata would be that of one file only, so the folder is read as a plain table.
    return Source(label, tuple(data.schema.names), read)


def _open_arrow(path: Path, label: str) -> Source:
    with blaming(label, "The file is damaged or not Arrow IPC; write it again."):
        with pa.OSFile(str(path)) as file:
            if file.read(6) == b"ARROW1":
                table = pa.ipc.open_file(file).read_all()
            else:
                file.seek(0)
                table = pa.ipc.open_stream(file).read_all()
        table.validate(full=True)  # damaged offsets would cause out-of-bounds reads
        return _in_memory(label, table)


def _open_json(path: Path, label: str) -> Source:
    from pyarrow import json

    with (
        blaming(label, "A JSON log has one object in every line, with the same keys."),
        LimitedStream(pa.input_stream(str(path)), label) as file,
    ):
        return _in_memory(label, _with_dates(json.read_json(file)))


def _with_dates(table: pa.Table) -> pa.Table:
    """Return the table with text columns of ISO dates converted to dates, as for CSV."""
    columns = [dated(column) for column in table.columns]
    return pa.table(columns, names=table.column_names)


def _open_csv(path: Path, label: str) -> Source:
    from pyarrow import csv

    advice = (
        "A CSV log is UTF-8 text with a first line of column names and as many fields in every "
        "line."
    )
    with blaming(label, advice), pa.input_stream(str(path)) as file:
        head = file.read(1 << 16)
        delimiter = _delimiter(head)
        require_utf8(label, path.name, head, delimiter)
    # A label may contain a line break.
    parsing = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)

    def converting(columns: Sequence[str], labels: Sequence[str]) -> Any:
        return csv.ConvertOptions(
            include_columns=list(columns),
            column_types=dict.fromkeys(labels, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )

    def opened() -> Any:
        if path.suffix.lower() in (".gz", ".bz2", ".zst"):
            return LimitedStream(pa.input_stream(str(path)), label)
        return pa.OSFile(str(path))

    def read(columns: Sequence[str], labels: Sequence[str]) -> pa.Table:
        with blaming(label, advice), opened() as file:
            table = csv.read_csv(
                file, parse_options=parsing, convert_options=converting(columns, labels)
            )
        for name in labels:
            at = table.column_names.index(name)
            table = table.set_column(at, name, _whole_numbers(table.column(name)))
        for name in set(columns) - set(labels):
            if pa.types.is_floating(table[name].type) and may_be_thousands(
                array(table[name].drop_null())
            ):
                with blaming(label, advice), opened() as file:
                    options = converting([name], [name])
                    texts = csv.read_csv(file, parse_options=parsing, convert_options=options)
                require_no_thousands(label, name, texts[name])
        return table

    with blaming(label, advice), csv.open_csv(path, parse_options=parsing) as file:
        names = tuple(file.schema.names)
    return Source(label, names, read, heading="A text file needs a first line with column names.")


def _delimiter(head: bytes) -> str:
    line = head.lstrip(b"\r\n").split(b"\n", 1)[0]
    return max(",;\t|", key=lambda mark: line.count(mark.encode()))


def _whole_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return labels as integers if that is lossless: 7 becomes an integer, 007 stays text."""
    try:
        numbers = column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column
    return numbers if pc.all(pc.equal(numbers.cast(pa.string()), column)).as_py() else column
