"""The interface that logs in memory and on disk share: episodes, and chunks of rows."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.data.spaces import ActionSpace, Discrete
from tailproof.errors import LogError

CHUNK = 32_768  # rows: their features fit into the cache, and calls cost little per row
PART = 1 << 20  # rows per task: little work is lost when a worker dies


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive transitions of a log; a column that was not requested is empty or None.

    Rows whose next state is unknown are not transitions: `kept` lists the rows that are. `compact`
    removes the others, which copies all columns.
    """

    first: int  # index of the first transition in the log
    episode: IntArray  # (m,) index of the episode
    states: FloatArray  # (m, p)
    actions: AnyArray  # (m,) or (m, q)
    rewards: FloatArray  # (m,)
    next_states: FloatArray  # (m, p)
    terminated: BoolArray  # (m,)
    propensity: FloatArray | None  # (m,)
    kept: IntArray | None = None  # (m',) which rows are transitions; None for all
    run: FloatArray | None = None  # (p, m + 1) where next states are the states of the next rows

    def __len__(self) -> int:
        return len(self.episode)

    @property
    def transitions(self) -> IntArray:
        """Which rows are transitions, (m',)."""
        return np.arange(len(self)) if self.kept is None else self.kept

    def compact(self) -> Chunk:
        """Return only the transitions; the next state of a terminated one is its own state."""
        if self.kept is None and self.run is None:
            return self
        rows = self.transitions
        columns = {
            each.name: _rows(getattr(self, each.name), rows)
            for each in fields(self)
            if each.name not in ("first", "kept", "run")
        }
        if self.run is not None:
            columns["next_states"] = self.run.take(rows + 1 - self.terminated[rows], axis=1).T
        return replace(self, **columns, kept=None, run=None)


def _rows(values: Any, rows: IntArray) -> Any:
    """Return some rows of a column, in the same memory layout."""
    if values is None or len(values) == 0:
        return values
    return values.take(rows) if values.ndim == 1 else values.T.take(rows, axis=1).T


@dataclass(frozen=True, eq=False, repr=False)
class LogView:
    """The episodes of a log: base class of `Log` (in memory) and `LazyLog` (on disk).

    Both also have `parts`, which an engine processes one per task; ``chunks(part)``, the rows of a
    part in order; ``take(episodes)``, the log of some episodes; ``load()``, the log in memory; and
    `first_states`, `lengths`, `ends`, `action_counts`, `has_propensity` and `stays_on_disk`.
    """

    starts: IntArray  # (E + 1,) first transition of each episode, then n
    episode_ids: AnyArray  # (E,)
    group_ids: AnyArray | None  # (E,)
    action_space: ActionSpace
    state_names: tuple[str, ...]
    reward_name: str = field(default="reward", kw_only=True)  # for example revenue

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
        return int(self.group_of_episode.max()) + 1

    @property
    def is_bandit(self) -> bool:
        """Whether every episode has one step: a contextual bandit."""
        return self.n_episodes == self.n_transitions

    def __len__(self) -> int:
        return self.n_episodes

    def _groups_in_words(self) -> str:
        return "no groups" if self.group_ids is None else f"{self.n_groups} groups"


def physical_memory() -> int:
    """Return how many bytes of memory the machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
