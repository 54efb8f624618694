"""What a log in memory and a log on disk have in common: parts, and chunks of their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.data.spaces import ActionSpace

CHUNK = 32_768  # rows: few enough for their features to stay in cache, enough to be worth the calls
PART = 1 << 20  # rows: enough for a task of its own, few enough to lose when a worker dies


@dataclass(frozen=True, eq=False)
class Chunk:
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

    def compact(self) -> Chunk:
        """Return the transitions alone; where one terminates, its own state stands in for the next."""
        if self.kept is None and self.run is None:
            return self
        rows = np.arange(len(self)) if self.kept is None else self.kept
        next_states = self.next_states
        if self.run is not None:
            next_states = self.run.take(rows + 1 - self.terminated[rows], axis=1).T
        elif len(next_states):
            next_states = _rows(next_states, rows)
        return Chunk(
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


class LogView(Protocol):
    """A log, in memory (`Log`) or on disk (`read_log(..., lazy=True)`).

    Its `parts` are what an engine works on one by one; `chunks` are the rows of a part in order. What
    is known of every episode is in memory in both.
    """

    @property
    def starts(self) -> IntArray:
        """The transition with which each episode starts, then n, (E + 1,)."""

    @property
    def episode_ids(self) -> AnyArray:
        """The label of each episode, (E,)."""

    @property
    def group_ids(self) -> AnyArray | None:
        """The group of each episode, (E,), where the log names groups."""

    @property
    def group_of_episode(self) -> IntArray:
        """The index of each episode's group, (E,)."""

    @property
    def action_space(self) -> ActionSpace:
        """Which actions there are."""

    @property
    def state_names(self) -> tuple[str, ...]:
        """What the state variables are called."""

    @property
    def n_transitions(self) -> int:
        """Number of transitions, n."""

    @property
    def n_episodes(self) -> int:
        """Number of episodes, E."""

    @property
    def n_actions(self) -> int:
        """Number of discrete actions."""

    @property
    def lengths(self) -> IntArray:
        """Number of steps of each episode, (E,)."""

    @property
    def first_states(self) -> FloatArray:
        """The state in which each episode starts, (E, p)."""

    @property
    def ends(self) -> BoolArray:
        """Whether each episode terminates, (E,)."""

    @property
    def action_counts(self) -> IntArray | None:
        """How often each discrete action was taken, (A,)."""

    @property
    def has_propensity(self) -> bool:
        """Whether the log has propensities."""

    @property
    def parts(self) -> Sequence[Any]:
        """The parts of the log, in order."""

    @property
    def stays_on_disk(self) -> bool:
        """Whether transitions are read when they are needed."""

    def chunks(
        self,
        part: Any,
        size: int = CHUNK,
        *,
        ahead: bool = True,
        propensity: bool = False,
        compact: bool = True,
    ) -> Iterator[Chunk]:
        """Yield the transitions of one part in order, at most `size` at a time.

        A log on disk gives next states only with `ahead`, and propensities with `propensity`. Chunks
        that are not `compact` may hold rows that are no transitions.
        """

    def load(self) -> Any:
        """Return the log with all its transitions in memory, a `Log`."""

    def without_parts(self) -> Self:
        """Return the log as workers need it who are sent the parts one by one."""

    def take(self, episodes: IntArray) -> Self:
        """Return the log of these episodes."""
