"""Partitions: which episodes each of the K members sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tailproof.arrays import IntArray
from tailproof.errors import PartitionError
from tailproof.log import Log


@dataclass(frozen=True)
class Folds:
    """K subsets of the episodes, as how often member k sees episode e."""

    counts: IntArray  # (K, E)

    @property
    def count(self) -> int:
        """Number of members, K."""
        return len(self.counts)

    @property
    def are_disjoint(self) -> bool:
        """Whether every episode is seen by at most one member, once."""
        return bool((self.counts.sum(axis=0) <= 1).all())

    def fold_of_episode(self) -> IntArray:
        """Return the member that sees each episode, (E,), −1 for none; for disjoint folds."""
        seen = self.counts.any(axis=0)
        return np.where(seen, self.counts.argmax(axis=0), -1)

    def episodes(self, member: int) -> IntArray:
        """Return the indices of the episodes of one member, repeated as often as it sees them."""
        return np.repeat(np.arange(self.counts.shape[1]), self.counts[member])

    def log(self, log: Log, member: int) -> Log:
        """Return the log that one member sees."""
        return log.take(self.episodes(member))

    def subset(self, members: IntArray) -> Folds:
        """Return only these members."""
        return Folds(self.counts[members])


class Partition(Protocol):
    """How a log is dealt to K members: whole groups at a time."""

    @property
    def count(self) -> int:
        """Number of members, K."""

    def assign(self, log: Log, rng: np.random.Generator) -> Folds:
        """Deal the log's episodes."""


@dataclass(frozen=True)
class Whole:
    """One member that sees everything."""

    @property
    def count(self) -> int:
        """One."""
        return 1

    def assign(self, log: Log, rng: np.random.Generator) -> Folds:  # noqa: ARG002
        """Give every episode to the one member."""
        return Folds(np.ones((1, log.n_episodes), dtype=np.intp))


@dataclass(frozen=True)
class Split:
    """K disjoint folds of whole groups, dealt at random; the partition of ROAM and ROOM.

    Examples
    --------
    >>> import numpy as np
    >>> from tailproof import Log
    >>> log = Log.from_arrays(np.zeros(6), np.zeros(6, int), np.zeros(6), np.zeros(6),
    ...                       episode=range(6), group=[0, 0, 1, 1, 2, 2])
    >>> folds = Split(3).assign(log, np.random.default_rng(0))
    >>> sorted(folds.episodes(k).tolist() for k in range(3))
    [[0, 1], [2, 3], [4, 5]]
    """

    folds: int = 5

    def __post_init__(self) -> None:
        _check_count("folds", self.folds)

    @property
    def count(self) -> int:
        """Number of folds, K."""
        return self.folds

    def assign(self, log: Log, rng: np.random.Generator) -> Folds:
        """Deal the groups like cards, so that folds differ by at most one group."""
        if log.n_groups < self.folds:
            unit = "episodes" if log.group_ids is None else "groups"
            raise PartitionError(
                f"{self.folds} folds need at least {self.folds} {unit}. The log has "
                f"{log.n_groups}; use fewer folds or a longer log."
            )
        fold_of_group = np.empty(log.n_groups, dtype=np.intp)
        fold_of_group[rng.permutation(log.n_groups)] = np.arange(log.n_groups) % self.folds
        fold = fold_of_group[log.group_of_episode]
        return Folds((fold == np.arange(self.folds)[:, None]).astype(np.intp))


@dataclass(frozen=True)
class Bootstrap:
    """K resamples of the groups with replacement, each as large as the log."""

    folds: int = 5

    def __post_init__(self) -> None:
        _check_count("folds", self.folds)

    @property
    def count(self) -> int:
        """Number of resamples, K."""
        return self.folds

    def assign(self, log: Log, rng: np.random.Generator) -> Folds:
        """Draw the groups of each member."""
        even = np.full(log.n_groups, 1 / log.n_groups)
        drawn = rng.multinomial(log.n_groups, even, size=self.folds)  # (K, groups)
        return Folds(drawn[:, log.group_of_episode])


@dataclass(frozen=True)
class Replicate:
    """K members that each see the whole log: the ensemble of SAC-N."""

    folds: int = 5

    def __post_init__(self) -> None:
        _check_count("folds", self.folds)

    @property
    def count(self) -> int:
        """Number of members, K."""
        return self.folds

    def assign(self, log: Log, rng: np.random.Generator) -> Folds:  # noqa: ARG002
        """Give every episode to every member."""
        return Folds(np.ones((self.folds, log.n_episodes), dtype=np.intp))


def _check_count(name: str, value: int) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise PartitionError(f"{name} must be a whole number of at least 1. Got {value!r} instead.")
