"""Parquet data sets of any size on any file system, read a few row groups at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from tailproof.errors import LogError, StorageError, TailproofError
from tailproof.sources.blame import blaming
from tailproof.sources.encode import is_text

_DECODED = 1 << 23  # bytes of columns to decode at a time


@dataclass(frozen=True)
class Span:
    """Consecutive row groups of one file, with its state at opening."""

    path: str
    groups: tuple[int, ...]
    rows: tuple[int, ...]  # of each row group
    size: int  # of the file, in bytes
    stamp: int | None  # modification time of the file
    constants: tuple[tuple[str, Any], ...]  # partition columns, from the names of its folders

    @property
    def count(self) -> int:
        """Number of rows."""
        return sum(self.rows)


@dataclass(frozen=True)
class Part:
    """Consecutive rows of a data set, the input of one task."""

    first: int
    spans: tuple[Span, ...]
    beyond: Span | None  # the next row group, if the last episode continues there

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(span.count for span in self.spans)


@dataclass(frozen=True)
class Storage:
    """Reads columns of files on a file system."""

    filesystem: Any
    is_local: bool
    schema: pa.Schema  # of all files together

    def batches(
        self, span: Span, columns: Sequence[str], size: int
    ) -> Iterator[tuple[pa.RecordBatch, str]]:
        """Yield some columns of a span, at most `size` rows at a time, each with its location."""
        constants = dict(span.constants)
        stored = [name for name in columns if name not in constants]
        wanted = pa.schema([self.schema.field(name) for name in columns])
        done = 0
        with self._blaming(span, stored), self._opened(span) as file:
            # Decode fewer, longer batches, which is faster, and yield slices of them.
            times = max(1, _DECODED // (8 * size * max(1, len(stored))))
            for read in file.iter_batches(
                batch_size=size * times,
                row_groups=list(span.groups),
                columns=stored,
                use_threads=False,
            ):
                whole = read if read.schema == wanted else _as_wanted(read, wanted, constants)
                for first in range(0, whole.num_rows, size):
                    batch = whole.slice(first, size)
                    yield batch, _place(span, done)
                    done += batch.num_rows
            if done != span.count:
                raise StorageError(f"{span.path} ended after {done} of {span.count} rows.")

    @contextmanager
    def _opened(self, span: Span) -> Iterator[Any]:
        from pyarrow.parquet import ParquetFile

        info = self.filesystem.get_file_info(span.path)
        if info.type.name == "NotFound":
            raise StorageError(
                f"{span.path} has vanished since the log was opened: row group {span.groups[0]} was "
                f"to be read next. Put it back and run again, or open the log anew; what was done "
                f"before need not be done again if the engine has a checkpoint."
            )
        if (info.size, info.mtime_ns) != (span.size, span.stamp):
            raise StorageError(
                f"{span.path} has changed since the log was opened: row group {span.groups[0]} was to "
                f"be read next, and no longer fits what is known. Open the log anew."
            )
        with (
            self.filesystem.open_input_file(span.path) as stream,
            ParquetFile(
                stream, page_checksum_verification=True, pre_buffer=not self.is_local
            ) as file,
        ):
            yield file

    @contextmanager
    def _blaming(self, span: Span, columns: list[str]) -> Iterator[None]:
        try:
            yield
        except (TailproofError, GeneratorExit):
            raise
        except Exception as error:  # parsers of untrusted bytes raise errors of any type
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise StorageError(
                f"{span.path}{self._culprit(span, columns)} could not be read: {reason[:300]}. "
                f"Restore or rewrite the file; what was done before it need not be done again if "
                f"the engine has a checkpoint."
            ) from error

    def _culprit(self, span: Span, columns: list[str]) -> str:
        """Return the row group that cannot be read."""
        for group in span.groups:
            try:
                with self._opened(span) as file:
                    file.read_row_group(group, columns=columns, use_threads=False)
            except Exception:
                return f", row group {group},"
        return ""


def _as_wanted(
    batch: pa.RecordBatch, wanted: pa.Schema, constants: dict[str, Any]
) -> pa.RecordBatch:
    """Return a batch with the columns and types of the common schema."""
    arrays = []
    for field in wanted:
        if field.name in constants:
            value = pa.scalar(constants[field.name], field.type)
            arrays.append(pa.repeat(value, batch.num_rows))
        else:
            column = batch.column(field.name)
            arrays.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, wanted.names)


def _place(span: Span, row: int) -> str:
    """Return the location of a row of a span, as text."""
    ends = np.cumsum(span.rows)
    at = min(int(np.searchsorted(ends, row, side="right")), len(ends) - 1)
    within = row - int(ends[at]) + span.rows[at]
    return f"{span.path}, row group {span.groups[at]}, rows from {within} on"


@dataclass(frozen=True)
class DataSet:
    """The files of a log, with their columns and row groups."""

    label: str
    storage: Storage
    spans: tuple[Span, ...]  # one per file
    schemas: tuple[pa.Schema, ...]  # one per file

    @property
    def schema(self) -> pa.Schema:
        """The columns of all files."""
        return self.storage.schema

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(span.count for span in self.spans)

    def require_types(self, columns: Sequence[str]) -> None:
        """Raise if a file lacks one of these columns, or its type differs between files."""
        for span, schema in zip(self.spans, self.schemas, strict=True):
            for name in columns:
                if name in dict(span.constants):
                    continue
                if name not in schema.names:
                    raise LogError(
                        f"{span.path} has no column {name!r}, which other files of the log have. "
                        f"Rewrite it with the columns of the others."
                    )
                wanted, found = self.schema.field(name).type, schema.field(name).type
                if not _alike(wanted, found):
                    raise LogError(
                        f"Column {name!r} is {found} in {span.path}, from row group "
                        f"{span.groups[0]} on, but {wanted} in {self.spans[0].path}. Rewrite the "
                        f"file with one type for each column."
                    )

    def table(self, columns: Sequence[str]) -> pa.Table:
        """Read some columns of all files into memory."""
        read = [
            batch
            for span in self.spans
            for batch, _ in self.storage.batches(span, columns, 1 << 20)
        ]
        return pa.Table.from_batches(read)

    def parts(self, rows: int) -> tuple[Part, ...]:
        """Divide the data set into runs of row groups with about `rows` rows each."""
        groups = [
            replace(span, groups=(group,), rows=(count,))
            for span in self.spans
            for group, count in zip(span.groups, span.rows, strict=True)
        ]
        parts: list[Part] = []
        for group in groups:
            if parts and parts[-1].rows + group.count <= rows:
                parts[-1] = replace(parts[-1], spans=_extended(parts[-1].spans, group))
                continue
            if parts:
                parts[-1] = replace(parts[-1], beyond=group)
            parts.append(Part(parts[-1].first + parts[-1].rows if parts else 0, (group,), None))
        return tuple(parts)


def _extended(spans: tuple[Span, ...], group: Span) -> tuple[Span, ...]:
    last = spans[-1]
    if last.path != group.path:
        return (*spans, group)
    both = replace(last, groups=last.groups + group.groups, rows=last.rows + group.rows)
    return (*spans[:-1], both)


def _united(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the union of the files' columns, each with a common type if there is one.

    Columns that the first file lacks, such as flags or propensities, are thus not lost.
    """
    fields: dict[str, pa.Field] = {}
    for schema in schemas:
        for each in schema:
            known = fields.setdefault(each.name, each)
            if known.type != each.type and _alike(known.type, each.type):
                wider = pa.unify_schemas(
                    [pa.schema([known]), pa.schema([each])], promote_options="permissive"
                )
                fields[each.name] = wider.field(0)
    return pa.schema(list(fields.values()))


def _alike(wanted: Any, found: Any) -> bool:
    return bool(
        wanted == found
        or kinds.is_null(wanted)
        or kinds.is_null(found)
        or (kinds.is_integer(wanted) and kinds.is_integer(found))
        or (kinds.is_floating(wanted) and kinds.is_floating(found))
        or (is_text(wanted) and is_text(found))
    )


def open_data_set(source: str | Path, filesystem: Any = None) -> DataSet:
    """Open a Parquet file, a folder of them, or a URI such as ``s3://bucket/folder``, for `read_log`.

    Only the files' footers are read.

    Parameters
    ----------
    source
        A path or URI.
    filesystem
        A file system of ``pyarrow.fs`` on which the source is a path; by default that of the URI, or
        the local one.
    """
    from pyarrow import dataset, fs

    text = str(source)
    label = f"The data set {text}"
    with blaming(label, "It must be a Parquet file, or hold Parquet files with the same columns."):
        if filesystem is not None:
            path = text
        elif "://" in text:
            filesystem, path = fs.FileSystem.from_uri(text)
        else:
            filesystem, path = fs.LocalFileSystem(), str(Path(text).resolve())
        options = dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
        form = dataset.ParquetFileFormat(default_fragment_scan_options=options)
        files = dataset.dataset(path, filesystem=filesystem, format=form, partitioning="hive")
        fragments = list(files.get_fragments())
        if not fragments:
            raise LogError(f"{label} holds no Parquet files, nor a Minari data set.")
    spans, schemas = [], []
    for fragment in fragments:
        with blaming(fragment.path, "The file is damaged or not Parquet; write it again."):
            footer, schema = fragment.metadata, fragment.physical_schema
            info = filesystem.get_file_info(fragment.path)
        counts = [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]
        kept = tuple(i for i, count in enumerate(counts) if count)
        if not kept:
            continue
        keys = dataset.get_partition_keys(fragment.partition_expression)
        spans.append(
            Span(
                path=fragment.path,
                groups=kept,
                rows=tuple(counts[i] for i in kept),
                size=info.size,
                stamp=info.mtime_ns,
                constants=tuple(sorted(keys.items())),
            )
        )
        schemas.append(schema)
    if not spans:
        raise LogError(f"{label} has no rows. A log needs at least one.")
    # Metadata of a file apply to the data set only if all files have the same.
    same = all(each.metadata == schemas[0].metadata for each in schemas)
    with blaming(label, "Rename columns whose names are not UTF-8 text."):
        united = _united([files.schema, *schemas])
    schema = united.with_metadata(schemas[0].metadata if same else None)
    storage = Storage(filesystem, isinstance(filesystem, fs.LocalFileSystem), schema)
    return DataSet(label, storage, tuple(spans), tuple(schemas))
