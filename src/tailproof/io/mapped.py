"""Logs that stay on disk: one pass finds the episodes; transitions are read later in chunks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
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
from tailproof.log.log import PART, Chunk, physical_memory
from tailproof.log.stored import LazyLog
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


@dataclass(frozen=True)
class ParquetReader:
    """Reads transitions from Parquet files; a *run* is the rows of one episode in the files."""

    storage: Storage
    columns: Columns
    encoder: Encoder
    starts: IntArray  # (E + 1,) first transition of each episode, then their number
    borders: IntArray  # (R + 1,) first row of each run, then the number of rows
    ends: BoolArray  # (R,) whether it terminates
    dropped: BoolArray | None  # (R,) whether its last row is left out for lack of a next state
    episode: IntArray | None  # (R,) episode index; None if every run has transitions
    kinds: tuple[str, str]  # types of states and of continuous actions

    def chunks(self, part: Part, size: int, columns: Sequence[str]) -> Iterator[Chunk]:
        """Yield these columns of the rows of one part in order, at most `size` at a time."""
        held: Chunk | None = None
        for chunk in self._chunks(part, size, columns):
            if held is not None:
                yield _followed(held, chunk.states[:1])
            held = chunk
        if held is not None:
            yield _followed(
                held, held.states if held.run is None else self._state_beyond(part, held)
            )

    def episodes(self, part: Part) -> range:
        """Return a range that includes all episodes with transitions in one part."""
        low, high = self._runs(part.first, part.rows)
        if self.episode is None:
            return range(low, high)
        return range(max(int(self.episode[low]), 0), int(self.episode[high - 1]) + 1)

    def _chunks(self, part: Part, size: int, columns: Sequence[str]) -> Iterator[Chunk]:
        names = {
            "states": self.columns.state,
            "next_states": self.columns.next_state,
            "actions": self.columns.action,
            "rewards": (self.columns.reward,),
            "propensity": (self.columns.propensity,) if self.columns.propensity else (),
        }
        wanted = list(dict.fromkeys(name for column in columns for name in names[column]))
        first = part.first
        for span in part.spans:
            for batch, where in self.storage.batches(span, wanted, size):
                with naming_the_type(f"In {where}: "):
                    chunk = self._chunk(first, batch, columns)
                yield chunk
                first += batch.num_rows

    def _chunk(self, first: int, batch: pa.RecordBatch, columns: Sequence[str]) -> Chunk:
        """Return a batch as a chunk; a next state that is in the next batch is not yet filled in."""
        m, named = batch.num_rows, self.columns
        low, high = self._runs(first, m)
        edges: IntArray = np.clip(self.borders[low : high + 1], first, first + m)
        run = np.repeat(np.arange(low, high), np.diff(edges))
        last = self.borders[low + 1 : high + 1] - 1 - first
        here = last < m  # the last run may continue after the batch
        terminated = np.zeros(m, dtype=bool)
        terminated[last[here]] = self.ends[low:high][here]
        kept, head = None, 0
        if self.dropped is not None:
            there = np.ones(m, dtype=bool)
            there[last[here & self.dropped[low:high]]] = False
            kept, head = np.flatnonzero(there), int(there.argmax())
        episode = run if self.episode is None else self.episode[run]
        place = self.starts[episode[head]] + first + head - self.borders[run[head]]
        in_a_row = self._in_a_row(batch) if "states" in columns else np.empty((0, 0))
        states = in_a_row[:, :m].T
        next_states, following = states[:0], None
        if "next_states" in columns and named.next_state:
            next_states = self._next_states(batch, states, terminated)
        elif "next_states" in columns:
            next_states, following = in_a_row[:, 1:].T, in_a_row
        chances = None
        if "propensity" in columns and named.propensity is not None:
            chances = numbers(named.propensity, batch.column(named.propensity))
            check_propensity(chances, m, self.encoder.actions.space)
        actions = self.encoder.actions(batch) if "actions" in columns else np.empty(0)
        return Chunk(
            first=int(place),
            episode=episode,
            states=states,
            actions=actions.astype(self.kinds[1], copy=False) if actions.ndim == 2 else actions,
            rewards=(
                numbers(named.reward, batch.column(named.reward))
                if "rewards" in columns
                else np.empty(0)
            ),
            next_states=next_states,
            terminated=terminated,
            propensity=chances,
            kept=kept,
            run=following,
        )

    def _in_a_row(self, batch: pa.RecordBatch) -> FloatArray:
        """Return the states (p, m), with one free column for the next row's state if it is needed."""
        room = 0 if self.columns.next_state else 1
        states, refused = self.encoder.encode(batch, room=room, order="F")
        require_read(refused)
        return states.T.astype(self.kinds[0], copy=False)

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

    def _runs(self, first: int, m: int) -> tuple[int, int]:
        """Return the range of runs that have rows among these m."""
        low = int(np.searchsorted(self.borders, first, side="right")) - 1
        return low, int(np.searchsorted(self.borders, first + m))

    def _state_beyond(self, part: Part, last: Chunk) -> FloatArray:
        """Return the state of the row after a part, (1, p), or of its last row if none is needed."""
        if part.beyond is None:
            return last.states[-1:]
        batch, where = next(self.storage.batches(part.beyond, self.columns.state, 1))
        with naming_the_type(f"In {where}: "):
            return self._in_a_row(batch)[:, :1].T


def _followed(chunk: Chunk, state: FloatArray) -> Chunk:
    """Fill in the next state of the last row of a chunk, (1, p)."""
    if chunk.run is not None:
        chunk.run[:, -1] = state[0]
    return chunk


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
    last_actions: pa.Array | None  # (R,) action in the last row of each run
    fit: EncoderFit  # of these rows


@dataclass(frozen=True)
class Surveyor:
    """Computes the survey of a part from the columns that it needs."""

    storage: Storage
    columns: Columns

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
            last_actions=joined("last_actions", end),
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
        last_actions = None
        if len(columns.action) == 1:
            taken = unwrapped(batch.column(columns.action[0]))
            last_actions = taken.take(pa.array(last)).combine_chunks()
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
            last_actions=last_actions,
            fit=EncoderFit.of(batch, columns, Tidying(missing="error")),
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
        f"A log that stays on disk is read in the order of its rows, and the steps of "
        f"{_named(episode)} do not grow. Sort the data by episode and step first, pass step=False if "
        f"the rows are in order all the same, or read it into memory with lazy=False."
    )


_COMPRESSION = 20  # largest ratio of a log's size in memory to its file size


def data_set_to_stay(source: Any, lazy: bool | None, budget: int | None) -> DataSet | None:
    """Return the data set if it should stay on disk, or None if the source should be loaded.

    If `lazy` is None, Parquet data stay on disk if they need more than `budget` bytes of memory, by
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


def open_lazily(
    data: DataSet,
    parts: dict[str, Choice],
    notes: Notes,
    engine: str | Engine | None,
    beside: Sequence[str] = (),
) -> tuple[LazyLog, Columns]:
    """Open a Parquet data set as a lazy log; also return the column of each part."""
    given = data.label, data.schema.names, data.schema, parts
    columns, description = chosen_columns(*given, beside=beside)
    _require_plain(columns, notes)
    data.require_types(columns.used())
    ranges = data.parts(PART)
    surveyor = Surveyor(data.storage, columns)
    with running(engine) as where:
        survey = surveyor.merged(where.map(surveyor, ranges))
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
        encoder = _encoder(columns, survey, description, dropped, notes)
    written = {} if description is None else description
    types = written.get("types", {})
    reader = ParquetReader(
        storage=data.storage,
        columns=columns,
        encoder=encoder,
        starts=np.append(0, np.cumsum(lengths[kept])),
        borders=borders,
        ends=ends,
        dropped=dropped if dropped.any() else None,
        episode=None if kept.all() else np.cumsum(kept) - 1,
        kinds=(types.get("states", "float64"), types.get("actions", "float64")),
    )
    log = LazyLog(
        reader=reader,
        parts=_own_parts(ranges, survey, bool(columns.next_state)),
        starts=reader.starts,
        episode_ids=np.flatnonzero(kept) if ids is None else ids[kept],
        group_ids=None if group_ids is None else group_ids[kept],
        ends=ends[kept],
        action_space=encoder.actions.space,
        action_counts=encoder.actions.counts,
        encoder=_own_encoder(encoder, description),
        state_names=tuple(written.get("state_names", encoder.state_names)),
        reward_name=written.get("reward_name", columns.reward),
        has_propensity=columns.propensity is not None,
        label=label,
    )
    return log, columns


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


def _require_plain(columns: Columns, notes: Notes) -> None:
    notes.cautions.extend(columns.doubts)
    if not columns.state or columns.negative or columns.weight or columns.available:
        raise LogError(
            "A log that stays on disk needs state columns and a reward of which more is better, and "
            "can have neither weights nor available actions. Read it into memory with lazy=False."
        )


def _own_parts(parts: Sequence[Part], survey: Survey, given_next: bool) -> tuple[Part, ...]:
    """Return parts that read beyond their end only if an episode continues there.

    A checkpointed part then depends only on the files that it reads: others may be replaced.
    """
    ends_at = np.array([part.first + part.rows for part in parts])
    crossed = ~np.isin(ends_at, survey.starts) & (not given_next)
    return tuple(
        part if goes_on else replace(part, beyond=None)
        for part, goes_on in zip(parts, crossed, strict=True)
    )


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
            f"The rows of an episode must stand together in a log that stays on disk. Those of "
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
    columns: Columns,
    survey: Survey,
    description: dict[str, Any] | None,
    dropped: BoolArray,
    notes: Notes,
) -> Encoder:
    """Return how to read states and actions; action counts exclude dropped steps."""
    space = None if description is None else described_space(description)
    encoder = survey.fit.encoder(notes, space)
    actions = encoder.actions
    if actions.counts is not None and survey.last_actions is not None and dropped.any():
        last = survey.last_actions.filter(pa.array(dropped))
        codes = actions(pa.RecordBatch.from_arrays([last], list(columns.action)))
        left_out = np.bincount(codes, minlength=len(actions.counts))
        actions = replace(actions, counts=actions.counts - left_out)
    say_which_labels_are_alike(actions.space, notes)
    if description is None:
        say_that_rows_are_episodes(columns, len(survey.starts), survey.rows, notes)
    return replace(encoder, actions=actions)


def _own_encoder(encoder: Encoder, description: dict[str, Any] | None) -> Encoder | None:
    """Return the encoder of the log: that of its table, or the one stored with it."""
    if description is None:
        return encoder
    written = description.get("encoder")
    return None if written is None else Encoder.from_plain(written)
