"""The first pass over a data set: where episodes start, how they end, and which actions occur.

It reads only the columns needed for this, and keeps a few numbers per episode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from tailproof.arrays import BoolArray, IntArray
from tailproof.errors import LogError
from tailproof.sources.actions import distinct_actions
from tailproof.sources.columns import Columns
from tailproof.sources.encode import order, refuse_missing, truth_values, unwrapped
from tailproof.sources.storage import Part, Storage
from tailproof.sources.tables import naming_the_type
from tailproof.sources.variables import distinct_texts

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
    actions: pa.Array | None  # (A,) distinct actions; None if continuous
    action_counts: IntArray | None  # (A,)
    last_actions: pa.Array | None  # (R,) action in the last row of each run
    texts: tuple[pa.Array, ...]  # distinct values of each text column of the state


@dataclass(frozen=True)
class Surveyor:
    """Computes the survey of a part from the columns that it needs."""

    storage: Storage
    columns: Columns
    texts: tuple[tuple[str, ...], ...]  # each text column of the state, with its next values

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

        actions, counts = _all_actions(surveys)
        steps = [survey.steps for survey in surveys if survey.steps is not None]
        gaps = [survey for survey in surveys if survey.gaps]
        return Survey(
            rows=sum(survey.rows for survey in surveys),
            starts=joined("starts", begin),
            ids=joined("ids", begin),
            groups=joined("groups", begin),
            terminated=joined("terminated", end),
            truncated=joined("truncated", end),
            last_actions=None if actions is None else joined("last_actions", end),
            steps=(steps[0][0], steps[-1][1]) if steps else None,
            gaps=sum(survey.gaps for survey in gaps),
            first_gap=gaps[0].first_gap if gaps else 0,
            actions=actions,
            action_counts=counts,
            texts=tuple(
                pc.unique(pa.concat_arrays(each))
                for each in zip(*(survey.texts for survey in surveys), strict=True)
            ),
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
        wanted += columns.action[:1] if len(columns.action) == 1 else ()
        wanted += [name for names in self.texts for name in names]
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
        actions, counts = distinct_actions(columns.action, batch)
        last_actions = None
        if actions is not None:
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
            actions=actions,
            action_counts=counts,
            last_actions=last_actions,
            texts=tuple(
                distinct_texts(names[0], [*map(batch.column, names)]) for names in self.texts
            ),
        )


def _all_actions(surveys: Sequence[Survey]) -> tuple[pa.Array | None, IntArray | None]:
    if any(survey.actions is None for survey in surveys):
        return None, None
    encoded = pa.concat_arrays([survey.actions for survey in surveys]).dictionary_encode()
    counts = np.concatenate([survey.action_counts for survey in surveys])
    total = np.bincount(encoded.indices.to_numpy(), weights=counts, minlength=1)
    return encoded.dictionary, total.astype(np.intp)


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
