"""Logs that stay on disk: opened by a look at their episodes, read piece by piece."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from tailproof.arrays import AnyArray, BoolArray
from tailproof.data.stored import LazyLog
from tailproof.data.view import PART, physical_memory
from tailproof.engines import Engine, running
from tailproof.errors import LogError
from tailproof.sources.columns import Choice, Columns, resolve_columns
from tailproof.sources.databases import database
from tailproof.sources.encode import identifiers, is_text
from tailproof.sources.layout import Actions, action_layout, variable
from tailproof.sources.parquet import described_columns, described_space
from tailproof.sources.reader import ParquetReader
from tailproof.sources.steps import Told, require_few
from tailproof.sources.storage import DataSet, open_data_set
from tailproof.sources.survey import Survey, Surveyor, located
from tailproof.sources.tables import Source

_COMPRESSION = 20  # times as large as its file a log may be in memory


def data_set_to_stay(source: Any, lazy: bool | None, budget: int | None) -> DataSet | None:
    """Return a data set that is to stay on disk, or None for sources that are to be loaded.

    Without a word on `lazy`, Parquet data stay on disk if they would fill more than `budget` bytes of
    memory, by default a quarter of what the machine has.
    """
    if isinstance(source, DataSet):
        return source
    remote = isinstance(source, str) and "://" in source and database(source) is None
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
        return None  # without opening anything
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
    source: str | Path | DataSet,
    parts: dict[str, Choice],
    told: Told,
    *,
    engine: str | Engine | None = None,
) -> tuple[LazyLog, Columns]:
    """Open a Parquet data set as a log, and tell which columns were taken as what."""
    data = source if isinstance(source, DataSet) else open_data_set(source)
    columns, description = _columns(data, parts)
    if not columns.state or columns.negative or columns.weight or columns.available:
        raise LogError(
            "A log that stays on disk needs state columns and a reward of which more is better, and "
            "can have neither weights nor available actions. Read it into memory with lazy=False."
        )
    data.require_types(columns.used())
    names = [name for name in columns.state if _holds_text(data.schema.field(name).type)]
    after = dict(zip(columns.state, columns.next_state, strict=False))
    texts = tuple((name, after[name]) if name in after else (name,) for name in names)
    surveyor = Surveyor(data.storage, columns, texts)
    ranges = data.parts(PART)
    with running(engine) as where:
        survey = surveyor.merged(where.map(surveyor, ranges))
    label = data.label[0].lower() + data.label[1:]
    with located(label):
        ids, group_ids = _labels(survey, columns, description)
    ends = _ends(survey, columns, parts.get("terminated") is True, told)
    guessed = columns.guessed_episode(parts)
    if guessed is not None:
        require_few(int((~ends).sum()), survey.rows, guessed)
    reader, kept = _reader(data, columns, survey, ends, description, names, told)
    # Only what a part reads makes it the part that it is: another file may be mended meanwhile.
    ends_at = np.array([part.first + part.rows for part in ranges])
    at = np.minimum(np.searchsorted(survey.starts, ends_at), len(survey.starts) - 1)
    crossed = (survey.starts[at] != ends_at) & (not columns.next_state)
    log = LazyLog(
        reader=reader,
        parts=tuple(
            part if goes_on else replace(part, beyond=None)
            for part, goes_on in zip(ranges, crossed, strict=True)
        ),
        starts=reader.starts,
        episode_ids=ids[kept],
        group_ids=None if group_ids is None else group_ids[kept],
        ends=ends[kept],
        action_space=reader.actions.space,
        action_counts=reader.actions.counts,
        state_names=(
            tuple(description["state_names"])
            if description is not None
            else tuple(part for each in reader.variables for part in each.parts)
        ),
        reward_name=(description or {}).get(
            "reward_name", f"minus {columns.reward}" if columns.negative else columns.reward
        ),
        has_propensity=columns.propensity is not None,
        label=label,
    )
    return log, columns


def _columns(data: DataSet, parts: dict[str, Choice]) -> tuple[Columns, dict[str, Any] | None]:
    names = tuple(data.schema.names)
    if all(part is None for part in parts.values()):
        source = Source(data.label, names, lambda *_: pa.table({}), data.schema)
        described = described_columns(source)
        if described is not None:
            return described
    return resolve_columns(names, **parts), None


def _holds_text(kind: Any) -> bool:
    return is_text(kind.value_type if kinds.is_dictionary(kind) else kind) or bool(
        kinds.is_string_view(kind)
    )


def _labels(
    survey: Survey, columns: Columns, description: dict[str, Any] | None
) -> tuple[AnyArray, AnyArray | None]:
    """Return the labels of all episodes and of their groups."""

    def labels(name: str, values: pa.Array, part: str) -> AnyArray:
        found = identifiers(name, pa.chunked_array([values]))
        if part == "episode" and len(found.labels) < len(values):
            again = found.labels[int(np.bincount(found.codes).argmax())]
            raise LogError(
                f"The rows of an episode must stand together in a log that stays on disk. Those of "
                f"episode {again!s} do not; sort the data by episode and step first, or read it "
                f"into memory with lazy=False."
            )
        ids = found.labels[found.codes]
        kind = np.dtype(ids.dtype if description is None else description["types"][part])
        if kind.kind in "UO" or kind == ids.dtype:
            return ids
        return ids.view(kind) if kind.kind == "M" else ids.astype(kind)

    groups = None
    if columns.group is not None:
        groups = labels(columns.group, survey.groups, "group")
    if columns.episode is None:
        return np.arange(len(survey.starts)), groups
    return labels(columns.episode, survey.ids, "episode"), groups


def _ends(survey: Survey, columns: Columns, all_terminate: bool, told: Told) -> BoolArray:
    """Return which episodes terminate, by the rules that hold for logs in memory."""
    alone = survey.rows == len(survey.starts)
    if columns.episode is None:
        flagged = columns.terminated is not None or columns.truncated is not None
        if flagged:
            told.notes.append(
                "No episode column: an episode ends where a row is marked as its end."
            )
        elif columns.next_state:
            raise LogError(
                "There are next states, but neither an episode column nor flags that end an "
                "episode. Name the episodes with episode=..., or pass next_state=False if each row "
                "is its own."
            )
        else:
            told.notes.append("No episode column: every row is an episode of one step.")
    cut = survey.truncated
    if all_terminate or (alone and not columns.next_state and not cut.any()):
        return np.ones(len(survey.starts), dtype=bool)
    done, name = survey.terminated, columns.terminated
    if name is not None and "done" in name.lower() and cut.any() and done[cut].all():
        told.notes.append(
            f"Every truncated row is {name} as well: {name} is read as the end of an episode for "
            f"whatever reason, and terminated as {name} without truncated."
        )
        return done & ~cut
    return done


def _without_last(actions: Actions, last: pa.Array) -> Actions:
    """Return how to read actions, counted without those of steps that are left out."""
    if actions.counts is None:  # they were said to be continuous
        return actions
    (name,) = actions.names
    codes = actions(pa.RecordBatch.from_arrays([last], [name]))
    return replace(
        actions, counts=actions.counts - np.bincount(codes, minlength=len(actions.counts))
    )


def _reader(
    data: DataSet,
    columns: Columns,
    survey: Survey,
    ends: BoolArray,
    description: dict[str, Any] | None,
    texts: list[str],
    told: Told,
) -> tuple[ParquetReader, BoolArray]:
    """Return how to read the pieces, and which episodes have any."""
    borders = np.append(survey.starts, survey.rows)
    lengths = np.diff(borders)
    dropped = np.zeros(len(ends), dtype=bool) if columns.next_state else ~ends
    if dropped.any():
        count, emptied = int(dropped.sum()), int((dropped & (lengths == 1)).sum())
        told.cautions.append(
            f"{count} last step{'s' if count > 1 else ''} of {len(ends)} episodes left out: the "
            f"episode goes on, but the state that followed was not logged"
            + (f" ({emptied} of these episodes had no other step)" if emptied else "")
            + ". Pass terminated=True if episodes end for good at their last row (the state must then "
            "hold the step, which tells how much is left), or name the column that says which do."
        )
    if 0 < survey.gaps < (survey.rows - len(ends)) / 2 and not columns.next_state:
        told.cautions.append(
            f"{survey.gaps} step{'s' if survey.gaps > 1 else ''} missing within episodes, the first "
            f"after row {survey.first_gap}: the next state there is that of the next row."
        )
    lengths = lengths - dropped
    kept = lengths > 0
    if not kept.any():
        raise LogError("A log needs at least one transition. Got none whose next state is known.")
    head = data.spans[0]
    sample, where = next(data.storage.batches(head, [*columns.state, *columns.action], 100))
    found = dict(zip(texts, survey.texts, strict=True))
    with located(where):
        variables = tuple(
            variable(name, sample.column(name), found.get(name)) for name in columns.state
        )
        actions, notes = action_layout(
            columns.action,
            sample,
            survey.actions,
            survey.action_counts,
            None if description is None else described_space(description),
        )
        if dropped.any() and survey.last_actions is not None:
            actions = _without_last(actions, survey.last_actions.filter(pa.array(dropped)))
    told.notes.extend(notes)
    types = {} if description is None else description["types"]
    reader = ParquetReader(
        storage=data.storage,
        columns=columns,
        variables=variables,
        actions=actions,
        starts=np.append(0, np.cumsum(lengths[kept])),
        borders=borders,
        ends=ends,
        dropped=dropped if dropped.any() else None,
        episode=None if kept.all() else np.cumsum(kept) - 1,
        kinds=(types.get("states", "float64"), types.get("actions", "float64")),
    )
    return reader, kept
