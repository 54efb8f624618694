"""Open logs on disk: one pass finds the episodes; transitions are read later in chunks."""

from __future__ import annotations

from collections.abc import Sequence
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
from tailproof.sources.actions import Actions, action_layout
from tailproof.sources.columns import Choice, Columns
from tailproof.sources.databases import database
from tailproof.sources.doubts import say_that_rows_are_episodes, say_which_labels_are_alike
from tailproof.sources.encode import identifiers, is_text
from tailproof.sources.excel import EXCEL
from tailproof.sources.parquet import chosen_columns, described_space, typed_labels
from tailproof.sources.reader import ParquetReader
from tailproof.sources.steps import (
    Notes,
    require_few,
    say_what_ends_an_episode,
    say_what_is_left_out,
    say_where_steps_are_missing,
    without_timeouts,
)
from tailproof.sources.storage import DataSet, Part, open_data_set
from tailproof.sources.survey import Survey, Surveyor
from tailproof.sources.tables import naming_the_type
from tailproof.sources.variables import Variable, require_no_numbers, state_matrix

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
    texts = _text_columns(data, columns)
    surveyor = Surveyor(data.storage, columns, tuple(texts.values()))
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
    known = dict(zip(texts, survey.texts, strict=True))
    variables, actions = _layout(data, columns, survey, known, description, dropped, notes)
    written = {} if description is None else description
    types = written.get("types", {})
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
    names = tuple(part for each in variables for part in each.parts)
    log = LazyLog(
        reader=reader,
        parts=_own_parts(ranges, survey, bool(columns.next_state)),
        starts=reader.starts,
        episode_ids=np.flatnonzero(kept) if ids is None else ids[kept],
        group_ids=None if group_ids is None else group_ids[kept],
        ends=ends[kept],
        action_space=actions.space,
        action_counts=actions.counts,
        state_names=tuple(written.get("state_names", names)),
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


def _text_columns(data: DataSet, columns: Columns) -> dict[str, tuple[str, ...]]:
    """Return the state columns that are text, each with the column of its next values."""
    after = dict(zip(columns.state, columns.next_state, strict=False))
    found: dict[str, tuple[str, ...]] = {}
    for name in columns.state:
        kind = data.schema.field(name).type
        kind = kind.value_type if kinds.is_dictionary(kind) else kind
        if is_text(kind) or kinds.is_string_view(kind):
            found[name] = (name, after[name]) if name in after else (name,)
    return found


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


def _layout(
    data: DataSet,
    columns: Columns,
    survey: Survey,
    texts: dict[str, pa.Array],
    description: dict[str, Any] | None,
    dropped: BoolArray,
    notes: Notes,
) -> tuple[tuple[Variable, ...], Actions]:
    """Return how to read states and actions; action counts exclude dropped steps."""
    named = [*columns.state, *columns.action]
    sample, where = next(data.storage.batches(data.spans[0], named, 100))
    with naming_the_type(f"In {where}: "):
        variables = tuple(
            Variable.of(name, sample.column(name), texts.get(name)) for name in columns.state
        )
        for name, labels in texts.items():
            require_no_numbers(name, labels.to_pylist())
        state_matrix(variables, columns.state, [*map(sample.column, columns.state)])
        space = None if description is None else described_space(description)
        actions, about_actions = action_layout(
            columns.action, sample, survey.actions, survey.action_counts, space
        )
        if actions.counts is not None and survey.last_actions is not None and dropped.any():
            last = survey.last_actions.filter(pa.array(dropped))
            codes = actions(pa.RecordBatch.from_arrays([last], list(columns.action)))
            left_out = np.bincount(codes, minlength=len(actions.counts))
            actions = replace(actions, counts=actions.counts - left_out)
    notes.notes.extend(about_actions)
    say_which_labels_are_alike(actions.space, notes)
    if description is None:
        say_that_rows_are_episodes(columns, len(survey.starts), survey.rows, notes)
    return variables, actions
