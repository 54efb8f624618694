"""Logs on disk: episode data in memory, transitions read in chunks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.errors import LogError, MethodError, TailproofWarning
from tailproof.log.folds import shuffled_groups
from tailproof.log.log import CHUNK, COLUMNS, Chunk, Log, LogView, physical_memory
from tailproof.log.spaces import Discrete

_BATCH = 1 << 16  # rows per read, for passes over one column
_BLOCKS = 1_000  # number of runs of neighbouring episodes from which a sample is drawn
_COPIES = 4  # copies of each row's features, for methods that use all rows at once


class SampleWarning(TailproofWarning):
    """The log exceeds the memory budget: only a sample of its episodes was used."""


class Reader(Protocol):
    """Reads the transitions of a lazy log."""

    @property
    def starts(self) -> IntArray:
        """The first transition of each episode in the files, then their total number, (E + 1,)."""

    def chunks(self, part: Any, size: int, columns: Sequence[str]) -> Iterator[Chunk]:
        """Yield these columns of one part's transitions in order, at most `size` at a time."""

    def episodes(self, part: Any) -> range:
        """Return a range that includes all episodes with transitions in one part."""


@dataclass(frozen=True, eq=False, repr=False)
class LazyLog(LogView):
    """A log that reads its transitions from disk when needed. `read_log(..., lazy=True)` opens one.

    `evaluate`, `compare`, `learn` and `diagnose` accept it in place of a `Log` and return the same
    numbers up to rounding. Only a few numbers per episode and the current chunk are in memory.

    `parts` are consecutive runs of about a million rows. Their borders depend only on the files, so
    that sums over parts round the same way on every engine.

    A method that needs more memory than `budget` (by default a quarter of the machine's) uses a random
    sample of whole episodes and warns, or raises an error.
    """

    reader: Reader
    parts: tuple[Any, ...]
    ends: BoolArray  # (E,) whether the episode terminates
    action_counts: IntArray | None  # (A,) how often each discrete action was taken
    has_propensity: bool
    label: str
    budget: int | None = None  # bytes that loaded transitions may use
    place: IntArray | None = None  # index of each episode of the files, or −1; None if all are kept
    reward_limits: tuple[float, float] | None = None
    one_action: bool = False  # whether all actions are read as action 0
    stays_on_disk: ClassVar[Literal[True]] = True

    @property
    def lengths(self) -> IntArray:
        """Number of steps of each episode, (E,)."""
        return np.diff(self.starts)  # not cached, to save memory in every worker

    @property
    def always_terminates(self) -> bool:
        """Whether every episode terminates, so that γ = 1 is allowed."""
        return bool(self.ends.all())

    @property
    def first_states(self) -> FloatArray:
        """The first state of each episode, (E, p); read from disk on every access."""
        pieces = [piece for part in self.parts for piece in self._pieces(part, _BATCH, "states")]
        return np.concatenate([self.first_states_in(piece) for piece in pieces])

    def first_states_in(self, piece: Chunk) -> FloatArray:
        """Return the first states of the episodes that start in this chunk, (e, p)."""
        rows = piece.transitions
        first, last = np.searchsorted(self.starts, (piece.first, piece.first + len(rows)))
        return piece.states[rows[self.starts[first:last] - piece.first]]

    def chunks(
        self,
        part: Any,
        size: int = CHUNK,
        *,
        with_next_states: bool = True,
        propensity: bool = False,
        compact: bool = True,
    ) -> Iterator[Chunk]:
        """Yield the transitions of one part in order, at most `size` at a time.

        `with_next_states` and `propensity` include these columns. Without `compact`, chunks may
        contain rows that are not transitions.
        """
        optional = ("next_states",) * with_next_states + ("propensity",) * propensity
        for piece in self._pieces(part, size, "states", "actions", "rewards", *optional):
            if piece.kept is None or len(piece.kept):
                yield piece.compact() if compact else piece

    def rewards(self, part: Any) -> Iterator[FloatArray]:
        """Yield the rewards of one part in order, clipped to the reward limits."""
        for piece in self._pieces(part, _BATCH, "rewards"):
            yield piece.compact().rewards

    def _pieces(self, part: Any, size: int, *columns: str) -> Iterator[Chunk]:
        """Yield these columns of one part, with episodes selected, rewards clipped, actions merged."""
        for piece in self.reader.chunks(part, size, columns):
            if self.place is not None:
                piece = self._chosen(piece, self.place[piece.episode])
            if self.reward_limits is not None:
                piece = replace(piece, rewards=np.clip(piece.rewards, *self.reward_limits))
            if self.one_action and "actions" in columns:
                sure = None if piece.propensity is None else np.ones(len(piece))
                piece = replace(piece, actions=np.zeros(len(piece), dtype=np.intp), propensity=sure)
            yield piece

    def _chosen(self, piece: Chunk, place: IntArray) -> Chunk:
        rows = piece.transitions
        kept = rows[place[rows] >= 0]
        if len(kept) == 0:
            return replace(piece, kept=kept)
        head = kept[0]
        before = piece.first + np.searchsorted(rows, head)  # its place among all transitions
        first = self.starts[place[head]] + before - self.reader.starts[piece.episode[head]]
        return replace(piece, first=int(first), episode=place, kept=kept)

    def take(self, episodes: IntArray, *, count_actions: bool = True) -> LazyLog:
        """Return the log of these episodes, in log order; only their actions are read now."""
        chosen = np.unique(episodes)
        known = (
            np.arange(self.n_episodes) if self.place is None else np.flatnonzero(self.place >= 0)
        )
        place = np.full(len(self.reader.starts) - 1, -1)
        place[known[chosen]] = np.arange(len(chosen))
        taken = replace(
            self,
            place=place,
            parts=tuple(part for part in self.parts if self._some_of(part, place)),
            starts=np.append(0, np.cumsum(self.lengths[chosen])),
            episode_ids=self.episode_ids[chosen],
            group_ids=None if self.group_ids is None else self.group_ids[chosen],
            ends=self.ends[chosen],
        )
        if self.action_counts is None or not count_actions:
            return taken
        counts = np.zeros_like(self.action_counts)
        for part in taken.parts:  # exact counts: checks need to know which actions never occur
            for piece in taken._pieces(part, _BATCH, "actions"):
                counts += np.bincount(piece.compact().actions, minlength=len(counts))
        return replace(taken, action_counts=counts)

    def _some_of(self, part: Any, place: IntArray) -> bool:
        found = self.reader.episodes(part)
        return bool((place[found.start : found.stop] >= 0).any())

    def without_parts(self) -> LazyLog:
        """Return the log without its list of parts, for workers that receive one part per task."""
        return replace(self, parts=())

    def with_reward_limits(self, low: float, high: float) -> LazyLog:
        """Return the same log with rewards clipped to [low, high]."""
        return replace(self, reward_limits=(float(low), float(high)))

    def load(self) -> Log:
        """Read everything into memory."""
        n = self.n_transitions
        columns: dict[str, AnyArray] = {}
        for part in self.parts:
            for piece in self.chunks(part, propensity=self.has_propensity):
                rows = slice(piece.first, piece.first + len(piece))
                for name in COLUMNS:
                    values = getattr(piece, name)
                    if values is not None:
                        if name not in columns:
                            columns[name] = np.empty((n, *values.shape[1:]), values.dtype)
                        columns[name][rows] = values
        truncated = np.zeros(n, dtype=bool)
        truncated[self.starts[1:] - 1] = ~self.ends
        shared: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(LogView)}
        shared["propensity"] = None
        return Log(**{**shared, **columns}, truncated=truncated)

    @property
    def bytes_in_memory(self) -> int:
        """Bytes that the arrays of `load` need."""
        actions = 1 if isinstance(self.action_space, Discrete) else self.action_space.dimension
        return 8 * self.n_transitions * (2 * len(self.state_names) + actions + 3)

    @property
    def memory_budget(self) -> int:
        """Bytes that loaded transitions may use."""
        return physical_memory() // 4 if self.budget is None else self.budget

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __repr__(self) -> str:
        return (
            f"LazyLog({self.n_transitions} transitions, {self.n_episodes} episodes of "
            f"{self.label} in {len(self.parts)} parts; {len(self.state_names)} state variables, "
            f"{self.action_space}; {int(self.ends.sum())} terminated; {self._groups_in_words()}; "
            f"{'' if self.has_propensity else 'no '}propensities)"
        )


AnyLog = Log | LazyLog


def in_memory(log: AnyLog, who: str) -> Log:
    """Return the whole log in memory; raise a `MethodError` if it does not fit. `who` needs it."""
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


def with_one_action(log: AnyLog, label: str) -> AnyLog:
    """Return the log with all actions replaced by one action of this label."""
    space = Discrete(1, (label,))
    if isinstance(log, LazyLog):
        counts = np.array([log.n_transitions])
        return replace(log, one_action=True, action_space=space, action_counts=counts)
    return replace(
        log,
        actions=np.zeros(log.n_transitions, dtype=np.intp),
        action_space=space,
        propensity=None if log.propensity is None else np.ones(log.n_transitions),
    )


def sample_to_budget(log: AnyLog, who: str, *, features: int | None = None, seed: int = 0) -> Log:
    """Load a log, or a random sample of whole episodes that fits the memory budget, with a warning.

    The sample consists of whole groups, or without groups of runs of neighbouring episodes, so that
    clustered extremes stay together. Episodes keep the order of the log.

    Parameters
    ----------
    who
        The function or method that needs the data, for the warning.
    features
        Number of features per row, for the memory estimate; by default that of the paper's features.
    """
    if isinstance(log, Log):
        return log
    if features is None:
        p = len(log.state_names)
        blocks = log.n_actions if log.is_discrete else 1
        features = blocks * (1 + p + p * (p - 1) // 2)
    each = log.bytes_in_memory / log.n_transitions + 8 * _COPIES * features
    rows = int(log.memory_budget / each)
    if log.n_transitions <= rows:
        return log.load()
    chosen = sampled_episodes(log, rows, seed=seed)
    if len(chosen) == 0:
        raise LogError(
            f"{who} may take {log.memory_budget / 1e9:.3g} GB, about {rows} of {log.n_transitions} "
            f"transitions, and not even one {'group' if log.group_ids is not None else 'episode'} "
            f"that was drawn is so short. Raise the budget, or use a method that reads a log in pieces."
        )
    taken = log.take(chosen, count_actions=False).load()
    warnings.warn(
        f"{who} looked at {taken.n_episodes} of {log.n_episodes} episodes, {taken.n_transitions} of "
        f"{log.n_transitions} transitions, drawn with seed {seed}: it needs them in memory, and may "
        f"take {log.memory_budget / 1e9:.3g} GB. Raise the budget for more; fqe, lstd, mis, dr, fqi "
        f"and their folds read all of a log in pieces.",
        SampleWarning,
        stacklevel=3,
    )
    return taken


def sampled_episodes(log: LazyLog, rows: int, *, seed: int) -> IntArray:
    """Return random episodes with at most `rows` transitions in total, in log order."""
    rng = np.random.default_rng([seed, 3])
    if log.group_ids is not None:
        unit, order = log.group_of_episode, shuffled_groups(log, rng)
    else:
        count = min(_BLOCKS, log.n_episodes)
        unit, order = np.arange(log.n_episodes) * count // log.n_episodes, rng.permutation(count)
    sizes = np.bincount(unit, weights=log.lengths)
    enough = int(np.searchsorted(np.cumsum(sizes[order]), rows, side="right"))
    return np.flatnonzero(np.isin(unit, order[:enough]))
