"""Read a log from any source, and report how it was read."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from tailproof.arrays import BoolArray, IntArray
from tailproof.errors import ColumnError, LogError, TailproofWarning, listed
from tailproof.io import d4rl, minari
from tailproof.io.columns import (
    Choice,
    Columns,
    probability_columns,
    resolve_columns,
    warn_of_probability_columns,
)
from tailproof.io.encoder import Encoder, EncoderFit, Missing, Tidying
from tailproof.io.episodes import episode_labels, report_possible_mistakes, steps_of
from tailproof.io.mapped import DataSet, HowToMap, data_set_to_map, map_data_set
from tailproof.io.parquet import Description, chosen_columns
from tailproof.io.steps import (
    Notes,
    assemble,
    available_actions,
    with_weights,
)
from tailproof.io.tables import Source, file_kind, naming_the_type, open_table
from tailproof.io.values import (
    labelled,
    missing_rows,
    numbers,
    read_dates,
    written_amounts,
)
from tailproof.log.budget import within_budget
from tailproof.log.log import Log, OriginalTable
from tailproof.log.misfit import drifting_propensities
from tailproof.log.sources import Readable
from tailproof.log.spaces import Discrete
from tailproof.parallel import Engine

T = TypeVar("T")
_LONGER = 1.1  # how much longer dropped episodes must be to be warned of


def read_table(
    source: object,
    parts: dict[str, Choice],
    notes: Notes,
    tidying: Tidying,
    beside: Sequence[str] = (),
    encoder: Encoder | None = None,
) -> tuple[Log, Columns]:
    """Read a log from any table; also return the columns of each part.

    `beside` are columns (or patterns) of policies, which no pattern of states matches; an `encoder`
    reads states and actions as in the log that it was fitted to.
    """
    if encoder is not None:
        parts = _encoded_parts(encoder, parts)
    original = open_table(source)
    columns, description, rows = _loaded(original, parts, beside, tidying, encoder, notes)
    tidy = tidying if description is None else Tidying(missing="error")
    with naming_the_type():
        kept = _require_readable(rows, columns, tidy, notes)
        used = rows if kept is None else rows.filter(pa.array(kept))
        described = None if description is None else description.space
        reads = encoder or EncoderFit.of(used, columns, tidy).encoder(notes, described)
        steps = steps_of(used, columns, reads, description, tidy.cost, notes)
    if description is None:
        unused = partial(_unused, original, columns, kept)
        ordered = parts.get("step") is False
        report_possible_mistakes(steps, columns, unused, notes, ordered=ordered)
    if parts.get("terminated") is True:
        steps = replace(steps, terminated=True)
    log = assemble(replace(steps, guessed_episode=columns.guessed_episode(parts)), notes)
    log = replace(log, encoder=reads)
    if description is not None:
        log = replace(
            log,
            encoder=description.encoder,
            episode_ids=description.typed("episode", log.episode_ids),
            group_ids=None if log.group_ids is None else description.typed("group", log.group_ids),
        )
    _report_doubtful_states(columns, log, notes)
    origin = log.table_rows
    if kept is not None:
        origin = origin.within(np.flatnonzero(kept), len(kept))
    hidden = columns.hidden
    known = tuple(name for name in original.names if name not in hidden)
    table = OriginalTable(original.label, known, hidden, origin.count, original.read)
    log = replace(log, origin=replace(origin, table=table, index=original.index))
    return _completed(log, columns, rows.select, notes), columns


def _completed(
    log: Log, columns: Columns, read: Callable[[Sequence[str]], pa.Table], notes: Notes
) -> Log:
    """Return a log with the weights and the available actions in columns; report drift."""
    if drifting_propensities(log):
        notes.notes.append(
            "The logged propensities change along the file: a policy that learned may have chosen the "
            "actions. Rows are then not independent; `compare --sequential` adds bounds that hold."
        )
    if columns.weight is not None:
        log = with_weights(log, columns.weight, read([columns.weight]).column(0), notes)
    if columns.available:
        mask = available_actions(read(columns.available), columns.available, log)
        log = replace(log, origin=replace(log.table_rows, available=mask))
    return log


def _encoded_parts(encoder: Encoder, parts: dict[str, Choice]) -> dict[str, Choice]:
    """Return the parts with the columns of an encoder; raise if others are named."""
    own = {"state": encoder.columns or False, "action": encoder.actions.names}
    for part, names in own.items():
        given = parts.get(part)
        if given is not None and ((given,) if isinstance(given, str) else given) != names:
            raise LogError(
                f"The encoder reads the {part} from {listed(encoder.columns)}. Got {part}={given!r} as "
                f"well; leave it out, or read the log without encoder=...."
            )
    return {**parts, **own}


def _loaded(
    original: Source,
    parts: dict[str, Choice],
    beside: Sequence[str],
    tidying: Tidying,
    encoder: Encoder | None,
    notes: Notes,
) -> tuple[Columns, Description | None, pa.Table]:
    """Return the columns that make up the log, tailproof's description if it wrote it, and the rows."""
    try:
        columns, description = chosen_columns(
            original.label, original.names, original.schema, parts, beside=beside
        )
    except ColumnError as error:
        raise ColumnError(f"{error} {original.heading}".strip()) from error
    named = tidying.categorical if encoder is None else encoder.texts
    rows = _load(original, columns, named, encoder, notes)
    notes.cautions.extend(
        said for name, said in original.doubts.items() if name in {*columns.state} - {*named}
    )
    with naming_the_type():
        no_states = probability_columns(columns, rows)
    if no_states:
        beside = (*beside, *no_states)
        columns = resolve_columns(original.names, beside=beside, **parts)
        warn_of_probability_columns(no_states, notes)
    return columns, description, rows


def _load(
    source: Source,
    columns: Columns,
    categorical: Sequence[str],
    encoder: Encoder | None,
    notes: Notes,
) -> pa.Table:
    """Read the columns of a log; labels and what is categorical keep their spelling."""
    after = dict(zip(columns.state, columns.next_state, strict=False))
    named = [*categorical, *(after[name] for name in categorical if name in after)]
    labels = [name for name in (*columns.episode, columns.group, *named) if name is not None]
    action = columns.action[0] if len(columns.action) == 1 else None
    if action is not None and encoder is not None and isinstance(encoder.actions.space, Discrete):
        labels.append(action)
    real = {} if action is None else {action: True}
    table = source.read(columns.used(), {**real, **dict.fromkeys(labels, False)})
    if table.num_rows == 0:
        raise LogError(f"{source.label} has columns but no rows. A log needs at least one.")
    times = {*columns.state, *columns.next_state, columns.step} - {
        *labels,
        *columns.action,
    }
    states = {*columns.state, *columns.next_state} - {*labels}
    amounts = {columns.reward, *columns.propensity, columns.weight} - {None}
    with naming_the_type():
        rows = {}
        for name in table.column_names:
            column = read_dates(table[name]) if name in times else table[name]
            if name in states | amounts:
                found = written_amounts(column, category=name not in amounts)
                if found is not None:
                    notes.notes.append(found.describe(name))
                    column = found.column
            rows[name] = column
        return pa.table(rows)


def _unused(source: Source, columns: Columns, kept: BoolArray | None) -> list[pa.ChunkedArray]:
    """Return the columns that have no part in the log, without the rows that are left out."""
    if not (names := columns.ignored):
        return []
    table = source.read(names, dict.fromkeys(names, False))
    return list((table if kept is None else table.filter(pa.array(kept))).columns)


def _require_readable(
    rows: pa.Table, columns: Columns, tidying: Tidying, notes: Notes
) -> BoolArray | None:
    """Return the rows to keep, as `require_complete`; raise one error for all that cannot be read."""
    kept, problems = None, []
    try:
        kept = require_complete(rows, columns, tidying, notes)
    except LogError as error:
        problems.append(error)
    for name in (columns.reward, *columns.propensity, columns.weight):
        try:
            if name is not None:
                numbers(name, rows[name], missing=True)
        except LogError as error:
            problems.append(error)
    if len(problems) > 1:
        raise LogError("\n".join(map(str, problems)))
    if problems:
        raise problems[0]
    return kept


def require_complete(
    table: pa.Table, columns: Columns, tidying: Tidying, notes: Notes
) -> BoolArray | None:
    """Raise one error for all missing values that cannot be filled, or return the rows to keep, (n,).

    Only ``missing="drop-episode"`` leaves out rows, and then whole episodes, which `notes` report.
    """
    filled = ("next_state",) if tidying.missing == "error" else ("state", "next_state")
    names = {
        name: part
        for part, found in columns.parts().items()
        if part not in filled
        for name in found
    }
    gaps = {name: missing_rows(table[name]) for name in names}
    if len(chances := columns.propensity) > 1:  # of other actions, some may be missing
        unknown: BoolArray = np.logical_and.reduce([gaps[name] for name in chances])
        gaps |= dict.fromkeys(chances, unknown)
    gaps = {name: rows for name, rows in gaps.items() if rows.any()}
    dropping = tidying.missing == "drop-episode"
    fatal = [name for name in gaps if not dropping or names[name] in ("episode", "group", "step")]
    if fatal:
        raise LogError(_gaps_in_words({name: gaps[name] for name in fatal}, names, columns))
    if not gaps:
        return None
    bad = np.logical_or.reduce(list(gaps.values()))
    codes: IntArray = np.arange(len(bad))
    if columns.episode:
        codes = labelled(episode_labels(table, columns.episode)).codes
        bad = np.isin(codes, codes[bad])
    elif columns.terminated or columns.truncated:
        raise LogError(
            "missing='drop-episode' needs a column that names the episodes. Name it with episode=...."
        )
    if bad.all():
        raise LogError("Every episode has a missing value somewhere: none would be left.")
    notes.cautions.append(_dropped_in_words(bad, codes, listed(list(gaps))))
    return np.asarray(~bad)


def _dropped_in_words(bad: BoolArray, codes: IntArray, names: str) -> str:
    """Return how much is left out, and how the lengths of episodes change with it."""
    gone, left = (np.unique(codes[rows], return_counts=True)[1] for rows in (bad, ~bad))
    said = (
        f"{len(gone):,} of {len(gone) + len(left):,} episodes left out, {bad.sum():,} of {len(bad):,} "
        f"rows"
    )
    if len(codes) == len(gone) + len(left):
        said = f"{len(gone):,} of {len(codes):,} rows left out"
    said += f", for missing values of {names}."
    if gone.mean() > _LONGER * left.mean():
        said += (
            f" They are longer than those that are kept, {gone.mean():.3g} rows on average against "
            f"{left.mean():.3g}: the answer is about shorter episodes than were logged."
        )
    return said


def _gaps_in_words(gaps: dict[str, BoolArray], part: dict[str, str], columns: Columns) -> str:
    said = [
        f"{'column' if place else 'Column'} {name!r} has {int(rows.sum()):,} missing "
        f"value{'s' if rows.sum() > 1 else ''}, the first at row {int(rows.argmax())}"
        for place, (name, rows) in enumerate(gaps.items())
    ]
    parts = {part[name] for name in gaps}
    if parts == {"state"}:
        advice = "fill them in, or pass missing='category' to have that done"
    elif not parts.isdisjoint(("episode", "group", "step")):
        advice = "fill them in or drop these rows"
    else:
        several = columns.episode or columns.terminated or columns.truncated
        advice = (
            f"fill them in, or pass missing='drop-episode' to leave out "
            f"{'the whole episodes that they are in' if several else 'these rows'}"
        )
    return (
        f"{'; '.join(said)} (the first row is 0). Empty cells, NA, NaN and null count as missing; "
        f"{advice}."
    )


def _report_doubtful_states(columns: Columns, log: Log, notes: Notes) -> None:
    """Report possible mistakes in the choice of the states: outcomes, and none at all."""
    if columns.outcomes:
        several = len(columns.outcomes) > 1
        notes.cautions.append(
            f"The state column{'s' if several else ''} {', '.join(columns.outcomes)} look"
            f"{'' if several else 's'} like an outcome, known only after the action: a state must not "
            f"hold it. Name the state columns one by one to leave it out."
        )
    if columns.state:
        return
    if not log.is_bandit or log.n_transitions < log.table_rows.count:
        raise LogError(
            f"No column looks like the state, and episodes of several steps need one. The log has: "
            f"{listed((*columns.used(), *columns.ignored), 30)}. Name it, as in state='*'."
        )
    notes.notes.append(
        "No state columns: the actions are compared as in a plain A/B test."
        + (" Name some with state=... to adjust for them." if columns.ignored else "")
    )


@dataclass(frozen=True)
class Reading:
    """A log, and how it was read.

    Attributes
    ----------
    log
        The log.
    columns
        The columns of each part; None for sources that are not tables.
    notes
        Decisions made while reading.
    cautions
        Decisions that may change results: `read_log` warns about these.
    """

    log: Log
    columns: Columns | None = None
    notes: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return a text about how the log was read."""
        columns = [] if self.columns is None else [f"Read as {self.columns.describe()}."]
        return " ".join([*columns, *self.notes, *self.cautions])


def read_log(
    source: Readable | DataSet,
    *,
    state: str | Sequence[str] | None = None,
    action: str | Sequence[str] | None = None,
    reward: str | None = None,
    episode: str | Sequence[str] | bool | None = None,
    step: str | bool | None = None,
    next_state: Choice = None,
    terminated: str | bool | None = None,
    truncated: str | bool | None = None,
    propensity: str | Sequence[str] | bool | None = None,
    group: str | bool | None = None,
    weight: str | None = None,
    available: str | Sequence[str] | None = None,
    missing: Missing = "category",
    categorical: str | Sequence[str] = (),
    categories: int = 32,
    cost: Mapping[str, float] | None = None,
    encoder: Encoder | None = None,
    max_steps: int | None = None,
    lazy: bool | None = None,
    budget: int | None = None,
    cache: str | Path | None = None,
    engine: str | Engine | None = None,
) -> Log:
    """Read a log from a file, a folder, a frame or a data set of another library.

    Parts that are not named are guessed from conventional names; `read` also returns the guesses.
    Pass False for a part that the table does not have, to prevent a guess.

    A log without an episode column is a contextual bandit, one episode per row, unless flags mark the
    ends of episodes. Rows are sorted by episode and step if there is a step column; otherwise they
    keep the order of the file.

    Without next-state columns, the next state of a step is the state of the next row of its
    episode. The last row of an episode that did not terminate has none: it is left out, with a
    warning. If the episode column was guessed, how episodes end is not given, and more than a tenth
    of the rows would be left out, an error asks for these arguments. If all episodes have one row,
    all rows are kept and terminate.

    Parameters
    ----------
    source
        A Parquet, CSV, JSON-lines, Excel, Arrow, HDF5 (D4RL or d3rlpy) or .npz file (D4RL's arrays); a
        folder of Parquet files; a SQLite or DuckDB file with one table, or
        ``"sqlite://shop.db?table=orders"`` or ``"duckdb://shop.db?query=SELECT ..."``; an Arrow table,
        a pandas, polars or any other frame with Arrow's PyCapsule interface, or a mapping of
        arrays; a Minari id or folder; a d3rlpy `MDPDataset` or `ReplayBuffer`; Parquet on any file
        system (`open_data_set`).
    state
        Columns, or a pattern such as ``"x_*"``. Text is one-hot encoded, one variable
        ``column=value`` per value; dates become days since 1970, hours and weekdays; a list
        column becomes one variable per entry. A one-step log may have no state.
    action
        A column: text and true/false are discrete with labels, whole numbers discrete (codes if at
        least half of those up to the highest occur, labels otherwise), decimals continuous. Several
        columns, or a pattern, for continuous actions of several dimensions.
    reward
        A column of numbers; ``"-cost"`` for the negative of the column ``cost``.
    episode, group
        Columns of labels: text, whole numbers or dates. Several columns together may name the
        episodes.
    step
        A column of numbers, dates or times that orders the rows of an episode.
    next_state
        As `state`; may be missing where an episode ends.
    terminated
        A column of booleans, or True (or ``"always"``) if every episode terminates at its last row.
    truncated
        A column of booleans.
    propensity
        A column of probabilities of the logged actions; or one column for each action, such as
        ``"p_*"``, where the star is the action's label.
    weight
        A column of sample weights: a row (or episode) of weight 2 counts twice in every mean.
    available
        The available actions: boolean columns such as ``"available_*"``, where the star is the
        action's label, or one column with lists of labels.
    missing
        How to treat missing states: ``"category"``, ``"median"``, ``"drop-episode"`` or
        ``"error"``; see `tailproof.io.encoder.Tidying`. Missing actions and rewards are errors;
        with ``"drop-episode"`` their episodes are left out, and states are filled in.
    categorical
        Numeric state columns that are categories, such as a site number, and the action column if its
        numbers are labels, such as a menu of prices.
    categories
        Largest number of variables per text column; rarer values are merged.
    cost
        The cost of each action, by label: ``{"voucher": 2.5}``. It is subtracted from the reward of
        rows with this action, so that values are net of costs.
    encoder
        ``log.encoder`` of another log: states and actions are read as in that log, with its
        categories, fill values and action codes; a value that it does not know is refused by name.
    max_steps
        The longest episode length, for a D4RL file without timeouts.
    lazy
        Whether the arrays of the log are mapped from files, into which the source is converted once:
        for Parquet files, folders of them, and URIs such as ``s3://bucket/folder``, sorted by episode
        and step. By default only if they need more than `budget` bytes.
    budget
        Bytes, by default a quarter of the memory that the machine has or the operating system allows.
        It also limits how many copies of rows are in memory at once: what needs more takes a sample,
        and says so. Without it, a log in memory may use half of the memory.
    cache
        The directory of converted files; by default that in ``TAILPROOF_CACHE``, or ``tailproof`` in
        the user's cache. Files that are not needed any more may be deleted.
    engine
        The engine for the first pass over a log that is to be mapped; see `evaluate`.

    Examples
    --------
    >>> log = read_log(
    ...     {"x_1": [0.5, 0.1, 0.7], "action": ["buy", "hold", "buy"], "reward": [1.0, 0.0, -8.0]}
    ... )
    >>> log.action_space.labels, log.is_bandit, log.state_names
    (('buy', 'hold'), True, ('x_1',))
    """
    return read_and_report(**locals())


def read_and_report(source: Readable | DataSet, **arguments: Any) -> Log:
    """Return the log that `read` reads; log how, and warn about its cautions."""
    reading = read(source, **arguments)
    logging.getLogger(__name__).info(reading.describe())
    for caution in reading.cautions:
        warnings.warn(caution, TailproofWarning, stacklevel=3)
    return reading.log


def read(
    source: Readable | DataSet,
    *,
    missing: Missing = "category",
    categorical: str | Sequence[str] = (),
    categories: int = 32,
    cost: Mapping[str, float] | None = None,
    encoder: Encoder | None = None,
    max_steps: int | None = None,
    lazy: bool | None = None,
    budget: int | None = None,
    cache: str | Path | None = None,
    engine: str | Engine | None = None,
    beside: Sequence[str] = (),
    **parts: Choice,
) -> Reading:
    """Read a log as `read_log` does, and return it with the guesses and decisions made.

    `beside` are columns (or patterns) of policies to be judged: no pattern of states matches them.

    Examples
    --------
    >>> reading = read({"x": [0.5, 0.1], "a": [0, 1], "r": [1.0, 0.0]})
    >>> print(reading.describe())
    Read as state: x (guessed); action: a (guessed); reward: r (guessed). No episode column: every \
row is an episode of one step.
    """
    columns: Columns | None = None
    notes = Notes()
    if parts.get("terminated") == "always":
        parts["terminated"] = True
    listed = (categorical,) if isinstance(categorical, str) else tuple(categorical)
    tidying = Tidying(missing, listed, categories, dict(cost or {}))
    data = data_set_to_map(source, lazy, budget)
    if data is not None:
        if encoder is not None or tidying.missing == "drop-episode":
            raise LogError(
                "encoder=... and missing='drop-episode' are for logs in memory. Read it with "
                "lazy=False, or make these changes in the data."
            )
        how = HowToMap(tidying, tuple(beside), engine, cache, budget)
        log, columns = map_data_set(data, parts, how, notes)
        _report_doubtful_states(columns, log, notes)
        log = _completed(log, columns, data.table, notes)
    elif (adapter := _adapter(source)) is not None:
        named = [part for part, choice in parts.items() if choice is not None]
        if tidying != Tidying():
            raise LogError("missing, categorical, categories and cost are for tables.")
        if named:
            raise LogError(
                f"{', '.join(named)} name{'s' if len(named) == 1 else ''} columns of a table, but "
                f"this source has its own names for them. Leave out the column names."
            )
        limited = adapter in (d4rl.read_d4rl, d4rl.read_rollouts)
        log = adapter(source, notes, **({"max_steps": max_steps} if limited else {}))
    elif max_steps is not None:
        raise LogError("max_steps is for D4RL files. A table says where episodes end by columns.")
    else:
        log, columns = read_table(source, parts, notes, tidying, beside, encoder)
    return Reading(within_budget(log, budget), columns, tuple(notes.notes), tuple(notes.cautions))


def _adapter(source: Any) -> Any:
    """Return the reader for a source that is not a table; None for tables, see `open_table`."""
    if hasattr(source, "iterate_episodes"):
        return minari.read_minari
    if hasattr(source, "episodes") and not hasattr(source, "columns"):  # not a frame
        return d4rl.from_d3rlpy
    if isinstance(source, str | Path):
        if minari.is_dataset(source):
            return minari.read_minari
        return {"hdf5": d4rl.read_d4rl, "npz": d4rl.read_rollouts}.get(file_kind(source))
    return None
