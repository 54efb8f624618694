"""Open tables as Arrow: files, folders, databases, workbooks, and frames of other libraries."""

from __future__ import annotations

import io
import re
import sqlite3
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from csv import reader
from dataclasses import dataclass, field, replace
from glob import glob, has_magic
from json import loads
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa

from tailproof.errors import LogError, TailproofError, require_module
from tailproof.files import require_plausible
from tailproof.io.values import (
    array,
    may_be_thousands,
    read_dates,
    require_no_thousands,
    require_utf8,
    spelt_labels,
)
from tailproof.log.log import physical_memory


@contextmanager
def naming_the_file(label: str, advice: str, error: type[LogError] = LogError) -> Iterator[None]:
    """Convert any error of a parser to an `error` that names the input."""
    try:
        yield
    except TailproofError:
        raise
    except Exception as raised:  # parsers of untrusted bytes raise errors of any type
        reason = (str(raised).strip() or type(raised).__name__).splitlines()[0]
        if isinstance(raised, MemoryError):  # its own, or what a damaged file asks for
            advice = (
                "That is more memory than this process may take: allow it more, or write the log as "
                "Parquet and read it with lazy=True (--lazy); or the file is damaged."
            )
        raise error(f"{label} could not be read: {reason[:300]}. {advice}") from raised


def refuse_other_files(file: Any, label: str) -> None:
    """Raise unless an open HDF5 file contains all its data, within the limit on the unpacked size.

    External links, external storage and virtual data sets would read other files of the machine.
    """
    import h5py

    size = Path(file.filename).stat().st_size
    total, seen, waiting = 0, set(), [file]
    while waiting:
        group = waiting.pop()
        for name in group:
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                raise LogError(
                    f"{label} is not read: {name!r} is a link to another file, {link.filename!r}. "
                    f"Copy the data into the file itself."
                )
            item = group.get(name)
            if item is None or item.id in seen:
                continue
            seen.add(item.id)
            if hasattr(item, "keys"):
                waiting.append(item)
                continue
            if item.external or item.is_virtual:
                raise LogError(
                    f"{label} is not read: the data of {item.name!r} lie in other files. Copy them "
                    f"into the file itself."
                )
            total += item.nbytes
            require_plausible(total, size, times=200, extra=1 << 26)


def require_room(label: str, rows: int, columns: int) -> None:
    """Raise if a table needs more than half of the machine's memory."""
    needed, allowed = 8 * rows * columns, physical_memory() // 2
    if needed > allowed:
        raise LogError(
            f"{label} has {rows} rows: {columns} columns of them need {needed / 1e9:.1f} GB of memory, "
            f"and may take {allowed / 1e9:.1f} GB. Pass lazy=True to leave it on disk."
        )


class LimitedStream(io.RawIOBase):
    """A stream that raises an error after more bytes than allowed."""

    def __init__(self, stream: IO[bytes], label: str, allowed: int | None = None) -> None:
        super().__init__()
        self._stream, self._label = stream, label
        self._left = self._allowed = physical_memory() // 2 if allowed is None else allowed

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes."""
        content = self._stream.read(len(buffer))
        self._left -= len(content)
        if self._left < 0:
            raise LogError(
                f"{self._label} is not read: it unpacks to more than {self._allowed / 1e9:.1f} GB. "
                f"Write it as Parquet, which can be read in pieces."
            )
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        """Close this and the underlying stream."""
        self._stream.close()
        super().close()


#: How files of a kind begin: at which byte, and with which bytes.
_MARKS = {
    "parquet": (0, b"PAR1"),
    "arrow": (0, b"ARROW1"),
    "hdf5": (0, b"\x89HDF\r\n\x1a\n"),
    "sqlite": (0, b"SQLite format 3\0"),
    "duckdb": (8, b"DUCK"),
}
#: How files are named of which the beginning does not tell the kind.
_SUFFIXES = {
    "csv": (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".csv.bz2", ".csv.zst"),
    "arrow": (".arrow", ".feather", ".ipc"),
    "json": (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz"),
    "excel": (".xlsx",),
    "hdf5": (".hdf5", ".h5", ".hdf"),
    "npz": (".npz",),
}
_DATABASE = {"table": "NAME", "query": "SELECT ..."}
#: What a URI may ask of a file, as in ``excel://plan.xlsx?sheet=Data``.
_ASKED = {"sqlite": _DATABASE, "duckdb": _DATABASE, "excel": {"sheet": "NAME"}}


def file_kind(path: str | Path) -> str:
    """Return the kind of a file, by its content or else by its name; "" for others, and folders."""
    head = b""
    try:
        with Path(path).open("rb") as file:
            head = file.read(16)
    except (OSError, ValueError):  # a folder, no file, or a path with a zero character
        pass
    by_content = (kind for kind, (at, mark) in _MARKS.items() if head[at:].startswith(mark))
    name = str(path).lower()
    by_name = (kind for kind, ends in _SUFFIXES.items() if name.endswith(ends))
    return next(by_content, "") or next(by_name, "")


class Asked(NamedTuple):
    """A file of which a part is asked for: a table or a query of a database, a sheet of a workbook."""

    kind: str
    path: Path
    key: str = ""  # "table", "query" or "sheet"
    value: str = ""
    external: bool = False  # whether views and queries may read other files (DuckDB)


#: Before table= or query=: the tables of a DuckDB file may read other files of this machine.
_EXTERNAL = "external=yes&"


def asked_of(source: object) -> Asked | None:
    """Return what a URI asks for, or a database; None for other sources.

    >>> asked_of("duckdb://shop.db?query=SELECT * FROM orders").value
    'SELECT * FROM orders'
    >>> asked_of("sqlite:///data/shop.db?table=orders")[1:4]
    (PosixPath('/data/shop.db'), 'table', 'orders')
    >>> asked_of("duckdb://shop.db?external=yes&table=orders").external
    True
    >>> asked_of("excel://plan.xlsx?sheet=Data 2024").value
    'Data 2024'
    """
    if not isinstance(source, str | Path):
        return None
    kind, _, rest = str(source).partition("://")
    if kind not in _ASKED or not rest or isinstance(source, Path):
        kind = file_kind(source)
        return Asked(kind, Path(source)) if kind in ("sqlite", "duckdb") else None
    path, mark, asked = rest.partition("?")
    external = kind == "duckdb" and asked.startswith(_EXTERNAL)
    key, _, value = asked.removeprefix(_EXTERNAL if external else "").partition("=")
    if mark and (key not in _ASKED[kind] or not value):
        wanted = " or ".join(f"{each}={what}" for each, what in _ASKED[kind].items())
        raise LogError(f"After ? comes {wanted}. Got {asked!r} in {source!r}.")
    return Asked(kind, Path(path), key, value, external)


def read_database(asked: Asked) -> pa.Table:
    """Return the requested table or query result."""
    if not asked.path.is_file():
        raise LogError(f"There is no file {str(asked.path)!r}. Check the path.")
    with _sqlite(asked.path) if asked.kind == "sqlite" else _duckdb(asked) as run:
        if asked.key == "query":
            return run(asked.value)
        listed = (
            "SELECT name FROM sqlite_master "
            "WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
            if asked.kind == "sqlite"
            else "SELECT table_name AS name FROM information_schema.tables"
        )
        names = sorted(run(listed).column("name").to_pylist())
        name = asked.value or (names[0] if len(names) == 1 else None)
        if name is None or name not in names:
            wanted = f"no table {name!r}" if name else f"{len(names)} tables"
            raise LogError(
                f"{asked.path} has {wanted}: {', '.join(names[:20]) or 'it is empty'}. Say which, as "
                f"in {asked.kind}://{asked.path}?table={names[0] if names else 'NAME'}, or ask with "
                f"{asked.kind}://{asked.path}?query=SELECT ...."
            )
        quoted = name.replace('"', '""')
        return run(f'SELECT * FROM "{quoted}"')


@contextmanager
def _sqlite(path: Path) -> Iterator[Any]:
    address = f"{path.resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as connection:

        def run(query: str) -> pa.Table:
            found = connection.execute(query)
            names = [each[0] for each in found.description or ()]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise LogError(
                    f"{path} gives several columns with the name {twice[0]!r}. Name each with AS in "
                    f"?query=SELECT ...."
                )
            rows = found.fetchall()
            columns = zip(*rows, strict=True) if rows else [[] for _ in names]
            return pa.table(
                {name: pa.array(list(each)) for name, each in zip(names, columns, strict=True)}
            )

        yield run


@contextmanager
def _duckdb(asked: Asked) -> Iterator[Any]:
    """Open a file without access to others: a view in it may read any file of this machine."""
    path = asked.path
    duckdb = require_module("duckdb", "'tailproof[duckdb]'", f"Reading {path}", LogError)
    closed = {"enable_external_access": asked.external}
    with closing(duckdb.connect(str(path), read_only=True, config=closed)) as connection:

        def run(query: str) -> pa.Table:
            try:
                found = connection.sql(query)
                if found is None:
                    raise LogError(f"The query {query[:60]!r} gives no table. Ask with SELECT ....")
                return found.to_arrow_table()
            except duckdb.PermissionException as error:
                raise LogError(
                    f"{path} is not read: it asks for another file of this machine. If you trust it, "
                    f"allow that by duckdb://{path}?{_EXTERNAL}table=NAME."
                ) from error

        yield run


def _open_excel(path: Path, label: str, sheet: str = "") -> Source:
    """Open a sheet of a workbook, by default the first one that is shown."""
    openpyxl = require_module("openpyxl", "'tailproof[excel]'", label, LogError)
    with naming_the_file(label, "An Excel log is one sheet with column names in its first row."):
        with zipfile.ZipFile(path) as parts:
            unpacked = sum(part.file_size for part in parts.infolist())
            require_plausible(unpacked, path.stat().st_size, times=50)  # cells take more memory
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        titles = [each.title for each in book.worksheets]
        if sheet and sheet not in titles:
            raise LogError(f"{label} has no sheet {sheet!r}. It has {', '.join(titles)}.")
        shown = [each.title for each in book.worksheets if each.sheet_state == "visible"]
        title = sheet or (shown or titles)[0]
        book[title].reset_dimensions()  # the range that a file claims may be that of an older state
        rows = list(book[title].iter_rows(values_only=True))
        book.close()
        width = max(map(len, rows), default=0)
        rows = [(*row, *[None] * (width - len(row))) for row in rows]
        while rows and all(cell is None for cell in rows[-1]):  # such as cells with a border only
            rows.pop()
        heading = _heading(path, title, titles, rows)
        if not rows:
            raise LogError(f"{label} has nothing in the sheet {title!r}. {heading}")
        named = [j for j, name in enumerate(rows[0]) if name is not None]
        cells = {str(rows[0][j]): [row[j] for row in rows[1:]] for j in named}
        if len(cells) < len(named):
            raise ValueError("two columns have the same name")
        _refuse_totals(label, rows, named)

        def exact(name: str) -> pa.ChunkedArray | None:
            """Return the cells of a column as text, if they are of several types."""
            if _typed(cells[name]) is not None:
                return None
            texts = [None if cell is None else str(cell) for cell in cells[name]]
            return pa.chunked_array([pa.array(texts, pa.large_string())])

        table = pa.table({name: _column(values) for name, values in cells.items()})
        return _in_memory(label, table, heading, exact)


def _refuse_totals(label: str, rows: Sequence[Sequence[Any]], named: Sequence[int]) -> None:
    """Raise if the last row holds sums of the rows above it, which is no decision."""
    *body, last = rows[1:] or [()]
    for j in named if len(body) >= 3 else ():
        cells = [row[j] for row in body if isinstance(row[j], int | float)]
        total = last[j]
        if len(cells) < 3 or not isinstance(total, int | float) or isinstance(total, bool):
            continue
        size = sum(map(abs, cells))
        if size > abs(total) / 2 > 0 and abs(sum(cells) - total) <= 1e-9 * size:
            raise LogError(
                f"{label} ends with a row of totals: in column {str(rows[0][j])!r}, {total} is the sum "
                f"of the {len(cells)} rows above it. Delete the last row."
            )


def _column(cells: Sequence[Any]) -> pa.Array:
    """Return the cells of a column; if their types differ, as numbers or text, as in a CSV file."""
    if (found := _typed(cells)) is not None:
        return found
    texts = pa.array([None if cell is None else str(cell) for cell in cells])
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return texts


def _typed(cells: Sequence[Any]) -> pa.Array | None:
    """Return cells that have one type, or None."""
    try:
        return pa.array(cells)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None


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
            f"'excel://{path}?sheet={others[0]}'."
        )
    return " ".join(said)


#: Columns to read as they are written: True for an action, which may also be a real number.
Spelt = Mapping[str, bool]


@dataclass(frozen=True)
class Source:
    """An opened table: its columns are known, its rows not yet read.

    `read` takes the columns to read, and those among them that are labels or the action. Labels are
    read exactly as they are written: 7 and 07, 1.1 and 1.10 are different ones. An action may also be
    a real number; if one number is written in several ways, it is a label.
    """

    label: str  # its name in error messages
    names: tuple[str, ...]
    read: Callable[[Sequence[str], Spelt], pa.Table]
    schema: pa.Schema | None = None  # if its metadata may hold tailproof's description
    index: object = None  # the row labels of a pandas frame
    heading: str = ""  # where the names of its columns stand, if none of them fits
    doubts: Mapping[str, str] = field(
        default_factory=dict
    )  # columns that may be read wrongly, and why


def open_table(given: object) -> Source:
    """Open a path, a query, an Arrow table, any frame that Arrow can read, or a mapping of arrays."""
    if asked := asked_of(given):
        if asked.kind == "excel":
            return _open_excel(asked.path, f"The file {asked.path}", asked.value)
        label = f"The database {asked.path}"
        with naming_the_file(label, "Check the query, and that every column has one type."):
            return _in_memory(label, read_database(asked))
    if isinstance(given, str | Path):
        return _open_path(Path(given))
    label = f"The {type(given).__module__.split('.')[0]} {type(given).__name__}"
    with naming_the_file(label, "Pass a table with a name and one type for each column."):
        table = _as_table(given)
    if table is None:
        raise LogError(
            f"A log is read from a file, a folder, an Arrow table, a pandas, polars or other frame, a "
            f"Minari data set or a d3rlpy data set. Got {type(given).__name__} instead."
        )
    pandas = sys.modules.get("pandas")
    is_pandas = pandas is not None and isinstance(given, pandas.DataFrame)
    return replace(
        _in_memory(label, table), index=getattr(given, "index", None) if is_pandas else None
    )


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


def _in_memory(
    label: str, table: pa.Table, heading: str = "", exact: Exact = lambda _: None
) -> Source:
    """Return a table as a source; `exact` gives the texts of a column that lost some as numbers."""

    def read(columns: Sequence[str], spelt: Spelt) -> pa.Table:
        found = {name: table[name] for name in columns}
        for name in columns:
            if name in spelt and (texts := exact(name)) is not None:
                found[name] = spelt_labels(texts, real=spelt[name])
        return pa.table(found)

    return Source(label, tuple(table.column_names), read, table.schema, heading=heading)


#: Returns the values of a column as text; None if its type already tells them apart.
Exact = Callable[[str], pa.ChunkedArray | None]


def _as_table(given: Any) -> pa.Table | None:
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(given, pandas.DataFrame):
        named = any(name is not None for name in given.index.names)
        frame = given.reset_index() if named else given
        return pa.Table.from_pandas(frame, preserve_index=False)
    if isinstance(given, Mapping):
        return pa.table({str(name): pa.array(values) for name, values in given.items()})
    if hasattr(given, "lazy"):  # polars
        return given.lazy().collect().to_arrow()
    if hasattr(given, "to_table") and hasattr(given, "schema"):  # pyarrow.dataset.Dataset
        return given.to_table()
    arrow = hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__")
    return pa.table(given) if arrow else None


def _open_files(pattern: str, paths: Sequence[str]) -> Source:
    """Open the files that a pattern matches as one table, in the order of their names."""
    sources = [_open_path(Path(path)) for path in paths]
    names = sources[0].names
    for path, each in zip(paths, sources, strict=True):
        if {*each.names} != {*names}:
            odd = sorted({*each.names} ^ {*names})
            raise LogError(
                f"The files of {pattern} must have the same columns. {paths[0]} and {path} differ in "
                f"{', '.join(odd[:5])}."
            )

    def read(columns: Sequence[str], spelt: Spelt) -> pa.Table:
        tables = [each.read(columns, spelt) for each in sources]
        with naming_the_file(f"The files {pattern}", "Their columns must be of the same types."):
            return pa.concat_tables(tables, promote_options="permissive")

    doubts = {name: said for each in sources for name, said in each.doubts.items()}
    return Source(f"The files {pattern}", names, read, doubts=doubts)


def _open_path(path: Path) -> Source:
    label = f"The file {path}"
    try:
        if not path.exists() and (matched := sorted(glob(str(path)))):
            return _open_files(str(path), matched)
        if not path.exists() and has_magic(str(path)):
            raise LogError(f"No file matches {path}. Check the pattern.")
        if path.is_dir():
            return _open_folder(path)
        path.open("rb").close()
    except (OSError, ValueError) as error:  # ValueError: a path with a zero character
        raise LogError(f"{label} could not be opened: {error}. Check the path.") from error
    openers = {
        "parquet": _open_parquet,
        "arrow": _open_arrow,
        "csv": _open_csv,
        "json": _open_json,
        "excel": _open_excel,
    }
    if (kind := file_kind(path)) in openers:
        return openers[kind](path, label)
    raise LogError(
        f"{label} is not a log that can be read"
        + (": it does not begin as a Parquet file does" if path.suffix == ".parquet" else "")
        + ". Logs are Parquet, CSV (.csv, .tsv), JSON lines (.jsonl), Excel (.xlsx), Arrow (.arrow, "
        ".feather), HDF5, SQLite or DuckDB files, or folders of Parquet files."
    )


def _open_parquet(path: Path, label: str) -> Source:
    def read(columns: Sequence[str], _: Spelt) -> pa.Table:  # its columns have types
        with _parquet_file(path, label) as file:
            require_room(label, file.metadata.num_rows, len(columns))
            return file.read(columns=list(columns)).select(list(columns))

    with _parquet_file(path, label) as file:
        refuse_miscounted(file.metadata)
        schema = file.schema_arrow
        names = tuple(schema.names)
    return Source(label, names, read, schema)


@contextmanager
def _parquet_file(path: Path, label: str) -> Iterator[Any]:
    from pyarrow.parquet import ParquetFile

    with (
        naming_the_file(label, "The file is damaged or not Parquet; write it again."),
        ParquetFile(path, page_checksum_verification=True) as file,
    ):
        yield file


def pieces_of_parquet(path: Path, label: str) -> Iterator[pa.Table]:
    """Yield the rows of a Parquet file in pieces."""
    with _parquet_file(path, label) as file:
        for batch in file.iter_batches():
            yield pa.Table.from_batches([batch])


def refuse_miscounted(metadata: Any) -> None:
    """Raise unless a Parquet file's row counts agree; Arrow does not check this."""
    rows = sum(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
    if rows != metadata.num_rows:
        raise ValueError("its counts of rows contradict each other")


def _open_folder(path: Path) -> Source:
    from tailproof.io.mapped import open_data_set  # its errors name the file

    label = f"The folder {path}"
    advice = "It must hold Parquet files with the same columns, or a Minari data set."
    with naming_the_file(label, advice):
        data = open_data_set(path)

    def read(columns: Sequence[str], _: Spelt) -> pa.Table:  # its columns have types
        data.require_types(columns)
        require_room(label, data.rows, len(columns))
        with naming_the_file(label, advice):
            return data.table(columns)

    # The metadata would be that of one file only, so the folder is read as a plain table.
    return Source(label, tuple(data.schema.names), read)


def _open_arrow(path: Path, label: str) -> Source:
    with naming_the_file(label, "The file is damaged or not Arrow IPC; write it again."):
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

    advice = "A JSON log has one object in every line, with the same keys."
    with naming_the_file(label, advice):
        _refuse_deep(path, label)
        with LimitedStream(pa.input_stream(str(path)), label) as file:
            read = json.read_json(file)
            # dates are what is written like them, as in CSV
            table = pa.table(
                [read_dates(column) for column in read.columns], names=read.column_names
            )

    def exact(name: str) -> pa.ChunkedArray | None:
        """Return how the numbers of a column are written, if they are not whole ones of 64 bits."""
        if not pa.types.is_floating(table[name].type):
            return None
        with (
            naming_the_file(label, advice),
            LimitedStream(pa.input_stream(str(path)), label) as file,
        ):
            lines = (line for line in io.BufferedReader(file) if line.strip())
            values = (loads(line, parse_int=str, parse_float=str).get(name) for line in lines)
            return pa.chunked_array([pa.array(values, pa.large_string())])

    return _in_memory(label, table, exact=exact)


_LOOKED_AT = 1000  # lines that show codes with leading zeros
_DEEPEST = 100  # levels of JSON: Arrow's parser recurses, and overflows the stack after thousands


def _refuse_deep(path: Path, label: str) -> None:
    """Raise if the values in a line are nested too deeply; few lines have brackets enough for that."""
    text = re.compile(rb'"(?:[^"\\]|\\.)*"')
    with LimitedStream(pa.input_stream(str(path)), label) as file:
        for line in io.BufferedReader(file, 1 << 20):
            if line.count(b"[") + line.count(b"{") <= _DEEPEST:
                continue
            brackets = np.frombuffer(re.sub(rb"[^][{}]", b"", text.sub(b"", line)), dtype=np.uint8)
            steps = np.where(np.isin(brackets, list(b"[{")), 1, -1)
            if np.cumsum(steps).max(initial=0) > _DEEPEST:
                raise LogError(
                    f"{label} is not read: its values are nested more than {_DEEPEST} levels deep. "
                    f"Write one flat object in every line."
                )


_CSV_ADVICE = (
    "A CSV log is UTF-8 text with a first line of column names and as many fields in every line."
)


def _csv_format(path: Path, label: str) -> tuple[bytes, Any]:
    """Return the head of a CSV file, and how to parse it."""
    from pyarrow import csv

    with naming_the_file(label, _CSV_ADVICE), pa.input_stream(str(path)) as file:
        head = file.read(1 << 16)
        delimiter = _delimiter(head)
        require_utf8(label, path.name, head, delimiter)
    # A label may contain a line break.
    return head, csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)


def _csv_types(columns: Sequence[str], texts: Sequence[str]) -> Any:
    """Return how to convert these columns of a CSV file, those in `texts` not at all."""
    from pyarrow import csv

    return csv.ConvertOptions(
        include_columns=list(columns),
        column_types=dict.fromkeys(texts, pa.string()),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )


def pieces_of_csv(path: Path, label: str) -> Iterator[pa.Table]:
    """Yield the rows of a CSV file in pieces, every column as text and None where it is missing."""
    from pyarrow import csv

    parsing = _csv_format(path, label)[1]
    with naming_the_file(label, _CSV_ADVICE):
        with csv.open_csv(path, parse_options=parsing) as file:
            names = file.schema.names
        types = _csv_types(names, names)
        with csv.open_csv(path, parse_options=parsing, convert_options=types) as file:
            for batch in file:
                yield pa.Table.from_batches([batch])


def _open_csv(path: Path, label: str) -> Source:
    from pyarrow import csv

    head, parsing = _csv_format(path, label)

    def parsed(columns: Sequence[str], texts: Sequence[str]) -> pa.Table:
        with naming_the_file(label, _CSV_ADVICE), opened() as file:
            types = _csv_types(columns, texts)
            return csv.read_csv(file, parse_options=parsing, convert_options=types)

    def opened() -> Any:
        if path.suffix.lower() in (".gz", ".bz2", ".zst"):
            return LimitedStream(pa.input_stream(str(path)), label)
        return pa.OSFile(str(path))

    def read(columns: Sequence[str], spelt: Spelt) -> pa.Table:
        texts = [name for name in columns if name in spelt]
        table = parsed(columns, texts)
        for name in texts:
            at = table.column_names.index(name)
            found = spelt_labels(table.column(name), real=spelt[name])
            table = table.set_column(at, name, found)
        for name in set(columns) - set(texts):
            if pa.types.is_floating(table[name].type) and may_be_thousands(
                array(table[name].drop_null())
            ):
                require_no_thousands(label, name, parsed([name], [name])[name])
        return table

    with naming_the_file(label, _CSV_ADVICE), csv.open_csv(path, parse_options=parsing) as file:
        names = tuple(file.schema.names)
    return Source(
        label,
        names,
        read,
        heading="A text file needs a first line with column names.",
        doubts=_leading_zeros(head, parsing.delimiter),
    )


def _leading_zeros(head: bytes, delimiter: str) -> dict[str, str]:
    """Return the columns whose first values look like numbers that begin with a zero, such as codes."""
    lines = head.decode("utf-8", errors="ignore").splitlines()
    names, *rows = reader(lines[:_LOOKED_AT], delimiter=delimiter)
    shown: dict[str, str] = {}
    for row in rows:
        for name, text in zip(names, row, strict=False):
            if text[:1] == "0" and text.isdigit() and len(text) > 1:
                shown.setdefault(name, text)
    return {
        name: f"Column {name!r} has numbers that begin with zero, such as {text}, and is read as "
        f"numbers: if they are names, so that {text} is not {int(text)}, pass categorical={name!r}."
        for name, text in shown.items()
    }


def _delimiter(head: bytes) -> str:
    line = head.lstrip(b"\r\n").split(b"\n", 1)[0]
    return max(",;\t|", key=lambda mark: line.count(mark.encode()))
