"""Logs that stay on disk: what is known of every episode, and the transitions piece by piece."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

import numpy as np

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.data.log import Episodes, Log
from tailproof.data.spaces import Discrete
from tailproof.data.view import CHUNK, Chunk
from tailproof.errors import MethodError

_COLUMNS = ("states", "actions", "rewards", "next_states", "terminated", "propensity")


class Reader(Protocol):
    """Where the transitions of a lazy log come from."""

    def chunks(
        self, log: LazyLog, part: Any, size: int, *, ahead: bool, propensity: bool
    ) -> Iterator[Chunk]:
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
    def stays_on_disk(self) -> bool:
        """Whether transitions are read when they are needed."""
        return True

    def without_parts(self) -> LazyLog:
        """Return the log as workers need it who are sent the parts one by one."""
        return replace(self, parts=())

    def take(self, episodes: IntArray) -> LazyLog:
        """Return the log of some episodes, in the order of the log; only its actions are read now."""
        from tailproof.data.stored_views import take_episodes

        return take_episodes(self, episodes)

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

    def first_states_in(self, piece: Chunk) -> FloatArray:
        """Return the first states of the episodes that start in this piece, (e, p)."""
        count = len(piece) if piece.kept is None else len(piece.kept)
        first, last = np.searchsorted(self.starts, (piece.first, piece.first + count))
        rows = self.starts[first:last] - piece.first
        return piece.states[rows if piece.kept is None else piece.kept[rows]]

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

        Next states come with `ahead`, propensities only with `propensity`. Chunks that are not
        `compact` may hold rows that are no transitions.
        """
        for piece in self.reader.chunks(self, part, size, ahead=ahead, propensity=propensity):
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
            for piece in self.chunks(part, propensity=self.has_propensity):
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


def action_counts(log: AnyLog) -> IntArray:
    """Return how often each discrete action was taken, (A,); a `LogError` when they are continuous."""
    counts = log.action_counts
    return np.zeros(log.n_actions, dtype=np.intp) if counts is None else counts
