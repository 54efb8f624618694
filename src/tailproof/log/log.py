"""A log: validated transitions by episode, in memory or mapped from files."""

from __future__ import annotations

import mmap
import operator
import os
import resource
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray, RowIndex, require_finite
from tailproof.errors import LogError
from tailproof.log.sources import TableSource
from tailproof.log.spaces import ActionSpace, Discrete
from tailproof.log.validation import (
    check_actions,
    check_groups,
    check_propensity,
    check_rewards,
    end_flags,
    real_matrix,
    runs,
)

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from tailproof.io.encoder import Encoder

CHUNK = 32_768  # rows: their features fit into the cache, and calls cost little per row
PART = 1 << 20  # rows per task: little work is lost when a worker dies


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive transitions of a log."""

    first: int  # index of the first transition in the log
    episode: IntArray  # (m,) index of the episode
    states: FloatArray  # (m, p)
    actions: AnyArray  # (m,) or (m, q)
    rewards: FloatArray  # (m,)
    next_states: FloatArray  # (m, p)
    terminated: BoolArray  # (m,)
    propensity: FloatArray | None  # (m,)

    def __len__(self) -> int:
        return len(self.episode)


def physical_memory() -> int:
    """Return how many bytes of memory this process may use.

    Those of the machine, or fewer if the operating system limits it (`ulimit -v`, a control group).
    """
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    found += [limit for limit in resource.getrlimit(resource.RLIMIT_AS)[:1] if limit > 0]
    with suppress(OSError, ValueError, IndexError):
        # version 2 lists one group, "0::/name", version 1 one for each resource
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        named = {line.split(":")[1]: line.split(":", 2)[2].lstrip("/") for line in groups}
        root = Path("/sys/fs/cgroup")
        for file in (
            root / named.get("", "") / "memory.max",
            root / "memory" / named.get("memory", "") / "memory.limit_in_bytes",
        ):
            with suppress(OSError, ValueError):  # "max" is no number
                found.append(int(file.read_text(encoding="utf-8")))
    return min(found)


@dataclass(frozen=True, eq=False)
class OriginalTable:
    """The table that a log was read from, without columns that are unknown before the action."""

    label: str  # its name in error messages
    names: tuple[str, ...]  # the columns that a policy may read
    hidden: dict[str, str]  # the other columns, and the part that each plays
    count: int  # how many rows it had when the log was read
    #: Reads columns; those in the mapping are labels.
    source: Callable[[Sequence[str], Mapping[str, bool]], pyarrow.Table]

    def read(self, names: Sequence[str], labels: Sequence[str] = ()) -> pyarrow.Table:
        """Return these columns as an Arrow table with all rows; `labels` keep their spelling."""
        table = self.source(list(names), dict.fromkeys(labels, False))
        if table.num_rows != self.count:
            raise LogError(
                f"{self.label} had {self.count} rows when it was read as a log, and has "
                f"{table.num_rows} now. Read it again."
            )
        return table


@dataclass(frozen=True, eq=False)
class Origin:
    """The table row of each state of a log.

    Policies defined per table row (a column, a rule over original columns) are evaluated at these
    rows, so that any part of a log, in any order, gets the actions of its own rows.
    """

    rows: IntArray  # (n,) table row of each state
    next_rows: IntArray  # (n,) table row of each next state, −1 if it has none
    count: int  # number of rows of the table
    table: OriginalTable | None = None  # None if it cannot be read any more
    index: object = None  # the row labels of a pandas frame, which those of a Series must match
    available: BoolArray | None = (
        None  # (N, A) which actions could be taken in each row; None for all
    )

    def take(self, rows: RowIndex) -> Origin:
        """Return the origin of these rows of the log."""
        return replace(self, rows=self.rows[rows], next_rows=self.next_rows[rows])

    def within(self, rows: IntArray, count: int) -> Origin:
        """Return the origin in a larger table of `count` rows, of which only `rows` were read."""
        places = np.append(rows, -1)  # −1 stays −1
        return replace(self, rows=places[self.rows], next_rows=places[self.next_rows], count=count)

    def __getstate__(self) -> dict[str, Any]:
        own = {name: sendable(value) for name, value in self.__dict__.items()}
        return {**own, "table": None, "index": None}  # open files cannot be pickled

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value() if isinstance(value, ArrayFile) else value)


@dataclass(frozen=True)
class ArrayFile:
    """A file with the numbers of an array, mapped by a call."""

    path: str
    dtype: str
    shape: tuple[int, ...]

    def __call__(self) -> AnyArray:
        """Map the file, to be read only."""
        return np.memmap(self.path, self.dtype, "r", shape=self.shape)


def sendable(values: object) -> Any:
    """Return the file of an array that is mapped from a whole file, other values as they are."""
    if isinstance(values, np.memmap) and isinstance(values.base, mmap.mmap):
        return ArrayFile(str(values.filename), values.dtype.str, values.shape)
    return values


def release(values: object) -> None:
    """Let go of the memory that holds a mapped array; it is read from the file when needed again."""
    if isinstance(values, np.memmap) and hasattr(mmap, "MADV_DONTNEED"):
        held = values._mmap  # type: ignore[attr-defined]
        held.madvise(mmap.MADV_DONTNEED)


def copied_to_file(values: AnyArray, rows: IntArray) -> AnyArray:
    """Return some rows of a mapped array, mapped from a file beside its own that vanishes with them."""
    if not isinstance(values, np.memmap):
        return values[rows]
    handle, path = tempfile.mkstemp("", "part-", dir=Path(str(values.filename)).parent)
    os.close(handle)
    copy = np.memmap(path, values.dtype, "w+", shape=(len(rows), *values.shape[1:]))
    weakref.finalize(copy._mmap, Path(path).unlink, missing_ok=True)  # type: ignore[attr-defined]
    for first in range(0, len(rows), CHUNK):
        some = slice(first, first + CHUNK)
        copy[some] = values[rows[some]]
        release(copy)
        release(values)
    return copy


def own_origin(starts: IntArray) -> Origin:
    """Return the origin of a log built from arrays: its own rows, by episode."""
    rows = np.arange(int(starts[-1]))
    next_rows = rows + 1
    next_rows[starts[1:] - 1] = -1
    return Origin(rows, next_rows, len(rows))


#: Suffixes of state variables: all rare categories of a column, and the indicator of missing values.
OTHER, GAP = "(other)", " is missing"
#: The category of missing texts.
MISSING = "(missing)"
COLUMNS = ("states", "actions", "rewards", "next_states", "terminated", "propensity")


def default_names(count: int) -> tuple[str, ...]:
    """Return the default names of state variables."""
    return tuple(f"state {j}" for j in range(count))


def unnamed(names: Sequence[str]) -> bool:
    """Return whether these are the default names of state variables."""
    return tuple(names) == default_names(len(names))


@dataclass(frozen=True, eq=False, repr=False)
class Log:
    """Logged transitions (s, a, r, s'), grouped by episode. Build one with `Log.from_arrays`.

    Episodes are contiguous rows. A *terminated* transition ends its episode, so it has no next value;
    after a *truncated* one only the recording stops. `group` is the unit whose episodes depend on
    each other (a week, a user, a site): a partition never splits it.

    Indexing and iteration are by episode and return views that share memory:
    ``log[3]`` is the fourth episode, ``log[10:20]`` ten of them.

    The arrays of a log that was larger than `budget` when it was read are mapped from files
    (`numpy.memmap`). Methods read any log in `chunks`; what needs more than `budget` bytes at once
    takes a sample (`sample_to_budget`) and says so.
    """

    states: FloatArray  # (n, p)
    actions: AnyArray  # (n,) integers, or (n, q) reals
    rewards: FloatArray  # (n,)
    next_states: FloatArray  # (n, p)
    terminated: BoolArray  # (n,)
    truncated: BoolArray  # (n,)
    propensity: FloatArray | None  # (n,)
    starts: IntArray  # (E + 1,) first transition of each episode, then n
    episode_ids: AnyArray  # (E,)
    group_ids: AnyArray | None  # (E,)
    action_space: ActionSpace
    state_names: tuple[str, ...]
    origin: Origin | None = None  # None if the log is its own table
    reward_name: str = "reward"  # for example revenue
    encoder: Encoder | None = None  # how its table was read
    budget: int | None = None  # bytes that copies of its rows may take; None for any number

    @classmethod
    def from_arrays(
        cls,
        states: npt.ArrayLike,
        actions: npt.ArrayLike,
        rewards: npt.ArrayLike,
        next_states: npt.ArrayLike,
        *,
        episode: npt.ArrayLike,
        group: npt.ArrayLike | None = None,
        terminated: npt.ArrayLike | None = None,
        truncated: npt.ArrayLike | None = None,
        propensity: npt.ArrayLike | None = None,
        action_space: object = None,
        state_names: Sequence[str] | None = None,
        reward_name: str = "reward",
    ) -> Log:
        """Validate n transitions and build a log.

        Parameters
        ----------
        states, next_states
            Real arrays (n, p), or (n,) for a single state variable.
        actions
            Integers (n,) for discrete actions 0..A−1; reals (n,) or (n, q) for continuous ones.
        rewards
            Reals (n,).
        episode
            One label per row (n,). The rows of an episode are contiguous and in time order.
        group
            One label per row (n,), constant within an episode. A group stays in one fold.
        terminated, truncated
            Booleans (n,), true at most at the last row of an episode. Without them no episode
            terminates, and each is truncated at its last row.
        propensity
            Probability (or density) of the logged action under the logging policy (n,).
        action_space
            A number of actions, a `Discrete` or `Continuous`, or a Gymnasium space. Integer
            actions need none.
        state_names
            One name per state variable, used in tables.
        reward_name
            Name of the reward, printed beside values, such as "revenue".

        Examples
        --------
        >>> log = Log.from_arrays(
        ...     [[0.0], [1.0], [0.5]], [0, 1, 1], [1.0, 2.0, -3.0], [[1.0], [2.0], [1.5]],
        ...     episode=["a", "a", "b"],
        ... )
        >>> log
        Log(3 transitions, 2 episodes; states (3, 1), actions (3,) of 2 actions, rewards (3,) from \
-3 to 2; 0 terminated; no groups; no propensities)
        >>> log[0].rewards
        array([1., 2.])
        """
        state_array = real_matrix("states", states)
        n = len(state_array)
        if n == 0:
            raise LogError("A log needs at least one transition. Got none.")
        next_array = real_matrix("next_states", next_states)
        if next_array.shape != state_array.shape:
            raise LogError(
                f"next_states must have the shape of states, {state_array.shape}. "
                f"Got {next_array.shape} instead."
            )
        reward_array = check_rewards(rewards, n)
        require_finite("states", state_array, LogError)
        require_finite("next_states", next_array, LogError)
        action_array, space = check_actions(actions, n, action_space)
        starts, episode_ids = runs(episode, n)
        ends = np.zeros(n, dtype=bool)
        ends[starts[1:] - 1] = True
        terminated_array = end_flags("terminated", terminated, ends)
        truncated_array = end_flags("truncated", truncated, ends)
        names = tuple(state_names or default_names(state_array.shape[1]))
        if len(names) != state_array.shape[1]:
            raise LogError(
                f"state_names must name the {state_array.shape[1]} state variables. "
                f"Got {len(names)} names."
            )
        return cls(
            states=state_array,
            actions=action_array,
            rewards=reward_array,
            next_states=next_array,
            terminated=terminated_array,
            truncated=(truncated_array | ends) & ~terminated_array,
            starts=starts,
            episode_ids=episode_ids,
            group_ids=None if group is None else check_groups(group, starts, episode_ids),
            propensity=None if propensity is None else check_propensity(propensity, n, space),
            action_space=space,
            state_names=names,
            reward_name=reward_name,
        )

    @property
    def n_transitions(self) -> int:
        """Number of logged transitions, n."""
        return int(self.starts[-1])

    @property
    def n_episodes(self) -> int:
        """Number of episodes, E."""
        return len(self.episode_ids)

    @property
    def n_actions(self) -> int:
        """Number of discrete actions; a `LogError` when actions are continuous."""
        if isinstance(self.action_space, Discrete):
            return self.action_space.n
        raise LogError(
            f"This needs discrete actions. The log has continuous ones ({self.action_space}); "
            f"bin them, or use a method for continuous actions."
        )

    @property
    def is_discrete(self) -> bool:
        """Whether actions are integers 0..A−1."""
        return isinstance(self.action_space, Discrete)

    @cached_property
    def group_of_episode(self) -> IntArray:
        """Group index of each episode, (E,); without groups each episode is its own group."""
        if self.group_ids is None:
            return np.arange(self.n_episodes)
        return np.unique(self.group_ids, return_inverse=True)[1]

    @property
    def n_groups(self) -> int:
        """Number of groups; without groups the number of episodes."""
        if self.group_ids is None:
            return self.n_episodes
        return int(self.group_of_episode.max()) + 1

    @property
    def is_mapped(self) -> bool:
        """Whether its arrays are mapped from files."""
        return isinstance(self.rewards, np.memmap)

    @property
    def is_bandit(self) -> bool:
        """Whether every episode has one step: a contextual bandit."""
        return self.n_episodes == self.n_transitions

    @cached_property
    def lengths(self) -> IntArray:
        """Number of steps of each episode, (E,)."""
        return np.diff(self.starts)

    @cached_property
    def episode_of_row(self) -> IntArray:
        """Index of the episode that each row belongs to, (n,)."""
        return np.repeat(np.arange(self.n_episodes), self.lengths)

    @property
    def step_of_row(self) -> IntArray:
        """Step number of each row within its episode, from 0, (n,)."""
        return np.arange(self.n_transitions) - np.repeat(self.starts[:-1], self.lengths)

    @cached_property
    def table_rows(self) -> Origin:
        """The table row of each state and next state."""
        return own_origin(self.starts) if self.origin is None else self.origin

    @property
    def first_rows(self) -> IntArray:
        """The table row of each episode's first state, (E,)."""
        return self.table_rows.rows[self.starts[:-1]]

    @cached_property
    def copy_of(self) -> IntArray:
        """The first copy of each episode, (E,): itself, unless weights repeat episodes."""
        rows = self.first_rows
        if (rows[1:] > rows[:-1]).all():
            return np.arange(len(rows))
        _, first, place = np.unique(rows, return_index=True, return_inverse=True)
        return np.asarray(first[place.ravel()])

    @cached_property
    def once(self) -> Log:
        """The log without the copies that weights made of its episodes; itself if there are none."""
        if (self.copy_of == np.arange(self.n_episodes)).all():
            return self
        first = np.unique(self.copy_of)
        kept = self.take(first)
        alone = kept.n_groups == kept.n_episodes  # the groups kept copies together
        return replace(kept, group_ids=None) if alone else kept

    @property
    def first_states(self) -> FloatArray:
        """The first state of each episode, (E, p)."""
        return self.states if self.is_bandit else self.states[self.starts[:-1]]

    @property
    def always_terminates(self) -> bool:
        """Whether every episode terminates, so that γ = 1 is allowed."""
        return bool(self.ends.all())

    @property
    def ends(self) -> BoolArray:
        """Whether each episode terminates, (E,)."""
        return self.terminated[self.starts[1:] - 1]

    @property
    def action_counts(self) -> IntArray:
        """How often each discrete action was taken, (A,); a `LogError` when they are continuous."""
        n_actions = self.n_actions
        return np.bincount(self.actions, minlength=n_actions)

    @property
    def has_propensity(self) -> bool:
        """Whether the log has propensities."""
        return self.propensity is not None

    @property
    def parts(self) -> Sequence[range]:
        """The row range of each part of the log; an engine processes one part per task."""
        n = self.n_transitions
        return [range(first, min(first + PART, n)) for first in range(0, n, PART)]

    def chunks(self, part: range, size: int = CHUNK) -> Iterator[Chunk]:
        """Yield the transitions of one part in order, at most `size` at a time."""
        for first in range(part.start, part.stop, size):
            rows = slice(first, min(first + size, part.stop))
            yield Chunk(first, self._episodes_of(rows), **self._columns(rows))
            for each in COLUMNS:
                release(getattr(self, each))

    def _episodes_of(self, rows: slice) -> IntArray:
        """Return the episode of each of these rows, without those of all others."""
        low = int(np.searchsorted(self.starts, rows.start, side="right")) - 1
        high = int(np.searchsorted(self.starts, rows.stop))
        edges = np.clip(self.starts[low : high + 1], rows.start, rows.stop)
        return np.repeat(np.arange(low, high), np.diff(edges))

    @property
    def bytes_in_memory(self) -> int:
        """Bytes of its transitions."""
        columns = (getattr(self, name) for name in COLUMNS)
        return sum(each.nbytes for each in columns if each is not None)

    def __len__(self) -> int:
        return self.n_episodes

    def __iter__(self) -> Iterator[Log]:
        return (self[i] for i in range(self.n_episodes))

    def __getitem__(self, index: int | slice) -> Log:
        if isinstance(index, slice):
            first, last, step = index.indices(self.n_episodes)
            if step != 1:
                return self.take(np.arange(first, last, step))
        else:
            if not -self.n_episodes <= index < self.n_episodes:
                raise IndexError(f"Episode {index} of a log with {self.n_episodes} episodes.")
            first = index % self.n_episodes
            last = first + 1
        if last <= first:
            raise LogError(f"A log needs at least one episode. Got the empty slice {index}.")
        rows = slice(int(self.starts[first]), int(self.starts[last]))
        return self._select(rows, slice(first, last), self.starts[first : last + 1] - rows.start)

    def take(self, episodes: npt.ArrayLike) -> Log:
        """Return the log of these episodes, given by index, in this order; rows are copied.

        A copy of more than `budget` bytes is mapped from files again, which vanish with it.
        """
        chosen = np.asarray(episodes, dtype=np.intp)
        if chosen.size == 0:
            raise LogError("A log needs at least one episode. Got none to take.")
        starts = np.concatenate([[0], np.cumsum(self.lengths[chosen])])
        size = self.bytes_in_memory / self.n_transitions * int(starts[-1])
        if self.budget is not None and size > self.budget:
            return self._select(self.rows(chosen), chosen, starts, copy=copied_to_file)
        return replace(self._select(self.rows(chosen), chosen, starts), budget=None)

    def rows(self, episodes: IntArray) -> IntArray:
        """Return the row numbers of these episodes, in their order."""
        lengths = self.lengths[episodes]
        ends = np.cumsum(lengths)
        return np.repeat(self.starts[episodes] - ends + lengths, lengths) + np.arange(ends[-1])

    def with_rewards(self, rewards: npt.ArrayLike) -> Log:
        """Return the same log with other rewards, (n,)."""
        return replace(self, rewards=check_rewards(rewards, self.n_transitions))

    def to_parquet(self, path: str | Path) -> Path:
        """Write the log to a Parquet file; `read_log` returns an equal log."""
        from tailproof.io.parquet import write_log

        return write_log(self, path)

    def to_frame(self) -> pandas.DataFrame:
        """Return the log as a pandas frame, one row per transition, with labels and next states.

        `Log.from_frame` and `read_log` read it back.
        """
        from tailproof.io.parquet import log_table

        return log_table(self).replace_schema_metadata(None).to_pandas()

    @classmethod
    def from_frame(cls, frame: TableSource, **columns: Any) -> Log:
        """Build a log from any frame or table; name its columns as in `read_log`, or let it guess them.

        Examples
        --------
        >>> log = Log.from_frame({"x": [0.5, 0.1], "action": ["buy", "hold"], "reward": [1.0, 0.0]})
        >>> log.n_episodes, log.action_space.labels
        (2, ('buy', 'hold'))
        """
        from tailproof.io.reading import read_log

        log: Log = read_log(frame, lazy=False, **columns)
        return log

    def with_groups(self, group: npt.ArrayLike) -> Log:
        """Return the same log with one group label per row, (n,)."""
        return replace(self, group_ids=check_groups(group, self.starts, self.episode_ids))

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields; arrays that are whole files are mapped again by who receives them."""
        return {each.name: sendable(getattr(self, each.name)) for each in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value() if isinstance(value, ArrayFile) else value)

    def _select(
        self,
        rows: Any,
        episodes: Any,
        starts: IntArray,
        copy: Callable[[AnyArray, Any], AnyArray] = operator.getitem,
    ) -> Log:
        return replace(
            self,
            **self._columns(rows, copy),
            truncated=self.truncated[rows],
            starts=starts,
            episode_ids=self.episode_ids[episodes],
            group_ids=None if self.group_ids is None else self.group_ids[episodes],
            origin=self.table_rows.take(rows),
        )

    def _columns(
        self, rows: Any, copy: Callable[[AnyArray, Any], AnyArray] = operator.getitem
    ) -> dict[str, Any]:
        columns = {name: getattr(self, name) for name in COLUMNS}
        return {name: None if each is None else copy(each, rows) for name, each in columns.items()}

    def _groups_in_words(self) -> str:
        return "no groups" if self.group_ids is None else f"{self.n_groups} groups"

    def __repr__(self) -> str:
        return (
            f"Log({self.n_transitions} transitions, {self.n_episodes} episodes; "
            f"states {self.states.shape}, actions {self.actions.shape} of {self.action_space}, "
            f"rewards {self.rewards.shape} from {self.rewards.min():g} to {self.rewards.max():g}; "
            f"{int(self.terminated.sum())} terminated; {self._groups_in_words()}; "
            f"{'no ' if self.propensity is None else ''}propensities)"
        )


def discounted_returns(log: Log, gamma: float) -> FloatArray:
    """Return Σ_t γ^t r_t over the logged steps of each episode, (E,).

    >>> log = Log.from_arrays([0.0] * 3, [0] * 3, [1.0, 2.0, 4.0], [0.0] * 3, episode=[0, 0, 1])
    >>> discounted_returns(log, 0.5)
    array([2., 4.])
    """
    rewards = log.rewards
    if gamma < 1:
        rewards = rewards * np.power(gamma, log.step_of_row)
    return np.add.reduceat(rewards, log.starts[:-1])
