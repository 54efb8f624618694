"""Logs that stay on disk: what is known of every episode, and the transitions piece by piece."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import numpy as np

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.data.log import Episodes, Log
from tailproof.data.spaces import Discrete
from tailproof.errors import MethodError

PIECE = 32_768  # rows: few enough for their features to stay in cache, enough to be worth the calls
PART = 1 << 20  # rows: enough for a task of its own, few enough to lose when a worker dies

_COLUMNS = ("states", "actions", "rewards", "next_states", "terminated", "propensity")


@dataclass(frozen=True, eq=False)
class Piece:
    """Consecutive transitions of a log.

    It may hold rows that are none, because nothing is known of what followed: moving all others
    together costs time, and who sorts them anyway need not. `compact` leaves such rows out.
    """

    first: int  # place of the first of them in the log
    episode: IntArray  # (m,) index of the episode
    states: FloatArray  # (m, p)
    actions: AnyArray  # (m,) or (m, q)
    rewards: FloatArray  # (m,)
    next_states: FloatArray  # (m, p), or (0, p) if they were not asked for
    terminated: BoolArray  # (m,)
    propensity: FloatArray | None  # (m,) if it was asked for
    kept: IntArray | None = None  # (m',) which rows are transitions; None for all
    run: FloatArray | None = None  # (p, m + 1) where next states are the states of the next rows

    def __len__(self) -> int:
        return len(self.rewards)

    def compact(self) -> Piece:
        """Return the transitions alone; where one terminates, its own state stands in for the next."""
        if self.kept is None and self.run is None:
            return self
        rows = np.arange(len(self)) if self.kept is None else self.kept
        next_states = self.next_states
        if self.run is not None:
            next_states = self.run.take(rows + 1 - self.terminated[rows], axis=1).T
        elif len(next_states):
            next_states = _rows(next_states, rows)
        return Piece(
            first=self.first,
            episode=self.episode.take(rows),
            states=_rows(self.states, rows),
            actions=_rows(self.actions, rows),
            rewards=self.rewards.take(rows),
            next_states=next_states,
            terminated=self.terminated.take(rows),
            propensity=None if self.propensity is None else self.propensity.take(rows),
        )


def _rows(values: AnyArray, rows: IntArray) -> AnyArray:
    """Return some rows, laid out in memory as they were."""
    return values.take(rows) if values.ndim == 1 else values.T.take(rows, axis=1).T


class Reader(Protocol):
    """Where the transitions of a lazy log come from."""

    def pieces(
        self, log: LazyLog, part: Any, size: int, *, ahead: bool, propensity: bool
    ) -> Iterator[Piece]:
        """Yield the transitions of one part in order, at most `size` at a time."""

    def rewards(self, log: LazyLog, part: Any) -> Iterator[FloatArray]:
        """Yield the rewards of one part in order."""

    def first_states(self, log: LazyLog, part: Any) -> FloatArray:
        """Return the first states of the episodes that start in one part, (e, p)."""

    def episodes(self, log: LazyLog, part: Any) -> range:
        """Return the episodes that have transitions in one part; there may be others among them."""


@dataclass(frozen=True, eq=False, repr=False)
class LazyLog(Episodes):
    """A log whose transitions are read when they are needed. `read_log(..., lazy=True)` opens one.

    `evaluate`, `compare`, `learn` and `diagnose` take it in place of a `Log` and give the same
    numbers to rounding. In memory are only a few numbers for each episode, and the part of the data
    that is being worked on.

    `parts` are runs of about a million rows. Together they are the log, in order; how they are cut
    depends on the files alone, so that sums over parts round the same way wherever they are taken.

    What needs more at once than the `budget` (by default a quarter of the machine's memory) works on a
    random sample of whole episodes and warns of it, or refuses.
    """

    reader: Reader
    parts: tuple[Any, ...]
    ends: BoolArray  # (E,) whether the episode terminates
    action_counts: IntArray | None  # (A,) how often each discrete action was taken
    has_propensity: bool
    label: str
    reward_limits: tuple[float, float] | None = None
    budget: int | None = None  # bytes that whoever needs many transitions at once may take
    _memory: dict[str, FloatArray] = field(default_factory=dict)

    @property
    def lengths(self) -> IntArray:
        """Number of steps of each episode, (E,)."""
        return np.diff(self.starts)  # not kept: there may be many episodes, in every worker

    @property
    def always_terminates(self) -> bool:
        """Whether every episode ends for good, so that γ = 1 makes sense."""
        return bool(self.ends.all())

    @property
    def first_states(self) -> FloatArray:
        """The state in which each episode starts, (E, p): read once, unless a pass has met them."""
        if "first" not in self._memory:
            found = [self.reader.first_states(self, part) for part in self.parts]
            self.remember_first_states(np.concatenate(found))
        return self._memory["first"]

    def remember_first_states(self, states: FloatArray) -> None:
        """Keep the first states that a pass over all parts has met, (E, p)."""
        self._memory["first"] = states

    def first_states_in(self, piece: Piece) -> FloatArray:
        """Return the first states of the episodes that start in this piece, (e, p)."""
        count = len(piece) if piece.kept is None else len(piece.kept)
        first, last = np.searchsorted(self.starts, (piece.first, piece.first + count))
        rows = self.starts[first:last] - piece.first
        return piece.states[rows if piece.kept is None else piece.kept[rows]]

    def pieces(
        self,
        part: Any,
        size: int = PIECE,
        *,
        ahead: bool = True,
        propensity: bool = False,
        compact: bool = True,
    ) -> Iterator[Piece]:
        """Yield the transitions of one part in order, at most `size` at a time.

        Next states come with `ahead`, propensities only with `propensity`. Pieces that are not
        `compact` may hold rows that are no transitions.
        """
        for piece in self.reader.pieces(self, part, size, ahead=ahead, propensity=propensity):
            if self.reward_limits is not None:
                piece = replace(piece, rewards=np.clip(piece.rewards, *self.reward_limits))
            yield piece.compact() if compact else piece

    def rewards(self, part: Any) -> Iterator[FloatArray]:
        """Yield the rewards of one part in order, within the limits."""
        for rewards in self.reader.rewards(self, part):
            yield rewards if self.reward_limits is None else np.clip(rewards, *self.reward_limits)

    def load(self) -> Log:
        """Read everything into memory."""
        n = self.n_transitions
        columns: dict[str, AnyArray] = {}
        for part in self.parts:
            for piece in self.pieces(part, propensity=self.has_propensity):
                rows = slice(piece.first, piece.first + len(piece))
                for name in _COLUMNS:
                    values = getattr(piece, name)
                    if values is not None:
                        if name not in columns:
                            columns[name] = np.empty((n, *values.shape[1:]), values.dtype)
                        columns[name][rows] = values
        terminated = columns["terminated"]
        truncated = np.zeros(len(terminated), dtype=bool)
        truncated[self.starts[1:] - 1] = True
        return Log(
            states=columns["states"],
            actions=columns["actions"],
            rewards=columns["rewards"],
            next_states=columns["next_states"],
            terminated=terminated,
            truncated=truncated & ~terminated,
            starts=self.starts,
            episode_ids=self.episode_ids,
            group_ids=self.group_ids,
            propensity=columns.get("propensity"),
            action_space=self.action_space,
            state_names=self.state_names,
            reward_name=self.reward_name,
        )

    @property
    def bytes_in_memory(self) -> int:
        """How many bytes `load` would need for its arrays."""
        actions = 1 if isinstance(self.action_space, Discrete) else self.action_space.dimension
        return 8 * self.n_transitions * (2 * len(self.state_names) + actions + 3)

    @property
    def memory_budget(self) -> int:
        """How many bytes whoever needs many transitions at once may take."""
        return physical_memory() // 4 if self.budget is None else self.budget

    def with_reward_limits(self, low: float, high: float) -> LazyLog:
        """Return the same log with rewards clipped to [low, high]."""
        return replace(self, reward_limits=(float(low), float(high)))

    def __getstate__(self) -> dict[str, Any]:
        state = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**state, "_memory": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        groups = "no groups" if self.group_ids is None else f"{self.n_groups} groups"
        return (
            f"LazyLog({self.n_transitions} transitions, {self.n_episodes} episodes of "
            f"{self.label} in {len(self.parts)} parts; {len(self.state_names)} state variables, "
            f"{self.action_space}; {int(self.ends.sum())} terminated; {groups}; "
            f"{'' if self.has_propensity else 'no '}propensities)"
        )


AnyLog = Log | LazyLog


def parts_of(log: AnyLog) -> Sequence[Any]:
    """Return the parts of a log: what a task works on, whoever does it and however many there are."""
    if isinstance(log, LazyLog):
        return log.parts
    return [
        range(first, min(first + PART, log.n_transitions))
        for first in range(0, log.n_transitions, PART)
    ]


def pieces_of(
    log: AnyLog, part: Any, size: int = PIECE, *, ahead: bool = True, compact: bool = True
) -> Iterator[Piece]:
    """Yield the transitions of one part in order, at most `size` at a time.

    Without `ahead` a log on disk is not asked for next states; see `LazyLog.pieces`.
    """
    if isinstance(log, LazyLog):
        yield from log.pieces(part, size, ahead=ahead, compact=compact)
        return
    for first in range(part.start, part.stop, size):
        rows = slice(first, min(first + size, part.stop))
        yield Piece(
            first=first,
            episode=log.episode_of_row[rows],
            states=log.states[rows],
            actions=log.actions[rows],
            rewards=log.rewards[rows],
            next_states=log.next_states[rows],
            terminated=log.terminated[rows],
            propensity=None if log.propensity is None else log.propensity[rows],
        )


def physical_memory() -> int:
    """Return how many bytes of memory the machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def in_memory(log: AnyLog, who: str) -> Log:
    """Return the log with all its transitions, for one who needs them at once."""
    if isinstance(log, Log):
        return log
    allowed = physical_memory() // 2 if log.budget is None else log.budget
    if log.bytes_in_memory > allowed:
        raise MethodError(
            f"{who} needs the whole log in memory, about {log.bytes_in_memory / 1e9:.1f} GB, and "
            f"may take {allowed / 1e9:.1f} GB. Use a method that reads a log in pieces (fqe, lstd, "
            f"mis, dr, fqi and their folds, with linear features), a part of the log, or a larger "
            f"budget."
        )
    return log.load()


def ends_of_episodes(log: AnyLog) -> BoolArray:
    """Return whether each episode terminates, (E,)."""
    return log.ends if isinstance(log, LazyLog) else log.terminated[log.starts[1:] - 1]


def action_counts(log: AnyLog) -> IntArray:
    """Return how often each discrete action was taken, (A,)."""
    if isinstance(log, Log):
        return np.bincount(log.actions, minlength=log.n_actions)
    assert log.action_counts is not None
    return log.action_counts
