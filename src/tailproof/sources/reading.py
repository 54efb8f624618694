"""Read a log from any source, and report how it was read."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tailproof.data.stored import in_memory
from tailproof.engines import Engine
from tailproof.errors import LogError, TailproofWarning
from tailproof.sources import d3rlpy, d4rl, minari
from tailproof.sources.columns import Choice, Columns
from tailproof.sources.lazily import data_set_to_stay, open_lazily
from tailproof.sources.steps import Notes
from tailproof.sources.table_log import read_table
from tailproof.sources.tidy import Missing, Tidying


@dataclass(frozen=True)
class Reading:
    """A log, and how it was read.

    Attributes
    ----------
    log
        The log: a `Log`, or a `LazyLog` if it stays on disk.
    columns
        The columns of each part; None for sources that are not tables.
    notes
        Decisions made while reading.
    cautions
        Decisions that may change results: `read_log` warns about these.
    """

    log: Any
    columns: Columns | None = None
    notes: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return a text about how the log was read."""
        columns = [] if self.columns is None else [f"Read as {self.columns.describe()}."]
        return " ".join([*columns, *self.notes, *self.cautions])


def read_log(
    source: Any,
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
    max_steps: int | None = None,
    lazy: bool | None = None,
    budget: int | None = None,
    engine: str | Engine | None = None,
) -> Any:
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
        ``"error"``; see `tailproof.sources.tidy.Tidying`. Missing actions and rewards are errors;
        with ``"drop-episode"`` their episodes are left out, and states are filled in.
    categorical
        Numeric state columns that are categories, such as a site number, and the action column if its
        numbers are labels, such as a menu of prices.
    categories
        Largest number of variables per text column; rarer values are merged.
    cost
        The cost of each action, by label: ``{"voucher": 2.5}``. It is subtracted from the reward of
        rows with this action, so that values are net of costs.
    max_steps
        The longest episode length, for a D4RL file without timeouts.
    lazy
        Whether to leave the transitions on disk and return a `LazyLog`, which is read in chunks: for
        Parquet files, folders of them, and URIs such as ``s3://bucket/folder``, sorted by episode
        and step. By default only if a `Log` needs more than `budget` bytes.
    budget
        Bytes, by default a quarter of the machine's memory. It also limits how much of a `LazyLog`
        is loaded.
    engine
        The engine for the first pass over a log on disk; see `evaluate`.

    Examples
    --------
    >>> log = read_log(
    ...     {"x_1": [0.5, 0.1, 0.7], "action": ["buy", "hold", "buy"], "reward": [1.0, 0.0, -8.0]}
    ... )
    >>> log.action_space.labels, log.is_bandit, log.state_names
    (('buy', 'hold'), True, ('x_1',))
    """
    return read_aloud(**locals())


def read_aloud(source: Any, **arguments: Any) -> Any:
    """Return the log that `read` reads; log how, and warn about its cautions."""
    reading = read(source, **arguments)
    logging.getLogger(__name__).info(reading.describe())
    for caution in reading.cautions:
        warnings.warn(caution, TailproofWarning, stacklevel=3)
    return reading.log


def read(
    source: Any,
    *,
    missing: Missing = "category",
    categorical: str | Sequence[str] = (),
    categories: int = 32,
    cost: Mapping[str, float] | None = None,
    max_steps: int | None = None,
    lazy: bool | None = None,
    budget: int | None = None,
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
    log: Any
    columns: Columns | None = None
    notes = Notes()
    if parts.get("terminated") == "always":
        parts["terminated"] = True
    listed = (categorical,) if isinstance(categorical, str) else tuple(categorical)
    tidying = Tidying(missing, listed, categories, dict(cost or {}))
    data = data_set_to_stay(source, lazy, budget)
    if data is not None:
        if tidying != Tidying():
            raise LogError(
                "missing, categorical, categories and cost are for logs in memory. Read it with "
                "lazy=False, or make these changes in the data."
            )
        log, columns = open_lazily(data, parts, notes, engine, beside)
        log = in_memory(log, "lazy=False") if lazy is False else replace(log, budget=budget)
    elif (adapter := _adapter(source)) is not None:
        named = [part for part, choice in parts.items() if choice is not None]
        if tidying != Tidying():
            raise LogError("missing, categorical, categories and cost are for tables.")
        if named:
            raise LogError(
                f"{', '.join(named)} name{'s' if len(named) == 1 else ''} columns of a table, but "
                f"this source has its own names for them. Leave out the column names."
            )
        limited = adapter in (d4rl.read_hdf5, d4rl.read_rollouts)
        log = adapter(source, notes, **({"max_steps": max_steps} if limited else {}))
    elif max_steps is not None:
        raise LogError("max_steps is for D4RL files. A table says where episodes end by columns.")
    else:
        log, columns = read_table(source, parts, notes, tidying, beside)
    return Reading(log, columns, tuple(notes.notes), tuple(notes.cautions))


def _adapter(source: Any) -> Any:
    """Return the reader for a source that is not a table; None for tables, see `open_table`."""
    if hasattr(source, "iterate_episodes"):
        return minari.read_dataset
    if hasattr(source, "episodes") and not hasattr(source, "columns"):  # not a frame
        return d3rlpy.read_episodes
    if isinstance(source, str | Path):
        if minari.is_dataset(source):
            return minari.read_path
        if d4rl.is_hdf5(Path(source)):
            return d4rl.read_hdf5
        if Path(source).suffix.lower() == ".npz":
            return d4rl.read_rollouts
    return None
