"""Logs larger than memory: Parquet data sets, converted once to mapped columns in a cache."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from importlib.metadata import version
from itertools import pairwise
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.errors import LogError, StorageError, TailproofError
from tailproof.io.columns import Choice, Columns
from tailproof.io.encoder import Encoder, EncoderFit, Tidying, require_read
from tailproof.io.episodes import say_that_rows_are_episodes, say_which_labels_are_alike
from tailproof.io.parquet import chosen_columns, described_space, typed_labels
from tailproof.io.steps import (
    Notes,
    net_of_costs,
    require_few,
    say_what_ends_an_episode,
    say_what_is_left_out,
    say_where_steps_are_missing,
    without_timeouts,
)
from tailproof.io.tables import EXCEL, blaming, database, naming_the_type
from tailproof.io.values import (
    identifiers,
    is_text,
    numbers,
    order,
    refuse_missing,
    spelt_labels,
    truth_values,
    unwrapped,
)
from tailproof.log.log import (
    PART,
    ArrayFile,
    Log,
    Origin,
    OriginalTable,
    physical_memory,
    release,
)
from tailproof.log.spaces import Discrete
from tailproof.log.validation import check_propensity
from tailproof.parallel import Engine, running

_DECODED = 1 << 23  # bytes of columns to decode at a time
_HIVE = re.compile(r"/([^/=]+)=[^/]*(?=/)")  # key=value in the name of a folder


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
    for each in wanted:
        if each.name in constants:
            value = pa.scalar(constants[each.name], each.type)
            arrays.append(pa.repeat(value, batch.num_rows))
        else:
            column = batch.column(each.name)
            arrays.append(column if column.type == each.type else column.cast(each.type))
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
            parts.append(Part(parts[-1].first + parts[-1].rows if parts else 0, (group,)))
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
        plain = dataset.dataset(path, filesystem=filesystem, format=form)
        keys = {key: pa.string() for file in plain.files for key in _HIVE.findall(file)}
        folders = dataset.partitioning(pa.schema(keys.items()), flavor="hive")
        files = dataset.dataset(path, filesystem=filesystem, format=form, partitioning=folders)
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
    constants = _constants([dict(span.constants) for span in spans])
    spans = [
        replace(span, constants=tuple(sorted(own.items())))
        for span, own in zip(spans, constants, strict=True)
    ]
    # Metadata of a file apply to the data set only if all files have the same.
    same = all(each.metadata == schemas[0].metadata for each in schemas)
    with blaming(label, "Rename columns whose names are not UTF-8 text."):
        kinds_of = {
            name: pa.int64() if isinstance(value, int) else pa.string()
            for name, value in constants[0].items()
        }
        united = _united([pa.schema(kinds_of.items()), *schemas])
    schema = united.with_metadata(schemas[0].metadata if same else None)
    storage = Storage(filesystem, isinstance(filesystem, fs.LocalFileSystem), schema)
    return DataSet(label, storage, tuple(spans), tuple(schemas))


def _constants(texts: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Return the values in the names of folders: whole numbers where that loses nothing, else text."""
    found: list[dict[str, Any]] = [dict(each) for each in texts]
    for name in texts[0]:
        values = spelt_labels(pa.chunked_array([[each.get(name) for each in texts]])).to_pylist()
        for each, value in zip(found, values, strict=True):
            each[name] = value
    return found


_BATCH = 1 << 18


@dataclass(frozen=True)
class Survey:
    """The episodes of consecutive rows.

    A *run* is the part of an episode that lies in these rows.
    """

    rows: int
    starts: IntArray  # (R,) first row of each run
    ids: pa.Array | None  # (R,) episode labels; None without an episode column
    groups: pa.Array | None  # (R,)
    terminated: BoolArray  # (R,) flag in the last row of each run
    truncated: BoolArray  # (R,)
    steps: tuple[Any, Any] | None  # step numbers of the first and the last row
    gaps: int  # number of gaps in the steps within runs
    first_gap: int  # the row before the first gap
    fit: EncoderFit  # of these rows


@dataclass(frozen=True)
class Surveyor:
    """Computes the survey of a part from the columns that it needs."""

    storage: Storage
    columns: Columns
    tidying: Tidying

    def __call__(self, part: Part) -> Survey:
        """Return the survey of one part."""
        return self.merged(list(self._batches(part)))

    def merged(self, surveys: Sequence[Survey]) -> Survey:
        """Merge the surveys of consecutive parts."""
        go_on = [self._goes_on(one, another) for one, another in pairwise(surveys)]
        begin = [slice(int(each), None) for each in [False, *go_on]]
        end = [slice(None, -1 if each else None) for each in [*go_on, False]]

        def joined(name: str, where: Sequence[slice]) -> Any:
            found = [getattr(survey, name) for survey in surveys]
            if found[0] is None:
                return None
            kept = [values[own] for values, own in zip(found, where, strict=True)]
            return pa.concat_arrays(kept) if isinstance(kept[0], pa.Array) else np.concatenate(kept)

        steps = [survey.steps for survey in surveys if survey.steps is not None]
        gaps = [survey for survey in surveys if survey.gaps]
        return Survey(
            rows=sum(survey.rows for survey in surveys),
            starts=joined("starts", begin),
            ids=joined("ids", begin),
            groups=joined("groups", begin),
            terminated=joined("terminated", end),
            truncated=joined("truncated", end),
            steps=(steps[0][0], steps[-1][1]) if steps else None,
            gaps=sum(survey.gaps for survey in gaps),
            first_gap=gaps[0].first_gap if gaps else 0,
            fit=reduce(add, [survey.fit for survey in surveys]),
        )

    def _goes_on(self, one: Survey, another: Survey) -> bool:
        """Return whether the last episode of `one` continues in `another`, and check the order."""
        ended = bool(one.terminated[-1] or one.truncated[-1])
        if one.ids is None or another.ids is None:
            flagged = self.columns.terminated is not None or self.columns.truncated is not None
            return flagged and not ended
        if one.ids[-1] != another.ids[0]:
            return False
        if ended:
            raise _early_end("terminated" if one.terminated[-1] else "truncated", one.ids[-1])
        if (
            one.groups is not None
            and another.groups is not None
            and one.groups[-1] != another.groups[0]
        ):
            raise _torn_group(one.ids[-1])
        if one.steps is not None and another.steps is not None and one.steps[1] >= another.steps[0]:
            raise _out_of_order(one.ids[-1])
        return True

    def _batches(self, part: Part) -> Iterator[Survey]:
        columns = self.columns
        single = [columns.episode, columns.group, columns.terminated, columns.truncated]
        wanted = [name for name in [*single, columns.step] if name is not None]
        wanted += [*columns.action, *columns.state, *columns.next_state]
        first = part.first
        for span in part.spans:
            chosen = list(dict.fromkeys(wanted or [columns.reward]))
            for batch, where in self.storage.batches(span, chosen, _BATCH):
                with naming_the_type(f"In {where}: "):
                    yield self._survey(batch, first)
                first += batch.num_rows

    def _survey(self, batch: pa.RecordBatch, first: int) -> Survey:
        columns, m = self.columns, batch.num_rows
        done, cut = _flagged(columns.terminated, batch), _flagged(columns.truncated, batch)
        ids = groups = None
        if columns.episode is not None:
            starts, ids = _runs(columns.episode, batch)
        elif columns.terminated is None and columns.truncated is None:
            starts = np.arange(m)
        else:
            ends = np.union1d(done, cut)
            starts = np.concatenate([[0], ends[ends < m - 1] + 1])
        last = np.concatenate([starts[1:], [m]]) - 1

        def run_of(row: int) -> Any:
            return None if ids is None else ids[int(np.searchsorted(starts, row, "right")) - 1]

        for name, rows in (("terminated", done), ("truncated", cut)):
            early = np.setdiff1d(rows, last) if len(rows) else rows
            if len(early):
                raise _early_end(name, run_of(early[0]))
        if columns.group is not None:
            borders, labels = _runs(columns.group, batch)
            torn = np.setdiff1d(borders, starts)
            if len(torn):
                raise _torn_group(run_of(torn[0]))
            groups = labels.take(pa.array(np.searchsorted(borders, starts, "right") - 1))
        steps, gaps, first_gap = None, 0, 0
        if columns.step is not None and columns.episode is not None:
            values = order(columns.step, batch.column(columns.step))
            inside = np.ones(m, dtype=bool)
            inside[starts] = False
            before = np.append(values[:1], values[:-1])
            if (late := inside & (values <= before)).any():  # unsigned differences would wrap
                raise _out_of_order(run_of(int(late.argmax())))
            steps = values[0], values[-1]
            if values.dtype.kind in "iu":
                apart = inside & (values != before + values.dtype.type(1))
                gaps, first_gap = int(apart.sum()), first + int(apart.argmax()) - 1
        return Survey(
            rows=m,
            starts=first + starts,
            ids=ids,
            groups=groups,
            terminated=_among(last, done),
            truncated=_among(last, cut),
            steps=steps,
            gaps=gaps,
            first_gap=first_gap,
            fit=EncoderFit.of(batch, columns, self.tidying),
        )


def _runs(name: str, batch: pa.RecordBatch) -> tuple[IntArray, pa.Array]:
    """Return the rows where the value of a column changes, and the new values."""
    column = unwrapped(batch.column(name))
    refuse_missing(name, column)
    encoded = pc.run_end_encode(column.combine_chunks())
    ends = encoded.run_ends.to_numpy()
    return np.concatenate([[0], ends[:-1]]).astype(np.intp), encoded.values


def _among(rows: IntArray, flagged: IntArray) -> BoolArray:
    return np.isin(rows, flagged) if len(flagged) else np.zeros(len(rows), dtype=bool)


def _flagged(name: str | None, batch: pa.RecordBatch) -> IntArray:
    """Return the rows in which a flag is set."""
    if name is None:
        return np.empty(0, dtype=np.intp)
    column = batch.column(name)
    if kinds.is_boolean(column.type) and column.null_count == 0:
        return np.asarray(pc.indices_nonzero(column)).astype(np.intp)
    return np.flatnonzero(truth_values(name, column))


def _named(episode: Any) -> str:
    return "an episode" if episode is None else f"episode {episode.as_py()!s}"


def _early_end(name: str, episode: Any) -> LogError:
    return LogError(
        f"{name} may be true only at the last row of an episode. It is at an earlier row of "
        f"{_named(episode)}; give what follows an episode of its own."
    )


def _torn_group(episode: Any) -> LogError:
    return LogError(
        f"A group holds whole episodes. The rows of {_named(episode)} have more than one; give every "
        f"row of it one group."
    )


def _out_of_order(episode: Any) -> LogError:
    return LogError(
        f"A log that is mapped from disk is read in the order of its rows, and the steps of "
        f"{_named(episode)} do not grow. Sort the data by episode and step first, pass step=False if "
        f"the rows are in order all the same, or read it into memory with lazy=False."
    )


_COMPRESSION = 20  # largest ratio of a log's size in memory to its file size


def data_set_to_map(source: Any, lazy: bool | None, budget: int | None) -> DataSet | None:
    """Return the data set if it should be mapped, or None if the source should be loaded.

    If `lazy` is None, Parquet data are mapped if they need more than `budget` bytes of memory, by
    default a quarter of the machine's.
    """
    if isinstance(source, DataSet):
        return source
    remote = isinstance(source, str) and "://" in source and not source.startswith(EXCEL)
    remote = remote and database(source) is None
    if lazy is False and not remote:
        return None
    if not isinstance(source, str | Path) or not (remote or _is_parquet(Path(source))):
        if lazy:
            raise LogError(
                f"lazy=True needs a Parquet file, a folder of them, or a URI such as "
                f"'s3://bucket/folder'. Got {source!r}; write it with write_log first."
            )
        return None
    limit = physical_memory() // 4 if budget is None else budget
    if lazy or remote:
        return open_data_set(source)
    if _COMPRESSION * sum(file.stat().st_size for file in _parquet_files(Path(source))) <= limit:
        return None  # decided by file sizes alone
    data = open_data_set(source)
    return data if 8 * data.rows * len(data.schema.names) > limit else None


def _is_parquet(path: Path) -> bool:
    try:
        if path.is_dir():
            return bool(_parquet_files(path))
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except (OSError, ValueError):
        return False


def _parquet_files(path: Path) -> list[Path]:
    return list(path.rglob("*.parquet")) if path.is_dir() else [path]


def map_data_set(
    data: DataSet, parts: dict[str, Choice], how: HowToMap, notes: Notes
) -> tuple[Log, Columns]:
    """Convert a Parquet data set to mapped columns, once; also return the column of each part.

    The files are read twice: for their episodes and the encoder, and to write the columns of the log.
    They are kept in the cache under the fingerprint of what was read and how.
    """
    key = _fingerprint(data, parts, how)
    folder = cache_folder(how.cache)
    entry = folder / key
    if (kept := _description(entry)) is None:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(folder)
        with tempfile.TemporaryDirectory(
            prefix=_UNFINISHED, dir=folder, ignore_cleanup_errors=True
        ) as place:
            _convert(data, parts, how, Path(place))
            shutil.rmtree(entry, ignore_errors=True)  # damaged, if it is there
            with suppress(OSError):  # another process may have been faster
                os.rename(place, entry)
        if (kept := _description(entry)) is None:
            raise StorageError(
                f"{entry} could not be written. Name another directory with cache=...."
            )
    notes.notes.extend(kept["notes"])
    notes.cautions.extend(kept["cautions"])
    columns = Columns(**{name: _frozen(value) for name, value in kept["columns"].items()})
    return _mapped(entry, kept, data, columns, how), columns


@dataclass(frozen=True)
class HowToMap:
    """How a data set is converted."""

    tidying: Tidying = field(default_factory=Tidying)
    beside: tuple[str, ...] = ()
    engine: str | Engine | None = None
    cache: str | Path | None = None
    budget: int | None = None  # bytes; None for a quarter of the machine's memory


_FORMAT = 1  # of the entries of the cache
_DESCRIPTION = "log.json"
_UNFINISHED = "unfinished-"
_LEFT_FOR = 86_400  # seconds after which what a killed conversion left is removed
_MARGIN = 1 << 26  # bytes to leave free on the disk


def cache_folder(named: str | Path | None) -> Path:
    """Return the directory of converted logs: the named one, $TAILPROOF_CACHE, or the user's cache."""
    if named is not None:
        return Path(named).expanduser().resolve()
    if chosen := os.environ.get("TAILPROOF_CACHE"):
        return Path(chosen).expanduser().resolve()
    return Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "tailproof"


def _fingerprint(data: DataSet, parts: dict[str, Choice], how: HowToMap) -> str:
    """Return a digest of the files' contents and of how they are read.

    Files on other machines are not read for it: their names, sizes and times have to do.
    """
    digest = hashlib.blake2b(digest_size=16)
    how_read = sorted(parts.items()), how.tidying, how.beside, version("tailproof"), _FORMAT
    digest.update(repr(how_read).encode())
    for span in data.spans:
        digest.update(repr((span.rows, span.groups, span.constants)).encode())
        if not data.storage.is_local:
            digest.update(repr((span.path, span.size, span.stamp)).encode())
            continue
        with open(span.path, "rb") as file:
            while block := file.read(1 << 22):
                digest.update(block)
    return digest.hexdigest()


def _description(entry: Path) -> dict[str, Any] | None:
    """Return the description of a converted log; None if there is none, or a file is incomplete."""
    try:
        found: dict[str, Any] = json.loads((entry / _DESCRIPTION).read_text())
        sizes = {name: (entry / name).stat().st_size for name in found["sizes"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if sizes == found["sizes"] else None


def _remove_leftovers(folder: Path) -> None:
    """Remove what conversions left that were killed long ago."""
    for place in folder.glob(f"{_UNFINISHED}*"):
        with suppress(OSError):
            if time.time() - place.stat().st_mtime > _LEFT_FOR:
                shutil.rmtree(place)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _convert(data: DataSet, parts: dict[str, Choice], how: HowToMap, place: Path) -> None:
    """Write the columns of a data set's log, and their description, into a directory."""
    notes = Notes()
    given = data.label, data.schema.names, data.schema, parts
    columns, description = chosen_columns(*given, beside=how.beside)
    notes.cautions.extend(columns.doubts)
    data.require_types(columns.used())
    tidying = how.tidying if description is None else Tidying(missing="error")
    surveyor = Surveyor(data.storage, columns, tidying)
    with running(how.engine) as where:
        survey = surveyor.merged(where.map(surveyor, data.parts(PART)))
    label = data.label[0].lower() + data.label[1:]
    with naming_the_type(f"In {label}: "):
        ids = _labels(columns.episode, survey.ids, "episode", description)
        group_ids = _labels(columns.group, survey.groups, "group", description)
    ends = _ends(survey, columns, parts.get("terminated") is True, notes)
    if (guessed := columns.guessed_episode(parts)) is not None:
        require_few(int((~ends).sum()), survey.rows, guessed)
    borders = np.append(survey.starts, survey.rows)
    dropped = np.zeros(len(ends), dtype=bool) if columns.next_state else ~ends
    lengths = np.diff(borders) - dropped
    kept = lengths > 0
    _require_transitions(survey, columns, dropped, kept, notes)
    with naming_the_type(f"In {label}: "):
        encoder = _encoder(columns, survey, description, notes)
    types = {} if description is None else description["types"]
    writer = Writer(
        place=place,
        storage=data.storage,
        columns=columns,
        encoder=encoder,
        borders=borders,
        ends=ends,
        dropped=dropped,
        kinds=(types.get("states", "float64"), types.get("actions", "float64")),
        cost=dict(tidying.cost),
    )
    writer.write(data.spans)
    starts = np.append(0, np.cumsum(lengths[kept]))
    truncated = np.zeros(starts[-1], dtype=bool)
    truncated[starts[1:] - 1] = ~ends[kept]
    writer.save("starts", starts)
    writer.save("truncated", truncated)
    writer.save("episode_ids", np.flatnonzero(kept) if ids is None else ids[kept])
    if group_ids is not None:
        writer.save("group_ids", group_ids[kept])
    written = {} if description is None else description
    own = _own_encoder(encoder, description)
    said = {
        "columns": asdict(columns),
        "space": asdict(encoder.actions.space),
        "encoder": None if own is None else own.to_plain(),
        "state_names": written.get("state_names", encoder.state_names),
        "reward_name": written.get(
            "reward_name", f"{'minus ' if columns.negative else ''}{columns.reward}"
        ),
        "rows": survey.rows,
        "notes": notes.notes,
        "cautions": notes.cautions,
        "sizes": {each.name: each.stat().st_size for each in place.iterdir()},
    }
    (place / _DESCRIPTION).write_text(json.dumps(said))


def _mapped(
    entry: Path, kept: dict[str, Any], data: DataSet, columns: Columns, how: HowToMap
) -> Log:
    """Return the log whose arrays are the files of a directory."""
    hidden = columns.hidden
    arrays: dict[str, Any] = {each.stem: ArrayFile(str(each))() for each in entry.glob("*.npy")}
    arrays.setdefault(
        "next_states", arrays["states"]
    )  # of one-step logs, in which they are not used
    rows, next_rows = arrays.pop("rows"), arrays.pop("next_rows")
    known = tuple(name for name in data.schema.names if name not in hidden)
    table = OriginalTable(
        data.label, known, hidden, kept["rows"], lambda names, _: data.table(names)
    )
    return Log(
        **{"propensity": None, "group_ids": None, **arrays},
        origin=Origin(rows, next_rows, kept["rows"], table),
        action_space=described_space(kept),
        encoder=None if kept["encoder"] is None else Encoder.from_plain(kept["encoder"]),
        state_names=tuple(kept["state_names"]),
        reward_name=kept["reward_name"],
        budget=physical_memory() // 4 if how.budget is None else how.budget,
    )


@dataclass(frozen=True)
class Writer:
    """Writes the transitions of a data set as arrays; a *run* is the rows of one episode."""

    place: Path
    storage: Storage
    columns: Columns
    encoder: Encoder
    borders: IntArray  # (R + 1,) first row of each run, then the number of rows
    ends: BoolArray  # (R,) whether it terminates
    dropped: BoolArray  # (R,) whether its last row is left out for lack of a next state
    kinds: tuple[str, str]  # types of states and of continuous actions
    cost: dict[str, float]  # of each action

    def save(self, name: str, values: AnyArray) -> None:
        """Write an array as a file."""
        plain = values.astype(str) if values.dtype.kind == "O" else values
        np.save(self.place / f"{name}.npy", plain, allow_pickle=False)

    def write(self, spans: Sequence[Span]) -> None:
        """Write all transitions, in the order of the files."""
        arrays = self._empty()
        wanted = [*self.columns.state, *self.columns.next_state, *self.columns.action]
        wanted += [self.columns.reward, *filter(None, [self.columns.propensity])]
        first = at = 0
        for span in spans:
            for batch, where in self.storage.batches(span, list(dict.fromkeys(wanted)), _BATCH):
                with naming_the_type(f"In {where}: "):
                    found = self._transitions(batch, first)
                before = found.pop("before")
                if before is not None and "next_states" in arrays and at:
                    arrays["next_states"][at - 1] = before
                for name, values in found.items():
                    if name in arrays:
                        arrays[name][at : at + len(values)] = values
                first, at = first + batch.num_rows, at + len(found["rows"])
                for each in arrays.values():
                    release(each)
        for each in arrays.values():
            each.flush()

    def _empty(self) -> dict[str, Any]:
        """Return the arrays to be filled, after a check of the room on the disk."""
        rows = int(self.borders[-1]) - int(self.dropped.sum())
        one_step = len(self.ends) == self.borders[-1] and not self.columns.next_state
        space, states = self.encoder.actions.space, len(self.encoder.state_names)
        shapes: dict[str, tuple[tuple[int, ...], Any]] = {
            "states": ((rows, states), self.kinds[0]),
            "next_states": ((rows, states), self.kinds[0]),
            "rewards": ((rows,), float),
            "terminated": ((rows,), bool),
            "rows": ((rows,), np.intp),
            "next_rows": ((rows,), np.intp),
            "actions": ((rows,), np.intp)
            if isinstance(space, Discrete)
            else ((rows, space.dimension), self.kinds[1]),
        }
        if one_step:
            del shapes["next_states"]
        if self.columns.propensity is not None:
            shapes["propensity"] = ((rows,), float)
        needed = sum(math.prod(shape) * np.dtype(kind).itemsize for shape, kind in shapes.values())
        needed += rows + 24 * len(self.ends)  # truncated; starts and labels
        free = shutil.disk_usage(self.place).free
        if needed + _MARGIN > free:
            raise StorageError(
                f"The log needs {needed / 1e9:.3g} GB in {self.place.parent}, which has "
                f"{free / 1e9:.3g} GB left. Make room there, or name another directory with cache=... "
                f"(--cache), or in TAILPROOF_CACHE."
            )
        return {
            name: np.lib.format.open_memmap(self.place / f"{name}.npy", "w+", np.dtype(kind), shape)
            for name, (shape, kind) in shapes.items()
        }

    def _transitions(self, batch: pa.RecordBatch, first: int) -> dict[str, Any]:
        """Return the transitions of a batch; `before` is the next state of the row before, if any."""
        m, named = batch.num_rows, self.columns
        low = int(np.searchsorted(self.borders, first, side="right")) - 1
        high = int(np.searchsorted(self.borders, first + m))
        last = self.borders[low + 1 : high + 1] - 1 - first
        here = last < m  # the last run may continue after the batch
        last = last[here]
        final, terminated = np.zeros((2, m), dtype=bool)
        final[last], terminated[last] = True, self.ends[low:high][here]
        there = np.ones(m, dtype=bool)
        there[last[self.dropped[low:high][here]]] = False
        states, refused = self.encoder.encode(batch)
        require_read(refused)
        states = states.astype(self.kinds[0], copy=False)
        if named.next_state:
            after = self._next_states(batch, states, terminated)
        else:
            after = np.concatenate(
                [states[1:], states[-1:]]
            )  # the last is mended by the next batch
            after[final] = states[final]
        rows = first + np.arange(m)
        chances = None
        if named.propensity is not None:
            chances = numbers(named.propensity, batch.column(named.propensity))
            check_propensity(chances, m, self.encoder.actions.space)
        actions = self.encoder.actions(batch)
        rewards = numbers(named.reward, batch.column(named.reward))
        rewards = net_of_costs(
            -rewards if named.negative else rewards, actions, self.encoder.actions.space, self.cost
        )
        found = {
            "states": states,
            "next_states": after,
            "actions": actions,
            "rewards": rewards,
            "terminated": terminated,
            "propensity": chances,
            "rows": rows,
            "next_rows": np.where(final, -1, rows + 1),
        }
        kept = {
            name: each if there.all() else each[there]
            for name, each in found.items()
            if each is not None
        }
        goes_on = first > self.borders[low] and not named.next_state
        return {**kept, "before": states[0] if goes_on else None}

    def _next_states(
        self, batch: pa.RecordBatch, states: FloatArray, terminated: BoolArray
    ) -> FloatArray:
        after = self.encoder.next_states(batch, self.columns.next_state)
        missing = np.asarray(np.isnan(after).any(axis=1))
        if (missing & ~terminated).any():
            raise LogError(
                f"the next state is missing in {int((missing & ~terminated).sum())} rows that do not "
                f"terminate. Fill it in, or pass next_state=False to derive all next states from the "
                f"rows."
            )
        if missing.any():
            after = np.where(missing[:, None], states, after)
        return after.astype(self.kinds[0], copy=False)


def _require_transitions(
    survey: Survey, columns: Columns, dropped: BoolArray, kept: BoolArray, notes: Notes
) -> None:
    """Warn about steps that are left out or missing; raise if no transition is left."""
    if not columns.next_state:
        steps = survey.rows - len(kept)
        say_what_is_left_out(notes, dropped, ~kept, marked=columns.terminated is not None)
        say_where_steps_are_missing(notes, survey.gaps, steps, survey.first_gap)
    if not kept.any():
        raise LogError("A log needs at least one transition. Got none whose next state is known.")


def _labels(
    name: str | None, values: pa.Array | None, part: str, description: dict[str, Any] | None
) -> AnyArray | None:
    """Return the labels of all episodes or of their groups; None without such a column."""
    if name is None:
        return None
    found = identifiers(name, values)
    if part == "episode" and len(found.labels) < len(found.codes):
        again = found.labels[int(np.bincount(found.codes).argmax())]
        raise LogError(
            f"The rows of an episode must stand together in a log that is mapped from disk. Those of "
            f"episode {again!s} do not; sort the data by episode and step first, or read it into "
            f"memory with lazy=False."
        )
    return np.asarray(typed_labels(found.labels[found.codes], description, part))


def _ends(survey: Survey, columns: Columns, all_terminate: bool, notes: Notes) -> BoolArray:
    """Return which episodes terminate, by the same rules as for logs in memory."""
    if columns.episode is None:
        flagged = columns.terminated is not None or columns.truncated is not None
        say_what_ends_an_episode(notes, flagged, bool(columns.next_state))
    alone = survey.rows == len(survey.starts)
    if all_terminate or (alone and not columns.next_state and not survey.truncated.any()):
        return np.ones(len(survey.starts), dtype=bool)
    done = without_timeouts(columns.terminated, survey.terminated, survey.truncated, notes)
    return np.asarray(done)


def _encoder(
    columns: Columns, survey: Survey, description: dict[str, Any] | None, notes: Notes
) -> Encoder:
    """Return how to read states and actions."""
    space = None if description is None else described_space(description)
    encoder = survey.fit.encoder(notes, space)
    say_which_labels_are_alike(encoder.actions.space, notes)
    if description is None:
        say_that_rows_are_episodes(columns, len(survey.starts), survey.rows, notes)
    return encoder


def _own_encoder(encoder: Encoder, description: dict[str, Any] | None) -> Encoder | None:
    """Return the encoder of the log: that of its table, or the one stored with it."""
    if description is None:
        return encoder
    written = description.get("encoder")
    return None if written is None else Encoder.from_plain(written)
