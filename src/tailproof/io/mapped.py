"""Logs larger than memory: Parquet data sets, converted once to mapped columns in a cache."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from importlib.metadata import version
from itertools import groupby
from operator import add, attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from tailproof.arrays import AnyArray, BoolArray, IntArray
from tailproof.errors import LogError, StorageError
from tailproof.files import SavedFileError, from_parts, opened_page, sealed_page, to_parts
from tailproof.io.columns import Choice, Columns
from tailproof.io.encoder import Encoder, EncoderFit, Tidying
from tailproof.io.episodes import (
    episode_labels,
    report_cost,
    report_single_row_episodes,
    steps_of,
    warn_of_similar_labels,
)
from tailproof.io.parquet import chosen_columns
from tailproof.io.steps import Notes, Tally, arrange, done_includes_timeouts, no_ends
from tailproof.io.tables import (
    asked_of,
    file_kind,
    naming_the_file,
    naming_the_type,
    refuse_miscounted,
)
from tailproof.io.values import Labelled, is_text, numbers, spelt_labels, truth_values
from tailproof.log.log import PART, ArrayFile, Log, Origin, OriginalTable, physical_memory
from tailproof.log.spaces import Discrete
from tailproof.log.validation import require_repeated
from tailproof.parallel import Engine, running

if TYPE_CHECKING:
    from pyarrow.dataset import ParquetFileFragment
    from pyarrow.fs import FileSystem

PIECE = 1 << 18  # rows to read at a time
_reading = partial(naming_the_file, advice="Restore or rewrite the file.", error=StorageError)
_HIVE = re.compile(r"/([^/=]+)=([^/]*)(?=/)")  # key=value in the name of a folder
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # a value of such a folder


class FileState(NamedTuple):
    """A file at the time when it was opened."""

    size: int
    stamp: int | None  # modification time
    constants: Mapping[str, Any]  # columns in the names of its folders


@dataclass(frozen=True)
class DataSet:
    """The row groups of a log's files, in order.

    Attributes
    ----------
    schema
        The columns of all files together, and of the names of their folders.
    files
        The state of each file when it was opened, by its path.
    """

    label: str
    schema: pa.Schema
    groups: tuple[ParquetFileFragment, ...]
    files: Mapping[str, FileState]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(map(_rows, self.groups))

    def require_types(self, columns: Sequence[str]) -> None:
        """Raise if a file lacks one of these columns, or its type differs between files."""
        for path, file in {each.path: each for each in self.groups}.items():
            stored = file.physical_schema
            for name in columns:
                if name in self.files[path].constants:
                    continue
                if name not in stored.names:
                    raise LogError(
                        f"{path} has no column {name!r}, which other files of the log have. "
                        f"Rewrite it with the columns of the others."
                    )
                wanted, found = self.schema.field(name).type, stored.field(name).type
                if not _alike(wanted, found):
                    raise LogError(
                        f"Column {name!r} is {found} in {path}, but {wanted} in "
                        f"{self.groups[0].path}. Rewrite the file with one type for each column."
                    )

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield some columns, at most `PIECE` rows at a time, each with its place."""
        wanted = pa.schema([self.schema.field(name) for name in columns])
        for group in self.groups:
            self._require_unchanged(group)
            place, done = f"{group.path}, row group {group.row_groups[0].id},", 0
            with _reading(place):
                for batch in group.to_batches(schema=wanted, batch_size=PIECE, use_threads=False):
                    yield f"{place} rows from {done} on", batch
                    done += batch.num_rows
                if done != _rows(group):
                    raise StorageError(f"{group.path} ended after {done} of {_rows(group)} rows.")

    def _require_unchanged(self, group: ParquetFileFragment) -> None:
        info = group.filesystem.get_file_info(group.path)
        if info.type.name == "NotFound":
            raise StorageError(
                f"{group.path} was deleted since the log was opened. Put it back and run again, or "
                f"open the log again."
            )
        if (info.size, info.mtime_ns) != self.files[group.path][:2]:
            raise StorageError(
                f"{group.path} has changed since the log was opened. Open the log again."
            )

    def table(self, columns: Sequence[str]) -> pa.Table:
        """Read some columns of all files into memory."""
        return pa.Table.from_batches([batch for _, batch in self.batches(columns)])

    def parts(self, rows: int) -> list[DataSet]:
        """Divide the data set into consecutive ones with about `rows` rows each."""
        parts: list[list[ParquetFileFragment]] = []
        for group in self.groups:
            if parts and sum(map(_rows, parts[-1])) + _rows(group) <= rows:
                parts[-1].append(group)
            else:
                parts.append([group])
        return [replace(self, groups=tuple(part)) for part in parts]


def _rows(group: ParquetFileFragment) -> int:
    return int(group.row_groups[0].num_rows)


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


def open_data_set(source: str | Path, filesystem: FileSystem | None = None) -> DataSet:
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
    from pyarrow import dataset, fs  # which imports pandas, if it is there

    text = str(source)
    label = f"The data set {text}"
    with naming_the_file(
        label, "It must be a Parquet file, or hold Parquet files with the same columns."
    ):
        if filesystem is not None:
            path = text
        elif "://" in text:
            filesystem, path = fs.FileSystem.from_uri(text)
        else:
            filesystem, path = fs.LocalFileSystem(), str(Path(text).resolve())
        options = dataset.ParquetFragmentScanOptions(
            page_checksum_verification=True,
            pre_buffer=not isinstance(filesystem, fs.LocalFileSystem),
        )
        form = dataset.ParquetFileFormat(default_fragment_scan_options=options)
        plain = dataset.dataset(path, filesystem=filesystem, format=form)
        folders = _folder_columns([file for file in plain.files if file != path])
        hive = dataset.partitioning(folders, flavor="hive")
        files = dataset.dataset(path, filesystem=filesystem, format=form, partitioning=hive)
        fragments = list(files.get_fragments())
        if not fragments:
            raise LogError(f"{label} holds no Parquet files, nor a Minari data set.")
    groups: list[ParquetFileFragment] = []
    states: dict[str, FileState] = {}
    for fragment in fragments:
        with naming_the_file(fragment.path, "The file is damaged or not Parquet; write it again."):
            refuse_miscounted(fragment.metadata)
            groups += filter(_rows, fragment.split_by_row_group())
            info = filesystem.get_file_info(fragment.path)
        constants = dataset.get_partition_keys(fragment.partition_expression)
        states[fragment.path] = FileState(info.size, info.mtime_ns, constants)
    if not groups:
        raise LogError(f"{label} has no rows. A log needs at least one.")
    # Metadata of a file apply to the data set only if all files have the same.
    first, *others = {each.path: each.physical_schema for each in groups}.values()
    same = all(each.metadata == first.metadata for each in others)
    with naming_the_file(label, "Rename columns whose names are not UTF-8 text."):
        united = _united([folders, first, *others])
    return DataSet(
        label, united.with_metadata(first.metadata if same else None), tuple(groups), states
    )


def _folder_columns(files: Sequence[str]) -> pa.Schema:
    """Return the columns in the names of folders: whole numbers where that loses nothing, else text."""
    texts: dict[str, list[str]] = {}
    for file in files:
        for name, text in _HIVE.findall(file):
            texts.setdefault(name, []).extend([] if text == _NO_VALUE else [text])
    return pa.schema(
        {name: spelt_labels(pa.chunked_array([values])).type for name, values in texts.items()}
    )


_BYTES = 32  # that a number of a table takes while it is read into memory: there are copies
_COMPRESSION = 80  # largest ratio of these to the size of the file


def data_set_to_map(source: object, lazy: bool | None, budget: int | None) -> DataSet | None:
    """Return the data set if it should be mapped, or None if the source should be loaded.

    If `lazy` is None, Parquet data are mapped if reading them needs more than `budget` bytes of memory,
    by default a quarter of the machine's.
    """
    if isinstance(source, DataSet):
        return source
    remote = isinstance(source, str) and "://" in source and asked_of(source) is None
    if lazy is False and not remote:
        return None
    if not isinstance(source, str | Path) or not (remote or _parquet_files(Path(source))):
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
    return data if _BYTES * data.rows * len(data.schema.names) > limit else None


def _parquet_files(path: Path) -> list[Path]:
    """Return the Parquet files of a folder, or the file itself if it is one."""
    if file_kind(path) == "parquet":
        return [path]
    return list(path.rglob("*.parquet")) if path.is_dir() else []


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
    columns = from_parts(kept["columns"])
    return _mapped(entry, kept, data, columns, how), columns


_FORMAT = 5  # of the entries of the cache
_BLOCK = 1 << 22  # bytes to read at a time
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
    named = sorted((part, choice) for part, choice in parts.items() if choice is not None)
    how_read = named, how.tidying, how.beside, version("tailproof"), _FORMAT
    digest.update(repr(how_read).encode())
    for path, same in groupby(data.groups, attrgetter("path")):
        groups = list(same)
        state = data.files[path]
        digest.update(repr((state.constants, [*map(_rows, groups)])).encode())
        if groups[0].filesystem.type_name != "local":
            digest.update(repr((path, *state[:2])).encode())
            continue
        with open(path, "rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()


def _description(entry: Path) -> dict[str, Any] | None:
    """Return the description of a converted log; None if there is none, or a file is damaged."""
    try:
        found = opened_page((entry / _DESCRIPTION).read_bytes(), str(entry))
        checksums = {name: _checksum(entry / name) for name in found["checksums"]}
    except (OSError, SavedFileError):
        return None
    return found if checksums == found["checksums"] else None


def _checksum(path: Path) -> int:
    """Return the CRC-32 of a file."""
    found = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            found = crc32(block, found)
    return found


def _remove_leftovers(folder: Path) -> None:
    """Remove what conversions left that were killed long ago."""
    for place in folder.glob(f"{_UNFINISHED}*"):
        with suppress(OSError):
            if time.time() - place.stat().st_mtime > _LEFT_FOR:
                shutil.rmtree(place)


def _mapped(
    entry: Path, kept: dict[str, Any], data: DataSet, columns: Columns, how: HowToMap
) -> Log:
    """Return the log whose arrays are the files of a directory."""
    hidden = columns.hidden
    arrays: dict[str, Any] = {
        name: ArrayFile(str(entry / name), dtype, tuple(shape))()
        for name, (dtype, shape) in kept["arrays"].items()
    }
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
        action_space=from_parts(kept["space"]),
        encoder=from_parts(kept["encoder"]),
        state_names=tuple(kept["state_names"]),
        reward_name=kept["reward_name"],
        budget=physical_memory() // 4 if how.budget is None else how.budget,
    )


@dataclass(frozen=True)
class Survey:
    """What must be known of a data set before its first episode is read: a sum over its rows."""

    rows: int
    fit: EncoderFit
    runs: int  # of rows with one episode label; 0 without an episode column
    labels: tuple[object, object]  # of the first and the last row
    ends: int  # rows that are marked as the end of an episode, in either way
    timeouts: int  # rows that are marked as truncated
    done: int  # of these, rows that are marked as terminated as well
    paid: int  # rows whose value of the reward column is positive

    def __add__(self, other: Survey) -> Survey:
        total = {name: mine + vars(other)[name] for name, mine in vars(self).items()}
        total["runs"] -= self.runs > 0 and self.labels[1] == other.labels[0]  # it goes on
        return Survey(**{**total, "labels": (self.labels[0], other.labels[1])})

    def one_step(self, columns: Columns) -> bool:
        """Return whether all episodes have one row, and so terminate."""
        alone = self.runs == self.rows
        if not columns.episode:
            flagged = columns.terminated is not None or columns.truncated is not None
            if flagged and not self.ends:
                raise no_ends()
            alone = not flagged
        return alone and not columns.next_state and not self.timeouts


def survey(data: DataSet, columns: Columns, tidying: Tidying) -> Survey:
    """Return the survey of a data set, in one pass."""
    found = []
    for place, batch in data.batches(columns.used()):
        with naming_the_type(f"In {place}: "):
            found.append(_survey(batch, columns, tidying))
    return reduce(add, found)


def _survey(batch: pa.RecordBatch, columns: Columns, tidying: Tidying) -> Survey:
    labels = _runs(columns, batch)[1]
    done, cut = (_flags(name, batch) for name in (columns.terminated, columns.truncated))
    reward = numbers(columns.reward, batch.column(columns.reward), missing=True)
    return Survey(
        rows=batch.num_rows,
        fit=EncoderFit.of(batch, columns, tidying),
        runs=len(labels),
        labels=(labels[0].as_py(), labels[-1].as_py()) if len(labels) else (None, None),
        ends=int((done | cut).sum()),
        timeouts=int(cut.sum()),
        done=int((done & cut).sum()),
        paid=int((reward > 0).sum()),
    )


def _runs(columns: Columns, batch: pa.RecordBatch) -> tuple[IntArray, pa.Array]:
    """Return the rows where the label of the episode changes, and the new labels, if there are any."""
    if not columns.episode:
        return np.empty(0, dtype=np.intp), pa.array([])
    encoded = pc.run_end_encode(episode_labels(batch, columns.episode).combine_chunks())
    return np.append(0, encoded.run_ends.to_numpy()[:-1]).astype(np.intp), encoded.values


def _flags(name: str | None, batch: pa.RecordBatch) -> BoolArray:
    if name is None:
        return np.zeros(batch.num_rows, dtype=bool)
    return truth_values(name, batch.column(name))


def whole_episodes(data: DataSet, columns: Columns) -> Iterator[tuple[str, pa.Table]]:
    """Yield a data set in pieces of whole episodes, each with the place of its first row.

    A piece has about `PIECE` rows, or one episode if that is longer.
    """
    waiting: list[tuple[str, pa.RecordBatch]] = []
    label = None
    for place, batch in data.batches(columns.used()):
        border = batch.num_rows  # rows before it belong to episodes that end before it
        if columns.episode:
            starts, labels = _runs(columns, batch)
            goes_on = bool(waiting) and labels[0].as_py() == label
            border, label = int(starts[-1]), labels[-1].as_py()
            inside = border > 0 or not goes_on
        elif columns.terminated is not None or columns.truncated is not None:
            ends = np.flatnonzero(
                _flags(columns.terminated, batch) | _flags(columns.truncated, batch)
            )
            inside = len(ends) > 0
            border = int(ends[-1]) + 1 if inside else 0
        else:
            inside = True
        rows = sum(each.num_rows for _, each in waiting) + border
        if not inside or rows < PIECE:
            waiting.append((place, batch))
            continue
        if border:
            waiting.append((place, batch.slice(0, border)))
        yield waiting[0][0], pa.Table.from_batches([each for _, each in waiting])
        waiting = [(place, batch.slice(border))] if border < batch.num_rows else []
    if waiting:
        yield waiting[0][0], pa.Table.from_batches([each for _, each in waiting])


@dataclass(frozen=True)
class HowToMap:
    """How a data set is converted."""

    tidying: Tidying = field(default_factory=Tidying)
    beside: tuple[str, ...] = ()
    engine: str | Engine | None = None
    cache: str | Path | None = None
    budget: int | None = None  # bytes; None for a quarter of the machine's memory


def _convert(data: DataSet, parts: dict[str, Choice], how: HowToMap, place: Path) -> None:
    """Write the columns of a data set's log, and their description, into a directory.

    Whole episodes become transitions by the same functions as for a table in memory.
    """
    notes = Notes()
    given = data.label, data.schema.names, data.schema, parts
    columns, description = chosen_columns(*given, beside=how.beside)
    data.require_types(columns.used())
    tidying = how.tidying if description is None else Tidying(missing="error")
    look = partial(survey, columns=columns, tidying=tidying)
    with running(how.engine) as where:
        seen = reduce(add, where.map(look, data.parts(PART)))
    with naming_the_type(f"In {data.label[0].lower()}{data.label[1:]}: "):
        described = None if description is None else description.space
        encoder = seen.fit.encoder(notes, described)
    if description is None:
        report_cost(columns, notes, paid=seen.paid > 0)
        warn_of_similar_labels(encoder.actions.space, notes)
        report_single_row_episodes(columns, seen.runs, seen.rows, notes)
    all_terminate = parts.get("terminated") is True
    one_step = seen.one_step(columns)
    _require_room(seen.rows, encoder, one_step, place)
    ends = done_includes_timeouts(columns.terminated, seen.timeouts, seen.done, notes)
    said, tally, lengths = Notes(), Tally(), []
    labels: dict[str, list[AnyArray]] = {"episode": [], "group": [], "read": []}
    files: dict[str, ArrayFile] = {}
    space = encoder.actions.space
    taken = np.zeros(space.n if isinstance(space, Discrete) else 0, dtype=bool)
    for at, table in whole_episodes(data, columns):
        with naming_the_type(f"In {at}: "):
            steps = steps_of(
                table, columns, encoder, description, tidying.cost, said, done_means_end=ends
            )
            steps = replace(
                steps,
                one_step=one_step,
                terminated=True if all_terminate else steps.terminated,
                episode=_in_order_of_rows(steps.episode),
            )
            found = arrange(steps, said)
        if steps.episode is not None:
            labels["read"].append(steps.episode.labels)  # also of episodes without a transition
        ids = found.episode_ids
        labels["episode"].append(tally.episodes + np.unique(found.codes) if ids is None else ids)
        labels["group"] += [] if found.group_ids is None else [found.group_ids]
        lengths.append(found.lengths)
        rows, after = found.origin.rows, found.origin.next_rows
        after = np.where(after < 0, -1, after + tally.rows)
        arrays = {**found.arrays, "rows": rows + tally.rows, "next_rows": after}
        if len(taken):
            taken[arrays["actions"]] = True
        if one_step:  # which use no next states
            del arrays["next_states"]
        for name, values in arrays.items():
            if values is not None:
                files[name] = appended(place / name, values, files.get(name))
        tally += found.tally
    require_repeated(int(taken.sum()), tally.rows - tally.left_out)
    if labels["read"]:
        _require_once(np.concatenate(labels["read"]))
    if tally.rows == tally.left_out:
        raise LogError("A log needs at least one transition. Got none whose next state is known.")
    notes.notes.extend(dict.fromkeys(said.notes))
    notes.cautions.extend(dict.fromkeys(said.cautions))
    marked = columns.terminated is not None or all_terminate
    tally.report(notes, marked=marked, guessed_episode=columns.guessed_episode(parts))
    starts, ended = np.append(0, np.cumsum(np.concatenate(lengths))), files["terminated"]()
    truncated = np.zeros(len(ended), dtype=bool)
    truncated[starts[1:] - 1] = True
    last = {"starts": starts, "truncated": truncated & ~ended}
    for part in ("episode", "group"):
        if labels[part]:
            ids = np.concatenate(labels[part])
            ids = ids if description is None else description.typed(part, ids)
            last[f"{part}_ids"] = ids.astype(str) if ids.dtype.kind == "O" else ids
    files |= {name: appended(place / name, values) for name, values in last.items()}
    page = {
        "columns": to_parts(columns),
        "space": to_parts(encoder.actions.space),
        "encoder": to_parts(encoder if description is None else description.encoder),
        "state_names": steps.state_names,
        "reward_name": steps.reward_name,
        "rows": seen.rows,
        "notes": notes.notes,
        "cautions": notes.cautions,
        "arrays": {name: (each.dtype, each.shape) for name, each in files.items()},
        "checksums": {each.name: _checksum(each) for each in place.iterdir()},
    }
    (place / _DESCRIPTION).write_bytes(sealed_page(page))


def appended(path: Path, values: AnyArray, before: ArrayFile | None = None) -> ArrayFile:
    """Append rows to a file of an array, which they begin if it is not there yet."""
    kind = values.dtype if before is None else np.dtype(before.dtype)
    with path.open("ab") as file:
        np.ascontiguousarray(values, dtype=kind).tofile(file)
    rows = len(values) + (0 if before is None else before.shape[0])
    return ArrayFile(str(path), kind.str, (rows, *values.shape[1:]))


def _require_room(rows: int, encoder: Encoder, one_step: bool, place: Path) -> None:
    """Raise if the disk has no room for the log."""
    space = encoder.actions.space
    width = len(encoder.state_names) * (1 if one_step else 2)
    width += 5 + (
        1 if isinstance(space, Discrete) else space.dimension
    )  # and labels, rows, rewards
    needed, free = 8 * rows * width, shutil.disk_usage(place).free
    if needed + _MARGIN > free:
        raise StorageError(
            f"The log needs {needed / 1e9:.3g} GB in {place.parent}, which has "
            f"{free / 1e9:.3g} GB left. Make room there, or name another directory with cache=... "
            f"(--cache), or in TAILPROOF_CACHE."
        )


def _in_order_of_rows(episode: Labelled | None) -> Labelled | None:
    """Return labels in the order of the rows; raise if the rows of an episode are not together."""
    if episode is None:
        return None
    starts = np.append(True, episode.codes[1:] != episode.codes[:-1])
    labels = episode.labels[episode.codes[starts]]
    _require_once(labels)
    return Labelled(np.cumsum(starts) - 1, labels)


def _require_once(labels: AnyArray) -> None:
    ids, counts = np.unique(labels, return_counts=True)
    if len(ids) < len(labels):
        raise LogError(
            f"The rows of an episode must stand together in a log that is mapped from disk. Those of "
            f"episode {ids[counts.argmax()]!s} do not; sort the data by episode first, or read it into "
            f"memory with lazy=False."
        )
